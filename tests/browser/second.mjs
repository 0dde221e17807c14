// Answers a second reader's page in headless Chromium, and prints what happened as JSON.
// node second.mjs CHROMIUM GIVEN.json FOLDER; GIVEN: {page, recording, keys: of each question in turn}
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import puppeteer from "puppeteer-core";
import { downloaded } from "./download.mjs";

const require = createRequire(import.meta.url);
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const [chromium, input, folder] = process.argv.slice(2);
const job = JSON.parse(readFileSync(input, "utf8"));
const args = process.getuid && process.getuid() === 0 ? ["--no-sandbox"] : [];
const browser = await puppeteer.launch({ executablePath: chromium, headless: true, args });
const results = { errors: [] };
try {
  const page = await browser.newPage();
  page.on("pageerror", (error) => results.errors.push(String(error)));
  page.on("console", (message) => ["error", "warn"].includes(message.type()) && results.errors.push(message.text()));
  await page.setViewport({ width: 1280, height: 900 });
  // the first reader used this browser, too
  const given = Array.from({ length: 2000 }, (_, i) => [i, "F"]);
  const first = JSON.stringify({ version: 1, recording: job.recording, groups: "other", revision: 3, cursor: 0, actions: [], given });
  await page.evaluateOnNewDocument((key, text) => {
    performance.now = () => 1000 * Date.now(); // this person reads a beat in no time
    localStorage.setItem(key, text);
  }, `ecgfed-label:${job.recording}`, first);
  await page.goto(pathToFileURL(job.page).href);
  const text = (id) => page.$eval(`#${id}`, (element) => element.textContent.trim());
  results.opened = { title: await text("question-title"), said: await text("question-said"), answered: (await page.$$("#answered-list li")).length };
  for (const [i, key] of job.keys.entries()) {
    await page.keyboard.press(key);
    if (i !== 2) continue;
    await page.screenshot({ path: `${folder}/second-1280.png` });
    await page.setViewport({ width: 390, height: 844 });
    results.width = await page.evaluate(() => document.documentElement.scrollWidth);
    await page.screenshot({ path: `${folder}/second-390.png` });
    await page.setViewport({ width: 1280, height: 900 });
  }
  results.finished = await text("finished-said");
  await page.screenshot({ path: `${folder}/second-done.png` });
  results.file = (await downloaded(page, `${folder}/saved`, () => page.click("#download"))).name;
  await page.setBypassCSP(true);
  await page.goto(pathToFileURL(job.page).href);
  await page.evaluate(axe);
  const report = await page.evaluate(() => axe.run(document));
  results.axe = report.violations.map((violation) => ({ id: violation.id, nodes: violation.nodes.map((node) => node.html.slice(0, 160)) }));
} finally {
  await browser.close();
}
process.stdout.write(JSON.stringify(results));
