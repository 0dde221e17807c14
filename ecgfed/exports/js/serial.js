/**
 * Samples as text lines from a serial port or Bluetooth; docs/javascript.md describes the format.
 *
 * The first line is `# ecgfed fs=360 leads=MLII,V1 units=mV`; units may be steps as in a WFDB header,
 * `200(1024)/mV`. Every further line is one sample: comma-separated numbers, one per lead, empty if missing.
 */

import { EcgfedError } from "./errors.js";
import { checkFs, numberOf, parseUnits } from "./units.js";

const MAX_LINE = 4096;
const MAX_LEADS = 64;
const HEADER = "# ecgfed fs=360 leads=MLII,V1 units=mV";

/** Converts incoming text to samples. */
export class LineReader {
  constructor() {
    this.rest = "";
    /** @type {{fsHz: number, leads: string[], mvPerUnit: number, zero: number} | null} */
    this.format = null;
    this.lines = 0;
  }

  /** @deprecated since 0.3, removed in 0.5: use `format`. */
  get about() {
    return this.format;
  }

  /**
   * Process text; returns the samples of its complete lines, one row per lead, in millivolt.
   * @param {string} text
   * @returns {Float64Array[]} empty before the header
   */
  push(text) {
    const lines = (this.rest + text).split(/\r\n|\n|\r/);
    this.rest = lines.pop() ?? "";
    if (this.rest.length > MAX_LINE) throw new EcgfedError("stream", `line ${this.lines + 1} is longer than ${MAX_LINE} characters`, "a sample a line");
    /** @type {number[][]} */
    const samples = [];
    for (const line of lines) {
      this.lines += 1;
      if (!line.trim()) continue;
      if (this.format === null) this.format = this.header(line.trim());
      else samples.push(this.sample(line));
    }
    return (this.format?.leads ?? []).map((_, lead) => Float64Array.from(samples, (row) => row[lead]));
  }

  /** @param {string} line */
  header(line) {
    const fields = new Map(line.replace(/^#\s*ecgfed\s*/, "").split(/\s+/).map((field) => /** @type {[string, string]} */ (field.split(/=(.*)/s).slice(0, 2))));
    const [fs, leads, units] = [fields.get("fs") ?? "", fields.get("leads") ?? "", fields.get("units") ?? ""];
    if (!line.startsWith("#") || !fs || !leads || !units) throw new EcgfedError("stream", `begins with '${line.slice(0, 60)}'`, HEADER);
    const fsHz = numberOf(fs);
    checkFs(fsHz, "stream", fs, "correct its first line");
    const names = leads.split(",").map((name) => name.trim());
    if (names.length > MAX_LEADS || names.some((name) => !name)) throw new EcgfedError("stream", `leads '${leads.slice(0, 60)}'`, `1 to ${MAX_LEADS} names`);
    const { mv, zero } = parseUnits(units, "stream");
    return { fsHz, leads: names, mvPerUnit: mv, zero };
  }

  /** @param {string} line @returns {number[]} */
  sample(line) {
    const format = /** @type {NonNullable<LineReader["format"]>} */ (this.format);
    const cells = line.split(",").map((cell) => cell.trim());
    const values = cells.map((cell) => (cell === "" || /^nan$/i.test(cell) ? NaN : numberOf(cell)));
    const bad = cells.findIndex((cell, i) => Number.isNaN(values[i]) && cell !== "" && !/^nan$/i.test(cell));
    if (cells.length !== format.leads.length || bad >= 0) {
      throw new EcgfedError("stream", `line ${this.lines} is '${line.slice(0, 60)}'`, `${format.leads.length} numbers between commas`);
    }
    return values.map((value) => (value - format.zero) * format.mvPerUnit);
  }
}
