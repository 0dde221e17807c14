/**
 * What the QRS detector makes of one lead or of several at once, and which of these views decides about a beat
 * (ecgfed/domain/signal/qrs_views.py). Log odds are whole multiples of 2^-15, so that sums of them have no rounding.
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
 * of the second look, and the sample of the segment at which the R peak stands.
 * @typedef {{at: number, view: number, score: number, peak: number}} ViewBeat
 */

const f = Math.fround;
const KEEP = -5;
const THRESHOLD = 0;
/** Leads that are looked at alone beside all together: the lead in use and the first others. */
const MAX_ALONE = 3;
/** Two views mean the same beat when their candidates are this near, and the same wave when they are that near. */
export const SAME_BEAT = 30;
const NEAR = 20;
/** A view is trusted by its scores from so long ago up to so shortly before, none of them counted beyond the limit. */
const TRUST_FROM = 10 * RATE_HZ;
const TRUST_TO = 70;
const TRUST_LIMIT = 4;
/** Log odds of a view that has no candidate at all where another one has a beat. */
const NOTHING = -8;
/** A beat is due when this share of the usual interval has passed since the last one: so much is added to the sum. */
const DUE_SHARE = 0.85;
const DUE_ODDS = 3;
const DUE_MIN = 2;
const USUAL_OF = 8;
const USUAL_FROM = 3;
/** A wave below this share of the last beats', at least and at most so many microvolt, is weak, unless it stands out of the median. */
const WEAK_MIN_UV = 30;
const WEAK_MAX_UV = 60;
const WEAK_SHARE = f(0.12);
const WEAK_OF = 16;
const WEAK_RATIO = (1.5 / 2) * UNIT;
const MEDIAN = 1;

/** One lead, or all of them, as the detector's networks see it. */
export class View {
  /**
   * @param {number[]} rows numbers of the leads
   * @param {number} leadInUse the lead on which R peaks are put
   */
  constructor(rows, leadInUse) {
    this.rows = rows;
    this.leadInUse = leadInUse;
    /** @type {Likely[]} */
    this.likely = [];
    /** Of all candidates decided on: 200 Hz samples and scores. @type {number[]} */
    this.at = [];
    /** @type {number[]} */
    this.score = [];
    /** Own envelopes of the last beats, a row for each lead. @type {number[][]} */
    this.sizes = rows.map(() => []);
  }

  /**
   * Look for candidates in some blocks.
   * @param {Traces} traces traces of every lead
   * @param {Float32Array[][]} level of each lead, of the blocks to search and of one more on each side
   * @param {number} back samples of the traces before the first block to search
   * @param {number} stop samples of the traces that there are
   */
  take(traces, level, back, stop) {
    const envelope = this.rows.map((row) => traces.envelope[row]);
    for (const at of candidates(envelope, this.rows.map((row) => level[row]), back)) {
      if (at < stop) this.firstLook(traces, at, level, Math.floor((at - back) / BLOCK) + 1);
    }
  }

  /**
   * Keep a candidate that the first network does not rule out.
   * @param {Traces} traces
   * @param {number} at
   * @param {Float32Array[][]} level
   * @param {number} block place of the candidate's block in `level`
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
    if (!(score > KEEP)) return;
    const lead = every[this.leadInUse] > 0 ? this.leadInUse : argMax(every);
    this.likely.push({
      at: at + traces.start,
      score,
      mixed,
      envelope,
      counted,
      form: features.map((row) => row.slice(FORM[0], FORM[1])),
      ratio: levelRatios(features, counted),
      lead,
      size: beatEnvelope(traces.envelope[lead], at, mine[lead][0]),
    });
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

  /**
   * Say whether a beat is more than noise in a lead whose heart has stopped, or that has come off; remember its size.
   * @param {Likely} beat
   */
  isStrong(beat) {
    const size = beat.envelope.map((height, i) => (beat.counted[i] ? height : 0));
    if (beat.ratio[MEDIAN] < WEAK_RATIO) {
      const weak = size.every((height, i) => {
        const sorted = Float32Array.from(this.sizes[i]).sort();
        const usual = sorted.length ? sorted[sorted.length >> 2] : 0;
        return height < Math.min(Math.max(f(WEAK_SHARE * usual), WEAK_MIN_UV), WEAK_MAX_UV);
      });
      if (weak) return false;
    }
    this.sizes.forEach((row, i) => {
      row.push(size[i]);
      if (row.length > WEAK_OF) row.shift();
    });
    return true;
  }

  /** Return from 0 to 1 how clear-cut the answers before a 200 Hz sample were. @param {number} at */
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

  /** Drop what no decision from a block on looks at. @param {number} decided */
  forget(decided) {
    const oldest = Math.max(decided * BLOCK - MEMORY, 0);
    this.likely = this.likely.filter((candidate) => candidate.at >= oldest);
    const first = searchSorted(this.at, decided * BLOCK - TRUST_FROM - 2 * SAME_BEAT);
    this.at.splice(0, first);
    this.score.splice(0, first);
  }
}

/**
 * Return all leads together, and of several the lead in use and the first others each alone.
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
    /** Beats of any view that have not been decided on, in order of time. @type {ViewBeat[]} */
    this.waiting = [];
    /** 200 Hz samples of each view's last beats, decided on or not. @type {number[][]} */
    this.last = views.map(() => []);
    /** The last one that a lead alone had and that was decided on, whatever became of it. */
    this.added = -Infinity;
    /** The last beats that were accepted. @type {number[]} */
    this.accepted = [];
  }

  /** Take what the views have decided on. @param {ViewBeat[]} fresh */
  take(fresh) {
    this.waiting.push(...fresh);
    this.waiting.sort((a, b) => a.at - b.at || a.view - b.view);
    for (const beat of fresh) this.last[beat.view].push(beat.at);
  }

  /** Say whether a view has a beat near a 200 Hz sample. @param {number} view @param {number} at */
  has(view, at) {
    return this.last[view].some((beatAt) => Math.abs(beatAt - at) <= SAME_BEAT);
  }

  /**
   * Return the beats before a 200 Hz sample that are accepted, in order of time.
   * @param {number} limit
   * @param {number} oldest 200 Hz sample before which no later decision looks
   * @param {(lead: number, at: number) => boolean} active whether anything was to be seen on a lead
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

  /** Return what is added to the log odds of a beat that comes when one is due. @param {ViewBeat} beat */
  due(beat) {
    const intervals = this.accepted.slice(1).map((at, i) => at - this.accepted[i]);
    if (intervals.length < USUAL_FROM || (beat.view && beat.score < DUE_MIN)) return 0;
    const usual = intervals.sort((a, b) => a - b)[intervals.length >> 1];
    return beat.at - this.accepted[this.accepted.length - 1] > DUE_SHARE * usual ? DUE_ODDS : 0;
  }
}
