// Runs a bundled script in a page and in a web worker of headless Chromium, and prints what both answered as JSON.
// node package.mjs CHROMIUM GIVEN.json; GIVEN.json: {folder: with page.js and worker.js, ort: folder of WebAssembly, job}
import { createServer } from "node:http";
import { readFileSync } from "node:fs";
import { basename, join } from "node:path";
import puppeteer from "puppeteer-core";

const [chromium, input] = process.argv.slice(2);
const { folder, ort, job } = JSON.parse(readFileSync(input, "utf8"));
const KINDS = { js: "text/javascript", mjs: "text/javascript", wasm: "application/wasm", json: "application/json" };
const server = createServer((request, response) => {
  const path = new URL(request.url, "http://localhost").pathname;
  if (path === "/") return response.end('<!doctype html><title>package</title><link rel="icon" href="data:,"><script type="module" src="/page.js"></script>');
  const place = path.startsWith("/ort/") ? join(ort, basename(path)) : path.startsWith("/bundle/") ? join(job.bundle, basename(path)) : join(folder, basename(path));
  try {
    const data = readFileSync(place);
    response.setHeader("Content-Type", KINDS[path.split(".").pop()] ?? "application/octet-stream");
    return response.end(data);
  } catch {
    response.statusCode = 404;
    return response.end();
  }
});
await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
const origin = `http://127.0.0.1:${server.address().port}`;
const args = process.getuid && process.getuid() === 0 ? ["--no-sandbox"] : [];
const browser = await puppeteer.launch({ executablePath: chromium, headless: true, args, protocolTimeout: 300_000 });
const errors = [];
try {
  const page = await browser.newPage();
  page.on("pageerror", (error) => errors.push(String(error)));
  await page.goto(`${origin}/`);
  await page.waitForFunction(() => globalThis.classified !== undefined, { timeout: 240_000 });
  const asked = { ...job, wasm: `${origin}/ort/`, bundle: `${origin}/bundle/` };
  const inPage = await page.evaluate((what) => globalThis.classified(what), asked);
  const inWorker = await page.evaluate(
    (what) =>
      new Promise((resolve, reject) => {
        const worker = new Worker("/worker.js", { type: "module" });
        worker.onmessage = (event) => resolve(event.data);
        worker.onerror = (event) => reject(new Error(event.message));
        worker.postMessage(what);
      }),
    asked,
  );
  process.stdout.write(JSON.stringify({ errors, page: inPage, worker: inWorker }));
} finally {
  await browser.close();
  server.close();
}
