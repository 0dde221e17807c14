/**
 * Samples as text lines from a serial port or Bluetooth: one format, stated here and in docs/javascript.md.
 *
 * The first line is `# ecgfed fs=360 leads=MLII,V1 units=mV`; units may be steps as a WFDB header writes them,
 * `200(1024)/mV`. Every line after it is one sample: a number for each lead between commas, nothing where there is none.
 */

import { EcgfedError } from "./errors.js";
import { checkFs, numberOf, parseUnits } from "./units.js";

const MOST_LINE = 4096;
const MOST_LEADS = 64;
const HEADER = "# ecgfed fs=360 leads=MLII,V1 units=mV";

/** Takes text as it comes, and gives samples. */
export class LineReader {
  constructor() {
    this.rest = "";
    /** @type {{fsHz: number, leads: string[], mvPerUnit: number, zero: number} | null} */
    this.about = null;
    this.lines = 0;
  }

  /**
   * Take the next text; return the samples of its whole lines, a row for each lead, millivolt.
   * @param {string} text
   * @returns {Float64Array[]} empty before the header has come
   */
  push(text) {
    const lines = (this.rest + text).split(/\r\n|\n|\r/);
    this.rest = lines.pop() ?? "";
    if (this.rest.length > MOST_LINE) throw new EcgfedError("stream", `line ${this.lines + 1} is longer than ${MOST_LINE} characters`, "a sample a line");
    /** @type {number[][]} */
    const samples = [];
    for (const line of lines) {
      this.lines += 1;
      if (!line.trim()) continue;
      if (this.about === null) this.about = this.header(line.trim());
      else samples.push(this.sample(line));
    }
    return (this.about?.leads ?? []).map((_, lead) => Float64Array.from(samples, (one) => one[lead]));
  }

  /** @param {string} line */
  header(line) {
    const said = new Map(line.replace(/^#\s*ecgfed\s*/, "").split(/\s+/).map((one) => /** @type {[string, string]} */ (one.split(/=(.*)/s).slice(0, 2))));
    const [fs, leads, units] = [said.get("fs") ?? "", said.get("leads") ?? "", said.get("units") ?? ""];
    if (!line.startsWith("#") || !fs || !leads || !units) throw new EcgfedError("stream", `begins with '${line.slice(0, 60)}'`, HEADER);
    const fsHz = numberOf(fs);
    checkFs(fsHz, "stream", fs, "correct its first line");
    const names = leads.split(",").map((one) => one.trim());
    if (names.length > MOST_LEADS || names.some((one) => !one)) throw new EcgfedError("stream", `leads '${leads.slice(0, 60)}'`, `1 to ${MOST_LEADS} names`);
    const { mv, zero } = parseUnits(units, "stream");
    return { fsHz, leads: names, mvPerUnit: mv, zero };
  }

  /** @param {string} line @returns {number[]} */
  sample(line) {
    const about = /** @type {NonNullable<LineReader["about"]>} */ (this.about);
    const cells = line.split(",").map((one) => one.trim());
    const values = cells.map((one) => (one === "" || /^nan$/i.test(one) ? NaN : numberOf(one)));
    const bad = cells.findIndex((one, i) => Number.isNaN(values[i]) && one !== "" && !/^nan$/i.test(one));
    if (cells.length !== about.leads.length || bad >= 0) {
      throw new EcgfedError("stream", `line ${this.lines} is '${line.slice(0, 60)}'`, `${about.leads.length} numbers between commas`);
    }
    return values.map((one) => (one - about.zero) * about.mvPerUnit);
  }
}
