/** Windows around R peaks, with flags and RR features (ecgfed/domain/beats/windows.py, extract.py, rr.py). */

import { FEATURES } from "./context.js";
import { contextFeatures } from "./context-stream.js";
import { Resampler } from "./fir.js";
import { bandPass, bridgeSamples, fillGaps } from "./filters.js";
import { clip, rint } from "./numbers.js";
import { NO_SIGNAL } from "./quality-reasons.js";
import { intervalsS, rrFeatures } from "./rr.js";
import { FEATURES as STRIP_FEATURES, SAMPLES_BEFORE, STRIP_SAMPLES, besideOf } from "./strip.js";

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
  3: STRIP_FEATURES,
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
    return cut(filtered, first, WINDOW_SAMPLES);
  });
  return { windowMv, padded };
}

/**
 * Return what lies beside the window of each R peak, 0 beyond the ends.
 * @param {Float64Array} filtered millivolt at 360 Hz
 * @param {number} fsHz of the recording
 * @param {number[]} peaks positions of R peaks in the recording
 */
export function cutBeside(filtered, fsHz, peaks) {
  return peaks.map((peak) => besideOf(cut(filtered, resampledPeak(peak, fsHz, filtered.length) - R_INDEX - SAMPLES_BEFORE, STRIP_SAMPLES)));
}

/** Samples of a signal from `first` on, 0 beyond its ends. @param {Float64Array} signal @param {number} first @param {number} length */
function cut(signal, first, length) {
  const part = new Float32Array(length);
  for (let k = Math.max(0, -first); k < length && first + k < signal.length; k += 1) part[k] = signal[first + k];
  return part;
}

/**
 * RR features of all beats of a recording.
 * @param {number} version
 * @param {number} fsHz
 * @param {number[]} peaks increasing positions of all R peaks
 * @param {Float32Array[]} windowMv
 * @param {boolean[]} padded
 * @param {Spans} lost where the lead shows nothing
 * @param {Float64Array} filtered what windows are cut from, millivolt at 360 Hz
 */
export function beatsInTime(version, fsHz, peaks, windowMv, padded, lost, filtered) {
  if (version === 1) return rrFeatures(peaks, fsHz);
  const beforeS = intervalsS(peaks, fsHz, lost.edges());
  const besideMv = version === 3 ? cutBeside(filtered, fsHz, peaks) : null;
  const beats = peaks.map((peak, i) => {
    const usable = !padded[i] && !lost.overlap(...windowSpan(fsHz, peak));
    return { beforeS: beforeS[i], windowMv: windowMv[i], usable, besideMv: besideMv && besideMv[i] };
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
  return { windowMv, rr: beatsInTime(rrVersion, fsHz, peaks, windowMv, padded, quality.spans(NO_SIGNAL), filtered), flags };
}
