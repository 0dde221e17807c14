/** Beats that are announced at once and corrected later, each with an id that does not change (ecgfed/domain/beats/announced.py). */

import { EARLY } from "./early-table.js";
import { rint } from "./numbers.js";
import { DELAY_S } from "./qrs.js";

/**
 * A beat that is known and not final: its id, R peak, whether the detector has decided on it, whether its first class was
 * due, and the class number that was reported last.
 * @typedef {{beat: number, sample: number, decided: boolean, classified: boolean, label: number | null}} Announced
 */
/** @typedef {{stage: "announced" | "added" | "moved" | "withdrawn", beat: number, sample: number}} PeakEvent */

/** A beat announced within so many of the last ones is compared with them. */
const LAST = 8;

/** All beats of a stream that are known and not final, in order of time. */
export class Announcements {
  /** @param {number} fsHz */
  constructor(fsHz) {
    this.match = rint(EARLY.matchS * fsHz);
    this.expires = DELAY_S * fsHz;
    this.classAfter = EARLY.classS * fsHz;
    this.open = EARLY.openS * fsHz;
    /** @type {Announced[]} */
    this.beats = [];
    this.next = 0;
    /** What has become known since `taken`. @type {PeakEvent[]} */
    this.events = [];
  }

  /** Return what has become known since the last call. */
  taken() {
    return this.events.splice(0);
  }

  /** @param {PeakEvent["stage"]} stage @param {Announced} known */
  report(stage, { beat, sample }) {
    this.events.push({ stage, beat, sample });
  }

  /** @param {PeakEvent["stage"]} stage @param {number} sample @param {boolean} decided */
  add(stage, sample, decided) {
    const known = { beat: this.next++, sample, decided, classified: false, label: null };
    let at = this.beats.length;
    while (at && this.beats[at - 1].sample > sample) at -= 1;
    this.beats.splice(at, 0, known);
    this.report(stage, known);
    return known;
  }

  /** Add an R peak that the detector has not decided on, unless it is beside a known one. @param {number} sample */
  announce(sample) {
    if (!this.beats.slice(-LAST).some((known) => Math.abs(known.sample - sample) < this.match)) this.add("announced", sample, false);
  }

  /** Return the beat of an R peak that the detector has decided on: the nearest one that was announced, or a new one. @param {number} sample */
  decide(sample) {
    const distance = (/** @type {Announced} */ known) => Math.abs(known.sample - sample);
    const near = this.beats.filter((known) => !known.decided && distance(known) <= this.match);
    if (!near.length) return this.add("added", sample, true);
    const known = near.reduce((best, one) => (distance(one) < distance(best) ? one : best));
    const hasMoved = known.sample !== sample;
    Object.assign(known, { sample, decided: true });
    this.beats.sort((a, b) => a.sample - b.sample);
    if (hasMoved) this.report("moved", known);
    return known;
  }

  /** Withdraw what the detector would have decided on by now. @param {number} now @param {boolean} ended */
  expire(now, ended) {
    for (const known of ended ? [...this.beats] : this.last(now)) {
      if (known.decided || !(ended || now >= known.sample + this.expires)) continue;
      this.remove(known);
      this.report("withdrawn", known);
    }
  }

  /** @param {Announced} known */
  remove(known) {
    this.beats.splice(this.beats.indexOf(known), 1);
  }

  /**
   * Return the beats whose first class is due, and the R peak that follows each, null if none is known.
   * @param {number} now number of samples received
   * @param {number} ahead samples after an R peak that its window needs
   * @param {number} step samples until the next call, at most
   */
  due(now, ahead, step) {
    const last = this.last(now);
    return last.flatMap((known, i) => {
      const following = i + 1 < last.length ? last[i + 1].sample : null;
      const isLate = now + step > known.sample + this.classAfter;
      return !known.classified && now >= known.sample + ahead && (following !== null || isLate) ? [{ known, following }] : [];
    });
  }

  /** Beats of the last seconds; all that is decided here of earlier ones is decided. @param {number} now */
  last(now) {
    let from = this.beats.length;
    while (from && now < this.beats[from - 1].sample + this.open) from -= 1;
    return this.beats.slice(from);
  }

  /** R peaks after one sample up to another. @param {number} after @param {number} upTo */
  between(after, upTo) {
    return this.beats.flatMap(({ sample }) => (sample > after && sample <= upTo ? [sample] : []));
  }
}
