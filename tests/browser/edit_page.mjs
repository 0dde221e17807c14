// Edits a report's page in headless Chromium as a physician does, and prints what happened as JSON.
// node edit_page.mjs CHROMIUM GIVEN.json FOLDER; GIVEN: {page}; the saved edits come into FOLDER
import { readFileSync, readdirSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import puppeteer from "puppeteer-core";

const require = createRequire(import.meta.url);
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const [chromium, file, folder] = process.argv.slice(2);
const { page: path, name = "Dr A. Author", adding = null } = JSON.parse(readFileSync(file, "utf8"));
const args = process.getuid && process.getuid() === 0 ? ["--no-sandbox"] : [];
const browser = await puppeteer.launch({ executablePath: chromium, headless: true, args });
const results = { errors: [], steps: [], conclusion: [], ms: [] };

try {
  const page = await browser.newPage();
  page.on("pageerror", (error) => results.errors.push(String(error)));
  page.on("console", (message) => ["error", "warn"].includes(message.type()) && results.errors.push(message.text()));
  await page.setViewport({ width: 1280, height: 900 });
  const client = await page.createCDPSession();
  await client.send("Browser.setDownloadBehavior", { behavior: "allow", downloadPath: folder });
  await page.goto(pathToFileURL(path).href);
  const text = (selector) => page.$eval(selector, (element) => element.textContent);
  const facts = () => page.$$eval("#short .facts dt", (all) => Object.fromEntries(all.map((dt) => [dt.textContent, dt.nextElementSibling.textContent])));
  const tables = () =>
    page.evaluate(() => {
      for (const details of document.querySelectorAll("#event-list details")) details.open = true;
      return new Promise((done) => setTimeout(done, 50));
    }).then(() => page.$$eval("table", (all) => Object.fromEntries(all.map((table) => [table.caption.textContent, Array.from(table.rows, (row) => Array.from(row.cells, (cell) => cell.textContent.replace(/\s+/g, " ").trim()))]))));
  const step = async (what) => results.steps.push({ what, message: await text("#edit-message"), chosen: await text("#edit-target"), review: await text("#review-line"), facts: await facts() });
  const key = async (name) => {
    await page.keyboard.press(name);
    await step(name);
  };

  await step("opened");
  results.drafts = await page.evaluate(() => localStorage.length);
  await page.click("#edit-after");
  await step("first event");
  for (const name of ["-", "u", "Enter", "ArrowDown", "X", "ArrowRight", "ArrowRight", "v", "ArrowDown", "Enter"]) await key(name);
  await page.keyboard.down("Control");
  await page.keyboard.press("z");
  await page.keyboard.press("y");
  await page.keyboard.up("Control");
  await step("undone and redone");
  if (adding) {
    // a missed beat: a click beside it, what the keys of the strip do, a place too near, and the beat
    const clicked = (seconds) =>
      page.evaluate((at) => {
        const host = Array.from(document.querySelectorAll("[data-strip]")).find((figure) => {
          const { strip, options } = EcgReport.data.strips[Number(figure.dataset.strip)];
          return options.pulse !== false && strip.start_s < at - 1 && at + 1 < strip.start_s + 10;
        });
        const { strip } = EcgReport.data.strips[Number(host.dataset.strip)];
        const svg = host.querySelector("svg");
        const box = svg.getBoundingClientRect();
        const mm = 15 + 25 * (at - strip.start_s);
        const clientX = box.left + (mm / svg.viewBox.baseVal.width) * box.width;
        svg.dispatchEvent(new MouseEvent("click", { bubbles: true, clientX, clientY: box.top + box.height / 2 }));
      }, seconds);
    await clicked(adding.missed_s + 0.04);
    await step("place");
    await page.focus("#edit-strip");
    for (const name of ["ArrowRight", "ArrowLeft", "Enter"]) await key(name);
    await page.keyboard.down("Shift");
    for (let i = 0; i < Math.round(adding.apart_s / 0.2); i += 1) await page.keyboard.press("ArrowLeft");
    await page.keyboard.up("Shift");
    await step("cursor moved");
    await key("N");
    await clicked(adding.missed_s + 0.04);
    await page.$eval("#edit-box", (element) => element.scrollIntoView());
    await page.screenshot({ path: `${folder}/place.png` });
    await page.click('#edit-actions [data-key="V"]');
    await step("added");
    await page.focus("#edit-box");
    await key("u");
    await page.keyboard.down("Control");
    await page.keyboard.press("y");
    await page.keyboard.up("Control");
    await step("added again");
  }
  if (await page.$("#edit-groups button")) {
    await page.click("#edit-groups button");
    await step("group");
    await page.focus("#edit-box");
    await key("F");
  }
  await page.type("#edit-indication", "Syncope");
  // the draft is accepted, an edit makes it older, undone it is not; then another text is typed over it
  const conclusion = async (what) => results.conclusion.push({ what, ...(await page.evaluate(() => ({ text: document.getElementById("conclusion-text").textContent, note: document.querySelector("#conclusion .note").textContent, older: !document.getElementById("conclusion-older").hidden, now: document.getElementById("conclusion-now").textContent, field: document.getElementById("edit-conclusion").value }))) });
  await conclusion("draft");
  await page.click("#edit-accept-draft");
  await conclusion("accepted");
  await page.focus("#edit-box");
  await page.keyboard.press("ArrowLeft");
  await page.keyboard.press("X");
  await conclusion("a beat removed");
  await page.keyboard.press("u");
  await conclusion("undone");
  await page.keyboard.press("u");
  await conclusion("not accepted");
  await page.$eval("#edit-conclusion", (element) => (element.focus(), element.select()));
  await page.keyboard.press("Backspace");
  await page.focus("#edit-box");
  await new Promise((done) => setTimeout(done, 50));
  await conclusion("emptied");
  await page.$eval("#edit-conclusion", (element) => (element.focus(), element.select()));
  await page.keyboard.type("Runs of <b>VT</b>");
  await conclusion("typed");
  await page.focus("#edit-box");
  await page.keyboard.press("ArrowUp");
  await page.type("#edit-comment", "Look here");
  await page.$eval("#edit-comment", (element) => element.blur());
  await page.click("#edit-sign");
  results.unnamed = await text("#edit-message");
  await page.type("#edit-author", name);
  await page.click("#edit-sign");
  await step("signed");
  results.footers = await page.evaluate(() => Array.from(document.styleSheets[0].cssRules, (rule) => rule.cssText).filter((rule) => rule.includes("@bottom-left")));
  results.tables = await tables();
  results.older = await page.$$eval(".older", (all) => all.filter((element) => !element.hidden).length);

  // a crash loses nothing: the page is opened anew
  await new Promise((done) => setTimeout(done, 200));
  await page.goto(pathToFileURL(path).href);
  await step("opened anew");
  results.tablesAnew = await tables();
  await page.click("#edit-save");
  for (let i = 0; i < 50 && !readdirSync(folder).some((one) => one.endsWith("-edits.json")); i += 1) await new Promise((done) => setTimeout(done, 100));
  results.saved = readdirSync(folder).filter((one) => one.endsWith("-edits.json"));

  // how long an edit takes until the browser has painted it
  await page.click("#edit-before");
  for (let i = 0; i < 9; i += 1) {
    results.ms.push(
      await page.evaluate(
        (of) =>
          new Promise((done) => {
            const start = performance.now();
            document.getElementById("edit-box").dispatchEvent(new KeyboardEvent("keydown", { key: of, bubbles: true }));
            requestAnimationFrame(() => setTimeout(() => done(performance.now() - start), 0));
          }),
        ["V", "u", "Enter"][i % 3],
      ),
    );
  }
  await page.setBypassCSP(true);
  await page.goto(pathToFileURL(path).href);
  await page.click("#edit-after");
  await page.evaluate(axe);
  const report = await page.evaluate(() => axe.run(document));
  results.axe = report.violations.map((violation) => ({ id: violation.id, nodes: violation.nodes.map((node) => node.html.slice(0, 160)) }));
  await page.setViewport({ width: 320, height: 640 });
  results.width = await page.evaluate(() => document.documentElement.scrollWidth);
  await page.screenshot({ path: `${folder}/editing.png` });
} finally {
  await browser.close();
}
process.stdout.write(JSON.stringify(results));
