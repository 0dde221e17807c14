/** Tables of numbers as people write them (ecgfed/domain/record/tables.py): separators, decimal comma, comments, empty cells. */

import { RecordError } from "./errors.js";
import { numberOf } from "./units.js";

/** Cells of missing values. */
const GAPS = new Set(["", "nan", "NaN", "NAN", "NA", "N/A", "n/a", "null", "-", "--"]);
const MAX_COLUMNS = 1024;
const LINES = /\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]/;

/** A table as text. */
export class Table {
  /** @param {string} where @param {string} text */
  constructor(where, text) {
    this.where = where;
    /** @type {string[]} */
    this.rows = [];
    /** Numbers of the rows in the file, from 1. @type {number[]} */
    this.lines = [];
    const blank = this.takeLines(text);
    if (!this.rows.length) throw new RecordError(where, "is empty", "a table of numbers", "choose another file, or leave this one out");
    this.separator = separatorOf(this.rows);
    this.columns = this.checkedWidth(blank);
    /** @type {string[][]} */
    const head = [];
    while (this.rows.length && head.length < 2 && isNames(this.cells(0))) {
      head.push(this.cells(0));
      this.rows.shift();
      this.lines.shift();
    }
    if (!this.rows.length) throw new RecordError(where, "holds no row of numbers", "numbers below the columns' names", "choose another file, or leave this one out");
    /** Column names, empty if the first line has numbers; units in the line below, or empty. */
    this.header = head[0] ?? [];
    this.units = head[1] ?? [];
    this.decimal = this.separator !== "," && this.rows.some((row) => row.includes(",")) ? "," : ".";
  }

  /** Keep the lines of the table; return the first blank one inside it, 0 for none. @param {string} text */
  takeLines(text) {
    let [blank, inside] = [0, 0];
    text.split(LINES).forEach((line, i) => {
      if (/^\s*[#%]/.test(line)) return;
      if (!line.trim()) {
        blank = i + 1;
      } else {
        if (!inside && this.rows.length) inside = blank;
        this.rows.push(line.replace(/["']/g, ""));
        this.lines.push(i + 1);
      }
    });
    return inside;
  }

  /** @param {string} row @returns {string[]} */
  split(row) {
    return (this.separator === null ? row.trim().split(/\s+/) : row.split(this.separator)).map((cell) => cell.trim());
  }

  /** @param {number} row */
  cells(row) {
    return this.split(this.rows[row]);
  }

  /** @param {number} blank */
  checkedWidth(blank) {
    const width = this.cells(0).length;
    if (width > MAX_COLUMNS) throw new RecordError(this.where, `has more than ${MAX_COLUMNS} columns`, "a column for each lead", "swap rows and columns");
    this.rows.forEach((row, i) => {
      const cellCount = this.split(row).length;
      if (cellCount === width) return;
      const action = "delete what is not of the table, such as lines above it, or fill the row";
      throw new RecordError(this.where, `line ${this.lines[i]} has ${cellCount} column${cellCount === 1 ? "" : "s"}`, `${width} as the lines before it have`, action);
    });
    if (width === 1 && blank) throw new RecordError(this.where, `line ${blank} is blank`, "a number, or NaN for a gap", "delete or fill it");
    return width;
  }

  /** One column as it is written. @param {number} column */
  text(column) {
    return this.rows.map((row) => this.split(row)[column]);
  }

  /** Some columns as numbers, NaN for a gap. @param {number[]} columns @returns {Float64Array[]} */
  numbers(columns) {
    const out = columns.map(() => new Float64Array(this.rows.length));
    this.rows.forEach((row, i) => {
      const cells = this.split(row);
      columns.forEach((column, k) => {
        const value = asNumber(cells[column], this.decimal);
        if (value === null) {
          const name = this.header.length ? this.header[column] : String(column + 1);
          throw new RecordError(this.where, `line ${this.lines[i]} of column ${name} holds '${cells[column].slice(0, 60)}'`, "a number, or nothing for a gap");
        }
        out[k][i] = value;
      });
    });
    return out;
  }
}

/** A cell's number, NaN for a gap, null for a text. @param {string} cell @param {string} decimal */
export function asNumber(cell, decimal = ".") {
  const text = cell.trim();
  if (GAPS.has(text) || /^[+-]?nan$/i.test(text)) return NaN;
  if (/^[+-]?inf(?:inity)?$/i.test(text)) return text.startsWith("-") ? -Infinity : Infinity;
  if (decimal === "," && text.includes(".")) return null;
  const value = numberOf(decimal === "," ? text.replace(",", ".") : text);
  return Number.isNaN(value) ? null : value;
}

/** Seconds of a clock time, `0:00.003` or `01:02:03.5`; null for anything else. @param {string} cell */
export function clockS(cell) {
  const parts = cell.split(":").map((part) => asNumber(part));
  if (parts.length < 2 || parts.length > 3 || parts.some((part) => part === null || !(part >= 0 && part < Infinity))) return null;
  return parts.reduce((/** @type {number} */ seconds, part) => seconds * 60 + Number(part), 0);
}

/** @param {string[]} cells */
function isNames(cells) {
  if (cells.length > 1 && cells[0] === "" && cells.slice(1).every((cell, i) => cell === String(i))) return true;
  const named = cells.filter((cell) => !GAPS.has(cell));
  return named.length > 0 && named.every((cell) => asNumber(cell) === null && asNumber(cell, ",") === null && clockS(cell) === null);
}

/** @param {string[]} rows @returns {string | null} */
function separatorOf(rows) {
  const head = rows.slice(0, 3);
  const separator = ["\t", ";", ","].find((character) => head.every((line) => line.includes(character)));
  if (separator !== undefined) return separator;
  return head[head.length - 1].trim().split(/\s+/).length > 1 ? null : ",";
}
