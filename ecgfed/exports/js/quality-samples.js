/** The last samples of a lead: those that are lost, and signals without them (`quality-look.js`). */

import { bridge } from "./filters.js";
import { rint } from "./numbers.js";

export const FLAT_S = 1.0;
const FLAT_MV = 0.01;
const RAIL_S = 0.02;
const RAIL_SAMPLES = 4;
const BLOCK_S = 0.05;
const HEIGHT_S = 2.0;
const LIMIT_MV = 1e4;

/** @typedef {import("./filters.js").Neighbour} Neighbour */

/** Clip a value to the valid range, 10 V. @param {number} value millivolt */
export const limited = (value) => Math.min(Math.max(value, -LIMIT_MV), LIMIT_MV);

/** Number of blocks of a duration. @param {number} seconds */
export const blocksIn = (seconds) => Math.max(1, rint(seconds / BLOCK_S));

/** Number of blocks over which the height of the beats is measured. */
export const UNIT_BLOCKS = blocksIn(HEIGHT_S);

/** Return the number of samples of a block. @param {number} fsHz */
export function blockSamples(fsHz) {
  return Math.max(1, rint(BLOCK_S * fsHz));
}

/** Return the number of samples over which the height of the beats is measured. @param {number} fsHz */
export function unitSamples(fsHz) {
  return blockSamples(fsHz) * UNIT_BLOCKS;
}

/** The first sample of a run of true values that reaches a place, or the place. @param {Uint8Array} mask @param {number} at */
function runStart(mask, at) {
  let start = at;
  while (start > 0 && mask[start - 1]) start -= 1;
  return start;
}

/**
 * Mark the runs of true values that are long enough.
 * @param {Uint8Array} mask
 * @param {number} from start of a run, or outside of any
 * @param {number} to
 * @param {number} samples
 * @param {Uint8Array} out marked from `from` on, in addition to what is marked
 */
function markLong(mask, from, to, samples, out) {
  for (let i = from; i < to; i += 1) {
    const start = i;
    while (i < to && mask[i]) i += 1;
    if (i > start && i - start >= samples) out.fill(1, start, i);
  }
}

/** What is stored of each sample, of each block, and of each two seconds. */
const MASKS = ["missing", "rail", "still", "dead", "flat", "lost", "high", "spike", "unlike", "noise", "baseline", "scratch"];
const SAMPLES = ["limited", "bridged", "deviation", "clean", "band"];
const UNITS = ["tallest", "height"];
const BLOCKS = ["middle", "level", "power", "lowest", "between", "atRest", "waves", "steps", "hum", "moving", "cleanMiddle", "cleanLevel"];
const BLOCK_MASKS = ["noisy", "jumped"];

/** Stores the last samples of a lead, and what is computed of them. */
export class LeadSamples {
  /**
   * @param {number} fsHz
   * @param {readonly number[]} atRail values that are the recorder's limits
   * @param {number} longest gap that is bridged by a straight line, in samples
   */
  constructor(fsHz, atRail, longest) {
    this.fsHz = fsHz;
    this.atRail = atRail;
    this.longest = longest;
    this.block = blockSamples(fsHz);
    this.flatWidth = Math.ceil(FLAT_S * fsHz);
    this.start = 0; // number of the first stored sample, a multiple of unitSamples
    this.count = 0; // number of stored samples
    this.looked = 0; // number of them at the last look
    this.quiet = 0; // length of the last run of samples that hardly differ, and of the longest one since the last look
    this.quietest = 0;
    this.capacity = 0;
    /** @type {Record<string, Uint8Array>} */
    this.masks = {};
    /** @type {Record<string, Float64Array>} */
    this.values = {};
    /** @type {Record<string, Float64Array>} */
    this.blocks = {};
    /** @type {Record<string, Float64Array>} */
    this.units = {};
    /** @type {Record<string, Uint8Array>} */
    this.blockMasks = {};
    /** What is bridged from before the first stored sample: not lost; no spike either. @type {{lost: Neighbour, unlike: Neighbour}} */
    this.before = { lost: null, unlike: null };
    this.grow(2 * unitSamples(fsHz));
  }

  /** @param {number} capacity number of samples */
  grow(capacity) {
    this.capacity = capacity;
    const blocks = Math.ceil(capacity / this.block) + 1;
    for (const [kept, names, length] of /** @type {const} */ ([[this.masks, MASKS, capacity], [this.blockMasks, BLOCK_MASKS, blocks]])) {
      for (const name of names) kept[name] = enlarged(kept[name] ?? new Uint8Array(0), new Uint8Array(length));
    }
    for (const [kept, names, length] of /** @type {const} */ ([[this.values, SAMPLES, capacity], [this.blocks, BLOCKS, blocks], [this.units, UNITS, blocks]])) {
      for (const name of names) kept[name] = enlarged(kept[name] ?? new Float64Array(0), new Float64Array(length));
    }
  }

  /** Add the next samples in millivolt, NaN if missing. @param {Float64Array} recorded */
  append(recorded) {
    if (this.count + recorded.length > this.capacity) this.grow(2 * (this.count + recorded.length));
    const { limited: kept } = this.values;
    const { missing } = this.masks;
    for (let i = 0, at = this.count; i < recorded.length; i += 1, at += 1) {
      missing[at] = Number(!Number.isFinite(recorded[i]));
      kept[at] = missing[at] ? 0 : limited(recorded[i]);
      const isQuiet = !missing[at] && at > 0 && !missing[at - 1] && Math.abs(kept[at] - kept[at - 1]) <= FLAT_MV;
      this.quiet = isQuiet ? this.quiet + 1 : Number(!missing[at]);
      this.quietest = Math.max(this.quietest, this.quiet);
    }
    this.count += recorded.length;
  }

  /** Drop the first samples. @param {number} samples a multiple of unitSamples, no more than were looked at */
  drop(samples) {
    const { lost, unlike } = this.masks;
    this.before.lost = this.lastValid(lost, samples, this.before.lost);
    this.before.unlike = this.lastValid(unlike, samples, this.before.unlike);
    for (const kept of [...Object.values(this.masks), ...Object.values(this.values)]) kept.copyWithin(0, samples, this.count);
    const blocks = samples / this.block;
    for (const kept of [...Object.values(this.blocks), ...Object.values(this.blockMasks)]) kept.copyWithin(0, blocks);
    for (const kept of Object.values(this.units)) kept.copyWithin(0, blocks / UNIT_BLOCKS);
    this.start += samples;
    this.count -= samples;
    this.looked -= samples;
  }

  /** @param {Uint8Array} mask @param {number} samples @param {Neighbour} before @returns {Neighbour} */
  lastValid(mask, samples, before) {
    const at = mask.subarray(0, samples).lastIndexOf(0);
    return at < 0 ? before : { at: this.start + at, value: this.values.limited[at] };
  }

  /** The neighbour that a part is bridged from. @param {number} from @param {Neighbour} before @returns {Neighbour} */
  neighbour(from, before) {
    if (from > 0) return { at: from - 1, value: this.values.limited[from - 1] };
    return before && { at: before.at - this.start, value: before.value };
  }

  /** Find rails and flat lines. @returns {number} the first sample that may have been lost, or found again */
  findLost() {
    const { count, masks, values: { limited: kept } } = this;
    const { missing, rail, still, dead, flat, lost, scratch } = masks;
    let from = Math.min(this.looked, this.findStill());
    for (const extreme of this.atRail) while (from > 0 && kept[from - 1] === extreme && !missing[from - 1]) from -= 1;
    rail.fill(0, from, count);
    for (const extreme of this.atRail) {
      for (let i = from; i < count; i += 1) scratch[i] = Number(kept[i] === extreme && !missing[i]);
      markLong(scratch, from, count, Math.max(RAIL_SAMPLES, RAIL_S * this.fsHz), rail);
    }
    for (let i = from; i < count; i += 1) {
      dead[i] = Number(still[i] && !rail[i]);
      lost[i] = missing[i] | rail[i] | dead[i];
    }
    const start = runStart(dead, from);
    flat.fill(0, start, count);
    markLong(dead, start, count, FLAT_S * this.fsHz, flat);
    return from;
  }

  /** Mark all samples of seconds whose range is at most 10 microvolt. @returns {number} the first one newly marked */
  findStill() {
    const { count, flatWidth: width, values: { limited: kept }, masks: { missing, still } } = this;
    still.fill(0, this.looked, count);
    if (this.quietest < width) return count;
    let [run, newly] = [0, count];
    for (let stop = Math.max(this.looked - 2 * width, 0) + 1, marked = this.looked - width; stop <= count; stop += 1) {
      run = missing[stop - 1] ? 0 : stop > 1 && Math.abs(kept[stop - 1] - kept[stop - 2]) <= FLAT_MV ? run + 1 : 1;
      if (run < width || stop <= this.looked) continue;
      let [low, high] = [Infinity, -Infinity];
      for (let i = stop - width; i < stop; i += 1) {
        low = Math.min(low, kept[i]);
        high = Math.max(high, kept[i]);
      }
      if (!(high - low <= FLAT_MV)) continue;
      for (let i = Math.max(stop - width, marked, 0); i < stop; i += 1) {
        if (!still[i]) newly = Math.min(newly, i);
        still[i] = 1;
      }
      marked = stop;
    }
    return newly;
  }

  /**
   * Bridge samples by straight lines.
   * @param {Float64Array} out
   * @param {Uint8Array} mask the samples to bridge
   * @param {number} changed first sample that may have come into the mask, or out of it
   * @param {Neighbour} before
   * @returns {number} the first sample that may have changed
   */
  fill(out, mask, changed, before) {
    const { count, values } = this;
    const from = runStart(mask, Math.min(changed, this.looked));
    out.set(values.limited.subarray(from, count), from);
    bridge(out, mask, from, count, this.longest, this.neighbour(from, before));
    return from;
  }

  /** Number of blocks; the last one may be incomplete. */
  get blockCount() {
    return Math.ceil(this.count / this.block);
  }

  /** Put a block's samples, the last one continued to its end, into `into`. @param {Float64Array} signal @param {number} i @param {Float64Array} into */
  blockOf(signal, i, into) {
    const { block, count } = this;
    into.set(signal.subarray(i * block, Math.min((i + 1) * block, count)));
    if ((i + 1) * block > count) into.fill(signal[count - 1], count - i * block);
    return into;
  }
}

/** @template {Uint8Array | Float64Array} T @param {T} kept @param {T} larger @returns {T} */
function enlarged(kept, larger) {
  larger.set(kept);
  return larger;
}
