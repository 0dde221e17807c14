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
const results = { errors: [], requests: [], wide: [], unlike: [], faults: [], printed: [], opened: 0 };
const address = (name) => pathToFileURL(`${folder}/${name}`).href;

try {
  const some = pages.filter((_, i) => i % 8 === 0);
  for (const [scheme, width, which] of [["light", 1280, pages], ["dark", 390, pages], ["dark", 1280, some], ["light", 390, some]]) {
    const context = await browser.createBrowserContext(); // a reader who was never here
    const page = await context.newPage();
    page.on("pageerror", (error) => results.errors.push(`${page.url()}: ${error}`));
    page.on("request", (request) => /^(file|data|blob):/.test(request.url()) || results.requests.push(request.url()));
    await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
    await page.setViewport({ width, height: 900 });
    for (const name of which) {
      await page.goto(address(name));
      const state = await page.evaluate(() => ({
        wide: document.documentElement.scrollWidth,
        scheme: document.body.getAttribute("data-md-color-scheme"),
      }));
      if (state.wide > width) results.wide.push(`${name}: ${state.wide} of ${width}`);
      if (state.scheme !== { light: "default", dark: "slate" }[scheme]) results.unlike.push(`${name}: ${state.scheme} for ${scheme}`);
      results.opened += 1;
      if (which !== some) continue; // the checker takes longer than the page
      await page.evaluate(axe);
      const { violations } = await page.evaluate(() => axe.run(document));
      results.faults.push(...violations.map((violation) => `${name} (${scheme}): ${violation.id}: ${violation.nodes[0].html.slice(0, 160)}`));
    }
    await context.close();
  }

  // On paper, from a page that was dark: ink is dark, and nothing is cut off at the right. 718 px are A4 less its edges.
  const paper = await browser.newPage();
  await paper.emulateMediaType("print");
  await paper.setViewport({ width: 718, height: 1000 });
  for (const name of [...some, "methods.html", "benchmarks/width.html"].filter((name) => pages.includes(name))) {
    await paper.goto(address(name));
    const wrong = await paper.evaluate(async () => {
      document.body.dataset.mdColorScheme = "slate";
      await new Promise((resolve) => setTimeout(resolve, 300)); // colours change slowly
      const pale = [...document.querySelectorAll(".md-content :is(h1, h2, p, a, code)")].filter((element) => {
        const [red, green, blue] = getComputedStyle(element).color.match(/[\d.]+/g).map(Number);
        return element.offsetParent && !element.className && 0.2126 * red + 0.7152 * green + 0.0722 * blue > 130;
      });
      const cut = [...document.querySelectorAll(".md-typeset__scrollwrap, pre > code")].filter((element) => element.scrollWidth > element.clientWidth + 1);
      return [...pale.map((element) => `pale: ${element.outerHTML.slice(0, 80)}`), ...cut.map((element) => `cut: ${element.textContent.trim().slice(0, 80)}`)];
    });
    results.printed.push(...wrong.map((text) => `${name}: ${text}`));
  }

  // The search finds a word, from a file.
  const page = await browser.newPage();
  page.on("request", (request) => /^(file|data|blob):/.test(request.url()) || results.requests.push(request.url()));
  await page.setViewport({ width: 1280, height: 900 });
  await page.goto(address("index.html"));
  await page.type(".md-search__input", "hypernetwork");
  await page.waitForSelector(".md-search-result__item a", { timeout: 20000 });
  results.found = await page.$$eval(".md-search-result__item a", (all) => all.map((element) => element.getAttribute("href")));
} finally {
  await browser.close();
}
process.stdout.write(JSON.stringify(results));
