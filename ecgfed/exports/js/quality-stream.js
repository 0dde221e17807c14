/**
 * Quality of a lead during recording: the result of `leadQuality` for the whole recording, seconds later.
 *
 * The last half minute is evaluated every second by the functions for whole leads. A result is final once later samples
 * cannot change it. A stream does not know its extremes, so saturation is detected only with the limits of the
 * converter.
 */

import { bridgeSamples, fillGaps } from "./filters.js";
import { runs } from "./numbers.js";
import { REASONS, blockSamples, firstLook, noiseAndJumps, spikesOf, unitSamples } from "./quality.js";
import { Spans } from "./spans.js";

/** @typedef {import("./samples.js").Samples} Samples */
/** @typedef {{at: number, value: number} | null} Neighbour with the number of a sample of the stream */

const FLAT_S = 1.0;
const BASELINE_BLOCKS = 20;
const SPIKE_REACHES_S = 0.25;
/** Look-ahead of noise and jumps: medians over one and two seconds, half seconds, and closed pauses. */
const NOISE_AHEAD_S = 2.8;
/** Number of two-second segments before the decided samples that are evaluated with them. */
const UNITS_BEFORE = 8;
/** Number of segments on each side whose height of the beats is used for a segment. */
const AROUND = 2;

/** @param {Float64Array} values @param {Uint8Array} missing @param {number} first @param {Neighbour} before @returns {Neighbour} */
function lastValid(values, missing, first, before) {
  const at = missing.lastIndexOf(0);
  return at < 0 ? before : { at: first + at, value: values[at] };
}

/** Finds the bad segments of a lead during recording. */
export class QualityStream {
  /** @param {Samples} samples the lead; more are appended to it from outside @param {number} fsHz @param {number[]} rails */
  constructor(samples, fsHz, rails) {
    this.samples = samples;
    this.fsHz = fsHz;
    this.rails = rails;
    this.decided = 0;
    this.needed = 0; // the first sample of the next evaluation
    /** @type {Record<string, [number, number][]>} */
    this.known = Object.fromEntries(REASONS.map((reason) => [reason, []]));
    /** @type {Record<string, [number, number][]>} */
    this.ahead = Object.fromEntries(REASONS.map((reason) => [reason, []]));
    /** What is bridged from: not lost; no spike either. @type {{lost: Neighbour, unlike: Neighbour}} */
    this.before = { lost: null, unlike: null };
  }

  /** Bad segments of the lead; undecided samples are evaluated as if the recording ended here. @param {readonly string[]} reasons */
  spans(reasons = REASONS) {
    return new Spans(reasons.flatMap((reason) => [...this.known[reason], ...this.ahead[reason]]));
  }

  /** Drop segments that end before a sample. @param {number} before */
  forget(before) {
    for (const reason of REASONS) this.known[reason] = this.known[reason].filter((edge) => edge[1] >= before);
  }

  /** @param {Neighbour} before @param {number} first */
  static beside(before, first) {
    return before && { at: before.at - first, value: before.value };
  }

  /** Evaluate the samples received; `ended` at the end of the recording. @param {boolean} ended */
  look(ended) {
    const { fsHz, samples } = this;
    const [first, stop, longest] = [this.needed, samples.stop, bridgeSamples(fsHz)];
    if (stop <= first) return;
    const look = firstLook(samples.part(first, stop).slice(), fsHz, this.rails);
    /** @type {Record<string, Uint8Array>} */
    const masks = { ...look.masks };
    const { lost } = look;
    const valid = lost.includes(0);
    let spike = new Uint8Array(lost.length);
    let sure = ended ? stop : Math.max(stop - Math.ceil(FLAT_S * fsHz), first);
    if (!ended) {
      sure = this.bridgedUntil(lost, sure, longest, first, this.before.lost);
      sure = Math.max(this.spikesUntil(sure, first), first);
    }
    if (valid) {
      const spikes = spikesOf(fillGaps(look.signal, longest, lost, QualityStream.beside(this.before.lost, first)), lost, fsHz);
      spike = spikes.spike;
      const unlike = lost.map((isLost, i) => isLost | spike[i]);
      const signal = fillGaps(look.signal, longest, unlike, QualityStream.beside(this.before.unlike, first));
      Object.assign(masks, { spike, ...noiseAndJumps(signal, lost, spike, spikes.height, fsHz) });
    }
    const unlike = lost.map((isLost, i) => isLost | spike[i]);
    if (!ended) sure = this.bridgedUntil(unlike, sure, longest, first, this.before.unlike) - Math.ceil(NOISE_AHEAD_S * fsHz);
    this.note(masks, first, Math.max(sure, this.decided));
    this.move(look.signal, lost, unlike);
  }

  /** Until where spikes and the height of the beats are decided. @param {number} sure @param {number} first */
  spikesUntil(sure, first) {
    const [block, unit] = [blockSamples(this.fsHz), unitSamples(this.fsHz)];
    const blocks = Math.floor((sure - first) / block) - (Math.floor(BASELINE_BLOCKS / 2) + 1);
    const heights = Math.floor(blocks / (unit / block)) - AROUND;
    return first + heights * unit - Math.ceil(SPIKE_REACHES_S * this.fsHz) - 2;
  }

  /**
   * Return the end of the final interpolated signal, given that missing samples are final up to `sure`: an open gap that
   * may still be short is not final.
   * @param {Uint8Array} missing
   * @param {number} sure
   * @param {number} longest
   * @param {number} first
   * @param {Neighbour} before
   */
  bridgedUntil(missing, sure, longest, first, before) {
    const part = missing.subarray(0, Math.max(sure - first, 0));
    if (!part.length || !part[part.length - 1]) return sure;
    const valid = part.lastIndexOf(0);
    const begin = valid >= 0 ? first + valid + 1 : before ? before.at + 1 : 0;
    return sure - begin > longest ? sure - Math.floor(longest / 2) : Math.max(begin, first);
  }

  /**
   * Store the segments that are final up to `sure`, and the provisional ones after it.
   * @param {Record<string, Uint8Array>} masks
   * @param {number} first
   * @param {number} sure
   */
  note(masks, first, sure) {
    for (const reason of REASONS) {
      this.ahead[reason] = [];
      const mask = masks[reason];
      if (mask === undefined) continue;
      const known = this.known[reason];
      for (const [start, stop] of runs(mask.subarray(this.decided - first, sure - first))) {
        const last = known[known.length - 1];
        if (last && last[1] === start + this.decided) last[1] = stop + this.decided;
        else known.push([start + this.decided, stop + this.decided]);
      }
      this.ahead[reason] = runs(mask.subarray(sure - first)).map(([start, stop]) => [sure + start, sure + stop]);
    }
    this.decided = sure;
  }

  /**
   * Choose the start of the next evaluation, early enough that its result does not depend on earlier samples.
   * @param {Float64Array} signal
   * @param {Uint8Array} lost
   * @param {Uint8Array} unlike
   */
  move(signal, lost, unlike) {
    const [unit, first] = [unitSamples(this.fsHz), this.needed];
    const begin = Math.max((Math.floor(this.decided / unit) - UNITS_BEFORE) * unit, first);
    const past = begin - first;
    if (past <= 0) return;
    this.before.lost = lastValid(signal, lost.subarray(0, past), first, this.before.lost);
    this.before.unlike = lastValid(signal, unlike.subarray(0, past), first, this.before.unlike);
    this.needed = begin;
  }
}
