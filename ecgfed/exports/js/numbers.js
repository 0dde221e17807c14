/** Numpy functions for numbers and typed arrays, equal to the last bit. */

const HALF_EVEN = 6755399441055744; // 1.5 * 2^52: adding it removes the fraction

/**
 * Round to the nearest integer, halves to even, as numpy's rint does.
 * @param {number} value below 2^51 in size
 * @returns {number}
 */
export function rint(value) {
  return value + HALF_EVEN - HALF_EVEN;
}

/**
 * @param {number} value
 * @param {number} low
 * @param {number} high
 */
export function clip(value, low, high) {
  return value < low ? low : value > high ? high : value;
}

/**
 * Return the number of values below `at` in a sorted array (left), or at most `at` (right).
 * @param {ArrayLike<number>} values increasing
 * @param {number} at
 * @param {"left" | "right"} side
 */
export function searchSorted(values, at, side = "left") {
  let low = 0;
  let high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] < at || (side === "right" && values[middle] === at)) low = middle + 1;
    else high = middle;
  }
  return low;
}

/**
 * Return the nearest fraction with a denominator of at most maxDenominator, as Python's Fraction.limit_denominator.
 * @param {number} value finite, above 0
 * @param {number} maxDenominator
 * @returns {[number, number]} numerator and denominator
 */
export function limitDenominator(value, maxDenominator) {
  const [numerator, denominator] = exactFraction(value);
  const limit = BigInt(maxDenominator);
  if (denominator <= limit) return [Number(numerator), Number(denominator)];
  let [p0, q0, p1, q1] = [0n, 1n, 1n, 0n];
  let [n, d] = [numerator, denominator];
  for (;;) {
    const a = n / d;
    const q2 = q0 + a * q1;
    if (q2 > limit) break;
    [p0, q0, p1, q1] = [p1, q1, p0 + a * p1, q2];
    [n, d] = [d, n - a * d];
  }
  const k = (limit - q0) / q1;
  const first = 2n * d * (q0 + k * q1) <= denominator;
  return first ? [Number(p1), Number(q1)] : [Number(p0 + k * p1), Number(q0 + k * q1)];
}

/**
 * @param {number} value
 * @returns {[bigint, bigint]} in lowest terms
 */
function exactFraction(value) {
  let denominator = 1n;
  let rest = value;
  while (!Number.isInteger(rest)) {
    rest *= 2;
    denominator *= 2n;
  }
  return [BigInt(rest), denominator];
}

/**
 * Return the index of the first maximum.
 * @param {ArrayLike<number>} values at least one
 */
export function argMax(values) {
  let best = 0;
  for (let i = 1; i < values.length; i += 1) if (values[i] > values[best]) best = i;
  return best;
}

/**
 * Yield start and stop (not included) of each run of true values.
 * @param {ArrayLike<number>} mask
 * @returns {[number, number][]}
 */
export function runs(mask) {
  /** @type {[number, number][]} */
  const intervals = [];
  let start = -1;
  for (let i = 0; i <= mask.length; i += 1) {
    const inside = i < mask.length && mask[i];
    if (inside && start < 0) start = i;
    if (!inside && start >= 0) {
      intervals.push([start, i]);
      start = -1;
    }
  }
  return intervals;
}

/**
 * @param {Float64Array[]} parts
 * @returns {Float64Array}
 */
export function joined(parts) {
  const out = new Float64Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    out.set(part, at);
    at += part.length;
  }
  return out;
}
