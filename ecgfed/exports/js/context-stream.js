/** RR features of versions 2 and 3, of a recording in pieces or as a whole (ecgfed/domain/beats/context_stream.py). */

import { HISTORY, LOOK_AHEAD, featuresOf } from "./context.js";
import { BLOCK } from "./context-shape.js";
import { featuresOf as stripFeatures } from "./strip.js";

/** @typedef {import("./context.js").Beat} Beat */

/** What computes the features of each version: HISTORY beats before a beat and LOOK_AHEAD beats after it decide them. */
const FEATURES_OF = { 2: featuresOf, 3: stripFeatures };

/**
 * The features of all beats of a recording.
 * @param {Beat[]} beats
 * @param {2 | 3} version of the RR features
 * @returns {Float32Array[]}
 */
export function contextFeatures(beats, version) {
  const stream = new ContextStream(version);
  return [...stream.push(beats), ...stream.finish()];
}

/**
 * The features of the last beats of a stream as if only one more R peak followed.
 * @param {Beat[]} beats one or more
 * @param {number} count of the beats whose features are returned, the last ones
 * @param {number} afterS interval between the last beat and that R peak in seconds, NaN if undefined or unknown
 * @param {2 | 3} version of the RR features
 * @returns {Float32Array[]}
 */
export function provisionalFeatures(beats, count, afterS, version) {
  const following = { ...beats[0], beforeS: afterS, usable: false }; // no reference is made of its window
  return FEATURES_OF[version]([...beats, following], beats.length - count, beats.length);
}

/** Features of a stream, equal to those of the whole recording, LOOK_AHEAD beats late. */
export class ContextStream {
  /** @param {2 | 3} version of the RR features */
  constructor(version = 2) {
    this.featuresOf = FEATURES_OF[version];
    /** @type {Beat[]} */
    this.beats = [];
    this.first = 0; // number of the first stored beat
    this.reported = 0; // number of beats with reported features
  }

  /** Add the next beats and return the features that are final now. @param {Beat[]} beats */
  push(beats) {
    for (const beat of beats) this.beats.push(beat);
    return this.give(Math.floor((this.first + this.beats.length - LOOK_AHEAD) / BLOCK) * BLOCK);
  }

  /** End the recording and return the features of its last beats. */
  finish() {
    return this.give(this.first + this.beats.length);
  }

  /** @param {number} until */
  give(until) {
    /** @type {Float32Array[]} */
    const features = [];
    while (this.reported < until) {
      const stop = Math.min(until, this.reported + 1024 * BLOCK);
      const start = Math.max(0, this.reported - HISTORY);
      const beats = this.beats.slice(start - this.first, stop + LOOK_AHEAD - this.first);
      features.push(...this.featuresOf(beats, this.reported - start, stop - start));
      this.reported = stop;
    }
    const drop = Math.max(0, this.reported - HISTORY) - this.first;
    if (drop > 0) {
      this.beats.splice(0, drop);
      this.first += drop;
    }
    return features;
  }
}
