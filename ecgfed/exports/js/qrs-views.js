/**
 * Views of the QRS detector, each of one lead or of all leads, and the vote between them
 * (ecgfed/domain/signal/qrs_views.py). Log odds are multiples of 2^-15, so that their sums are exact.
 */

import { argMax, searchSorted } from "./numbers.js";
import { FORM, leadFeatures, levelRatios, beatEnvelope } from "./qrs-features.js";
import { LEADS, UNIT, firstLook, secondLook } from "./qrs-net.js";
import { MEMORY, rhythmFeatures } from "./qrs-rhythm.js";
import { BLOCK, RATE_HZ, candidates, leadWeight } from "./qrs-signal.js";

/** @typedef {import("./qrs-signal.js").Traces} Traces */
/** @typedef {import("./qrs-rhythm.js").Likely} Likely */
/**
 * A beat of one view: the centre of its envelope (200 Hz sample of the segment), the number of the view, the log odds
 * of the second network, and the R peak as a sample of the segment.
 * @typedef {{at: number, view: number, score: number, peak: number}} ViewBeat
 */

const f = Math.fround;
const KEEP = -5;
export const THRESHOLD = 0;
/** Maximum number of single-lead views: the lead in use and the first other leads. */
const MAX_ALONE = 3;
/** Maximum distance of candidates of the same beat, and of the same wave. */
export const SAME_BEAT = 30;
export const NEAR = 20;
/** Interval before a beat whose scores determine the trust in a view, and limit of a score. */
const TRUST_FROM = 10 * RATE_HZ;
const TRUST_TO = 70;
const TRUST_LIMIT = 4;
/** Log odds of a view without a candidate near the beat of another view. */
export const NOTHING = -8;
/** Share of the usual interval after which a beat is due, and the log odds that are then added. */
export const DUE_SHARE = 0.85;
export const DUE_ODDS = 3;
export const DUE_MIN = 2;
export const USUAL_OF = 8;
export const USUAL_FROM = 3;
/** A wave is weak below this share of the last beats' envelope, within these limits, unless it exceeds the median clearly. */
const WEAK_MIN_UV = 30;
const WEAK_MAX_UV = 60;
const WEAK_SHARE = f(0.12);
const WEAK_OF = 16;
const WEAK_RATIO = (1.5 / 2) * UNIT;
const MEDIAN = 1;

/** A view of one lead, or of all leads. */
export class View {
  /**
   * @param {number[]} rows indices of the leads
   * @param {number} leadInUse the lead of the R peaks
   */
  constructor(rows, leadInUse) {
    this.rows = rows;
    this.leadInUse = leadInUse;
    /** @type {Likely[]} */
    this.likely = [];
    /** 200 Hz samples and scores of the decided candidates. @type {number[]} */
    this.at = [];
    /** @type {number[]} */
    this.score = [];
    /** Envelopes of the last beats, a row per lead. @type {number[][]} */
    this.sizes = rows.map(() => []);
  }

  /**
   * Search blocks for candidates.
   * @param {Traces} traces traces of every lead
   * @param {Float32Array[][]} level of each lead, of the blocks to search and of one more on each side
   * @param {number} back samples of the traces before the first block to search
   * @param {number} stop number of samples of the traces
   */
  take(traces, level, back, stop) {
    const envelope = this.rows.map((row) => traces.envelope[row]);
    for (const at of candidates(envelope, this.rows.map((row) => level[row]), back)) {
      const likely = at < stop && this.firstLook(traces, at, level, Math.floor((at - back) / BLOCK) + 1);
      if (likely) this.likely.push(likely);
    }
  }

  /**
   * Return a candidate, null if the first network rejects it.
   * @param {Traces} traces
   * @param {number} at
   * @param {Float32Array[][]} level
   * @param {number} block index of the candidate's block in `level`
   * @returns {Likely | null}
   */
  firstLook(traces, at, level, block) {
    const mine = level.map((rows) => rows.map((row) => row[block]));
    const every = mine.map((levels) => leadWeight(levels[0], levels[1], levels[5]));
    const weight = this.rows.map((row) => every[row]);
    const rank = weight.map((value, i) => weight.filter((rival, k) => rival > value || (rival === value && k < i)).length);
    const counted = weight.map((value, i) => value > 0 && rank[i] < LEADS);
    const envelope = this.rows.map((row) => beatEnvelope(traces.envelope[row], at, mine[row][0]));
    const features = this.rows.map((row, i) => leadFeatures(traces, row, at, mine[row], envelope[i]));
    const { score, mixed } = firstLook(features, counted);
    if (!(score > KEEP)) return null;
    const lead = every[this.leadInUse] > 0 ? this.leadInUse : argMax(every);
    return {
      at: at + traces.start,
      score,
      mixed,
      envelope,
      counted,
      form: features.map((row) => row.slice(FORM[0], FORM[1])),
      ratio: levelRatios(features, counted),
      lead,
      size: beatEnvelope(traces.envelope[lead], at, mine[lead][0]),
    };
  }

  /**
   * Return the beats of the blocks `first` to `stop` (not included), and their scores.
   * @param {number} first
   * @param {number} stop
   */
  secondLook(first, stop) {
    const which = this.likely.flatMap(({ at }, i) => {
      const block = Math.floor(at / BLOCK);
      return block >= first && block < stop ? [i] : [];
    });
    const features = rhythmFeatures(this.likely, which);
    /** @type {{likely: Likely, score: number}[]} */
    const beats = [];
    which.forEach((number, i) => {
      const likely = this.likely[number];
      let score = secondLook(features[i]);
      if (score > THRESHOLD) {
        if (this.isStrong(likely)) beats.push({ likely, score });
        else score = NOTHING;
      }
      this.at.push(likely.at);
      this.score.push(score);
    });
    return beats;
  }

  /** Return the scores of candidates that follow those searched, as if the signal ended with the last of them. @param {Likely[]} fresh */
  provisional(fresh) {
    const first = this.likely.length;
    const features = rhythmFeatures([...this.likely, ...fresh], fresh.map((_, i) => first + i));
    const sizes = this.sizes.map((row) => row.slice());
    return features.map((row, i) => {
      const score = secondLook(row);
      return score > THRESHOLD && !this.isStrong(fresh[i], sizes) ? NOTHING : score;
    });
  }

  /**
   * Return whether a beat is more than the noise of asystole or of a disconnected lead; stores its size.
   * @param {Likely} beat
   * @param {number[][]} sizes of the last beats, a row per lead
   */
  isStrong(beat, sizes = this.sizes) {
    const size = beat.envelope.map((height, i) => (beat.counted[i] ? height : 0));
    if (beat.ratio[MEDIAN] < WEAK_RATIO) {
      const weak = size.every((height, i) => {
        const sorted = Float32Array.from(sizes[i]).sort();
        const usual = sorted.length ? sorted[sorted.length >> 2] : 0;
        return height < Math.min(Math.max(f(WEAK_SHARE * usual), WEAK_MIN_UV), WEAK_MAX_UV);
      });
      if (weak) return false;
    }
    sizes.forEach((row, i) => {
      row.push(size[i]);
      if (row.length > WEAK_OF) row.shift();
    });
    return true;
  }

  /** Return the trust in this view before a 200 Hz sample, from 0 to 1. @param {number} at */
  trust(at) {
    const [low, high] = [searchSorted(this.at, at - TRUST_FROM), searchSorted(this.at, at - TRUST_TO)];
    if (high === low) return 1;
    let clear = 0;
    for (let i = low; i < high; i += 1) clear += Math.min(Math.abs(this.score[i]), TRUST_LIMIT);
    let share = clear / (TRUST_LIMIT * (high - low));
    share *= share;
    share *= share;
    return share * share;
  }

  /** Return the highest log odds of the candidates near a 200 Hz sample. @param {number} at */
  odds(at) {
    const [low, high] = [searchSorted(this.at, at - NEAR), searchSorted(this.at, at + NEAR + 1)];
    return high > low ? Math.max(...this.score.slice(low, high)) : NOTHING;
  }

  /** Drop everything that decisions from a block on do not need. @param {number} decided */
  forget(decided) {
    const oldest = Math.max(decided * BLOCK - MEMORY, 0);
    this.likely = this.likely.filter((candidate) => candidate.at >= oldest);
    const first = searchSorted(this.at, decided * BLOCK - TRUST_FROM - 2 * SAME_BEAT);
    this.at.splice(0, first);
    this.score.splice(0, first);
  }
}

/**
 * Return the view of all leads and, for several leads, single-lead views of the lead in use and the first others.
 * @param {number} leads
 * @param {number} leadInUse
 */
export function viewsOf(leads, leadInUse) {
  const every = Array.from({ length: leads }, (_, lead) => lead);
  const alone = leads === 1 ? [] : [leadInUse, ...every.filter((lead) => lead !== leadInUse)].slice(0, MAX_ALONE);
  return [new View(every, leadInUse), ...alone.map((lead) => new View([lead], leadInUse))];
}

/** Decides between views. */
export class LeadVote {
  /** @param {View[]} views */
  constructor(views) {
    this.views = views;
    /** Undecided beats of all views, in order of time. @type {ViewBeat[]} */
    this.waiting = [];
    /** 200 Hz samples of each view's last beats, decided or not. @type {number[][]} */
    this.last = views.map(() => []);
    /** The last decided beat of a single-lead view, accepted or not. */
    this.added = -Infinity;
    /** The last accepted beats. @type {number[]} */
    this.accepted = [];
  }

  /** Add new beats of the views. @param {ViewBeat[]} fresh */
  take(fresh) {
    this.waiting.push(...fresh);
    this.waiting.sort((a, b) => a.at - b.at || a.view - b.view);
    for (const beat of fresh) this.last[beat.view].push(beat.at);
  }

  /** Return whether a view has a beat near a 200 Hz sample. @param {number} view @param {number} at */
  has(view, at) {
    return this.last[view].some((beatAt) => Math.abs(beatAt - at) <= SAME_BEAT);
  }

  /**
   * Return the accepted beats before a 200 Hz sample, in order of time.
   * @param {number} limit
   * @param {number} oldest first 200 Hz sample that later decisions need
   * @param {(lead: number, at: number) => boolean} active whether a lead had a signal
   */
  decide(limit, oldest, active) {
    const chosen = [];
    while (this.waiting.length && this.waiting[0].at < limit) {
      const beat = /** @type {ViewBeat} */ (this.waiting.shift());
      if (!this.isBeat(beat, active)) continue;
      this.accepted = [...this.accepted, beat.at].slice(-USUAL_OF - 1);
      chosen.push(beat);
    }
    this.last = this.last.map((row) => row.filter((at) => at >= oldest));
    return chosen;
  }

  /**
   * @param {ViewBeat} beat
   * @param {(lead: number, at: number) => boolean} active
   */
  isBeat(beat, active) {
    const voters = this.views.flatMap((view, number) => (number && active(view.rows[0], beat.at) ? [number] : []));
    if (beat.view === 0) {
      if (voters.every((number) => this.has(number, beat.at))) return true;
    } else {
      if (this.has(0, beat.at) || beat.at - this.added <= SAME_BEAT) return false;
      this.added = beat.at;
    }
    let votes = 0;
    for (const number of [0, ...voters]) votes += this.views[number].odds(beat.at) * this.views[number].trust(beat.at);
    return votes + this.due(beat) > 0;
  }

  /** Return the log odds added to a beat if one is due. @param {ViewBeat} beat */
  due(beat) {
    const intervals = this.accepted.slice(1).map((at, i) => at - this.accepted[i]);
    if (intervals.length < USUAL_FROM || (beat.view && beat.score < DUE_MIN)) return 0;
    const usual = intervals.sort((a, b) => a - b)[intervals.length >> 1];
    return beat.at - this.accepted[this.accepted.length - 1] > DUE_SHARE * usual ? DUE_ODDS : 0;
  }
}
