// Calls parts of the JavaScript runtime for tests that hold them to Python: node stages.mjs RUNTIME JOBS.json
// A job is {module, call, args}; typed arrays travel as {f64 | f32 | u8: base64}. Prints an answer or an error for each.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [runtime, file] = process.argv.slice(2);
const load = (name) => import(pathToFileURL(join(runtime, name)).href);
const KINDS = { f64: Float64Array, f32: Float32Array, u8: Uint8Array };

function decoded(value) {
  if (value === null || typeof value !== "object") return value;
  if (Array.isArray(value)) return value.map(decoded);
  const [[kind, text], ...more] = [...Object.entries(value), ["", ""]];
  if (more.length === 1 && KINDS[kind]) {
    const bytes = Buffer.from(text, "base64");
    return new KINDS[kind](bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length));
  }
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, decoded(item)]));
}

function encoded(value) {
  if (ArrayBuffer.isView(value)) {
    const kind = Object.keys(KINDS).find((name) => value instanceof KINDS[name]);
    if (!kind) return Array.from(value);
    return { [kind]: Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString("base64") };
  }
  if (Array.isArray(value)) return value.map(encoded);
  if (value instanceof Map) return encoded(Object.fromEntries(value));
  if (value !== null && typeof value === "object") {
    return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, encoded(item)]));
  }
  return typeof value === "number" && !Number.isFinite(value) ? String(value) : value;
}

/** Chunks of a signal in the sizes named, over and over. */
function* chunksOf(signals, sizes) {
  for (let at = 0, i = 0; at < signals[0].length; i += 1) {
    const size = sizes[i % sizes.length];
    yield signals.map((row) => row.subarray(at, at + size));
    at += size;
  }
}

let runner = null;
async function classifierOf({ bundle, patient = null, int8 = false, files = null }) {
  runner ??= createRequire(import.meta.url)("onnxruntime-node");
  const { openBundleAt } = await load("node.js");
  const { openBundle } = await load("bundle.js");
  const opened = files ? await openBundle(files, { ort: runner }) : await openBundleAt(bundle, { ort: runner });
  return { opened, classifier: await opened.classifier(patient, { int8 }) };
}

const stateOf = ({ values, reasons, text, labelAgain }) => ({ values, reasons, text, labelAgain });

/** Values that no JSON holds: typed arrays of every kind, undefined, samples that are not there. */
function revived(value) {
  if (value === null || typeof value !== "object" || ArrayBuffer.isView(value)) return value;
  if (Array.isArray(value)) return value.map(revived);
  if (value.nothing) return undefined;
  if (value.number) return Number(value.number);
  if (value.typed) return globalThis[value.typed].from(value.values, value.typed.startsWith("Big") ? BigInt : Number);
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, revived(item)]));
}

/** Do one thing; a refusal is its one line, any other error what it is called. */
async function tried(work) {
  try {
    return { answer: await work() };
  } catch (error) {
    return error.name === "EcgfedError" ? { refused: error.message } : { failed: String(error) };
  }
}

const FUNCTIONS = {
  async exported(name) {
    return Object.keys(await load(name));
  },
  async constant(module, name) {
    return (await load(module))[name];
  },
  async detected(signals, fsHz, lead, sizes) {
    const { QrsDetector } = await load("qrs.js");
    const detector = new QrsDetector(fsHz, signals.length, lead);
    const peaks = [];
    for (const chunk of chunksOf(signals, sizes)) peaks.push(...detector.push(chunk));
    return [...peaks, ...detector.finish()];
  },
  async resampled(signal, fsHz, toHz) {
    const { Resampler } = await load("fir.js");
    return new Resampler(fsHz, toHz).resample(signal);
  },
  async cut(signals, fsHz, lead, rrVersion) {
    const [{ leadQuality }, { detectAroundGaps }, { windowsAround }] = await Promise.all(
      ["quality.js", "around-gaps.js", "windows.js"].map(load),
    );
    const quality = leadQuality(signals[lead], fsHz);
    const peaks = detectAroundGaps(signals, fsHz, quality, lead, "recording");
    return { peaks, stretches: quality.stretches, ...windowsAround(signals[lead], fsHz, peaks, quality, rrVersion) };
  },
  async silent(signal, fsHz, peaks) {
    const [{ leadQuality }, { windowsAround }, { withoutSignal }] = await Promise.all(["quality.js", "windows.js", "no-signal.js"].map(load));
    const quality = leadQuality(signal, fsHz);
    return withoutSignal(signal, fsHz, peaks, windowsAround(signal, fsHz, peaks, quality, 1).windowMv, quality);
  },
  async context(beforeS, windowMv, besideMv, usable, sizes, version) {
    const { ContextStream } = await load("context-stream.js");
    const beats = Array.from(beforeS, (interval, i) => ({ beforeS: interval, windowMv: windowMv[i], usable: !!usable[i], besideMv: besideMv[i] }));
    const stream = new ContextStream(version);
    const features = [];
    for (let at = 0, i = 0; at < beats.length; at += sizes[i % sizes.length], i += 1) {
      features.push(...stream.push(beats.slice(at, at + sizes[i % sizes.length])));
    }
    return [...features, ...stream.finish()];
  },
  async opened(which) {
    const { opened, classifier } = await classifierOf(which);
    return { classes: opened.classes, symbols: opened.symbols, patients: opened.patients, leads: opened.leads, rrVersion: opened.rrVersion, averagedOverAlikeBeats: classifier.averagedOverAlikeBeats };
  },
  async classified(which, recording, options) {
    return (await classifierOf(which)).classifier.classify(recording, options);
  },
  async logits(which, windowMv, rr) {
    return (await classifierOf(which)).classifier.logits(windowMv, rr);
  },
  async streamed(which, recording, options, sizes, rrVersion) {
    const [{ StreamClassifier }, { classifier }] = await Promise.all([load("stream.js"), classifierOf(which)]);
    if (rrVersion !== undefined) {
      classifier.rrVersion = rrVersion; // what beats look like, not what they are: the graphs are of another version
      classifier.predictions = async (windowMv, rr) => windowMv.map((window, i) => ({ label: 0, probability: Float32Array.of(0), outOfDistribution: false, lowConfidence: false, parts: [window, rr[i]] }));
      const plain = classifier.beat.bind(classifier);
      classifier.beat = (sample, fsHz, flags, poor, prediction) => ({ ...plain(sample, fsHz, flags, poor, prediction), windowMv: prediction.parts[0], rr: prediction.parts[1] });
    }
    classifier.averagedOverAlikeBeats = false; // as in a stream, which has no whole recording
    const recordingBeats = await classifier.classify(recording, { lead: options.lead, railsMv: options.railsMv ?? [] });
    const stream = new StreamClassifier(classifier, { fsHz: recording.fsHz, leads: recording.signalsMv.length, ...options });
    const beats = [];
    for (const chunk of chunksOf(recording.signalsMv, sizes)) beats.push(...(await stream.push(chunk)));
    return { whole: recordingBeats, beats: [...beats, ...(await stream.finish())] };
  },
  async drifted(classes, bounds, beats, windowMv, quiet) {
    const { Drift } = await load("drift.js");
    const drift = new Drift(classes, bounds);
    const states = beats.map((beat, i) => {
      if (beat === null) drift.restart();
      else drift.add(beat, windowMv[i]);
      if (quiet[i]) drift.quiet(...quiet[i]);
      return stateOf(drift);
    });
    return { states, events: drift.events };
  },
  async watched(which, recording, options, sizes, bounds) {
    const [{ StreamClassifier }, { Drift }, { classifier }] = await Promise.all([load("stream.js"), load("drift.js"), classifierOf(which)]);
    const drift = new Drift(classifier.classes.length, bounds);
    const stream = new StreamClassifier(classifier, { fsHz: recording.fsHz, leads: recording.signalsMv.length, drift, ...options });
    let beats = 0;
    for (const chunk of chunksOf(recording.signalsMv, sizes)) beats += (await stream.push(chunk)).length;
    beats += (await stream.finish()).length;
    return { beats, events: drift.events, lastBeatS: drift.lastBeatS, ...stateOf(drift) };
  },
  async paced(signal, fsHz, peaks) {
    const { PacingScore } = await load("pacing.js");
    const score = new PacingScore(fsHz);
    return Float64Array.from(peaks, (peak) => score.of(signal.subarray(peak - score.before, peak + score.after + 1)));
  },
  async counted(which, recording, options, sizes) {
    const [{ StreamClassifier }, { classifier }] = await Promise.all([load("stream.js"), classifierOf(which)]);
    const stream = new StreamClassifier(classifier, { fsHz: recording.fsHz, leads: recording.signalsMv.length, ...options });
    const beats = [];
    for (const chunk of chunksOf(recording.signalsMv, sizes)) beats.push(...(await stream.push(chunk)));
    beats.push(...(await stream.finish()));
    const final = beats.filter(({ stage }) => stage === "final").map(({ sample, class: name, flags, poorQuality, lowConfidence, outOfDistribution, noSignal, paced }) => ({ sample, class: name, flags, poorQuality, lowConfidence, outOfDistribution, noSignal, paced }));
    return { beats: final, counters: { ...stream.counters, paced: stream.counters.paced } };
  },
  async with_gap(which, signals, fsHz, start, samples, reported) {
    const [{ StreamClassifier }, { classifier }] = await Promise.all([load("stream.js"), classifierOf(which)]);
    const stream = new StreamClassifier(classifier, { fsHz, leads: signals.length });
    const before = await stream.push(signals.map((row) => row.subarray(0, start)));
    const between = reported ? await stream.gap(samples) : await stream.push(signals.map((row) => row.subarray(start, start + samples)));
    const after = await stream.push(signals.map((row) => row.subarray(start + samples)));
    return [...before, ...between, ...after, ...(await stream.finish())].map((beat) => [beat.sample, beat.class, beat.flags]);
  },
  async steps(which, options, steps) {
    const [{ StreamClassifier }, { classifier }] = await Promise.all([load("stream.js"), classifierOf(which)]);
    const stream = new StreamClassifier(classifier, options);
    const replies = [];
    for (const [call, ...args] of steps) {
      const reply = await tried(() => stream[call](...args.map(revived)));
      const beats = reply.answer?.map((beat) => [beat.sample, beat.class, beat.flags, beat.stage]);
      replies.push({ ...reply, answer: undefined, beats: beats ?? [], seen: stream.sampleCount });
    }
    return { told: replies, events: stream.drift.events };
  },
  async unawaited(which, fsHz, signal) {
    const [{ StreamClassifier }, { classifier }] = await Promise.all([load("stream.js"), classifierOf(which)]);
    const stream = new StreamClassifier(classifier, { fsHz });
    const mine = signal.slice();
    const work = [stream.push(mine), stream.finish()];
    mine.fill(0); // the caller's own again
    work.push(stream.push(signal), stream.finish());
    const results = (await Promise.all(work)).map((beats) => beats.map((beat) => [beat.sample, beat.class]));
    return [[...results[0], ...results[1]], [...results[2], ...results[3]]];
  },
  async failing(which, fsHz, signal, size) {
    const [{ StreamClassifier }, { classifier }] = await Promise.all([load("stream.js"), classifierOf(which)]);
    const predictions = classifier.predictions.bind(classifier);
    const run = async (/** @type {number} */ failsAt) => {
      let calls = 0;
      classifier.predictions = async (windowMv, rr) => {
        if (windowMv.length && (calls += 1) === failsAt) throw new RangeError("once");
        return predictions(windowMv, rr);
      };
      const stream = new StreamClassifier(classifier, { fsHz });
      const replies = [];
      for (const chunk of chunksOf([signal], [size])) replies.push(await tried(() => stream.push(chunk)));
      replies.push(await tried(() => stream.finish()));
      const beats = replies.flatMap(({ answer }) => answer ?? []).map((beat) => [beat.sample, beat.probability]);
      return { beats, failed: replies.filter(({ failed }) => failed).length };
    };
    return { whole: await run(0), failing: await run(3) };
  },
  async made(which, options) {
    const [{ StreamClassifier }, { classifier }] = await Promise.all([load("stream.js"), classifierOf(which)]);
    return Promise.all(options.map((item) => tried(async () => new StreamClassifier(classifier, revived(item)).sampleCount)));
  },
  async classifying(which, recordings) {
    const { classifier } = await classifierOf(which);
    return Promise.all(recordings.map((item) => tried(async () => (await classifier.classify(revived(item))).length)));
  },
  async opening(path, options) {
    const { openBundleAt } = await load("node.js");
    return Promise.all(options.map((item) => tried(async () => (await openBundleAt(path, revived(item))).classes)));
  },
  async manifests(manifest, edits) {
    const [{ readManifest }, { digestOf }] = await Promise.all([load("manifest.js"), load("canonical.js")]);
    const replies = [];
    for (const { place: path, value, remove, same } of edits) {
      const changed = structuredClone(manifest);
      const inner = path.slice(0, -1).reduce((node, name) => node[name], changed);
      if (remove) delete inner[path.at(-1)];
      else if (!path.length) Object.assign(changed, value);
      else if (!same) inner[path.at(-1)] = value;
      if ("digest" in changed) changed.digest = await digestOf(changed, "digest");
      const { refused, failed } = await tried(() => readManifest("manifest.json", new TextEncoder().encode(JSON.stringify(changed))));
      if (failed) throw new Error(failed);
      replies.push(refused ?? "");
    }
    return replies;
  },
  async saved_table(beats, source) {
    const { Beats } = await load("../../web/live/beats.js");
    const table = new Beats();
    table.add(beats);
    return table.csv(source);
  },
  async error_line(text) {
    const { EcgfedError } = await load("errors.js");
    return new EcgfedError("x", text).message;
  },
  async all_models(bundle) {
    runner ??= createRequire(import.meta.url)("onnxruntime-node");
    const { openBundleAt } = await load("node.js");
    return tried(async () => {
      const opened = await openBundleAt(bundle, { ort: runner });
      for (const patient of [null, ...opened.patients]) await opened.classifier(patient);
      return opened.patients.length;
    });
  },
  async polar(frames) {
    const { PolarEcgReader } = await load("polar.js");
    const reader = new PolarEcgReader();
    return frames.map((frame) => reader.push(frame));
  },
  /** A sensor that responds to the start with `reply` and then sends frames; what it was told, and what was heard. */
  async polar_started(reply, frames) {
    const { startPolarEcg, POLAR_PMD } = await load("polar.js");
    const written = [];
    const characteristics = new Map(["control", "data"].map((name) => [POLAR_PMD[name], Object.assign(new EventTarget(), { startNotifications: async () => {} })]));
    const send = (name, bytes) => {
      const target = characteristics.get(POLAR_PMD[name]);
      target.value = new DataView(Uint8Array.from([9, ...bytes]).buffer, 1);
      target.dispatchEvent(new Event("characteristicvaluechanged"));
    };
    characteristics.get(POLAR_PMD.control).writeValueWithResponse = async (bytes) => {
      written.push(Array.from(bytes));
      if (bytes[0] === 2) send("control", reply);
    };
    const server = { connected: true, getPrimaryService: async () => ({ getCharacteristic: async (uuid) => characteristics.get(uuid) }) };
    const heard = [];
    const stop = await startPolarEcg(server, (frame) => heard.push(new Uint8Array(frame.buffer.slice(frame.byteOffset))));
    for (const frame of frames) send("data", frame);
    await stop();
    send("data", frames[0]);
    return { written, heard };
  },
  /** What a graph whose every fifth beat is NaN makes of a recording and of its stream. */
  async spoiled_graph(which, fsHz, signal) {
    const [{ StreamClassifier }, { classifier }] = await Promise.all([load("stream.js"), classifierOf(which)]);
    const { session } = classifier.chain[0];
    const run = async (feeds) => {
      const answers = await session.run(feeds);
      const { data, dims } = answers[session.outputNames[0]];
      const size = feeds.window.data.length / dims[0];
      for (let i = 0; i < dims[0]; i += 1) if (Math.round(1e6 * feeds.window.data[i * size + 100]) % 5 === 0) data[i * dims[1]] = NaN;
      return answers;
    };
    classifier.chain[0].session = { inputNames: session.inputNames, outputNames: session.outputNames, run };
    const whole = await classifier.classify({ fsHz, leads: ["MLII"], signalsMv: [signal] });
    const stream = new StreamClassifier(classifier, { fsHz });
    return { whole, stream: [...(await stream.push(signal)), ...(await stream.finish())], counted: stream.drift.now.beats };
  },
  /** How many sessions of ONNX Runtime were created and released, and what a released classifier says. */
  async released(bundle, recording) {
    const ort = createRequire(import.meta.url)("onnxruntime-node");
    const count = { created: 0, released: 0 };
    const InferenceSession = {
      async create(...args) {
        const session = await ort.InferenceSession.create(...args);
        count.created += 1;
        const release = session.release.bind(session);
        session.release = async () => {
          count.released += 1;
          await release();
        };
        return session;
      },
    };
    const { openBundleAt } = await load("node.js");
    const opened = await openBundleAt(bundle, { ort: { InferenceSession, Tensor: ort.Tensor } });
    const golden = (await opened.checkGolden()).agrees;
    const afterGolden = { ...count };
    const classifier = await opened.classifier();
    const beats = (await classifier.classify(recording)).length;
    await Promise.all([classifier.release(), classifier.release()]);
    return { golden, afterGolden, beats, count, again: await tried(() => classifier.classify(recording)) };
  },
  async readAt(path, how) {
    return (await load("node.js")).readRecordingAt(path, how);
  },
  async lines(chunks) {
    const { LineReader } = await load("serial.js");
    const reader = new LineReader();
    const samples = chunks.map((chunk) => reader.push(chunk));
    return { about: reader.format, found: samples };
  },
};

const replies = [];
for (const { module, call, args } of JSON.parse(readFileSync(file, "utf8"))) {
  try {
    const work = module === null ? FUNCTIONS[call] : (await load(module))[call];
    replies.push({ answer: encoded(await work(...args.map(decoded))) });
  } catch (error) {
    if (error.name !== "EcgfedError") throw error;
    replies.push({ error: error.message });
  }
}
process.stdout.write(JSON.stringify(replies));
