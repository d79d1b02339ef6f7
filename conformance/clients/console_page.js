// Eyes of the lab `console` within a page of the console. The browser runs this file in each page
// before the page's own script, so nothing that happens there is missed.

const lab = {
  // Breaches of the content security policy.
  breaches: [],
  // Number of live figures and lines of charts that were written since the page came.
  moves: 0,
  // Controls in the order in which Tab reached them, and whether each showed it.
  reached: new Map(),
};
window.lab = lab;

const FIGURES = "[data-v], [data-now], path[data-s]";
const CONTROLS =
  "a[href], button:enabled, input:enabled:not([type=hidden]), select:enabled, textarea:enabled, summary";

document.addEventListener("securitypolicyviolation", (event) => {
  lab.breaches.push(`${event.effectiveDirective} ${event.blockedURI}`);
});

addEventListener("DOMContentLoaded", () => {
  const isFigure = (node) => (node.closest ? node : node.parentElement)?.closest(FIGURES);
  const observer = new MutationObserver((changes) => {
    lab.moves += changes.filter((change) => isFigure(change.target)).length;
  });
  observer.observe(document.body, {
    subtree: true,
    characterData: true,
    childList: true,
    attributes: true,
    attributeFilter: ["d"],
  });
});

// An element that has focus shows it by an outline or a shadow.
document.addEventListener("focusin", ({ target }) => {
  const style = getComputedStyle(target);
  const outlined = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0;
  lab.reached.set(target, outlined || style.boxShadow !== "none");
});

function name(element) {
  const text = (element.getAttribute("aria-label") ?? element.textContent).trim();
  return `${element.localName}${element.id ? `#${element.id}` : ""} "${text.slice(0, 40)}"`;
}

// Returns the controls that a reader can use now. Of a group of radio buttons Tab reaches one.
lab.controls = () => {
  const groups = new Set();
  return [...document.querySelectorAll(CONTROLS)].filter((element) => {
    if (element.type === "radio") {
      const group = `${element.form?.action} ${element.name}`;
      if (groups.has(group)) return false;
      groups.add(group);
    }
    return element.checkVisibility({ visibilityProperty: true });
  });
};

// Returns the number of places at which Tab may stop: controls, and what scrolls.
lab.stops = () => {
  const scrolls = [...document.querySelectorAll("*")].filter(
    (element) => element.scrollWidth > element.clientWidth || element.tabIndex === 0,
  );
  return new Set([...lab.controls(), ...scrolls]).size;
};

// Returns what is wrong with the keyboard's way through the page.
lab.keyboard = () => {
  const isChecked = (element) =>
    element.type === "radio" &&
    [...lab.reached.keys()].some((it) => it.type === "radio" && it.name === element.name);
  const missed = lab.controls().filter((it) => !lab.reached.has(it) && !isChecked(it));
  const unseen = [...lab.reached].filter(([, shows]) => !shows).map(([element]) => element);
  return [
    ...missed.map((element) => `Tab does not reach ${name(element)}`),
    ...unseen.map((element) => `${name(element)} does not show its focus`),
  ];
};

// Returns what sticks out of a screen of this width. What scrolls within itself does not.
lab.overhang = (width) => {
  if (document.documentElement.scrollWidth <= width) return [];
  const scrolls = (element) =>
    element && (getComputedStyle(element).overflowX !== "visible" || scrolls(element.parentElement));
  const out = [...document.body.querySelectorAll("*")].filter(
    (element) =>
      element.getBoundingClientRect().right > width + 1 && !scrolls(element.parentElement),
  );
  return [`${document.documentElement.scrollWidth} pixels wide`, ...out.slice(0, 3).map(name)];
};

// Returns the rows of tables whose first lines do not stand on one line. Cells with controls are
// higher than a line, and are left out.
lab.crooked = () => {
  const firstLine = (cell) => {
    if (cell.querySelector("button, select, .button, input:not([type=checkbox], [type=radio])")) return null;
    const texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
      const range = document.createRange();
      range.selectNodeContents(texts.currentNode);
      const [line] = texts.currentNode.data.trim() ? range.getClientRects() : [];
      if (line) return (line.top + line.bottom) / 2;
    }
    return null;
  };
  const crooked = [...document.querySelectorAll("tbody tr")].filter((row) => {
    const lines = [...row.cells].map(firstLine).filter((line) => line !== null);
    return Math.max(...lines) - Math.min(...lines) > 4;
  });
  return crooked.slice(0, 3).map((row) => `the row ${name(row)} is crooked`);
};

// Asks axe, and returns its findings that keep a person from using the page.
lab.axe = async (rules) => {
  const options = { resultTypes: ["violations"], runOnly: rules };
  const { violations } = await axe.run(document, options);
  return violations
    .filter((finding) => ["serious", "critical"].includes(finding.impact))
    .map((finding) => {
      const places = finding.nodes.slice(0, 3).map((node) => node.target.join(" "));
      return `axe: ${finding.id}: ${finding.help}: ${places.join("; ")}`;
    });
};

// Walks all pages of this server from `/` by their links. A page is asked for once for each set of
// names in its query, and the orders and windows of a list are one page. Pages of objects, whose
// names are given, have one shape.
lab.walk = async (most, names) => {
  const OF_LISTS = ["sort", "q", "offset", "limit", "format"];
  const known = new Set();
  const pages = [];
  const queue = [];
  const add = (href, from) => {
    const url = new URL(href, from);
    if (url.origin !== location.origin) return;
    for (const name of OF_LISTS) url.searchParams.delete(name);
    const asked = [...new Set(url.searchParams.keys())].sort();
    const key = `${url.pathname}?${asked}`;
    if (known.has(key)) return;
    known.add(key);
    const segments = url.pathname.split("/").map(decodeURIComponent);
    const isName = (segment) => names.includes(segment) || /^\d+$/.test(segment);
    const shape = segments.map((it) => (isName(it) ? "*" : it)).join("/");
    queue.push({
      path: `${url.pathname}${url.search}`,
      shape: asked.length ? `${shape}?${asked}` : shape,
      from: new URL(from).pathname,
    });
  };
  add("/", location.href);
  while (queue.length && pages.length < most) {
    const { path, shape, from } = queue.shift();
    const answer = await fetch(path, { headers: { accept: "text/html" } });
    const kind = answer.headers.get("content-type") ?? "";
    const page = { path, shape, from, status: answer.status, actions: [] };
    pages.push(page);
    if (!kind.startsWith("text/html")) continue;
    const text = await answer.text();
    const found = new DOMParser().parseFromString(text, "text/html");
    for (const link of found.querySelectorAll("a[href]")) {
      add(link.getAttribute("href"), answer.url);
    }
    for (const form of found.querySelectorAll("form")) {
      const sends = form.querySelector("button:not([disabled]):not([type=button])");
      if (!sends) continue;
      const action = new URL(form.getAttribute("action") ?? path, answer.url);
      if (form.method === "post") page.actions.push(action.pathname);
      else add(`${action.pathname}${action.search}`, answer.url);
    }
  }
  return { pages, left: queue.length };
};

// Sends an empty form to each action, and returns the status of each answer; 0 is a redirection.
lab.send = async (actions) => {
  const statuses = [];
  for (const action of actions) {
    const answer = await fetch(action, {
      method: "POST",
      redirect: "manual",
      body: new URLSearchParams(),
    });
    statuses.push(answer.status);
  }
  return statuses;
};
