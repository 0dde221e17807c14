/** Windows around R peaks, with flags and RR features (ecgfed/domain/beats/windows.py, extract.py, rr.py). */

import { FEATURES } from "./context.js";
import { contextFeatures } from "./context-stream.js";
import { Resampler } from "./fir.js";
import { bandPass, bridgeSamples, fillGaps } from "./filters.js";
import { FEATURES as NEIGHBOURS } from "./neighbours.js";
import { clip, rint } from "./numbers.js";
import { NO_SIGNAL } from "./quality.js";
import { intervalsS, rrFeatures } from "./rr.js";

/** @typedef {import("./quality.js").LeadQuality} LeadQuality */
/** @typedef {import("./spans.js").Spans} Spans */

export const FS_HZ = 360;
export const WINDOW_SAMPLES = 256;
export const R_INDEX = 100;
/** The window extends past an end of the recording; it overlaps a bad segment of the lead. */
export const FLAG_PADDED = 1;
export const FLAG_POOR_QUALITY = 2;
/** Names of the RR features, by version. */
export const RR_NAMES = Object.freeze({
  1: Object.freeze(["previous_s", "next_s", "median_of_last_10_s", "previous_over_median"]),
  2: FEATURES,
  3: NEIGHBOURS,
});

/**
 * Windows of beats: in millivolt at 360 Hz, filtered, not normalised; RR features; flags.
 * @typedef {{windowMv: Float32Array[], rr: Float32Array[], flags: number[]}} Windows
 */

/** Where a beat's window starts and stops (not included). @param {number} fsHz @param {number} peak @returns {[number, number]} */
export function windowSpan(fsHz, peak) {
  return [peak - rint((R_INDEX * fsHz) / FS_HZ), peak + rint(((WINDOW_SAMPLES - R_INDEX) * fsHz) / FS_HZ)];
}

/** The place of an R peak at 360 Hz. @param {number} peak @param {number} fsHz @param {number} samples of the resampled signal */
export function resampledPeak(peak, fsHz, samples) {
  return clip(rint(peak * (FS_HZ / fsHz)), 0, samples - 1);
}

/**
 * Cut a window around each R peak, 0 beyond the ends.
 * @param {Float64Array} filtered millivolt at 360 Hz
 * @param {number} fsHz of the recording
 * @param {number[]} peaks positions of R peaks in the recording
 */
export function cutWindows(filtered, fsHz, peaks) {
  const padded = peaks.map(() => false);
  const windowMv = peaks.map((peak, i) => {
    const first = resampledPeak(peak, fsHz, filtered.length) - R_INDEX;
    padded[i] = first < 0 || first + WINDOW_SAMPLES > filtered.length;
    const window = new Float32Array(WINDOW_SAMPLES);
    for (let k = Math.max(0, -first); k < WINDOW_SAMPLES && first + k < filtered.length; k += 1) window[k] = filtered[first + k];
    return window;
  });
  return { windowMv, padded };
}

/**
 * RR features of all beats of a recording.
 * @param {number} version
 * @param {number} fsHz
 * @param {number[]} peaks increasing positions of all R peaks
 * @param {Float32Array[]} windowMv
 * @param {boolean[]} padded
 * @param {Spans} lost where the lead shows nothing
 */
export function beatsInTime(version, fsHz, peaks, windowMv, padded, lost) {
  if (version === 1) return rrFeatures(peaks, fsHz);
  const beforeS = intervalsS(peaks, fsHz, lost.edges());
  const beats = peaks.map((peak, i) => {
    return { beforeS: beforeS[i], windowMv: windowMv[i], usable: !padded[i] && !lost.overlap(...windowSpan(fsHz, peak)) };
  });
  return contextFeatures(beats, /** @type {2 | 3} */ (version));
}

/**
 * Filter a signal, and return window and RR features of each R peak.
 * @param {Float64Array} signalMv as recorded, NaN if missing
 * @param {number} fsHz
 * @param {number[]} peaks increasing positions of all R peaks
 * @param {LeadQuality} quality of the lead: it decides flags and which intervals are void
 * @param {number} rrVersion of the RR features
 * @returns {Windows}
 */
export function windowsAround(signalMv, fsHz, peaks, quality, rrVersion) {
  const filtered = new Resampler(fsHz, FS_HZ).resample(bandPass(fillGaps(signalMv, bridgeSamples(fsHz)), fsHz));
  const { windowMv, padded } = cutWindows(filtered, fsHz, peaks);
  const bad = quality.spans();
  const flags = peaks.map((peak, i) => Number(padded[i]) * FLAG_PADDED + Number(bad.overlap(...windowSpan(fsHz, peak))) * FLAG_POOR_QUALITY);
  return { windowMv, rr: beatsInTime(rrVersion, fsHz, peaks, windowMv, padded, quality.spans(NO_SIGNAL)), flags };
}
