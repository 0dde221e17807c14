/**
 * Classes and preprocessing in a manifest of version 2, compared with this runtime
 * (ecgfed/exports/device/graph_metadata.py, preprocessing.py).
 */

import { bandPassTaps } from "./filters.js";
import { isObject, objectOf } from "./manifest-models.js";
import { EXPECTED } from "./manifest-table.js";
import { FS_HZ } from "./windows.js";

/** @typedef {import("./manifest.js").Manifest} Manifest */
/** @typedef {{where: string, stored: unknown, expected: unknown}} Difference */

/** Tolerances of numbers: machines round a cosine differently. */
const [CLOSE, CLOSE_TO_ZERO] = [1e-9, 1e-15];
/** Informative fields of `preprocessing`, not compared. */
const NOT_COMPARED = ["standardisation", "detector", "latency"];

/** The common AAMI group of symbols, null if they belong to several. @param {string[]} symbols */
function aamiOf(symbols) {
  /** @type {Record<string, string>} */
  const table = EXPECTED.aami;
  const plain = symbols.filter((symbol) => !EXPECTED.escapes.includes(symbol));
  const groups = new Set((plain.length ? plain : symbols).map((symbol) => (Object.hasOwn(table, symbol) ? table[symbol] : null)));
  return groups.size === 1 ? [...groups][0] : null;
}

/** Compare a manifest's class table with its label map. @param {Manifest} manifest */
export function checkClassTable(manifest) {
  const { classes, symbols } = manifest.label_map;
  /** @type {Map<string, string[]>} */
  const byClass = new Map(classes.map((/** @type {string} */ name) => [name, []]));
  for (const [symbol, name] of Object.entries(symbols)) {
    const of = byClass.get(/** @type {string} */ (name));
    if (of === undefined) throw new TypeError("symbols of its classes");
    of.push(symbol);
  }
  const expected = [...byClass].map(([name, of], code) => ({ code, name, aami: aamiOf(of), symbols: of }));
  if (!Array.isArray(manifest.class_table)) throw new TypeError("a class_table");
  const stored = manifest.class_table.map(({ code, name, aami, symbols: of }) => ({ code, name, aami, symbols: of }));
  if (difference(stored, expected, "class_table")) throw new TypeError("a class_table that says what label_map says");
}

/**
 * Return the first difference between two JSON values, or null.
 * @param {any} stored
 * @param {any} expected
 * @param {string} where
 * @returns {Difference | null}
 */
export function difference(stored, expected, where) {
  if (isObject(stored) && isObject(expected)) {
    for (const name of new Set([...Object.keys(expected), ...Object.keys(stored)])) {
      const both = Object.hasOwn(stored, name) && Object.hasOwn(expected, name);
      const inner = both ? difference(stored[name], expected[name], `${where}.${name}`) : { where: `${where}.${name}`, stored: stored[name], expected: expected[name] };
      if (inner) return inner;
    }
    return null;
  }
  if (Array.isArray(stored) && Array.isArray(expected) && stored.length === expected.length) {
    for (let i = 0; i < expected.length; i += 1) {
      const inner = difference(stored[i], expected[i], `${where}[${i}]`);
      if (inner) return inner;
    }
    return null;
  }
  const bound = Math.max(CLOSE * Math.max(Math.abs(stored), Math.abs(expected)), CLOSE_TO_ZERO);
  const close = typeof stored === "number" && typeof expected === "number" ? stored === expected || Math.abs(stored - expected) <= bound : stored === expected;
  return close ? null : { where, stored, expected: expected };
}

/** The preprocessing of this runtime in the format of a manifest. @param {0 | 1 | 2 | 3} rrVersion */
function preprocessingOf(rrVersion) {
  const taps = bandPassTaps(FS_HZ);
  const { filter } = EXPECTED.preprocessing;
  const half = Array.from(taps.subarray(0, (taps.length >> 1) + 1));
  return { ...EXPECTED.preprocessing, filter: { ...filter, taps: { ...filter.taps, first_half_and_middle: half } }, rr: rrVersion ? EXPECTED.rr[rrVersion] : null };
}

/**
 * Return the first difference between `preprocessing` and this runtime, or null.
 * @param {Manifest} manifest
 * @param {0 | 1 | 2 | 3} rrVersion
 */
export function preprocessingDifference(manifest, rrVersion) {
  const stored = objectOf(manifest.preprocessing, "preprocessing");
  for (const name of NOT_COMPARED) objectOf(stored[name], `preprocessing.${name}`);
  const compared = Object.fromEntries(Object.entries(stored).filter(([name]) => !NOT_COMPARED.includes(name)));
  return difference(compared, preprocessingOf(rrVersion), "preprocessing");
}
