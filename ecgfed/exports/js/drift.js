/**
 * Drift detection: whether a patient's beats have changed since the first minutes (ecgfed/exports/device/drift.py,
 * docs/stream.md). Integer counts over the last beats are compared with those over the first ones; values equal Python's
 * to the last bit.
 */

import { argMax, rint } from "./numbers.js";
import { limited } from "./quality-samples.js";
import { FLAG_POOR_QUALITY } from "./windows.js";

/** A beat's shape: its window averaged over four samples each, in integer microvolts. */
const SHAPE = 64;
const EACH = 4;
/** The QRS in a window. */
const QRS = [75, 136];
/** Maximum number of stored events. */
const MAX_EVENTS = 1000;

/** Reasons of drift with their messages. @type {Readonly<Record<string, string>>} */
export const DRIFT_REASONS = Object.freeze({
  far: "more beats than before look like none the model was trained on",
  uncertain: "more beats than before have a class that is not sure",
  classes: "the classes are no longer those of the first minutes",
  shape: "the commonest beats have another shape than in the first minutes",
  size: "the QRS has another height than in the first minutes: was the gain or the electrode changed?",
  poor: "the signal has become poor: look at the electrodes",
  silence: "no beat has come for a minute: look at the electrodes",
});
/** Reasons due to the signal, for which new labels do not help. */
const OF_THE_SIGNAL = ["poor", "silence"];

/** Bounds above which a change is reported: see `DriftBounds` in index.d.ts. @type {import("./index.d.ts").DriftBounds} */
export const DRIFT_BOUNDS = Object.freeze({
  first: 300, last: 200, far: 0.2, uncertain: 0.65, classes: 0.65, shape: 0.2, poor: 0.5, size: 1.9, silenceS: 60, end: 0.5,
});

/** @typedef {{label: number, lowConfidence: number, outOfDistribution: number, poor: boolean, sizeUv: number, shapeUv: number[]}} Counted */

/** Counts of beats, and sums of sizes and shapes per class. */
class Counts {
  /** @param {number} classes */
  constructor(classes) {
    this.beats = 0;
    this.good = 0;
    this.lowConfidence = 0;
    this.outOfDistribution = 0;
    /** @type {number[]} */
    this.label = new Array(classes).fill(0);
    /** @type {number[]} */
    this.sizeUv = new Array(classes).fill(0);
    this.shapeUv = Array.from({ length: classes }, () => new Float64Array(SHAPE));
  }

  /** Add a beat, or remove it with `times` -1. @param {Counted} beat @param {1 | -1} times */
  add(beat, times = 1) {
    this.beats += times;
    if (beat.poor) return;
    this.good += times;
    this.lowConfidence += times * beat.lowConfidence;
    this.outOfDistribution += times * beat.outOfDistribution;
    this.label[beat.label] += times;
    this.sizeUv[beat.label] += times * beat.sizeUv;
    const sums = this.shapeUv[beat.label];
    beat.shapeUv.forEach((value, i) => (sums[i] += times * value));
  }
}

/** @param {number} part @param {number} total */
const share = (part, total) => (total ? part / total : 0);

/** Whole numbers less their mean, times how many there are: whole numbers again. @param {Float64Array} sums */
function centred(sums) {
  const total = sums.reduce((sum, value) => sum + value, 0);
  return Array.from(sums, (value) => BigInt(sums.length * value - total));
}

/** The sum of products, rounded once. @param {bigint[]} a @param {bigint[]} b */
const product = (a, b) => Number(a.reduce((sum, value, i) => sum + value * b[i], 0n));

/** Watches the answers of a stream. */
export class Drift {
  /** @param {number} classes how many there are @param {Partial<import("./index.d.ts").DriftBounds>} [bounds] */
  constructor(classes, bounds = {}) {
    this.classes = classes;
    this.bounds = { ...DRIFT_BOUNDS, ...bounds };
    this.atFirst = new Counts(classes);
    this.now = new Counts(classes);
    /** @type {Counted[]} */
    this.last = [];
    /** What has changed and is so still, and since when, in seconds. @type {Map<string, number>} */
    this.on = new Map();
    /** Of the last beat, in seconds. */
    this.lastBeatS = 0;
    /** @type {import("./index.d.ts").DriftEvent[]} */
    this.events = [];
  }

  /** Take the beats to come as the first ones: after new labels, or with another patient. */
  restart() {
    Object.assign(this, new Drift(this.classes, this.bounds));
  }

  /** Changes that are active, in the order of `DRIFT_REASONS`. @returns {string[]} */
  get reasons() {
    return Object.keys(DRIFT_REASONS).filter((reason) => this.on.has(reason));
  }

  /** Whether this patient's beats have changed: new labels are worth having. */
  get labelAgain() {
    return this.reasons.some((reason) => !OF_THE_SIGNAL.includes(reason));
  }

  /** One sentence, or "" without changes. */
  get text() {
    if (!this.on.size) return "";
    const what = this.reasons.map((reason) => DRIFT_REASONS[reason]).join("; ");
    if (this.labelAgain) return `This patient's beats have changed: label some again (${what}).`;
    return `${what[0].toUpperCase()}${what.slice(1)}.`;
  }

  /** Each change as a fraction of its bound; 0 before there are enough beats. @returns {Record<string, number>} */
  get values() {
    const { atFirst: first, now, bounds } = this;
    const ratios = { far: 0, uncertain: 0, classes: 0, shape: 0, size: 0, poor: 0 };
    if (first.good < bounds.first || now.beats < bounds.last) return ratios;
    ratios.poor = (share(now.beats - now.good, now.beats) - share(first.beats - first.good, first.beats)) / bounds.poor;
    if (now.good * 4 < bounds.last) return ratios;
    ratios.far = (share(now.outOfDistribution, now.good) - share(first.outOfDistribution, first.good)) / bounds.far;
    ratios.uncertain = (share(now.lowConfidence, now.good) - share(first.lowConfidence, first.good)) / bounds.uncertain;
    const distance = now.label.reduce((sum, count, i) => sum + Math.abs(count * first.good - first.label[i] * now.good), 0);
    ratios.classes = distance / (2 * now.good * first.good) / bounds.classes;
    return { ...ratios, ...this.usualBeat() };
  }

  /** Change of the mean beat of the most frequent reference class; 0 if too few of the last beats have that class. */
  usualBeat() {
    const { atFirst: first, now, bounds } = this;
    const usual = argMax(first.label);
    const [before, after] = [first.sizeUv[usual], now.sizeUv[usual]];
    if (now.label[usual] * 4 < bounds.last || !before || !after) return { shape: 0, size: 0 };
    const times = (after * first.label[usual]) / (before * now.label[usual]);
    const [firstShape, nowShape] = [centred(first.shapeUv[usual]), centred(now.shapeUv[usual])];
    const correlation = product(firstShape, nowShape) / Math.max(Math.sqrt(product(firstShape, firstShape) * product(nowShape, nowShape)), 1e-9);
    return { shape: (1 - correlation) / bounds.shape, size: (Math.max(times, 1 / times) - 1) / (bounds.size - 1) };
  }

  /**
   * Add one beat with its final prediction.
   * @param {import("./index.d.ts").DriftBeat} beat
   * @param {ArrayLike<number>} windowMv its window, 256 samples in millivolt
   */
  add(beat, windowMv) {
    const { timeS, label, flags, lowConfidence = beat.uncertain, outOfDistribution = beat.far } = beat;
    const uv = Array.from(windowMv, (value) => rint(1000 * limited(value)));
    const shapeUv = Array.from({ length: SHAPE }, (_, i) => {
      return Math.floor(uv.slice(EACH * i, EACH * (i + 1)).reduce((sum, value) => sum + value, 0) / EACH);
    });
    const qrs = uv.slice(QRS[0], QRS[1]);
    const sizeUv = Math.max(...qrs) - Math.min(...qrs);
    const poor = Boolean(flags & FLAG_POOR_QUALITY);
    const counted = { label, lowConfidence: Number(lowConfidence), outOfDistribution: Number(outOfDistribution), poor, sizeUv, shapeUv };
    this.lastBeatS = timeS;
    if (this.atFirst.good < this.bounds.first) this.atFirst.add(counted);
    this.last.push(counted);
    this.now.add(counted);
    if (this.last.length > this.bounds.last) this.now.add(/** @type {Counted} */ (this.last.shift()), -1);
    for (const [reason, value] of Object.entries(this.values)) this.set(reason, value, timeS);
  }

  /**
   * Report the time without beats; a stream reports silence at once, but beats with a delay.
   * @param {number} timeS since the stream's start
   * @param {number} forS since the last R peak, or the start
   */
  quiet(timeS, forS) {
    this.set("silence", forS / this.bounds.silenceS, timeS);
  }

  /** @param {string} reason @param {number} value @param {number} timeS */
  set(reason, value, timeS) {
    const began = !this.on.has(reason) && value > 1;
    if (!began && !(this.on.has(reason) && value < this.bounds.end)) return;
    if (began) this.on.set(reason, timeS);
    else this.on.delete(reason);
    this.events = [...this.events, { timeS, reason, began }].slice(-MAX_EVENTS);
  }
}
