/**
 * Golden vectors: a synthetic recording, the output of each stage and of every model (ecgfed/exports/device/golden.py). The
 * input of every stage is the bundle's output of the stage before, so that the first difference shows the faulty stage.
 */

import { detectAroundGaps } from "./around-gaps.js";
import { softmax } from "./classifier.js";
import { contextFeatures } from "./context-stream.js";
import { BundleError, EcgfedError, safeText } from "./errors.js";
import { Resampler } from "./fir.js";
import { bandPass, bridgeSamples, fillGaps } from "./filters.js";
import { modelsOf } from "./manifest-models.js";
import { argMax, rint } from "./numbers.js";
import { leadQuality } from "./quality.js";
import { NO_SIGNAL } from "./quality-reasons.js";
import { Spans } from "./spans.js";
import { SAMPLES_BEFORE, STRIP_SAMPLES, besideOf } from "./strip.js";
import { checkFs } from "./units.js";
import { FS_HZ, WINDOW_SAMPLES, beatsInTime, cutWindows } from "./windows.js";

/** @typedef {import("./bundle.js").Bundle} Bundle */
/** @typedef {import("./index.d.ts").GoldenStage} GoldenStage */
/** @typedef {Record<string, any>} GoldenEntry the parsed file, or a part of it */

const NV_A_MV = 1_000_000;
/** Tolerances between machines: nanovolts, features, logits, probabilities, distances. */
const [SIGNAL_NV, FEATURE, LOGIT, PROBABILITY, DISTANCE] = [2, 2e-5, 1e-4, 1e-4, 1e-4];
/** Tolerances of int8 variants: values midway between two steps may round differently in another ONNX Runtime. */
const [INT8_LOGIT, INT8_PROBABILITY] = [0.2, 0.02];
/** The tolerance of larger logits is relative. */
const LARGE_LOGIT = 100;
const MAX_BYTES = 64 << 20;
/** Maximum number of beats in golden vectors. */
const MAX_BEATS = 100_000;

/** @param {ArrayLike<number>} signalMv */
const inNv = (signalMv) => Array.from(signalMv, (value) => rint(value * NV_A_MV));
/** @param {number[]} values */
const fromNv = (values) => Float64Array.from(values, (value) => value / NV_A_MV);
/** @param {number[]} values */
const windowOf = (values) => Float32Array.from(fromNv(values));

/** Shape and flattened values of nested lists of numbers. @param {any} value @returns {{shape: number[], flat: number[]}} */
function flattened(value) {
  if (typeof value === "number" || typeof value === "boolean") return { shape: [], flat: [Number(value)] };
  if (!Array.isArray(value) && !ArrayBuffer.isView(value)) throw new TypeError("numbers in lists");
  const parts = Array.from(/** @type {ArrayLike<any>} */ (value), flattened);
  const inner = parts.length ? parts[0].shape : [];
  if (parts.some(({ shape }) => shape.join() !== inner.join())) throw new TypeError("lists of one length");
  return { shape: [parts.length, ...inner], flat: parts.flatMap(({ flat }) => flat) };
}

/**
 * Compare computed values with those in the bundle.
 * @param {string} name
 * @param {any} computed
 * @param {any} expected
 * @param {number} tolerance
 * @param {string} unit
 * @param {(difference: number, expected: number) => number} scaled
 * @returns {GoldenStage}
 */
function compared(name, computed, expected, tolerance, unit, scaled = (difference) => difference) {
  const [values, reference] = [flattened(computed), flattened(expected)];
  let difference = 0;
  if (values.shape.join() !== reference.shape.join() && (values.flat.length || reference.flat.length)) difference = Infinity;
  else values.flat.forEach((value, i) => (difference = Math.max(difference, scaled(Math.abs(value - reference.flat[i]), reference.flat[i]))));
  if (Number.isNaN(difference)) difference = Infinity;
  return { name, difference, tolerance, unit, agrees: difference <= tolerance };
}

/** @param {number} difference @param {number} expected */
const scaledLogit = (difference, expected) => difference / Math.max(Math.abs(expected) / LARGE_LOGIT, 1);

/** Check the length of a list with one entry per beat. @template T @param {T[]} values @returns {T[]} */
function ofBeats(values) {
  if (!(values.length <= MAX_BEATS)) throw new RangeError(`${values.length} beats`);
  return values;
}

/** The stages of one recording. @param {GoldenEntry} recording @param {number} rrVersion @returns {GoldenStage[]} */
function recordingStages(recording, rrVersion) {
  const of = `of ${safeText(recording.name, 40)}`;
  const fsHz = recording.fs_hz;
  checkFs(fsHz, "golden", String(fsHz), "");
  const signalMv = Float64Array.from(recording.adu, (/** @type {number | null} */ adu) => (adu === null ? NaN : (adu - recording.baseline_adu) / recording.gain_adu_per_mv));
  const at360 = recording.resampled_nv ?? recording.filtered_nv;
  const quality = leadQuality(signalMv, fsHz);
  const peaks = ofBeats(recording.r_samples).map(Number);
  const filtered = bandPass(fillGaps(signalMv, bridgeSamples(fsHz)), fsHz);
  const resampled = fromNv(at360);
  const { windowMv, padded } = cutWindows(resampled, fsHz, peaks);
  const stages = [
    compared(`filtered signal ${of}`, inNv(filtered), recording.filtered_nv, SIGNAL_NV, "nV"),
    compared(`signal at 360 Hz ${of}`, inNv(new Resampler(fsHz, FS_HZ).resample(fromNv(recording.filtered_nv))), at360, SIGNAL_NV, "nV"),
    compared(`lost stretches ${of}`, quality.spans(NO_SIGNAL).edges(), recording.lost, 0, "samples"),
    compared(`R peaks ${of}`, detectAroundGaps([signalMv], fsHz, quality, 0, "golden"), recording.r_samples, 0, "samples"),
    compared(`windows ${of}`, windowMv.map(inNv), recording.window_nv, SIGNAL_NV, "nV"),
    compared(`padded windows ${of}`, padded, recording.padded, 0, ""),
  ];
  if (rrVersion) {
    const rr = beatsInTime(rrVersion, fsHz, peaks, recording.window_nv.map(windowOf), recording.padded.map(Boolean), new Spans(recording.lost), resampled);
    stages.push(compared(`RR features ${of}`, rr, recording.rr, FEATURE, ""));
  }
  return stages;
}

/** RR features of selected beats, whose windows, of version 3 strips, are sums of a few shapes. @param {GoldenEntry} context @param {2 | 3} version */
function contextOf(context, version) {
  const [first, samples] = version === 3 ? [SAMPLES_BEFORE, STRIP_SAMPLES] : [0, WINDOW_SAMPLES];
  const shapes = context.shapes_nv.map((/** @type {number[]} */ shape) => Array.from(shape));
  if (shapes.some((/** @type {number[]} */ shape) => shape.length !== samples)) throw new RangeError("shapes of other windows");
  const beats = ofBeats(context.parts_per_mille).map((/** @type {number[]} */ parts, /** @type {number} */ i) => {
    if (parts.length !== shapes.length) throw new RangeError("a part of each shape");
    const sum = (/** @type {number} */ k) => parts.reduce((total, part, shape) => total + part * shapes[shape][k], 0) / 1000;
    const aroundMv = windowOf(shapes[0].map((/** @type {number} */ _, /** @type {number} */ k) => sum(k)));
    const before = context.before_ms[i];
    return {
      beforeS: before === null ? NaN : before / 1000,
      windowMv: aroundMv.slice(first, first + WINDOW_SAMPLES),
      usable: Boolean(context.usable[i]),
      besideMv: version === 3 ? besideOf(aroundMv) : null,
    };
  });
  const features = contextFeatures(beats, version);
  return context.answered.map((/** @type {number} */ i) => features[i]);
}

/**
 * The stages of all models.
 * @param {Bundle} bundle
 * @param {GoldenEntry} golden
 * @param {Float32Array[]} windowMv
 * @param {Float32Array[]} rr
 */
async function modelStages(bundle, golden, windowMv, rr) {
  const stages = [];
  for (const { client, form } of modelsOf(bundle.manifest)) {
    const models = client === null ? golden.global : golden.patients[client];
    const some = golden.answered[client === null ? "global" : "patients"];
    if (some.some((/** @type {number} */ i) => !windowMv[i])) throw new RangeError("beats that are there");
    const pick = (/** @type {Float32Array[]} */ all) => some.map((/** @type {number} */ i) => all[i]);
    const classifier = await bundle.classifier(client, { int8: form === "int8" });
    const logits = await classifier.logits(pick(windowMv), classifier.rrVersion ? pick(rr) : []).finally(() => classifier.release());
    const probability = logits.map((row) => softmax(row, classifier.certainty.temperature));
    const labels = probability.map(argMax);
    const of = `${client === null ? "of the global model" : `of ${client}`}${form === "int8" ? ", int8" : ""}`;
    const expected = models[form];
    const likely = probability.map((row, i) => row[labels[i]]);
    stages.push(
      compared(`logits ${of}`, logits, expected.logits, form === "int8" ? INT8_LOGIT : LOGIT, "", scaledLogit),
      compared(`probability ${of}`, likely, expected.probability, form === "int8" ? INT8_PROBABILITY : PROBABILITY, ""),
      compared(`labels ${of}`, labels, expected.label, 0, ""),
    );
  }
  return stages;
}

/** @param {Bundle} bundle @param {GoldenEntry} golden */
async function stagesOf(bundle, golden) {
  const { rrVersion } = bundle;
  const stages = golden.recordings.flatMap((/** @type {GoldenEntry} */ recording) => recordingStages(recording, rrVersion));
  if (rrVersion >= 2) stages.push(compared("RR features over minutes", contextOf(golden.context, /** @type {2 | 3} */ (rrVersion)), golden.context.rr, FEATURE, ""));
  const windowMv = golden.recordings.flatMap((/** @type {GoldenEntry} */ recording) => recording.window_nv.map(windowOf));
  const rr = golden.recordings.flatMap((/** @type {GoldenEntry} */ recording) => (recording.rr ?? []).map((/** @type {number[]} */ row) => Float32Array.from(row)));
  const classifier = await bundle.classifier();
  const distance = await classifier.distances(windowMv).finally(() => classifier.release());
  if (distance !== null) stages.push(compared("distance from typical beats", distance, golden.far.distance, DISTANCE, ""));
  return [...stages, ...(await modelStages(bundle, golden, windowMv, rr))];
}

/** Result of a check: all stages in order. */
export class GoldenCheck {
  /** @param {GoldenStage[]} stages */
  constructor(stages) {
    this.stages = stages;
  }

  /** The first stage that differs; null if all agree. */
  get first() {
    return this.stages.find((stage) => !stage.agrees) ?? null;
  }

  /** Whether all stages agree. */
  get agrees() {
    return this.first === null;
  }

  /** One line. */
  get text() {
    const { first } = this;
    if (first === null) return `all ${this.stages.length} stages agree with the golden vectors`;
    const by = `${Number(first.difference.toPrecision(2))} ${first.unit}`.trim();
    return `differs from the golden vectors first at: ${first.name}, by ${by}; at most ${first.tolerance} is let through`;
  }
}

/**
 * Recompute all golden vectors of a bundle with this runtime, and compare.
 * @param {Bundle} bundle
 */
export async function checkGolden(bundle) {
  const name = bundle.manifest.golden;
  if (typeof name !== "string") throw new BundleError(bundle.files.name, "holds no golden vectors", "a bundle of version 2", "export the run again");
  const where = `${bundle.files.name}/${name}`;
  const bytes = await bundle.read(name);
  try {
    if (bytes.length > MAX_BYTES) throw new RangeError(`${bytes.length} bytes`);
    return new GoldenCheck(await stagesOf(bundle, JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes))));
  } catch (problem) {
    if (problem instanceof BundleError) throw problem;
    const why = problem instanceof EcgfedError ? problem.message : String(problem);
    throw new BundleError(where, `is not of its form (${why})`, "", "export it again");
  }
}
