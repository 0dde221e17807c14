/** EDF and EDF+, the gaps of EDF+D as NaN (ecgfed/domain/record/edf_files.py; https://www.edfplus.info/specs/). */

import { RecordError } from "./errors.js";
import { areEcg, chooseLead, distinct } from "./leads.js";
import { rint } from "./numbers.js";
import { MILLIVOLT, UNITS, checkFs, checkSamples, numberOf } from "./units.js";
import { textOf } from "./wfdb.js";

/** @typedef {import("./index.d.ts").NamedFile} NamedFile */
/** @typedef {{name: string, unit: string, physicalMin: number, physicalMax: number, digitalMin: number, digitalMax: number, samples: number, first: number}} Channel */

const ANNOTATIONS = "EDF Annotations";
const KIND = /^(?:ECG|EKG)[ :_-]+(?=\S)/i;
const FETCH = "fetch or copy it again";

/** @param {Uint8Array} raw */
const plain = (raw) => textOf(raw).replace(/^[ \0]+|[ \0]+$/g, "");

/** @param {Uint8Array} raw @param {string} where @param {string} field @param {number} low */
function numberIn(raw, where, field, low) {
  const text = plain(raw);
  const value = numberOf(text);
  if (!(value >= low && value < Infinity)) throw new RecordError(where, `${field} '${text}'`, "a valid number", "restore the header from its source");
  return value;
}

/**
 * Read the header and check it against the size of the file.
 * @param {string} where
 * @param {Uint8Array} bytes
 */
function layoutOf(where, bytes) {
  if (bytes.length < 256 || new TextDecoder("latin1").decode(bytes.subarray(0, 8)) !== "0       ") {
    throw new RecordError(where, "is not EDF", "a header that begins with 0", "check that it is the right file");
  }
  const count = Math.trunc(numberIn(bytes.subarray(252, 256), where, "number of signals", 1));
  const headerBytes = Math.trunc(numberIn(bytes.subarray(184, 192), where, "size of the header", 256));
  if (headerBytes !== 256 * (count + 1)) throw new RecordError(where, `a header of ${headerBytes} bytes`, `${256 * (count + 1)} for ${count} signals`, "restore the header from its source");
  if (bytes.length < headerBytes) throw new RecordError(where, "is cut short inside its header", `${headerBytes} bytes`, FETCH);
  if (plain(bytes.subarray(236, 244)) === "-1") throw new RecordError(where, "was never closed (-1 data records)", "their number", "finish it with the recorder's own software");
  const records = Math.trunc(numberIn(bytes.subarray(236, 244), where, "number of data records", 0));
  if (!records) throw new RecordError(where, "holds no samples", "", "choose another file, or leave this one out");
  const channels = channelsOf(where, bytes.subarray(256, headerBytes), count);
  const perRecord = channels.reduce((sum, channel) => sum + channel.samples, 0);
  const complete = Math.floor((bytes.length - headerBytes) / (2 * perRecord));
  const rest = bytes.length - headerBytes - 2 * perRecord * complete;
  if (complete < records) throw new RecordError(where, `is cut short at ${complete} of ${records} data record${records === 1 ? "" : "s"}`, "", FETCH);
  if (complete !== records || rest) throw new RecordError(where, `holds ${complete} data record${complete === 1 ? "" : "s"} and ${rest} bytes`, `${records} as its header says`, "restore the header from its source");
  const durationS = numberIn(bytes.subarray(244, 252), where, "length of a data record", 0);
  const gaps = plain(bytes.subarray(192, 236)).startsWith("EDF+D");
  return { headerBytes, records, durationS, channels, perRecord, gaps };
}

/** @param {string} where @param {Uint8Array} rest @param {number} count @returns {Channel[]} */
function channelsOf(where, rest, count) {
  let first = 0;
  return Array.from({ length: count }, (_, i) => {
    const field = (/** @type {number} */ before, /** @type {number} */ width) => rest.subarray(before * count + width * i, before * count + width * (i + 1));
    const label = plain(field(0, 16));
    const samples = Math.trunc(numberIn(field(216, 8), where, `samples a data record of ${label}`, 1));
    const ranges = [104, 112, 120, 128].map((before) => numberOf(plain(field(before, 8))));
    const channel = { name: label, unit: plain(field(96, 8)), physicalMin: ranges[0], physicalMax: ranges[1], digitalMin: ranges[2], digitalMax: ranges[3], samples, first };
    first += samples;
    return channel;
  });
}

/**
 * Return the first sample of each data record; gaps leave samples between them.
 * @param {string} where
 * @param {Uint8Array} bytes
 * @param {ReturnType<typeof layoutOf>} layout
 * @param {number} fsHz
 * @param {number} samples of a data record
 */
function startsOf(where, bytes, layout, fsHz, samples) {
  if (!layout.gaps) return Array.from({ length: layout.records }, (_, i) => i * samples);
  const times = layout.channels.find((channel) => channel.name === ANNOTATIONS);
  if (!times) throw new RecordError(where, "is EDF+D without an annotation channel", "the times of its data records", FETCH);
  let [begin, end] = [0, 0];
  return Array.from({ length: layout.records }, (_, number) => {
    const at = layout.headerBytes + 2 * (number * layout.perRecord + times.first);
    const text = new TextDecoder("latin1").decode(bytes.subarray(at, at + Math.min(2 * times.samples, 40)));
    const onset = /^([+-][0-9]{1,15}(?:\.[0-9]{0,15})?)[\x14\x15]/.exec(text);
    if (!onset) throw new RecordError(where, `data record ${number + 1} does not say when it begins`, "EDF+ time-keeping");
    if (number === 0) begin = Number(onset[1]);
    const start = rint((Number(onset[1]) - begin) * fsHz);
    if (start < end - 1) throw new RecordError(where, `data record ${number + 1} begins before the one ahead of it ends`, "order of time");
    const placed = Math.abs(start - end) <= 1 ? end : start;
    end = placed + samples;
    return placed;
  });
}

/** @param {string} where @param {Channel} channel @param {string} units */
function perMillivolt(where, channel, units) {
  const { digitalMin, digitalMax, physicalMin, physicalMax, name } = channel;
  if (!(digitalMin < digitalMax && Number.isFinite(physicalMax - physicalMin) && physicalMin !== physicalMax)) {
    throw new RecordError(where, `lead ${name} maps ${digitalMin}..${digitalMax} to ${physicalMin}..${physicalMax}`, "two ranges, neither of them empty", "restore the header from its source");
  }
  const stated = MILLIVOLT.get(channel.unit || units);
  if (stated === undefined) throw new RecordError(where, `lead ${name} is in '${channel.unit}'`, UNITS, "correct the header's units");
  return stated;
}

/**
 * Read a recording: all ECG leads with the sampling frequency of the first one and a voltage as unit.
 * @param {NamedFile} file
 * @param {{units?: string}} how units, for a file that states none
 */
export function readEdf(file, how = {}) {
  const { name: where, bytes } = file;
  const layout = layoutOf(where, bytes);
  const channels = layout.channels.filter((channel) => channel.name !== ANNOTATIONS);
  if (!channels.length) throw new RecordError(where, "holds annotations only", "at least one lead", "choose another file, or leave this one out");
  if (!layout.durationS) throw new RecordError(where, "data records of 0 s", "their length", "restore the header from its source");
  const names = distinct(channels.map((channel) => channel.name.replace(KIND, "")));
  const units = channels.map((channel) => channel.unit);
  const chosen = channels[chooseLead(names, where, [], units)];
  const exact = chosen.samples / layout.durationS;
  const fsHz = Math.abs(exact - rint(exact)) <= 1e-9 * exact ? rint(exact) : exact;
  checkFs(fsHz, where, String(fsHz), "check the header");
  const starts = startsOf(where, bytes, layout, fsHz, chosen.samples);
  const total = starts[starts.length - 1] + chosen.samples;
  checkSamples(total, where);
  const ecg = areEcg(names);
  const rows = channels.map((_, i) => i).filter((i) => {
    const channel = channels[i];
    return channel === chosen || (ecg[i] && channel.samples === chosen.samples && (MILLIVOLT.has(channel.unit) || (!channel.unit && how.units !== undefined)));
  });
  if (total > MAX_TIMES * layout.records * chosen.samples + 2 ** 23) throw new RecordError(where, `claims ${total} samples a lead`, "no more gaps than signal", "cut it into parts");
  const signalsMv = rows.map((row) => signalOf(bytes, layout, channels[row], starts, total, perMillivolt(where, channels[row], how.units ?? "")));
  return { name: where.replace(/\.edf$/i, ""), fsHz, leads: rows.map((row) => names[row]), units: rows.map((row) => units[row]), signalsMv };
}

/** Maximum factor by which gaps may lengthen a recording. */
const MAX_TIMES = 32;

/**
 * @param {Uint8Array} bytes
 * @param {ReturnType<typeof layoutOf>} layout
 * @param {Channel} channel
 * @param {number[]} starts
 * @param {number} total
 * @param {number} perMv
 */
function signalOf(bytes, layout, channel, starts, total, perMv) {
  const view = new DataView(bytes.buffer, bytes.byteOffset + layout.headerBytes);
  const scale = (channel.physicalMax - channel.physicalMin) / (channel.digitalMax - channel.digitalMin);
  const out = new Float64Array(total).fill(NaN);
  starts.forEach((start, record) => {
    const at = 2 * (record * layout.perRecord + channel.first);
    for (let i = 0; i < channel.samples; i += 1) {
      out[start + i] = ((view.getInt16(at + 2 * i, true) - channel.digitalMin) * scale + channel.physicalMin) * perMv;
    }
  });
  return out;
}
