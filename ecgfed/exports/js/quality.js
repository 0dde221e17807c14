/**
 * Unusable segments of a lead and their reasons: gaps, flat line, saturation, spikes, noise, baseline jumps
 * (ecgfed/domain/signal/quality.py, docs/quality.md).
 */

import { bridgeSamples, fillGaps } from "./filters.js";
import { bandPass, convolved } from "./fir.js";
import { runningMedian } from "./medians.js";
import { rint, runs } from "./numbers.js";
import { Spans } from "./spans.js";

/** Every reason, in Python's order. */
export const REASONS = Object.freeze(["gap", "flat", "rail", "spike", "noise", "baseline"]);
/** Reasons without any signal to detect beats in. */
export const NO_SIGNAL = Object.freeze(["gap", "flat", "rail", "spike"]);
const FLAT_S = 1.0;
const FLAT_MV = 0.01;
export const RAIL_S = 0.02;
export const RAIL_SAMPLES = 4;
const RAIL_FROM_REST_MV = 1.0;
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
export const HEIGHT_S = 2.0;
const HEIGHT_STRETCHES = 5;
const MERGE_S = 1.0;
export const BLOCK_S = 0.05;
/** Maximum distance of samples that affect a decision. */
export const FIRST_REACH_S = 4.0;
export const SPIKE_REACH_S = 10.0;
export const NOISE_REACH_S = 10.0;
const LIMIT_MV = 1e4;

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

/** Return the number of samples of a block. @param {number} fsHz */
export function blockSamples(fsHz) {
  return Math.max(1, rint(BLOCK_S * fsHz));
}

/** Return the number of samples over which the height of the beats is measured. @param {number} fsHz */
export function unitSamples(fsHz) {
  return blockSamples(fsHz) * rint(HEIGHT_S / BLOCK_S);
}

/** Clip a value to the valid range, 10 V. @param {number} value millivolt */
export const limited = (value) => Math.min(Math.max(value, -LIMIT_MV), LIMIT_MV);

/** Remove runs that are too short. @param {Uint8Array} mask @param {number} samples */
function longEnough(mask, samples) {
  const out = new Uint8Array(mask.length);
  for (const [start, stop] of runs(mask)) if (stop - start >= samples) out.fill(1, start, stop);
  return out;
}

/** Fill gaps of at most `gap` samples between true values. @param {Uint8Array} mask @param {number} gap */
function closed(mask, gap) {
  const out = mask.slice();
  let last = -1;
  for (let i = 0; i < mask.length; i += 1) {
    if (!mask[i]) continue;
    if (last >= 0 && i - last <= gap) out.fill(1, last, i);
    last = i;
  }
  return out;
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
 * Find gaps, saturation and flat lines.
 * @param {Float64Array} recorded (samples,) millivolt, NaN if missing
 * @param {number} fsHz
 * @param {number[]} atRail values that are the recorder's limits
 */
export function firstLook(recorded, fsHz, atRail) {
  const missing = Uint8Array.from(recorded, (value) => (Number.isFinite(value) ? 0 : 1));
  const signal = fillGaps(recorded, Infinity).map(limited);
  const rail = new Uint8Array(signal.length);
  for (const extreme of atRail) {
    const atExtreme = Uint8Array.from(signal, (value, i) => (value === extreme && !missing[i] ? 1 : 0));
    const stays = longEnough(atExtreme, Math.max(RAIL_SAMPLES, RAIL_S * fsHz));
    for (let i = 0; i < rail.length; i += 1) rail[i] |= stays[i];
  }
  const flat = flatOf(signal, missing, fsHz).map((isFlat, i) => (isFlat && !rail[i] ? 1 : 0));
  const lost = missing.map((isMissing, i) => isMissing | rail[i] | flat[i]);
  return { signal, lost, masks: { gap: missing, rail, flat: longEnough(flat, FLAT_S * fsHz) } };
}

/**
 * Mark all samples of seconds whose range is at most 10 microvolt.
 * @param {Float64Array} signal
 * @param {Uint8Array} missing
 * @param {number} fsHz
 */
function flatOf(signal, missing, fsHz) {
  const width = Math.ceil(FLAT_S * fsHz);
  const out = new Uint8Array(signal.length);
  const [lowest, highest] = [slidingExtreme(signal, width, -1), slidingExtreme(signal, width, 1)];
  let [gaps, end] = [0, 0];
  for (let i = 0; i < Math.min(width - 1, missing.length); i += 1) gaps += missing[i];
  for (let i = 0; i + width <= signal.length; i += 1) {
    gaps += missing[i + width - 1];
    if (highest[i] - lowest[i] <= FLAT_MV && gaps === 0) {
      out.fill(1, Math.max(i, end), i + width);
      end = i + width;
    }
    gaps -= missing[i];
  }
  return out;
}

/**
 * Return the highest (sign 1) or lowest (-1) of every `width` samples in a row.
 * @param {Float64Array} signal
 * @param {number} width
 * @param {1 | -1} sign
 */
function slidingExtreme(signal, width, sign) {
  const out = new Float64Array(Math.max(signal.length - width + 1, 0));
  const queue = new Int32Array(signal.length);
  let [first, last] = [0, 0];
  for (let i = 0; i < signal.length; i += 1) {
    while (last > first && sign * signal[queue[last - 1]] <= sign * signal[i]) last -= 1;
    queue[last++] = i;
    if (queue[first] <= i - width) first += 1;
    if (i >= width - 1) out[i - width + 1] = signal[queue[first]];
  }
  return out;
}

/** Split a signal into blocks, the last one padded with its last value. @param {Float64Array} values @param {number} block */
function filledUp(values, block) {
  const out = new Float64Array(Math.ceil(values.length / block) * block);
  out.set(values);
  if (values.length) out.fill(values[values.length - 1], values.length);
  return out;
}

/** Number of blocks of a duration. @param {number} seconds */
const blocksIn = (seconds) => Math.max(1, rint(seconds / BLOCK_S));

/**
 * Baseline in mV per block: the median over a second.
 * @param {Float64Array} signal
 * @param {number} block
 */
function baselineOf(signal, block) {
  const cut = filledUp(signal, block);
  const medians = new Float64Array(cut.length / block);
  for (let i = 0; i < medians.length; i += 1) {
    const mine = cut.slice(i * block, (i + 1) * block).sort();
    const half = block >> 1;
    medians[i] = block % 2 ? mine[half] : (mine[half - 1] + mine[half]) / 2;
  }
  return runningMedian(medians, blocksIn(BASELINE_WINDOW_S));
}

/**
 * Height of the beats in mV per block; NaN if the signal is lost for ten seconds.
 * @param {Float64Array} deviation
 * @param {Uint8Array} lost
 * @param {number} block
 */
function beatHeight(deviation, lost, block) {
  const count = Math.ceil(deviation.length / block);
  const blockCount = blocksIn(HEIGHT_S);
  const tallest = new Float64Array(Math.ceil(count / blockCount)).fill(-1);
  for (let i = 0; i < deviation.length; i += 1) {
    const at = Math.floor(Math.floor(i / block) / blockCount);
    if (!lost[i] && deviation[i] > tallest[at]) tallest[at] = deviation[i];
  }
  const reach = HEIGHT_STRETCHES >> 1;
  const height = Float64Array.from(tallest, (_, i) => {
    const near = tallest.slice(Math.max(i - reach, 0), i + reach + 1).filter((value) => value >= 0).sort();
    return near.length ? (near[(near.length - 1) >> 1] + near[near.length >> 1]) / 2 : NaN;
  });
  return Float64Array.from({ length: count }, (_, i) => height[Math.floor(i / blockCount)]);
}

/** Maximum that propagates NaN, as numpy's maximum. @param {number} a @param {number} b */
const nanMax = (a, b) => (Number.isNaN(b) ? NaN : Math.max(a, b));

/**
 * Measure the height of the beats and find spikes relative to it.
 * @param {Float64Array} signal linearly interpolated where it is lost
 * @param {Uint8Array} lost
 * @param {number} fsHz
 */
export function spikesOf(signal, lost, fsHz) {
  const block = blockSamples(fsHz);
  const baseline = baselineOf(signal, block);
  const deviation = signal.map((value, i) => Math.abs(value - baseline[Math.floor(i / block)]));
  const height = beatHeight(deviation, lost, block);
  const high = Uint8Array.from(deviation, (value, i) => {
    const limit = nanMax(SPIKE_MV, SPIKE_TIMES * height[Math.floor(i / block)]);
    return value > SPIKE_MV && !lost[i] && value > limit ? 1 : 0;
  });
  const spike = new Uint8Array(high.length);
  const margin = rint(SPIKE_MARGIN_S * fsHz);
  for (const [start, stop] of runs(closed(high, rint(SPIKE_RINGS_S * fsHz)))) {
    spike.fill(1, Math.max(start - margin, 0), stop + margin);
  }
  return { height, spike };
}

/** @param {number} fsHz */
function noiseTaps(fsHz) {
  return bandPass(Math.floor(Math.trunc(NOISE_FILTER_S * fsHz) / 2) * 2 + 1, NOISE_BAND_HZ[0], NOISE_BAND_HZ[1], fsHz);
}

/**
 * Find noise and jumps of the baseline.
 * @param {Float64Array} signal linearly interpolated where it is lost and in spikes
 * @param {Uint8Array} lost
 * @param {Uint8Array} spike
 * @param {Float64Array} height of the beats, from `spikesOf`
 * @param {number} fsHz
 */
export function noiseAndJumps(signal, lost, spike, height, fsHz) {
  const block = blockSamples(fsHz);
  const band = filledUp(convolved(signal, noiseTaps(fsHz)), block);
  const power = Float64Array.from(height, (_, i) => {
    let sum = 0;
    for (let k = i * block; k < (i + 1) * block; k += 1) sum += band[k] * band[k];
    return Math.sqrt(sum / block);
  });
  const between = runningMedian(power, blocksIn(NOISE_WINDOW_S));
  const half = NOISE_REST_BLOCKS >> 1;
  const lowest = power.map((value, i) => Math.min(value, ...power.subarray(Math.max(i - half, 0), i + half + 1)));
  const atRest = runningMedian(lowest, blocksIn(NOISE_WINDOW_S));
  const hum = humOf(signal, height, block, fsHz);
  const noisy = Uint8Array.from(between, (value, i) => {
    const limit = nanMax(NOISE_MV, NOISE_SHARE * height[i]);
    return (value > limit && atRest[i] > NOISE_REST_SHARE * limit) || hum[i] ? 1 : 0;
  });
  const jumped = jumpsOf(baselineOf(signal, block), height);
  const gap = rint(MERGE_S * fsHz);
  const spread = (/** @type {Uint8Array} */ mask, /** @type {boolean} */ spikes) =>
    lost.map((isSet, i) => (mask[Math.floor(i / block)] && !isSet && !(spikes && spike[i]) ? 1 : 0));
  const open = (/** @type {Uint8Array} */ mask) => closed(mask, gap).map((isSet, i) => (isSet && !lost[i] ? 1 : 0));
  return { noise: open(spread(noisy, true)), baseline: open(spread(jumped, false)) };
}

/**
 * Mark the blocks that contain only frequencies of `HUM_HZ` and above.
 * @param {Float64Array} signal
 * @param {Float64Array} height of the beats, from `spikesOf`
 * @param {number} block
 * @param {number} fsHz
 */
function humOf(signal, height, block, fsHz) {
  if (fsHz <= 2 * HUM_HZ) return new Uint8Array(height.length);
  const cut = filledUp(signal, block);
  const [waves, steps] = [new Float64Array(height.length), new Float64Array(height.length)];
  for (let i = 0; i < height.length; i += 1) {
    const values = cut.subarray(i * block, (i + 1) * block);
    const mean = values.reduce((sum, value) => sum + value, 0) / block;
    waves[i] = Math.sqrt(values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / block);
    const moved = values.subarray(1).reduce((sum, value, k) => sum + (value - values[k]) ** 2, 0);
    steps[i] = Math.sqrt(moved / (block - 1));
  }
  const level = runningMedian(waves, blocksIn(NOISE_WINDOW_S));
  const moving = runningMedian(steps, blocksIn(NOISE_WINDOW_S));
  const ratio = 2 * Math.sin((Math.PI * HUM_HZ) / fsHz);
  return Uint8Array.from(level, (value, i) =>
    moving[i] > ratio * value && value > nanMax(NOISE_MV, HUM_SHARE * height[i]) ? 1 : 0,
  );
}

/**
 * Mark half seconds in which the baseline moves much more than in the adjacent half seconds.
 * @param {Float64Array} baseline
 * @param {Float64Array} height
 */
function jumpsOf(baseline, height) {
  const step = rint(JUMP_S / BLOCK_S);
  const blockCount = baseline.length;
  const at = (/** @type {number} */ i) => baseline[Math.min(Math.max(i, 0), blockCount - 1)];
  const moved = (/** @type {number} */ i) => at(i) - at(i - step); // from block i - step to block i
  const jumped = new Uint8Array(blockCount);
  for (let i = 0; i < blockCount - step; i += 1) {
    const [centre, around] = [moved(i + step), (moved(i) + moved(i + 2 * step)) / 2];
    if (Math.abs(centre - around) > nanMax(JUMP_MV, height[i + step])) jumped.fill(1, i, i + step + 1);
  }
  return jumped;
}

/**
 * Convert masks to segments in order of time.
 * @param {Record<string, Uint8Array>} masks
 * @param {number} first first sample of the masks
 * @returns {Stretch[]}
 */
export function stretchesOf(masks, first = 0) {
  const stretches = REASONS.filter((reason) => masks[reason] !== undefined).flatMap((reason) =>
    runs(masks[reason]).map(([start, stop]) => ({ start: first + start, stop: first + stop, reason })),
  );
  return stretches.sort((a, b) => a.start - b.start || a.stop - b.stop);
}

/**
 * Find the bad segments of one lead.
 * @param {Float64Array} recorded (samples,) millivolt as recorded, NaN if missing
 * @param {number} fsHz above 80
 * @param {number[]} [atRail] limits of the recorder; default: the extremes of the lead
 */
export function leadQuality(recorded, fsHz, atRail) {
  const first = firstLook(recorded, fsHz, atRail ?? rails(recorded));
  /** @type {Record<string, Uint8Array>} */
  const masks = { ...first.masks };
  if (first.lost.includes(0)) {
    const longest = bridgeSamples(fsHz);
    const signal = fillGaps(first.signal, longest, first.lost);
    const { height, spike } = spikesOf(signal, first.lost, fsHz);
    const bridged = fillGaps(signal, longest, first.lost.map((isLost, i) => isLost | spike[i]));
    Object.assign(masks, { spike, ...noiseAndJumps(bridged, first.lost, spike, height, fsHz) });
  }
  return new LeadQuality(recorded.length, fsHz, stretchesOf(masks));
}
