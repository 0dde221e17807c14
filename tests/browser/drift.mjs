// Plays recordings as streams on the live page in headless Chromium, and prints what it said of changes as JSON.
// node drift.mjs CHROMIUM GIVEN.json FOLDER for screenshots
// GIVEN.json: {page, recordings: [[files]]}
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import puppeteer from "puppeteer-core";

const require = createRequire(import.meta.url);
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const [chromium, input, folder] = process.argv.slice(2);
const given = JSON.parse(readFileSync(input, "utf8"));
const args = process.getuid && process.getuid() === 0 ? ["--no-sandbox"] : [];
const browser = await puppeteer.launch({ executablePath: chromium, headless: true, args, protocolTimeout: 600_000 });
const told = { errors: [], played: [] };
const WAIT = { timeout: 500_000, polling: 100 };

/** On the page: note every text of the warning, and whether it was to be seen. */
function watch() {
  const host = document.querySelector("#drift");
  const note = () => window.said.push({ text: host.textContent, shown: host.checkVisibility(), role: host.getAttribute("role") });
  window.said = [];
  new MutationObserver(note).observe(host, { childList: true, characterData: true, subtree: true });
  document.querySelector("#speed option").value = "1000"; // faster than a person would want it
  document.querySelector("#speed").selectedIndex = 0;
}

try {
  for (const [number, files] of given.recordings.entries()) {
    const page = await browser.newPage();
    await page.setViewport({ width: 1280, height: 900 });
    page.on("pageerror", (error) => told.errors.push(String(error)));
    page.on("console", (message) => ["error", "warn"].includes(message.type()) && told.errors.push(message.text()));
    await page.goto(pathToFileURL(given.page).href);
    await page.waitForFunction(() => document.documentElement.dataset.ready === "yes", WAIT);
    await page.evaluate(watch);
    await (await page.$("#recording-files")).uploadFile(...files);
    await page.waitForSelector("#play:not([disabled])", WAIT);
    await page.click("#play");
    await page.waitForFunction(() => window.said.some(({ text }) => text), WAIT);
    await page.screenshot({ path: `${folder}/changed-${number}.png`, fullPage: true });
    await page.waitForFunction(() => document.querySelector("#said").textContent.startsWith("Ended"), WAIT);
    const said = await page.evaluate(() => window.said);
    const ended = await page.$eval("#said", (one) => one.textContent);
    await page.evaluate(axe);
    const faults = await page.evaluate(async () => (await window.axe.run()).violations.map((one) => one.id));
    await page.click("#classify"); // what is asked anew begins without a warning
    await page.waitForFunction(() => /^[0-9]+ beats\.$/.test(document.querySelector("#said").textContent), WAIT);
    told.played.push({ said, ended, axe: faults, after: await page.$eval("#drift", (one) => one.textContent) });
    await page.close();
  }
} finally {
  await browser.close();
}
process.stdout.write(JSON.stringify(told));
