/** The QRS detector: one stream, whole recordings included, that answers within 4.7 s (ecgfed/domain/signal/qrs.py). */

import { rint, runs } from "./numbers.js";
import { FlatLine } from "./qrs-flat.js";
import { Segment } from "./qrs-segment.js";

/** A peak is reported at the latest when this much signal after it has been seen. */
export const DELAY_S = 4.7;
const BRIDGE_S = 0.04;
export const MIN_FS_HZ = 100;
/** A longer piece is fed in parts. */
const PIECE_S = 60;

/** Finds R peaks in a stream of samples; the peaks do not depend on how the stream is cut into chunks. */
export class QrsDetector {
  /**
   * @param {number} fsHz sampling frequency in Hz, 100 or more
   * @param {number} leads how many leads a chunk has
   * @param {number} lead the lead on whose extremum the R peak is put
   */
  constructor(fsHz, leads = 1, lead = 0) {
    if (!(Number.isFinite(fsHz) && fsHz >= MIN_FS_HZ)) throw new RangeError(`fsHz is ${fsHz}; expected ${MIN_FS_HZ} or more`);
    if (!(lead >= 0 && lead < leads)) throw new RangeError(`lead is ${lead}; expected 0 to ${leads - 1}`);
    this.fsHz = fsHz;
    this.leads = leads;
    this.lead = lead;
    this.bridge = rint(BRIDGE_S * fsHz);
    this.sampleCount = 0;
    /** A run of missing samples that may yet be a gap. */
    this.waiting = this.nothing();
    /** @type {Segment | null} */
    this.segment = null;
    this.flat = new FlatLine(fsHz, leads);
  }

  /** @returns {Float64Array[]} */
  nothing() {
    return Array.from({ length: this.leads }, () => new Float64Array(0));
  }

  /**
   * Take the next samples and return the R peaks that have become certain, as samples since the stream's start.
   * @param {Float64Array[]} chunkMv a row for each lead, millivolt, NaN where there is no sample
   * @returns {number[]}
   */
  push(chunkMv) {
    if (chunkMv.length !== this.leads) throw new RangeError(`a chunk has ${chunkMv.length} leads; expected ${this.leads}`);
    const samples = chunkMv[0].length;
    if (chunkMv.some((row) => row.length !== samples)) throw new RangeError("a chunk's leads differ in length");
    const piece = Math.ceil(PIECE_S * this.fsHz);
    const peaks = [];
    for (let start = 0; start < samples; start += piece) {
      peaks.push(...this.take(chunkMv.map((row) => row.subarray(start, start + piece))));
    }
    return peaks;
  }

  /** End the stream and return the last R peaks; the next `push` begins another one at sample 0. */
  finish() {
    const peaks = this.close();
    this.sampleCount = 0;
    this.waiting = this.nothing();
    this.flat = new FlatLine(this.fsHz, this.leads);
    return peaks;
  }

  /** @returns {number[]} */
  close() {
    const segment = this.segment;
    this.segment = null;
    return segment ? segment.feed(this.nothing(), true) : [];
  }

  /**
   * Cut at gaps and flat lines; a run of missing samples at the end waits until it is known to be one.
   * @param {Float64Array[]} chunk
   */
  take(chunk) {
    const part = this.flat.without(chunk);
    const begin = this.sampleCount - this.waiting[0].length;
    this.sampleCount += part[0].length;
    const data = part.map((row, lead) => {
      if (!this.waiting[lead].length) return row;
      const both = new Float64Array(this.waiting[lead].length + row.length);
      both.set(this.waiting[lead]);
      both.set(row, this.waiting[lead].length);
      return both;
    });
    const length = data[0].length;
    const missing = new Uint8Array(length).fill(1);
    for (const row of data) for (let i = 0; i < length; i += 1) if (Number.isFinite(row[i])) missing[i] = 0;
    /** @type {number[]} */
    const peaks = [];
    let at = 0;
    for (const [start, stop] of runs(missing)) {
      if (this.segment === null && start === at) {
        at = stop; // before the first sample of a segment
      } else if (stop - start > this.bridge) {
        peaks.push(...this.feed(data, at, start, begin), ...this.close());
        at = stop;
      } else if (stop === length) {
        peaks.push(...this.feed(data, at, start, begin));
        at = start;
      }
    }
    if (at < length && missing.subarray(at).some((isMissing) => !isMissing)) {
      peaks.push(...this.feed(data, at, length, begin));
      at = length;
    }
    this.waiting = this.segment !== null ? data.map((row) => row.slice(at)) : this.nothing();
    return peaks;
  }

  /**
   * @param {Float64Array[]} data
   * @param {number} start
   * @param {number} stop
   * @param {number} begin sample of the stream at which `data` begins
   */
  feed(data, start, stop, begin) {
    if (stop <= start) return [];
    this.segment ??= new Segment(this.fsHz, this.leads, this.lead, begin + start);
    return this.segment.feed(data.map((row) => row.subarray(start, stop)), false);
  }
}

/**
 * Find the R peaks of a whole recording: the stream, fed at once.
 * @param {Float64Array[]} signalsMv a row for each lead, millivolt, NaN where there is no sample
 * @param {number} fsHz
 * @param {number} lead the lead on whose extremum the R peak is put
 */
export function detectQrs(signalsMv, fsHz, lead = 0) {
  const detector = new QrsDetector(fsHz, signalsMv.length, lead);
  return [...detector.push(signalsMv), ...detector.finish()];
}
