/** The detector's three small networks in integer arithmetic (ecgfed/domain/signal/qrs_net.py). */

import { STORED } from "./qrs-weights.js";

/** Features and activations are multiples of 1/128, weights of 1/256. */
export const UNIT = 128;
const WEIGHT_UNIT = 256;
const SCORE_UNIT = UNIT * WEIGHT_UNIT;
const HIGHEST = 8;
/** Number of leads evaluated per candidate: the two with the lowest signal between the beats. */
export const LEADS = 2;
export const MIXED = 24;

/** @typedef {{inputs: number, outputs: number, weights: Float64Array, bias: Float64Array}} Layer */

/** @type {Record<string, Layer> | null} */
let cached = null;

/** Return a function that reads the next whole numbers of STORED, which are in Golomb-Rice code (tests/web/tables.py). */
function reader() {
  const codes = Uint8Array.from(STORED.text, (character) => STORED.characters.indexOf(character));
  let at = 0;
  const bit = () => (codes[Math.floor(at / 6)] >> (5 - (at++ % 6))) & 1;
  return (/** @type {number} */ count, /** @type {number} */ bits) =>
    Float64Array.from({ length: count }, () => {
      let number = 0;
      while (bit()) number += 1;
      for (let i = 0; i < bits; i += 1) number = 2 * number + bit();
      return number % 2 ? -(number + 1) / 2 : number / 2;
    });
}

/** @param {string} name @returns {Layer} */
function layer(name) {
  if (cached === null) {
    cached = {};
    const read = reader();
    for (const [layerName, [inputs, outputs, bits]] of Object.entries(STORED.layers)) {
      cached[layerName] = { inputs, outputs, weights: read(inputs * outputs, bits), bias: read(outputs, STORED.biasBits) };
    }
  }
  return cached[name];
}

/**
 * Return weights times inputs plus bias, in units of 1/(128 * 256).
 * @param {ArrayLike<number>} inputs whole numbers
 * @param {string} name
 */
function sums(inputs, name) {
  const { inputs: inputCount, outputs, weights, bias } = layer(name);
  const out = Float64Array.from(bias);
  for (let i = 0; i < inputCount; i += 1) {
    const value = inputs[i];
    if (value === 0) continue;
    for (let k = 0, at = i * outputs; k < outputs; k += 1, at += 1) out[k] += value * weights[at];
  }
  return out;
}

/** Return the activation in units of 1/128; the array is changed. @param {Float64Array} values */
function relu(values) {
  for (let i = 0; i < values.length; i += 1) {
    values[i] = Math.min(Math.max(Math.floor(values[i] / WEIGHT_UNIT), 0), HIGHEST * UNIT);
  }
  return values;
}

/**
 * First network: log odds that a candidate is a QRS complex, from its shape and surroundings.
 * @param {ArrayLike<number>[]} features of each lead
 * @param {boolean[]} counted the leads to evaluate, at least one
 * @returns {{score: number, mixed: Float64Array}} log odds, and the last activations
 */
export function firstLook(features, counted) {
  const width = layer("lead").outputs;
  const pooled = new Float64Array(2 * width);
  let number = 0;
  features.forEach((feature, lead) => {
    if (!counted[lead]) return;
    number += 1;
    const hidden = relu(sums(feature, "lead"));
    for (let i = 0; i < width; i += 1) {
      pooled[i] += hidden[i];
      pooled[width + i] = Math.max(pooled[width + i], hidden[i]);
    }
  });
  for (let i = 0; i < width; i += 1) pooled[i] = Math.floor(Math.fround(pooled[i] / number));
  const mixed = relu(sums(pooled, "mix"));
  return { score: sums(mixed, "first")[0] / SCORE_UNIT, mixed };
}

/** Second network: log odds of a QRS complex from its neighbours. @param {ArrayLike<number>} features */
export function secondLook(features) {
  return sums(relu(sums(relu(sums(features, "around")), "tie")), "beat")[0] / SCORE_UNIT;
}

/** Third network: score of an extremum as the R peak, comparable within a beat. @param {ArrayLike<number>} features */
export function peakScore(features) {
  return sums(relu(sums(relu(sums(features, "place")), "near")), "pick")[0];
}
