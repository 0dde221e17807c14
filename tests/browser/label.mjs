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
const job = JSON.parse(readFileSync(input, "utf8"));
const args = process.getuid && process.getuid() === 0 ? ["--no-sandbox"] : [];
const browser = await puppeteer.launch({ executablePath: chromium, headless: true, args });
const results = { errors: [], requests: [] };
const KEYS = { "|": "x", A: "A", J: "J" }; // a and j are labels of their own

/** A person with a browser of their own, who has opened a page. */
async function visitor(file, { width = 1280, height = 900, prepare, hasty = true } = {}) {
  const context = await browser.createBrowserContext();
  const open = async () => {
    const page = await context.newPage();
    await page.setViewport({ width, height });
    page.on("pageerror", (error) => results.errors.push(String(error)));
    page.on("console", (message) => ["error", "warn"].includes(message.type()) && results.errors.push(message.text()));
    page.on("request", (request) => results.requests.push(request.url().split(":")[0]));
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
const isVisible = (page, id) => page.$eval(`#${id}`, (element) => element.offsetParent !== null);
const questionOf = (page) => page.$eval("#question", (element) => ({ group: Number(element.dataset.group), beat: Number(element.dataset.beat) }));
const labelsOf = (page) => page.$$eval("#answered-list li .symbol", (all) => all.map((element) => element.textContent));
const pressed = (page) => page.$$eval("#answers [aria-pressed=true]", (all) => all.map((element) => element.dataset.label));
const show = async (page) => ({ asked: (await questionOf(page)).group, answered: (await labelsOf(page)).join("") });

/** Answer what is asked until nothing is, or so many times; return the groups asked for. */
async function submitLabels(page, truth, count, by) {
  const groups = [];
  while (groups.length < count && (await isVisible(page, "question"))) {
    const { group, beat } = await questionOf(page);
    groups.push(group);
    await by(page, truth[beat]);
  }
  return groups;
}

const byKey = (page, label) => page.keyboard.press(KEYS[label] || label.toLowerCase());
const byClick = (page, label) => page.click(`#answers [data-label="${label}"]`);

async function checked(page) {
  await page.evaluate(axe);
  const report = await page.evaluate(() => axe.run(document));
  return report.violations.map((violation) => ({ id: violation.id, impact: violation.impact, nodes: violation.nodes.map((node) => node.html.slice(0, 160)) }));
}

const scenarios = {
  async keyboard() {
    const { page, context } = await visitor(job.page);
    const strokes = [];
    const press = async (key) => (strokes.push(key), page.keyboard.press(key));
    const begin = { title: await page.title(), live: await text(page, "live"), progress: await text(page, "progress-said") };
    const groups = await submitLabels(page, job.truth, job.count, (_, label) => press(KEYS[label] || label.toLowerCase()));
    const focused = await page.evaluate(() => document.activeElement.id);
    const finished = { seen: await isVisible(page, "finished"), said: await text(page, "finished-said"), progress: await text(page, "progress-said") };
    const file = await downloaded(page, `${folder}/keyboard`, async () => {
      while ((await page.evaluate(() => document.activeElement.id)) !== "download") await press("Tab");
      await press("Enter");
    });
    const after = strokes.length;
    await page.focus("#more");
    await page.keyboard.press("Enter");
    const on = { seen: await isVisible(page, "question"), progress: await text(page, "progress-said") };
    await context.close();
    return { begin, groups, focused, finished, file, strokes: after, answering: groups.length, on };
  },

  async mouse() {
    const { page, context } = await visitor(job.page);
    let clicks = 0;
    const groups = await submitLabels(page, job.truth, job.count, async (_, label) => ((clicks += 1), byClick(page, label)));
    const file = await downloaded(page, `${folder}/mouse`, async () => ((clicks += 1), page.click("#download")));
    await context.close();
    return { groups, file, clicks };
  },

  async undo() {
    const { page, context, open } = await visitor(job.page);
    const steps = [];
    const note = async (what) => steps.push({ what, ...(await show(page)), did: await text(page, "did") });
    await submitLabels(page, job.truth, 4, byKey);
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
    const redo = await page.$eval("#redo", (element) => element.disabled);
    await page.close();
    const reopenedPage = await open();
    const reopened = { ...(await show(reopenedPage)), kept: await text(reopenedPage, "kept") };
    await reopenedPage.keyboard.down("Control");
    await reopenedPage.keyboard.press("z");
    await reopenedPage.keyboard.up("Control");
    const control = await show(reopenedPage);
    await context.close();
    return { steps, redo, reopened, control };
  },

  async back() {
    const { page, context } = await visitor(job.page);
    const groups = await submitLabels(page, job.truth, 3, byKey);
    const next = await questionOf(page);
    const reviewed = [];
    for (const key of ["ArrowLeft", "ArrowLeft", "ArrowRight"]) {
      await page.keyboard.press(key);
      reviewed.push({ ...(await questionOf(page)), pressed: await pressed(page), title: await text(page, "question-title") });
    }
    await page.keyboard.press("?");
    const changed = { ...(await show(page)), live: await text(page, "live") };
    await page.click('[data-key^="again-"]');
    const again = { ...(await questionOf(page)), focused: await page.evaluate(() => document.activeElement.id) };
    await context.close();
    return { groups, next: next.group, seenBack: reviewed, changed, again };
  },

  async later() {
    const { page, context } = await visitor(job.small);
    const first = await questionOf(page);
    await page.keyboard.press("s");
    const second = await questionOf(page);
    await page.click("#later");
    const progress = await text(page, "progress-said");
    const rest = await submitLabels(page, job.smallTruth, 100, byKey);
    const message = await text(page, "finished-said");
    const more = await isVisible(page, "more");
    const rows = await page.$$eval("#answered-list li", (all) => all.length);
    await context.close();
    return { first, second, progress, rest, said: message, more, rows };
  },

  async split() {
    const { page, context } = await visitor(job.page);
    const question = await questionOf(page);
    await page.keyboard.press(job.truth[question.beat].toLowerCase());
    const before = await questionOf(page);
    await page.keyboard.press("ArrowLeft");
    await page.keyboard.press("m"); // the answered group is mixed: the part without an answer comes next
    const part = await questionOf(page);
    await byKey(page, job.truth[part.beat]);
    const then = await questionOf(page);
    await page.click("#split"); // before an answer: both parts come
    const parts = [];
    for (let i = 0; i < 2; i += 1) {
      parts.push((await questionOf(page)).group);
      await byKey(page, job.truth[(await questionOf(page)).beat]);
    }
    const did = await text(page, "did");
    await context.close();
    return { whole: question, before, part, then, parts, did };
  },

  async merge() {
    const { page, context } = await visitor(job.page);
    for (const key of ["n", "v", "f"]) await page.keyboard.press(key);
    const beats = await page.$$eval('select[data-key^="merge-"]', (all) => all.map((element) => Number(element.dataset.key.slice(6))));
    await page.select(`[data-key="merge-${beats[2]}"]`, String(beats[1]));
    const chosen = await labelsOf(page); // a choice alone does nothing
    await page.click(`[data-key="merge-now-${beats[2]}"]`);
    const merged = await labelsOf(page);
    const file = await downloaded(page, `${folder}/merge`, () => page.click("#download"));
    // it follows the one it was merged with; undo takes both back
    await page.keyboard.press("ArrowLeft");
    await page.keyboard.press("ArrowLeft");
    const at = (await questionOf(page)).beat;
    await page.keyboard.press("A");
    const followed = await labelsOf(page);
    await page.keyboard.press("u");
    await page.keyboard.press("u");
    const undone = await labelsOf(page);
    const choices = await page.$$eval('select[data-key^="merge-"]', (all) => all.map((element) => element.options.length));
    await context.close();
    return { beats, chosen, merged, file, at, followed, undone, choices };
  },

  async tabs() {
    const { page, context, open } = await visitor(job.page);
    const secondPage = await open();
    await page.bringToFront();
    await page.keyboard.press("n");
    await secondPage.waitForFunction(() => document.querySelectorAll("#answered-list li").length === 1);
    const heard = { ...(await show(secondPage)), said: await text(secondPage, "other") };
    // a tab that has not heard of the newer answers does not write over them
    await secondPage.evaluate(() => window.addEventListener("storage", (event) => event.stopImmediatePropagation(), true));
    await page.evaluate(() => {
      const [key] = Object.keys(localStorage).filter((name) => name.startsWith("ecgfed-label:"));
      const stored = JSON.parse(localStorage.getItem(key));
      stored.actions.push({ do: "answer", group: 1, label: "V" });
      Object.assign(stored, { cursor: stored.actions.length, revision: stored.revision + 1 });
      localStorage.setItem(key, JSON.stringify(stored)); // no event comes to the tab that writes
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
    const { page, context } = await visitor(job.page, { prepare });
    const message = await text(page, "kept");
    await submitLabels(page, job.truth, 2, byKey);
    const count = (await labelsOf(page)).length;
    await context.close();
    const spoiled = await visitor(job.page);
    const corrupted = [];
    for (const wrong of ["{", '{"version":1,"actions":[{"do":"answer","group":1e9,"label":"N"}]}', '{"recording":"x"}']) {
      await spoiled.page.evaluate((text_) => {
        const key = `ecgfed-label:${JSON.parse(document.getElementById("page-data").textContent).recording}`;
        localStorage.clear();
        localStorage.setItem(key, text_);
      }, wrong);
      await spoiled.page.reload();
      const stored = await spoiled.page.evaluate(() => Object.values(localStorage));
      corrupted.push({ said: await text(spoiled.page, "other"), there: stored.includes(wrong), asked: await isVisible(spoiled.page, "question") });
    }
    await spoiled.context.close();
    // a page of the same recording with other groups: what was said of its beats is taken over, the rest is kept
    const remade = await visitor(job.page);
    await submitLabels(remade.page, job.truth, 8, byKey);
    const before = await labelsOf(remade.page);
    await remade.page.goto(pathToFileURL(job.small).href);
    const after = await labelsOf(remade.page);
    const moved = { before, after, said: await text(remade.page, "other"), kept: (await remade.page.evaluate(() => Object.keys(localStorage))).length };
    await remade.context.close();
    return { said: message, many: count, left: corrupted, moved };
  },

  async double() {
    const { page, context } = await visitor(job.page, { hasty: false });
    await new Promise((resolve) => setTimeout(resolve, 400));
    await page.click('#answers [data-label="N"]', { count: 2 });
    const count = (await labelsOf(page)).length;
    const message = await text(page, "did");
    await new Promise((resolve) => setTimeout(resolve, 400));
    await page.click('#answers [data-label="N"]');
    const then = (await labelsOf(page)).length;
    await context.close();
    return { many: count, said: message, then };
  },

  async keys() {
    const { page, context } = await visitor(job.page);
    await page.click(".help summary");
    await page.click("#keys");
    await page.keyboard.press("n");
    const off = (await labelsOf(page)).length;
    await page.click("#keys");
    await page.keyboard.press("N");
    const capital = (await labelsOf(page)).length;
    for (const key of ["Control", "Meta"]) {
      await page.keyboard.down(key);
      await page.keyboard.press("l");
      await page.keyboard.up(key);
    }
    const chorded = (await labelsOf(page)).length;
    await page.keyboard.press("x");
    const artifact = await labelsOf(page);
    await page.keyboard.press("Slash");
    const slash = await labelsOf(page);
    for (const key of ["a", "J", "j", "e", "E"]) await page.keyboard.press(key);
    const codes = await labelsOf(page);
    await context.close();
    return { off, capital, chorded, artifact, slash, codes };
  },

  async scale() {
    const { page, context } = await visitor(job.page);
    const scales = { strip: [], average: [], odd: [] };
    for (let i = 0; i < job.count; i += 1) {
      for (const [id, all] of Object.entries(scales)) {
        const svg = await page.$(`#${id} svg`);
        if (svg && (await isVisible(page, id))) all.push(await svg.evaluate((element) => element.getBoundingClientRect().width / element.viewBox.baseVal.width));
      }
      await submitLabels(page, job.truth, 1, byKey);
    }
    await context.close();
    return scales;
  },

  async sizes() {
    const outcome = {};
    for (const [name, width, height] of [["desktop", 1280, 900], ["tablet", 820, 1180], ["phone", 390, 844], ["small", 320, 640]]) {
      const { page, context } = await visitor(job.page, { width, height });
      await submitLabels(page, job.truth, 6, byKey);
      await page.keyboard.press("m");
      const overflow = await page.evaluate(() => document.documentElement.scrollWidth);
      await page.evaluate(() => document.querySelectorAll("details").forEach((element) => (element.open = true)));
      const targets = await page.$$eval("main button, main select, main summary, main label", (all) =>
        all.filter((element) => element.offsetParent).map((element) => [element.textContent.trim().slice(0, 30), element.getBoundingClientRect()])
          .filter(([, box]) => box.height < 44 || box.width < 44).map(([what, box]) => [what, box.width, box.height]),
      );
      await page.evaluate(() => document.querySelectorAll("details").forEach((element) => (element.open = false)));
      const strip = await page.$eval("#strip", (host) => {
        const [svg, mark] = [host.firstElementChild, host.querySelector(".paper-asked").getBoundingClientRect()];
        const box = host.getBoundingClientRect();
        const inside = mark.left >= box.left && mark.right <= box.right;
        return { inside, mm: (svg.getBoundingClientRect().width / 96) * 25.4, said: svg.getAttribute("aria-label") };
      });
      // turned on its side and back, the beat in question is in sight again
      await page.setViewport({ width: height, height: width });
      await page.evaluate(() => new Promise((resolve) => setTimeout(resolve, 150)));
      await page.setViewport({ width, height });
      await page.evaluate(() => new Promise((resolve) => setTimeout(resolve, 150)));
      const turned = await page.$eval("#strip", (host) => {
        const [mark, box] = [host.querySelector(".paper-asked").getBoundingClientRect(), host.getBoundingClientRect()];
        return mark.left >= box.left && mark.right <= box.right && document.documentElement.scrollWidth <= innerWidth;
      });
      await page.evaluate(() => window.scrollTo(0, 0));
      const buttons = await page.$$eval("#answers button", (all) => all.every((element) => element.getBoundingClientRect().bottom <= innerHeight));
      await page.screenshot({ path: `${folder}/${name}.png` });
      await page.screenshot({ path: `${folder}/${name}-full.png`, fullPage: true });
      outcome[name] = { overflow, width, targets, strip, turned, buttons };
      await context.close();
    }
    return outcome;
  },

  async accessible() {
    const outcome = {};
    for (const [name, width] of [["desktop", 1280], ["phone", 390]]) {
      const { page, context } = await visitor(job.small, { width });
      await page.setBypassCSP(true); // the checker is no part of the page, whose policy refuses it
      await page.reload();
      outcome[`${name} begun`] = await checked(page);
      await submitLabels(page, job.smallTruth, 3, byKey);
      await page.$$eval("details", (all) => all.forEach((element) => (element.open = true)));
      outcome[`${name} answered`] = await checked(page);
      await submitLabels(page, job.smallTruth, 100, byKey);
      outcome[`${name} finished`] = await checked(page);
      await context.close();
    }
    return outcome;
  },

  async hostile() {
    const { page, context } = await visitor(job.hostile);
    await submitLabels(page, job.smallTruth, 2, byKey);
    const file = await downloaded(page, `${folder}/hostile`, () => page.click("#download"));
    const outcome = { hacked: await page.evaluate(() => window.hacked === true), heading: await text(page, "page"), file, images: (await page.$$("img")).length };
    outcome.heading = await page.$eval("h1", (element) => element.textContent);
    await context.close();
    return outcome;
  },

  async motion() {
    const { page, context } = await visitor(job.page);
    const of = () => page.$eval("#bar-answered", (element) => getComputedStyle(element).transitionDuration);
    const usual = await of();
    await page.emulateMediaFeatures([{ name: "prefers-reduced-motion", value: "reduce" }]);
    const reduced = await of();
    await page.emulateMediaFeatures([]);
    await submitLabels(page, job.truth, 4, byKey);
    await page.emulateMediaType("print");
    const printed = { question: await isVisible(page, "question"), answered: await isVisible(page, "answered-list"), use: await page.$eval("header .use", (element) => element.offsetParent !== null) };
    await context.close();
    return { usual, reduced, printed };
  },

  async served() {
    if (!job.served) return null;
    const { page, context } = await visitor(job.served);
    await page.waitForFunction(() => document.getElementById("kept").textContent !== "");
    const begin = await text(page, "kept");
    const lines = [];
    for (let i = 0; i < 4; i += 1) {
      const { beat } = await questionOf(page);
      await byKey(page, job.truth[beat]);
      await page.waitForFunction(() => document.getElementById("kept").textContent.startsWith("Written"));
      await page.waitForNetworkIdle({ idleTime: 150 });
      lines.push(readFileSync(job.file, "utf8").trim().split("\r\n").length - 1);
    }
    await page.evaluate(() => localStorage.clear()); // another browser: the server has them
    await page.reload();
    await page.waitForFunction(() => document.querySelectorAll("#answered-list li").length === 4);
    const file = await downloaded(page, `${folder}/served`, () => page.click("#download"));
    const secondPage = await visitor(job.served);
    await secondPage.page.waitForFunction(() => document.querySelectorAll("#answered-list li").length === 4);
    await byKey(secondPage.page, "v");
    await secondPage.page.waitForNetworkIdle({ idleTime: 150 });
    await byKey(page, "f"); // another browser was faster
    await page.waitForFunction(() => document.getElementById("other").textContent !== "");
    const raced = { said: await text(page, "other"), answered: await labelsOf(page) };
    await secondPage.context.close();
    // the program cannot be reached for a while: nothing is lost, and it is written as soon as it can
    await page.setOfflineMode(true);
    await byKey(page, job.truth[(await questionOf(page)).beat]);
    await page.waitForFunction(() => document.getElementById("kept").textContent.startsWith("Not yet"));
    const offline = { kept: await text(page, "kept"), csv: readFileSync(job.file, "utf8").trim().split("\r\n").length - 1 };
    await page.setOfflineMode(false);
    await page.waitForFunction(() => document.getElementById("kept").textContent.startsWith("Written"));
    offline.then = readFileSync(job.file, "utf8").trim().split("\r\n").length - 1;
    while (await isVisible(page, "question")) await byKey(page, job.truth[(await questionOf(page)).beat]);
    await page.click("#done");
    await page.waitForFunction(() => document.getElementById("kept").textContent.includes("has ended"));
    const end = { kept: await text(page, "kept"), csv: readFileSync(job.file, "utf8") };
    const closed = { question: await isVisible(page, "question"), more: await isVisible(page, "more"), before: (await labelsOf(page)).length };
    for (const key of ["u", "n", "ArrowLeft", "v"]) await page.keyboard.press(key);
    Object.assign(closed, { after: (await labelsOf(page)).length, said: await text(page, "did") });
    await context.close();
    return { begin, lines, file, raced, offline, end, closed };
  },
};

try {
  for (const [name, scenario] of Object.entries(scenarios)) {
    try {
      results[name] = await scenario();
    } catch (error) {
      results.errors.push(`${name}: ${error.stack}`);
    }
  }
} finally {
  await browser.close();
}
results.requests = Array.from(new Set(results.requests));
process.stdout.write(JSON.stringify(results));
