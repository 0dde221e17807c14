/**
 * Unusable segments of a lead and their reasons: gaps, flat line, saturation, spikes, noise, baseline jumps
 * (ecgfed/domain/signal/quality.py, docs/quality.md).
 */

import { REASONS } from "./quality-reasons.js";
import { limited } from "./quality-samples.js";
import { QualityStream } from "./quality-stream.js";
import { Spans } from "./spans.js";

const RAIL_FROM_REST_MV = 1.0;
/** Duration of a lead that is processed at once. */
const AT_ONCE_S = 60;

/** @typedef {{start: number, stop: number, reason: string}} Stretch */

/** Quality of one lead: its bad segments in order of their start; different reasons may overlap. */
export class LeadQuality {
  /** @param {number} samples @param {number} fsHz @param {Stretch[]} stretches */
  constructor(samples, fsHz, stretches) {
    this.samples = samples;
    this.fsHz = fsHz;
    this.stretches = stretches;
  }

  /** Return the segments that are bad for any of the reasons. @param {readonly string[]} reasons */
  spans(reasons = REASONS) {
    const mine = this.stretches.filter((stretch) => reasons.includes(stretch.reason));
    return new Spans(mine.map((stretch) => /** @type {[number, number]} */ ([stretch.start, stretch.stop])));
  }

  /** Seconds without any bad segment. */
  get usableS() {
    return (this.samples - this.spans().total) / this.fsHz;
  }
}

/**
 * Return the extremes of a lead that are far from its other values.
 * @param {ArrayLike<number>} recorded (samples,) millivolt, NaN if missing
 */
export function rails(recorded) {
  const valid = Float64Array.from(recorded).filter(Number.isFinite).map(limited);
  let [low, high] = [Infinity, -Infinity];
  for (const value of valid) {
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  if (!(high - low >= RAIL_FROM_REST_MV)) return [];
  const rest = valid.filter((value) => value > low && value < high).sort();
  if (!rest.length) return [];
  const half = rest.length >> 1;
  const middle = rest.length % 2 ? rest[half] : (rest[half - 1] + rest[half]) / 2;
  return [low, high].filter((value) => Math.abs(value - middle) >= RAIL_FROM_REST_MV);
}

/**
 * Find the bad segments of one lead.
 * @param {Float64Array} recorded (samples,) millivolt as recorded, NaN if missing
 * @param {number} fsHz above 80
 * @param {number[]} [atRail] limits of the recorder; default: the extremes of the lead
 */
export function leadQuality(recorded, fsHz, atRail) {
  const stream = new QualityStream(fsHz, atRail ?? rails(recorded));
  const some = Math.ceil(AT_ONCE_S * fsHz);
  for (let at = 0; at < recorded.length; at += some) {
    stream.append(recorded.subarray(at, at + some));
    stream.look(at + some >= recorded.length);
  }
  return new LeadQuality(recorded.length, fsHz, stream.stretches);
}
