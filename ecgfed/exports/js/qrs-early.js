/**
 * R peaks a third of a second after the beat: the detector's networks, evaluated before it decides
 * (ecgfed/domain/signal/qrs_early.py).
 */

import { EARLY } from "./early-table.js";
import { rint } from "./numbers.js";
import { REFRACTORY_S, RELATIVE_REFRACTORY_S, SAME_PEAK_S, WEAK_SCORE } from "./qrs-segment.js";
import {
  BLOCK, ENVELOPE_AHEAD, ENVELOPE_BACK, FLOOR_UV, LOOK_AHEAD, LOOK_BACK, RATE_HZ, SPACING, blockStatistics, envelopeOf, leadWeight, levels, peaksOf,
} from "./qrs-signal.js";
import { DUE_MIN, DUE_ODDS, DUE_SHARE, NEAR, NOTHING, SAME_BEAT, THRESHOLD, USUAL_FROM, USUAL_OF } from "./qrs-views.js";

/** @typedef {import("./qrs-segment.js").Segment} Segment */
/** @typedef {import("./qrs-rhythm.js").Likely} Likely */
/** Log odds of a beat, and the candidate whose R peak it has. @typedef {{odds: number, beat: Likely}} Best */
/**
 * A possible beat that has not been announced: the 200 Hz sample of its candidate, whether all leads together have it, and
 * how often it was evaluated.
 * @typedef {{at: number, together: boolean, looks: number}} Wave
 */

const f = Math.fround;
const AGES = EARLY.marks.map(([ageS]) => rint(ageS * RATE_HZ));
const ABSOLUTE = rint(REFRACTORY_S * RATE_HZ);
const RELATIVE = rint(RELATIVE_REFRACTORY_S * RATE_HZ);

/** Evaluates what no look of the detector has reached, as if the signal ended here. */
class Scores {
  /**
   * @param {Segment} segment
   * @param {number[][]} candidates of each view
   */
  constructor(segment, candidates) {
    const { blocks: first, count, statisticsStart: start } = segment;
    this.segment = segment;
    this.candidates = candidates;
    this.traces = segment.tracesOf(segment.decided * BLOCK - LOOK_BACK, count + LOOK_AHEAD, count);
    const known = start + segment.statistics[0].highest.length;
    const statistics = segment.statistics.map(({ highest, middle }, lead) => {
      const fresh = blockStatistics(this.traces.envelope[lead].subarray(known * BLOCK - this.traces.start, count - ENVELOPE_AHEAD - this.traces.start));
      return { highest: [...highest, ...fresh.highest], middle: [...middle, ...fresh.middle] };
    });
    const stop = start + statistics[0].highest.length;
    this.level = statistics.map((lead) => levels(lead, start, first, stop));
    this.last = stop - 1 - first;
    /** Extrema of each lead, computed on demand. @type {(number[] | null)[]} */
    this.turns = segment.statistics.map(() => null);
    /** Candidates of a view and their scores, computed on demand. @type {Map<number, Best[]>} */
    this.known = new Map();
  }

  /** Index of a 200 Hz sample's block. @param {number} at */
  block(at) {
    return Math.min(Math.floor(at / BLOCK) - this.segment.blocks, this.last);
  }

  /** The candidates of a view that the first network does not reject, within some samples of one. @param {number} view @param {number} at @param {number} reach */
  near(view, at, reach) {
    let all = this.known.get(view);
    if (!all) {
      const { traces } = this;
      const one = this.segment.views[view];
      const likely = this.candidates[view].flatMap((sample) => one.firstLook(traces, sample - traces.start, this.level, this.block(sample)) ?? []);
      const odds = one.provisional(likely);
      this.known.set(view, (all = likely.map((beat, i) => ({ beat, odds: odds[i] }))));
    }
    return all.filter(({ beat }) => Math.abs(beat.at - at) <= reach);
  }

  /** A view's candidate with the highest score within some samples of one, or null. @param {number} view @param {number} at @param {number} reach */
  best(view, at, reach) {
    return surest(this.near(view, at, reach));
  }

  /** Views with a vote at a 200 Hz sample: all leads together, and each lead with a signal. @param {number} at */
  voters(at) {
    const block = this.block(at);
    return this.segment.views.flatMap(({ rows }, number) => {
      const level = this.level[rows[0]];
      return !number || leadWeight(level[0][block], level[1][block], level[5][block]) > 0 ? [number] : [];
    });
  }

  /** Sum of the views' log odds, each times its trust. @param {number} at @param {number[]} voters */
  vote(at, voters) {
    let total = 0;
    for (const number of voters) total += (this.best(number, at, NEAR)?.odds ?? NOTHING) * this.segment.views[number].trust(at);
    return total;
  }
}

/** The first one with the highest log odds, or null. @param {Best[]} all */
function surest(all) {
  return all.reduce((/** @type {Best | null} */ best, one) => (best && best.odds >= one.odds ? best : one), null);
}

/** Announces R peaks of a detector's stream before the detector has decided on them; `look` after each `push`. */
export class EarlyPeaks {
  /** @param {import("./qrs.js").QrsDetector} detector */
  constructor(detector) {
    this.detector = detector;
    /** @type {SegmentPeaks | null} */
    this.current = null;
  }

  /** Return the R peaks that are announced now, as samples since the start of the stream. @returns {number[]} */
  look() {
    const { segment } = this.detector;
    if (segment !== (this.current?.segment ?? null)) this.current = segment && new SegmentPeaks(segment);
    return this.current?.look() ?? [];
  }
}

/** The same for one segment. */
class SegmentPeaks {
  /** @param {Segment} segment */
  constructor(segment) {
    this.segment = segment;
    this.blocks = 0;
    this.searched = 0;
    /** 200 Hz samples of each view's candidates. @type {number[][]} */
    this.candidates = segment.views.map(() => []);
    /** @type {Wave[]} */
    this.waves = [];
    /** Announced beats: 200 Hz sample, log odds, R peak in samples of the segment. @type {{at: number, odds: number, peak: number}[]} */
    this.announced = [];
    /** Factors of each lead's envelope, a row per view. @type {Float32Array[]} */
    this.scale = [];
  }

  /** @returns {number[]} */
  look() {
    const { segment } = this;
    if (!segment.blocks) return [];
    segment.resample(false);
    if (segment.blocks !== this.blocks) this.settle();
    const { count } = segment;
    this.search(count - AGES[0] + 1);
    const due = this.waves.filter((wave) => count - wave.at >= AGES[wave.looks]);
    if (!due.length) return [];
    const scores = new Scores(segment, this.candidates);
    this.waves = this.waves.filter((wave) => !due.includes(wave));
    /** @type {number[]} */
    const peaks = [];
    for (const wave of due) {
      const passed = AGES.filter((age) => count - wave.at >= age).length;
      const isLast = passed === AGES.length;
      const judged = this.judged(scores, wave, isLast);
      if (!judged) continue;
      if (judged.odds > EARLY.marks[passed - 1][1]) peaks.push(...this.announce(scores, judged));
      else if (!isLast) this.waves.push({ ...wave, looks: passed });
    }
    return peaks.map((peak) => peak + segment.start);
  }

  /** Use the levels of the last measured block; drop what the detector has searched itself. */
  settle() {
    const { segment } = this;
    const first = segment.blocks * BLOCK;
    this.blocks = segment.blocks;
    this.searched = Math.max(this.searched, first);
    this.candidates = this.candidates.map((some) => some.filter((at) => at >= first));
    this.waves = this.waves.filter((wave) => wave.at >= first);
    this.announced = this.announced.filter(({ at }) => at >= (segment.decided - 2) * BLOCK);
    const { statistics, statisticsStart: start } = segment;
    const known = start + statistics[0].highest.length;
    const level = statistics.map((lead) => levels(lead, start, known - 1, known).map((row) => row[0]));
    const weight = level.map((row) => leadWeight(row[0], row[1], row[5]));
    this.scale = segment.views.map(({ rows }) => {
      const total = Math.max(rows.reduce((sum, row) => f(sum + weight[row]), 0), f(0.05));
      const scale = new Float32Array(weight.length);
      for (const row of rows) scale[row] = f(weight[row] / Math.max(level[row][0], FLOOR_UV)) / total;
      return scale;
    });
  }

  /** Search for candidates up to a 200 Hz sample. @param {number} stop */
  search(stop) {
    const first = this.searched;
    if (stop <= first) return;
    this.searched = stop;
    const stretch = this.segment.stretch(first - SPACING - ENVELOPE_BACK, stop + SPACING + ENVELOPE_AHEAD);
    const envelope = stretch.map((row) => envelopeOf(row).envelope);
    this.scale.forEach((scale, view) => {
      const joint = new Float32Array(stop - first + 2 * SPACING);
      envelope.forEach((row, lead) => {
        if (scale[lead]) for (let i = 0; i < joint.length; i += 1) joint[i] += f(scale[lead] * row[i]);
      });
      for (const at of peaksOf(joint, stop - first, first)) this.add(view, at);
    });
  }

  /** @param {number} view @param {number} at 200 Hz sample of a candidate */
  add(view, at) {
    const isNear = (/** @type {Wave} */ wave) => Math.abs(wave.at - at) <= SAME_BEAT;
    this.candidates[view].push(at);
    if (view && this.waves.some(isNear)) return;
    if (!view) this.waves = this.waves.filter((wave) => wave.together || !isNear(wave)); // it replaces those of one lead
    this.waves.push({ at, together: !view, looks: view ? AGES.length - 1 : 0 });
  }

  /**
   * Log odds of a beat, and the candidate whose R peak it has; null if no view has one.
   * @param {Scores} scores
   * @param {Wave} wave
   * @param {boolean} isLast single leads are then evaluated too, even if all leads together have no beat
   * @returns {Best | null}
   */
  judged(scores, wave, isLast) {
    const together = scores.best(0, wave.at, wave.together ? 0 : SAME_BEAT);
    if (wave.together && !(together && together.odds > EARLY.hopeless)) return null;
    if (together && together.odds <= THRESHOLD && !isLast) return together;
    const voters = scores.voters(wave.at);
    if (together && together.odds > THRESHOLD) {
      if (voters.slice(1).every((view) => scores.near(view, wave.at, SAME_BEAT).some(({ odds }) => odds > THRESHOLD))) return together;
      return { odds: scores.vote(wave.at, voters) + (this.isDue(wave.at) ? DUE_ODDS : 0), beat: together.beat };
    }
    const alone = surest(voters.slice(1).flatMap((view) => scores.best(view, wave.at, SAME_BEAT) ?? []));
    if (!alone || alone.odds <= THRESHOLD) return together ?? alone;
    const { at } = alone.beat;
    const due = alone.odds >= DUE_MIN && this.isDue(at);
    return { odds: scores.vote(at, voters) + (due ? DUE_ODDS : 0), beat: alone.beat };
  }

  /** Whether a beat is due at a 200 Hz sample, by the detector's last beats and those announced since. @param {number} at */
  isDue(at) {
    const known = this.segment.vote.accepted;
    const last = known.at(-1) ?? -1;
    const since = this.announced.map((beat) => beat.at).filter((one) => last + SAME_BEAT < one && one < at).sort((a, b) => a - b);
    const all = [...known, ...since];
    const intervals = all.slice(1).map((one, i) => one - all[i]).slice(-USUAL_OF).sort((a, b) => a - b);
    if (intervals.length < USUAL_FROM) return false;
    return at - (since.at(-1) ?? last) > DUE_SHARE * intervals[intervals.length >> 1];
  }

  /** Return the R peak of a beat, nothing if another announced one is too near, or if it is too late. @param {Scores} scores @param {Best} best */
  announce({ segment, traces, turns }, { odds, beat }) {
    const { at } = beat;
    const isClose = this.announced.some((one) => Math.abs(at - one.at) < (Math.min(odds, one.odds) < WEAK_SCORE ? RELATIVE : ABSOLUTE));
    if (isClose) return [];
    const peak = segment.locate(traces, turns, beat);
    if (segment.samples - peak > EARLY.atMostS * segment.fsHz) return [];
    if (this.announced.some((one) => Math.abs(peak - one.peak) < SAME_PEAK_S * segment.fsHz)) return [];
    this.announced.push({ at, odds, peak });
    return [peak];
  }
}
