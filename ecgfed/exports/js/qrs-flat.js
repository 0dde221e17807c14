/**
 * Where no lead of a stream has changed for seconds: a disconnected electrode, a saturated amplifier, zeros
 * (ecgfed/domain/signal/qrs_flat.py). The QRS detector takes such a line for a gap.
 */

import { clip, rint } from "./numbers.js";

/** A line is flat while it stays within so many microvolt for so many parts of so many seconds. */
const FLAT_UV = 40;
const PART_S = 0.5;
const PARTS = 6;
const LIMIT_MV = 1000;

/** Extremes of one lead, whole microvolt: of the last whole parts, and of the part that is under way. */
class Extremes {
  constructor() {
    this.low = new Array(PARTS).fill(-Infinity);
    this.high = new Array(PARTS).fill(Infinity);
    this.lowest = -Infinity; // of the whole parts
    this.highest = Infinity;
    this.partLow = Infinity; // without any sample
    this.partHigh = -Infinity;
  }

  /** @param {number} valueMv NaN where there is no sample */
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

/** Marks the samples of a stream on which every lead is flat; the marks do not depend on how it is cut into chunks. */
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
   * Return the next samples with NaN where every lead is flat.
   * @param {Float64Array[]} chunkMv a row for each lead, millivolt, NaN where there is no sample
   * @returns {Float64Array[]} the same rows where no line is flat
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
