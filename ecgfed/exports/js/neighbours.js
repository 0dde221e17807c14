/**
 * RR features, version 3: the beat among its neighbours, the rhythm around it, and the patient's own beat
 * (ecgfed/domain/beats/neighbours.py).
 */

import { FEATURES as OWN_FEATURES, HISTORY as OWN_HISTORY, LIMIT, LOOK_AHEAD as OWN_LOOK_AHEAD, featuresOf as ownFeatures } from "./context.js";
import { BLOCK, LOG_UNIT, MIN_MV, TypicalBeat, blockMeans, commonShare, correlation, logRatio, quantile } from "./context-shape.js";
import { clip } from "./numbers.js";

/** @typedef {import("./context.js").Beat} Beat */

/** Beats on either side whose features come with a beat's own, and whose intervals do. */
const NEIGHBOURS = 3;
const INTERVALS = 8;
/** Blocks before and after a beat's own in which intervals are compared. */
const RHYTHM_BACK = 4;
const RHYTHM_AHEAD = 3;
const ALIKE = 0.05;
const MIN_CHANGE = 0.004;
const MIN_INTERVALS = 5;
/** Samples of the window that one number of the patient's own beat is the mean of. */
const STEP = 4;
export const HISTORY = OWN_HISTORY + BLOCK;
export const LOOK_AHEAD = OWN_LOOK_AHEAD + BLOCK;

const RHYTHM = [
  "previous_over_mode", "next_over_mode", "sinus_over_mode", "agreeing", "agreeing_all", "agreeing_with_own", "change_20",
  "change_35", "change_50", "own_change_20", "own_change_35", "nearest_change", "nearest_change_late", "p_common",
  "p_common_all", "p_unlike", "p_size", "rate",
];
const OFFSETS = offsets(NEIGHBOURS).filter((by) => by);
const SEQUENCE = offsets(INTERVALS);
export const REFERENCE_SAMPLES = 256 / STEP;

/** @param {number} reach @returns {number[]} -reach to reach */
function offsets(reach) {
  return Array.from({ length: 2 * reach + 1 }, (_, i) => i - reach);
}

/** @param {number} by */
const signed = (by) => (by < 0 ? String(by) : `+${by}`);

/** Names of the features in order. */
export const FEATURES = Object.freeze([
  ...OWN_FEATURES,
  ...RHYTHM,
  ...OFFSETS.flatMap((by) => OWN_FEATURES.map((name) => name + "_" + signed(by))),
  ...SEQUENCE.map((by) => `interval_${signed(by)}`),
  ...SEQUENCE.map((by) => `void_interval_${signed(by)}`),
  "reference_mv",
  ...Array.from({ length: REFERENCE_SAMPLES }, (_, number) => `reference_${number}`),
]);

/** A number within limits, 0 for NaN. @param {number} value @param {number} limit */
const limited = (value, limit) => (Number.isNaN(value) ? 0 : clip(value, -limit, limit));

/**
 * Features of consecutive beats.
 * @param {Beat[]} beats
 * @param {number} from
 * @param {number} to
 * @returns {Float32Array[]}
 */
export function featuresOf(beats, from, to) {
  const typicalBeat = new TypicalBeat(beats);
  const { parts, sinus, afterSinus } = typicalBeat;
  const first = Math.max(from - NEIGHBOURS, 0);
  const own = ownFeatures(beats, first, Math.min(to + NEIGHBOURS, beats.length), typicalBeat);
  const none = new Float32Array(OWN_FEATURES.length);
  const rhythm = new Rhythm(beats, typicalBeat);
  const means = blockMeans(parts, afterSinus, (part) => part.scaled());
  const reference = means.map(pooled);
  return beats.slice(from, to).map((_, at) => {
    const i = from + at;
    const block = Math.floor(i / BLOCK);
    const around = SEQUENCE.map((by) => i + by).map((k) => ({ beforeS: beats[k]?.beforeS, sinus: sinus[k] }));
    const sizeMv = Math.exp(typicalBeat.usual[block][1]);
    return Float32Array.of(
      ...own[i - first],
      ...rhythm.values(i).map((value) => limited(value, LIMIT)),
      ...OFFSETS.flatMap((by) => Array.from(own[i + by - first] ?? none)),
      ...around.map((beat) => (beat.beforeS === undefined ? 0 : limited(logRatio(beat.beforeS, beat.sinus), LIMIT))),
      ...around.map((beat) => Number(Number.isNaN(beat.beforeS))),
      Number.isFinite(sizeMv) ? sizeMv : parts[i].size,
      ...reference[block],
    );
  });
}

/** Means of STEP samples each of the patient's own beat, limited. @param {Float64Array} window */
function pooled(window) {
  return Float64Array.from({ length: REFERENCE_SAMPLES }, (_, number) => {
    let sum = 0;
    for (let k = number * STEP; k < (number + 1) * STEP; k += 1) sum += window[k];
    return limited(sum / STEP, 2 * LIMIT);
  });
}

/** The rhythm around beats. */
class Rhythm {
  /** @param {Beat[]} beats @param {TypicalBeat} typicalBeat of the beats */
  constructor(beats, typicalBeat) {
    const { between, parts } = typicalBeat;
    this.typicalBeat = typicalBeat;
    const logs = Float64Array.from(beats, (beat) => Math.log(beat.beforeS));
    const own = logs.map((log, i) => (between[i] ? log : NaN));
    const lagged = (/** @type {Float64Array} */ values, /** @type {number} */ by) => values.map((value, i) => (i < by ? NaN : Math.abs(value - values[i - by])));
    const [change, ...late] = [1, 2, 3, 4].map((by) => lagged(logs, by));
    const nearestLate = late.reduce(least);
    const ownChange = lagged(own, 1);
    this.logs = logs;
    /** Values whose quantiles are features, and the shares. @type {[Float64Array, number][]} */
    this.changes = [
      [change, 0.2], [change, 0.35], [change, 0.5], [ownChange, 0.2], [ownChange, 0.35], [least(change, nearestLate), 0.5], [nearestLate, 0.5],
    ];
    this.own = own;
    this.pMean = blockMeans(parts, between, (part) => part.pRegion);
    this.pPower = blockMeans(parts, between, (part) => Float64Array.of(part.power));
    /** What all beats of a block have in common. @type {Map<number, ReturnType<Rhythm["ofBlock"]>>} */
    this.blocks = new Map();
  }

  /** @param {Float64Array} values @param {number} block */
  static near(values, block) {
    return values.slice(Math.max(block - RHYTHM_BACK, 0) * BLOCK, (block + RHYTHM_AHEAD + 1) * BLOCK).filter((value) => !Number.isNaN(value));
  }

  /** @param {number} block */
  ofBlock(block) {
    const near = Rhythm.near(this.logs, block);
    const [own, all] = [modeOf(Rhythm.near(this.own, block)), modeOf(near)];
    const { pReference, usual } = this.typicalBeat;
    const changes = this.changes.map(([values, share]) => {
      const change = quantile(Rhythm.near(values, block), share);
      return Math.log(Math.max(Number.isNaN(change) ? 0 : change, MIN_CHANGE) / ALIKE);
    });
    const common = [commonShare(pReference[block], usual[block][0]), commonShare(this.pMean[block], this.pPower[block][0])];
    return { near, mode: Number.isNaN(own.mode) ? all.mode : own.mode, shares: [own.share, all.share], changes, common };
  }

  /** The features RHYTHM of a beat, NaN where undefined. @param {number} i @returns {number[]} */
  values(i) {
    const block = Math.floor(i / BLOCK);
    const common = this.blocks.get(block) ?? this.ofBlock(block);
    this.blocks.set(block, common);
    const { logs, typicalBeat } = this;
    const { near, mode } = common;
    const { pRegion, power } = typicalBeat.parts[i];
    const size = Math.max(Math.sqrt(power / pRegion.length), MIN_MV);
    return [
      (logs[i] - mode) / LOG_UNIT,
      ((i + 1 < logs.length ? logs[i + 1] : NaN) - mode) / LOG_UNIT,
      (Math.log(typicalBeat.sinus[i]) - mode) / LOG_UNIT,
      ...common.shares.map((share) => 4 * share - 2),
      (4 * near.filter((log) => Math.abs(logs[i] - log) <= ALIKE).length) / Math.max(near.length, 1) - 1.2,
      ...common.changes,
      ...common.common.map((share) => 4 * share - 2),
      1 - correlation(pRegion, this.pMean[block]),
      Math.log(size / 0.1),
      (60 / typicalBeat.sinus[i] - 75) / 30,
    ];
  }
}

/** The lesser of two values at each place, of those that are no NaN. @param {Float64Array} values @param {Float64Array} others */
function least(values, others) {
  return values.map((value, i) => (Number.isNaN(value) ? others[i] : Number.isNaN(others[i]) ? value : Math.min(value, others[i])));
}

/** The most frequent of intervals, as a logarithm, and which share of them agrees with it. @param {Float64Array} logs without NaN */
function modeOf(logs) {
  if (logs.length < MIN_INTERVALS) return { mode: NaN, share: 0 };
  const agreeing = logs.map((log) => logs.filter((other) => Math.abs(log - other) <= ALIKE).length);
  const most = Math.max(...agreeing);
  const ordered = logs.filter((_, i) => agreeing[i] === most).sort();
  const last = ordered.length - 1;
  return { mode: (ordered[last >> 1] + ordered[(last + 1) >> 1]) / 2, share: most / logs.length };
}
