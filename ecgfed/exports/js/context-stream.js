/** RR features of versions 2 and 3, of a recording in pieces or as a whole (ecgfed/domain/beats/context_stream.py). */

import { HISTORY, LOOK_AHEAD, featuresOf } from "./context.js";
import { TypicalBeat } from "./context-shape.js";
import { BLOCK } from "./running.js";
import { MedianStrip, featuresOf as stripFeatures } from "./strip.js";

/** @typedef {import("./context.js").Beat} Beat */

/** What computes the features of each version: HISTORY beats before a beat and LOOK_AHEAD beats after it decide them. */
const FEATURES_OF = { 2: featuresOf, 3: stripFeatures };
/** Beats of a recording that are processed at once. */
const AT_ONCE = 1024;

/**
 * The features of all beats of a recording.
 * @param {Beat[]} beats
 * @param {2 | 3} version of the RR features
 * @returns {Float32Array[]}
 */
export function contextFeatures(beats, version) {
  const stream = new ContextStream(version);
  const features = [];
  for (let at = 0; at < beats.length; at += AT_ONCE) {
    // copies: what is derived from a beat goes with it
    features.push(...stream.push(beats.slice(at, at + AT_ONCE).map((beat) => ({ ...beat }))));
  }
  return [...features, ...stream.finish()];
}

/** Features of the last beats of a stream as if only one more R peak followed. */
export class ProvisionalFeatures {
  /** @param {2 | 3} version of the RR features */
  constructor(version) {
    this.featuresOf = FEATURES_OF[version];
    this.typicalBeat = new TypicalBeat();
    this.medianStrip = new MedianStrip();
  }

  /**
   * @param {Beat[]} beats one or more
   * @param {number} count of the beats whose features are returned, the last ones
   * @param {number} afterS interval between the last beat and that R peak in seconds, NaN if undefined or unknown
   * @returns {Float32Array[]}
   */
  of(beats, count, afterS) {
    const following = { ...beats[0], beforeS: afterS, usable: false }; // no reference is made of its window
    this.typicalBeat.restart([...beats, following]);
    return this.featuresOf(this.typicalBeat, beats.length - count, beats.length, this.medianStrip);
  }
}

/** Features of a stream, equal to those of the whole recording, LOOK_AHEAD beats late. */
export class ContextStream {
  /** @param {2 | 3} version of the RR features */
  constructor(version = 2) {
    this.featuresOf = FEATURES_OF[version];
    this.typicalBeat = new TypicalBeat();
    this.medianStrip = new MedianStrip();
    this.reported = 0; // number of beats with reported features
  }

  /** Add the next beats and return the features that are final now. @param {Beat[]} beats */
  push(beats) {
    this.typicalBeat.push(beats);
    return this.give(Math.floor((this.typicalBeat.count - LOOK_AHEAD) / BLOCK) * BLOCK);
  }

  /** End the recording and return the features of its last beats. */
  finish() {
    this.typicalBeat.push([], true);
    return this.give(this.typicalBeat.count);
  }

  /** @param {number} until */
  give(until) {
    if (until <= this.reported) return [];
    const features = this.featuresOf(this.typicalBeat, this.reported, until, this.medianStrip);
    this.reported = until;
    this.typicalBeat.forget(Math.floor(Math.max(until - HISTORY, 0) / BLOCK) * BLOCK);
    return features;
  }
}
