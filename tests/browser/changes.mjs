// Chooses other models, patients, leads and recordings on the live page while something goes on, in headless Chromium,
// and prints what stands on the page afterwards as JSON.
// node changes.mjs CHROMIUM GIVEN.json FOLDER for downloads
// GIVEN.json: {page, first: [files], second: [files], bad: [files], bundle: [files], badBundle: [files],
//     patient, lines: text of a serial port}
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import puppeteer from "puppeteer-core";
import { downloaded } from "./download.mjs";

const [chromium, input, folder] = process.argv.slice(2);
const job = JSON.parse(readFileSync(input, "utf8"));
const args = process.getuid && process.getuid() === 0 ? ["--no-sandbox"] : [];
const browser = await puppeteer.launch({ executablePath: chromium, headless: true, args, protocolTimeout: 300_000 });
const results = { errors: [], changed: {} };
const WAIT = { timeout: 120_000, polling: 50 };
const PAUSE_MS = 1500;

/** On the page, before all else: what was ever said, and a serial port that sends what is written. */
function prepare(lines) {
  window.said = [];
  document.addEventListener("DOMContentLoaded", () => {
    const host = document.querySelector("#said");
    new MutationObserver(() => window.said.push(host.textContent)).observe(host, { childList: true, characterData: true, subtree: true });
  });
  const port = {
    open: async () => undefined,
    close: async () => (window.portClosed = true),
    readable: new ReadableStream({
      start(controller) {
        controller.enqueue(new TextEncoder().encode(lines));
        controller.close();
      },
    }),
  };
  Object.defineProperty(navigator, "serial", { value: { requestPort: async () => port } });
}

async function opened() {
  const page = await browser.newPage();
  await page.setViewport({ width: 1280, height: 900 });
  page.on("pageerror", (error) => results.errors.push(String(error)));
  page.on("console", (message) => ["error", "warn"].includes(message.type()) && results.errors.push(message.text()));
  await page.evaluateOnNewDocument(prepare, job.lines);
  await page.goto(pathToFileURL(job.page).href);
  await page.waitForFunction(() => document.documentElement.dataset.ready === "yes", WAIT);
  return page;
}

/** Choose files; the same ones again are no change to a browser, so none are chosen first. */
async function choose(page, id, files) {
  const input = await page.$(`#${id}`);
  await input.evaluate((element) => (element.value = ""));
  await input.uploadFile(...files);
}
const until = (page, pattern) => page.waitForFunction((text) => new RegExp(text).test(document.querySelector("#said").textContent), WAIT, pattern);
const pause = () => new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
const state = (page) =>
  page.evaluate(() => ({
    said: document.querySelector("#said").textContent,
    problem: document.querySelector("#problem").textContent,
    counts: Array.from(document.querySelectorAll("#counts tr"), (row) => Array.from(row.children, (element) => element.textContent)),
    hidden: document.querySelector("#result").hidden,
    strip: document.querySelector("#strip svg")?.getAttribute("aria-label") ?? "",
    beats: document.querySelectorAll("#strip .paper-beat").length,
    off: Array.from(document.querySelectorAll("button:disabled"), (element) => element.id),
    history: window.said.splice(0),
  }));

const saved = (page) => downloaded(page, `${folder}/saved`, () => page.click("#save"));

async function classified(page) {
  await page.click("#classify");
  await until(page, "^[0-9]+ beats\\.$");
  return state(page);
}

try {
  const page = await opened();
  await choose(page, "recording-files", job.first);
  await until(page, "^first: ");
  results.classified = await classified(page);
  results.saved = await saved(page);

  // What is chosen anew leaves nothing of what was said before.
  await page.select("#patient", job.patient);
  results.changed.patient = await state(page);
  results.again = await classified(page);
  results.patientSaved = await saved(page);
  await page.select("#lead", "1");
  results.changed.lead = await state(page);
  await page.select("#lead", "0");
  await classified(page);
  await choose(page, "recording-files", job.second);
  await until(page, "^second: ");
  results.changed.recording = await state(page);
  await classified(page);
  await choose(page, "recording-files", job.bad);
  await page.waitForFunction(() => document.querySelector("#problem").textContent !== "", WAIT);
  results.refused = await state(page);
  await choose(page, "recording-files", job.first);
  await until(page, "^first: ");
  await classified(page);
  await choose(page, "bundle-files", job.bundle);
  await until(page, "is open: every file");
  results.changed.bundle = await state(page);
  await classified(page);
  await choose(page, "bundle-files", job.badBundle);
  await page.waitForFunction(() => document.querySelector("#problem").textContent !== "", WAIT);
  results.changed.refusedBundle = await state(page);

  // Another file while one plays, and another lead while one plays.
  for (const [name, act] of [
    ["file", () => choose(page, "recording-files", job.second)],
    ["lead", () => page.select("#lead", "1")],
  ]) {
    await choose(page, "recording-files", job.first);
    await until(page, "^first: ");
    await page.select("#speed", "16");
    await page.click("#play");
    await page.waitForFunction(() => document.querySelectorAll("#counts tr").length > 0, WAIT);
    await state(page);
    await act();
    if (name === "file") await until(page, "^second: ");
    await pause();
    results[`playing_${name}`] = await state(page);
  }

  // Two buttons in one tick, in both orders; a file while all of a recording is classified.
  for (const [name, ids] of [["classify_first", ["classify", "play"]], ["play_first", ["play", "classify"]]]) {
    await choose(page, "recording-files", job.first);
    await until(page, "^first: ");
    await state(page);
    await page.evaluate((both) => both.forEach((id) => document.querySelector(`#${id}`).click()), ids);
    await until(page, "^(?:[0-9]+ beats|Listening)");
    await pause();
    results[name] = await state(page);
    if (name === "play_first") await page.click("#stop");
  }
  await until(page, "^Ended");
  await choose(page, "recording-files", job.first);
  await until(page, "^first: ");
  await page.click("#classify");
  await choose(page, "recording-files", job.second);
  await until(page, "^second: ");
  await pause();
  results.overtaken = await state(page);

  // A device while a recording is open: what is drawn and saved is the device's.
  await page.click("#serial");
  await until(page, "^Ended");
  results.device = await state(page);
  results.deviceSaved = await saved(page);
} finally {
  await browser.close();
}
process.stdout.write(JSON.stringify(results));
