/** Beats of a stream: samples in as they come, classes out, those that the whole recording would give. */

import { BeatStream } from "./beat-stream.js";
import { Drift } from "./drift.js";
import { EcgfedError, RecordError } from "./errors.js";
import { millivoltRow, millivoltRows } from "./millivolt.js";
import { checkFs } from "./units.js";

/** @typedef {import("./index.d.ts").StreamBeat} StreamBeat */
/** @typedef {import("./classifier.js").Classifier} Classifier */

/** The longest gap that a stream passes over, a week: more is a wrong clock. */
const LONGEST_GAP_S = 7 * 86_400;

/** @param {unknown} value @returns {value is number} */
const isCount = (value) => Number.isSafeInteger(value) && /** @type {number} */ (value) >= 0;

/** @param {unknown} value a stranger's @returns {string} */
const shortText = (value) => String(value).slice(0, 40);

/** Finds and classifies the beats of a stream; they do not depend on how the stream is cut into chunks. */
export class StreamClassifier {
  /**
   * @param {Classifier} classifier
   * @param {object} options
   * @param {number} options.fsHz sampling frequency in Hz, 100 or more
   * @param {number} [options.leads] how many leads a chunk has
   * @param {number} [options.lead] the lead in use
   * @param {number[]} [options.railsMv] the values at which the converter ends; a stream does not know its own extremes
   * @param {boolean} [options.early] also say at once what a beat would be if none followed, with `stage: "early"`
   * @param {Drift} [options.drift] what to watch the answers with, another one than with the usual bounds
   */
  constructor(classifier, options) {
    const { fsHz, leads = 1, lead = 0, railsMv = [], early = false, drift } = options ?? {};
    if (!classifier?.classes?.length) throw new EcgfedError("classifier", `is ${classifier === null ? "null" : typeof classifier}`, "one of a bundle: await bundle.classifier()");
    checkFs(fsHz, "fsHz", shortText(fsHz), "say the recorder's own");
    if (!(isCount(leads) && isCount(lead) && lead < leads)) {
      throw new RecordError("lead", `is ${shortText(lead)} of ${shortText(leads)}`, "0 to one less than the number of leads");
    }
    this.classifier = classifier;
    this.fsHz = fsHz;
    this.leads = leads;
    /** Whether the patient's beats have changed since the first minutes. */
    this.drift = drift ?? new Drift(classifier.classes.length);
    this.options = { fsHz, leads, lead, railsMv: Array.from(millivoltRow(railsMv, "railsMv")), early: Boolean(early), drift: this.drift };
    /** Samples that were handed over of this recording, gaps included. */
    this.sampleCount = 0;
    this.beats = new BeatStream(classifier, this.options);
    /** @type {Promise<unknown>} */
    this.queue = Promise.resolve();
  }

  /** @deprecated since 0.3, removed in 0.5: use `sampleCount`. */
  get seen() {
    return this.sampleCount;
  }

  /** Duration of the signal received, including gaps, in seconds. */
  get timeS() {
    return this.sampleCount / this.fsHz;
  }

  /**
   * Take the next samples; return the beats that are decided now.
   * @param {(Float64Array | Float32Array | number[])[] | Float64Array | Float32Array | number[]} samplesMv a row for
   *     each lead, or of one lead its samples, millivolt, NaN where there is no sample
   * @param {{atSample?: number}} [options] the recorder's number of the first of them, where it counts: what was left
   *     out is a gap
   * @returns {Promise<StreamBeat[]>}
   */
  async push(samplesMv, options) {
    const rows = millivoltRows(samplesMv, this.leads, "samples");
    const missing = this.missingBefore(options?.atSample);
    const chunk = rows.map((row) => row.slice()); // the caller may write over its own before its turn comes
    this.sampleCount += missing + chunk[0].length;
    return this.inTurn(async () => [...(await this.beats.pass(missing)), ...(await this.beats.steps(chunk))]);
  }

  /** How many samples lie between what has come and a recorder's number. @param {number | null} [atSample] */
  missingBefore(atSample) {
    if (atSample == null || atSample === this.sampleCount) return 0;
    if (!isCount(atSample) || atSample < this.sampleCount) {
      const action = "begin another stream where the recorder's clock was set back";
      throw new RecordError("atSample", `is ${shortText(atSample)}, and ${this.sampleCount} samples have come`, `a whole number, ${this.sampleCount} or more`, action);
    }
    return this.checkedGap(atSample - this.sampleCount);
  }

  /** Return the length of a gap, refused where it is none or too long. @param {number} samples */
  checkedGap(samples) {
    if (isCount(samples) && samples <= LONGEST_GAP_S * this.fsHz) return samples;
    throw new RecordError("gap", `of ${shortText(samples)} samples`, `0 to ${LONGEST_GAP_S / 86_400} days`);
  }

  /**
   * Say that so many samples were not recorded, a week at most; return what `push` does.
   * @param {number} samples
   * @returns {Promise<StreamBeat[]>}
   */
  async gap(samples) {
    this.sampleCount += this.checkedGap(samples);
    return this.inTurn(() => this.beats.pass(samples));
  }

  /** End the recording; return the beats that are left. The next `push` begins another one at sample 0. @returns {Promise<StreamBeat[]>} */
  async finish() {
    const { sampleCount } = this;
    this.sampleCount = 0;
    return this.inTurn(async () => {
      const ended = this.beats;
      this.beats = new BeatStream(this.classifier, this.options);
      return sampleCount ? ended.finish() : [];
    });
  }

  /** Do work after all that was asked for before it, whether that went well or not. @template T @param {() => Promise<T>} work @returns {Promise<T>} */
  inTurn(work) {
    const result = this.queue.then(work);
    this.queue = result.catch(() => undefined);
    return result;
  }
}
