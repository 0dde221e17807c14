/** Features of the detector's second network: a candidate relative to its neighbours (ecgfed/domain/signal/qrs_rhythm.py). */

import { clip, searchSorted } from "./numbers.js";
import { logarithm, rounded } from "./qrs-features.js";
import { BLOCK, RATE_HZ } from "./qrs-signal.js";

const f = Math.fround;
const BEFORE = 4;
const AFTER = 4;
const BEATS_BEFORE = 3;
const BEATS_AFTER = 2;
/** Neighbours are at most 12 s older, and at most two blocks after the candidate's. */
export const MEMORY = 12 * RATE_HZ;
export const BLOCKS_AHEAD = 2;

/**
 * A candidate that the first network did not reject.
 * @typedef {object} Likely
 * @property {number} at 200 Hz sample of the segment
 * @property {number} score log odds of the first network
 * @property {Float64Array} mixed the first network's last activations
 * @property {number[]} envelope of each lead of the view, microvolt
 * @property {boolean[]} counted the leads that were evaluated
 * @property {Float64Array[]} form of each lead: the shape within 100 ms
 * @property {Float64Array} ratio envelope relative to the levels
 * @property {number} lead the lead of the R peak
 * @property {number} size the envelope on that lead, microvolt
 */

/** @param {Float64Array} a @param {Float64Array} b */
function dot(a, b) {
  let sum = 0;
  for (let i = 0; i < a.length; i += 1) sum += a[i] * b[i];
  return sum; // of whole numbers below 2^24
}

/**
 * Return the indices of the neighbours in a fixed order, -1 for a missing one.
 * @param {Likely[]} likely
 * @param {number[]} beats indices of those whose first score is above 0
 * @param {number} which
 */
function neighbours(likely, beats, which) {
  const index = [];
  for (let i = 1; i <= BEFORE; i += 1) index.push(which - i);
  for (let i = 1; i <= AFTER; i += 1) index.push(which + i);
  const [low, right] = [searchSorted(beats, which), searchSorted(beats, which, "right")];
  for (let i = 1; i <= BEATS_BEFORE; i += 1) index.push(low - i >= 0 ? beats[low - i] : -1);
  for (let i = 0; i < BEATS_AFTER; i += 1) index.push(right + i < beats.length ? beats[right + i] : -1);
  const current = likely[which].at;
  const last = Math.floor(current / BLOCK) + BLOCKS_AHEAD;
  return index.map((neighbour) => {
    if (neighbour < 0 || neighbour >= likely.length) return -1;
    const at = likely[neighbour].at;
    return current - at <= MEMORY && Math.floor(at / BLOCK) <= last ? neighbour : -1;
  });
}

/**
 * Return size ratio and similarity of a neighbour, summed over the counted leads.
 * @param {Likely} mine
 * @param {Likely} neighbour
 */
function compared(mine, neighbour) {
  let [size, similarity] = [0, 0];
  mine.counted.forEach((isCounted, lead) => {
    if (!isCounted) return;
    const [form, two] = [neighbour.form[lead], mine.form[lead]];
    const power = f(Math.max(dot(form, form), 1) * Math.max(dot(two, two), 1));
    size = f(size + logarithm(f(neighbour.envelope[lead] / mine.envelope[lead])));
    similarity = f(similarity + f(dot(form, two) / f(Math.sqrt(power))));
  });
  return { size, similarity };
}

/**
 * Return the features of candidates from their neighbours.
 * @param {Likely[]} likely all candidates, including those of the two blocks after the last one in `which`
 * @param {number[]} which indices of those to describe
 * @returns {number[][]} whole numbers, features times 128
 */
export function rhythmFeatures(likely, which) {
  const beats = likely.flatMap((candidate, i) => (candidate.score > 0 ? [i] : []));
  return which.map((number) => {
    const mine = likely[number];
    const leads = Math.max(mine.counted.filter(Boolean).length, 1);
    const out = neighbours(likely, beats, number).flatMap((index) => {
      if (index < 0) return [0, 0, 0, 0, 0];
      const neighbour = likely[index];
      const { size, similarity } = compared(mine, neighbour);
      const distance = f(Math.max(Math.abs(neighbour.at - mine.at), 1) / 100);
      const features = [1, clip(neighbour.score, -8, 8) / 4, logarithm(distance), f(f(size / leads) / 2), f(similarity / leads)];
      return features.map(rounded);
    });
    return [...out, rounded(clip(mine.score, -8, 8) / 4), ...mine.ratio, ...mine.mixed];
  });
}
