/** Checks of samples from callers: rows in millivolt, or a one-line error (ecgfed/domain/record/checks.py). */

import { RecordError } from "./errors.js";

/** Name of the type of a typed array from any realm, "" for other values. @param {unknown} value */
const typeOf = (value) => (ArrayBuffer.isView(value) ? Object.prototype.toString.call(value).slice(8, -1) : "");

/** Whether a value is an array or typed array. @param {unknown} value @returns {value is ArrayLike<unknown>} */
const isRow = (value) => Array.isArray(value) || (typeOf(value) !== "" && typeOf(value) !== "DataView");

/** Describe a value for an error. @param {unknown} value */
function kindOf(value) {
  if (value === null) return "null";
  if (typeof value === "string") return `the text '${value.slice(0, 40)}'`;
  return typeOf(value) || (typeof value === "object" ? "an object" : `${typeof value === "undefined" ? "" : `${typeof value} `}${String(value)}`);
}

/** Shape of samples in Python notation. @param {unknown} value */
export function shapeOf(value) {
  if (!isRow(value)) return kindOf(value);
  const rows = Array.from(value);
  if (!rows.length || !rows.every(isRow)) return rows.some(isRow) ? "rows and single values" : `shape (${rows.length},)`;
  const lengths = new Set(rows.map((row) => /** @type {ArrayLike<unknown>} */ (row).length));
  return lengths.size > 1 ? `rows of ${[...lengths].slice(0, 8).join(" and ")} samples` : `shape (${rows.length}, ${[...lengths][0]})`;
}

/**
 * Return a row of samples as float64; integers (raw units of an amplifier), texts and other values are refused.
 * @param {unknown} row
 * @param {string} where for errors
 * @returns {Float64Array}
 */
export function millivoltRow(row, where) {
  if (row instanceof Float64Array) return row;
  const type = typeOf(row);
  if (/^Float(?:16|32|64)Array$/.test(type)) return Float64Array.from(/** @type {Float32Array} */ (row));
  if (type && type !== "DataView") {
    throw new RecordError(where, `values of type ${type}`, "millivolts in floating point", "convert the amplifier's steps to millivolts first: (steps - zero) / gain");
  }
  if (!Array.isArray(row)) throw new RecordError(where, `is ${kindOf(row)}`, "an array of millivolts");
  for (let i = 0; i < row.length; i += 1) { // a hole is undefined
    if (typeof row[i] !== "number") throw new RecordError(where, `sample ${i} is ${kindOf(row[i])}`, "a number in millivolt, or NaN for a gap");
  }
  return Float64Array.from(row);
}

/**
 * Return samples as rows of float64, one per lead; a single lead may be a plain array.
 * @param {unknown} samples
 * @param {number} leads how many there are
 * @param {string} where for errors
 * @returns {Float64Array[]}
 */
export function millivoltRows(samples, leads, where) {
  if (!isRow(samples)) throw new RecordError(where, `is ${kindOf(samples)}`, expectedShape(leads));
  if (leads === 1 && (!Array.isArray(samples) || !samples.some(isRow))) return [millivoltRow(samples, where)];
  if (!Array.isArray(samples)) millivoltRow(samples, where); // a wrong type is reported before the shape
  const rows = /** @type {unknown[]} */ (Array.from(samples));
  if (rows.length !== leads || !rows.every(isRow)) throw new RecordError(where, shapeOf(samples), expectedShape(leads));
  const checked = rows.map((row) => millivoltRow(row, where));
  if (checked.some((row) => row.length !== checked[0].length)) throw new RecordError(where, shapeOf(samples), expectedShape(leads));
  return checked;
}

/** @param {number} leads */
const expectedShape = (leads) => (leads > 1 ? `(${leads}, samples): an array of ${leads} rows` : "(samples,) of one lead");
