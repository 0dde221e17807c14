/** A recording as a stream: R peaks, windows, features and predictions, step by step (ecgfed/domain/beats/stream.py). */

import { Announcements } from "./announced.js";
import { BandStream } from "./band-stream.js";
import { ContextStream, ProvisionalFeatures } from "./context-stream.js";
import { EARLY } from "./early-table.js";
import { REACH } from "./fir.js";
import { notRecorded } from "./no-signal.js";
import { joined, rint } from "./numbers.js";
import { PacingScore } from "./pacing.js";
import { QrsDetector } from "./qrs.js";
import { EarlyPeaks } from "./qrs-early.js";
import { ALONE, NO_SIGNAL } from "./quality-reasons.js";
import { QualityStream } from "./quality-stream.js";
import { intervalsS, rrFeatures } from "./rr.js";
import { SAMPLES_AFTER } from "./strip.js";
import { FLAG_PADDED, FLAG_POOR_QUALITY, FS_HZ, windowSpan } from "./windows.js";

/** @typedef {import("./index.d.ts").StreamBeat} StreamBeat */
/** @typedef {import("./classifier.js").Classifier} Classifier */
/**
 * A beat that waits for its features.
 * @typedef {import("./context.js").Beat & {sample: number, known: import("./announced.js").Announced | null, flags: number, poor: string[], rr: Float32Array | null, noSignal: boolean, paced: number}} Waiting
 */
/**
 * Options of a stream, the same for all its recordings.
 * @typedef {{fsHz: number, leads: number, lead: number, railsMv: number[], early: boolean | "decided", drift: import("./drift.js").Drift}} StreamOptions
 */

/**
 * A window, and what lies beside it where RR features are of version 3.
 * @typedef {{windowMv: Float32Array, besideMv: Float32Array | null, padded: boolean}} WindowCut
 */
/**
 * A detected R peak: what is known of it, its window once there, and the beat as it was early.
 * @typedef {{peak: number, known: import("./announced.js").Announced, cut: WindowCut | null, early: Waiting | null}} Pending
 */

/** Number of previous peaks needed for RR features of version 1. */
const RR_BACK = 11;
/** Time for which bad segments are stored; no interval is longer than ten seconds. */
const MEMORY_S = 30;
/** Duration of a step, as in Python, and number of steps between quality updates. */
const STEP_S = 0.25;
const QUALITY_STEPS = 4;
/** An early prediction waits for the next R peak so long after its own; its RR features are of so many last beats. */
const EARLY_S = 4;
const EARLY_HISTORY = 256;
/** Maximum delay of the detector. */
const DETECTED_WITHIN_S = 6;
/** Minimum duration of a gap that is processed in leaps, maximum leap, and maximum part of a gap processed at once. */
const DEAD_S = 90;
const LEAP_S = 600;
const GAP_AT_ONCE_S = 600;

const NOTHING = new Float64Array(0);

/** @param {Float64Array[]} rows @param {number} start @param {number} stop */
const anyFinite = (rows, start, stop) => rows.some((row) => row.subarray(start, stop).some(Number.isFinite));

/** Finds and classifies the beats of one recording. */
export class BeatStream {
  /** @param {Classifier} classifier @param {StreamOptions} about */
  constructor(classifier, { fsHz, leads, lead, railsMv, early, drift }) {
    this.classifier = classifier;
    this.fsHz = fsHz;
    this.lead = lead;
    this.reportsEarly = Boolean(early);
    this.drift = drift;
    this.step = Math.max(1, rint(STEP_S * fsHz));
    this.detector = new QrsDetector(fsHz, leads, lead);
    this.earlyPeaks = early === true ? new EarlyPeaks(this.detector) : null;
    /** Number of parts of a step, and of those of the current step that are complete. */
    this.parts = early === true ? EARLY.parts : 1;
    this.part = 0;
    this.known = new Announcements(fsHz);
    /** Beats as they were cut for their first class, by their R peaks. @type {Map<number, Waiting>} */
    this.first = new Map();
    this.received = 0; // number of samples
    this.quality = new QualityStream(fsHz, railsMv);
    const withStrip = classifier.rrVersion === 3;
    this.pacing = new PacingScore(fsHz);
    this.band = new BandStream(fsHz, withStrip);
    const { up, down } = this.band.resampler;
    /** How many samples after an R peak an early prediction waits for at least, as in Python. */
    this.ahead = windowSpan(fsHz, 0)[1] + (withStrip ? Math.ceil((SAMPLES_AFTER * fsHz) / FS_HZ) : 0) + this.band.half + Math.ceil((REACH * Math.max(up, down)) / up + 2) + 2;
    this.context = new ContextStream(withStrip ? 3 : 2);
    this.provisional = new ProvisionalFeatures(withStrip ? 3 : 2);
    this.lastPeak = 0; // the last R peak, 0 before the first one
    this.validUntil = 0; // the end of the last step with valid samples on some lead
    /** Samples of an incomplete step. @type {Float64Array[]} */
    this.rest = Array.from({ length: leads }, () => new Float64Array(0));
    /** Peaks whose window or quality is not known yet. @type {Pending[]} */
    this.pending = [];
    /** Peaks without an early prediction. @type {Pending[]} */
    this.early = [];
    /** The last beats with an early prediction. @type {Waiting[]} */
    this.recent = [];
    /** Beats whose RR features are not known yet. @type {Waiting[]} */
    this.waiting = [];
    /** The last R peaks, for RR features of version 1. @type {number[]} */
    this.peaks = [];
    this.before = -1; // the last R peak that is a beat
  }

  /** Process a gap in parts. @param {number} samples @returns {Promise<StreamBeat[]>} */
  async pass(samples) {
    const beats = [];
    for (let remaining = samples; remaining > 0; ) {
      const some = Math.min(remaining, rint(GAP_AT_ONCE_S * this.fsHz));
      const row = new Float64Array(some).fill(NaN);
      beats.push(...(await this.steps(this.rest.map(() => row))));
      remaining -= some;
    }
    return beats;
  }

  /**
   * Process the stream in complete steps, independently of its chunks; a long gap in leaps.
   * @param {Float64Array[]} chunk
   * @returns {Promise<StreamBeat[]>}
   */
  async steps(chunk) {
    const data = chunk.map((row, lead) => (this.rest[lead].length ? joined([this.rest[lead], row]) : row));
    const beats = [];
    let at = 0;
    try {
      for (;;) {
        if (this.part === this.parts) beats.push(...(await this.look(false)));
        let some = Math.floor((this.step * (this.part + 1)) / this.parts) - Math.floor((this.step * this.part) / this.parts);
        if (data[0].length - at < some) break;
        const leap = this.dead && !this.part ? this.leap(data[0].length - at) : 0;
        const isLeap = leap > 0 && !anyFinite(data, at, at + leap);
        if (isLeap) some = leap;
        this.part = isLeap ? this.parts : this.part + 1;
        at += some;
        beats.push(...(await this.take(data.map((row) => row.subarray(at - some, at)), false)));
      }
    } finally { // after a failed inference these beats are lost, but later sample numbers stay correct
      this.rest = at < data[0].length ? data.map((row) => row.slice(at)) : data.map(() => NOTHING);
    }
    return beats;
  }

  /** Whether the signal has been missing so long that nothing is pending, so that a gap can be processed in leaps. */
  get dead() {
    return this.received - this.validUntil > DEAD_S * this.fsHz && !this.pending.length && this.qualityIsDue;
  }

  get qualityIsDue() {
    return this.received % (QUALITY_STEPS * this.step) === 0;
  }

  /** Return how many missing samples can be processed at once, a multiple of the quality update. @param {number} missing */
  leap(missing) {
    const unit = QUALITY_STEPS * this.step;
    return Math.floor(Math.min(missing, rint(LEAP_S * this.fsHz)) / unit) * unit;
  }

  /** End the recording and return its last beats. */
  async finish() {
    const beats = await this.steps(this.rest.map((row) => row.subarray(0, 0))); // complete steps left by an error
    return [...beats, ...(await this.take(this.rest, true)), ...(await this.look(true))];
  }

  /**
   * Process a part of a step; returns what is known now of R peaks, and the first classes of announced beats.
   * @param {Float64Array[]} data
   * @param {boolean} ended
   * @returns {Promise<StreamBeat[]>}
   */
  async take(data, ended) {
    const peaks = data[0].length ? this.detector.push(data) : [];
    if (ended) peaks.push(...this.detector.finish());
    this.received += data[0].length;
    this.quality.append(data[this.lead]);
    this.band.push(data[this.lead]);
    if (anyFinite(data, 0, data[0].length)) this.validUntil = this.received;
    if (ended) this.band.finish();
    this.lastPeak = peaks.at(-1) ?? this.lastPeak;
    const detected = peaks.map((peak) => ({ peak, known: this.known.decide(peak), cut: null, early: null }));
    this.pending.push(...detected);
    if (this.reportsEarly) this.early.push(...detected);
    if (this.earlyPeaks) {
      this.known.expire(this.received, ended);
      for (const peak of this.earlyPeaks.look()) this.known.announce(peak);
    }
    const events = this.known.taken();
    if (!this.earlyPeaks) return [];
    const beats = events.map(({ stage, beat, sample }) => this.peak(stage, beat, sample));
    return ended ? beats : [...beats, ...(await this.firstClasses())];
  }

  /** Return what is known of the beats after a step, finally and early. @param {boolean} ended */
  async look(ended) {
    this.part = 0;
    if (ended || this.qualityIsDue) this.quality.look(ended);
    for (const peak of this.pending) peak.cut ??= this.band.window(peak.peak);
    const beats = await this.decided(ended);
    if (this.reportsEarly && !ended) beats.push(...(await this.soon()));
    this.quality.forget(Math.min(this.before, this.quality.decided) - MEMORY_S * this.fsHz);
    const silent = Math.max(this.received - this.lastPeak - rint(DETECTED_WITHIN_S * this.fsHz), 0);
    if (this.received) this.drift.quiet(this.received / this.fsHz, silent / this.fsHz);
    return beats;
  }

  /** @param {boolean} ended @returns {Promise<StreamBeat[]>} */
  async decided(ended) {
    /** @type {StreamBeat[]} */
    const withdrawn = [];
    while (this.pending.length) {
      const { peak, known, cut, early } = this.pending[0];
      if (cut === null || (!ended && this.quality.decided < windowSpan(this.fsHz, peak)[1])) break;
      this.pending.shift();
      if (!this.quality.spans(ALONE.spike).inside(peak)) {
        const same = early?.windowMv === cut.windowMv ? early : null; // in a gap the filter held the last sample
        this.add({ ...this.judged(peak, cut, this.before), known, parts: same?.parts, strip: same?.strip });
        continue;
      }
      this.known.remove(known);
      if (early || this.earlyPeaks) withdrawn.push(this.peak("withdrawn", known.beat, peak));
    }
    const ready = this.withFeatures(ended);
    if (!ready.length) return withdrawn;
    for (const { known } of ready) this.known.remove(/** @type {import("./announced.js").Announced} */ (known));
    const predictions = await this.classifier.predictions(ready.map((beat) => beat.windowMv), ready.map((beat) => /** @type {Float32Array} */ (beat.rr)));
    const beats = predictions.map((prediction, i) => this.beat(ready[i], prediction, "final"));
    beats.forEach((beat, i) => beat.override || this.drift.add(beat, ready[i].windowMv));
    return [...withdrawn, ...beats];
  }

  /**
   * @param {Waiting} beat
   * @param {import("./classifier.js").Prediction} prediction
   * @param {StreamBeat["stage"]} stage
   * @returns {StreamBeat}
   */
  beat(beat, prediction, stage) {
    return { ...this.classifier.beat(beat.sample, this.fsHz, beat.flags, beat.poor, prediction), stage, noSignal: beat.noSignal, paced: beat.paced, beat: beat.known?.beat ?? -1, lateS: (this.received - beat.sample) / this.fsHz };
  }

  /** What is reported of an R peak, without a class. @param {StreamBeat["stage"]} stage @param {number} beat @param {number} sample @returns {StreamBeat} */
  peak(stage, beat, sample) {
    const probability = new Float32Array(this.classifier.classes.length);
    const unclassified = this.classifier.beat(sample, this.fsHz, 0, [], { label: -1, probability, outOfDistribution: false, lowConfidence: true });
    return { ...unclassified, override: "", symbol: "", stage, noSignal: false, paced: NaN, beat, lateS: (this.received - sample) / this.fsHz };
  }

  /**
   * @param {number} peak
   * @param {WindowCut} cut
   * @param {number} before the R peak before it, -1 for none
   * @returns {Waiting}
   */
  judged(peak, { windowMv, besideMv, padded }, before) {
    const [start, stop] = windowSpan(this.fsHz, peak);
    const poor = this.quality.reasonsIn(start, stop);
    const lost = this.quality.spans(NO_SIGNAL);
    const flags = Number(padded) * FLAG_PADDED + Number(poor.length > 0) * FLAG_POOR_QUALITY;
    const noSignal = notRecorded(this.fsHz, this.quality)(peak, windowMv);
    const paced = this.pacing.of(this.quality.around(peak, this.pacing.before, this.pacing.after));
    return { sample: peak, known: null, windowMv, besideMv, flags, poor, noSignal, paced, usable: !padded && !lost.overlap(start, stop), beforeS: this.intervalS(before, peak), rr: null };
  }

  /** The interval between two R peaks in seconds, NaN if undefined. @param {number} before -1 for none @param {number} peak */
  intervalS(before, peak) {
    return before < 0 ? NaN : intervalsS([before, peak], this.fsHz, this.quality.spans(NO_SIGNAL).edges())[1];
  }

  /** @param {Waiting} beat */
  add(beat) {
    this.before = beat.sample;
    this.waiting.push(beat);
    const { rrVersion } = this.classifier;
    if (rrVersion >= 2) this.give(this.context.push([beat]));
    else if (rrVersion === 1) this.giveFirst(beat.sample);
    else beat.rr = new Float32Array(0);
  }

  /** Assign features of version 1 to the beat before the last, whose next interval is now known. @param {number} peak */
  giveFirst(peak) {
    this.peaks = [...this.peaks, peak].slice(-RR_BACK - 1);
    const count = this.peaks.length;
    if (count > 1) this.give([rrFeatures(this.peaks, this.fsHz)[count - 2]]);
  }

  /** @param {Float32Array[]} features of the next beats without features */
  give(features) {
    let at = this.waiting.findIndex((beat) => beat.rr === null);
    for (const rr of features) this.waiting[at++].rr = rr;
  }

  /** Remove and return the beats whose features are known. @param {boolean} ended */
  withFeatures(ended) {
    if (ended && this.classifier.rrVersion >= 2) this.give(this.context.finish());
    if (ended && this.classifier.rrVersion === 1 && this.peaks.length) {
      this.give([rrFeatures(this.peaks, this.fsHz)[this.peaks.length - 1]]);
    }
    const first = this.waiting.findIndex((beat) => beat.rr === null);
    return this.waiting.splice(0, first < 0 ? this.waiting.length : first);
  }

  /** Return the early predictions that are due: once the next R peak is known, or EARLY_S later. @returns {Promise<StreamBeat[]>} */
  async soon() {
    /** @type {Pending[]} */
    const due = [];
    const spikes = this.quality.spans(ALONE.spike);
    for (; this.early.length; this.early.shift()) {
      const [first, following] = this.early;
      const since = this.received - first.peak;
      if (since < this.ahead || (!following && since < EARLY_S * this.fsHz)) break;
      if (spikes.inside(first.peak)) continue; // the final predictions decide whether it is a beat
      due.push(first);
      const cut = first.cut ?? /** @type {WindowCut} */ (this.band.window(first.peak, true));
      first.early = { ...this.judged(first.peak, cut, this.recent.at(-1)?.sample ?? -1), known: first.known };
      this.recent.push(first.early);
    }
    if (!due.length) return [];
    this.recent.splice(0, this.recent.length - EARLY_HISTORY);
    const count = due.length;
    const last = /** @type {Waiting} */ (this.recent.at(-1)).sample;
    const following = this.known.between(last, this.received)[0] ?? null; // announced or decided
    return this.reported(this.recent.slice(-count), this.features(this.recent, count, following, following === null ? NaN : this.intervalS(last, following)));
  }

  /**
   * Return the first classes that are due, as if the recording ended here with the next R peak that is known. Beats before
   * them without an early prediction are cut likewise.
   * @returns {Promise<StreamBeat[]>}
   */
  async firstClasses() {
    const { recent } = this;
    const settled = recent.at(-1)?.sample ?? -1;
    const lost = this.quality.spans(NO_SIGNAL).edges();
    const [beats, rr] = [/** @type {Waiting[]} */ ([]), /** @type {Float32Array[]} */ ([])];
    const due = this.known.due(this.received, this.ahead - this.band.half, Math.ceil(this.step / EARLY.parts));
    if (due.length) for (const sample of this.first.keys()) if (sample <= settled) this.first.delete(sample);
    for (const { known, following } of due) {
      known.classified = true;
      const samples = this.known.between(settled, known.sample);
      if (!samples.length) continue; // it has an early prediction already
      const at = [...(recent.length ? [settled] : []), ...samples, ...(following === null ? [] : [following])];
      const beforeS = intervalsS(at, this.fsHz, lost).slice(Number(recent.length > 0));
      const before = samples.map((sample, i) => Object.assign(this.firstCut(sample), { beforeS: beforeS[i] }));
      rr.push(...this.features([...recent, ...before].slice(-EARLY_HISTORY), 1, following, beforeS[samples.length]));
      beats.push(Object.assign(before[before.length - 1], { known }));
    }
    return this.reported(beats, rr);
  }

  /** The beat at an R peak as it was when it was cut first. @param {number} sample @returns {Waiting} */
  firstCut(sample) {
    const cut = this.first.get(sample) ?? this.judged(sample, /** @type {WindowCut} */ (this.band.window(sample, true)), -1);
    this.first.set(sample, cut);
    return cut;
  }

  /**
   * Return the early classes that have not been reported.
   * @param {Waiting[]} beats
   * @param {Float32Array[]} rr
   * @returns {Promise<StreamBeat[]>}
   */
  async reported(beats, rr) {
    if (!beats.length) return [];
    const predictions = await this.classifier.predictions(beats.map((beat) => beat.windowMv), rr);
    return predictions.flatMap((prediction, i) => {
      const { known } = beats[i];
      if (!known || known.label === prediction.label) return [];
      known.label = prediction.label;
      return [this.beat(beats[i], prediction, "early")];
    });
  }

  /**
   * Features of the last beats as if the next R peak were all that follows.
   * @param {Waiting[]} beats
   * @param {number} count one or more
   * @param {number | null} following the next R peak if it is known
   * @param {number} afterS interval up to it in seconds, NaN if undefined or unknown
   * @returns {Float32Array[]}
   */
  features(beats, count, following, afterS) {
    const { rrVersion } = this.classifier;
    if (rrVersion === 0) return Array.from({ length: count }, () => new Float32Array(0));
    if (rrVersion > 1) return this.provisional.of(beats, count, afterS);
    const samples = beats.map((beat) => beat.sample);
    return rrFeatures([...samples, ...(following === null ? [] : [following])], this.fsHz).slice(samples.length - count, samples.length);
  }
}
