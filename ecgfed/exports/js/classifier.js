/** Classifier: a chain of ONNX graphs with calibrated probabilities (ecgfed/exports/device/classifier.py, calibration.py). */

import { averaged, pointOf } from "./alike.js";
import { detectAroundGaps } from "./around-gaps.js";
import { BundleError, EcgfedError, RecordError } from "./errors.js";
import { chooseLead } from "./leads.js";
import { millivoltRow, shapeOf } from "./millivolt.js";
import { withoutSignal } from "./no-signal.js";
import { argMax } from "./numbers.js";
import { leadQuality } from "./quality.js";
import { REASONS } from "./quality-reasons.js";
import { checkFs } from "./units.js";
import { RR_NAMES, WINDOW_SAMPLES, windowSpan, windowsAround } from "./windows.js";

/** @typedef {import("./index.d.ts").Beat} Beat */
/** @typedef {import("./index.d.ts").Recording} Recording */
/** @typedef {import("./windows.js").Windows} Windows */
/**
 * A graph's file, its ONNX Runtime session, and its fixed batch size, or null if it is variable.
 * @typedef {{name: string, session: any, batch: number | null}} Graph
 */
/** @typedef {{label: number, probability: Float32Array, outOfDistribution: boolean, lowConfidence: boolean}} Prediction -1 if unclassified */

/** WFDB symbol of a beat without a class. */
export const UNCLASSIFIED = "Q";
/** Batch size. */
const AT_ONCE = 32;
const f = Math.fround;
/** @param {Float32Array} row */
const allFinite = (row) => row.every(Number.isFinite);

/**
 * Probabilities of logits, in float32.
 * @param {Float32Array} logits of one beat
 * @param {number} temperature
 */
export function softmax(logits, temperature) {
  const scaled = logits.map((logit) => logit / f(temperature));
  const highest = scaled.reduce((high, value) => Math.max(high, value), -Infinity);
  const shifted = Array.from(scaled, (value) => Math.exp(f(value - highest)));
  const sum = shifted.reduce((total, value) => total + value, 0);
  return Float32Array.from(shifted, (value) => value / sum);
}

/** A chain of graphs with its calibration. Created by `Bundle.classifier`. */
export class Classifier {
  /**
   * @param {object} parts
   * @param {any} parts.ort ONNX Runtime
   * @param {Graph[]} parts.chain
   * @param {Graph | null} parts.oodGraph distance of a beat from the prototypes of training beats
   * @param {number} parts.oodThreshold
   * @param {readonly string[]} parts.classes
   * @param {readonly string[]} parts.symbols the WFDB symbol of each class
   * @param {readonly string[]} parts.leads in order of preference
   * @param {0 | 1 | 2 | 3} parts.rrVersion
   * @param {{temperature: number, threshold: number}} parts.certainty
   * @param {boolean} [parts.personal] whether it is a patient's own model
   */
  constructor({ ort, chain, oodGraph, oodThreshold, classes, symbols, leads, rrVersion, certainty, personal = false }) {
    this.ort = ort;
    this.chain = chain;
    this.oodGraph = oodGraph;
    this.oodThreshold = f(oodThreshold);
    this.classes = classes;
    this.symbols = symbols;
    this.leads = leads;
    this.rrVersion = rrVersion;
    this.certainty = certainty;
    /** Whether `classify` averages the answers of alike beats: a personal model knows the patient's own beats. */
    this.averagedOverAlikeBeats = rrVersion === 3 && !personal;
  }

  /** Release the ONNX Runtime sessions and their memory; the classifier cannot be used afterwards. */
  async release() {
    const graphs = [...this.chain, ...(this.oodGraph ? [this.oodGraph] : [])];
    [this.chain, this.oodGraph] = [[], null];
    await Promise.all(graphs.map(({ session }) => session.release()));
  }

  /**
   * Return the logits of beats, one row per beat; NaN if a graph has answered with values that are not finite.
   * @param {Float32Array[]} windowMv 256 samples each, millivolt at 360 Hz, filtered
   * @param {Float32Array[]} rr RR features of the version `rrVersion`
   */
  async logits(windowMv, rr) {
    const logits = [];
    for (let start = 0; start < windowMv.length; start += AT_ONCE) {
      const some = { windowMv: windowMv.slice(start, start + AT_ONCE), rr: rr.slice(start, start + AT_ONCE) };
      logits.push(...(await this.runChain(some.windowMv, some.rr)));
    }
    return logits;
  }

  /** @param {Float32Array[]} windowMv @param {Float32Array[]} rr */
  async runChain(windowMv, rr) {
    if (!this.chain.length) throw new EcgfedError("classifier", "was released", "", "open another one: await bundle.classifier()");
    /** @type {Record<string, any>} */
    let feeds = { window: this.tensor("window", windowMv, [1, WINDOW_SAMPLES]) };
    if (this.rrVersion) feeds.rr = this.tensor("rr", rr, [RR_NAMES[this.rrVersion].length]);
    let value;
    const finite = windowMv.map(() => true);
    for (const graph of this.chain) {
      value = await this.run(graph, feeds, windowMv.length);
      value.rows.forEach((row, i) => (finite[i] &&= allFinite(row)));
      feeds = { [value.name]: value.tensor };
    }
    if (value?.name !== "logits" || value.width !== this.classes.length) {
      throw new BundleError(this.chain[this.chain.length - 1].name, `gives ${value?.name}`, `logits of ${this.classes.length} classes`);
    }
    return value.rows.map((row, i) => (finite[i] ? row : row.fill(NaN)));
  }

  /**
   * @param {string} name
   * @param {Float32Array[]} rows
   * @param {number[]} shape of one
   */
  tensor(name, rows, shape) {
    const size = shape.reduce((product, length) => product * length, 1);
    const data = new Float32Array(rows.length * size);
    rows.forEach((row, i) => {
      if (row.length !== size || !allFinite(row)) throw new RecordError(name, "values that are not finite, or too few", `${size} numbers a beat`);
      data.set(row, i * size);
    });
    return new this.ort.Tensor("float32", data, [rows.length, ...shape]);
  }

  /**
   * Run one graph for some beats.
   * @param {Graph} graph
   * @param {Record<string, any>} feeds
   * @param {number} beats
   */
  async run(graph, feeds, beats) {
    const { inputNames, outputNames } = graph.session;
    if (outputNames.length !== 1 || inputNames.some((/** @type {string} */ name) => !feeds[name])) {
      throw new BundleError(graph.name, `takes ${inputNames.join(" and ")}, gives ${outputNames.join(" and ")}`, "what its chain gives it, and one value");
    }
    const size = graph.batch ?? beats;
    const batches = [];
    for (let start = 0; start < beats; start += size) {
      const inputs = Object.fromEntries(inputNames.map((/** @type {string} */ name) => [name, this.part(feeds[name], start, size, beats)]));
      batches.push(await this.runPart(graph, inputs, size));
    }
    const width = batches[0].dims[1];
    const single = batches.length === 1 && size === beats;
    const data = single ? batches[0].data : new Float32Array(batches.length * size * width);
    if (!single) batches.forEach((batch, i) => data.set(batch.data, i * size * width));
    const tensor = single ? batches[0] : new this.ort.Tensor("float32", data.slice(0, beats * width), [beats, width]);
    const rows = Array.from({ length: beats }, (_, i) => data.slice(i * width, (i + 1) * width));
    return { name: outputNames[0], width, tensor, rows };
  }

  /**
   * Return examples of a batch; the last one is repeated to fill a fixed batch size.
   * @param {any} tensor
   * @param {number} start
   * @param {number} size
   * @param {number} beats
   */
  part(tensor, start, size, beats) {
    if (size === beats) return tensor;
    const width = tensor.data.length / beats;
    const data = new Float32Array(size * width);
    for (let i = 0; i < size; i += 1) {
      const at = Math.min(start + i, beats - 1);
      data.set(tensor.data.subarray(at * width, (at + 1) * width), i * width);
    }
    return new this.ort.Tensor("float32", data, [size, ...tensor.dims.slice(1)]);
  }

  /** @param {Graph} graph @param {Record<string, any>} inputs @param {number} beats */
  async runPart(graph, inputs, beats) {
    let tensor;
    try {
      tensor = (await graph.session.run(inputs))[graph.session.outputNames[0]];
    } catch (problem) {
      throw new BundleError(graph.name, `failed on ${beats} beats (${problem instanceof Error ? problem.message : problem})`, "", "export it again");
    }
    const { data, dims } = tensor;
    if (!(data instanceof Float32Array) || dims.length !== 2 || dims[0] !== beats) throw new BundleError(graph.name, `gave shape ${dims}`, "a row for each beat");
    return tensor;
  }

  /**
   * Classify windows of beats.
   * @param {Float32Array[]} windowMv
   * @param {Float32Array[]} rr
   * @param {boolean[] | null} [silent] of all beats of a recording, whether they show no signal: answers of alike ones are averaged
   * @returns {Promise<Prediction[]>}
   */
  async predictions(windowMv, rr, silent = null) {
    const logits = await this.logits(windowMv, rr);
    const distance = await this.distances(windowMv);
    const { temperature, threshold } = this.certainty;
    const each = logits.map((row) => softmax(row, temperature));
    const classified = logits.map((row, i) => allFinite(row) && !Number.isNaN(distance?.[i]));
    if (!each.every((row, i) => !classified[i] || allFinite(row))) {
      const { name } = this.chain[this.chain.length - 1];
      throw new BundleError(name, "gives logits too large for the temperature", "finite numbers", "train and export again");
    }
    const probabilities = silent ? averaged(each, rr.map(pointOf), silent.map((isSilent, i) => isSilent || !classified[i])) : each;
    return probabilities.map((probability, i) => {
      const label = classified[i] ? argMax(probability) : -1;
      const outOfDistribution = distance !== null && distance[i] > this.oodThreshold;
      const lowConfidence = label < 0 || probability[label] < f(threshold) || threshold >= 1 || outOfDistribution;
      return { label, probability: label < 0 ? probability.map(() => NaN) : probability, outOfDistribution, lowConfidence };
    });
  }

  /** Distances of beats from the prototypes of training beats; null if the bundle has none. @param {Float32Array[]} windowMv */
  async distances(windowMv) {
    if (this.oodGraph === null) return null;
    const distances = new Float32Array(windowMv.length);
    for (let start = 0; start < windowMv.length; start += AT_ONCE) {
      const some = windowMv.slice(start, start + AT_ONCE);
      const { rows } = await this.run(this.oodGraph, { window: this.tensor("window", some, [1, WINDOW_SAMPLES]) }, some.length);
      rows.forEach((/** @type {Float32Array} */ row, /** @type {number} */ i) => (distances[start + i] = row[0]));
    }
    return distances;
  }

  /**
   * Find and classify every beat of a recording, as `ecgfed predict` does. Research use only, not for diagnosis.
   * @param {Recording} recording
   * @param {{lead?: string | number, railsMv?: number[]}} [options] another lead than the bundle's; limits of the
   *     recorder's converter, instead of the extremes of the lead
   * @returns {Promise<Beat[]>}
   */
  async classify(recording, options = {}) {
    const { fsHz, signalsMv } = checkedRecording(recording);
    const lead = leadOf(recording, this.leads, options.lead);
    const quality = leadQuality(signalsMv[lead], fsHz, options.railsMv);
    const peaks = detectAroundGaps(signalsMv, fsHz, quality, lead, recording.name ?? "recording");
    const windows = windowsAround(signalsMv[lead], fsHz, peaks, quality, this.rrVersion || 1);
    const silent = this.averagedOverAlikeBeats ? withoutSignal(signalsMv[lead], fsHz, peaks, windows.windowMv, quality) : null;
    const predictions = await this.predictions(windows.windowMv, windows.rr, silent);
    const bad = REASONS.map((reason) => ({ reason, spans: quality.spans([reason]) }));
    return predictions.map((prediction, i) => {
      const [start, stop] = windowSpan(fsHz, peaks[i]);
      const poor = bad.filter(({ spans }) => spans.overlap(start, stop)).map(({ reason }) => reason);
      return this.beat(peaks[i], fsHz, windows.flags[i], poor, prediction);
    });
  }

  /**
   * @param {number} sample
   * @param {number} fsHz
   * @param {number} flags
   * @param {string[]} poor
   * @param {Prediction} prediction
   * @returns {Beat}
   */
  beat(sample, fsHz, flags, poor, prediction) {
    const { label, probability, outOfDistribution, lowConfidence } = prediction;
    const unclassified = label < 0;
    return {
      sample, timeS: sample / fsHz, label,
      class: unclassified ? "" : this.classes[label], symbol: unclassified ? UNCLASSIFIED : this.symbols[label], override: unclassified ? UNCLASSIFIED : "",
      probability: unclassified ? NaN : probability[label], probabilities: probability, flags, poorQuality: poor.join("+"), lowConfidence, outOfDistribution,
      uncertain: lowConfidence, far: outOfDistribution, // deprecated names, until 0.5
    };
  }
}

/** Check a recording and return its samples as float64. @param {Recording} recording */
export function checkedRecording(recording) {
  if (recording === null || typeof recording !== "object") {
    throw new RecordError("recording", `is ${recording === null ? "null" : typeof recording}`, "{ fsHz, signalsMv, leads }", "read one with readRecording");
  }
  const name = recording.name ?? "recording";
  const { fsHz } = recording;
  checkFs(fsHz, name, String(fsHz).slice(0, 40), "say the recording's own");
  if (!Array.isArray(recording.signalsMv) || recording.signalsMv.some((row) => typeof row === "number")) {
    throw new RecordError(name, `signalsMv: ${shapeOf(recording.signalsMv)}`, "an array with a row for each lead");
  }
  const signalsMv = recording.signalsMv.map((row, i) => millivoltRow(row, `${name}, row ${i} of signalsMv`));
  if (!signalsMv.length || !signalsMv[0].length) throw new RecordError(name, "holds no samples");
  if (signalsMv.some((row) => row.length !== signalsMv[0].length)) throw new RecordError(name, "has leads of different lengths", "one length");
  return { fsHz, signalsMv };
}

/**
 * Return the index of the lead to classify.
 * @param {Recording} recording
 * @param {readonly string[]} leads the bundle's, in order of preference
 * @param {string | number} [lead] another one
 */
export function leadOf(recording, leads, lead) {
  const count = recording.signalsMv.length;
  const name = recording.name ?? "recording";
  if (typeof lead === "number") {
    if (!(Number.isInteger(lead) && lead >= 0 && lead < count)) throw new RecordError(name, `has no lead number ${lead}`, `0 to ${count - 1}`);
    return lead;
  }
  return chooseLead(recording.leads ?? [], name, lead === undefined ? leads : [lead], recording.units);
}
