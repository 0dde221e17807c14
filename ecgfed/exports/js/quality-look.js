/**
 * What makes a lead unusable, sample by sample: a whole lead at once, or the last part of one that grows, of which only what
 * new samples can change is computed again (ecgfed/domain/signal/quality.py, docs/quality.md).
 *
 * Every array that a sample or block depends on reaches a fixed number of samples around it; runs and gaps are followed to
 * their start. The methods return the first sample or block that may have changed.
 */

import { bandPass, edgePadded, inner } from "./fir.js";
import { medianFrom, runningMedian } from "./medians.js";
import { rint } from "./numbers.js";
import { LeadSamples, UNIT_BLOCKS, blocksIn } from "./quality-samples.js";

const SPIKE_MV = 2.5;
const SPIKE_TIMES = 5.0;
const SPIKE_MARGIN_S = 0.05;
const SPIKE_RINGS_S = 0.2;
const NOISE_BAND_HZ = [15.0, 40.0];
const NOISE_FILTER_S = 0.25;
const NOISE_MV = 0.02;
const NOISE_SHARE = 0.04;
const NOISE_WINDOW_S = 2.0;
const NOISE_REST_BLOCKS = 3;
const NOISE_REST_SHARE = 0.45;
const HUM_HZ = 42.0;
const HUM_SHARE = 0.5;
const BASELINE_WINDOW_S = 1.0;
const JUMP_S = 0.5;
const JUMP_MV = 1.0;
const HEIGHT_STRETCHES = 5;
const MERGE_S = 1.0;
const BASELINE_BLOCKS = blocksIn(BASELINE_WINDOW_S);
const NOISE_BLOCKS = blocksIn(NOISE_WINDOW_S);
const JUMP_BLOCKS = blocksIn(JUMP_S);

/** Maximum that propagates NaN, as numpy's maximum. @param {number} a @param {number} b */
const nanMax = (a, b) => (Number.isNaN(b) ? NaN : Math.max(a, b));

/** Finds what is wrong with the last samples of a lead. */
export class QualityLook extends LeadSamples {
  /** @param {number} fsHz @param {readonly number[]} atRail @param {number} longest as of `LeadSamples` */
  constructor(fsHz, atRail, longest) {
    super(fsHz, atRail, longest);
    this.noiseTaps = bandPass(Math.floor(Math.trunc(NOISE_FILTER_S * fsHz) / 2) * 2 + 1, NOISE_BAND_HZ[0], NOISE_BAND_HZ[1], fsHz);
  }

  /** Look at the stored samples, as if the lead ended after them. */
  look() {
    const lostFrom = this.findLost();
    const bridgedFrom = this.fill(this.values.bridged, this.masks.lost, lostFrom, this.before.lost);
    const { spikeFrom, heightFrom } = this.findSpikes(bridgedFrom, lostFrom);
    const cleanFrom = this.fill(this.values.clean, this.masks.unlike, spikeFrom.unlike, this.before.unlike);
    const noisyFrom = this.findNoise(cleanFrom, heightFrom);
    const jumpedFrom = this.findJumps(cleanFrom, heightFrom);
    const changed = Math.min(lostFrom, spikeFrom.spike);
    this.spread(this.blockMasks.noisy, Math.min(noisyFrom * this.block, changed), this.masks.noise, true);
    this.spread(this.blockMasks.jumped, Math.min(jumpedFrom * this.block, changed), this.masks.baseline, false);
    this.looked = this.count;
    this.quietest = this.quiet;
  }

  /**
   * Baseline in mV per block: the median over a second.
   * @param {Float64Array} signal
   * @param {number} from first sample that may have changed
   * @param {Float64Array} middle median of each block
   * @param {Float64Array} level
   * @returns {number} the first block whose baseline may have changed
   */
  baseline(signal, from, middle, level) {
    const { block, blockCount } = this;
    const half = block >> 1;
    const first = Math.floor(from / block);
    const values = new Float64Array(block);
    for (let i = first; i < blockCount; i += 1) {
      this.blockOf(signal, i, values).sort();
      middle[i] = block % 2 ? values[half] : (values[half - 1] + values[half]) / 2;
    }
    const changed = medianFrom(first, BASELINE_BLOCKS);
    runningMedian(middle, blockCount, BASELINE_BLOCKS, changed, level);
    return changed;
  }

  /**
   * Find spikes, relative to the height of the beats.
   * @param {number} bridgedFrom first sample of the bridged signal that may have changed
   * @param {number} lostFrom
   */
  findSpikes(bridgedFrom, lostFrom) {
    const { block, count, blocks, masks: { lost, high }, values: { bridged, deviation } } = this;
    const levelFrom = this.baseline(bridged, bridgedFrom, blocks.middle, blocks.level);
    for (let i = levelFrom * block; i < count; i += 1) deviation[i] = Math.abs(bridged[i] - blocks.level[Math.floor(i / block)]);
    const heightFrom = this.beatHeight(levelFrom);
    const highFrom = Math.min(levelFrom * block, lostFrom, heightFrom * block);
    for (let i = highFrom; i < count; i += 1) {
      high[i] = Number(deviation[i] > SPIKE_MV && !lost[i] && deviation[i] > nanMax(SPIKE_MV, SPIKE_TIMES * this.heightOf(Math.floor(i / block))));
    }
    return { spikeFrom: this.ringing(highFrom, lostFrom), heightFrom };
  }

  /** Height of the beats in mV around a block; NaN if the lead is lost for ten seconds. @param {number} block */
  heightOf(block) {
    return this.units.height[Math.floor(block / UNIT_BLOCKS)];
  }

  /** Measure the height of the beats. @param {number} levelFrom @returns {number} the first block around which it has changed */
  beatHeight(levelFrom) {
    const { count, units: { tallest, height }, masks: { lost }, values: { deviation } } = this;
    const unit = UNIT_BLOCKS * this.block;
    const [first, stop] = [Math.floor(levelFrom / UNIT_BLOCKS), Math.ceil(count / unit)];
    for (let at = first; at < stop; at += 1) {
      tallest[at] = -1;
      for (let i = at * unit; i < Math.min((at + 1) * unit, count); i += 1) if (!lost[i] && deviation[i] > tallest[at]) tallest[at] = deviation[i];
    }
    const reach = HEIGHT_STRETCHES >> 1;
    let changed = Math.floor(this.looked / unit);
    for (let at = Math.max(first - reach, 0); at < stop; at += 1) {
      const near = tallest.slice(Math.max(at - reach, 0), Math.min(at + reach + 1, stop)).filter((value) => value >= 0).sort();
      const value = near.length ? (near[(near.length - 1) >> 1] + near[near.length >> 1]) / 2 : NaN;
      if (!Object.is(value, height[at])) changed = Math.min(changed, at);
      height[at] = value;
    }
    return changed * UNIT_BLOCKS;
  }

  /**
   * Extend high samples to spikes, and mark what is lost or a spike.
   * @param {number} highFrom first sample that may have become high, or is no longer
   * @param {number} lostFrom
   * @returns the first samples of both masks that may have changed
   */
  ringing(highFrom, lostFrom) {
    const { count, fsHz, masks: { high, spike, lost, unlike } } = this;
    const [margin, rings] = [rint(SPIKE_MARGIN_S * fsHz), rint(SPIKE_RINGS_S * fsHz)];
    const from = Math.max(highFrom - margin - rings, 0);
    spike.fill(0, from, count);
    const fill = (/** @type {number} */ start, /** @type {number} */ last) => spike.fill(1, Math.max(start - margin, from), Math.min(last + 1 + margin, count));
    let [start, last] = [-1, -1];
    for (let i = Math.max(from - margin - rings, 0); i < count; i += 1) {
      if (!high[i]) continue;
      if (start >= 0 && i - last > rings) {
        fill(start, last);
        start = i;
      } else if (start < 0) start = i;
      last = i;
    }
    if (start >= 0 && last + 1 + margin > from) fill(start, last);
    let changed = this.looked;
    for (let i = Math.min(from, lostFrom); i < count; i += 1) {
      const value = lost[i] | spike[i];
      if (value !== unlike[i] && i < changed) changed = i;
      unlike[i] = value;
    }
    return { spike: from, unlike: changed };
  }

  /**
   * Find blocks with noise, and those that contain only frequencies of `HUM_HZ` and above.
   * @param {number} cleanFrom first sample of the signal without spikes that may have changed
   * @param {number} heightFrom
   * @returns {number} the first block that may have changed
   */
  findNoise(cleanFrom, heightFrom) {
    const { block, count, blockCount, noiseTaps, values: { clean, band }, blockMasks: { noisy } } = this;
    const { power, lowest, between, atRest } = this.blocks;
    const half = noiseTaps.length >> 1;
    const bandFrom = Math.max(cleanFrom - half, 0);
    const part = clean.subarray(Math.max(bandFrom - half, 0), count);
    band.set(inner(edgePadded(part, Math.max(half - bandFrom, 0), half), noiseTaps), bandFrom);
    const [first, values] = [Math.floor(bandFrom / block), new Float64Array(block)];
    for (let i = first; i < blockCount; i += 1) {
      power[i] = Math.sqrt(this.blockOf(band, i, values).reduce((sum, value) => sum + value * value, 0) / block);
    }
    const rest = NOISE_REST_BLOCKS >> 1;
    const lowestFrom = Math.max(first - rest, 0);
    for (let i = lowestFrom; i < blockCount; i += 1) {
      lowest[i] = power[i];
      for (let k = Math.max(i - rest, 0); k < Math.min(i + rest + 1, blockCount); k += 1) lowest[i] = Math.min(lowest[i], power[k]);
    }
    const restFrom = medianFrom(lowestFrom, NOISE_BLOCKS);
    runningMedian(power, blockCount, NOISE_BLOCKS, restFrom, between);
    runningMedian(lowest, blockCount, NOISE_BLOCKS, restFrom, atRest);
    const humming = this.hum(cleanFrom);
    const from = Math.min(restFrom, humming.from, heightFrom);
    for (let i = from; i < blockCount; i += 1) {
      const limit = nanMax(NOISE_MV, NOISE_SHARE * this.heightOf(i));
      noisy[i] = Number((between[i] > limit && atRest[i] > NOISE_REST_SHARE * limit) || humming.at(i));
    }
    return from;
  }

  /** @param {number} cleanFrom @returns {{from: number, at: (block: number) => boolean}} the first block that may have changed; whether a block hums */
  hum(cleanFrom) {
    const { block, blockCount, fsHz, values: { clean } } = this;
    if (fsHz <= 2 * HUM_HZ) return { from: blockCount, at: () => false };
    const { waves, steps, hum, moving } = this.blocks;
    const [first, values] = [Math.floor(cleanFrom / block), new Float64Array(block)];
    for (let i = first; i < blockCount; i += 1) {
      this.blockOf(clean, i, values);
      const mean = values.reduce((sum, value) => sum + value, 0) / block;
      waves[i] = Math.sqrt(values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / block);
      let moved = 0;
      for (let k = 1; k < block; k += 1) moved += (values[k] - values[k - 1]) ** 2;
      steps[i] = Math.sqrt(moved / (block - 1));
    }
    const from = medianFrom(first, NOISE_BLOCKS);
    runningMedian(waves, blockCount, NOISE_BLOCKS, from, hum);
    runningMedian(steps, blockCount, NOISE_BLOCKS, from, moving);
    const ratio = 2 * Math.sin((Math.PI * HUM_HZ) / fsHz);
    return { from, at: (i) => moving[i] > ratio * hum[i] && hum[i] > nanMax(NOISE_MV, HUM_SHARE * this.heightOf(i)) };
  }

  /**
   * Mark half seconds in which the baseline moves much more than in the adjacent half seconds.
   * @param {number} cleanFrom
   * @param {number} heightFrom
   * @returns {number} the first block that may have changed
   */
  findJumps(cleanFrom, heightFrom) {
    const { blockCount, blocks: { cleanMiddle, cleanLevel }, blockMasks: { jumped } } = this;
    const changed = this.baseline(this.values.clean, cleanFrom, cleanMiddle, cleanLevel);
    const step = JUMP_BLOCKS;
    const from = Math.max(Math.min(changed, heightFrom) - 2 * step, 0);
    const at = (/** @type {number} */ i) => cleanLevel[Math.min(Math.max(i, 0), blockCount - 1)];
    const moved = (/** @type {number} */ i) => at(i) - at(i - step); // from block i - step to block i
    jumped.fill(0, from, blockCount);
    for (let i = Math.max(from - step, 0); i < blockCount - step; i += 1) {
      const [centre, around] = [moved(i + step), (moved(i) + moved(i + 2 * step)) / 2];
      if (Math.abs(centre - around) > nanMax(JUMP_MV, this.heightOf(i + step))) jumped.fill(1, Math.max(i, from), i + step + 1);
    }
    return from;
  }

  /**
   * Mark the samples of blocks, and up to a second between them, except lost ones.
   * @param {Uint8Array} blocks
   * @param {number} changed first sample that may have changed
   * @param {Uint8Array} out
   * @param {boolean} exceptSpikes whether spikes are not marked either
   */
  spread(blocks, changed, out, exceptSpikes) {
    const { block, count, masks: { lost, spike } } = this;
    const gap = rint(MERGE_S * this.fsHz);
    const from = Math.max(changed - gap, 0);
    out.fill(0, from, count);
    let last = -1;
    for (let i = Math.max(from - gap, 0); i < count; i += 1) {
      const at = Math.floor(i / block);
      if (!blocks[at]) i = (at + 1) * block - 1;
      else if (!lost[i] && !(exceptSpikes && spike[i])) {
        out.fill(1, Math.max(last >= 0 && i - last <= gap ? last : i, from), i + 1);
        last = i;
      }
    }
    for (let i = from; i < count; i += 1) if (lost[i]) out[i] = 0;
  }
}
