/** Checks of all readers (ecgfed/domain/record/checks.py). */

import { EcgfedError, RecordError } from "./errors.js";
import { medianOf } from "./rr.js";

/** Millivolt per unit, by the unit's spelling in a file. @type {ReadonlyMap<string, number>} */
export const MILLIVOLT = new Map([["mV", 1], ["uV", 1e-3], ["\u00b5V", 1e-3], ["\u03bcV", 1e-3], ["V", 1e3], ["nV", 1e-6]]);
export const UNITS = "one of mV, uV, \u00b5V, V, nV";
const MIN_FS_HZ = 100;
const MAX_FS_HZ = 20_000;
export const MAX_SAMPLES = 2 ** 29;
const MAX_SPREAD_MV = 1000;
/** No sample of an ECG is a million volts. */
const MAX_MV = 1e9;
const STEPS_MV = 20;
const FEW = 100;
const FLOAT = /^[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?$/;

/** A number as text, and nothing else; NaN for any other text. @param {string} text */
export function numberOf(text) {
  return FLOAT.test(text) ? Number(text) : NaN;
}

/** Refuse a sampling frequency that no ECG is recorded at. @param {unknown} fsHz @param {string} where @param {string} written @param {string} action */
export function checkFs(fsHz, where, written, action) {
  if (typeof fsHz === "number" && fsHz >= MIN_FS_HZ && fsHz <= MAX_FS_HZ) return;
  throw new RecordError(where, `sampling frequency ${written} Hz`, `${MIN_FS_HZ} to ${MAX_FS_HZ} Hz`, action);
}

/** @param {number} samples @param {string} where */
export function checkSamples(samples, where) {
  if (!(samples > 0)) throw new RecordError(where, "holds no samples", "", "choose another file, or leave this one out");
  if (samples > MAX_SAMPLES) throw new RecordError(where, `claims ${samples} samples a lead`, `at most ${MAX_SAMPLES}`, "cut it into parts");
}

/**
 * Read `uV`, or steps as a WFDB header writes them, `200(1024)/mV`: (number - zero) * mv is millivolt.
 * @param {string} text
 * @param {string} where
 */
export function parseUnits(text, where) {
  const plain = MILLIVOLT.get(text);
  if (plain !== undefined) return { mv: plain, zero: 0 };
  const steps = /^([0-9.eE+-]+)(?:\(([0-9+-]+)\))?\/(\S+)$/.exec(text);
  const [gain, unit] = [numberOf(steps?.[1] ?? ""), MILLIVOLT.get(steps?.[3] ?? "")];
  const zero = steps?.[2] === undefined ? 0 : numberOf(steps[2]);
  if (gain > 0 && unit !== undefined && Number.isFinite(zero)) return { mv: unit / gain, zero };
  throw new EcgfedError(where, `'${text}'`, "mV, uV, V, nV or steps and zero as in 200(1024)/mV");
}

/**
 * Refuse values above MAX_MV, and leads whose amplitude indicates wrong units.
 * @param {Float64Array[]} signalsMv
 * @param {string[]} leads
 * @param {string} where
 */
export function checkSize(signalsMv, leads, where) {
  signalsMv.forEach((signal, i) => {
    const at = signal.findIndex((value) => Math.abs(value) > MAX_MV);
    if (at >= 0) {
      const size = Number.isFinite(signal[at]) ? `${signal[at].toPrecision(3)} mV` : "infinite";
      throw new RecordError(where, `lead ${leads[i]} is ${size} at sample ${at}`, "millivolts, or NaN for a gap");
    }
    const valid = signal.filter((value) => !Number.isNaN(value));
    if (!valid.length) return;
    const middle = medianOf(valid.slice());
    const spread = medianOf(valid.map((value) => Math.abs(value - middle)));
    if (spread > MAX_SPREAD_MV) {
      const reason = `half of lead ${leads[i]} is more than ${Number(spread.toPrecision(3))} mV from its median`;
      throw new RecordError(where, reason, "millivolts", "check the units");
    }
    let [low, high] = [Infinity, -Infinity];
    for (const value of valid) [low, high] = [Math.min(low, value), Math.max(high, value)];
    if (valid.length >= FEW && high - low >= STEPS_MV && valid.every(Number.isInteger)) {
      const action = "they look like an amplifier's steps: say gain and zero as in units '200(1024)/mV'";
      throw new RecordError(where, `lead ${leads[i]} holds whole numbers from ${low} to ${high}`, "millivolts", action);
    }
  });
}
