// Edits a report's page in orders that could lose edits, in headless Chromium, and prints what happened as JSON.
// node edits_kept.mjs CHROMIUM GIVEN.json FOLDER; GIVEN: {page}; the saved edits come into FOLDER
import { readFileSync, readdirSync } from "node:fs";
import { pathToFileURL } from "node:url";
import puppeteer from "puppeteer-core";

const [chromium, file, folder] = process.argv.slice(2);
const { page: path } = JSON.parse(readFileSync(file, "utf8"));
const args = process.getuid && process.getuid() === 0 ? ["--no-sandbox"] : [];
const browser = await puppeteer.launch({ executablePath: chromium, headless: true, args });
const results = { errors: [], steps: {} };
const wait = (ms) => new Promise((done) => setTimeout(done, ms));

try {
  const open = async () => {
    const page = await browser.newPage();
    page.on("pageerror", (error) => results.errors.push(String(error)));
    await page.goto(pathToFileURL(path).href);
    return page;
  };
  const page = await open();
  const client = await page.createCDPSession();
  await client.send("Browser.setDownloadBehavior", { behavior: "allow", downloadPath: folder });
  const step = async (what, of = page) => {
    await wait(100); // the draft is stored after the page is drawn
    results.steps[what] = await of.evaluate(() => ({
      message: document.getElementById("edit-message").textContent,
      chosen: document.getElementById("edit-target").textContent,
      author: document.getElementById("edit-author").value,
      focus: document.activeElement.id || document.activeElement.tagName,
      rhythm: (document.querySelector("#edit-actions select") || {}).value || "",
      edits: Object.keys(localStorage).filter((key) => !key.endsWith(":not-used")).flatMap((key) => JSON.parse(localStorage.getItem(key)).edits),
      notUsed: Object.keys(localStorage).filter((key) => key.endsWith(":not-used")).map((key) => localStorage.getItem(key)),
    }));
  };
  const keys = async (...all) => {
    for (const key of all) await page.keyboard.press(key);
  };
  const chooseEvent = async (part) => {
    await page.focus("#edit-box");
    for (let i = 0; i < 60; i += 1) await page.keyboard.press("ArrowUp");
    for (let i = 0; i < 60; i += 1) {
      if ((await page.$eval("#edit-target", (element) => element.textContent)).includes(part)) return;
      await page.keyboard.press("ArrowDown");
    }
    throw new Error(`no event ${part}`);
  };

  // a beat is removed, and accepted after that; one of two ends of an interval is removed in the same way
  await page.click("#edit-after");
  await keys("ArrowRight", "X", "Enter");
  await step("removed beat accepted");

  // an episode is renamed, that is undone, and the episode is accepted
  await chooseEvent("AF at");
  await page.select("#edit-actions select", "atrial flutter");
  await step("renamed");
  await page.focus("#edit-box");
  await keys("u");
  await step("undone");
  await keys("Enter");
  await step("accepted");
  // a button keeps the keyboard in the editor
  await page.focus('#edit-actions [data-key="-"]');
  await keys("Enter");
  await step("rejected by a button");

  // an added beat ends a pause, the beat is undone, and the pause is accepted
  await chooseEvent("not confirmed at");
  await page.focus("#edit-strip");
  await page.keyboard.down("Shift");
  for (let i = 0; i < 4; i += 1) await page.keyboard.press("ArrowRight");
  await page.keyboard.up("Shift");
  await keys("V");
  await step("added");
  await chooseEvent("pause at");
  await step("pause of the added beat");
  await keys("u");
  await step("no added beat");
  await keys("Enter", "-");
  await step("pause decided");

  // a name from a word processor, and the page is opened anew
  await page.$eval("#edit-author", (element) => {
    element.value = "Dr.\u00a0Å. Author";
    element.dispatchEvent(new Event("input", { bubbles: true }));
  });
  await step("named");
  await page.goto(pathToFileURL(path).href);
  await step("opened anew");
  await page.$eval("#edit-author", (element) => {
    element.value = "\u200bDr";
    element.dispatchEvent(new Event("input", { bubbles: true }));
  });
  await step("not a name");
  await page.goto(pathToFileURL(path).href);
  await step("opened anew without a name");

  // two tabs
  const other = await open();
  await page.bringToFront();
  await page.click("#edit-after");
  await keys("ArrowRight", "F");
  await step("first tab");
  await other.bringToFront();
  await step("second tab", other);
  await other.click("#edit-after");
  for (const key of ["ArrowRight", "ArrowRight", "V"]) await other.keyboard.press(key);
  await step("second tab edited", other);
  await page.bringToFront();
  await step("first tab again");
  await other.close();

  await page.$eval("#edit-author", (element) => {
    element.value = "Dr A. Author";
    element.dispatchEvent(new Event("input", { bubbles: true }));
  });
  await page.click("#edit-save");
  for (let i = 0; i < 50 && !readdirSync(folder).some((one) => one.endsWith("-edits.json")); i += 1) await wait(100);

  // a stored draft that cannot be read is not thrown away, and its texts are restored
  await page.$eval("#edit-conclusion", (element) => {
    element.value = "Sinus rhythm, short runs";
    element.dispatchEvent(new Event("input", { bubbles: true }));
  });
  await wait(100);
  const restorable = () => page.$eval("#edit-restore", (button) => !button.hidden && button.getClientRects().length > 0);
  results.restorable = [await restorable()];
  await page.evaluate(() => {
    const [key] = Object.keys(localStorage);
    localStorage.setItem(key, JSON.stringify({ ...JSON.parse(localStorage.getItem(key)), more: 1 }));
  });
  await page.goto(pathToFileURL(path).href);
  await step("draft refused");
  const conclusion = () => page.$$eval("#edit-conclusion, #conclusion-text", (places) => places.map((place) => place.value ?? place.textContent));
  results.conclusions = [await conclusion()];
  results.restorable.push(await restorable());
  await page.click("#edit-restore");
  results.conclusions.push(await conclusion());
  results.restorable.push(await restorable());
  await page.click("#edit-undo");
  results.conclusions.push(await conclusion());
} finally {
  await browser.close();
}
process.stdout.write(JSON.stringify(results));
