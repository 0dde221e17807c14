/** The patient's typical beat and intervals: the references of `context.js`. */

import { AHEAD, BLOCK, PerBlock, RunningMeans, RunningQuantiles } from "./running.js";

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
 * A part of a row of numbers, its mean, and the sum of the squares of what it is above or below it.
 * @typedef {{row: Float64Array, from: number, mean: number, power: number}} Part
 */

/** @param {Float64Array} row @param {number} from @param {number} length @returns {Part} */
function partOf(row, from, length) {
  const mean = meanOf(row.subarray(from, from + length));
  let power = 0;
  for (let i = from; i < from + length; i += 1) power += (row[i] - mean) * (row[i] - mean);
  return { row, from, mean, power };
}

/** Correlation; NaN if either part has a NaN. @param {Part} one @param {Part} other @param {number} length */
function correlation(one, other, length) {
  const { row, from, mean } = one;
  const { row: otherRow, from: otherFrom, mean: otherMean } = other;
  let product = 0;
  for (let i = 0; i < length; i += 1) product += (row[from + i] - mean) * (otherRow[otherFrom + i] - otherMean);
  return product / Math.sqrt(Math.max(one.power * other.power, 1e-12));
}

/** The share of the mean power of P regions that is common to them; NaN if there is no mean. @param {Float64Array} row of means */
function commonShare(row) {
  let shared = 0;
  for (let i = P_FROM; i < POWER; i += 1) shared += row[i] * row[i];
  return Math.min(Math.max(shared / row[POWER], 0), 1);
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

/** What is averaged of a beat: its QRS and P region, the power of the latter, the logarithms of size and width. */
const P_FROM = QRS_SAMPLES;
const POWER = P_FROM + P_SAMPLES;
const LOG_SIZE = POWER + 1;
const LOG_WIDTH = POWER + 2;
const COLUMNS = POWER + 3;
/** Rows of consecutive beats lie beside one another, since a reference reads hundreds of them. */
const ROWS = 64;
let rows = new Float64Array(0);
let used = ROWS;

function freeRow() {
  if (used === ROWS) [rows, used] = [new Float64Array(ROWS * COLUMNS), 0];
  used += 1;
  return rows.subarray((used - 1) * COLUMNS, used * COLUMNS);
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
  const row = freeRow();
  row.set(scaled.subarray(QRS[0], QRS[1]));
  row.set(region.map((value) => value - mean), P_FROM);
  for (let i = P_FROM; i < POWER; i += 1) row[POWER] += row[i] * row[i];
  row[LOG_SIZE] = Math.log(size);
  row[LOG_WIDTH] = Math.log(width);
  return { rms, size, row, qrs: partOf(row, 0, QRS_SAMPLES), pRegion: partOf(row, P_FROM, P_SAMPLES) };
}

/** References from consecutive beats: final once later beats cannot change them, or once the beats have ended. */
export class TypicalBeat {
  constructor() {
    this.first = 0; // number of the first stored beat, a multiple of BLOCK
    /** @type {Beat[]} */
    this.beats = [];
    /** Whether a stored beat resembles the draft of the typical beat, and the one before it too. */
    this.similar = new Uint8Array(512);
    this.between = new Uint8Array(512);
    this.ended = false;
    /** Number of blocks for which each step is done. */
    this.done = { every: 0, similar: 0, intervals: 0 };
    this.allIntervals = new RunningQuantiles((i) => this.at(i).beforeS);
    this.ownIntervals = new RunningQuantiles((i) => (this.between[i - this.first] ? this.at(i).beforeS : NaN));
    this.draft = new RunningMeans(QRS_SAMPLES);
    this.means = new RunningMeans(COLUMNS);
    /** Of each block: the median of all intervals, then the median and the upper quantile of typical ones, in seconds. */
    this.intervals = new PerBlock(3);
    /** @type {Map<number, ReturnType<TypicalBeat["referenceOf"]>>} */
    this.references = new Map();
    this.scratch = new Float64Array(QRS_SAMPLES);
  }

  /** Begin again with other beats. @param {Beat[]} beats all of them */
  restart(beats) {
    this.first = 0;
    this.beats = [];
    this.done = { every: 0, similar: 0, intervals: 0 };
    for (const kept of [this.allIntervals, this.ownIntervals, this.draft, this.means, this.intervals]) kept.reset();
    this.references.clear();
    this.push(beats, true);
  }

  /** Number of beats. */
  get count() {
    return this.first + this.beats.length;
  }

  /** @param {number} i number of a stored beat */
  at(i) {
    return this.beats[i - this.first];
  }

  /** What is derived from a stored beat's window. @param {number} i */
  partsAt(i) {
    const beat = this.at(i);
    return (beat.parts ??= partsOf(beat.windowMv));
  }

  /** Add the next beats. @param {Beat[]} beats @param {boolean} ended whether none follow */
  push(beats, ended = false) {
    for (const beat of beats) this.beats.push(beat);
    if (this.beats.length > this.similar.length) {
      this.similar = enlarged(this.similar, 2 * this.beats.length);
      this.between = enlarged(this.between, 2 * this.beats.length);
    }
    this.ended = ended;
    const { done, last } = this;
    const blocks = ended ? last + 1 : Math.floor(this.count / BLOCK);
    const ready = (/** @type {number} */ before) => (ended && before === blocks ? blocks : before - AHEAD);
    // block by block, so that what a step reads is still in the processor's cache
    for (let going = true; going; ) {
      const before = done.every + done.similar + done.intervals;
      if (done.every < ready(blocks)) this.findRegular(done.every++);
      if (done.similar < ready(done.every)) this.findSimilar(done.similar++);
      if (done.intervals < ready(done.similar)) this.findSinus(done.intervals++);
      going = done.every + done.similar + done.intervals > before;
    }
  }

  /** The last block if the beats have ended. */
  get last() {
    return this.ended ? Math.ceil(this.count / BLOCK) - 1 : Infinity;
  }

  /** End of the beats of a block. @param {number} block */
  stopOf(block) {
    return Math.min((block + 1) * BLOCK, this.count);
  }

  /** @param {number} i */
  isUsable(i) {
    return this.at(i).usable && this.partsAt(i).rms > MIN_MV;
  }

  /** Add the beats of a block that are not premature to the draft. @param {number} block */
  findRegular(block) {
    const every = this.allIntervals.move(block, this.count).quantile(TYPICAL);
    const place = this.intervals.at(block);
    this.intervals.values[place] = every;
    for (let i = block * BLOCK; i < this.stopOf(block); i += 1) {
      if (this.at(i).beforeS >= every * NEARLY && this.isUsable(i)) this.draft.add(block, this.partsAt(i).row);
    }
  }

  /** Find the beats of a block that resemble the draft, and the intervals between two of them. @param {number} block */
  findSimilar(block) {
    const draft = partOf(this.draft.mean(block, this.last, this.scratch), 0, QRS_SAMPLES);
    for (let i = block * BLOCK, at = i - this.first; i < this.stopOf(block); i += 1, at += 1) {
      this.similar[at] = Number(this.isUsable(i) && correlation(this.partsAt(i).qrs, draft, QRS_SAMPLES) > MIN_CORRELATION);
      this.between[at] = Number(i > 0 && this.similar[at] && this.similar[at - 1]);
    }
  }

  /** Find typical and sinus intervals; the beats of a block that follow a sinus interval are averaged. @param {number} block */
  findSinus(block) {
    const own = this.ownIntervals.move(block, this.count);
    const [median, upper] = [own.quantile(TYPICAL), own.quantile(SINUS)];
    const place = this.intervals.at(block);
    const { values } = this.intervals;
    values[place + 1] = Number.isFinite(median) ? median : values[place];
    const sinus = (values[place + 2] = Number.isFinite(upper) ? upper : values[place + 1]);
    for (let i = block * BLOCK; i < this.stopOf(block); i += 1) {
      if (this.between[i - this.first] && this.at(i).beforeS >= sinus * NEARLY) this.means.add(block, this.partsAt(i).row);
    }
  }

  /**
   * Median interval between two beats of the typical shape, or of all beats if there are too few, and the upper quantile of
   * these intervals, in seconds.
   * @param {number} i
   */
  intervalsOf(i) {
    const at = this.intervals.at(Math.floor(i / BLOCK));
    return { typical: this.intervals.values[at + 1], sinus: this.intervals.values[at + 2] };
  }

  /** The mean of the beats that follow a sinus interval. @param {number} block the same or a later one at every call */
  referenceOf(block) {
    const row = this.means.mean(block, this.last, new Float64Array(COLUMNS));
    return { row, qrs: partOf(row, 0, QRS_SAMPLES), pRegion: partOf(row, P_FROM, P_SAMPLES), pShare: commonShare(row) };
  }

  /** Compare a beat's shape with the mean of the beats that follow a sinus interval. @param {number} i */
  againstReference(i) {
    const block = Math.floor(i / BLOCK);
    const reference = this.references.get(block) ?? this.referenceOf(block);
    this.references.set(block, reference);
    const { row, qrs, pRegion } = this.partsAt(i);
    let squares = 0;
    for (let k = 0; k < QRS_SAMPLES; k += 1) squares += (row[k] - reference.row[k]) ** 2;
    return {
      qrsUnlike: 2 * (1 - correlation(qrs, reference.qrs, QRS_SAMPLES)),
      qrsDistance: Math.sqrt(squares / QRS_SAMPLES),
      pLost: reference.pShare * (1 - correlation(pRegion, reference.pRegion, P_SAMPLES)),
      size: (row[LOG_SIZE] - reference.row[LOG_SIZE]) / (2 * LOG_UNIT),
      width: (row[LOG_WIDTH] - reference.row[LOG_WIDTH]) / (2 * LOG_UNIT),
      void: Number(Number.isNaN(reference.row[0])),
    };
  }

  /** Drop the beats before one. @param {number} before a multiple of BLOCK */
  forget(before) {
    const count = before - this.first;
    if (count <= 0) return;
    this.beats.splice(0, count);
    this.similar.copyWithin(0, count);
    this.between.copyWithin(0, count);
    this.first = before;
    const block = before / BLOCK;
    for (const kept of [this.draft, this.means, this.intervals]) kept.forget(block);
    for (const at of this.references.keys()) if (at < block) this.references.delete(at);
  }
}

/** @param {Uint8Array} values @param {number} length */
function enlarged(values, length) {
  const larger = new Uint8Array(length);
  larger.set(values);
  return larger;
}
