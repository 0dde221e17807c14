/** Running medians (ecgfed/domain/signal/medians.py). */

import { searchSorted } from "./numbers.js";

/**
 * Return the median of the `width` values around each; of an even number the larger middle one.
 * The window of value i begins `width >> 1` before it; beyond the ends the values are mirrored, the last one twice.
 * @param {Float64Array} values finite
 * @param {number} width one at least
 */
export function runningMedian(values, width) {
  const count = values.length;
  const at = (/** @type {number} */ i) => {
    const folded = ((i % (2 * count)) + 2 * count) % (2 * count);
    return values[folded < count ? folded : 2 * count - 1 - folded];
  };
  const before = width >> 1;
  const ordered = Array.from({ length: width }, (_, i) => at(i - before)).sort((a, b) => a - b);
  const out = new Float64Array(count);
  for (let i = 0; i < count; i += 1) {
    out[i] = ordered[before];
    ordered.splice(searchSorted(ordered, at(i - before)), 1);
    const next = at(i - before + width);
    ordered.splice(searchSorted(ordered, next), 0, next);
  }
  return out;
}
