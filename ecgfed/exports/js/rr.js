/** RR intervals, and the RR features of version 1 (ecgfed/domain/beats/windows.py, intervals.py). */

import { searchSorted } from "./numbers.js";

/** A segment without signal of this duration may hide a QRS complex. */
export const HIDES_S = 0.15;
/** Maximum interval. */
export const LONGEST_S = 10;
const HISTORY = 10;

/**
 * Return the interval before each beat and after the last, in seconds; NaN if undefined.
 * @param {ArrayLike<number>} peaks increasing sample numbers of all R peaks
 * @param {number} fsHz
 * @param {[number, number][]} lost disjoint segments without signal that do not touch
 * @returns {Float64Array} (beats + 1,)
 */
export function intervalsS(peaks, fsHz, lost) {
  const intervals = new Float64Array(peaks.length + 1).fill(NaN);
  for (let i = 1; i < peaks.length; i += 1) {
    const length = (peaks[i] - peaks[i - 1]) / fsHz;
    if (length <= LONGEST_S) intervals[i] = length;
  }
  for (const [begin, end] of lost) {
    for (let i = Math.max(searchSorted(peaks, begin, "right"), 1); i < peaks.length && peaks[i - 1] < end; i += 1) {
      if (Math.min(peaks[i], end) - Math.max(peaks[i - 1], begin) >= HIDES_S * fsHz) intervals[i] = NaN;
    }
  }
  return intervals;
}

/**
 * Return the RR features of version 1: previous, next, median of the last ten (s), previous over median.
 * @param {ArrayLike<number>} peaks increasing sample numbers of all R peaks of a recording
 * @param {number} fsHz
 * @returns {Float32Array[]} four for each beat
 */
export function rrFeatures(peaks, fsHz) {
  const count = peaks.length;
  if (count < 2) return Array.from({ length: count }, () => Float32Array.of(0, 0, 0, 1));
  const interval = Float64Array.from({ length: count - 1 }, (_, i) => peaks[i + 1] / fsHz - peaks[i] / fsHz);
  return Array.from({ length: count }, (_, i) => {
    const previous = interval[Math.max(i - 1, 0)];
    const median = i === 0 ? interval[0] : medianOf(interval.slice(Math.max(i - HISTORY, 0), i));
    return Float32Array.of(previous, interval[Math.min(i, count - 2)], median, median > 0 ? previous / median : 1);
  });
}

/** @param {Float64Array} values one at least; sorted in place */
export function medianOf(values) {
  values.sort();
  const half = values.length >> 1;
  return values.length % 2 ? values[half] : (values[half - 1] + values[half]) / 2;
}
