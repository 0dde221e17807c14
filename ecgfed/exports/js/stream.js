/** Classify beats while they are recorded: the final predictions equal those of the whole recording. */

import { BeatStream } from "./beat-stream.js";
import { Counters } from "./counters.js";
import { Drift } from "./drift.js";
import { EcgfedError, RecordError } from "./errors.js";
import { millivoltRow, millivoltRows } from "./millivolt.js";
import { checkFs } from "./units.js";

/** @typedef {import("./index.d.ts").StreamBeat} StreamBeat */
/** @typedef {import("./classifier.js").Classifier} Classifier */

/** Longest accepted gap in a stream, one week; a longer one indicates a wrong clock. */
const LONGEST_GAP_S = 7 * 86_400;

/** @param {unknown} value @returns {value is number} */
const isCount = (value) => Number.isSafeInteger(value) && /** @type {number} */ (value) >= 0;

/** @param {unknown} value untrusted @returns {string} */
const shortText = (value) => String(value).slice(0, 40);

/** Classifies the beats of a stream; predictions do not depend on how the samples are split into chunks. */
export class StreamClassifier {
  /**
   * @param {Classifier} classifier
   * @param {object} options
   * @param {number} options.fsHz sampling frequency in Hz, 100 or more
   * @param {number} [options.leads] number of leads of a chunk
   * @param {number} [options.lead] the lead in use
   * @param {number[]} [options.railsMv] limits of the converter, if known: a stream does not know its extremes
   * @param {boolean | "decided"} [options.early] also announce R peaks and report classes early (`true`), or early classes alone
   *     once the detector has decided on the R peak (`"decided"`)
   * @param {Drift} [options.drift] drift detector; default bounds if omitted
   */
  constructor(classifier, options) {
    const { fsHz, leads = 1, lead = 0, railsMv = [], early = false, drift } = options ?? {};
    if (!classifier?.classes?.length) throw new EcgfedError("classifier", `is ${classifier === null ? "null" : typeof classifier}`, "one of a bundle: await bundle.classifier()");
    checkFs(fsHz, "fsHz", shortText(fsHz), "say the recorder's own");
    if (!(isCount(leads) && isCount(lead) && lead < leads)) {
      throw new RecordError("lead", `is ${shortText(lead)} of ${shortText(leads)}`, "0 to one less than the number of leads");
    }
    if (early !== true && early !== false && early !== "decided") throw new EcgfedError("early", `is ${shortText(early)}`, 'true, false or "decided"');
    this.classifier = classifier;
    this.fsHz = fsHz;
    this.leads = leads;
    /** Whether the patient's beats have changed since the first minutes. */
    this.drift = drift ?? new Drift(classifier.classes.length);
    /** Counts since the stream was made. */
    this.counters = new Counters(classifier.classes.length);
    this.options = { fsHz, leads, lead, railsMv: Array.from(millivoltRow(railsMv, "railsMv")), early, drift: this.drift };
    /** Number of samples received of this recording, including gaps. */
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
   * Process the next samples and return new predictions.
   * @param {(Float64Array | Float32Array | number[])[] | Float64Array | Float32Array | number[]} samplesMv a row per
   *     lead, or the samples of a single lead, in millivolt, NaN if missing
   * @param {{atSample?: number}} [options] the recorder's number of the first sample, if it counts; skipped
   *     numbers are a gap
   * @returns {Promise<StreamBeat[]>}
   */
  async push(samplesMv, options) {
    const rows = millivoltRows(samplesMv, this.leads, "samples");
    const missing = this.missingBefore(options?.atSample);
    const chunk = rows.map((row) => row.slice()); // the caller may overwrite its arrays before they are processed
    this.sampleCount += missing + chunk[0].length;
    this.addMissing(missing);
    this.counters.addSamples(chunk[this.options.lead]);
    return this.inTurn(async () => [...(await this.beats.pass(missing)), ...(await this.beats.steps(chunk))]);
  }

  /** Return the number of samples missing before a recorder's sample number. @param {number | null} [atSample] */
  missingBefore(atSample) {
    if (atSample == null || atSample === this.sampleCount) return 0;
    if (!isCount(atSample) || atSample < this.sampleCount) {
      const action = "begin another stream where the recorder's clock was set back";
      throw new RecordError("atSample", `is ${shortText(atSample)}, and ${this.sampleCount} samples have come`, `a whole number, ${this.sampleCount} or more`, action);
    }
    return this.checkedGap(atSample - this.sampleCount);
  }

  /** Return the length of a gap; throws if it is not a count or too long. @param {number} samples */
  checkedGap(samples) {
    if (isCount(samples) && samples <= LONGEST_GAP_S * this.fsHz) return samples;
    throw new RecordError("gap", `of ${shortText(samples)} samples`, `0 to ${LONGEST_GAP_S / 86_400} days`);
  }

  /**
   * Report missing samples, one week at most; returns predictions as `push` does.
   * @param {number} samples
   * @returns {Promise<StreamBeat[]>}
   */
  async gap(samples) {
    this.sampleCount += this.checkedGap(samples);
    this.addMissing(samples);
    return this.inTurn(() => this.beats.pass(samples));
  }

  /** End the recording and return its last predictions; the next `push` begins another one at sample 0. @returns {Promise<StreamBeat[]>} */
  async finish() {
    const { sampleCount } = this;
    this.sampleCount = 0;
    return this.inTurn(async () => {
      const ended = this.beats;
      this.beats = new BeatStream(this.classifier, this.options);
      return sampleCount ? ended.finish() : [];
    });
  }

  /** @param {number} samples */
  addMissing(samples) {
    this.counters.samples += samples;
    this.counters.missing += samples;
  }

  /** Run work after all earlier work, whether that succeeded or not. @param {() => Promise<StreamBeat[]>} work @returns {Promise<StreamBeat[]>} */
  inTurn(work) {
    const result = this.queue.then(work).then((beats) => {
      for (const beat of beats) if (beat.stage === "final") this.counters.add(beat);
      return beats;
    });
    this.queue = result.catch(() => undefined);
    return result;
  }
}
