// Sorts the tables of Attacks by a column, and hides the measures without a word. The page's policy
// runs this text by its hash and no other; without scripts everything is there, in its first order.
"use strict";
const POWERS = "⁰¹²³⁴⁵⁶⁷⁸⁹";
const NUMBER = /^[<>≤≥]?\s*([-−]?[\d.]+)(?:\s*×\s*10([⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+))?/;

// The number that a field begins with; NaN where it begins with none.
function number(field) {
  const text = (field.querySelector("strong") ?? field).textContent.trim().replaceAll(",", "");
  const [, digits, power = "⁰"] = NUMBER.exec(text) ?? [];
  const exponent = [...power].map(sign => (sign === "⁻" ? "-" : POWERS.indexOf(sign))).join("");
  return Number(`${digits?.replace("−", "-")}e${exponent}`);
}

function sort(head, column) {
  const falling = head.getAttribute("aria-sort") === "ascending";
  for (const other of head.parentNode.cells) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", falling ? "descending" : "ascending");
  const body = head.closest("table").tBodies[0];
  const keys = new Map([...body.rows].map(row => [row, number(row.cells[column])]));
  const words = row => row.cells[column].textContent.trim();
  const rising = (a, b) => (keys.get(a) - keys.get(b)) || words(a).localeCompare(words(b));
  const lacks = row => Number.isNaN(keys.get(row)); // these come last, whichever way
  const numbers = rows => rows.filter(row => !lacks(row)).sort(rising);
  const others = rows => rows.filter(lacks).sort(rising);
  const parts = [numbers([...body.rows]), others([...body.rows])];
  body.append(...parts.flatMap(part => (falling ? part.reverse() : part)));
}

function filter(folds, word) {
  for (const fold of folds) {
    const rows = [...fold.querySelectorAll("tbody tr")];
    for (const row of rows) row.hidden = !row.textContent.toLowerCase().includes(word);
    fold.hidden = rows.length > 0 && rows.every(row => row.hidden);
    if (word) fold.open = true;
  }
}

const section = document.querySelector("section[aria-labelledby=attacks]");
for (const head of section.querySelectorAll("thead th")) {
  const button = document.createElement("button");
  button.textContent = "⇅";
  button.setAttribute("aria-label", `Sort by ${(head.querySelector("a") ?? head).textContent.trim()}`);
  button.addEventListener("click", () => sort(head, head.cellIndex));
  head.append(" ", button);
}
const field = document.createElement("input");
field.type = "search";
field.addEventListener("input", () => filter(section.querySelectorAll("details"), field.value.toLowerCase()));
const label = document.createElement("label");
label.className = "filter";
label.append("Only measures with ", field);
section.querySelector(".note").after(label);
