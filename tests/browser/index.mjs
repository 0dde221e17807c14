// Opens the list of a folder's reports in headless Chromium, sorts it, and prints what happened as JSON.
// node index.mjs CHROMIUM GIVEN.json FOLDER, where GIVEN.json holds {page: its address}
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import puppeteer from "puppeteer-core";

const require = createRequire(import.meta.url);
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const [chromium, input, folder] = process.argv.slice(2);
const { page: address } = JSON.parse(readFileSync(input, "utf8"));
const args = process.getuid && process.getuid() === 0 ? ["--no-sandbox"] : [];
const browser = await puppeteer.launch({ executablePath: chromium, headless: true, args });
const results = { errors: [], sorted: {}, states: [], axe: {}, widths: {} };

try {
  const page = await browser.newPage();
  page.on("pageerror", (error) => results.errors.push(String(error)));
  page.on("console", (message) => ["error", "warn"].includes(message.type()) && results.errors.push(message.text()));
  await page.setViewport({ width: 1280, height: 900 });
  await page.goto(address);
  const names = () => page.$$eval("#index tbody th", (all) => all.map((cell) => cell.textContent));
  results.links = await page.$$eval("#index tbody a", (all) => all.map((link) => link.getAttribute("href")).filter((href) => href.startsWith("rec")));
  for (const heading of ["Recording", "Ventricular burden", "Usable"]) {
    const button = await page.$(`::-p-xpath(//table[@id="index"]//button[text()="${heading}"])`);
    results.sorted[heading] = [];
    for (let i = 0; i < 2; i += 1) {
      await button.focus();
      await page.keyboard.press("Enter");
      results.sorted[heading].push(await names());
      if (heading === "Recording") results.states.push(await button.evaluate((element) => element.parentElement.getAttribute("aria-sort")));
    }
  }
  results.hacked = await page.evaluate(() => window.hacked === true);
  for (const [name, width] of [["desktop", 1280], ["phone", 390]]) {
    await page.setViewport({ width, height: 900 });
    await page.setBypassCSP(true); // the checker is no part of the page, whose policy refuses it
    await page.goto(address);
    results.widths[name] = await page.evaluate(() => document.documentElement.scrollWidth);
    await page.screenshot({ path: `${folder}/${name}.png`, fullPage: true });
    await page.evaluate(axe);
    const report = await page.evaluate(() => axe.run(document));
    results.axe[name] = report.violations.map((violation) => ({ id: violation.id, nodes: violation.nodes.map((node) => node.html.slice(0, 160)) }));
  }
} finally {
  await browser.close();
}
process.stdout.write(JSON.stringify(results));
