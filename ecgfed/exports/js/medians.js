/** Running medians (ecgfed/domain/signal/medians.py). */

/**
 * Compute the median of the `width` values around each; of an even number the larger middle one.
 * The window of value i begins `width >> 1` before it; beyond the ends the values are mirrored, the last one twice.
 * @param {Float64Array} values finite
 * @param {number} count number of values
 * @param {number} width one at least
 * @param {number} from first value whose median is computed
 * @param {Float64Array} out
 */
export function runningMedian(values, count, width, from, out) {
  const at = (/** @type {number} */ i) => {
    if (i >= 0 && i < count) return values[i];
    const folded = ((i % (2 * count)) + 2 * count) % (2 * count);
    return values[folded < count ? folded : 2 * count - 1 - folded];
  };
  const before = width >> 1;
  const ordered = new Float64Array(width);
  for (let i = 0; i < width; i += 1) ordered[i] = at(from - before + i);
  ordered.sort();
  for (let i = from; i < count; i += 1) {
    out[i] = ordered[before];
    replaceSorted(ordered, at(i - before), at(i - before + width));
  }
}

/** Replace a value of a sorted array. @param {Float64Array} ordered @param {number} old one of them @param {number} fresh */
function replaceSorted(ordered, old, fresh) {
  let [low, high] = [0, ordered.length - 1];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (ordered[middle] < old) low = middle + 1;
    else high = middle;
  }
  for (; low < ordered.length - 1 && ordered[low + 1] < fresh; low += 1) ordered[low] = ordered[low + 1];
  for (; low > 0 && ordered[low - 1] > fresh; low -= 1) ordered[low] = ordered[low - 1];
  ordered[low] = fresh;
}

/** Change of a running median: where it begins if its values change from a place on. @param {number} place @param {number} width */
export function medianFrom(place, width) {
  return Math.max(place - (width - 1 - (width >> 1)), 0);
}
