/** The band-pass every window has gone through (ecgfed/signal/filters.py): 0.5 to 40 Hz, 4 s, delay compensated. */

import { bandPass as design, convolved } from "./fir.js";

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
 * Filter a whole signal; before its start and behind its end it is taken to hold its first and last value.
 * @param {Float64Array} signalMv (samples,) finite, millivolt
 * @param {number} fsHz
 */
export function bandPass(signalMv, fsHz) {
  return convolved(signalMv, bandPassTaps(fsHz));
}

/**
 * Bridge invalid samples with straight lines; a signal with no valid sample becomes zeros.
 * @param {ArrayLike<number>} signalMv (samples,) millivolt, NaN where there is no sample
 * @param {Uint8Array} [also] samples that are bridged as well
 * @returns {Float64Array}
 */
export function fillGaps(signalMv, also) {
  const out = Float64Array.from(signalMv);
  const gap = (/** @type {number} */ i) => !Number.isFinite(out[i]) || (also !== undefined && also[i] !== 0);
  let before = -1;
  for (let i = 0; i < out.length; i += 1) {
    if (gap(i)) continue;
    if (i > before + 1) bridge(out, before, i);
    before = i;
  }
  if (before < 0) out.fill(0);
  else if (before < out.length - 1) out.fill(out[before], before + 1);
  return out;
}

/**
 * Bridge what lies between two valid samples, as numpy's interp does.
 * @param {Float64Array} out
 * @param {number} before -1 where there is none
 * @param {number} after
 */
function bridge(out, before, after) {
  if (before < 0) {
    out.fill(out[after], 0, after);
    return;
  }
  const [from, slope] = [out[before], (out[after] - out[before]) / (after - before)];
  for (let i = before + 1; i < after; i += 1) out[i] = slope * (i - before) + from;
}
