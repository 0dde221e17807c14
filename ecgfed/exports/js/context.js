/**
 * RR features, version 2: a beat relative to the patient's beats of the last minutes (ecgfed/domain/beats/context.py).
 * A beat's features depend only on the HISTORY beats before it and the LOOK_AHEAD beats after it.
 */

import { LOG_UNIT, logRatio } from "./context-shape.js";
import { AHEAD, BACK, BLOCK, SortedValues } from "./running.js";

/** @typedef {import("./context-shape.js").TypicalBeat} TypicalBeat */

export const HISTORY = (4 * BACK + 1) * BLOCK;
export const LOOK_AHEAD = (4 * AHEAD + 1) * BLOCK;
export const LIMIT = 5;
const PREMATURE = 0.05;
const CHANGES = 60;
const CHANGE_SHARE = 0.5;
const IRREGULAR = 0.05;
const IRREGULAR_WIDTH = 0.0125;
const LIKE_FROM = 0.88;
const LIKE_WIDTH = 0.08;

/** Names of the features in order. */
export const FEATURES = Object.freeze([
  "previous_over_typical", "next_over_sinus", "next_over_previous", "irregular", "qrs_unlike", "qrs_apart", "size", "width",
  "p_lost", "premature", "premature_without_p", "premature_unlike", "void_previous", "void_next", "void_reference",
  "void_shape",
]);

/**
 * A beat: the interval before it in seconds (NaN if undefined), its window in millivolt, whether references use it, and
 * what lies beside its window (`cutBeside`), for version 3. What is derived from the window is kept with it.
 * @typedef {object} Beat
 * @property {number} beforeS
 * @property {Float32Array} windowMv
 * @property {boolean} usable
 * @property {Float32Array | null} [besideMv]
 * @property {import("./context-shape.js").Parts} [parts]
 * @property {Float64Array} [strip]
 */

/**
 * Features of consecutive beats.
 * @param {TypicalBeat} typicalBeat of all beats that decide the features
 * @param {number} from number of the first beat
 * @param {number} to
 * @returns {Float32Array[]}
 */
export function featuresOf(typicalBeat, from, to) {
  const beforeS = (/** @type {number} */ i) => (i < typicalBeat.count ? typicalBeat.at(i).beforeS : NaN);
  const change = changesOf(beforeS, Math.max(from - CHANGES - 1, typicalBeat.first), from, to);
  return Array.from({ length: to - from }, (_, at) => {
    const i = from + at;
    const [before, after] = [beforeS(i), beforeS(i + 1)];
    const { typical, sinus } = typicalBeat.intervalsOf(i);
    const shape = typicalBeat.againstReference(i);
    const regular = 1 / (1 + Math.exp((change[at] - IRREGULAR) / IRREGULAR_WIDTH));
    const like = Math.min(Math.max((1 - shape.qrsUnlike / 2 - LIKE_FROM) / LIKE_WIDTH, 0), 1);
    const early = Math.min(logRatio(before, sinus) + PREMATURE / LOG_UNIT, 0);
    return Float32Array.from(
      [
        logRatio(before, typical),
        logRatio(after, sinus),
        logRatio(after, before),
        Math.log(Math.max(change[at], 0.005) / IRREGULAR),
        shape.qrsUnlike,
        shape.qrsDistance,
        shape.size,
        shape.width,
        shape.pLost,
        early * regular * like,
        early * regular * like * shape.pLost,
        early * (1 - like),
        Number(Number.isNaN(before)),
        Number(Number.isNaN(after)),
        Number(Number.isNaN(typical)),
        shape.void,
      ],
      (value) => (Number.isFinite(value) ? Math.min(Math.max(value, -LIMIT), LIMIT) : 0),
    );
  });
}

/**
 * Irregularity: the median of the last changes of the interval, 0 if undefined.
 * @param {(i: number) => number} beforeS interval before a beat in seconds, NaN if undefined
 * @param {number} first beat that the changes are looked up from
 * @param {number} from
 * @param {number} to
 */
function changesOf(beforeS, first, from, to) {
  const logs = Float64Array.from({ length: to - first }, (_, k) => Math.log(beforeS(first + k)));
  const changes = logs.map((log, k) => {
    const change = k >= 1 ? Math.abs(log - logs[k - 1]) : NaN;
    const two = k >= 2 ? Math.abs(log - logs[k - 2]) : NaN;
    return Number.isNaN(change) ? two : Number.isNaN(two) ? change : Math.min(change, two);
  });
  const last = new SortedValues();
  let [start, stop] = [from - first, from - first];
  for (; start > Math.max(from - CHANGES + 1 - first, 0); start -= 1) last.add(changes[start - 1]);
  return Array.from({ length: to - from }, () => {
    last.add(changes[stop++]);
    for (; stop - start > CHANGES; start += 1) last.remove(changes[start]);
    const median = last.quantile(CHANGE_SHARE);
    return Number.isFinite(median) ? median : 0;
  });
}
