// Labels a recording in headless Chromium as a person does, and prints what happened as JSON.
// node label.mjs CHROMIUM GIVEN.json FOLDER for downloads and screenshots
// GIVEN.json: {page, small, hostile: files; truth, smallTruth: {beat: label}; count; served: address or null}
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import puppeteer from "puppeteer-core";
import { downloaded } from "./download.mjs";

const require = createRequire(import.meta.url);
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const [chromium, input, folder] = process.argv.slice(2);
const given = JSON.parse(readFileSync(input, "utf8"));
const args = process.getuid && process.getuid() === 0 ? ["--no-sandbox"] : [];
const browser = await puppeteer.launch({ executablePath: chromium, headless: true, args });
const told = { errors: [], requests: [] };
const KEYS = { "|": "x" };

/** A person with a browser of their own, who has opened a page. */
async function visitor(file, { width = 1280, height = 900, prepare, hasty = true } = {}) {
  const context = await browser.createBrowserContext();
  const open = async () => {
    const page = await context.newPage();
    await page.setViewport({ width, height });
    page.on("pageerror", (error) => told.errors.push(String(error)));
    page.on("console", (message) => ["error", "warn"].includes(message.type()) && told.errors.push(message.text()));
    page.on("request", (request) => told.requests.push(request.url().split(":")[0]));
    page.on("dialog", (dialog) => dialog.accept());
    // this person reads a beat in no time: the page's clock runs faster for them
    if (hasty) await page.evaluateOnNewDocument(() => (performance.now = () => 1000 * Date.now()));
    if (prepare) await page.evaluateOnNewDocument(prepare);
    await page.goto(file.startsWith("http") ? file : pathToFileURL(file).href);
    return page;
  };
  return { context, open, page: await open() };
}

const text = (page, id) => page.$eval(`#${id}`, (element) => element.textContent.trim());
const seen = (page, id) => page.$eval(`#${id}`, (element) => element.offsetParent !== null);
const asked = (page) => page.$eval("#question", (one) => ({ group: Number(one.dataset.group), beat: Number(one.dataset.beat) }));
const answered = (page) => page.$$eval("#answered-list li .symbol", (all) => all.map((one) => one.textContent));
const pressed = (page) => page.$$eval("#answers [aria-pressed=true]", (all) => all.map((one) => one.dataset.label));
const show = async (page) => ({ asked: (await asked(page)).group, answered: (await answered(page)).join("") });

/** Answer what is asked until nothing is, or so many times; return the groups asked for. */
async function answer(page, truth, many, by) {
  const groups = [];
  while (groups.length < many && (await seen(page, "question"))) {
    const { group, beat } = await asked(page);
    groups.push(group);
    await by(page, truth[beat]);
  }
  return groups;
}

const byKey = (page, label) => page.keyboard.press(KEYS[label] || label.toLowerCase());
const byClick = (page, label) => page.click(`#answers [data-label="${label}"]`);

async function checked(page) {
  await page.evaluate(axe);
  const found = await page.evaluate(() => axe.run(document));
  return found.violations.map((one) => ({ id: one.id, impact: one.impact, nodes: one.nodes.map((node) => node.html.slice(0, 160)) }));
}

const scenarios = {
  async keyboard() {
    const { page, context } = await visitor(given.page);
    const strokes = [];
    const press = async (key) => (strokes.push(key), page.keyboard.press(key));
    const begin = { title: await page.title(), live: await text(page, "live"), progress: await text(page, "progress-said") };
    const groups = await answer(page, given.truth, given.count, (_, label) => press(KEYS[label] || label.toLowerCase()));
    const focused = await page.evaluate(() => document.activeElement.id);
    const finished = { seen: await seen(page, "finished"), said: await text(page, "finished-said"), progress: await text(page, "progress-said") };
    const file = await downloaded(page, `${folder}/keyboard`, async () => {
      while ((await page.evaluate(() => document.activeElement.id)) !== "download") await press("Tab");
      await press("Enter");
    });
    const after = strokes.length;
    await page.focus("#more");
    await page.keyboard.press("Enter");
    const on = { seen: await seen(page, "question"), progress: await text(page, "progress-said") };
    await context.close();
    return { begin, groups, focused, finished, file, strokes: after, answering: groups.length, on };
  },

  async mouse() {
    const { page, context } = await visitor(given.page);
    let clicks = 0;
    const groups = await answer(page, given.truth, given.count, async (_, label) => ((clicks += 1), byClick(page, label)));
    const file = await downloaded(page, `${folder}/mouse`, async () => ((clicks += 1), page.click("#download")));
    await context.close();
    return { groups, file, clicks };
  },

  async undo() {
    const { page, context, open } = await visitor(given.page);
    const steps = [];
    const note = async (what) => steps.push({ what, ...(await show(page)), did: await text(page, "did") });
    await answer(page, given.truth, 4, byKey);
    await note("four");
    for (const key of ["u", "u"]) await page.keyboard.press(key);
    await note("two undone");
    await page.keyboard.press("y");
    await note("one again");
    await page.reload();
    await note("reloaded");
    await page.keyboard.press("y");
    await note("again after reload");
    await page.click("#undo");
    await page.keyboard.press("f");
    await note("another one");
    const redo = await page.$eval("#redo", (one) => one.disabled);
    await page.close();
    const later = await open();
    const reopened = { ...(await show(later)), kept: await text(later, "kept") };
    await later.keyboard.down("Control");
    await later.keyboard.press("z");
    await later.keyboard.up("Control");
    const control = await show(later);
    await context.close();
    return { steps, redo, reopened, control };
  },

  async back() {
    const { page, context } = await visitor(given.page);
    const groups = await answer(page, given.truth, 3, byKey);
    const next = await asked(page);
    const seenBack = [];
    for (const key of ["ArrowLeft", "ArrowLeft", "ArrowRight"]) {
      await page.keyboard.press(key);
      seenBack.push({ ...(await asked(page)), pressed: await pressed(page), title: await text(page, "question-title") });
    }
    await page.keyboard.press("?");
    const changed = { ...(await show(page)), live: await text(page, "live") };
    await page.click('[data-key^="again-"]');
    const again = { ...(await asked(page)), focused: await page.evaluate(() => document.activeElement.id) };
    await context.close();
    return { groups, next: next.group, seenBack, changed, again };
  },

  async later() {
    const { page, context } = await visitor(given.small);
    const first = await asked(page);
    await page.keyboard.press("s");
    const second = await asked(page);
    await page.click("#later");
    const progress = await text(page, "progress-said");
    const rest = await answer(page, given.smallTruth, 100, byKey);
    const said = await text(page, "finished-said");
    const more = await seen(page, "more");
    const rows = await page.$$eval("#answered-list li", (all) => all.length);
    await context.close();
    return { first, second, progress, rest, said, more, rows };
  },

  async split() {
    const { page, context } = await visitor(given.page);
    const whole = await asked(page);
    await page.keyboard.press(given.truth[whole.beat].toLowerCase());
    const before = await asked(page);
    await page.keyboard.press("ArrowLeft");
    await page.keyboard.press("m"); // the answered group is mixed: the part without an answer comes next
    const part = await asked(page);
    await byKey(page, given.truth[part.beat]);
    const then = await asked(page);
    await page.click("#split"); // before an answer: both parts come
    const parts = [];
    for (let i = 0; i < 2; i += 1) {
      parts.push((await asked(page)).group);
      await byKey(page, given.truth[(await asked(page)).beat]);
    }
    const did = await text(page, "did");
    await context.close();
    return { whole, before, part, then, parts, did };
  },

  async merge() {
    const { page, context } = await visitor(given.page);
    for (const key of ["n", "v", "f"]) await page.keyboard.press(key);
    const beats = await page.$$eval('select[data-key^="merge-"]', (all) => all.map((one) => Number(one.dataset.key.slice(6))));
    await page.select(`[data-key="merge-${beats[2]}"]`, String(beats[1]));
    const chosen = await answered(page); // a choice alone does nothing
    await page.click(`[data-key="merge-now-${beats[2]}"]`);
    const merged = await answered(page);
    const file = await downloaded(page, `${folder}/merge`, () => page.click("#download"));
    // it follows the one it was merged with; undo takes both back
    await page.keyboard.press("ArrowLeft");
    await page.keyboard.press("ArrowLeft");
    const at = (await asked(page)).beat;
    await page.keyboard.press("a");
    const followed = await answered(page);
    await page.keyboard.press("u");
    await page.keyboard.press("u");
    const undone = await answered(page);
    const choices = await page.$$eval('select[data-key^="merge-"]', (all) => all.map((one) => one.options.length));
    await context.close();
    return { beats, chosen, merged, file, at, followed, undone, choices };
  },

  async tabs() {
    const { page, context, open } = await visitor(given.page);
    const other = await open();
    await page.bringToFront();
    await page.keyboard.press("n");
    await other.waitForFunction(() => document.querySelectorAll("#answered-list li").length === 1);
    const heard = { ...(await show(other)), said: await text(other, "other") };
    // a tab that has not heard of the newer answers does not write over them
    await other.evaluate(() => window.addEventListener("storage", (event) => event.stopImmediatePropagation(), true));
    await page.evaluate(() => {
      const [key] = Object.keys(localStorage).filter((one) => one.startsWith("ecgfed-label:"));
      const kept = JSON.parse(localStorage.getItem(key));
      kept.actions.push({ do: "answer", group: 1, label: "V" });
      Object.assign(kept, { cursor: kept.actions.length, revision: kept.revision + 1 });
      localStorage.setItem(key, JSON.stringify(kept)); // no event comes to the tab that writes
    });
    await page.keyboard.press("f");
    const stale = { ...(await show(page)), said: await text(page, "other") };
    await page.keyboard.press("f");
    const goesOn = (await show(page)).answered;
    await context.close();
    return { heard, stale, goesOn };
  },

  async unkept() {
    const prepare = () => Object.defineProperty(window, "localStorage", { get: () => { throw new DOMException("no", "SecurityError"); } });
    const { page, context } = await visitor(given.page, { prepare });
    const said = await text(page, "kept");
    await answer(page, given.truth, 2, byKey);
    const many = (await answered(page)).length;
    await context.close();
    const spoiled = await visitor(given.page);
    const left = [];
    for (const wrong of ["{", '{"version":1,"actions":[{"do":"answer","group":1e9,"label":"N"}]}', '{"recording":"x"}']) {
      await spoiled.page.evaluate((text_) => {
        const key = `ecgfed-label:${JSON.parse(document.getElementById("page-data").textContent).recording}`;
        localStorage.clear();
        localStorage.setItem(key, text_);
      }, wrong);
      await spoiled.page.reload();
      const kept = await spoiled.page.evaluate(() => Object.values(localStorage));
      left.push({ said: await text(spoiled.page, "other"), there: kept.includes(wrong), asked: await seen(spoiled.page, "question") });
    }
    await spoiled.context.close();
    // a page of the same recording with other groups: what was said of its beats is taken over, the rest is kept
    const remade = await visitor(given.page);
    await answer(remade.page, given.truth, 8, byKey);
    const before = await answered(remade.page);
    await remade.page.goto(pathToFileURL(given.small).href);
    const after = await answered(remade.page);
    const moved = { before, after, said: await text(remade.page, "other"), kept: (await remade.page.evaluate(() => Object.keys(localStorage))).length };
    await remade.context.close();
    return { said, many, left, moved };
  },

  async double() {
    const { page, context } = await visitor(given.page, { hasty: false });
    await new Promise((done) => setTimeout(done, 400));
    await page.click('#answers [data-label="N"]', { count: 2 });
    const many = (await answered(page)).length;
    const said = await text(page, "did");
    await new Promise((done) => setTimeout(done, 400));
    await page.click('#answers [data-label="N"]');
    const then = (await answered(page)).length;
    await context.close();
    return { many, said, then };
  },

  async keys() {
    const { page, context } = await visitor(given.page);
    await page.click(".help summary");
    await page.click("#keys");
    await page.keyboard.press("n");
    const off = (await answered(page)).length;
    await page.click("#keys");
    await page.keyboard.press("N");
    const capital = (await answered(page)).length;
    for (const key of ["Control", "Meta"]) {
      await page.keyboard.down(key);
      await page.keyboard.press("l");
      await page.keyboard.up(key);
    }
    const chorded = (await answered(page)).length;
    await page.keyboard.press("x");
    const artifact = await answered(page);
    await page.keyboard.press("Slash");
    const slash = await answered(page);
    await context.close();
    return { off, capital, chorded, artifact, slash };
  },

  async sizes() {
    const found = {};
    for (const [name, width, height] of [["desktop", 1280, 900], ["tablet", 820, 1180], ["phone", 390, 844], ["small", 320, 640]]) {
      const { page, context } = await visitor(given.page, { width, height });
      await answer(page, given.truth, 6, byKey);
      await page.keyboard.press("m");
      const overflow = await page.evaluate(() => document.documentElement.scrollWidth);
      await page.evaluate(() => document.querySelectorAll("details").forEach((one) => (one.open = true)));
      const targets = await page.$$eval("main button, main select, main summary, main label", (all) =>
        all.filter((one) => one.offsetParent).map((one) => [one.textContent.trim().slice(0, 30), one.getBoundingClientRect()])
          .filter(([, box]) => box.height < 44 || box.width < 44).map(([what, box]) => [what, box.width, box.height]),
      );
      await page.evaluate(() => document.querySelectorAll("details").forEach((one) => (one.open = false)));
      const strip = await page.$eval("#strip", (host) => {
        const [svg, mark] = [host.firstElementChild, host.querySelector(".paper-asked").getBoundingClientRect()];
        const box = host.getBoundingClientRect();
        const inside = mark.left >= box.left && mark.right <= box.right;
        return { inside, mm: (svg.getBoundingClientRect().width / 96) * 25.4, said: svg.getAttribute("aria-label") };
      });
      // turned on its side and back, the beat in question is in sight again
      await page.setViewport({ width: height, height: width });
      await page.evaluate(() => new Promise((done) => setTimeout(done, 150)));
      await page.setViewport({ width, height });
      await page.evaluate(() => new Promise((done) => setTimeout(done, 150)));
      const turned = await page.$eval("#strip", (host) => {
        const [mark, box] = [host.querySelector(".paper-asked").getBoundingClientRect(), host.getBoundingClientRect()];
        return mark.left >= box.left && mark.right <= box.right && document.documentElement.scrollWidth <= innerWidth;
      });
      await page.evaluate(() => window.scrollTo(0, 0));
      const buttons = await page.$$eval("#answers button", (all) => all.every((one) => one.getBoundingClientRect().bottom <= innerHeight));
      await page.screenshot({ path: `${folder}/${name}.png` });
      await page.screenshot({ path: `${folder}/${name}-full.png`, fullPage: true });
      found[name] = { overflow, width, targets, strip, turned, buttons };
      await context.close();
    }
    return found;
  },

  async accessible() {
    const found = {};
    for (const [name, width] of [["desktop", 1280], ["phone", 390]]) {
      const { page, context } = await visitor(given.small, { width });
      await page.setBypassCSP(true); // the checker is no part of the page, whose policy refuses it
      await page.reload();
      found[`${name} begun`] = await checked(page);
      await answer(page, given.smallTruth, 3, byKey);
      await page.$$eval("details", (all) => all.forEach((one) => (one.open = true)));
      found[`${name} answered`] = await checked(page);
      await answer(page, given.smallTruth, 100, byKey);
      found[`${name} finished`] = await checked(page);
      await context.close();
    }
    return found;
  },

  async hostile() {
    const { page, context } = await visitor(given.hostile);
    await answer(page, given.smallTruth, 2, byKey);
    const file = await downloaded(page, `${folder}/hostile`, () => page.click("#download"));
    const found = { hacked: await page.evaluate(() => window.hacked === true), heading: await text(page, "page"), file, images: (await page.$$("img")).length };
    found.heading = await page.$eval("h1", (one) => one.textContent);
    await context.close();
    return found;
  },

  async motion() {
    const { page, context } = await visitor(given.page);
    const of = () => page.$eval("#bar-answered", (one) => getComputedStyle(one).transitionDuration);
    const usual = await of();
    await page.emulateMediaFeatures([{ name: "prefers-reduced-motion", value: "reduce" }]);
    const reduced = await of();
    await page.emulateMediaFeatures([]);
    await answer(page, given.truth, 4, byKey);
    await page.emulateMediaType("print");
    const printed = { question: await seen(page, "question"), answered: await seen(page, "answered-list"), use: await page.$eval("header .use", (one) => one.offsetParent !== null) };
    await context.close();
    return { usual, reduced, printed };
  },

  async served() {
    if (!given.served) return null;
    const { page, context } = await visitor(given.served);
    await page.waitForFunction(() => document.getElementById("kept").textContent !== "");
    const begin = await text(page, "kept");
    const lines = [];
    for (let i = 0; i < 4; i += 1) {
      const { beat } = await asked(page);
      await byKey(page, given.truth[beat]);
      await page.waitForFunction(() => document.getElementById("kept").textContent.startsWith("Written"));
      await page.waitForNetworkIdle({ idleTime: 150 });
      lines.push(readFileSync(given.file, "utf8").trim().split("\r\n").length - 1);
    }
    await page.evaluate(() => localStorage.clear()); // another browser: the server has them
    await page.reload();
    await page.waitForFunction(() => document.querySelectorAll("#answered-list li").length === 4);
    const file = await downloaded(page, `${folder}/served`, () => page.click("#download"));
    const other = await visitor(given.served);
    await other.page.waitForFunction(() => document.querySelectorAll("#answered-list li").length === 4);
    await byKey(other.page, "v");
    await other.page.waitForNetworkIdle({ idleTime: 150 });
    await byKey(page, "f"); // another browser was faster
    await page.waitForFunction(() => document.getElementById("other").textContent !== "");
    const raced = { said: await text(page, "other"), answered: await answered(page) };
    await other.context.close();
    // the program cannot be reached for a while: nothing is lost, and it is written as soon as it can
    await page.setOfflineMode(true);
    await byKey(page, given.truth[(await asked(page)).beat]);
    await page.waitForFunction(() => document.getElementById("kept").textContent.startsWith("Not yet"));
    const offline = { kept: await text(page, "kept"), csv: readFileSync(given.file, "utf8").trim().split("\r\n").length - 1 };
    await page.setOfflineMode(false);
    await page.waitForFunction(() => document.getElementById("kept").textContent.startsWith("Written"));
    offline.then = readFileSync(given.file, "utf8").trim().split("\r\n").length - 1;
    while (await seen(page, "question")) await byKey(page, given.truth[(await asked(page)).beat]);
    await page.click("#done");
    await page.waitForFunction(() => document.getElementById("kept").textContent.includes("has ended"));
    const end = { kept: await text(page, "kept"), csv: readFileSync(given.file, "utf8") };
    const closed = { question: await seen(page, "question"), more: await seen(page, "more"), before: (await answered(page)).length };
    for (const key of ["u", "n", "ArrowLeft", "v"]) await page.keyboard.press(key);
    Object.assign(closed, { after: (await answered(page)).length, said: await text(page, "did") });
    await context.close();
    return { begin, lines, file, raced, offline, end, closed };
  },
};

try {
  for (const [name, scenario] of Object.entries(scenarios)) {
    try {
      told[name] = await scenario();
    } catch (error) {
      told.errors.push(`${name}: ${error.stack}`);
    }
  }
} finally {
  await browser.close();
}
told.requests = Array.from(new Set(told.requests));
process.stdout.write(JSON.stringify(told));
