/**
 * Detects when all leads of a stream are constant for seconds: a disconnected electrode, a saturated amplifier, zeros
 * (ecgfed/domain/signal/qrs_flat.py). The QRS detector treats such a flat line as a gap.
 */

import { clip, rint } from "./numbers.js";

/** A line is flat if it stays within FLAT_UV microvolts for PARTS parts of PART_S seconds. */
const FLAT_UV = 40;
const PART_S = 0.5;
const PARTS = 6;
const LIMIT_MV = 1000;

/** Extremes of one lead in integer microvolts: of the last complete parts, and of the current part. */
class Extremes {
  constructor() {
    this.low = new Array(PARTS).fill(-Infinity);
    this.high = new Array(PARTS).fill(Infinity);
    this.lowest = -Infinity; // of the complete parts
    this.highest = Infinity;
    this.partLow = Infinity; // before the first sample
    this.partHigh = -Infinity;
  }

  /** @param {number} valueMv NaN if missing */
  take(valueMv) {
    const valueUv = rint(clip(valueMv, -LIMIT_MV, LIMIT_MV) * 1000);
    if (valueUv < this.partLow) this.partLow = valueUv;
    if (valueUv > this.partHigh) this.partHigh = valueUv;
  }

  endPart() {
    this.low = [...this.low.slice(1), this.partLow];
    this.high = [...this.high.slice(1), this.partHigh];
    this.lowest = Math.min(...this.low);
    this.highest = Math.max(...this.high);
    this.partLow = Infinity;
    this.partHigh = -Infinity;
  }

  isFlat() {
    return Math.max(this.highest, this.partHigh) - Math.min(this.lowest, this.partLow) <= FLAT_UV;
  }

  hasSamples() {
    return this.highest >= this.lowest;
  }
}

/** Marks the samples at which every lead is flat, independently of how the stream is split into chunks. */
export class FlatLine {
  /**
   * @param {number} fsHz
   * @param {number} leads
   */
  constructor(fsHz, leads) {
    this.width = Math.max(1, rint(PART_S * fsHz));
    this.inPart = 0;
    this.leads = Array.from({ length: leads }, () => new Extremes());
  }

  /**
   * Replace samples at which every lead is flat by NaN.
   * @param {Float64Array[]} chunkMv a row per lead, millivolt, NaN if missing
   * @returns {Float64Array[]} the same rows if no line is flat
   */
  without(chunkMv) {
    /** @type {Float64Array[] | null} */
    let cut = null;
    for (let i = 0; i < chunkMv[0].length; i += 1) {
      this.leads.forEach((extremes, lead) => extremes.take(chunkMv[lead][i]));
      if (this.leads.every((lead) => lead.isFlat()) && this.leads.some((lead) => lead.hasSamples())) {
        cut ??= chunkMv.map((row) => row.slice());
        for (const row of cut) row[i] = NaN;
      }
      this.inPart += 1;
      if (this.inPart === this.width) {
        this.inPart = 0;
        for (const lead of this.leads) lead.endPart();
      }
    }
    return cut ?? chunkMv;
  }
}
