// Opens a report of twelve leads in headless Chromium, measures its sheet, uses it, prints it, and prints JSON.
// node twelve.mjs CHROMIUM GIVEN.json FOLDER; GIVEN.json: {"page": path}
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import puppeteer from "puppeteer-core";

const [chromium, given] = process.argv.slice(2);
const { page: path } = JSON.parse(readFileSync(given, "utf8"));
const args = process.getuid && process.getuid() === 0 ? ["--no-sandbox"] : [];
const browser = await puppeteer.launch({ executablePath: chromium, headless: true, args });
const results = { errors: [] };

/** Names and places of the leads on a sheet, its calibration pulses, and how wide and high it is, in mm. */
const measured = () => {
  const svg = document.querySelector("#twelve-sheet svg");
  const box = svg.getBoundingClientRect();
  const names = Array.from(svg.querySelectorAll(".paper-lead"), (name) => [name.textContent, Number(name.getAttribute("x")), Number(name.getAttribute("y"))]);
  const pulses = Array.from(svg.querySelectorAll(".paper-trace"), (trace) => trace.getAttribute("d")).filter((d) => /h[\d.]+v-/.test(d));
  const labels = Array.from(svg.querySelectorAll(".paper-beat"), (label) => label.textContent);
  const [wide, high] = [box.width, box.height].map((pixels) => (pixels / 96) * 25.4);
  return { names, pulses, labels, wide, high, view: [svg.viewBox.baseVal.width, svg.viewBox.baseVal.height], said: svg.getAttribute("aria-label") };
};

try {
  const page = await browser.newPage();
  page.on("pageerror", (error) => results.errors.push(String(error)));
  page.on("console", (message) => ["error", "warn"].includes(message.type()) && results.errors.push(message.text()));
  await page.setViewport({ width: 1280, height: 900 });
  await page.goto(pathToFileURL(path).href);
  results.sheet = await page.evaluate(measured);
  results.scale = await page.$eval("#twelve-scale", (element) => element.textContent);
  results.averages = await page.$$eval("#twelve-averages svg", (all) =>
    all.map((svg) => ({ name: svg.querySelector(".paper-lead").textContent, points: svg.querySelectorAll(".paper-point").length })),
  );
  results.tables = await page.$$eval("caption", (all) => all.map((caption) => caption.textContent));
  await page.select("#twelve-order", "Cabrera");
  results.cabrera = await page.evaluate(measured);
  await page.select("#twelve-order", "standard");
  const strips = await page.$("details[data-twelve] summary");
  if (strips) {
    await strips.click();
    await page.waitForSelector("details[data-twelve] svg");
    results.opened = await page.$$eval("details[data-twelve][open] .paper-lead", (all) => all.map((name) => name.textContent));
  }

  // a click on the sheet chooses the beat at that time in any lead; a key relabels it on the sheet too
  const svg = await page.$("#twelve-sheet svg");
  await svg.scrollIntoView();
  const box = await svg.boundingBox();
  const mm = box.width / results.sheet.view[0];
  await page.mouse.click(box.x + (15 + 25 * 4) * mm, box.y + 20 * mm); // aVR, four seconds from the start
  results.chosen = await page.$eval("#edit-target", (element) => element.textContent);
  await page.focus("#edit-box");
  await page.keyboard.press("V");
  results.relabelled = (await page.evaluate(measured)).labels;
  results.older = await page.$$eval(".older:not([hidden])", (all) => all.map((mark) => mark.parentElement.id));

  await page.evaluate(() => window.dispatchEvent(new Event("beforeprint")));
  await page.emulateMediaType("print");
  results.printed = await page.evaluate(measured);
  results.printed_scale = await page.$eval("#twelve-scale", (element) => element.textContent);
} finally {
  await browser.close();
}
process.stdout.write(JSON.stringify(results));
