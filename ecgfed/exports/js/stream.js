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
const said = (value) => String(value).slice(0, 40);

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
    checkFs(fsHz, "fsHz", said(fsHz), "say the recorder's own");
    if (!(isCount(leads) && isCount(lead) && lead < leads)) {
      throw new RecordError("lead", `is ${said(lead)} of ${said(leads)}`, "0 to one less than the number of leads");
    }
    this.classifier = classifier;
    this.fsHz = fsHz;
    this.leads = leads;
    /** Whether the patient's beats have changed since the first minutes. */
    this.drift = drift ?? new Drift(classifier.classes.length);
    this.about = { fsHz, leads, lead, railsMv: Array.from(millivoltRow(railsMv, "railsMv")), early: Boolean(early), drift: this.drift };
    /** Samples that were handed over of this recording, gaps included. */
    this.seen = 0;
    this.beats = new BeatStream(classifier, this.about);
    /** @type {Promise<unknown>} */
    this.queue = Promise.resolve();
  }

  /** How much signal has come, gaps included, in seconds. */
  get timeS() {
    return this.seen / this.fsHz;
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
    const given = millivoltRows(samplesMv, this.leads, "samples");
    const missing = this.missingBefore(options?.atSample);
    const chunk = given.map((row) => row.slice()); // the caller may write over its own before its turn comes
    this.seen += missing + chunk[0].length;
    return this.inTurn(async () => [...(await this.beats.pass(missing)), ...(await this.beats.steps(chunk))]);
  }

  /** How many samples lie between what has come and a recorder's number. @param {number | null} [atSample] */
  missingBefore(atSample) {
    if (atSample == null || atSample === this.seen) return 0;
    if (!isCount(atSample) || atSample < this.seen) {
      const action = "begin another stream where the recorder's clock was set back";
      throw new RecordError("atSample", `is ${said(atSample)}, and ${this.seen} samples have come`, `a whole number, ${this.seen} or more`, action);
    }
    return this.checkedGap(atSample - this.seen);
  }

  /** Return the length of a gap, refused where it is none or too long. @param {number} samples */
  checkedGap(samples) {
    if (isCount(samples) && samples <= LONGEST_GAP_S * this.fsHz) return samples;
    throw new RecordError("gap", `of ${said(samples)} samples`, `0 to ${LONGEST_GAP_S / 86_400} days`);
  }

  /**
   * Say that so many samples were not recorded, a week at most; return what `push` does.
   * @param {number} samples
   * @returns {Promise<StreamBeat[]>}
   */
  async gap(samples) {
    this.seen += this.checkedGap(samples);
    return this.inTurn(() => this.beats.pass(samples));
  }

  /** End the recording; return the beats that are left. The next `push` begins another one at sample 0. @returns {Promise<StreamBeat[]>} */
  async finish() {
    const { seen } = this;
    this.seen = 0;
    return this.inTurn(async () => {
      const ended = this.beats;
      this.beats = new BeatStream(this.classifier, this.about);
      return seen ? ended.finish() : [];
    });
  }

  /** Do work after all that was asked for before it, whether that went well or not. @template T @param {() => Promise<T>} work @returns {Promise<T>} */
  inTurn(work) {
    const done = this.queue.then(work);
    this.queue = done.catch(() => undefined);
    return done;
  }
}
