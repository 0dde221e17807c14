/** Intervals of samples (ecgfed/domain/signal/spans.py). */

import { searchSorted } from "./numbers.js";

/** Sorted, disjoint intervals that do not touch. */
export class Spans {
  /** @param {Iterable<[number, number]>} edges start and stop (not included), may overlap and stand in any order */
  constructor(edges) {
    /** @type {number[]} */
    this.start = [];
    /** @type {number[]} */
    this.stop = [];
    for (const [start, stop] of [...edges].filter(([a, b]) => b > a).sort((a, b) => a[0] - b[0])) {
      const last = this.stop.length - 1;
      if (last >= 0 && start <= this.stop[last]) this.stop[last] = Math.max(this.stop[last], stop);
      else {
        this.start.push(start);
        this.stop.push(stop);
      }
    }
  }

  /** Total number of samples. */
  get total() {
    return this.stop.reduce((sum, stop, i) => sum + stop - this.start[i], 0);
  }

  /** Say whether `start` to `stop` (not included) shares a sample with one of them. @param {number} start @param {number} stop */
  overlap(start, stop) {
    const first = searchSorted(this.stop, start, "right");
    return first < this.start.length && this.start[first] < stop && start < stop;
  }

  /** Number of their samples from `start` to `stop` (not included). @param {number} start @param {number} stop */
  within(start, stop) {
    let samples = 0;
    for (let i = searchSorted(this.stop, start, "right"); i < this.start.length && this.start[i] < stop; i += 1) {
      samples += Math.min(this.stop[i], stop) - Math.max(this.start[i], start);
    }
    return samples;
  }

  /** @param {number} at */
  inside(at) {
    return this.overlap(at, at + 1);
  }

  /** @returns {[number, number][]} */
  edges() {
    return this.start.map((start, i) => [start, this.stop[i]]);
  }
}
