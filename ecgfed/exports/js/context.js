/**
 * RR features, version 2: a beat relative to the patient's beats of the last minutes (ecgfed/domain/beats/context.py).
 * A beat's features depend only on the HISTORY beats before it and the LOOK_AHEAD beats after it.
 */

import { AHEAD, BACK, BLOCK, LOG_UNIT, TypicalBeat, logRatio, quantile } from "./context-shape.js";

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
 * what lies beside its window (`cutBeside`), for version 3.
 * @typedef {{beforeS: number, windowMv: Float32Array, usable: boolean, besideMv?: Float32Array | null}} Beat
 */

/**
 * Features of consecutive beats.
 * @param {Beat[]} beats
 * @param {number} from
 * @param {number} to
 * @param {TypicalBeat} [typicalBeat] of the beats, if already known
 * @returns {Float32Array[]}
 */
export function featuresOf(beats, from, to, typicalBeat = new TypicalBeat(beats)) {
  const change = changesOf(beats, from, to);
  return beats.slice(from, to).map((beat, at) => {
    const i = from + at;
    const before = beat.beforeS;
    const after = i + 1 < beats.length ? beats[i + 1].beforeS : NaN;
    const [typical, sinus] = [typicalBeat.typical[i], typicalBeat.sinus[i]];
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
 * @param {Beat[]} beats
 * @param {number} from
 * @param {number} to
 */
function changesOf(beats, from, to) {
  const logs = beats.map((beat) => Math.log(beat.beforeS));
  const changes = Float64Array.from(logs, (log, i) => {
    const change = i >= 1 ? Math.abs(log - logs[i - 1]) : NaN;
    const two = i >= 2 ? Math.abs(log - logs[i - 2]) : NaN;
    return Number.isNaN(change) ? two : Number.isNaN(two) ? change : Math.min(change, two);
  });
  return Array.from({ length: to - from }, (_, at) => {
    const median = quantile(changes.slice(Math.max(from + at - CHANGES + 1, 0), from + at + 1), CHANGE_SHARE);
    return Number.isFinite(median) ? median : 0;
  });
}
