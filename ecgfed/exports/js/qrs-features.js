/**
 * What the QRS detector's networks are shown: each lead around a candidate, and the extrema of a beat
 * (ecgfed/domain/signal/qrs_features.py). Features are whole multiples of 1/128, worked out in float32.
 */

import { searchSorted, rint } from "./numbers.js";
import { UNIT } from "./qrs-net.js";
import { FLOOR_UV } from "./qrs-signal.js";

/** @typedef {import("./qrs-signal.js").Traces} Traces */

const f = Math.fround;
/** @param {...[number, number, number]} parts start, stop (not included), step */
const places = (...parts) =>
  parts.flatMap(([start, stop, step]) => Array.from({ length: Math.ceil((stop - start) / step) }, (_, i) => start + i * step));

const SHAPE_AT = places([-120, -32, 8], [-30, 31, 2], [33, 121, 8]);
const ENVELOPE_AT = places([-330, -60, 15], [-60, 61, 6], [66, 201, 12]);
/** The part of a lead's features that is its form: the shape within 100 ms. */
export const FORM = Object.freeze([16, 37]);
const PEAK_SHAPE_AT = places([-60, -24, 6], [-24, 25, 2], [30, 61, 6]);
const PEAK_ENVELOPE_AT = places([-30, 31, 6]);
/** How far from a candidate its R peak may stand (140 ms), and how many extrema are compared. */
export const REACH = 28;
const EXTREMA = 6;
const LEVELS = 6;
const LEAD_FEATURES = SHAPE_AT.length + ENVELOPE_AT.length + LEVELS;
const PEAK_FEATURES = PEAK_SHAPE_AT.length + PEAK_ENVELOPE_AT.length + 2;
const LIMIT = 4 * UNIT;
const LEAST = f(0.03);
const float = new Float32Array(1);
const bits = new Uint32Array(float.buffer);

/**
 * Return log2 of a positive number, by straight lines between the powers of two.
 * @param {number} ratio a normal float32
 */
export function logarithm(ratio) {
  float[0] = ratio;
  const exponent = ((bits[0] >>> 23) & 0xff) - 126;
  bits[0] = (bits[0] & 0x7fffff) | 0x3f000000; // the mantissa, from 0.5 to 1
  return f(f(exponent - 2) + f(2 * float[0]));
}

/** Return a feature as a whole multiple of 1/128, at most 4 in size. @param {number} feature */
export function whole(feature) {
  return Math.min(Math.max(rint(f(f(feature) * UNIT)), -LIMIT), LIMIT);
}

/**
 * Return the envelope that a candidate's features are measured by, in microvolt.
 * @param {Float32Array} envelope of a lead
 * @param {number} at
 * @param {number} level the lead's, of the candidate's block
 */
export function ownEnvelope(envelope, at, level) {
  return Math.max(envelope[at], f(level * LEAST), FLOOR_UV / 2);
}

/**
 * Return what one lead shows around a candidate.
 * @param {Traces} made
 * @param {number} lead
 * @param {number} at
 * @param {ArrayLike<number>} level the lead's six, of the candidate's block
 * @param {number} own from `ownEnvelope`
 */
export function leadFeatures(made, lead, at, level, own) {
  const out = new Float64Array(LEAD_FEATURES);
  const [shape, envelope] = [made.shape[lead], made.envelope[lead]];
  const scale = f(4 * own);
  let to = 0;
  for (const offset of SHAPE_AT) out[to++] = whole(f(shape[at + offset] / scale));
  for (const offset of ENVELOPE_AT) {
    const seen = envelope[at + offset];
    out[to++] = whole(f(seen / f(seen + own)));
  }
  for (let i = 0; i < 5; i += 1) out[to++] = whole(f(logarithm(f(own / Math.max(level[i], 1))) / 2));
  out[to] = whole(f(logarithm(f(own / 100)) / 4));
  return out;
}

/**
 * Return the own envelope over each level, mean of the leads asked.
 * @param {Float64Array[]} features of each lead
 * @param {boolean[]} counted
 */
export function levelRatios(features, counted) {
  const out = new Float64Array(LEVELS - 1);
  const number = Math.max(counted.filter(Boolean).length, 1);
  features.forEach((one, lead) => {
    if (counted[lead]) for (let i = 0; i < out.length; i += 1) out[i] += one[LEAD_FEATURES - LEVELS + i];
  });
  return out.map((one) => Math.floor(f(one / number)));
}

/**
 * List where a lead turns: its local extrema.
 * @param {Int32Array} smooth
 * @returns {number[]}
 */
export function turnsOf(smooth) {
  const found = [];
  for (let i = 1; i < smooth.length - 1; i += 1) {
    const [before, here, after] = [smooth[i - 1], smooth[i], smooth[i + 1]];
    if ((here > before && !(after > here)) || (here < before && !(after < here))) found.push(i);
  }
  return found;
}

/**
 * List the extrema of one lead around a beat, the most prominent first, and describe each.
 * @param {Traces} made
 * @param {number} lead
 * @param {number[]} turns of that lead
 * @param {number} at
 * @param {number} own that lead's own envelope
 * @returns {{place: number, there: boolean, features: Float64Array}[]}
 */
export function extrema(made, lead, turns, at, own) {
  const [shape, envelope] = [made.shape[lead], made.envelope[lead]];
  const near = turns.slice(searchSorted(turns, at - REACH), searchSorted(turns, at + REACH, "right"));
  const found = near.map((place) => ({ place, there: true, high: Math.abs(shape[place]) }));
  while (found.length < EXTREMA) found.push({ place: at, there: false, high: -1 });
  found.sort((one, other) => other.high - one.high); // stable
  const highest = Math.max(found[0].high, 1);
  const scale = f(4 * own);
  return found.slice(0, EXTREMA).map(({ place, there, high }) => {
    const features = new Float64Array(PEAK_FEATURES);
    let to = 0;
    for (const offset of PEAK_SHAPE_AT) features[to++] = whole(f(shape[place + offset] / scale));
    for (const offset of PEAK_ENVELOPE_AT) {
      const seen = envelope[place + offset];
      features[to++] = whole(f(seen / f(seen + own)));
    }
    features[to++] = whole(f((place - at) / 20));
    features[to] = whole(f(Math.max(high, 0) / highest));
    return { place, there, features };
  });
}
