// Uses the page of `ecgfed serve` in headless Chromium as a person does, by keyboard, and prints what happened as JSON.
// node serve.mjs CHROMIUM GIVEN.json FOLDER for screenshots
// GIVEN.json: {address, board: [files], recording: [files], bad: [files]}
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import puppeteer from "puppeteer-core";

const require = createRequire(import.meta.url);
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const [chromium, input, folder] = process.argv.slice(2);
const job = JSON.parse(readFileSync(input, "utf8"));
const args = process.getuid && process.getuid() === 0 ? ["--no-sandbox"] : [];
const browser = await puppeteer.launch({ executablePath: chromium, headless: true, args, protocolTimeout: 300_000 });
const results = { errors: [], requests: [], axe: {}, widths: {} };
const WAIT = { timeout: 240_000, polling: 100 };
const page = await browser.newPage();

const text = (selector) => page.$eval(selector, (element) => element.textContent.trim());
const add = async (files) => (await page.$("#files")).uploadFile(...files);
const cards = (count) => page.waitForFunction((many) => document.querySelectorAll("article").length === many, WAIT, count);
const violations = (target) =>
  target.evaluate(async () => (await window.axe.run()).violations.map((violation) => `${violation.id}: ${violation.nodes.map((node) => node.target).join(" ")}`));

/** Go by the tab key to an element of which a text is part; return whether it came there. */
async function tabTo(part) {
  for (let i = 0; i < 60; i += 1) {
    await page.keyboard.press("Tab");
    if (await page.evaluate((name) => (document.activeElement.textContent + document.activeElement.id).includes(name), part)) return true;
  }
  return false;
}

try {
  await page.setViewport({ width: 1280, height: 900 });
  page.on("pageerror", (error) => results.errors.push(String(error)));
  page.on("console", (message) => message.type() === "error" && results.errors.push(message.text()));
  page.on("request", (request) => results.requests.push(new URL(request.url()).host));
  await page.goto(job.address);
  await page.waitForFunction(() => document.documentElement.dataset.ready === "yes", WAIT);
  await page.evaluate(axe);
  results.axe.empty = await violations(page);

  await add(job.board);
  await cards(1);
  await page.waitForFunction(() => document.activeElement.tagName === "H3", WAIT);
  results.missing = await page.$$eval("article .missing", (all) => all.map((element) => element.textContent));
  results.invalid = await page.$$eval("article [aria-invalid]", (all) => all.map((element) => element.id.split("-").pop()));
  results.axe.form = await violations(page);
  await page.screenshot({ path: `${folder}/form.png`, fullPage: true });
  await tabTo("-units");
  await page.keyboard.type("200(512)/mV");
  await page.keyboard.press("Enter");
  await page.waitForSelector("article figure svg", WAIT);
  results.previewed = await page.$eval("article figure svg", (svg) => svg.getAttribute("aria-label"));

  results.reached = await tabTo("Make the report");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => document.querySelector("article .results a") !== null, WAIT);
  results.job = await text("article .job");
  results.axe.reported = await violations(page);
  const report = await browser.newPage();
  await report.goto(await page.$eval("article .results a", (link) => link.href));
  results.report = await report.title();
  await report.close();

  await page.evaluate(() => [...document.querySelectorAll("article button")].find((button) => button.textContent === "Replay live").click());
  await page.waitForFunction(() => document.querySelectorAll("#replay-counts tr").length > 0, WAIT);
  await page.select("#replay-speed", "60");
  await page.waitForFunction(() => document.querySelector("#replay-said").textContent.startsWith("Ended"), WAIT);
  results.replayed = await page.$$eval("#replay-counts tr", (rows) => rows.map((row) => [...row.children].map((cell) => cell.textContent)));
  results.axe.replayed = await violations(page);
  await page.screenshot({ path: `${folder}/replay.png`, fullPage: true });

  // a second tab: a replay of its own; its form is refused after the first tab has read the file in another way
  const press = (target, name) => target.evaluate((text) => [...document.querySelectorAll("article button")].find((button) => button.textContent === text).click(), name);
  const problems = (target) => target.$$eval("[role=alert]", (all) => all.map((element) => element.textContent).filter(Boolean));
  const gone = (target) => target.waitForFunction(() => [...document.querySelectorAll("[role=alert]")].some((element) => element.textContent.includes("does not answer")), WAIT);
  const silent = (target) => target.waitForFunction(() => [...document.querySelectorAll("[role=alert]")].every((element) => !element.textContent.includes("does not answer")), WAIT);
  const second = await browser.newPage();
  second.on("pageerror", (error) => results.errors.push(String(error)));
  await second.goto(job.address);
  await second.waitForFunction(() => document.querySelectorAll("article").length === 1, WAIT);
  for (const target of [page, second]) {
    await target.bringToFront();
    await press(target, "Replay live");
    await target.waitForFunction(() => document.querySelector("#replay").hidden === false, WAIT);
    await target.select("#replay-speed", "60");
  }
  for (const target of [page, second]) {
    await target.bringToFront();
    await target.waitForFunction(() => document.querySelector("#replay-said").textContent.startsWith("Ended"), WAIT);
  }
  results.ended = [await text("#replay-said"), await second.$eval("#replay-said", (element) => element.textContent)];
  const units = async (target, value) => {
    await target.evaluate((typed) => {
      document.querySelector("article details").open = true;
      const input = document.querySelector("article [id$=-units]");
      input.value = typed;
      input.dispatchEvent(new Event("input", { bubbles: true }));
    }, value);
  };
  await second.evaluate(() => (document.querySelector("article details").open = true));
  await second.waitForSelector("article figure svg", WAIT);
  await units(second, "100(512)/mV");
  await page.bringToFront();
  await units(page, "250(512)/mV");
  await press(page, "Read the file this way");
  await page.waitForFunction(() => document.querySelector("article form [id$=-units]").value === "250(512)/mV", WAIT);
  await new Promise((done) => setTimeout(done, 500));
  await second.bringToFront();
  await press(second, "Read the file this way");
  await second.waitForFunction(() => [...document.querySelectorAll("article .problem")].some((element) => element.textContent), WAIT);
  await second.waitForFunction(() => document.querySelector("article form [id$=-units]").value === "250(512)/mV", WAIT);
  results.stale = await problems(second);

  // the line that the program does not answer goes when it answers again
  await second.setRequestInterception(true);
  let cut = true;
  second.on("request", (request) => (cut ? request.abort() : request.continue()));
  await press(second, "Make the report");
  await gone(second);
  await second.evaluate(() => document.dispatchEvent(new Event("visibilitychange")));
  cut = false;
  await silent(second);
  await second.close();
  await page.bringToFront();

  await page.focus("#files");
  results.sample = await tabTo("Try a sample recording");
  await page.keyboard.press("Enter");
  await cards(2);
  await page.waitForFunction(() => document.activeElement.tagName === "H3", WAIT);
  await page.waitForFunction(() => document.querySelectorAll("article figure svg").length === 2, WAIT);
  results.axe.sample = await violations(page);
  await add(job.recording);
  await cards(3);
  await add(job.bad);
  await page.waitForFunction(() => document.querySelector("#problem").textContent !== "", WAIT);
  results.problem = await text("#problem");
  for (const [name, width] of [["phone", 390], ["small", 320]]) {
    await page.setViewport({ width, height: 700 });
    results.widths[name] = await page.evaluate(() => document.documentElement.scrollWidth);
  }
  await page.setViewport({ width: 1280, height: 900 });
  results.links = await page.evaluate(() => document.querySelectorAll("#recordings a[href]").length);
  await page.click("#end");
  await page.waitForFunction(() => document.querySelector("#said").textContent.startsWith("The program has ended"), WAIT);
  results.linksAtEnd = await page.evaluate(() => document.querySelectorAll("#recordings a[href]").length);
} finally {
  await browser.close();
}
process.stdout.write(JSON.stringify(results));
