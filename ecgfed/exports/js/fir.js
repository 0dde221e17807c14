/** Filters with a finite impulse response: their taps, convolution and resampling (ecgfed/domain/signal/fir.py). */

import { limitDenominator } from "./numbers.js";

const KAISER_BETA = 5.0;
/** Half the length, in samples of the slower signal, of the filter that signals are resampled by. */
export const REACH = 10;
const I0 = [
  -4.4153416464793395e-18, 3.3307945188222384e-17, -2.431279846547955e-16, 1.715391285555133e-15,
  -1.1685332877993451e-14, 7.676185498604936e-14, -4.856446783111929e-13, 2.95505266312964e-12,
  -1.726826291441556e-11, 9.675809035373237e-11, -5.189795601635263e-10, 2.6598237246823866e-9,
  -1.300025009986248e-8, 6.046995022541919e-8, -2.670793853940612e-7, 1.1173875391201037e-6,
  -4.4167383584587505e-6, 1.6448448070728896e-5, -5.754195010082104e-5, 0.00018850288509584165,
  -0.0005763755745385824, 0.0016394756169413357, -0.004324309995050576, 0.010546460394594998,
  -0.02373741480589947, 0.04930528423967071, -0.09490109704804764, 0.17162090152220877, -0.3046826723431984,
  0.6767952744094761,
];

/** @param {number} x */
export function sinc(x) {
  const y = Math.PI * (x === 0 ? 1e-20 : x);
  return Math.sin(y) / y;
}

/** Modified Bessel function of order 0 from 0 to 8, by Cephes' Chebyshev series (S. Moshier). @param {number} value */
export function besselI0(value) {
  let [before, current, last] = [0, I0[0], 0];
  const at = value / 2 - 2;
  for (let i = 1; i < I0.length; i += 1) {
    [before, last] = [last, current];
    current = at * last - before + I0[i];
  }
  return Math.exp(value) * (0.5 * (current - before));
}

/**
 * Return the taps of a linear-phase band-pass: a windowed sinc (Hamming), 1 in the middle of the band.
 * @param {number} taps
 * @param {number} lowHz
 * @param {number} highHz
 * @param {number} fsHz
 */
export function bandPass(taps, lowHz, highHz, fsHz) {
  const [low, right] = [lowHz / (0.5 * fsHz), highHz / (0.5 * fsHz)];
  const out = new Float64Array(taps);
  let gain = 0;
  for (let i = 0; i < taps; i += 1) {
    const at = i - 0.5 * (taps - 1);
    const around = i === taps - 1 ? Math.PI : -Math.PI + i * ((2 * Math.PI) / (taps - 1));
    const window = 0.54 + (1 - 0.54) * Math.cos(around);
    out[i] = (right * sinc(right * at) - low * sinc(low * at)) * window;
    gain += out[i] * Math.cos(Math.PI * at * (0.5 * (low + right)));
  }
  return out.map((value) => value / gain);
}

/**
 * Return the taps of a linear-phase low-pass (Kaiser).
 * @param {number} taps
 * @param {number} cutoff share of half the sampling rate
 */
export function lowPass(taps, cutoff) {
  const alpha = 0.5 * (taps - 1);
  const out = new Float64Array(taps);
  let sum = 0;
  for (let i = 0; i < taps; i += 1) {
    const at = i - alpha;
    const window = besselI0(KAISER_BETA * Math.sqrt(1 - (at / alpha) ** 2)) / besselI0(KAISER_BETA);
    out[i] = cutoff * sinc(cutoff * at) * window;
    sum += out[i];
  }
  return out.map((value) => value / sum);
}

/**
 * Convolve with an odd number of symmetric taps, valid part only. Every value is one sum in a fixed order, so that a
 * stream gives the same bits as the whole signal.
 * @param {Float64Array} signal (samples,)
 * @param {Float64Array} taps
 * @returns {Float64Array} (samples - taps + 1,)
 */
export function inner(signal, taps) {
  const half = taps.length >> 1;
  const out = new Float64Array(Math.max(signal.length - 2 * half, 0));
  const centre = taps[half];
  const fours = out.length - (out.length % 4);
  for (let i = 0; i < fours; i += 4) {
    let first = 0;
    let two = 0;
    let three = 0;
    let four = 0;
    let a = signal[i]; // samples on the left move up as they go on, on the right down
    let b = signal[i + 1];
    let c = signal[i + 2];
    let x = signal[i + 2 * half + 1];
    let y = signal[i + 2 * half + 2];
    let z = signal[i + 2 * half + 3];
    for (let k = 0, low = i + 3, high = i + 2 * half; k < half; k += 1, low += 1, high -= 1) {
      const tap = taps[k];
      const d = signal[low];
      const w = signal[high];
      first += tap * (a + w);
      two += tap * (b + x);
      three += tap * (c + y);
      four += tap * (d + z);
      a = b;
      b = c;
      c = d;
      z = y;
      y = x;
      x = w;
    }
    out[i] = first + centre * signal[i + half];
    out[i + 1] = two + centre * signal[i + half + 1];
    out[i + 2] = three + centre * signal[i + half + 2];
    out[i + 3] = four + centre * signal[i + half + 3];
  }
  for (let i = fours; i < out.length; i += 1) {
    let sum = 0;
    for (let k = 0, low = i, high = i + 2 * half; k < half; k += 1, low += 1, high -= 1) {
      sum += taps[k] * (signal[low] + signal[high]);
    }
    out[i] = sum + centre * signal[i + half];
  }
  return out;
}

/**
 * Convolve a whole signal, delay compensated, padded with its first and last value.
 * @param {Float64Array} signal (samples,) finite
 * @param {Float64Array} taps an odd number, symmetric
 * @returns {Float64Array} (samples,)
 */
export function convolved(signal, taps) {
  return inner(edgePadded(signal, taps.length >> 1, taps.length >> 1), taps);
}

/**
 * Pad a signal with its first value before it and its last one after it.
 * @param {Float64Array} signal
 * @param {number} before
 * @param {number} after
 */
export function edgePadded(signal, before, after) {
  const laid = new Float64Array(before + signal.length + after);
  laid.set(signal, before);
  if (signal.length) {
    laid.fill(signal[0], 0, before);
    laid.fill(signal[signal.length - 1], before + signal.length);
  }
  return laid;
}

/** Resamples a signal with a linear-phase polyphase filter. */
export class Resampler {
  /**
   * @param {number} fsHz
   * @param {number} toHz
   */
  constructor(fsHz, toHz) {
    const [up, down] = fsHz === toHz ? [1, 1] : limitDenominator(toHz / fsHz, 5000);
    this.up = up;
    this.down = down;
    const half = REACH * Math.max(up, down);
    const taps = up === down ? Float64Array.of(1) : lowPass(2 * half + 1, 1 / Math.max(up, down)).map((value) => value * up);
    const before = up === down ? 0 : down - (half % down);
    this.skipped = up === down ? 0 : (half + before) / down;
    this.each = Math.ceil((taps.length + before) / up);
    /** Taps by phase, those of the oldest sample first. */
    this.phases = Array.from({ length: up }, (_, phase) => {
      const mine = new Float64Array(this.each);
      for (let i = 0; i < this.each; i += 1) {
        const tap = i * up + phase - before;
        mine[this.each - 1 - i] = tap >= 0 && tap < taps.length ? taps[tap] : 0;
      }
      return mine;
    });
  }

  /** Return the number of output samples of a signal. @param {number} samples */
  count(samples) {
    return Math.ceil((samples * this.up) / this.down);
  }

  /** The last sample that an output depends on. @param {number} output */
  newest(output) {
    return Math.floor(((output + this.skipped) * this.down) / this.up);
  }

  /** The first sample that an output depends on. @param {number} output */
  oldest(output) {
    return this.newest(output) - this.each + 1;
  }

  /**
   * Return one output sample; the signal is 0 beyond its ends.
   * @param {(sample: number) => number} read 0 beyond the ends
   * @param {number} output
   */
  at(read, output) {
    const number = (output + this.skipped) * this.down;
    const taps = this.phases[number % this.up];
    const first = Math.floor(number / this.up) - this.each + 1;
    let sum = 0;
    for (let i = 0; i < taps.length; i += 1) sum += taps[i] * read(first + i);
    return sum;
  }

  /**
   * Resample a whole signal; returns the signal itself if the frequencies are equal.
   * @param {Float64Array} signal
   */
  resample(signal) {
    if (this.up === this.down) return signal;
    const read = (/** @type {number} */ i) => (i >= 0 && i < signal.length ? signal[i] : 0);
    return Float64Array.from({ length: this.count(signal.length) }, (_, output) => this.at(read, output));
  }
}
