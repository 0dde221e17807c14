/**
 * RR features, version 3: the strip around the beat, and its difference to the patient's running median strip
 * (ecgfed/domain/beats/strip.py).
 */

import { FEATURES as OWN_FEATURES, LIMIT, featuresOf as ownFeatures } from "./context.js";
import { BLOCK, TypicalBeat, quantile } from "./context-shape.js";
import { clip } from "./numbers.js";

/** @typedef {import("./context.js").Beat} Beat */

/** Samples that one number of a strip is the mean of, and numbers before, within and after the window. */
const STEP = 4;
export const BEFORE = 47;
export const WINDOW = 64;
export const AFTER = 33;
const NUMBERS = BEFORE + WINDOW + AFTER;
/** Samples of a strip, and of its part before the window. */
export const STRIP_SAMPLES = STEP * NUMBERS;
export const SAMPLES_BEFORE = STEP * BEFORE;
export const SAMPLES_AFTER = STEP * AFTER;
/** Blocks before and after a beat's own whose beats make the median strip. */
const BACK = 4;
const AHEAD = 3;
const STRIP_LIMIT = 2 * LIMIT;

/** @param {string} name @param {number} count */
const numbered = (name, count) => Array.from({ length: count }, (_, number) => `${name}_${number}`);

/** Names of the features in order. */
export const FEATURES = Object.freeze([
  ...OWN_FEATURES, "typical_mv", ...numbered("beside", BEFORE + AFTER), ...numbered("difference", NUMBERS),
]);

/**
 * Features of consecutive beats.
 * @param {Beat[]} beats with `besideMv`
 * @param {number} from
 * @param {number} to
 * @returns {Float32Array[]}
 */
export function featuresOf(beats, from, to) {
  const typicalBeat = new TypicalBeat(beats);
  /** Strips, and the size of the QRS, of the beats that count. @type {Float64Array[]} */
  const rows = [];
  const rowOf = (/** @type {number} */ i) => (rows[i] ??= Float64Array.of(...stripOf(beats[i]), typicalBeat.parts[i].size));
  /** @type {Map<number, Float64Array>} */
  const medians = new Map();
  return ownFeatures(beats, from, to, typicalBeat).map((own, at) => {
    const i = from + at;
    const block = Math.floor(i / BLOCK);
    const median = medians.get(block) ?? medianOf(rowOf, beats, block);
    medians.set(block, median);
    const row = rowOf(i);
    const typicalMv = Number.isNaN(median[NUMBERS]) ? row[NUMBERS] : median[NUMBERS];
    const relative = (/** @type {number} */ mv) => (Number.isNaN(mv) ? 0 : clip(mv / typicalMv, -STRIP_LIMIT, STRIP_LIMIT));
    const difference = row.subarray(0, NUMBERS).map((value, k) => relative(value - median[k]));
    return Float32Array.of(...own, typicalMv, ...Array.from(besideMvOf(beats[i]), relative), ...difference);
  });
}

/** What lies beside a beat's window. @param {Beat} beat */
function besideMvOf({ besideMv }) {
  if (besideMv?.length !== BEFORE + AFTER) throw new TypeError(`besideMv of a beat holds ${besideMv?.length} numbers; expected ${BEFORE + AFTER}`);
  return besideMv;
}

/** The strip of a beat in millivolt. @param {Beat} beat */
function stripOf(beat) {
  const besideMv = besideMvOf(beat);
  return [...besideMv.subarray(0, BEFORE), ...means(beat.windowMv), ...besideMv.subarray(BEFORE)];
}

/** Means of STEP samples each, in numpy's order of float32 sums. @param {Float32Array} samples */
function means(samples) {
  const sums = new Float32Array(samples.length / STEP);
  samples.forEach((value, i) => (sums[Math.floor(i / STEP)] += value));
  return sums.map((sum) => sum / STEP);
}

/** What lies beside the window of a strip. @param {Float32Array} aroundMv STRIP_SAMPLES samples at 360 Hz */
export function besideOf(aroundMv) {
  const strip = means(aroundMv);
  return Float32Array.of(...strip.subarray(0, BEFORE), ...strip.subarray(BEFORE + WINDOW));
}

/**
 * Medians of the rows of usable beats around a block; NaN if there are too few.
 * @param {(i: number) => Float64Array} rowOf
 * @param {Beat[]} beats
 * @param {number} block
 */
function medianOf(rowOf, beats, block) {
  /** @type {Float64Array[]} */
  const near = [];
  const stop = Math.min((block + AHEAD + 1) * BLOCK, beats.length);
  for (let i = Math.max(block - BACK, 0) * BLOCK; i < stop; i += 1) if (beats[i].usable) near.push(rowOf(i));
  return Float64Array.from({ length: NUMBERS + 1 }, (_, column) => quantile(Float64Array.from(near, (row) => row[column]), 0.5));
}
