// Live figures of the console.
//
// The server sends texts, and this script puts them into text nodes that the page has already. It
// makes no markup from what it gets. A page is whole without it.

const page = document.body;
const broken = document.querySelector(".broken");
const FIRST_WAIT_MS = 1000;
const LONGEST_WAIT_MS = 30000;
// The server sends something at least every 15 s.
const SILENCE_MS = 40000;

let source = null;
let waitMs = FIRST_WAIT_MS;
let retry = 0;
let watchdog = 0;
let lastHeard = null;

// ---- Places of figures -------------------------------------------------------------------------

const places = new Map();

// Finds the objects of the page: rows of tables and nodes of pictures. An object may stand in
// several places.
function findPlaces() {
  for (const element of document.querySelectorAll("[data-id]")) {
    const id = element.dataset.id;
    if (!places.has(id)) places.set(id, []);
    for (const cell of element.querySelectorAll("[data-v]")) {
      places.get(id).push([Number(cell.dataset.v), cell]);
    }
  }
}

function write(element, text) {
  const only = element.firstChild;
  if (only && only.nodeType === Node.TEXT_NODE && !only.nextSibling) {
    if (only.data !== text) only.data = text;
  } else {
    element.textContent = text;
  }
}

const STATES = ["good", "off", "warn", "bad"];

function colour(element, state) {
  if (!STATES.includes(state)) return;
  element.classList.remove(...STATES);
  element.classList.add(state);
}

// Shows a text with the colour of its state, or with the page that it leads to.
function show(cell, { text, class: state, href }) {
  write(cell, text);
  colour(cell, state);
  if (href === null) cell.removeAttribute("href");
  else if (href?.startsWith("/") && !href.startsWith("//")) cell.setAttribute("href", href);
}

function showRows(event) {
  const { ids, v } = JSON.parse(event.data);
  ids.forEach((id, at) => {
    for (const [number, cell] of places.get(id) ?? []) {
      const value = v[at][number];
      if (typeof value === "string") write(cell, value);
      else if (value) show(cell, value);
    }
  });
}

function showState(event) {
  const state = JSON.parse(event.data);
  for (const element of document.querySelectorAll("[data-text]")) {
    const text = state.text[element.dataset.text];
    if (text !== undefined) write(element, String(text));
  }
  const health = document.querySelector(".health");
  if (health) colour(health, state.class);
}

// ---- Charts ------------------------------------------------------------------------------------

const POINTS = 300;
const charts = [];
const times = [];
const values = [];

// The picture of a chart was drawn by the server. The same rules hold here: see chart.rs.
function findCharts() {
  for (const figure of document.querySelectorAll(".chart")) {
    const svg = figure.querySelector("svg[data-first]");
    if (!svg) continue;
    charts.push({
      svg,
      first: Number(svg.dataset.first),
      left: Number(svg.dataset.left),
      top: Number(svg.dataset.top),
      width: Number(svg.dataset.width),
      height: Number(svg.dataset.height),
      lines: [...svg.querySelectorAll("path[data-s]")],
      ticks: [...svg.querySelectorAll("text[data-tick]")],
      now: [...figure.querySelectorAll("[data-now]")],
      decimals: Number(svg.dataset.decimals),
      seconds: Number(svg.dataset.seconds),
    });
  }
}

// Rounds up to 1, 2 or 5 times a power of ten.
function niceLimit(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((factor) => factor * power).find((limit) => limit >= value);
}

function tickText(value) {
  if (value >= 1000) return `${Number((value / 1000).toPrecision(3))}k`;
  return String(Number(value.toPrecision(3)));
}

function draw(chart) {
  const end = times[times.length - 1];
  const columns = chart.lines.map((_, at) => values.map((row) => row[chart.first + at]));
  const greatest = Math.max(0, ...columns.flat().filter((value) => value !== null));
  const limit = niceLimit(greatest);
  chart.lines.forEach((line, at) => {
    let path = "";
    let isDrawing = false;
    columns[at].forEach((value, index) => {
      const age = (end - times[index]) / 1000;
      if (value === null || age > chart.seconds) {
        isDrawing = false;
        return;
      }
      const x = chart.left + chart.width * (1 - age / chart.seconds);
      const y = chart.top + chart.height * (1 - value / limit);
      path += `${isDrawing ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`;
      isDrawing = true;
    });
    line.setAttribute("d", path);
  });
  for (const tick of chart.ticks) write(tick, tickText(limit * Number(tick.dataset.tick)));
  for (const place of chart.now) {
    const value = values[values.length - 1][Number(place.dataset.now)];
    write(place, value === null ? "–" : value.toFixed(chart.decimals));
  }
}

function showPoints(event) {
  const { t, v } = JSON.parse(event.data);
  t.forEach((time, at) => {
    if (times.length && time <= times[times.length - 1]) return;
    times.push(time);
    values.push(v[at]);
  });
  const surplus = times.length - POINTS;
  if (surplus > 0) {
    times.splice(0, surplus);
    values.splice(0, surplus);
  }
  if (times.length) charts.forEach(draw);
}

// ---- The stream --------------------------------------------------------------------------------

function address() {
  const url = new URL(page.dataset.stream, location.href);
  if (places.size) url.searchParams.set("ids", [...places.keys()].join("\n"));
  return url;
}

function heard() {
  lastHeard = new Date();
  waitMs = FIRST_WAIT_MS;
  broken.hidden = true;
  page.classList.remove("stale");
  clearTimeout(watchdog);
  watchdog = setTimeout(lost, SILENCE_MS);
}

function listen(show) {
  return (event) => {
    heard();
    show(event);
  };
}

function open() {
  if (source || document.hidden) return;
  source = new EventSource(address());
  source.addEventListener("rows", listen(showRows));
  source.addEventListener("points", listen(showPoints));
  source.addEventListener("state", listen(showState));
  source.onerror = lost;
  watchdog = setTimeout(lost, SILENCE_MS);
}

function close() {
  clearTimeout(retry);
  clearTimeout(watchdog);
  source?.close();
  source = null;
}

// Says since when the figures stand still, and tries again, ever more seldom.
function lost() {
  close();
  const since = (lastHeard ?? new Date()).toLocaleTimeString([], { hour12: false });
  write(broken.querySelector(".since"), since);
  broken.hidden = false;
  page.classList.add("stale");
  retry = setTimeout(open, waitMs);
  waitMs = Math.min(waitMs * 2, LONGEST_WAIT_MS);
}

// A hidden tab holds no connection: browsers open few to one host.
function followVisibility() {
  if (document.hidden) close();
  else open();
}

findPlaces();
findCharts();
document.addEventListener("visibilitychange", followVisibility);
addEventListener("pagehide", close);
addEventListener("pageshow", open);
open();
