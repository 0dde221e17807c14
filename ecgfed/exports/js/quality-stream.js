/**
 * Quality of a lead during recording: the result for the whole recording, seconds later.
 *
 * A result is final once later samples cannot change it; what follows is as if the recording ended now. A stream does not
 * know its extremes, so saturation is detected only with the limits of the converter.
 */

import { bridgeSamples } from "./filters.js";
import { runs } from "./numbers.js";
import { QualityLook } from "./quality-look.js";
import { ALONE, REASONS } from "./quality-reasons.js";
import { FLAT_S, blockSamples, unitSamples } from "./quality-samples.js";
import { Spans } from "./spans.js";

/** @typedef {import("./filters.js").Neighbour} Neighbour */
/** @typedef {import("./quality.js").Stretch} Stretch */

const BASELINE_BLOCKS = 20;
const SPIKE_REACHES_S = 0.25;
/** Look-ahead of noise and jumps: medians over one and two seconds, half seconds, and closed pauses. */
const NOISE_AHEAD_S = 2.8;
/** Number of two-second segments before the decided samples that are stored. */
const UNITS_BEFORE = 8;
/** Number of segments on each side whose height of the beats is used for a segment. */
const AROUND = 2;

/** Runs of true values; most parts of a mask have none. @param {Uint8Array} mask */
const marked = (mask) => (mask.includes(1) ? runs(mask) : []);

/** Finds the bad segments of a lead during recording. */
export class QualityStream {
  /** @param {number} fsHz @param {readonly number[]} rails */
  constructor(fsHz, rails) {
    this.fsHz = fsHz;
    this.longest = bridgeSamples(fsHz);
    this.lead = new QualityLook(fsHz, rails, this.longest);
    this.decided = 0;
    /** @type {Record<string, [number, number][]>} */
    this.known = Object.fromEntries(REASONS.map((reason) => [reason, []]));
    /** @type {Record<string, [number, number][]>} */
    this.ahead = Object.fromEntries(REASONS.map((reason) => [reason, []]));
    /** Spans by their reasons, until the segments change. @type {Map<readonly string[], Spans>} */
    this.cached = new Map();
  }

  /** Add the next samples in millivolt, NaN if missing. @param {Float64Array} samples */
  append(samples) {
    this.lead.append(samples);
  }

  /** Samples around one, NaN where none is stored or was recorded. @param {number} at @param {number} before @param {number} after */
  around(at, before, after) {
    const { start, count, masks, values } = this.lead;
    return Float64Array.from({ length: before + 1 + after }, (_, i) => {
      const index = at - before + i - start;
      return index < 0 || index >= count || masks.missing[index] ? NaN : values.limited[index];
    });
  }

  /** Bad segments of the lead; undecided samples are evaluated as if the recording ended here. @param {readonly string[]} reasons */
  spans(reasons = REASONS) {
    const known = this.cached.get(reasons) ?? new Spans(reasons.flatMap((reason) => [...this.known[reason], ...this.ahead[reason]]));
    this.cached.set(reasons, known);
    return known;
  }

  /** Reasons for which a part of the lead is bad. @param {number} start @param {number} stop */
  reasonsIn(start, stop) {
    return REASONS.filter((reason) => this.spans(ALONE[reason]).overlap(start, stop));
  }

  /** Final segments in order of time. @returns {Stretch[]} */
  get stretches() {
    const stretches = REASONS.flatMap((reason) => this.known[reason].map(([start, stop]) => ({ start, stop, reason })));
    return stretches.sort((a, b) => a.start - b.start || a.stop - b.stop);
  }

  /** Drop segments that end before a sample. @param {number} before */
  forget(before) {
    for (const reason of REASONS) if (this.known[reason][0]?.[1] < before) this.known[reason] = this.known[reason].filter((edge) => edge[1] >= before);
  }

  /** Evaluate the samples received; `ended` at the end of the recording. @param {boolean} ended */
  look(ended) {
    const { fsHz, lead, longest } = this;
    if (!lead.count) return;
    lead.look();
    const { lost, unlike } = lead.masks;
    let sure = lead.start + lead.count;
    if (!ended) {
      sure = Math.max(sure - Math.ceil(FLAT_S * fsHz), lead.start);
      sure = this.bridgedUntil(lost, sure, longest, lead.before.lost);
      sure = Math.max(this.spikesUntil(sure), lead.start);
      sure = this.bridgedUntil(unlike, sure, longest, lead.before.unlike) - Math.ceil(NOISE_AHEAD_S * fsHz);
    }
    this.note(Math.max(sure, this.decided));
    this.cached.clear();
    const unit = unitSamples(fsHz);
    const past = (Math.floor(this.decided / unit) - UNITS_BEFORE) * unit - lead.start;
    if (past > 0) lead.drop(past);
  }

  /** Until where spikes and the height of the beats are decided. @param {number} sure */
  spikesUntil(sure) {
    const [block, unit] = [blockSamples(this.fsHz), unitSamples(this.fsHz)];
    const blocks = Math.floor((sure - this.lead.start) / block) - (Math.floor(BASELINE_BLOCKS / 2) + 1);
    const heights = Math.floor(blocks / (unit / block)) - AROUND;
    return this.lead.start + heights * unit - Math.ceil(SPIKE_REACHES_S * this.fsHz) - 2;
  }

  /**
   * Return the end of the final interpolated signal, given that missing samples are final up to `sure`: an open gap that
   * may still be short is not final.
   * @param {Uint8Array} missing
   * @param {number} sure
   * @param {number} longest
   * @param {Neighbour} before
   */
  bridgedUntil(missing, sure, longest, before) {
    const first = this.lead.start;
    const part = missing.subarray(0, Math.max(sure - first, 0));
    if (!part.length || !part[part.length - 1]) return sure;
    const valid = part.lastIndexOf(0);
    const begin = valid >= 0 ? first + valid + 1 : before ? before.at + 1 : 0;
    return sure - begin > longest ? sure - Math.floor(longest / 2) : Math.max(begin, first);
  }

  /** Store the segments that are final up to `sure`, and the provisional ones after it. @param {number} sure */
  note(sure) {
    const { lead, decided } = this;
    const masks = { ...lead.masks, gap: lead.masks.missing };
    for (const reason of REASONS) {
      const mask = masks[/** @type {keyof typeof masks} */ (reason)];
      const known = this.known[reason];
      for (const [start, stop] of marked(mask.subarray(decided - lead.start, sure - lead.start))) {
        const last = known[known.length - 1];
        if (last && last[1] === start + decided) last[1] = stop + decided;
        else known.push([start + decided, stop + decided]);
      }
      this.ahead[reason] = marked(mask.subarray(sure - lead.start, lead.count)).map(([start, stop]) => [sure + start, sure + stop]);
    }
    this.decided = sure;
  }
}
