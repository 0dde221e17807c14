/** Resampling to the detector's 200 Hz by averaging over 5 ms (ecgfed/domain/signal/qrs_resample.py). */

import { limitDenominator, rint } from "./numbers.js";
import { RATE_HZ } from "./qrs-signal.js";

/** Maximum period of windows, in 200 Hz samples, that is tabulated. */
const LONGEST = 40;

/** @typedef {{low: number, high: number, before: number, after: number, over: number}} Window */

/** @param {number} low @param {number} high @returns {Window} */
function between(low, high) {
  const [a, b] = [Math.floor(low), Math.floor(high)];
  return { low: a, high: b, before: low - a, after: high - b, over: 1 / (high - low) };
}

/** @param {number} number @param {number} step @returns {[number, number]} */
function edges(number, step) {
  const centre = number * step + 0.5;
  const half = Math.max(step, 1) / 2;
  return [centre - half, centre + half];
}

/** Averages a stream over 5 ms each, or over one sample if that is longer. */
export class Averager {
  /** @param {number} fsHz */
  constructor(fsHz) {
    this.step = fsHz / RATE_HZ;
    const [samples, count] = limitDenominator(this.step, LONGEST);
    const share = samples / count;
    /** @type {{samples: number, count: number, windows: Window[]} | null} */
    this.period = null;
    if (Math.abs(share - this.step) <= 1e-12) {
      const windows = Array.from({ length: count }, (_, phase) => between(...edges(phase, share)));
      this.period = { samples, count, windows };
    }
  }

  /**
   * @param {number} number of a 200 Hz sample
   * @param {number | null} end length of the stream if it has ended
   * @returns {Window}
   */
  window(number, end) {
    const [low, high] = edges(number, this.step);
    if (low < 0 || (end !== null && high > end)) {
      return between(Math.max(low, 0), end === null ? high : Math.min(high, end));
    }
    if (this.period === null) return between(low, high);
    const { samples, count, windows } = this.period;
    const times = Math.floor(number / count);
    const phaseWindow = windows[number - times * count];
    return { ...phaseWindow, low: phaseWindow.low + times * samples, high: phaseWindow.high + times * samples };
  }

  /**
   * Average one lead.
   * @param {Int32Array} signalUv whole microvolts, from sample `first` of the stream on
   * @param {number} first
   * @param {number} start first 200 Hz sample wanted
   * @param {number} stop end of the 200 Hz samples wanted
   * @param {number | null} end length of the stream, if it has ended
   */
  average(signalUv, first, start, stop, end) {
    const total = new Int32Array(signalUv.length + 1); // from the first sample needed on
    for (let i = Math.max(this.window(start, end).low - first, 0); i < signalUv.length; i += 1) total[i + 1] = (total[i] + signalUv[i]) | 0;
    const at = (/** @type {number} */ i) => signalUv[Math.min(i, signalUv.length - 1)];
    const out = new Int32Array(stop - start);
    for (let number = start; number < stop; number += 1) {
      const { low, high, before, after, over } = this.window(number, end);
      const [a, b] = [low - first, high - first];
      const inside = (total[b] - total[a]) | 0;
      out[number - start] = rint((inside + after * at(b) - before * at(a)) * over);
    }
    return out;
  }

  /**
   * Return the number of complete 200 Hz samples, or of all after the end of the stream.
   * @param {number} samples
   * @param {boolean} ended
   */
  count(samples, ended) {
    const reach = ended ? 0 : Math.max(this.step, 1) / 2;
    let count = Math.ceil(samples / this.step) + 2;
    while (count > 0 && (count - 1) * this.step + 0.5 + reach > samples) count -= 1;
    return count;
  }
}
