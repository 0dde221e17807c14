// Sends recordings to the live page in headless Chromium through a serial port, as fast as it takes them, and prints
// what it said of changes as JSON.
// node drift.mjs CHROMIUM GIVEN.json FOLDER for screenshots
// GIVEN.json: {page, lines: [files of text]}
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import puppeteer from "puppeteer-core";

const require = createRequire(import.meta.url);
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const [chromium, input, folder] = process.argv.slice(2);
const job = JSON.parse(readFileSync(input, "utf8"));
const args = process.getuid && process.getuid() === 0 ? ["--no-sandbox"] : [];
const browser = await puppeteer.launch({ executablePath: chromium, headless: true, args, protocolTimeout: 600_000 });
const results = { errors: [], played: [] };
const WAIT = { timeout: 500_000, polling: 100 };

/** On the page, before all else: a serial port that sends what is written, and a watch on the warning. */
function prepare(lines) {
  const size = 20_000;
  let at = 0;
  const port = {
    open: async () => undefined,
    close: async () => undefined,
    readable: new ReadableStream({
      pull(controller) {
        if (at < lines.length) controller.enqueue(new TextEncoder().encode(lines.slice(at, at + size)));
        else controller.close();
        at += size;
      },
    }),
  };
  Object.defineProperty(navigator, "serial", { value: { requestPort: async () => port } });
  window.said = [];
  document.addEventListener("DOMContentLoaded", () => {
    const host = document.querySelector("#drift");
    const note = () => window.said.push({ text: host.textContent, shown: host.checkVisibility(), role: host.getAttribute("role") });
    new MutationObserver(note).observe(host, { childList: true, characterData: true, subtree: true });
  });
}

try {
  for (const [number, file] of job.lines.entries()) {
    const page = await browser.newPage();
    await page.setViewport({ width: 1280, height: 900 });
    page.on("pageerror", (error) => results.errors.push(String(error)));
    page.on("console", (message) => ["error", "warn"].includes(message.type()) && results.errors.push(message.text()));
    await page.evaluateOnNewDocument(prepare, readFileSync(file, "utf8"));
    await page.goto(pathToFileURL(job.page).href);
    await page.waitForFunction(() => document.documentElement.dataset.ready === "yes", WAIT);
    await page.click("#serial");
    await page.waitForFunction(() => window.said.some(({ text }) => text.includes("label some again")), WAIT);
    await page.screenshot({ path: `${folder}/changed-${number}.png`, fullPage: true });
    await page.waitForFunction(() => document.querySelector("#said").textContent.startsWith("Ended"), WAIT);
    const messages = await page.evaluate(() => window.said);
    const ended = await page.$eval("#said", (element) => element.textContent);
    await page.screenshot({ path: `${folder}/ended-${number}.png`, fullPage: true });
    await page.evaluate(axe);
    const faults = await page.evaluate(async () => (await window.axe.run()).violations.map((violation) => violation.id));
    results.played.push({ said: messages, ended, axe: faults });
    await page.close();
  }
} finally {
  await browser.close();
}
process.stdout.write(JSON.stringify(results));
