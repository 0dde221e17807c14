/** Beats of the open recording or stream, in order of time; final predictions replace early ones. */

/** @typedef {import("../../exports/js/index.d.ts").StreamBeat} StreamBeat */

/**
 * Origin of beats: recording or stream, lead, model (digest, or the bundle's name without one) and patient.
 * @typedef {{name: string, fsHz: number, lead: string, model: string, patient: string}} Source
 */

/** First characters of formulas in spreadsheets. */
const FORMULA = "=+-@\t\r\n";

/** Quote a cell; a formula gets an apostrophe in front (ecgfed/base/text.py). @param {string} text */
function cell(text) {
  const safe = text.length > 1 && FORMULA.includes(text[0]) ? `'${text}` : text;
  return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

export class Beats {
  constructor() {
    /** @type {StreamBeat[]} */
    this.all = [];
  }

  /** @param {StreamBeat[]} fresh */
  add(fresh) {
    for (const beat of fresh) {
      if (beat.stage === "withdrawn") {
        this.all = this.all.filter((entry) => entry.sample !== beat.sample);
        continue;
      }
      let at = this.all.length;
      while (at > 0 && this.all[at - 1].sample >= beat.sample) at -= 1;
      const same = at < this.all.length && this.all[at].sample === beat.sample;
      this.all.splice(at, same ? 1 : 0, beat);
    }
  }

  /** Beats of each class, the most frequent first. @returns {{name: string, count: number, uncertain: number}[]} */
  counts() {
    /** @type {Map<string, {name: string, count: number, uncertain: number}>} */
    const counts = new Map();
    for (const beat of this.all) {
      const entry = counts.get(beat.class) ?? { name: beat.class || "unclassified", count: 0, uncertain: 0 };
      entry.count += 1;
      entry.uncertain += Number(beat.lowConfidence);
      counts.set(beat.class, entry);
    }
    return [...counts.values()].sort((a, b) => b.count - a.count);
  }

  /** Heart rate per minute over the last ten intervals before a sample, or null. @param {number} sample @param {number} fsHz */
  rate(sample, fsHz) {
    const before = this.all.filter((beat) => beat.sample <= sample).slice(-11);
    if (before.length < 3) return null;
    const steps = before.slice(1).map((entry, i) => entry.sample - before[i].sample).sort((a, b) => a - b);
    return Math.round((60 * fsHz) / steps[steps.length >> 1]);
  }

  /** The table of `ecgfed predict`, with the origin in the last columns. @param {Source} source */
  csv({ fsHz, lead, model, patient }) {
    const source = [model, patient, lead].map(cell);
    const rows = this.all.filter((beat) => beat.stage === "final").map((beat) => [
      beat.sample, (beat.sample / fsHz).toFixed(4), cell(beat.class), cell(beat.symbol), beat.override ? "" : beat.probability.toFixed(4), beat.flags,
      beat.poorQuality, Number(beat.lowConfidence), Number(beat.outOfDistribution), ...source,
    ]);
    const head = "sample,time_s,class,symbol,probability,flags,poor_quality,uncertain,far,model,patient,lead";
    return `${[head, ...rows.map((row) => row.join(","))].join("\r\n")}\r\n`;
  }
}
