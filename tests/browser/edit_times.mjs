// Edits a report's page in headless Chromium and prints as JSON how long each edit took until it was drawn, in ms.
// node edit_times.mjs CHROMIUM GIVEN.json FOLDER; GIVEN: {page, edits}
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import puppeteer from "puppeteer-core";

const [chromium, file] = process.argv.slice(2);
const { page: path, edits = 30 } = JSON.parse(readFileSync(file, "utf8"));
const args = process.getuid && process.getuid() === 0 ? ["--no-sandbox"] : [];
const browser = await puppeteer.launch({ executablePath: chromium, headless: true, args, protocolTimeout: 600000 });

try {
  const page = await browser.newPage();
  await page.setViewport({ width: 1280, height: 900 });
  await page.goto(pathToFileURL(path).href);
  const opened = await page.evaluate(() => performance.now());
  const result = await page.evaluate(async (count) => {
    const shown = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0))); // behind style, layout and paint
    const rest = () => new Promise((done) => setTimeout(done, 200)); // what is done when nothing is pressed
    const box = document.getElementById("edit-box");
    const press = (key) => box.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
    const [script, drawn, keys] = [[], [], []];
    const cycle = ["-", "V", "N", "x", "u", "Enter"];
    for (let i = 0; i < count; i += 1) {
      document.getElementById("edit-after").click();
      await rest();
      const key = cycle[i % cycle.length];
      const begun = performance.now();
      press(key);
      const ran = performance.now();
      await shown();
      keys.push(key);
      script.push(ran - begun);
      drawn.push(performance.now() - begun);
      await rest();
    }
    return { keys, script, drawn, beats: document.querySelector("#short .facts dd").textContent };
  }, edits);
  console.log(JSON.stringify({ ...result, opened }));
} finally {
  await browser.close();
}
