// Opens a report in headless Chromium, uses it as a person does, and prints what happened as JSON.
// node page.mjs CHROMIUM PAGE.html [FOLDER for screenshots and the PDF]
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import puppeteer from "puppeteer-core";

const require = createRequire(import.meta.url);
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const [chromium, path, folder] = process.argv.slice(2);
const address = pathToFileURL(path).href;
const args = process.getuid && process.getuid() === 0 ? ["--no-sandbox"] : [];
const browser = await puppeteer.launch({ executablePath: chromium, headless: true, args });
const results = { errors: [], requests: [], widths: {}, axe: {} };

try {
  const page = await browser.newPage();
  await page.setBypassCSP(false);
  page.on("pageerror", (error) => results.errors.push(String(error)));
  page.on("console", (message) => ["error", "warn"].includes(message.type()) && results.errors.push(message.text()));
  page.on("request", (request) => results.requests.push(request.url()));
  page.on("dialog", (dialog) => (results.errors.push(`dialog: ${dialog.message()}`), dialog.dismiss()));

  const text = (id) => page.$eval(`#${id}`, (element) => element.textContent);
  for (const [name, width, height] of [["desktop", 1280, 900], ["phone", 390, 844], ["small", 320, 640]]) {
    await page.setViewport({ width, height });
    await page.goto(address);
    results.widths[name] = await page.evaluate(() => document.documentElement.scrollWidth);
    if (folder && name !== "small") await page.screenshot({ path: `${folder}/${name}.png`, fullPage: true });
  }

  await page.setViewport({ width: 1280, height: 900 });
  await page.goto(address);
  results.title = await page.title();
  results.hacked = await page.evaluate(() => window.hacked === true);
  results.strips = await page.evaluate(() =>
    Array.from(document.querySelectorAll("[data-strip] svg"), (svg) => ({
      said: svg.getAttribute("aria-label"),
      mm: (svg.getBoundingClientRect().width / 96) * 25.4,
      beats: Array.from(svg.querySelectorAll(".paper-beat"), (element) => element.textContent),
      uncertain: svg.querySelectorAll(".paper-uncertain").length,
      events: Array.from(svg.querySelectorAll(".paper-event"), (element) => element.textContent),
      reasons: Array.from(svg.querySelectorAll(".paper-reason"), (element) => element.textContent),
    })),
  );

  // A run's page: its charts, and what is folded away.
  results.charts = await page.$$eval("svg.chart", (all) => all.map((element) => element.getAttribute("aria-label")));
  results.folded = await page.$$eval("details", (all) => all.map((element) => element.open));

  // The timeline: at the start, by click, by key, by button, by a time in a table.
  const slider = await page.$("#timeline-slider");
  if (slider) {
    const value = () => page.$eval("#timeline-slider", (element) => Number(element.getAttribute("aria-valuenow")));
    results.columns = 1 + (await page.$eval("#timeline-slider", (element) => Number(element.getAttribute("aria-valuemax"))));
    results.begin = { said: await text("timeline-said"), caption: await text("timeline-caption") };
    await slider.scrollIntoView();
    const box = await slider.boundingBox();
    await page.mouse.click(box.x + box.width * 0.8, box.y + 30);
    results.clicked = { at: await value(), said: await text("timeline-said"), caption: await text("timeline-caption") };
    results.focused = await page.evaluate(() => document.activeElement.id);
    await slider.focus();
    for (const key of ["Home", "ArrowRight", "ArrowRight", "ArrowLeft", "End", "PageDown"]) {
      await page.keyboard.press(key);
      (results.keys ||= []).push(await value());
    }
    await page.keyboard.press("Home");
    await page.click("#timeline-after");
    results.after = { at: await value(), said: await text("timeline-said") };
    const link = await page.$("[data-at]");
    if (link) {
      await link.focus();
      await page.keyboard.press("Enter");
      const seconds = await link.evaluate((element) => Number(element.dataset.at));
      results.linked = { seconds, said: await text("timeline-said"), focused: await page.evaluate(() => document.activeElement.id) };
    }
    await page.evaluate(() => window.dispatchEvent(new Event("beforeprint")));
    results.printed = await page.$$eval("#strips .strip:not(.screen)", (all) =>
      all.map((figure) => ({ mm: figure.querySelector("svg").viewBox.baseVal.height, caption: figure.querySelector("figcaption").textContent })),
    );
    await page.evaluate(() => window.dispatchEvent(new Event("afterprint")));
    results.restored = await page.$$eval("#strips [data-strip] svg", (all) => all.map((svg) => svg.getAttribute("aria-label")));
    // every stop of the Tab key is one a person can see
    await page.evaluate(() => document.body.focus());
    results.stops = await page.$$eval("a[href], button, [tabindex='0']", (all) => all.length);
  }

  for (const [name, width] of [["desktop", 1280], ["phone", 390]]) {
    await page.setViewport({ width, height: 900 });
    await page.setBypassCSP(true); // the checker is no part of the page, whose policy refuses it
    await page.goto(address);
    results.unreachable = await page.$$eval(".wide, .paper", (all) =>
      all.filter((element) => element.scrollWidth > element.clientWidth + 1 && element.tabIndex !== 0).length,
    );
    await page.evaluate(axe);
    const report = await page.evaluate(() => axe.run(document));
    results.axe[name] = report.violations.map((violation) => ({ id: violation.id, impact: violation.impact, nodes: violation.nodes.map((node) => node.html.slice(0, 160)) }));
    results.passes = report.passes.length;
  }
  if (folder) {
    const pdf = await page.pdf({ preferCSSPageSize: true });
    writeFileSync(`${folder}/page.pdf`, pdf);
  }
} finally {
  await browser.close();
}
process.stdout.write(JSON.stringify(results));
