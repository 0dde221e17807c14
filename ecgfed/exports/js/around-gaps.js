/** R peaks of a recording with bad segments: on both sides of each, never in a spike (ecgfed/domain/signal/around_gaps.py). */

import { RecordError } from "./errors.js";
import { MIN_FS_HZ, detectQrs } from "./qrs.js";
import { NO_SIGNAL, REASONS } from "./quality-reasons.js";
import { Spans } from "./spans.js";

/** @typedef {import("./quality.js").LeadQuality} LeadQuality */

/** A segment without signal of this duration splits the lead. */
export const SPLIT_S = 1.0;
/** Minimum duration for detection. */
export const MIN_DURATION_S = 3.0;

/**
 * Split a lead at its long segments without signal.
 * @param {LeadQuality} quality
 * @returns {[number, number][]} start and stop of the pieces that are long enough
 */
export function usablePieces(quality) {
  const { fsHz, samples } = quality;
  const gaps = new Spans(quality.spans(NO_SIGNAL).edges().filter(([start, stop]) => stop - start >= SPLIT_S * fsHz));
  const edges = [0, ...gaps.edges().flat(), samples];
  /** @type {[number, number][]} */
  const pieces = [];
  for (let i = 0; i < edges.length; i += 2) {
    if (edges[i + 1] - edges[i] >= MIN_DURATION_S * fsHz) pieces.push([edges[i], edges[i + 1]]);
  }
  return pieces;
}

/**
 * Find the R peaks of a recording.
 * @param {Float64Array[]} signalsMv a row per lead, millivolt, NaN if missing
 * @param {number} fsHz
 * @param {LeadQuality} quality of the lead in use
 * @param {number} lead the lead in use
 * @param {string} name what to call the signal in an error
 * @returns {number[]} increasing sample numbers
 */
export function detectAroundGaps(signalsMv, fsHz, quality, lead, name) {
  checkSignal(signalsMv[0].length, fsHz, name);
  const none = (/** @type {string} */ reason) => {
    if (usablePieces(quality).length || signalsMv.length > 1 || !quality.stretches.length) {
      return new RecordError(name, reason, "an ECG", reason.startsWith("is flat") ? "check the electrode or the lead" : "check the lead");
    }
    return nothingUsable(quality, name);
  };
  if (!signalsMv.some(changes)) throw none("is flat (no change above 1 microvolt)");
  const peaks = detectQrs(signalsMv, fsHz, lead);
  if (!peaks.length) throw none("no beats found by ecgfed");
  const spikes = quality.spans(["spike"]);
  return peaks.filter((peak) => !spikes.inside(peak));
}

/** Check duration and sampling frequency. @param {number} samples @param {number} fsHz @param {string} name */
export function checkSignal(samples, fsHz, name) {
  if (samples / fsHz < MIN_DURATION_S) {
    const duration = `lasts ${(samples / fsHz).toFixed(1)} s`;
    throw new RecordError(name, duration, `at least ${MIN_DURATION_S} s to find beats in`);
  }
  if (!(fsHz >= MIN_FS_HZ)) throw new RecordError(name, `sampling frequency ${fsHz} Hz`, `at least ${MIN_FS_HZ} Hz`);
}

/** Whether the valid samples of a lead differ by a microvolt or more. @param {Float64Array} signalMv */
function changes(signalMv) {
  let [low, high] = [Infinity, -Infinity];
  for (const value of signalMv) {
    if (!Number.isFinite(value)) continue;
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return high - low >= 1e-3;
}

/** Error of a lead without three usable seconds in a row. @param {LeadQuality} quality @param {string} name */
function nothingUsable(quality, name) {
  const { fsHz } = quality;
  const problems = REASONS.map((reason) => [reason, quality.spans([reason]).total / fsHz])
    .filter(([, total]) => Number(total) > 0)
    .map(([reason, total]) => `${reason} ${Number(total).toFixed(1)} s`);
  const message = `has no usable ${MIN_DURATION_S} s at a stretch (${problems.join(", ")} of ${(quality.samples / fsHz).toFixed(1)} s)`;
  return new RecordError(name, message, "an ECG", "check the electrode or the lead");
}
