/**
 * Beats whose lead shows nothing of the heart, as Python leaves them without a class (ecgfed/domain/beats/extract.py,
 * ecgfed/domain/signal/size.py, pacing.py): they belong to no group of alike beats.
 */

import { rint } from "./numbers.js";
import { ALONE } from "./quality-reasons.js";
import { Spans } from "./spans.js";
import { FS_HZ, R_INDEX, windowSpan } from "./windows.js";

/** @typedef {import("./quality.js").LeadQuality} LeadQuality */

/** Reasons for which nothing was recorded; a window is silent below this height or if so large a share was not recorded. */
const NOT_RECORDED = ["gap", "flat", "rail"];
const NO_SIGNAL_MV = Math.fround(0.01);
const NO_SIGNAL_SHARE = 0.5;
/** ... or if the lead is at the rail for so long so near the R peak. */
const RAIL_S = 0.3;
const RAIL_NEAR_S = 0.1;
const QRS_BEFORE_S = 0.07;
const QRS_AFTER_S = 0.1;
/** A beat without a QRS is lower than this share of the lead's upper quartile, measured on so many beats, and than this. */
const QRS_S = 0.06;
const QRS_SHARE = 0.1;
const MAX_NOISE_MV = 0.1;
const MIN_BEATS = 5;
const MAX_BEATS = 200;
/** Calibration pulses: nearly all samples at one of two levels, several of them in a recording. */
const PULSE_BEFORE_S = 0.16;
const PULSE_AFTER_S = 0.08;
const PULSE_REACH_S = 0.06;
const MIN_PULSE_MV = 0.05;
const LEVEL = 0.1;
const AT_LEVELS = 0.93;
const AT_EACH = 0.1;
const MIN_PULSES = 5;

/** Lowest and highest value. @param {ArrayLike<number>} values @returns {[number, number]} */
function extremes(values) {
  let [low, high] = [Infinity, -Infinity];
  for (let i = 0; i < values.length; i += 1) {
    low = Math.min(low, values[i]);
    high = Math.max(high, values[i]);
  }
  return [low, high];
}

/** Height in float32. @param {Float32Array} values */
function heightOf(values) {
  const [low, high] = extremes(values);
  return Math.fround(high - low);
}

/**
 * Whether the window of each R peak shows nothing of the heart.
 * @param {Float64Array} signalMv the lead as recorded, NaN if missing
 * @param {number} fsHz
 * @param {number[]} peaks
 * @param {Float32Array[]} windowMv
 * @param {LeadQuality} quality
 * @returns {boolean[]}
 */
export function withoutSignal(signalMv, fsHz, peaks, windowMv, quality) {
  const isSilent = notRecorded(fsHz, quality);
  const minQrsMv = Math.fround(minQrs(signalMv, fsHz, peaks, quality));
  const qrs = [R_INDEX - rint(QRS_BEFORE_S * FS_HZ), R_INDEX + rint(QRS_AFTER_S * FS_HZ) + 1];
  const pulses = calibrationPulses(signalMv, fsHz, peaks);
  return peaks.map((peak, i) => {
    return isSilent(peak, windowMv[i]) || heightOf(windowMv[i].subarray(qrs[0], qrs[1])) < minQrsMv || pulses[i];
  });
}

/**
 * Return whether the window of an R peak shows nothing, by what lies in it alone, as a stream knows it.
 * @param {number} fsHz
 * @param {{spans(reasons: readonly string[]): Spans}} quality
 * @returns {(peak: number, windowMv: Float32Array) => boolean}
 */
export function notRecorded(fsHz, quality) {
  const lost = quality.spans(NOT_RECORDED);
  const rails = new Spans(quality.spans(ALONE.rail).edges().filter(([start, stop]) => stop - start >= RAIL_S * fsHz));
  const near = rint(RAIL_NEAR_S * fsHz);
  return (peak, windowMv) => {
    const recordedQrs = [peak - rint(QRS_BEFORE_S * fsHz), peak + rint(QRS_AFTER_S * fsHz)];
    const isLost = [windowSpan(fsHz, peak), recordedQrs].some(([start, stop]) => lost.within(start, stop) >= NO_SIGNAL_SHARE * (stop - start));
    return isLost || heightOf(windowMv) <= NO_SIGNAL_MV || rails.overlap(peak - near, peak + near + 1);
  };
}

/** Below which height in mV a beat has no QRS complex in a lead. @param {Float64Array} signalMv @param {number} fsHz @param {number[]} peaks @param {LeadQuality} quality */
function minQrs(signalMv, fsHz, peaks, quality) {
  const bad = quality.spans();
  const good = peaks.filter((peak) => !bad.inside(peak));
  if (good.length < MIN_BEATS) return 0;
  const half = Math.max(1, rint(QRS_S * fsHz));
  const count = Math.min(good.length, MAX_BEATS);
  const step = (good.length - 1) / (count - 1);
  const chosen = new Set(Array.from({ length: count }, (_, i) => rint(i === count - 1 ? good.length - 1 : i * step)));
  const heights = [];
  for (const peak of Array.from(chosen, (i) => good[i])) {
    const [low, high] = extremes(signalMv.subarray(Math.max(peak - half, 0), peak + half + 1).filter(Number.isFinite));
    if (high >= low) heights.push(high - low);
  }
  if (!heights.length) return 0;
  heights.sort((a, b) => a - b);
  const at = 0.75 * (heights.length - 1);
  const [low, high] = [heights[Math.floor(at)], heights[Math.ceil(at)]];
  const part = at - Math.floor(at);
  const quartile = part >= 0.5 ? high - (high - low) * (1 - part) : low + (high - low) * part;
  return Math.min(QRS_SHARE * quartile, MAX_NOISE_MV);
}

/** Which detected waves are rectangular pulses. @param {Float64Array} signalMv @param {number} fsHz @param {number[]} peaks @returns {boolean[]} */
function calibrationPulses(signalMv, fsHz, peaks) {
  const [before, after] = [PULSE_BEFORE_S, PULSE_AFTER_S].map((side) => Math.ceil((side + PULSE_REACH_S) * fsHz));
  const pulses = peaks.map((peak) => peak >= before && peak + after < signalMv.length && isRectangular(signalMv.subarray(peak - before, peak + after + 1)));
  return pulses.filter(Boolean).length >= MIN_PULSES ? pulses : peaks.map(() => false);
}

/** Whether a window is a rectangular pulse. @param {ArrayLike<number>} windowMv */
export function isRectangular(windowMv) {
  const [low, high] = extremes(windowMv); // NaN if a sample is missing
  if (!(high - low >= MIN_PULSE_MV)) return false;
  let [atHigh, atLow] = [0, 0];
  for (const value of Array.from(windowMv)) {
    atHigh += Number(value >= high - LEVEL * (high - low));
    atLow += Number(value <= low + LEVEL * (high - low));
  }
  const [highShare, lowShare] = [atHigh, atLow].map((count) => count / windowMv.length);
  return highShare >= AT_EACH && lowShare >= AT_EACH && lowShare + highShare >= AT_LEVELS;
}
