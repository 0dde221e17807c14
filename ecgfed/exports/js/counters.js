/** Counts of a recording: of a stream, or from the bytes of a device (ecgfed/exports/mcu/c/ecgfed_monitor.h). */

import { DRIFT_REASONS } from "./drift.js";
import { EcgfedError } from "./errors.js";
import { CLEAR_SCORE } from "./pacing.js";
import { REASONS } from "./quality-reasons.js";
import { FLAG_PADDED } from "./windows.js";

/** @typedef {import("./index.d.ts").StreamBeat} StreamBeat */

/** A record is paced if so large a share of so many assessed beats is clearly paced; so many in a row are a run. */
const PACED_SHARE = 0.3;
const MIN_ASSESSED = 10;
const RUN = 10;
/** Counts in the order of the device's first block. */
const COUNTS = ["samples", "missing", "saturated", "flat", "stretches", "beats", "noLogits", "noSignal", "lowConfidence", "outOfDistribution", "padded", "lastBeat"];

/** @param {readonly string[]} names @param {number[]} values */
const named = (names, values) => Object.fromEntries(names.map((name, i) => [name, values[i] ?? 0]));

/** Counts of a stream since its start. */
export class Counters {
  /** @param {number} classes */
  constructor(classes) {
    this.samples = this.missing = this.beats = this.lastBeat = 0;
    this.noLogits = this.noSignal = this.lowConfidence = this.outOfDistribution = this.padded = this.poor = 0;
    this.pacingAssessed = this.clearlyPaced = this.pacedRuns = this.run = 0;
    /** @type {number[]} */
    this.classes = new Array(classes).fill(0);
    this.poorBy = named(REASONS, []);
  }

  /** Whether the recording so far is paced. */
  get paced() {
    return this.pacingAssessed >= MIN_ASSESSED && this.clearlyPaced > PACED_SHARE * this.pacingAssessed;
  }

  /** Add the next samples of the lead in use. @param {ArrayLike<number>} samplesMv */
  addSamples(samplesMv) {
    this.samples += samplesMv.length;
    for (let i = 0; i < samplesMv.length; i += 1) this.missing += Number(!Number.isFinite(samplesMv[i]));
  }

  /** Add a beat with its final prediction. @param {StreamBeat} beat */
  add(beat) {
    this.beats += 1;
    this.lastBeat = beat.sample;
    this.padded += beat.flags & FLAG_PADDED;
    this.poor += Number(beat.poorQuality !== "");
    if (beat.poorQuality) for (const reason of beat.poorQuality.split("+")) this.poorBy[reason] += 1;
    if (beat.noSignal) this.noSignal += 1;
    else if (beat.override) this.noLogits += 1;
    else {
      this.classes[beat.label] += 1;
      this.lowConfidence += Number(beat.lowConfidence);
      this.outOfDistribution += Number(beat.outOfDistribution);
    }
    this.pacingAssessed += Number(beat.paced >= 0);
    this.clearlyPaced += Number(beat.paced > CLEAR_SCORE);
    this.run = beat.paced > CLEAR_SCORE ? this.run + 1 : 0;
    this.pacedRuns += Number(this.run === RUN);
  }
}

/**
 * Read the counts of a device: the bytes of `ecgfed_counters_write`, or of `ecgfed_monitor_write`.
 * @param {Uint8Array} bytes
 * @returns {import("./index.d.ts").DeviceCounters}
 */
export function readCounters(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const first = readBlock(view, 0, COUNTS.length);
  const counts = { ...named(COUNTS, first.values), classes: first.values.slice(COUNTS.length) };
  if (first.end === bytes.length) return /** @type {any} */ (counts);
  const changes = Object.keys(DRIFT_REASONS);
  const { at, values } = readBlock(view, first.end, 5 + REASONS.length + changes.length);
  const [watched, poor, ...rest] = values;
  const [pacingAssessed, clearlyPaced, pacedRuns, ...began] = rest.slice(REASONS.length);
  return /** @type {any} */ ({
    ...counts, watched, poor, poorBy: named(REASONS, rest), pacingAssessed, clearlyPaced, pacedRuns, drift: named(changes, began),
    active: changes.filter((_, i) => view.getUint16(at + 4, true) & (1 << i)), paced: view.getUint16(at + 6, true) === 1,
  });
}

/** Read a block: version, length, two numbers of its own, then counts. @param {DataView} view @param {number} at @param {number} least how many counts it has */
function readBlock(view, at, least) {
  const left = view.byteLength - at;
  const [version, size] = left < 8 ? [0, 0] : [view.getUint16(at, true), view.getUint16(at + 2, true)];
  if (version !== 1 || size % 8 || size < 8 * (least + 1) || size > left) {
    throw new EcgfedError("counters", `has ${left} bytes, version ${version}, length ${size}`, "a block of version 1");
  }
  const values = Array.from({ length: size / 8 - 1 }, (_, i) => Number(view.getBigUint64(at + 8 + 8 * i, true)));
  return { at, end: at + size, values };
}
