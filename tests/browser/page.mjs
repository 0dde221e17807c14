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
const told = { errors: [], requests: [], widths: {}, axe: {} };

try {
  const page = await browser.newPage();
  await page.setBypassCSP(false);
  page.on("pageerror", (error) => told.errors.push(String(error)));
  page.on("console", (message) => ["error", "warn"].includes(message.type()) && told.errors.push(message.text()));
  page.on("request", (request) => told.requests.push(request.url()));
  page.on("dialog", (dialog) => (told.errors.push(`dialog: ${dialog.message()}`), dialog.dismiss()));

  const text = (id) => page.$eval(`#${id}`, (element) => element.textContent);
  for (const [name, width, height] of [["desktop", 1280, 900], ["phone", 390, 844], ["small", 320, 640]]) {
    await page.setViewport({ width, height });
    await page.goto(address);
    told.widths[name] = await page.evaluate(() => document.documentElement.scrollWidth);
    if (folder && name !== "small") await page.screenshot({ path: `${folder}/${name}.png`, fullPage: true });
  }

  await page.setViewport({ width: 1280, height: 900 });
  await page.goto(address);
  told.title = await page.title();
  told.hacked = await page.evaluate(() => window.hacked === true);
  told.strips = await page.evaluate(() =>
    Array.from(document.querySelectorAll("[data-strip] svg"), (svg) => ({
      said: svg.getAttribute("aria-label"),
      mm: (svg.getBoundingClientRect().width / 96) * 25.4,
      beats: Array.from(svg.querySelectorAll(".paper-beat"), (one) => one.textContent),
      uncertain: svg.querySelectorAll(".paper-uncertain").length,
      events: Array.from(svg.querySelectorAll(".paper-event"), (one) => one.textContent),
      reasons: Array.from(svg.querySelectorAll(".paper-reason"), (one) => one.textContent),
    })),
  );

  // A run's page: its charts, and what is folded away.
  told.charts = await page.$$eval("svg.chart", (all) => all.map((one) => one.getAttribute("aria-label")));
  told.folded = await page.$$eval("details", (all) => all.map((one) => one.open));

  // The timeline: at the start, by click, by key, by button, by a time in a table.
  const slider = await page.$("#timeline-slider");
  if (slider) {
    const value = () => page.$eval("#timeline-slider", (one) => Number(one.getAttribute("aria-valuenow")));
    told.columns = 1 + (await page.$eval("#timeline-slider", (one) => Number(one.getAttribute("aria-valuemax"))));
    told.begin = { said: await text("timeline-said"), caption: await text("timeline-caption") };
    await slider.scrollIntoView();
    const box = await slider.boundingBox();
    await page.mouse.click(box.x + box.width * 0.8, box.y + 30);
    told.clicked = { at: await value(), said: await text("timeline-said"), caption: await text("timeline-caption") };
    told.focused = await page.evaluate(() => document.activeElement.id);
    await slider.focus();
    for (const key of ["Home", "ArrowRight", "ArrowRight", "ArrowLeft", "End", "PageDown"]) {
      await page.keyboard.press(key);
      (told.keys ||= []).push(await value());
    }
    await page.keyboard.press("Home");
    await page.click("#timeline-after");
    told.after = { at: await value(), said: await text("timeline-said") };
    const link = await page.$("[data-at]");
    if (link) {
      await link.focus();
      await page.keyboard.press("Enter");
      const seconds = await link.evaluate((one) => Number(one.dataset.at));
      told.linked = { seconds, said: await text("timeline-said"), focused: await page.evaluate(() => document.activeElement.id) };
    }
    // every stop of the Tab key is one a person can see
    await page.evaluate(() => document.body.focus());
    told.stops = await page.$$eval("a[href], button, [tabindex='0']", (all) => all.length);
  }

  for (const [name, width] of [["desktop", 1280], ["phone", 390]]) {
    await page.setViewport({ width, height: 900 });
    await page.setBypassCSP(true); // the checker is no part of the page, whose policy refuses it
    await page.goto(address);
    told.unreachable = await page.$$eval(".wide, .paper", (all) =>
      all.filter((one) => one.scrollWidth > one.clientWidth + 1 && one.tabIndex !== 0).length,
    );
    await page.evaluate(axe);
    const found = await page.evaluate(() => axe.run(document));
    told.axe[name] = found.violations.map((one) => ({ id: one.id, impact: one.impact, nodes: one.nodes.map((node) => node.html.slice(0, 160)) }));
    told.passes = found.passes.length;
  }
  if (folder) {
    const pdf = await page.pdf({ preferCSSPageSize: true });
    writeFileSync(`${folder}/page.pdf`, pdf);
  }
} finally {
  await browser.close();
}
process.stdout.write(JSON.stringify(told));
