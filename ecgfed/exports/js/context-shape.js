/** The patient's typical beat and intervals: the references of `context.js`. */

import { AHEAD, BLOCK, RunningMeans, RunningQuantiles } from "./running.js";

/** @typedef {import("./context.js").Beat} Beat */

const TYPICAL = 0.5;
const SINUS = 0.9;
export const LOG_UNIT = 0.2;
const P_REGION = [10, 72];
const QRS = [75, 136];
const QRS_SAMPLES = QRS[1] - QRS[0];
const P_SAMPLES = P_REGION[1] - P_REGION[0];
const QRS_SEARCH = [50, 170];
const STEEP = 0.15;
const SLOPE_SAMPLES = 5;
const MIN_MV = 0.02;
const MIN_CORRELATION = 0.7;
const NEARLY = 1 - 1e-9;

/** The logarithm of a ratio in units of LOG_UNIT. @param {number} value @param {number} reference */
export function logRatio(value, reference) {
  return Math.log(value / reference) / LOG_UNIT;
}

/** @param {Float64Array} values */
function meanOf(values) {
  let sum = 0;
  for (let i = 0; i < values.length; i += 1) sum += values[i];
  return sum / values.length;
}

/**
 * Values less their mean, and the sum of their squares.
 * @typedef {{values: Float64Array, power: number}} Centred
 */

/** @param {Float64Array} values @returns {Centred} */
function centred(values) {
  const mean = meanOf(values);
  const less = values.map((value) => value - mean);
  let power = 0;
  for (let i = 0; i < less.length; i += 1) power += less[i] * less[i];
  return { values: less, power };
}

/** Correlation; NaN if either has a NaN. @param {Centred} one @param {Centred} other */
function correlation(one, other) {
  let product = 0;
  for (let i = 0; i < one.values.length; i += 1) product += one.values[i] * other.values[i];
  return product / Math.sqrt(Math.max(one.power * other.power, 1e-12));
}

/** The share of the mean power of P regions that is common to them; NaN if there is no mean. @param {Float64Array} mean @param {number} power */
function commonShare(mean, power) {
  let shared = 0;
  for (const value of mean) shared += value * value;
  return Math.min(Math.max(shared / power, 0), 1);
}

/** Duration of the QRS in samples, at least one. @param {Float64Array} window */
function duration(window) {
  const starts = window.length - SLOPE_SAMPLES;
  const slope = new Float64Array(starts);
  for (let i = 0; i < starts; i += 1) {
    for (let k = i; k < i + SLOPE_SAMPLES; k += 1) slope[i] += Math.abs(window[k + 1] - window[k]);
  }
  const threshold = STEEP * slope.reduce((high, value) => Math.max(high, value), -Infinity);
  let [first, last] = [0, starts - 1];
  while (first < starts && !(slope[first] > threshold)) first += 1;
  if (first === starts) return Math.max(starts - 1, 1); // nothing is steep
  while (!(slope[last] > threshold)) last -= 1;
  return Math.max(last - first, 1);
}

/** The median of a window. @param {Float32Array} windowMv */
function middleOf(windowMv) {
  const ordered = windowMv.slice().sort();
  const half = ordered.length >> 1;
  return (ordered[half - 1] + ordered[half]) / 2;
}

/** @typedef {ReturnType<typeof partsOf>} Parts */

/** Derive the compared parts of a beat's window. @param {Float32Array} windowMv */
function partsOf(windowMv) {
  const middle = middleOf(windowMv);
  const window = Float64Array.from(windowMv, (value) => value - middle);
  let power = 0;
  for (let i = QRS[0]; i < QRS[1]; i += 1) power += window[i] * window[i];
  const rms = Math.sqrt(power / QRS_SAMPLES);
  const size = Math.max(rms, MIN_MV);
  const width = duration(window.slice(QRS_SEARCH[0], QRS_SEARCH[1]));
  const scaled = window.map((value) => value / size);
  const region = scaled.slice(P_REGION[0], P_REGION[1]);
  const mean = meanOf(region);
  const pRegion = region.map((value) => value - mean);
  const qrs = scaled.slice(QRS[0], QRS[1]);
  const [logSize, logWidth] = [Math.log(size), Math.log(width)];
  const averaged = Float64Array.of(...qrs, ...pRegion, pRegion.reduce((sum, value) => sum + value * value, 0), logSize, logWidth);
  return { rms, size, qrs, centredQrs: centred(qrs), centredP: centred(pRegion), logSize, logWidth, averaged };
}

/**
 * A beat with what is known of it.
 * @typedef {{beat: Beat, parts: Parts, similar: boolean, between: boolean}} Known
 */

/** References from consecutive beats: final once later beats cannot change them, or once the beats have ended. */
export class TypicalBeat {
  constructor() {
    this.first = 0; // number of the first stored beat, a multiple of BLOCK
    /** @type {Known[]} */
    this.known = [];
    this.ended = false;
    /** Number of blocks for which each step is done. */
    this.done = { every: 0, similar: 0, intervals: 0 };
    this.allIntervals = new RunningQuantiles((i) => this.at(i).beat.beforeS);
    this.ownIntervals = new RunningQuantiles((i) => (this.at(i).between ? this.at(i).beat.beforeS : NaN));
    this.draft = new RunningMeans(QRS_SAMPLES);
    this.means = new RunningMeans(QRS_SAMPLES + P_SAMPLES + 3);
    /** Of each block: the median of all intervals, then the median and the upper quantile of typical ones, in seconds. @type {Map<number, number>} */
    this.every = new Map();
    /** @type {Map<number, {typical: number, sinus: number}>} */
    this.intervals = new Map();
    /** @type {Map<number, ReturnType<TypicalBeat["referenceOf"]>>} */
    this.references = new Map();
  }

  /** Number of beats. */
  get count() {
    return this.first + this.known.length;
  }

  /** @param {number} i number of a stored beat */
  at(i) {
    return this.known[i - this.first];
  }

  /** Add the next beats. @param {Beat[]} beats @param {boolean} ended whether none follow */
  push(beats, ended = false) {
    for (const beat of beats) this.known.push({ beat, parts: (beat.parts ??= partsOf(beat.windowMv)), similar: false, between: false });
    this.ended = ended;
    const { done, last } = this;
    const ready = (/** @type {number} */ before) => (ended ? last + 1 : before - AHEAD);
    for (const stop = ready(Math.floor(this.count / BLOCK)); done.every < stop; done.every += 1) this.findRegular(done.every);
    for (const stop = ready(done.every); done.similar < stop; done.similar += 1) this.findSimilar(done.similar);
    for (const stop = ready(done.similar); done.intervals < stop; done.intervals += 1) this.findSinus(done.intervals);
  }

  /** The last block if the beats have ended. */
  get last() {
    return this.ended ? Math.ceil(this.count / BLOCK) - 1 : Infinity;
  }

  /** Numbers of the beats of a block. @param {number} block */
  beatsOf(block) {
    const start = block * BLOCK;
    return Array.from({ length: Math.min(BLOCK, this.count - start) }, (_, i) => start + i);
  }

  /** @param {Known} known */
  static isUsable({ beat, parts }) {
    return beat.usable && parts.rms > MIN_MV;
  }

  /** Add the beats of a block that are not premature to the draft. @param {number} block */
  findRegular(block) {
    const every = this.allIntervals.move(block, this.count).quantile(TYPICAL);
    this.every.set(block, every);
    for (const i of this.beatsOf(block)) {
      const known = this.at(i);
      if (TypicalBeat.isUsable(known) && known.beat.beforeS >= every * NEARLY) this.draft.add(block, known.parts.qrs);
    }
  }

  /** Find the beats of a block that resemble the draft, and the intervals between two of them. @param {number} block */
  findSimilar(block) {
    const draft = centred(this.draft.mean(block, this.last));
    for (const i of this.beatsOf(block)) {
      const known = this.at(i);
      known.similar = TypicalBeat.isUsable(known) && correlation(known.parts.centredQrs, draft) > MIN_CORRELATION;
      known.between = known.similar && i > 0 && this.at(i - 1).similar;
    }
  }

  /** Find typical and sinus intervals; the beats of a block that follow a sinus interval are averaged. @param {number} block */
  findSinus(block) {
    const own = this.ownIntervals.move(block, this.count);
    const [median, upper] = [own.quantile(TYPICAL), own.quantile(SINUS)];
    const typical = Number.isFinite(median) ? median : /** @type {number} */ (this.every.get(block));
    const sinus = Number.isFinite(upper) ? upper : typical;
    this.intervals.set(block, { typical, sinus });
    for (const i of this.beatsOf(block)) {
      const { beat, parts, between } = this.at(i);
      if (between && beat.beforeS >= sinus * NEARLY) this.means.add(block, parts.averaged);
    }
  }

  /**
   * Median interval between two beats of the typical shape, or of all beats if there are too few, and the upper quantile of
   * these intervals, in seconds.
   * @param {number} i
   */
  intervalsOf(i) {
    return /** @type {{typical: number, sinus: number}} */ (this.intervals.get(Math.floor(i / BLOCK)));
  }

  /** The mean of the beats that follow a sinus interval. @param {number} block the same or a later one at every call */
  referenceOf(block) {
    const mean = this.means.mean(block, this.last);
    const qrs = mean.subarray(0, QRS_SAMPLES);
    const pRegion = mean.subarray(QRS_SAMPLES, QRS_SAMPLES + P_SAMPLES);
    const [power, logSize, logWidth] = mean.subarray(QRS_SAMPLES + P_SAMPLES);
    return { qrs, centredQrs: centred(qrs), centredP: centred(pRegion), pShare: commonShare(pRegion, power), logSize, logWidth };
  }

  /** Compare a beat's shape with the mean of the beats that follow a sinus interval. @param {number} i */
  againstReference(i) {
    const block = Math.floor(i / BLOCK);
    const reference = this.references.get(block) ?? this.referenceOf(block);
    this.references.set(block, reference);
    const { qrs, centredQrs, centredP, logSize, logWidth } = this.at(i).parts;
    let squares = 0;
    for (let k = 0; k < qrs.length; k += 1) squares += (qrs[k] - reference.qrs[k]) ** 2;
    return {
      qrsUnlike: 2 * (1 - correlation(centredQrs, reference.centredQrs)),
      qrsDistance: Math.sqrt(squares / qrs.length),
      pLost: reference.pShare * (1 - correlation(centredP, reference.centredP)),
      size: (logSize - reference.logSize) / (2 * LOG_UNIT),
      width: (logWidth - reference.logWidth) / (2 * LOG_UNIT),
      void: Number(Number.isNaN(reference.qrs[0])),
    };
  }

  /** Drop the beats before one. @param {number} before a multiple of BLOCK */
  forget(before) {
    if (before <= this.first) return;
    this.known.splice(0, before - this.first);
    this.first = before;
    const block = before / BLOCK;
    this.draft.forget(block);
    this.means.forget(block);
    for (const map of [this.every, this.intervals, this.references]) for (const at of map.keys()) if (at < block) map.delete(at);
  }
}
