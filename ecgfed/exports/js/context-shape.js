/** The patient's typical beat and intervals: the references of `context.js`. */

/** @typedef {import("./context.js").Beat} Beat */

/** References are updated every BLOCK beats, from BACK blocks before the beat's own block to AHEAD blocks after it. */
export const BLOCK = 8;
export const BACK = 31;
export const AHEAD = 3;
const TYPICAL = 0.5;
const SINUS = 0.9;
const MIN_COUNT = 3;
export const LOG_UNIT = 0.2;
const P_REGION = [10, 72];
const QRS = [75, 136];
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

/** Quantile of values without NaN; NaN for fewer than three values. @param {Float64Array} values @param {number} share */
export function quantile(values, share) {
  const ordered = values.filter((value) => !Number.isNaN(value)).sort();
  if (ordered.length < MIN_COUNT) return NaN;
  const last = ordered.length - 1;
  const at = share * last;
  const low = Math.floor(at);
  const part = at - low;
  return ordered[low] * (1 - part) + ordered[Math.min(low + 1, last)] * part;
}

/** @param {Float64Array} values */
function meanOf(values) {
  let sum = 0;
  for (let i = 0; i < values.length; i += 1) sum += values[i];
  return sum / values.length;
}

/** Correlation; NaN if either array has a NaN. @param {Float64Array} values @param {Float64Array} reference */
function correlation(values, reference) {
  const [mean, referenceMean] = [meanOf(values), meanOf(reference)];
  let [product, first, second] = [0, 0, 0];
  for (let i = 0; i < values.length; i += 1) {
    const [a, b] = [values[i] - mean, reference[i] - referenceMean];
    product += a * b;
    first += a * a;
    second += b * b;
  }
  return product / Math.sqrt(Math.max(first * second, 1e-12));
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

/**
 * Running mean of a row of each chosen beat over the last minutes, updated every block; NaN if there are too few.
 * @param {Parts[]} parts
 * @param {boolean[]} chosen
 * @param {(part: Parts) => Float64Array} rowOf
 * @returns {Float64Array[]} one per block
 */
function blockMeans(parts, chosen, rowOf) {
  const width = parts.length ? rowOf(parts[0]).length : 0;
  const blocks = Math.ceil(parts.length / BLOCK);
  const sums = Array.from({ length: blocks }, () => new Float64Array(width));
  const counts = new Float64Array(blocks);
  parts.forEach((part, i) => {
    if (!chosen[i]) return;
    const row = rowOf(part);
    const at = Math.floor(i / BLOCK);
    counts[at] += 1;
    for (let k = 0; k < width; k += 1) sums[at][k] += row[k];
  });
  return sums.map((_, block) => {
    const total = new Float64Array(width);
    let count = 0;
    for (let at = Math.max(block - BACK, 0); at <= Math.min(block + AHEAD, blocks - 1); at += 1) {
      count += counts[at];
      if (counts[at]) for (let k = 0; k < width; k += 1) total[k] += sums[at][k];
    }
    return total.map((sum) => (count >= MIN_COUNT ? sum / count : NaN));
  });
}

/**
 * Running quantiles over the last minutes, updated every block.
 * @param {ArrayLike<number>} values
 * @param {number} share
 * @returns {number[]} one per value
 */
function blockQuantiles(values, share) {
  const all = Float64Array.from(values);
  const blocks = Array.from({ length: Math.ceil(all.length / BLOCK) }, (_, block) =>
    quantile(all.slice(Math.max(block - BACK, 0) * BLOCK, (block + AHEAD + 1) * BLOCK), share),
  );
  return Array.from(all, (_, i) => blocks[Math.floor(i / BLOCK)]);
}

/** References from consecutive beats. */
export class TypicalBeat {
  /** @param {Beat[]} beats */
  constructor(beats) {
    const parts = beats.map((beat) => {
      const known = PARTS.get(beat) ?? partsOf(beat);
      PARTS.set(beat, known);
      return known;
    });
    const before = beats.map((beat) => beat.beforeS);
    const usable = beats.map((beat, i) => beat.usable && parts[i].rms > MIN_MV);
    this.parts = parts;
    const every = blockQuantiles(before, TYPICAL);
    const regular = usable.map((isUsable, i) => isUsable && before[i] >= every[i] * NEARLY);
    const draft = blockMeans(parts, regular, (part) => part.qrs);
    const similar = usable.map((isUsable, i) => isUsable && correlation(parts[i].qrs, draft[Math.floor(i / BLOCK)]) > MIN_CORRELATION);
    /** Whether the interval before a beat lies between two beats of the typical shape. */
    this.between = similar.map((isTypical, i) => isTypical && i > 0 && similar[i - 1]);
    const mine = before.map((interval, i) => (this.between[i] ? interval : NaN));
    /** Median interval between two beats of the typical shape, or of all beats if there are too few, in seconds. */
    this.typical = blockQuantiles(mine, TYPICAL).map((interval, i) => (Number.isFinite(interval) ? interval : every[i]));
    /** Upper quantile of these intervals, in seconds. */
    this.sinus = blockQuantiles(mine, SINUS).map((interval, i) => (Number.isFinite(interval) ? interval : this.typical[i]));
    /** Whether it is also as long as the sinus interval. */
    this.afterSinus = this.between.map((follows, i) => follows && before[i] >= this.sinus[i] * NEARLY);
    this.reference = blockMeans(parts, this.afterSinus, (part) => part.qrs);
    this.pReference = blockMeans(parts, this.afterSinus, (part) => part.pRegion);
    this.usual = blockMeans(parts, this.afterSinus, (part) => Float64Array.of(part.power, part.logSize, part.logWidth));
  }

  /** Compare a beat's shape with the mean of the beats that follow a sinus interval. @param {number} i */
  againstReference(i) {
    const block = Math.floor(i / BLOCK);
    const { qrs, pRegion, logSize, logWidth } = this.parts[i];
    const [reference, pReference, usual] = [this.reference[block], this.pReference[block], this.usual[block]];
    let squares = 0;
    for (let k = 0; k < qrs.length; k += 1) squares += (qrs[k] - reference[k]) ** 2;
    return {
      qrsUnlike: 2 * (1 - correlation(qrs, reference)),
      qrsDistance: Math.sqrt(squares / qrs.length),
      pLost: commonShare(pReference, usual[0]) * (1 - correlation(pRegion, pReference)),
      size: (logSize - usual[1]) / (2 * LOG_UNIT),
      width: (logWidth - usual[2]) / (2 * LOG_UNIT),
      void: Number(Number.isNaN(reference[0])),
    };
  }
}

/** @typedef {ReturnType<typeof partsOf>} Parts */
/** Cached parts of beats. @type {WeakMap<Beat, Parts>} */
const PARTS = new WeakMap();

/** Derive the compared parts of a beat's window. @param {Beat} beat */
function partsOf(beat) {
  const middle = middleOf(beat.windowMv);
  const window = Float64Array.from(beat.windowMv, (value) => value - middle);
  let power = 0;
  for (let i = QRS[0]; i < QRS[1]; i += 1) power += window[i] * window[i];
  const rms = Math.sqrt(power / (QRS[1] - QRS[0]));
  const size = Math.max(rms, MIN_MV);
  const width = duration(window.slice(QRS_SEARCH[0], QRS_SEARCH[1]));
  const scaled = window.map((value) => value / size);
  const region = scaled.slice(P_REGION[0], P_REGION[1]);
  const mean = meanOf(region);
  const pRegion = region.map((value) => value - mean);
  return {
    rms,
    size,
    qrs: scaled.slice(QRS[0], QRS[1]),
    pRegion,
    power: pRegion.reduce((sum, value) => sum + value * value, 0),
    logSize: Math.log(size),
    logWidth: Math.log(width),
  };
}
