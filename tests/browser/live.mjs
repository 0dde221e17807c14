// Uses the live page in headless Chromium as a person does, and prints what happened as JSON.
// node live.mjs CHROMIUM GIVEN.json FOLDER for downloads and screenshots
// GIVEN.json: {page, recording: [files], bundle: [files], bad: [[files]], lines: text of a serial port}
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
const browser = await puppeteer.launch({ executablePath: chromium, headless: true, args, protocolTimeout: 300_000 });
const results = { errors: [], requests: [], bad: [], widths: {} };
const WAIT = { timeout: 240_000, polling: 100 };

async function opened(prepare) {
  const page = await browser.newPage();
  await page.setViewport({ width: 1280, height: 900 });
  page.on("pageerror", (error) => results.errors.push(String(error)));
  page.on("console", (message) => ["error", "warn"].includes(message.type()) && results.errors.push(message.text()));
  page.on("request", (request) => results.requests.push(request.url().slice(0, 60)));
  page.on("dialog", (dialog) => (results.errors.push(`dialog: ${dialog.message()}`), dialog.dismiss()));
  if (prepare) await page.evaluateOnNewDocument(prepare, job.lines);
  await page.goto(pathToFileURL(job.page).href);
  await page.waitForFunction(() => document.documentElement.dataset.ready === "yes", WAIT);
  return page;
}

const text = (page, id) => page.$eval(`#${id}`, (element) => element.textContent.trim());
const counts = (page) => page.$$eval("#counts tr", (rows) => rows.map((row) => Array.from(row.children, (element) => element.textContent)));
const choose = async (page, id, files) => (await page.$(`#${id}`)).uploadFile(...files);
const strip = (page) =>
  page.$eval("#strip svg", (svg) => ({ said: svg.getAttribute("aria-label"), beats: Array.from(svg.querySelectorAll(".paper-beat"), (element) => element.textContent) }));
const until = (page, start) => page.waitForFunction((begin) => document.querySelector("#said").textContent.startsWith(begin), WAIT, start);

try {
  const page = await opened();
  results.model = await text(page, "model-said");
  results.began = await text(page, "said");
  for (const files of job.bad) {
    await choose(page, "recording-files", files);
    await page.waitForFunction(() => document.querySelector("#problem").textContent !== "", WAIT);
    results.bad.push(await text(page, "problem"));
    await choose(page, "recording-files", job.recording);
    await page.waitForFunction(() => document.querySelector("#problem").textContent === "", WAIT);
  }
  results.hacked = await page.evaluate(() => window.hacked === true);
  results.read = await text(page, "said");
  await page.click("#classify");
  await page.waitForFunction(() => /^[0-9]+ beats\.$/.test(document.querySelector("#said").textContent), WAIT);
  results.classified = { said: await text(page, "said"), counts: await counts(page), strip: await strip(page) };
  await page.screenshot({ path: `${folder}/classified.png`, fullPage: true });
  await page.keyboard.press("n");
  results.unusual = { said: await text(page, "said"), strip: await strip(page) };
  await page.keyboard.press("Home");
  await page.keyboard.press("ArrowRight");
  results.moved = (await strip(page)).said;
  results.saved = await downloaded(page, `${folder}/saved`, () => page.click("#save"));
  await page.evaluate(axe);
  results.axe = await page.evaluate(async () => (await window.axe.run()).violations.map((violation) => `${violation.id}: ${violation.nodes.map((node) => node.target).join(" ")}`));
  for (const [name, width, height] of [["phone", 390, 844], ["small", 320, 640]]) {
    await page.setViewport({ width, height });
    results.widths[name] = await page.evaluate(() => document.documentElement.scrollWidth);
    await page.screenshot({ path: `${folder}/${name}.png`, fullPage: true });
  }
  await page.setViewport({ width: 1280, height: 900 });
  if (job.bundle.length) {
    await choose(page, "bundle-files", job.bundle);
    await until(page, job.bundle.length === 1 ? job.bundle[0].split("/").pop() : "");
    results.bundle = { model: await text(page, "model-said"), patients: await page.$$eval("#patient option", (all) => all.map((element) => element.value)) };
  }

  // A serial port that sends what is written, in odd pieces.
  const listening = await opened((lines) => {
    const pieces = [];
    for (let at = 0, i = 0; at < lines.length; i += 1) {
      const size = 700 + ((i * 397) % 1500);
      pieces.push(lines.slice(at, at + size));
      at += size;
    }
    const port = {
      open: async ({ baudRate }) => (window.baudRate = baudRate),
      close: async () => (window.portClosed = true),
      readable: new ReadableStream({
        async pull(controller) {
          await new Promise((resolve) => setTimeout(resolve, 2));
          if (pieces.length) controller.enqueue(new TextEncoder().encode(pieces.shift()));
          else controller.close();
        },
      }),
    };
    Object.defineProperty(navigator, "serial", { value: { requestPort: async () => port } });
  });
  await listening.waitForSelector("#serial:not([hidden])", WAIT);
  await listening.click("#serial");
  await until(listening, "Listening");
  await listening.waitForFunction(() => document.querySelectorAll("#strip .paper-beat").length > 3, WAIT);
  results.live = { strip: await strip(listening), rate: await text(listening, "rate") };
  await listening.screenshot({ path: `${folder}/live.png`, fullPage: true });
  await until(listening, "Ended");
  results.serial = {
    said: await text(listening, "said"),
    counts: await counts(listening),
    closed: await listening.evaluate(() => [window.baudRate, window.portClosed]),
  };
} finally {
  await browser.close();
}
process.stdout.write(JSON.stringify(results));
