// What a real browser says of pages: node browser.mjs CHROMIUM AXE_JS PAGE.html... prints JSON, one
// entry a page and look. Chromium is driven over its own debugging pipe, without any library.
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [chromium, axePath, ...pages] = process.argv.slice(2);
const axe = readFileSync(axePath, "utf8");
// Widths in px on each side of every break of the layout; each look ends with its own.
const LOOKS = [
  { scheme: "light", widths: [800, 961, 1280] },
  { scheme: "light", widths: [735, 480, 360] },
  { scheme: "dark", widths: [1280] },
];
const PATIENCE = 120_000; // ms that one answer may take

// Ways out of a page: its policy must stop each.
const ESCAPE = `new Promise(resolve => {
  const stopped = [];
  document.addEventListener("securitypolicyviolation", e => stopped.push(e.effectiveDirective));
  const add = (tag, fields) => document.body.append(Object.assign(document.createElement(tag), fields));
  add("script", { textContent: "window.escaped = true" });
  add("script", { src: "https://elsewhere.invalid/x.js" });
  add("style", { textContent: "body { color: red }" });
  add("img", { src: "https://elsewhere.invalid/x.png" });
  add("iframe", { src: "https://elsewhere.invalid/" });
  document.body.setAttribute("style", "color: red");
  fetch("https://elsewhere.invalid/").catch(() => 0);
  setTimeout(() => resolve({ escaped: window.escaped === true, stopped: [...new Set(stopped)].sort() }), 300);
})`;
const OPEN = `document.querySelectorAll("details").forEach(d => { d.open = true })`;
// The first table of Attacks by one of its columns, falling; and the measures that a word leaves.
const SORT = `(() => {
  const table = document.querySelector(".matrix table");
  if (!table) return null;
  const shown = () => [...table.tBodies[0].rows].filter(row => !row.hidden);
  const one = row => row.cells[Math.min(3, row.cells.length - 1)];
  const button = one(table.tHead.rows[0]).querySelector("button");
  button.click(), button.click();
  const values = shown().map(row => parseFloat(one(row).textContent)).filter(value => !isNaN(value));
  const field = document.querySelector(".filter input");
  const word = shown()[0].cells[0].textContent.trim();
  const ask = text => { field.value = text; field.dispatchEvent(new Event("input")); return shown().length; };
  return { values, all: shown().length, word: ask(word), none: ask("no measure has it"), again: ask("") };
})()`;
const WIDTH = `document.scrollingElement.scrollWidth`;
const AXE = `axe.run(document, { resultTypes: ["violations"] }).then(found => found.violations.map(v =>
  v.id + ": " + v.help + " " + v.nodes.slice(0, 3).map(n => n.target + " " + n.failureSummary).join(" | ")))`;

class Browser {
  constructor() {
    this.profile = mkdtempSync(join(tmpdir(), "browser-"));
    const flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
      "--disable-background-networking", "--remote-debugging-pipe", `--user-data-dir=${this.profile}`];
    this.process = spawn(chromium, flags, { stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"] });
    this.waiting = new Map();
    this.events = [];
    let rest = "";
    this.process.stdio[4].setEncoding("utf8").on("data", chunk => {
      const messages = (rest + chunk).split("\0");
      rest = messages.pop();
      messages.forEach(message => this.receive(JSON.parse(message)));
    });
    this.process.on("exit", () => this.waiting.forEach(({ reject }) => reject(new Error("chromium ended"))));
    this.process.on("error", error => { throw error; });
  }

  receive(message) {
    if (!("id" in message)) return this.events.push(message);
    const { resolve, reject, timer } = this.waiting.get(message.id);
    clearTimeout(timer);
    this.waiting.delete(message.id);
    message.error ? reject(new Error(message.error.message)) : resolve(message.result);
  }

  send(method, params = {}) {
    const id = (this.last = (this.last ?? 0) + 1);
    this.process.stdio[3].write(JSON.stringify({ id, method, params, sessionId: this.session }) + "\0");
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`no answer to ${method}`)), PATIENCE);
      this.waiting.set(id, { resolve, reject, timer });
    });
  }

  async evaluate(expression) {
    const told = await this.send("Runtime.evaluate", { expression, awaitPromise: true, returnByValue: true });
    if (told.exceptionDetails) throw new Error(JSON.stringify(told.exceptionDetails));
    return told.result.value;
  }

  async open(url, scheme) {
    this.session = undefined;
    const { targetId } = await this.send("Target.createTarget", { url: "about:blank" });
    const { sessionId } = await this.send("Target.attachToTarget", { targetId, flatten: true });
    this.session = sessionId;
    for (const domain of ["Page", "Network", "Runtime", "Log"]) await this.send(`${domain}.enable`);
    const features = [{ name: "prefers-color-scheme", value: scheme }];
    await this.send("Emulation.setEmulatedMedia", { features });
    this.events = [];
    await this.send("Page.navigate", { url });
    while ((await this.evaluate("document.readyState")) !== "complete");
    return targetId;
  }

  async resize(width) {
    const screen = { width, height: 800, deviceScaleFactor: 1, mobile: width < 600 };
    await this.send("Emulation.setDeviceMetricsOverride", screen);
  }

  async close() {
    this.session = undefined;
    await this.send("Browser.close");
    await new Promise(resolve => this.process.once("exit", resolve));
    rmSync(this.profile, { recursive: true, force: true });
  }
}

async function roles(browser) {
  const { nodes } = await browser.send("Accessibility.getFullAXTree");
  const counts = {};
  for (const { ignored, role } of nodes) if (!ignored) counts[role.value] = (counts[role.value] ?? 0) + 1;
  return counts;
}

function told(events, url) {
  const of = (method, say) => events.filter(e => e.method === method).map(e => say(e.params));
  return {
    requests: of("Network.requestWillBeSent", p => p.request.url).filter(asked => asked !== url),
    console: [
      ...of("Log.entryAdded", p => p.entry.text),
      ...of("Runtime.consoleAPICalled", p => JSON.stringify(p.args)),
      ...of("Runtime.exceptionThrown", p => p.exceptionDetails.text),
    ],
  };
}

async function tooWide(browser, widths) {
  const found = [];
  for (const width of widths) {
    await browser.resize(width);
    const needed = await browser.evaluate(WIDTH);
    if (needed > width) found.push([width, needed]);
  }
  return found;
}

async function look(browser, page, { scheme, widths }) {
  const url = pathToFileURL(page).href;
  const targetId = await browser.open(url, scheme);
  const entry = { page, scheme, width: widths.at(-1) };
  entry.background = await browser.evaluate("getComputedStyle(document.body).backgroundColor");
  entry.wide = await tooWide(browser, widths);
  await browser.evaluate(OPEN);
  entry.wide.push(...(await tooWide(browser, widths)));
  Object.assign(entry, told(browser.events, url));
  entry.roles = scheme === "light" ? await roles(browser) : {};
  entry.sorted = await browser.evaluate(SORT);
  await browser.evaluate(axe);
  entry.violations = await browser.evaluate(AXE);
  entry.escape = await browser.evaluate(ESCAPE);
  browser.session = undefined;
  await browser.send("Target.closeTarget", { targetId });
  return entry;
}

const browser = new Browser();
const found = [];
try {
  for (const page of pages) for (const how of LOOKS) found.push(await look(browser, page, how));
} finally {
  await browser.close();
}
console.log(JSON.stringify(found));
