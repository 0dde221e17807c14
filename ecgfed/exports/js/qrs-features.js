/**
 * Input features of the QRS detector's networks: each lead around a candidate, and the extrema of a beat
 * (ecgfed/domain/signal/qrs_features.py). Features are multiples of 1/128, computed in float32.
 */

import { searchSorted, rint } from "./numbers.js";
import { UNIT } from "./qrs-net.js";
import { FLOOR_UV } from "./qrs-signal.js";

/** @typedef {import("./qrs-signal.js").Traces} Traces */

const f = Math.fround;
/** @param {...[number, number, number]} parts start, stop (not included), step */
const offsets = (...parts) =>
  parts.flatMap(([start, stop, step]) => Array.from({ length: Math.ceil((stop - start) / step) }, (_, i) => start + i * step));

const SHAPE_AT = offsets([-120, -32, 8], [-30, 31, 2], [33, 121, 8]);
const ENVELOPE_AT = offsets([-330, -60, 15], [-60, 61, 6], [66, 201, 12]);
/** The features of a lead that describe its form: the shape within 100 ms. */
export const FORM = Object.freeze([16, 37]);
const PEAK_SHAPE_AT = offsets([-60, -24, 6], [-24, 25, 2], [30, 61, 6]);
const PEAK_ENVELOPE_AT = offsets([-30, 31, 6]);
/** Maximum distance of the R peak from its candidate (140 ms), and number of extrema compared. */
export const REACH = 28;
const EXTREMA = 6;
const LEVELS = 6;
const LEAD_FEATURES = SHAPE_AT.length + ENVELOPE_AT.length + LEVELS;
const PEAK_FEATURES = PEAK_SHAPE_AT.length + PEAK_ENVELOPE_AT.length + 2;
const LIMIT = 4 * UNIT;
const MIN_SHARE = f(0.03);
const float = new Float32Array(1);
const bits = new Uint32Array(float.buffer);

/**
 * Piecewise linear log2 of a positive number, exact at powers of two.
 * @param {number} ratio a normal float32
 */
export function logarithm(ratio) {
  float[0] = ratio;
  const exponent = ((bits[0] >>> 23) & 0xff) - 126;
  bits[0] = (bits[0] & 0x7fffff) | 0x3f000000; // the mantissa, from 0.5 to 1
  return f(f(exponent - 2) + f(2 * float[0]));
}

/** Round a feature to a multiple of 1/128, clipped to 4 in magnitude. @param {number} feature */
export function rounded(feature) {
  return Math.min(Math.max(rint(f(f(feature) * UNIT)), -LIMIT), LIMIT);
}

/**
 * Return the envelope that normalises a candidate's features, in microvolt.
 * @param {Float32Array} envelope of a lead
 * @param {number} at
 * @param {number} level the lead's, of the candidate's block
 */
export function beatEnvelope(envelope, at, level) {
  return Math.max(envelope[at], f(level * MIN_SHARE), FLOOR_UV / 2);
}

/**
 * Return the features of one lead around a candidate.
 * @param {Traces} traces
 * @param {number} lead
 * @param {number} at
 * @param {ArrayLike<number>} level the lead's six, of the candidate's block
 * @param {number} reference from `ownEnvelope`
 */
export function leadFeatures(traces, lead, at, level, reference) {
  const out = new Float64Array(LEAD_FEATURES);
  const [shape, envelope] = [traces.shape[lead], traces.envelope[lead]];
  const scale = f(4 * reference);
  let to = 0;
  for (const offset of SHAPE_AT) out[to++] = rounded(f(shape[at + offset] / scale));
  for (const offset of ENVELOPE_AT) {
    const value = envelope[at + offset];
    out[to++] = rounded(f(value / f(value + reference)));
  }
  for (let i = 0; i < 5; i += 1) out[to++] = rounded(f(logarithm(f(reference / Math.max(level[i], 1))) / 2));
  out[to] = rounded(f(logarithm(f(reference / 100)) / 4));
  return out;
}

/**
 * Return the ratio of the envelope to each level, mean over the counted leads.
 * @param {Float64Array[]} features of each lead
 * @param {boolean[]} counted
 */
export function levelRatios(features, counted) {
  const out = new Float64Array(LEVELS - 1);
  const number = Math.max(counted.filter(Boolean).length, 1);
  features.forEach((feature, lead) => {
    if (counted[lead]) for (let i = 0; i < out.length; i += 1) out[i] += feature[LEAD_FEATURES - LEVELS + i];
  });
  return out.map((value) => Math.floor(f(value / number)));
}

/**
 * List the local extrema of a lead.
 * @param {Int32Array} smooth
 * @returns {number[]}
 */
export function turnsOf(smooth) {
  const turns = [];
  for (let i = 1; i < smooth.length - 1; i += 1) {
    const [before, current, after] = [smooth[i - 1], smooth[i], smooth[i + 1]];
    if ((current > before && !(after > current)) || (current < before && !(after < current))) turns.push(i);
  }
  return turns;
}

/**
 * List the extrema of one lead around a beat, the most prominent first, and describe each.
 * @param {Traces} traces
 * @param {number} lead
 * @param {number[]} turns of that lead
 * @param {number} at
 * @param {number} reference the envelope of the beat on that lead
 * @returns {{position: number, exists: boolean, features: Float64Array}[]}
 */
export function extrema(traces, lead, turns, at, reference) {
  const [shape, envelope] = [traces.shape[lead], traces.envelope[lead]];
  const near = turns.slice(searchSorted(turns, at - REACH), searchSorted(turns, at + REACH, "right"));
  const peaks = near.map((position) => ({ position, exists: true, high: Math.abs(shape[position]) }));
  while (peaks.length < EXTREMA) peaks.push({ position: at, exists: false, high: -1 });
  peaks.sort((a, b) => b.high - a.high); // stable
  const highest = Math.max(peaks[0].high, 1);
  const scale = f(4 * reference);
  return peaks.slice(0, EXTREMA).map(({ position, exists, high }) => {
    const features = new Float64Array(PEAK_FEATURES);
    let to = 0;
    for (const offset of PEAK_SHAPE_AT) features[to++] = rounded(f(shape[position + offset] / scale));
    for (const offset of PEAK_ENVELOPE_AT) {
      const value = envelope[position + offset];
      features[to++] = rounded(f(value / f(value + reference)));
    }
    features[to++] = rounded(f((position - at) / 20));
    features[to] = rounded(f(Math.max(high, 0) / highest));
    return { position, exists, features };
  });
}
