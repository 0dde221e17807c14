/**
 * RR features, version 3: the strip around the beat, and its difference to the patient's running median strip
 * (ecgfed/domain/beats/strip.py).
 */

import { FEATURES as OWN_FEATURES, LIMIT, featuresOf as ownFeatures } from "./context.js";
import { clip } from "./numbers.js";
import { BLOCK, MIN_COUNT } from "./running.js";

/** @typedef {import("./context.js").Beat} Beat */
/** @typedef {import("./context-shape.js").TypicalBeat} TypicalBeat */

/** Samples that one number of a strip is the mean of, and numbers before, within and after the window. */
const STEP = 4;
export const BEFORE = 47;
export const WINDOW = 64;
export const AFTER = 33;
const NUMBERS = BEFORE + WINDOW + AFTER;
/** Samples of a strip, and of its part before the window. */
export const STRIP_SAMPLES = STEP * NUMBERS;
export const SAMPLES_BEFORE = STEP * BEFORE;
export const SAMPLES_AFTER = STEP * AFTER;
/** Blocks before and after a beat's own whose beats make the median strip. */
const BACK = 4;
const AHEAD = 3;
const STRIP_LIMIT = 2 * LIMIT;

/** @param {string} name @param {number} count */
const numbered = (name, count) => Array.from({ length: count }, (_, number) => `${name}_${number}`);

/** Names of the features in order. */
export const FEATURES = Object.freeze([
  ...OWN_FEATURES, "typical_mv", ...numbered("beside", BEFORE + AFTER), ...numbered("difference", NUMBERS),
]);

/** Numbers of a strip and the size of its QRS; and how many strips there are at most around a block. */
const COLUMNS = NUMBERS + 1;
const MOST = (BACK + AHEAD + 1) * BLOCK;

/** Medians of the strips of usable beats around a block, and of their sizes; strips that are around the next one too stay sorted. */
export class MedianStrip {
  constructor() {
    /** Sorted numbers, MOST for each column. */
    this.sorted = new Float64Array(COLUMNS * MOST);
    /** The strips in the columns. @type {Set<Float64Array>} */
    this.strips = new Set();
  }

  /** The medians around a block, NaN if there are too few strips. @param {TypicalBeat} typicalBeat @param {number} block */
  around(typicalBeat, block) {
    /** @type {Set<Float64Array>} */
    const near = new Set();
    const stop = Math.min((block + AHEAD + 1) * BLOCK, typicalBeat.count);
    for (let i = Math.max((block - BACK) * BLOCK, typicalBeat.first); i < stop; i += 1) {
      if (typicalBeat.at(i).usable) near.add(stripOf(typicalBeat, i));
    }
    const gone = [...this.strips].filter((strip) => !near.has(strip));
    const fresh = [...near].filter((strip) => !this.strips.has(strip));
    while (gone.length && fresh.length) this.replace(/** @type {Float64Array} */ (gone.pop()), /** @type {Float64Array} */ (fresh.pop()));
    for (const strip of gone) this.remove(strip);
    for (const strip of fresh) this.add(strip);
    const count = this.strips.size;
    const [low, part] = [(count - 1) >> 1, count % 2 ? 0 : 0.5];
    const median = new Float64Array(COLUMNS).fill(NaN);
    if (count < MIN_COUNT) return median;
    for (let k = 0; k < COLUMNS; k += 1) {
      const at = k * MOST + low;
      median[k] = this.sorted[at] * (1 - part) + this.sorted[part ? at + 1 : at] * part;
    }
    return median;
  }

  /** @param {Float64Array} strip */
  add(strip) {
    const { sorted, strips: { size } } = this;
    for (let k = 0, start = 0; k < COLUMNS; k += 1, start += MOST) {
      let at = start + size;
      for (; at > start && sorted[at - 1] > strip[k]; at -= 1) sorted[at] = sorted[at - 1];
      sorted[at] = strip[k];
    }
    this.strips.add(strip);
  }

  /** @param {Float64Array} old one of those in the columns @param {Float64Array} fresh */
  replace(old, fresh) {
    const { sorted, strips: { size } } = this;
    for (let k = 0, start = 0; k < COLUMNS; k += 1, start += MOST) {
      const [value, stop] = [fresh[k], start + size - 1];
      let at = start;
      while (sorted[at] < old[k]) at += 1;
      for (; at < stop && sorted[at + 1] < value; at += 1) sorted[at] = sorted[at + 1];
      for (; at > start && sorted[at - 1] > value; at -= 1) sorted[at] = sorted[at - 1];
      sorted[at] = value;
    }
    this.strips.delete(old);
    this.strips.add(fresh);
  }

  /** @param {Float64Array} strip one of those in the columns */
  remove(strip) {
    const { sorted, strips: { size } } = this;
    for (let k = 0, start = 0; k < COLUMNS; k += 1, start += MOST) {
      let at = start;
      while (sorted[at] < strip[k]) at += 1;
      for (; at < start + size - 1; at += 1) sorted[at] = sorted[at + 1];
    }
    this.strips.delete(strip);
  }
}

/**
 * Features of consecutive beats.
 * @param {TypicalBeat} typicalBeat of all beats that decide the features, with `besideMv`
 * @param {number} from number of the first beat
 * @param {number} to
 * @param {MedianStrip} medianStrip of the same beats
 * @returns {Float32Array[]}
 */
export function featuresOf(typicalBeat, from, to, medianStrip) {
  let [block, median] = [-1, new Float64Array(0)];
  return ownFeatures(typicalBeat, from, to).map((own, at) => {
    const i = from + at;
    if (Math.floor(i / BLOCK) !== block) {
      block = Math.floor(i / BLOCK);
      median = medianStrip.around(typicalBeat, block);
    }
    const strip = stripOf(typicalBeat, i);
    const typicalMv = Number.isNaN(median[NUMBERS]) ? strip[NUMBERS] : median[NUMBERS];
    const besideMv = besideMvOf(typicalBeat.at(i));
    const relative = (/** @type {number} */ mv) => (Number.isNaN(mv) ? 0 : clip(mv / typicalMv, -STRIP_LIMIT, STRIP_LIMIT));
    const features = new Float32Array(FEATURES.length);
    features.set(own);
    let to = own.length;
    features[to++] = typicalMv;
    for (let k = 0; k < besideMv.length; k += 1) features[to++] = relative(besideMv[k]);
    for (let k = 0; k < NUMBERS; k += 1) features[to++] = relative(strip[k] - median[k]);
    return features;
  });
}

/** What lies beside a beat's window. @param {Beat} beat */
function besideMvOf({ besideMv }) {
  if (besideMv?.length !== BEFORE + AFTER) throw new TypeError(`besideMv of a beat holds ${besideMv?.length} numbers; expected ${BEFORE + AFTER}`);
  return besideMv;
}

/** The strip of a beat in millivolt, and the size of its QRS. @param {TypicalBeat} typicalBeat @param {number} i */
function stripOf(typicalBeat, i) {
  const beat = typicalBeat.at(i);
  if (beat.strip) return beat.strip;
  const besideMv = besideMvOf(beat);
  beat.strip = new Float64Array(COLUMNS);
  beat.strip.set(besideMv.subarray(0, BEFORE));
  beat.strip.set(means(beat.windowMv), BEFORE);
  beat.strip.set(besideMv.subarray(BEFORE), BEFORE + WINDOW);
  beat.strip[NUMBERS] = typicalBeat.partsAt(i).size;
  return beat.strip;
}

/** Means of STEP samples each, in numpy's order of float32 sums. @param {Float32Array} samples */
function means(samples) {
  const sums = new Float32Array(samples.length / STEP);
  samples.forEach((value, i) => (sums[Math.floor(i / STEP)] += value));
  return sums.map((sum) => sum / STEP);
}

/** What lies beside the window of a strip. @param {Float32Array} aroundMv STRIP_SAMPLES samples at 360 Hz */
export function besideOf(aroundMv) {
  const strip = means(aroundMv);
  return Float32Array.of(...strip.subarray(0, BEFORE), ...strip.subarray(BEFORE + WINDOW));
}
