// What a reader of a page finds in it, told without help of the page's scripts: its headings, its
// rows and its controls. The lab `console` compares it with and without scripts.
const main = document.querySelector("main");
const texts = (selector) => [...main.querySelectorAll(selector)].map((it) => it.textContent.trim());
return {
  headings: texts("h1, h2, h3, legend, label, thead th"),
  rows: main.querySelectorAll("tbody tr").length,
  controls: texts("a[href], button").length,
  letters: main.innerText.replace(/\s/g, "").length,
};
