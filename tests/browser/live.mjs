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
const given = JSON.parse(readFileSync(input, "utf8"));
const args = process.getuid && process.getuid() === 0 ? ["--no-sandbox"] : [];
const browser = await puppeteer.launch({ executablePath: chromium, headless: true, args, protocolTimeout: 300_000 });
const told = { errors: [], requests: [], bad: [], widths: {} };
const WAIT = { timeout: 240_000, polling: 100 };

async function opened(prepare) {
  const page = await browser.newPage();
  await page.setViewport({ width: 1280, height: 900 });
  page.on("pageerror", (error) => told.errors.push(String(error)));
  page.on("console", (message) => ["error", "warn"].includes(message.type()) && told.errors.push(message.text()));
  page.on("request", (request) => told.requests.push(request.url().slice(0, 60)));
  page.on("dialog", (dialog) => (told.errors.push(`dialog: ${dialog.message()}`), dialog.dismiss()));
  if (prepare) await page.evaluateOnNewDocument(prepare, given.lines);
  await page.goto(pathToFileURL(given.page).href);
  await page.waitForFunction(() => document.documentElement.dataset.ready === "yes", WAIT);
  return page;
}

const text = (page, id) => page.$eval(`#${id}`, (one) => one.textContent.trim());
const counts = (page) => page.$$eval("#counts tr", (rows) => rows.map((row) => Array.from(row.children, (one) => one.textContent)));
const choose = async (page, id, files) => (await page.$(`#${id}`)).uploadFile(...files);
const strip = (page) =>
  page.$eval("#strip svg", (svg) => ({ said: svg.getAttribute("aria-label"), beats: Array.from(svg.querySelectorAll(".paper-beat"), (one) => one.textContent) }));
const until = (page, start) => page.waitForFunction((begin) => document.querySelector("#said").textContent.startsWith(begin), WAIT, start);

try {
  const page = await opened();
  told.model = await text(page, "model-said");
  told.began = await text(page, "said");
  for (const files of given.bad) {
    await choose(page, "recording-files", files);
    await page.waitForFunction(() => document.querySelector("#problem").textContent !== "", WAIT);
    told.bad.push(await text(page, "problem"));
    await choose(page, "recording-files", given.recording);
    await page.waitForFunction(() => document.querySelector("#problem").textContent === "", WAIT);
  }
  told.hacked = await page.evaluate(() => window.hacked === true);
  told.read = await text(page, "said");
  await page.click("#classify");
  await page.waitForFunction(() => /^[0-9]+ beats\.$/.test(document.querySelector("#said").textContent), WAIT);
  told.classified = { said: await text(page, "said"), counts: await counts(page), strip: await strip(page) };
  await page.screenshot({ path: `${folder}/classified.png`, fullPage: true });
  await page.keyboard.press("n");
  told.unusual = { said: await text(page, "said"), strip: await strip(page) };
  await page.keyboard.press("Home");
  await page.keyboard.press("ArrowRight");
  told.moved = (await strip(page)).said;
  told.saved = await downloaded(page, `${folder}/saved`, () => page.click("#save"));
  await page.evaluate(axe);
  told.axe = await page.evaluate(async () => (await window.axe.run()).violations.map((one) => `${one.id}: ${one.nodes.map((node) => node.target).join(" ")}`));
  for (const [name, width, height] of [["phone", 390, 844], ["small", 320, 640]]) {
    await page.setViewport({ width, height });
    told.widths[name] = await page.evaluate(() => document.documentElement.scrollWidth);
    await page.screenshot({ path: `${folder}/${name}.png`, fullPage: true });
  }
  await page.setViewport({ width: 1280, height: 900 });
  if (given.bundle.length) {
    await choose(page, "bundle-files", given.bundle);
    await until(page, given.bundle.length === 1 ? given.bundle[0].split("/").pop() : "");
    told.bundle = { model: await text(page, "model-said"), patients: await page.$$eval("#patient option", (all) => all.map((one) => one.value)) };
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
          await new Promise((done) => setTimeout(done, 2));
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
  told.live = { strip: await strip(listening), rate: await text(listening, "rate") };
  await listening.screenshot({ path: `${folder}/live.png`, fullPage: true });
  await until(listening, "Ended");
  told.serial = {
    said: await text(listening, "said"),
    counts: await counts(listening),
    closed: await listening.evaluate(() => [window.baudRate, window.portClosed]),
  };
} finally {
  await browser.close();
}
process.stdout.write(JSON.stringify(told));
