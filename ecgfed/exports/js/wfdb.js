/**
 * WFDB records of one segment (ecgfed/domain/record/wfdb_grammar.py, wfdb_signal.py): header(5) and signal(5) of
 * https://physionet.org/physiotools/wag/. Formats 16, 24, 32, 61, 80, 160 and 212.
 */

import { RecordError } from "./errors.js";
import { areEcg, distinct } from "./leads.js";
import { pathProblem } from "./paths.js";
import { MILLIVOLT, UNITS, checkFs, checkSamples, numberOf } from "./units.js";

/** @typedef {import("./index.d.ts").NamedFile} NamedFile */
/** @typedef {{file: string, format: number, frame: number, skew: number, offset: number, gain: number, baseline: number, unit: string, checksum: number | null, name: string}} Signal */

const MAX_HEADER_BYTES = 16 << 20;
/** Bytes per sample, and the value of a missing one. @type {Record<number, {bytes: number, none: number}>} */
const FORMATS = {
  16: { bytes: 2, none: -(2 ** 15) }, 24: { bytes: 3, none: -(2 ** 23) }, 32: { bytes: 4, none: -(2 ** 31) },
  61: { bytes: 2, none: -(2 ** 15) }, 80: { bytes: 1, none: -(2 ** 7) }, 160: { bytes: 2, none: -(2 ** 15) },
  212: { bytes: 1.5, none: -(2 ** 11) },
};
const FORMAT = /^([0-9]{1,3})(?:x([0-9]{1,6}))?(?::([0-9]{1,9}))?(?:\+([0-9]{1,15}))?$/;
const GAIN = /^([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?)(?:\(([+-]?[0-9]{1,18})\))?(?:\/(\S+))?$/;
const COUNT = /^[0-9]{1,15}$/;
const RESTORE = "restore the header from its source";

/** @param {Uint8Array} bytes */
export function textOf(bytes) {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return new TextDecoder("latin1").decode(bytes);
  }
}

/**
 * @param {string} where
 * @param {number} line
 * @param {string} what
 * @param {string} value
 * @param {string} expected
 */
function refuse(where, line, what, value, expected) {
  return new RecordError(where, `line ${line}: ${what} '${value.slice(0, 60)}'`, expected, RESTORE);
}

/**
 * Parse a header.
 * @param {string} where for errors
 * @param {string} text
 */
export function readHeader(where, text) {
  const lines = text.split(/\r\n|\r|\n/).map((line, i) => ({ number: i + 1, text: line.trim() }));
  const [first, ...rest] = lines.filter((line) => line.text && !line.text.startsWith("#"));
  if (!first) throw new RecordError(where, "is empty", "a WFDB header: a record line and one for each signal", RESTORE);
  const fields = first.text.split(/\s+/);
  const record = /^([^/]+)(?:\/([0-9]{1,9}))?$/.exec(fields[0]);
  if (!record) throw refuse(where, first.number, "record name", fields[0], "NAME or NAME/SEGMENTS");
  if (record[2] !== undefined) {
    throw new RecordError(where, "is made of segments", "a record of one segment", "join them with 'ecgfed convert'");
  }
  if (!COUNT.test(fields[1] ?? "")) throw refuse(where, first.number, "number of signals", fields[1] ?? "", "a whole number");
  const rate = /^([^/(]+)(?:\/[^(]*)?(?:\([^)]*\))?$/.exec(fields[2] ?? "250");
  checkFs(numberOf(rate?.[1] ?? ""), where, fields[2] ?? "250", "correct the header");
  if (fields[3] !== undefined && !COUNT.test(fields[3])) throw refuse(where, first.number, "number of samples", fields[3], "a whole number");
  if (!Number(fields[1])) throw new RecordError(where, "holds no signal", "at least one lead", "choose another file, or leave this one out");
  if (rest.length !== Number(fields[1])) {
    throw new RecordError(where, `has ${rest.length} signal line${rest.length === 1 ? "" : "s"}`, `${fields[1]} as its record line says`, RESTORE);
  }
  const signals = rest.map((line) => signalLine(where, line.number, line.text));
  const names = distinct(signals.map((signal, i) => signal.name || `signal ${i}`));
  const samples = fields[3] === undefined ? null : Number(fields[3]);
  return { fsHz: Number(rate?.[1]), samples, signals: signals.map((signal, i) => ({ ...signal, name: names[i] })) };
}

/** @param {string} where @param {number} line @param {string} text @returns {Signal} */
function signalLine(where, line, text) {
  const fields = /^(\S+)(?:\s+(\S+))?(?:\s+(\S+))?(?:\s+(\S+))?(?:\s+(\S+))?(?:\s+(\S+))?(?:\s+(\S+))?(?:\s+(\S+))?(?:\s+(.*))?$/.exec(text)?.slice(1) ?? [];
  if (pathProblem(fields[0] ?? "")) throw refuse(where, line, "signal file", fields[0] ?? "", "a file in the header's folder");
  const form = FORMAT.exec(fields[1] ?? "");
  if (!form || form[2] === "0") throw refuse(where, line, "format", fields[1] ?? "", "such as 212, 16+24 or 80x4:2");
  const gain = GAIN.exec(fields[2] ?? "0");
  if (!gain) throw refuse(where, line, "gain", fields[2], "GAIN(BASELINE)/UNITS, such as 200(1024)/mV");
  const steps = Number(gain[1]);
  if (steps && !(Math.abs(steps) >= 1e-9 && Math.abs(steps) <= 1e12)) throw refuse(where, line, "gain", fields[2], "0, or 1e-9 to 1e12");
  const numbers = fields.slice(3, 8).map((field, i) => {
    if (field === undefined) return null;
    const what = ["ADC resolution", "ADC zero", "initial value", "checksum", "block size"][i];
    if (!/^[+-]?[0-9]{1,18}$/.test(field)) throw refuse(where, line, what, field, "a whole number");
    return Number(field);
  });
  return {
    file: fields[0], format: Number(form[1]), frame: Number(form[2] ?? 1), skew: Number(form[3] ?? 0), offset: Number(form[4] ?? 0),
    gain: steps || 200, baseline: gain[2] === undefined ? numbers[1] ?? 0 : Number(gain[2]), unit: gain[3] ?? "mV",
    checksum: numbers[3] ?? null, name: (fields[8] ?? "").trim(),
  };
}

/**
 * Return a function that reads single samples of a signal file.
 * @param {Uint8Array} bytes
 * @param {number} format
 * @returns {(i: number) => number}
 */
function stepsOf(bytes, format) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  switch (format) {
    case 16:
      return (i) => view.getInt16(2 * i, true);
    case 24:
      return (i) => (view.getInt8(3 * i + 2) << 16) | view.getUint16(3 * i, true);
    case 32:
      return (i) => view.getInt32(4 * i, true);
    case 61:
      return (i) => view.getInt16(2 * i, false);
    case 80:
      return (i) => bytes[i] - 128;
    case 160:
      return (i) => view.getUint16(2 * i, true) - 32768;
    default:
      return (i) => {
        const at = 3 * (i >> 1);
        const value = i & 1 ? bytes[at + 2] | ((bytes[at + 1] & 0xf0) << 4) : bytes[at] | ((bytes[at + 1] & 0x0f) << 8);
        return value > 2047 ? value - 4096 : value;
      };
  }
}

/**
 * Read a record of one segment: all ECG leads with a voltage as unit, in the order of the header.
 * @param {NamedFile} headerFile
 * @param {NamedFile[]} files the signal files among others
 */
export function readWfdb(headerFile, files) {
  const where = headerFile.name;
  if (headerFile.bytes.length > MAX_HEADER_BYTES) throw new RecordError(where, `has ${headerFile.bytes.length} bytes`, `at most ${MAX_HEADER_BYTES}`);
  const header = readHeader(where, textOf(headerFile.bytes));
  const ecg = areEcg(header.signals.map((signal) => signal.name));
  const chosen = header.signals.filter((signal, i) => ecg[i] && MILLIVOLT.has(signal.unit));
  if (!chosen.length) {
    const first = header.signals[0];
    if (!ecg.includes(true)) throw new RecordError(where, `has no channel that is an ECG; it has ${header.signals.map((signal) => signal.name).join(", ")}`);
    throw new RecordError(where, `lead ${first.name} is in '${first.unit}'`, UNITS, "correct the header's units");
  }
  const signalsMv = chosen.map((signal) => readSignal(where, header, signal, files));
  return {
    name: where.replace(/\.hea$/i, ""), fsHz: header.fsHz, leads: chosen.map((signal) => signal.name), units: chosen.map((signal) => signal.unit), signalsMv,
  };
}

/**
 * @param {string} where
 * @param {ReturnType<typeof readHeader>} header
 * @param {Signal} signal
 * @param {NamedFile[]} files
 */
function readSignal(where, header, signal, files) {
  const kind = FORMATS[signal.format];
  if (!kind) throw new RecordError(where, `format ${signal.format}`, `one of ${Object.keys(FORMATS).join(", ")}`, "write it anew with 'ecgfed convert'");
  const file = files.find((file) => file.name.split("/").pop() === signal.file.split("/").pop());
  if (!file) throw new RecordError(signal.file, "does not exist", `the signal file that ${where} names`, "drop header and signal files together");
  const group = header.signals.filter((entry) => entry.file === signal.file);
  if (group.some((entry) => entry.format !== signal.format)) throw new RecordError(where, `says two formats of ${signal.file}`, "one", RESTORE);
  const perFrame = group.reduce((sum, entry) => sum + entry.frame, 0);
  const first = group.slice(0, group.indexOf(signal)).reduce((sum, entry) => sum + entry.frame, 0);
  const bytes = file.bytes.subarray(signal.offset);
  const frames = Math.floor(bytes.length / (perFrame * kind.bytes));
  const samples = header.samples || frames;
  checkSamples(samples, where);
  if (frames < samples) throw new RecordError(file.name, `is cut short at ${frames} of ${samples} samples`, "", "fetch or copy the record again");
  const step = stepsOf(bytes, signal.format);
  const [perUnit, frame] = [/** @type {number} */ (MILLIVOLT.get(signal.unit)), signal.frame];
  const out = new Float64Array(samples);
  let total = 0n;
  let part = 0;
  for (let i = 0; i < samples; i += 1) {
    let sum = 0;
    for (let k = 0; k < frame; k += 1) {
      const digital = step(i * perFrame + first + k);
      part += digital;
      let value = (digital - signal.baseline) / signal.gain;
      if (perUnit !== 1) value *= perUnit;
      sum += digital === kind.none ? NaN : value;
    }
    out[i] = frame === 1 ? sum : sum / frame;
    if ((i & 0xffff) === 0xffff) {
      total += BigInt(part);
      part = 0;
    }
  }
  total += BigInt(part);
  checkSum(file.name, where, signal, total);
  return skewed(out, signal.skew);
}

/** @param {string} file @param {string} where @param {Signal} signal @param {bigint} total */
function checkSum(file, where, signal, total) {
  if (signal.checksum === null) return;
  const modulo = (/** @type {bigint} */ number) => Number(((number % 65536n) + 65536n) % 65536n);
  const [computed, stated] = [modulo(total), modulo(BigInt(signal.checksum))];
  if (computed === stated) return;
  throw new RecordError(file, `checksum of lead ${signal.name} is ${computed}`, `${stated} from ${where}`, "the file is corrupt: fetch or copy it again");
}

/** @param {Float64Array} signal @param {number} skew */
function skewed(signal, skew) {
  if (!skew) return signal;
  const out = new Float64Array(signal.length).fill(NaN);
  out.set(signal.subarray(skew));
  return out;
}
