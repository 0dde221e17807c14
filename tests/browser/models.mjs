// Asks the models of bundles, in this Node or in headless Chromium, and prints what was answered as JSON.
// node models.mjs GIVEN.json
// GIVEN.json: {chromium: its path, or null for this Node; runtime: folder; jobs: [{call, bundle: folder, ...}]}
// Matrices are files of float32; logits are written to the file a job names as `out`.
import { createServer } from "node:http";
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join, sep } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { runJob } from "./asked.mjs";

const require = createRequire(import.meta.url);
const testFolder = dirname(fileURLToPath(import.meta.url));
const { chromium, runtime, jobs } = JSON.parse(readFileSync(process.argv[2], "utf8"));
const KINDS = { js: "text/javascript", mjs: "text/javascript", wasm: "application/wasm", json: "application/json" };

async function inNode() {
  const ort = require("onnxruntime-node");
  const { openBundleAt } = await import(pathToFileURL(join(runtime, "node.js")).href);
  const opened = new Map();
  const open = async (path, options) => {
    const key = JSON.stringify([path, options]);
    if (!opened.has(key)) opened.set(key, await openBundleAt(path, { ort, sessionOptions: { intraOpNumThreads: 1 }, ...options }));
    return opened.get(key);
  };
  const floats = async (path) => new Float32Array(new Uint8Array(readFileSync(path)).buffer);
  const replies = [];
  for (const job of jobs) replies.push(written(job, await runJob(job, open, floats)));
  return { answers: replies, errors: [], versions: { node: process.versions.node, onnxruntime: require("onnxruntime-node/package.json").version } };
}

/** Write logits where they are asked for. */
function written(job, reply) {
  if (job.out === undefined || reply.answer === undefined) return reply;
  const { found: rows, ...rest } = reply.answer;
  const all = rows instanceof Array ? Buffer.concat(rows.map((row) => Buffer.from(row.buffer, row.byteOffset, row.byteLength))) : Buffer.from(rows, "base64");
  writeFileSync(job.out, all);
  return { answer: rest };
}

/** A server of the folders that are asked for, for this machine alone. */
async function serving(roots) {
  const server = createServer((request, response) => {
    const path = decodeURIComponent(new URL(request.url, "http://localhost").pathname);
    if (path === "/") return response.end('<!doctype html><title>models</title><link rel="icon" href="data:,">');
    const inside = roots.some((root) => path === root || path.startsWith(root + sep));
    try {
      if (!inside || path.split("/").includes("..")) throw new Error("not here");
      const data = readFileSync(path);
      response.setHeader("Content-Type", KINDS[path.split(".").pop()] ?? "application/octet-stream");
      return response.end(data);
    } catch {
      response.statusCode = 404;
      return response.end();
    }
  });
  await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
  return server;
}

/** In the page: load the runtime once, do one job. */
async function inPage({ runtime, ort: folder, asked: jobsModule, job }) {
  globalThis.models ??= (async () => {
    const ort = await import(`${folder}/ort.wasm.bundle.min.mjs`);
    ort.env.wasm.wasmPaths = `${folder}/`;
    ort.env.wasm.numThreads = 1;
    const [{ openBundle }, { runJob }] = await Promise.all([import(`${runtime}/index.js`), import(jobsModule)]);
    return { ort, openBundle, runJob, opened: new Map() };
  })();
  const { ort, openBundle, runJob, opened } = await globalThis.models;
  const open = async (path, options) => {
    const key = JSON.stringify([path, options]);
    if (!opened.has(key)) opened.set(key, await openBundle(`${location.origin}${path}`, { ort, ...options }));
    return opened.get(key);
  };
  const floats = async (path) => new Float32Array(await (await fetch(path)).arrayBuffer());
  const reply = await runJob(job, open, floats);
  if (job.out !== undefined && reply.answer !== undefined) {
    const bytes = new Uint8Array(await new Blob(reply.answer.found).arrayBuffer());
    let text = "";
    for (let at = 0; at < bytes.length; at += 8192) text += String.fromCharCode(...bytes.subarray(at, at + 8192));
    reply.answer.found = btoa(text);
  }
  return { one: reply, version: ort.env.versions.web };
}

async function inChromium() {
  const { default: puppeteer } = await import("puppeteer-core");
  const ort = join(testFolder, "node_modules", "onnxruntime-web", "dist");
  const jobsModule = join(testFolder, "asked.mjs");
  const server = await serving([runtime, ort, jobsModule, ...jobs.flatMap((job) => [job.bundle, job.window, job.rr].filter(Boolean))]);
  const args = process.getuid && process.getuid() === 0 ? ["--no-sandbox"] : [];
  const browser = await puppeteer.launch({ executablePath: chromium, headless: true, args, protocolTimeout: 600_000 });
  const results = { answers: [], errors: [], versions: {} };
  try {
    const page = await browser.newPage();
    page.on("pageerror", (error) => results.errors.push(String(error)));
    page.on("console", (message) => {
      const unsigned = message.location().url?.endsWith("/manifest.sig"); // an address is asked for what may not be there
      if (message.type() === "error" && !unsigned) results.errors.push(message.text());
    });
    await page.goto(`http://127.0.0.1:${server.address().port}/`);
    for (const job of jobs) {
      const { one: reply, version } = await page.evaluate(inPage, { runtime, ort, asked: jobsModule, job });
      results.answers.push(written(job, reply));
      results.versions = { chromium: await browser.version(), onnxruntime: version };
    }
  } finally {
    await browser.close();
    server.close();
  }
  return results;
}

process.stdout.write(JSON.stringify(await (chromium ? inChromium() : inNode())));
