// What a stream costs beside the whole recording, in Node: processor time of both in turns, and whether they agree.
//
//   node benchmarks/device/stream_cost.mjs --record mitdb/208 [--bundle DIR] [--minutes 30] [--rounds 3] [--early decided] [--runtime DIR ...]
//
// Each round runs, for every runtime (a folder with the package: `ecgfed/exports/js`, or that of another version), `classify`
// and then a stream in chunks of a quarter of a second, with early answers by the option `--early` (`off`, `decided` or
// `true`); the order of the runtimes is reversed every other round. ONNX Runtime has one thread. Ratios are within a round,
// so that another load on the machine weighs on both.
// onnxruntime-node is the package of tests/browser (`make browser`). Prints JSON.
import { createHash } from "node:crypto";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { parseArgs } from "node:util";

const ROOT = resolve(import.meta.dirname, "../..");
const { values: given } = parseArgs({
  options: {
    record: { type: "string" },
    bundle: { type: "string", default: join(ROOT, "ecgfed/exports/model") },
    minutes: { type: "string", default: "30" },
    rounds: { type: "string", default: "3" },
    early: { type: "string", default: "decided" },
    runtime: { type: "string", multiple: true, default: [join(ROOT, "ecgfed/exports/js")] },
  },
});
const early = { off: false, decided: "decided", true: true }[given.early];
const ort = createRequire(join(ROOT, "tests/browser/package.json"))("onnxruntime-node");

/** Processor seconds of work, and what it returns. */
async function timed(work) {
  const before = process.cpuUsage();
  const result = await work();
  const { user, system } = process.cpuUsage(before);
  return { seconds: (user + system) / 1e6, result };
}

/** Digest of the final beats: samples, probabilities to the last bit, flags. */
function digestOf(beats) {
  const hash = createHash("sha256");
  for (const { sample, probabilities, flags } of beats) hash.update(`${sample} ${flags} `).update(new Uint8Array(probabilities.buffer, probabilities.byteOffset, probabilities.byteLength));
  return hash.digest("hex").slice(0, 16);
}

async function opened(folder) {
  const [{ openBundleAt, readRecordingAt }, { StreamClassifier }] = await Promise.all(["node.js", "index.js"].map((name) => import(pathToFileURL(join(resolve(folder), name)).href)));
  const bundle = await openBundleAt(given.bundle, { ort, sessionOptions: { intraOpNumThreads: 1, interOpNumThreads: 1 } });
  const whole = await readRecordingAt(given.record);
  const count = Math.round(Number(given.minutes) * 60 * whole.fsHz);
  const recording = { ...whole, signalsMv: whole.signalsMv.map((row) => row.slice(0, count)) };
  return { folder, StreamClassifier, classifier: await bundle.classifier(), recording, rounds: [] };
}

async function round({ StreamClassifier, classifier, recording, rounds }) {
  const { fsHz, leads, signalsMv } = recording;
  const lead = Math.max(leads.findIndex((name) => classifier.leads.includes(name)), 0);
  const whole = await timed(() => classifier.classify(recording, { lead }));
  const streamed = await timed(async () => {
    const stream = new StreamClassifier(classifier, { fsHz, leads: leads.length, lead, early });
    const beats = [];
    const size = Math.round(fsHz / 4);
    for (let at = 0; at < signalsMv[0].length; at += size) beats.push(...(await stream.push(signalsMv.map((row) => row.subarray(at, at + size)))));
    return [...beats, ...(await stream.finish())];
  });
  const final = streamed.result.filter((beat) => beat.stage === "final");
  const earlyBeats = streamed.result.filter((beat) => beat.stage === "early");
  rounds.push({
    classify_s: whole.seconds, stream_s: streamed.seconds, ratio: streamed.seconds / whole.seconds,
    beats: final.length, early: earlyBeats.length, final_bits: digestOf(final), early_bits: digestOf(earlyBeats),
    same_labels: final.filter((beat, i) => beat.label === whole.result[i]?.label).length,
  });
}

const runtimes = [];
for (const folder of given.runtime) runtimes.push(await opened(folder));
for (let number = 0; number < Number(given.rounds); number += 1) {
  for (const runtime of number % 2 ? runtimes.toReversed() : runtimes) await round(runtime);
}
console.log(JSON.stringify({ node: process.versions.node, record: given.record, early: given.early, minutes: Number(given.minutes), runtimes: runtimes.map(({ folder, rounds }) => ({ runtime: folder, rounds })) }, null, 2));
