/** The band-pass of all windows (ecgfed/domain/signal/filters.py): 0.5 to 40 Hz, 4 s, delay compensated. */

import { bandPass as design, convolved } from "./fir.js";
import { rint } from "./numbers.js";

export const BAND_HZ = Object.freeze([0.5, 40.0]);
export const LENGTH_S = 4.0;
export const DESCRIPTION = "FIR band-pass 0.5-40 Hz, Hamming, 4 s, linear phase, delay compensated";

/**
 * Return the filter's taps, an odd number, symmetric.
 * @param {number} fsHz sampling frequency in Hz
 */
export function bandPassTaps(fsHz) {
  return design(Math.floor(Math.trunc(LENGTH_S * fsHz) / 2) * 2 + 1, BAND_HZ[0], BAND_HZ[1], fsHz);
}

/**
 * Filter a whole signal, padded with its first and last value.
 * @param {Float64Array} signalMv (samples,) finite, millivolt
 * @param {number} fsHz
 */
export function bandPass(signalMv, fsHz) {
  return convolved(signalMv, bandPassTaps(fsHz));
}

/** Maximum gap that is interpolated linearly: a stream cannot wait for the end of a longer one. */
const LONGEST_BRIDGE_S = 10;

/** Return how long a gap may be, in samples, to be bridged by one straight line. @param {number} fsHz */
export function bridgeSamples(fsHz) {
  return rint(LONGEST_BRIDGE_S * fsHz);
}

/** @typedef {{at: number, value: number} | null} Neighbour the last valid sample before a part */

/**
 * Fill missing samples. A gap of up to `longest` samples is interpolated linearly. A longer one takes the value before
 * it, and in its last samples, half of `longest`, the value after it. A gap at an end takes the value of its neighbour;
 * a signal without valid samples becomes zeros.
 * @param {ArrayLike<number>} signalMv (samples,) millivolt, NaN if missing
 * @param {number} longest of a straight line, in samples
 * @returns {Float64Array}
 */
export function fillGaps(signalMv, longest) {
  const out = Float64Array.from(signalMv);
  const missing = new Uint8Array(out.length);
  for (let i = 0; i < out.length; i += 1) missing[i] = Number(!Number.isFinite(out[i]));
  bridge(out, missing, 0, out.length, longest, null);
  return out;
}

/**
 * Fill the marked samples of a part of a signal, as `fillGaps`.
 * @param {Float64Array} out the signal, in which they are filled
 * @param {Uint8Array} missing
 * @param {number} from first sample of the part
 * @param {number} stop
 * @param {number} longest of a straight line, in samples
 * @param {Neighbour} before of the part
 */
export function bridge(out, missing, from, stop, longest, before) {
  let last = before;
  for (let next = from; next < stop; ) {
    let after = next;
    while (after < stop && missing[after]) after += 1;
    if (after === stop) out.fill(last?.value ?? 0, next, stop);
    else if (after > next) fillOne(out, next, after, last, longest);
    next = after;
    while (next < stop && !missing[next]) next += 1;
    if (next > after) last = { at: next - 1, value: out[next - 1] };
  }
}

/**
 * Interpolate before a valid sample, as numpy's interp does.
 * @param {Float64Array} out
 * @param {number} from first sample to bridge
 * @param {number} after the valid sample
 * @param {Neighbour} before the valid sample before them
 * @param {number} longest
 */
function fillOne(out, from, after, before, longest) {
  if (before === null) {
    out.fill(out[after], from, after);
  } else if (after - before.at - 1 > longest) {
    const middle = Math.max(after - Math.floor(longest / 2), from);
    out.fill(before.value, from, middle);
    out.fill(out[after], middle, after);
  } else {
    const slope = (out[after] - before.value) / (after - before.at);
    for (let i = from; i < after; i += 1) out[i] = slope * (i - before.at) + before.value;
  }
}
