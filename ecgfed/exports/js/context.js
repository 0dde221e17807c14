/**
 * RR features, version 2: what a beat is among the patient's own beats of the last minutes (ecgfed/domain/beats/context.py).
 * A beat's features depend on the HISTORY beats before it and the LOOK_AHEAD beats after it, no more.
 */

import { OwnShape, logRatio, quantile } from "./context-shape.js";

const BLOCK = 8;
const BACK = 31;
const AHEAD = 3;
export const HISTORY = (4 * BACK + 1) * BLOCK;
export const LOOK_AHEAD = (4 * AHEAD + 1) * BLOCK;
const LOG_UNIT = 0.2;
const LIMIT = 5;
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
 * A beat: seconds before it (NaN where void), its window in millivolt, and whether that may make a reference.
 * @typedef {{beforeS: number, windowMv: Float32Array, usable: boolean}} Beat
 */

/** The features of all beats of a recording. @param {Beat[]} beats @returns {Float32Array[]} */
export function contextFeatures(beats) {
  const stream = new ContextStream();
  return [...stream.push(beats), ...stream.finish()];
}

/** Features of a recording that comes in pieces: the same as of the whole, LOOK_AHEAD beats late. */
export class ContextStream {
  constructor() {
    /** @type {Beat[]} */
    this.held = [];
    this.first = 0; // number of the first beat held
    this.given = 0; // number of the next beat whose features are due
  }

  /** Take the next beats; return the features of those that are decided now. @param {Beat[]} beats */
  push(beats) {
    for (const beat of beats) this.held.push(beat);
    return this.give(Math.floor((this.first + this.held.length - LOOK_AHEAD) / BLOCK) * BLOCK);
  }

  /** Return the features of the beats that are left; nothing follows the last. */
  finish() {
    return this.give(this.first + this.held.length);
  }

  /** Return what would be said of some beats more if none followed them. @param {Beat[]} beats */
  early(beats) {
    if (!beats.length) return [];
    const all = this.first + this.held.length;
    const start = Math.max(0, Math.floor((all - HISTORY) / BLOCK) * BLOCK - this.first);
    const known = this.held.slice(start);
    return featuresOf([...known, ...beats], known.length, known.length + beats.length);
  }

  /** @param {number} until */
  give(until) {
    /** @type {Float32Array[]} */
    const found = [];
    while (this.given < until) {
      const stop = Math.min(until, this.given + 1024 * BLOCK);
      const start = Math.max(0, this.given - HISTORY);
      const here = this.held.slice(start - this.first, stop + LOOK_AHEAD - this.first);
      found.push(...featuresOf(here, this.given - start, stop - start));
      this.given = stop;
    }
    const drop = Math.max(0, this.given - HISTORY) - this.first;
    if (drop > 0) {
      this.held.splice(0, drop);
      this.first += drop;
    }
    return found;
  }
}

/** Features of some of the beats in a row. @param {Beat[]} beats @param {number} from @param {number} to @returns {Float32Array[]} */
function featuresOf(beats, from, to) {
  const own = new OwnShape(beats);
  const change = changesOf(beats, from, to);
  return beats.slice(from, to).map((beat, at) => {
    const i = from + at;
    const before = beat.beforeS;
    const after = i + 1 < beats.length ? beats[i + 1].beforeS : NaN;
    const [typical, sinus] = [own.typical[i], own.sinus[i]];
    const shape = own.againstReference(i);
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
        shape.qrsApart,
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
      (one) => (Number.isFinite(one) ? Math.min(Math.max(one, -LIMIT), LIMIT) : 0),
    );
  });
}

/**
 * Irregularity: the median of the last changes of the interval, 0 where there is no rhythm yet.
 * @param {Beat[]} beats
 * @param {number} from
 * @param {number} to
 */
function changesOf(beats, from, to) {
  const logs = beats.map((beat) => Math.log(beat.beforeS));
  const least = Float64Array.from(logs, (here, i) => {
    const one = i >= 1 ? Math.abs(here - logs[i - 1]) : NaN;
    const two = i >= 2 ? Math.abs(here - logs[i - 2]) : NaN;
    return Number.isNaN(one) ? two : Number.isNaN(two) ? one : Math.min(one, two);
  });
  return Array.from({ length: to - from }, (_, at) => {
    const found = quantile(least.slice(Math.max(from + at - CHANGES + 1, 0), from + at + 1), CHANGE_SHARE);
    return Number.isFinite(found) ? found : 0;
  });
}
