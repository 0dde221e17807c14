// Opens every page of the documentation site in headless Chromium, from files, and prints what happened as JSON.
// node site.mjs CHROMIUM FOLDER < JSON list of pages
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import puppeteer from "puppeteer-core";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const [chromium, folder] = process.argv.slice(2);
const pages = JSON.parse(readFileSync(0, "utf8"));
const args = process.getuid && process.getuid() === 0 ? ["--no-sandbox"] : [];
const browser = await puppeteer.launch({ executablePath: chromium, headless: true, args });
const told = { errors: [], requests: [], wide: [], unlike: [], faults: [], printed: [], opened: 0 };
const address = (name) => pathToFileURL(`${folder}/${name}`).href;

try {
  const some = pages.filter((_, i) => i % 8 === 0);
  for (const [scheme, width, which] of [["light", 1280, pages], ["dark", 390, pages], ["dark", 1280, some], ["light", 390, some]]) {
    const context = await browser.createBrowserContext(); // a reader who was never here
    const page = await context.newPage();
    page.on("pageerror", (error) => told.errors.push(`${page.url()}: ${error}`));
    page.on("request", (request) => /^(file|data|blob):/.test(request.url()) || told.requests.push(request.url()));
    await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
    await page.setViewport({ width, height: 900 });
    for (const name of which) {
      await page.goto(address(name));
      const seen = await page.evaluate(() => ({
        wide: document.documentElement.scrollWidth,
        scheme: document.body.getAttribute("data-md-color-scheme"),
      }));
      if (seen.wide > width) told.wide.push(`${name}: ${seen.wide} of ${width}`);
      if (seen.scheme !== { light: "default", dark: "slate" }[scheme]) told.unlike.push(`${name}: ${seen.scheme} for ${scheme}`);
      told.opened += 1;
      if (which !== some) continue; // the checker takes longer than the page
      await page.evaluate(axe);
      const { violations } = await page.evaluate(() => axe.run(document));
      told.faults.push(...violations.map((one) => `${name} (${scheme}): ${one.id}: ${one.nodes[0].html.slice(0, 160)}`));
    }
    await context.close();
  }

  // On paper, from a page that was dark: ink is dark, and nothing is cut off at the right. 718 px are A4 less its edges.
  const paper = await browser.newPage();
  await paper.emulateMediaType("print");
  await paper.setViewport({ width: 718, height: 1000 });
  for (const name of [...some, "methods.html", "benchmarks/width.html"].filter((one) => pages.includes(one))) {
    await paper.goto(address(name));
    const wrong = await paper.evaluate(async () => {
      document.body.dataset.mdColorScheme = "slate";
      await new Promise((done) => setTimeout(done, 300)); // colours change slowly
      const pale = [...document.querySelectorAll(".md-content :is(h1, h2, p, a, code)")].filter((one) => {
        const [red, green, blue] = getComputedStyle(one).color.match(/[\d.]+/g).map(Number);
        return one.offsetParent && !one.className && 0.2126 * red + 0.7152 * green + 0.0722 * blue > 130;
      });
      const cut = [...document.querySelectorAll(".md-typeset__scrollwrap, pre > code")].filter((one) => one.scrollWidth > one.clientWidth + 1);
      return [...pale.map((one) => `pale: ${one.outerHTML.slice(0, 80)}`), ...cut.map((one) => `cut: ${one.textContent.trim().slice(0, 80)}`)];
    });
    told.printed.push(...wrong.map((one) => `${name}: ${one}`));
  }

  // The search finds a word, from a file.
  const page = await browser.newPage();
  page.on("request", (request) => /^(file|data|blob):/.test(request.url()) || told.requests.push(request.url()));
  await page.setViewport({ width: 1280, height: 900 });
  await page.goto(address("index.html"));
  await page.type(".md-search__input", "hypernetwork");
  await page.waitForSelector(".md-search-result__item a", { timeout: 20000 });
  told.found = await page.$$eval(".md-search-result__item a", (all) => all.map((one) => one.getAttribute("href")));
} finally {
  await browser.close();
}
process.stdout.write(JSON.stringify(told));
