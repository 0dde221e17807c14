/**
 * Signals of the QRS detector: slope envelope, its levels over the last seconds, and its peaks
 * (ecgfed/domain/signal/qrs_signal.py). Sums are 32-bit integers; the rest is float32, rounded after every operation, so
 * that the bits equal Python's.
 */

const f = Math.fround;
/** Sampling frequency here, and samples per block of the levels. */
export const RATE_HZ = 200;
export const BLOCK = 200;
const WINDOW_BACK = 330;
const WINDOW_AHEAD = 200;
const BASE = 151;
export const HALF = BASE >> 1;
export const LOOK_BACK = WINDOW_BACK + HALF;
export const LOOK_AHEAD = WINDOW_AHEAD + HALF;
/** How far the envelope reaches, and samples after a block with which its features are known. */
export const ENVELOPE_BACK = 14;
export const ENVELOPE_AHEAD = 13;
export const NEEDED_AHEAD = WINDOW_AHEAD + ENVELOPE_AHEAD;
export const SPACING = 18;
const LOWEST = f(0.04);
export const FLOOR_UV = 4;
export const FIRST_BLOCKS = 4;
/** Levels of a block: level, median, highest, lowest fifth, level over thirty seconds, its own maximum. */
export const LEVEL_ROWS = 6;

/**
 * Signals derived from a part of the 200 Hz signal, a row per lead, from `start` on.
 * @typedef {{start: number, shape: Float32Array[], envelope: Float32Array[], smooth: Int32Array[]}} Traces
 */

/**
 * Return the sums of `length` consecutive values.
 * @param {Int32Array} signal
 * @param {number} length
 */
function sums(signal, length) {
  const out = new Int32Array(signal.length - length + 1);
  let total = 0;
  for (let i = 0; i < length - 1; i += 1) total = (total + signal[i]) | 0;
  for (let i = 0; i < out.length; i += 1) {
    total = (total + signal[i + length - 1]) | 0;
    out[i] = total;
    total = (total - signal[i]) | 0;
  }
  return out;
}

/** Return the smoothed signal and the envelope of a part of the signal, which begins ENVELOPE_BACK samples later. @param {Int32Array} signalUv */
export function envelopeOf(signalUv) {
  const smooth = sums(sums(signalUv, 4), 3);
  const slope = new Int32Array(smooth.length - 6);
  for (let i = 0; i < slope.length; i += 1) slope[i] = Math.abs((smooth[i + 6] - smooth[i]) | 0);
  const envelope = Float32Array.from(sums(slope, 17));
  for (let i = 0; i < envelope.length; i += 1) envelope[i] = f(envelope[i] / f(12 * 17));
  return { smooth, envelope };
}

/**
 * Filter a part of the signal; the input exceeds the output by half a baseline window on both sides.
 * @param {Int32Array[]} signalUv whole microvolts, a row for each lead
 * @param {number} start its first 200 Hz sample
 * @returns {Traces}
 */
export function traces(signalUv, start) {
  /** @type {Traces} */
  const out = { start: start + HALF, shape: [], envelope: [], smooth: [] };
  for (const signal of signalUv) {
    const { smooth, envelope } = envelopeOf(signal.subarray(HALF - ENVELOPE_BACK, signal.length - HALF + ENVELOPE_AHEAD));
    out.envelope.push(envelope);
    const base = sums(signal, BASE);
    const shape = new Float32Array(base.length);
    for (let i = 0; i < shape.length; i += 1) shape[i] = f(f(f(smooth[i + 11]) / 12) - f(f(base[i]) / BASE));
    out.shape.push(shape);
    out.smooth.push(sums(signal.subarray(HALF - 1, HALF + base.length + 1), 3));
  }
  return out;
}

/**
 * Return traces that begin with those before them.
 * @param {Traces} before
 * @param {number} start first 200 Hz sample of the result
 * @param {Traces} after
 * @returns {Traces}
 */
export function continued(before, start, after) {
  const both = (/** @type {Float32Array | Int32Array} */ first, /** @type {Float32Array | Int32Array} */ last, /** @type {any} */ out) => {
    out.set(first.subarray(start - before.start, after.start - before.start));
    out.set(last, after.start - start);
    return out;
  };
  const length = after.start - start + after.shape[0].length;
  return {
    start,
    shape: after.shape.map((row, lead) => both(before.shape[lead], row, new Float32Array(length))),
    envelope: after.envelope.map((row, lead) => both(before.envelope[lead], row, new Float32Array(length))),
    smooth: after.smooth.map((row, lead) => both(before.smooth[lead], row, new Int32Array(length))),
  };
}

/**
 * Return maximum and median of the envelope in each block; the last one may be incomplete.
 * @param {Float32Array} envelope
 * @returns {{highest: number[], middle: number[]}}
 */
export function blockStatistics(envelope) {
  /** @type {{highest: number[], middle: number[]}} */
  const statistics = { highest: [], middle: [] };
  for (let start = 0; start < envelope.length; start += BLOCK) {
    const block = envelope.slice(start, start + BLOCK).sort();
    statistics.highest.push(block[block.length - 1]);
    statistics.middle.push(block[block.length >> 1]);
  }
  return statistics;
}

/**
 * @param {number[]} values
 * @param {number} share
 */
function order(values, share) {
  const sorted = Float32Array.from(values).sort();
  return sorted[Math.floor(share * (sorted.length - 1) + 0.5)];
}

/**
 * Return the levels of one lead over the seconds up to each block; at the start over the first four blocks.
 * @param {{highest: number[], middle: number[]}} statistics from block `begin` on
 * @param {number} begin the first block in `statistics`
 * @param {number} first first block of the result
 * @param {number} stop end of the blocks of the result
 * @returns {Float32Array[]} six rows of stop - first
 */
export function levels(statistics, begin, first, stop) {
  const { highest, middle } = statistics;
  const out = Array.from({ length: LEVEL_ROWS }, () => new Float32Array(stop - first));
  const last = Math.min(FIRST_BLOCKS, begin + highest.length) - 1;
  for (let block = first; block < stop; block += 1) {
    const end = Math.max(block, last) - begin + 1;
    const [ten, thirty] = [Math.max(end - 10, 0), Math.max(end - 30, 0)];
    const recent = highest.slice(ten, end);
    const i = block - first;
    out[0][i] = order(recent, 0.65);
    out[1][i] = order(middle.slice(ten, end), 0.5);
    out[2][i] = order(recent, 1.0);
    out[3][i] = order(recent, 0.2);
    out[4][i] = order(highest.slice(thirty, end), 0.65);
    out[5][i] = highest[block - begin];
  }
  return out;
}

/**
 * Weight of a lead in the search for candidates, 0 without signal.
 * @param {number} high level of ten seconds
 * @param {number} middle median of ten seconds
 * @param {number} blockHigh maximum of the block
 */
export function leadWeight(high, middle, blockHigh) {
  if (high < FLOOR_UV || blockHigh < FLOOR_UV) return 0;
  return Math.max(f(0.05), f(1 - f(f(3 * middle) / Math.max(high, FLOOR_UV))));
}

/**
 * Find the peaks of the joint envelope of the leads.
 * @param {Float32Array[]} envelope a row for each lead, from `back` samples before the first block on
 * @param {Float32Array[][]} level of each lead, of the blocks to search and of one more on each side
 * @param {number} back
 * @returns {number[]} positions in `envelope`, more than 90 ms apart
 */
export function candidates(envelope, level, back) {
  const blocks = level[0][0].length - 2;
  const count = blocks * BLOCK;
  const joint = new Float32Array(count + 2 * SPACING);
  const weight = level.map((rows) => Float32Array.from(rows[0], (high, i) => leadWeight(high, rows[1][i], rows[5][i])));
  const total = new Float32Array(blocks + 2);
  for (const row of weight) for (let i = 0; i < total.length; i += 1) total[i] = f(total[i] + row[i]);
  envelope.forEach((row, lead) => {
    const scale = weight[lead].map((value, i) => {
      return f(f(value / Math.max(level[lead][0][i], FLOOR_UV)) / Math.max(total[i], f(0.05)));
    });
    for (let i = 0; i < joint.length; i += 1) {
      const along = scale[Math.floor((i + BLOCK - SPACING) / BLOCK)];
      joint[i] = f(joint[i] + f(along * row[back - SPACING + i]));
    }
  });
  return peaksOf(joint, count, back);
}

/**
 * @param {Float32Array} joint from SPACING samples before the first one searched on
 * @param {number} count number of samples searched
 * @param {number} back number of the first one
 */
export function peaksOf(joint, count, back) {
  const peaks = [];
  for (let i = 0; i < count; i += 1) {
    const value = joint[i + SPACING];
    if (!(value > LOWEST)) continue;
    let highest = true;
    for (let k = 0; highest && k < SPACING; k += 1) {
      highest = value > joint[i + k] && value >= joint[i + SPACING + 1 + k];
    }
    if (highest) peaks.push(i + back);
  }
  return peaks;
}
