// Uses the labelling pages and the page of `ecgfed serve` in one language, and prints every text that they showed, as JSON.
// node languages.mjs CHROMIUM GIVEN.json FOLDER for screenshots
// GIVEN.json: {language, labels: [files of labelling pages], serve: address, board, recording, bad: [files]}
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import puppeteer from "puppeteer-core";

const require = createRequire(import.meta.url);
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const [chromium, input, folder] = process.argv.slice(2);
const job = JSON.parse(readFileSync(input, "utf8"));
const args = process.getuid && process.getuid() === 0 ? ["--no-sandbox"] : [];
const browser = await puppeteer.launch({ executablePath: chromium, headless: true, args, protocolTimeout: 300_000 });
const results = { errors: [], texts: [], axe: {}, widths: {}, cut: {}, languages: [] };
const WAIT = { timeout: 240_000, polling: 100 };

/** In the page: collect the texts of all elements, and those read aloud, whenever something changes. */
function collecting() {
  window.texts = new Set();
  performance.now = () => 1000 * Date.now(); // answers at once are no double clicks
  const collect = () => {
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      if (!node.parentElement.closest("script, style, noscript, nav")) window.texts.add(node.data.trim());
    }
    for (const element of document.querySelectorAll("[aria-label], [title], [alt], [placeholder]")) {
      for (const name of ["aria-label", "title", "alt", "placeholder"]) window.texts.add(element.getAttribute(name) || "");
    }
    window.texts.add(document.title);
  };
  document.addEventListener("DOMContentLoaded", () => {
    new MutationObserver(collect).observe(document.body, { subtree: true, childList: true, characterData: true, attributes: true });
    collect();
  });
}

async function opened(address) {
  const page = await browser.newPage();
  page.on("pageerror", (error) => results.errors.push(String(error)));
  await page.evaluateOnNewDocument(collecting);
  await page.setViewport({ width: 1280, height: 900 });
  await page.goto(address);
  return page;
}

/** Note accessibility, the width on a phone, and a picture of both widths. */
async function checked(page, name) {
  await page.evaluate(axe);
  const found = await page.evaluate(async () => (await window.axe.run()).violations.map((one) => `${one.id}: ${one.nodes.map((node) => node.target).join(" ")}`));
  results.axe[name] = found;
  for (const width of [1280, 390]) {
    await page.setViewport({ width, height: 900 });
    await new Promise((resolve) => setTimeout(resolve, 300));
    results.widths[`${name}-${width}`] = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
    results.cut[`${name}-${width}`] = await page.evaluate(() =>
      [...document.querySelectorAll("button, .answer span, select, li, h1, h2, h3, p, dt, dd, th, td, label, summary")]
        .filter((element) => element.offsetParent !== null && !element.closest(".unseen") && element.clientWidth && getComputedStyle(element).display !== "inline" && element.scrollWidth > element.clientWidth + 1)
        .map((element) => `${element.tagName} ${element.id} ${element.textContent.slice(0, 60)}`),
    );
    await page.screenshot({ path: `${folder}/${job.language}-${name}-${width}.png`, fullPage: true });
  }
  await page.setViewport({ width: 1280, height: 900 });
}

async function taken(page) {
  results.languages.push(await page.evaluate(() => document.documentElement.lang));
  results.texts.push(...(await page.evaluate(() => [...window.texts])));
  await page.close();
}

/** Use every button of a labelling page. */
async function label(address, name) {
  const page = await opened(address);
  await page.waitForFunction(() => !document.getElementById("page").hidden, WAIT);
  await page.$$eval("details", (all) => all.forEach((element) => (element.open = true)));
  const click = (selector) => page.$eval(selector, (element) => element && !element.disabled && element.click());
  for (const key of ["n", "v", "f", "n", "u", "y", "s", "m", "?", "ArrowLeft", "v", "ArrowLeft", "f", "n"]) await page.keyboard.press(key);
  if (await page.$(".tools select")) {
    await page.$$eval(".tools select", (all) => {
      const select = all.find((element) => !element.disabled);
      if (!select) return;
      select.value = select.options[1].value;
      select.dispatchEvent(new Event("change"));
      select.nextElementSibling.click();
    });
    await page.keyboard.press("u");
  }
  await click(".tools button");
  await checked(page, name);
  for (let i = 0; i < 60 && (await page.$eval("#finished", (element) => element.hidden)); i += 1) await page.keyboard.press(i % 3 ? "n" : "v");
  await checked(page, `${name}-finished`);
  await page.evaluate(() => document.getElementById("more").hidden || document.getElementById("more").click());
  if (await page.$("#done")) {
    await page.waitForFunction(() => document.getElementById("kept").textContent !== "", WAIT);
    await click("#done");
    await page.waitForFunction(() => document.getElementById("done").disabled, WAIT);
    await new Promise((resolve) => setTimeout(resolve, 500));
    await page.keyboard.press("u");
  }
  await taken(page);
}

async function serve() {
  const page = await opened(job.serve);
  const ready = () => page.waitForFunction(() => document.documentElement.dataset.ready === "yes", WAIT);
  await ready();
  const add = async (files) => (await page.$("#files")).uploadFile(...files);
  const cards = (count) => page.waitForFunction((many) => document.querySelectorAll("article").length === many, WAIT, count);
  const press = (card, at) => page.evaluate((i, k) => document.querySelectorAll("article")[i].querySelectorAll(".steps button")[k].click(), card, at);
  const done = (card, count) => page.waitForFunction((i, many) => document.querySelectorAll("article")[i].querySelectorAll(".results a").length >= many, WAIT, card, count);
  await add(job.bad);
  await page.waitForFunction(() => document.getElementById("problem").textContent !== "", WAIT);
  await add(job.board);
  await cards(1);
  await page.waitForSelector("article [aria-invalid]", WAIT);
  await checked(page, "serve-form");
  const fill = (name, value) => page.$eval(`article [id$="-${name}"]`, (element, text) => ((element.value = text), element.dispatchEvent(new Event("input", { bubbles: true }))), value);
  const read = () => page.$eval("article form", (form) => form.requestSubmit());
  await fill("fs_hz", "abc");
  await read();
  await page.waitForFunction(() => document.querySelector("article .problem").textContent !== "", WAIT);
  await fill("fs_hz", "");
  await fill("units", "200(512)/mV");
  await read();
  await page.waitForSelector("article figure svg", WAIT);
  await add(job.recording);
  await cards(2);
  await page.click("#sample");
  await cards(3);
  await press(1, 0);
  await page.waitForFunction(() => !document.querySelectorAll("article")[1].querySelector("progress").hidden, WAIT);
  await done(1, 1);
  await press(1, 1);
  await done(1, 2);
  await press(1, 4);
  await page.waitForFunction(() => document.querySelectorAll("#replay-counts tr").length > 0, WAIT);
  await page.click("#replay-pause");
  await checked(page, "serve");
  await page.$eval("#replay-pause", (element) => element.click());
  await page.select("#replay-speed", "60");
  const link = await page.$$eval("article .results a", (all) => all.map((a) => a.href).find((href) => href.endsWith("/label/")));
  await label(link, "served-label");
  await page.bringToFront();
  await page.waitForFunction(() => !document.querySelectorAll("article")[1].querySelectorAll(".steps button")[2].disabled, WAIT);
  await press(1, 2);
  await done(1, 4);
  await page.evaluate(() => document.getElementById("end").click());
  await page.waitForFunction(() => document.getElementById("end").disabled, WAIT);
  await taken(page);
}

/** Change the language of the page of `ecgfed serve` by its links, and back; return the languages. */
async function switched() {
  const page = await opened(job.serve);
  const languages = [];
  for (const language of ["es", "en", job.language]) {
    await Promise.all([page.waitForNavigation(), page.click(`nav a[lang="${language}"]`)]);
    languages.push(await page.evaluate(() => `${document.documentElement.lang} ${document.querySelector("nav [aria-current]").lang}`));
  }
  await page.close();
  return languages;
}

try {
  for (const [i, file] of job.labels.entries()) await label(pathToFileURL(file).href, ["label", "second"][i]);
  results.switched = await switched();
  await serve();
} finally {
  await browser.close();
}
console.log(JSON.stringify(results));
