/** The QRS detector, a stream with a delay of at most 4.7 s, also for whole recordings (ecgfed/domain/signal/qrs.py). */

import { rint, runs } from "./numbers.js";
import { FlatLine } from "./qrs-flat.js";
import { Segment } from "./qrs-segment.js";

/** Maximum delay of a peak in seconds. */
export const DELAY_S = 4.7;
const BRIDGE_S = 0.04;
export const MIN_FS_HZ = 100;
/** Maximum duration of a part that is processed at once. */
const PIECE_S = 60;

/** Finds R peaks in a stream; the peaks do not depend on how it is split into chunks. */
export class QrsDetector {
  /**
   * @param {number} fsHz sampling frequency in Hz, 100 or more
   * @param {number} leads number of leads of a chunk
   * @param {number} lead the lead whose extremum is the R peak
   */
  constructor(fsHz, leads = 1, lead = 0) {
    if (!(Number.isFinite(fsHz) && fsHz >= MIN_FS_HZ)) throw new RangeError(`fsHz is ${fsHz}; expected ${MIN_FS_HZ} or more`);
    if (!(lead >= 0 && lead < leads)) throw new RangeError(`lead is ${lead}; expected 0 to ${leads - 1}`);
    this.fsHz = fsHz;
    this.leads = leads;
    this.lead = lead;
    this.bridge = rint(BRIDGE_S * fsHz);
    this.sampleCount = 0;
    /** Missing samples at the end, which may become a gap. */
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
   * Process the next samples; returns new R peaks, as samples since the start of the stream.
   * @param {Float64Array[]} chunkMv a row per lead, millivolt, NaN if missing
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
   * Split at gaps and flat lines; missing samples at the end wait until their number is known.
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
    if (data.some((row) => row.every(Number.isFinite))) { // none is missing on every lead
      this.waiting = this.nothing();
      return this.feed(data, 0, length, begin);
    }
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
   * @param {number} begin first sample of `data` in the stream
   */
  feed(data, start, stop, begin) {
    if (stop <= start) return [];
    this.segment ??= new Segment(this.fsHz, this.leads, this.lead, begin + start);
    return this.segment.feed(data.map((row) => row.subarray(start, stop)), false);
  }
}

/**
 * Find the R peaks of a whole recording.
 * @param {Float64Array[]} signalsMv a row per lead, millivolt, NaN if missing
 * @param {number} fsHz
 * @param {number} lead the lead whose extremum is the R peak
 */
export function detectQrs(signalsMv, fsHz, lead = 0) {
  const detector = new QrsDetector(fsHz, signalsMv.length, lead);
  return [...detector.push(signalsMv), ...detector.finish()];
}
