/**
 * A segment of a stream without gaps: the state of the detector and its pending decisions
 * (ecgfed/domain/signal/qrs_segment.py).
 */

import { argMax, clip, rint } from "./numbers.js";
import { REACH, extrema, turnsOf } from "./qrs-features.js";
import { peakScore } from "./qrs-net.js";
import { Averager } from "./qrs-resample.js";
import { BLOCKS_AHEAD } from "./qrs-rhythm.js";
import {
  BLOCK, FIRST_BLOCKS, HALF, LOOK_AHEAD, LOOK_BACK, NEEDED_AHEAD, RATE_HZ, blockStatistics, continued, leadWeight, levels, traces,
} from "./qrs-signal.js";
import { SAME_BEAT, LeadVote, viewsOf } from "./qrs-views.js";

/** @typedef {import("./qrs-signal.js").Traces} Traces */
/** @typedef {import("./qrs-rhythm.js").Likely} Likely */
/** @typedef {import("./qrs-views.js").ViewBeat} ViewBeat */

/** Minimum distance of two beats, and minimum distance unless the log odds of both reach WEAK_SCORE. */
export const REFRACTORY_S = 0.14;
export const RELATIVE_REFRACTORY_S = 0.185;
export const WEAK_SCORE = 0.5;
/** Maximum distance of peaks that were refined to the same extremum. */
export const SAME_PEAK_S = 0.065;
const LIMIT_MV = 1000;
const LEVELS_OF = 30;

/** @param {Int32Array[]} parts */
function joined(parts) {
  const out = new Int32Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    out.set(part, at);
    at += part.length;
  }
  return out;
}

/** @param {Int32Array} values @param {number} before @param {number} after */
function edged(values, before, after) {
  const out = new Int32Array(before + values.length + after);
  out.set(values, before);
  out.fill(values[0], 0, before);
  out.fill(values[values.length - 1], before + values.length);
  return out;
}

/** Microvolts of one lead; the signal continues from its last value after missing samples. */
class Microvolts {
  constructor() {
    this.last = 0;
    this.out = 0;
    this.wasMissing = true;
  }

  /** @param {Float64Array} dataMv NaN if missing */
  take(dataMv) {
    const out = new Int32Array(dataMv.length);
    for (let i = 0; i < dataMv.length; i += 1) {
      const missing = !Number.isFinite(dataMv[i]);
      if (!missing) {
        const valueUv = rint(clip(dataMv[i], -LIMIT_MV, LIMIT_MV) * 1000);
        if (!this.wasMissing) this.out = (this.out + valueUv - this.last) | 0;
        this.last = valueUv;
      }
      this.wasMissing = missing;
      out[i] = this.out;
    }
    return out;
  }
}

/** Processes the samples of a segment and returns new R peaks. */
export class Segment {
  /**
   * @param {number} fsHz
   * @param {number} leads
   * @param {number} lead the lead whose extremum is the R peak
   * @param {number} start first sample of the segment in the stream
   */
  constructor(fsHz, leads, lead, start) {
    this.fsHz = fsHz;
    this.start = start;
    this.averager = new Averager(fsHz);
    this.microvolts = Array.from({ length: leads }, () => new Microvolts());
    this.raw = this.microvolts.map(() => new Int32Array(0));
    this.rawStart = 0;
    /** Samples that wait for those of a whole block. @type {Int32Array[][]} */
    this.waiting = this.microvolts.map(() => []);
    this.received = 0; // number of samples, with those that wait
    this.signal = this.microvolts.map(() => new Int32Array(0));
    this.signalStart = 0;
    /** Traces of the last look, and where they end that later samples do not change. @type {Traces | null} */
    this.traces = null;
    this.tracesUntil = 0;
    this.statistics = this.microvolts.map(() => ({ highest: /** @type {number[]} */ ([]), middle: /** @type {number[]} */ ([]) }));
    this.statisticsStart = 0;
    this.blocks = 0; // number of blocks searched
    this.decided = 0;
    this.views = viewsOf(leads, lead);
    this.vote = new LeadVote(this.views);
    /** For each block from `activeStart` on, which leads had a signal. @type {boolean[][]} */
    this.active = [];
    this.activeStart = 0;
    /** @type {ViewBeat | null} */
    this.open = null;
    this.reported = -1;
  }

  /** Number of 200 Hz samples, without those that wait. */
  get count() {
    return this.signalStart + this.signal[0].length;
  }

  /** Number of samples, without those that wait. */
  get samples() {
    return this.rawStart + this.raw[0].length;
  }

  /**
   * Process samples; `ended` at the end of the segment.
   * @param {Float64Array[]} dataMv a row per lead, NaN if missing
   * @param {boolean} ended
   * @returns {number[]} peaks as samples of the stream
   */
  feed(dataMv, ended) {
    this.received += dataMv[0].length;
    this.waiting.forEach((parts, lead) => parts.push(this.microvolts[lead].take(dataMv[lead])));
    const next = this.blocks ? this.blocks + 1 : FIRST_BLOCKS - 1;
    if (!ended && this.averager.count(this.received, false) - NEEDED_AHEAD < next * BLOCK) return [];
    const count = this.resample(ended);
    const stop = ended ? Math.ceil(count / BLOCK) : Math.floor((count - NEEDED_AHEAD) / BLOCK);
    /** @type {number[]} */
    let peaks = [];
    if (stop > this.blocks && (ended || stop >= FIRST_BLOCKS - 1)) peaks = this.look(stop, count, ended);
    if (ended) this.report(peaks);
    this.forget();
    return peaks.map((peak) => peak + this.start);
  }

  /** Resample the samples that wait; returns the number of 200 Hz samples. @param {boolean} ended */
  resample(ended) {
    this.raw = this.raw.map((row, lead) => joined([row, ...this.waiting[lead].splice(0)]));
    const { count: have, samples: total } = this;
    const count = this.averager.count(total, ended);
    if (count > have) {
      const more = this.raw.map((row) => this.averager.average(row, this.rawStart, have, count, ended ? total : null));
      this.signal = this.signal.map((row, lead) => joined([row, more[lead]]));
    }
    return count;
  }

  /**
   * Return a part of the 200 Hz signal, continued beyond its ends.
   * @param {number} low
   * @param {number} high
   */
  stretch(low, high) {
    const { count, signalStart } = this;
    return this.signal.map((row) => {
      const part = row.subarray(Math.max(low, 0) - signalStart, Math.min(high, count) - signalStart);
      return low < 0 || high > count ? edged(part, Math.max(-low, 0), Math.max(high - count, 0)) : part;
    });
  }

  /**
   * Search the blocks up to `stop` and make decisions; returns the final R peaks.
   * @param {number} stop
   * @param {number} count
   * @param {boolean} ended
   */
  look(stop, count, ended) {
    const first = this.blocks;
    this.blocks = stop;
    const decide = ended ? stop : Math.max(stop - BLOCKS_AHEAD, 0);
    const stretchTraces = this.tracesOf(this.decided * BLOCK - LOOK_BACK, stop * BLOCK + LOOK_AHEAD, count);
    const back = first * BLOCK - stretchTraces.start;
    this.measure(stretchTraces, ended ? count : (stop + 1) * BLOCK);
    const level = this.levels(first, stop);
    for (let i = 1; i <= stop - first; i += 1) {
      this.active.push(level.map((rows) => leadWeight(rows[0][i], rows[1][i], rows[5][i]) > 0));
    }
    for (const view of this.views) view.take(stretchTraces, level, back, count - stretchTraces.start);
    this.vote.take(this.beatsOfViews(stretchTraces, decide));
    this.decided = decide;
    const limit = ended || this.views.length === 1 ? decide * BLOCK : decide * BLOCK - SAME_BEAT;
    const isActive = (/** @type {number} */ lead, /** @type {number} */ at) =>
      this.active[Math.floor(at / BLOCK) - this.activeStart][lead];
    const chosen = this.vote.decide(ended ? count : limit, limit - 2 * SAME_BEAT, isActive);
    for (const view of this.views) view.forget(decide);
    const activeStart = Math.max(decide - 2, this.activeStart);
    this.active.splice(0, activeStart - this.activeStart);
    this.activeStart = activeStart;
    return this.refractory(chosen, limit);
  }

  /**
   * Return the traces of a part of the signal; what was had of them before is not computed again.
   * @param {number} low first sample of the signal that they depend on
   * @param {number} high
   * @param {number} count number of samples of the signal, which is continued beyond its ends
   * @returns {Traces}
   */
  tracesOf(low, high, count) {
    const kept = this.traces;
    const from = kept ? Math.max(this.tracesUntil, low + HALF) : low + HALF;
    let found = traces(this.stretch(from - HALF, high), from - HALF);
    if (kept && from > low + HALF) found = continued(kept, low + HALF, found);
    [this.traces, this.tracesUntil] = [found, Math.min(high, count) - HALF];
    return found;
  }

  /**
   * Return the beats of each view in the undecided blocks up to `decide`, with their R peaks.
   * @param {Traces} stretchTraces
   * @param {number} decide
   */
  beatsOfViews(stretchTraces, decide) {
    const turns = stretchTraces.smooth.map(() => /** @type {number[] | null} */ (null));
    const together = [...this.vote.last[0]];
    return this.views.flatMap((view, number) =>
      view.secondLook(this.decided, decide).map(({ likely, score }) => {
        // beats of the combined view already have an R peak
        const known = number > 0 && together.some((at) => Math.abs(at - likely.at) <= SAME_BEAT);
        if (number === 0) together.push(likely.at);
        return { at: likely.at, view: number, score, peak: known ? 0 : this.locate(stretchTraces, turns, likely) };
      }),
    );
  }

  /**
   * Compute the missing block statistics up to a 200 Hz sample.
   * @param {Traces} stretchTraces
   * @param {number} stop
   */
  measure(stretchTraces, stop) {
    const known = this.statisticsStart + this.statistics[0].highest.length;
    const [from, to] = [known * BLOCK - stretchTraces.start, stop - stretchTraces.start];
    if (to <= from) return;
    stretchTraces.envelope.forEach((row, lead) => {
      const more = blockStatistics(row.subarray(from, to));
      this.statistics[lead].highest.push(...more.highest);
      this.statistics[lead].middle.push(...more.middle);
    });
  }

  /**
   * Return each lead's levels of a range of blocks plus one on each side.
   * @param {number} first
   * @param {number} stop
   */
  levels(first, stop) {
    const known = this.statisticsStart + this.statistics[0].highest.length;
    const [low, high] = [Math.max(first - 1, 0), Math.min(stop + 1, known)];
    return this.statistics.map((lead) =>
      levels(lead, this.statisticsStart, low, high).map((row) => {
        const out = new Float32Array(stop - first + 2);
        out.set(row, low - first + 1);
        out.fill(row[0], 0, low - first + 1);
        out.fill(row[row.length - 1], low - first + 1 + row.length);
        return out;
      }),
    );
  }

  /**
   * Return the R peak of a beat, in samples of the segment.
   * @param {Traces} stretchTraces
   * @param {(number[] | null)[]} turns of each lead, computed on demand
   * @param {Likely} beat
   */
  locate(stretchTraces, turns, beat) {
    const smooth = stretchTraces.smooth[beat.lead];
    const mine = (turns[beat.lead] ??= turnsOf(smooth));
    const peaks = extrema(stretchTraces, beat.lead, mine, beat.at - stretchTraces.start, beat.size);
    const best = argMax(peaks.map(({ exists, features }) => (exists ? peakScore(features) : -Infinity)));
    const chosen = peaks[best].position;
    const up = 2 * smooth[chosen] >= smooth[chosen - 3] + smooth[chosen + 3];
    return this.refine(beat.lead, chosen + stretchTraces.start, up);
  }

  /**
   * Refine a 200 Hz sample to the extremum within 8 ms at the sampling frequency of the stream, smoothed over 5 ms.
   * @param {number} lead
   * @param {number} position
   * @param {boolean} up
   */
  refine(lead, position, up) {
    const reach = Math.max(1, rint(0.008 * this.fsHz));
    const half = Math.trunc(this.fsHz / RATE_HZ / 2);
    const end = this.rawStart + this.raw[0].length;
    const centre = rint(position * (this.fsHz / RATE_HZ));
    let [best, shift] = [-Infinity, 0];
    for (let offset = -reach; offset <= reach; offset += 1) {
      let sum = 0;
      for (let i = offset - half; i <= offset + half; i += 1) {
        sum += this.raw[lead][clip(centre + i, this.rawStart, end - 1) - this.rawStart];
      }
      const high = up ? sum : -sum;
      if (high > best) [best, shift] = [high, offset];
    }
    return clip(centre + shift, 0, end - 1);
  }

  /**
   * Of two beats within the refractory period the one with the higher score remains; returns the final peaks.
   * @param {ViewBeat[]} beats
   * @param {number} stop
   */
  refractory(beats, stop) {
    /** @type {number[]} */
    const peaks = [];
    const absolute = rint(REFRACTORY_S * RATE_HZ);
    const relative = rint(RELATIVE_REFRACTORY_S * RATE_HZ);
    for (const beat of beats) {
      const weak = this.open !== null && Math.min(this.open.score, beat.score) < WEAK_SCORE;
      if (this.open !== null && beat.at - this.open.at < (weak ? relative : absolute)) {
        if (beat.score >= this.open.score) this.open = beat; // among equals the later one
      } else {
        this.report(peaks);
        this.open = beat;
      }
    }
    if (this.open !== null && stop - this.open.at >= relative) this.report(peaks);
    return peaks;
  }

  /** Report the open beat; if its R peak coincides with the last one, at the centre of its envelope. @param {number[]} peaks */
  report(peaks) {
    if (this.open === null) return;
    const spacing = SAME_PEAK_S * this.fsHz;
    let { peak } = this.open;
    if (peak - this.reported < spacing) peak = rint((this.open.at * this.fsHz) / RATE_HZ);
    this.open = null;
    if (this.reported < 0 || peak - this.reported >= spacing) {
      this.reported = peak;
      peaks.push(peak);
    }
  }

  /** Drop everything that later decisions do not need. */
  forget() {
    const keep = Math.max(this.decided * BLOCK - LOOK_BACK, this.signalStart);
    this.signal = this.signal.map((row) => row.slice(keep - this.signalStart));
    this.signalStart = keep;
    const step = this.fsHz / RATE_HZ;
    const oldest = Math.min(this.decided * BLOCK - 2 * REACH, keep + this.signal[0].length);
    const rawKeep = Math.max(Math.floor((oldest - 1) * step) - 2, this.rawStart);
    this.raw = this.raw.map((row) => row.slice(rawKeep - this.rawStart));
    this.rawStart = rawKeep;
    const first = Math.max(this.blocks - LEVELS_OF, this.statisticsStart);
    for (const lead of this.statistics) {
      lead.highest.splice(0, first - this.statisticsStart);
      lead.middle.splice(0, first - this.statisticsStart);
    }
    this.statisticsStart = first;
  }
}
