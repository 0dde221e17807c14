/**
 * Whether a beat follows a pacing spike: features of the samples around its R peak, and their logistic regression
 * (ecgfed/domain/signal/pacing_features.py, pacing.py; docs/quality.md).
 */

import { besselI0, sinc } from "./fir.js";
import { isRectangular } from "./no-signal.js";
import { argMax } from "./numbers.js";

/** Weights for sampling frequencies from `fsHz` on, of windows that are low-passed at `limitHz`. */
export const PACING_BANDS = [
  { fsHz: 225, limitHz: 100, intercept: -2.530209, weights: [1.734523, 0.180928, 8.744816, 2.333165, -1.526889, -1.137528, 1.611916, -2.997613, 0.494957] },
  { fsHz: 125, limitHz: 55, intercept: 0.315608, weights: [2.368081, 0.726026, 8.596506, 2.627615, -1.637159, -2.852307, 1.21274, -2.62697, 0.772552] },
];
/** A beat above it is clearly paced. */
export const CLEAR_SCORE = 0.9;
/** Windows are resampled to this frequency; the R peak is sample R of GRID. */
const GRID_HZ = 250;
const GRID = 61;
const R = 40;
/** A window in seconds, the reach of the resampling filter included. */
const BEFORE_S = 0.16 + 0.06;
const AFTER_S = 0.08 + 0.06;
const REACH_S = 0.06;
const LEAST_MV = 0.05;
const LEAST = 1e-3;
const CLEAR = 5;
const WIDTH_SHARE = 0.3;

/** @param {number} beta @param {number} at -1 to 1 */
const kaiser = (beta, at) => besselI0(beta * Math.sqrt(Math.max(1 - at ** 2, 0))) / besselI0(beta);
/** Taps of the high-pass at 45 Hz; nothing of a constant passes. */
const HIGH_PASS = (() => {
  const taps = Array.from({ length: 25 }, (_, i) => -sinc(0.36 * (i - 12)) * kaiser(5, (i - 12) / 12));
  taps[12] -= taps.reduce((sum, tap) => sum + tap, 0);
  return taps.map((tap) => 0.36 * tap);
})();

/** @param {number[]} values */
const sum = (values) => values.reduce((total, value) => total + value, 0);
/** @param {number[]} values */
const highest = (values) => values.reduce((a, b) => Math.max(a, b), 0);
/** @param {number[]} values */
const rootMean = (values) => Math.sqrt(sum(values) / Math.max(values.length, 1));

/** Scores the beats of a lead. */
export class PacingScore {
  /** @param {number} fsHz */
  constructor(fsHz) {
    this.band = PACING_BANDS.find((band) => fsHz >= band.fsHz);
    /** Samples before and after an R peak that are needed. */
    this.before = Math.ceil(BEFORE_S * fsHz);
    this.after = Math.ceil(AFTER_S * fsHz);
    const { limitHz } = this.band ?? { limitHz: 0 };
    const samples = this.before + this.after + 1;
    /** Weights of a window's samples for each sample of the grid. */
    this.rows = Array.from({ length: GRID }, (_, k) => {
      const row = Array.from({ length: samples }, (__, i) => {
        const apart = (k - R) / GRID_HZ - (i - this.before) / fsHz;
        return Math.abs(apart) < REACH_S ? sinc(2 * limitHz * apart) * kaiser(6, apart / REACH_S) : 0;
      });
      const total = sum(row);
      return row.map((weight) => weight / total);
    });
  }

  /**
   * Return the probability that a beat follows a pacing spike; NaN below 125 Hz and where the lead is flat or has gaps.
   * @param {ArrayLike<number>} windowMv `before + 1 + after` samples as recorded, in millivolt, NaN if missing
   */
  of(windowMv) {
    if (!this.band) return NaN;
    const mv = Array.from(windowMv);
    if (isRectangular(mv)) return 0;
    const grid = this.rows.map((row) => row.reduce((total, weight, i) => total + weight * mv[i], 0));
    const height = Math.max(...grid) - Math.min(...grid);
    if (!(height >= LEAST_MV)) return NaN;
    const wave = grid.map((value) => value / height);
    const high = wave.map((_, at) => HIGH_PASS.reduce((total, tap, k) => total + tap * wave[Math.min(Math.max(at + k - 12, 0), GRID - 1)], 0));
    const energy = high.map((value) => value * value);
    const at = argMax(energy.slice(5, GRID - 7).map((value, i) => value + energy[i + 6] + energy[i + 7])) + 6;
    const start = wave.slice(0, 12).sort((a, b) => a - b);
    const level = (start[5] + start[6]) / 2;
    const deviation = wave.map((value) => Math.abs(value - level));
    const { intercept, weights } = this.band;
    const odds = features(wave, high, energy, deviation, at).reduce((total, feature, i) => total + weights[i] * feature, intercept);
    const score = 1 / (1 + Math.exp(-odds));
    return score > CLEAR_SCORE && !isCaptured(deviation, at) ? CLEAR_SCORE : score;
  }
}

/** @param {number[]} wave @param {number[]} high @param {number[]} energy @param {number[]} deviation @param {number} at the transient's sample */
function features(wave, high, energy, deviation, at) {
  const slope = wave.slice(1).map((value, i) => Math.abs(value - wave[i]));
  const curvature = wave.map((value, i) => (i && i < GRID - 1 ? Math.abs(wave[i + 1] - value - (value - wave[i - 1])) : 0));
  const own = (/** @type {number[]} */ values) => values.slice(at - 3, at + 4);
  const squares = slope.map((value) => value * value);
  const peak = highest(own(high.map(Math.abs)));
  const steepest = highest(slope);
  const wide = WIDTH_SHARE * highest(deviation);
  return [
    Math.log(sum(energy) / sum(squares) + LEAST ** 2),
    Math.log(peak + LEAST),
    sum(own(energy)) / (sum(energy) + LEAST ** 2),
    deviation.filter((value) => value > wide).length / GRID,
    Math.log(rootMean(squares.slice(0, Math.max(at - CLEAR - 1, 0))) / steepest + LEAST),
    Math.log(steepest),
    Math.log(rootMean(energy.slice(0, at - CLEAR)) / (peak + LEAST) + LEAST),
    Math.abs(wave[at + CLEAR] - wave[at - CLEAR]),
    Math.log((highest(own(curvature)) + LEAST) / (highest([...curvature.slice(0, at - 6), ...curvature.slice(at + 7)]) + LEAST)),
  ];
}

/** Whether a wave behind the transient lasts as a QRS captured by a pacing spike does. @param {number[]} deviation @param {number} at */
function isCaptured(deviation, at) {
  const behind = deviation.slice(at + 5);
  const height = highest(behind);
  const inside = behind.map((value) => value > WIDTH_SHARE * height);
  const before = deviation.slice(0, at - CLEAR);
  const lasts = inside.lastIndexOf(true) + 5 >= Math.min(15, GRID - at - 2);
  return height >= Math.max(0.15, (6 * sum(before)) / before.length) && lasts && inside.filter(Boolean).length >= 8;
}
