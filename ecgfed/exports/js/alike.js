/**
 * Groups of alike beats of a whole recording, over which the answers of a global model with RR features of version 3 are
 * averaged (ecgfed/domain/beats/alike.py).
 */

import { argMax, clip, searchSorted } from "./numbers.js";
import { BEFORE, FEATURES, WINDOW } from "./strip.js";

/** Groups of a stretch of so many beats, the weight of a group's mean, and the maximum number of k-means rounds. */
const GROUPS = 30;
const STRETCH = 4096;
const SHARE = 0.7;
const ROUNDS = 15;
/** Weights of the difference to the median beat and of RR features, the limit of the difference. */
const SHAPE = 0.5;
/** @type {[number, number][]} */
const COLUMNS = [["previous_over_typical", 1], ["next_over_sinus", 1], ["qrs_unlike", 2], ["p_lost", 2]].map(([name, weight]) => [FEATURES.indexOf(String(name)), Number(weight)]);
const LIMIT = 6;
const MIN_PROBABILITY = 1e-12;
const DIFFERENCE = FEATURES.indexOf("difference_0") + BEFORE;
const f = Math.fround;

/** What numpy.random.default_rng(0) draws: 32 bits for the first centre, then numbers from 0 to 1 for the others. */
const FIRST_DRAW = 3653403231;
const DRAWS = [
  0.2697867137638703, 0.04097352393619469, 0.016527635528529094, 0.8132702392002724, 0.9127555772777217, 0.6066357757671799,
  0.7294965609839984, 0.5436249914654229, 0.9350724237877682, 0.8158535541215322, 0.002738500170148095, 0.8574042765875693,
  0.033585575305464355, 0.7296554464299441, 0.17565562060255901, 0.8631789223498866, 0.5414612202490917, 0.2997118905373848,
  0.42268722119765845, 0.028319671145462966, 0.12428327649956394, 0.6706244146936303, 0.6471895115742501, 0.6153851114812539,
  0.38367755426188344, 0.997209935789211, 0.9808353387762301, 0.6855419844806947, 0.6504592762678163,
];

/**
 * What makes a beat alike to others, in float32.
 * @param {Float32Array} rr RR features of version 3
 * @returns {Float32Array}
 */
export function pointOf(rr) {
  const shape = rr.slice(DIFFERENCE, DIFFERENCE + WINDOW).map((value) => SHAPE * clip(value, -LIMIT, LIMIT));
  return Float32Array.of(...shape, ...COLUMNS.map(([column, weight]) => weight * rr[column]));
}

/**
 * Average the log probabilities over groups of alike beats.
 * @param {Float32Array[]} probability of consecutive beats of one recording
 * @param {Float32Array[]} points of the beats
 * @param {boolean[]} silent true if a beat shows no signal: it belongs to no group and keeps its probabilities
 * @returns {Float32Array[]}
 */
export function averaged(probability, points, silent) {
  const result = probability.slice();
  for (let start = 0; start < probability.length; start += STRETCH) {
    const rows = Array.from({ length: Math.min(STRETCH, probability.length - start) }, (_, i) => start + i).filter((row) => !silent[row]);
    if (!rows.length) continue;
    const group = groupsOf(rows.map((row) => Float64Array.from(points[row])));
    const logs = rows.map((row) => Float64Array.from(probability[row], (value) => Math.log(Math.max(value, f(MIN_PROBABILITY)))));
    const means = meansOf(logs, group, Array.from({ length: GROUPS }, () => logs[0]));
    rows.forEach((row, i) => {
      const mixed = logs[i].map((log, k) => (1 - SHARE) * log + SHARE * means[group[i]][k]);
      const highest = mixed[argMax(mixed)];
      const odds = mixed.map((log) => Math.exp(log - highest));
      const sum = odds.reduce((total, value) => total + value, 0);
      result[row] = Float32Array.from(odds, (value) => value / sum);
    });
  }
  return result;
}

/** The mean of each group; what was there before if it is empty. @param {Float64Array[]} rows @param {number[]} group @param {Float64Array[]} before */
function meansOf(rows, group, before) {
  const counts = before.map(() => 0);
  const sums = before.map((row) => new Float64Array(row.length));
  rows.forEach((row, i) => {
    counts[group[i]] += 1;
    for (let k = 0; k < row.length; k += 1) sums[group[i]][k] += row[k];
  });
  return sums.map((sum, number) => (counts[number] ? sum.map((value) => value / counts[number]) : before[number]));
}

/** @param {Float64Array} a @param {Float64Array} b */
function dot(a, b) {
  let sum = 0;
  for (let k = 0; k < a.length; k += 1) sum += a[k] * b[k];
  return sum;
}

/** The number of each point's group, by k-means from k-means++ (Arthur and Vassilvitskii 2007). @param {Float64Array[]} at @returns {number[]} */
export function groupsOf(at) {
  const square = at.map((point) => dot(point, point));
  const distances = (/** @type {number} */ row) => at.map((point, i) => Math.max(square[i] - 2 * dot(point, at[row]) + square[row], 0));
  const chosen = [Number((BigInt(FIRST_DRAW) * BigInt(at.length)) >> 32n)];
  let distance = distances(chosen[0]);
  while (chosen.length < Math.min(GROUPS, at.length)) {
    let total = 0;
    const cumulative = Float64Array.from(distance, (value) => (total += value));
    if (!(total > 0)) break;
    chosen.push(Math.min(searchSorted(cumulative, DRAWS[chosen.length - 1] * total), at.length - 1));
    const added = distances(chosen[chosen.length - 1]);
    distance = distance.map((value, i) => Math.min(value, added[i]));
  }
  let centres = chosen.map((row) => at[row]);
  let group = at.map(() => -1);
  for (let round = 0; round < ROUNDS; round += 1) {
    const lengths = centres.map((centre) => dot(centre, centre));
    const nearest = at.map((point) => argMax(centres.map((centre, number) => 2 * dot(point, centre) - lengths[number])));
    if (nearest.every((number, i) => number === group[i])) break;
    group = nearest;
    centres = meansOf(at, group, centres);
  }
  return group;
}
