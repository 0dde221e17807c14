/** Recordings in text tables (ecgfed/domain/record/csv_files.py): time or a stated frequency, units never guessed. */

import { RecordError } from "./errors.js";
import { areEcg, chooseLead, distinct } from "./leads.js";
import { rint } from "./numbers.js";
import { medianOf } from "./rr.js";
import { Table, clockS } from "./tables.js";
import { MILLIVOLT, UNITS, checkFs, checkSamples, checkSize, parseUnits } from "./units.js";

/** @typedef {import("./index.d.ts").NamedFile} NamedFile */
/** @typedef {{fsHz?: number, units?: string, columns?: string[]}} How options for files without units, rate or column names */
/** @typedef {{number: number, name: string, unit: string}} Column */

const TIME = new Set(["time", "t", "times", "elapsed time", "seconds", "second", "sec", "s"]);
const COUNT = new Set(["sample", "sample #", "samples", "sample number", "sample_number", "index", "n", "#", ""]);
/** @type {ReadonlyMap<string, number>} */
const SECONDS = new Map([
  ["", 1], ["s", 1], ["sec", 1], ["second", 1], ["seconds", 1], ["ms", 1e-3], ["milliseconds", 1e-3], ["us", 1e-6],
  ["\u00b5s", 1e-6], ["\u03bcs", 1e-6], ["ns", 1e-9], ["min", 60],
]);
const WITH_UNIT = /^(.*?)\s*(?:\(([^()]*)\)|\[([^[\]]*)\]|\/([^/\s]+))$/;
const WITH_SUFFIX = /^(.+?)_(mV|uV|\u00b5V|\u03bcV|nV|ms|us|s)$/;
const NAME_TIMES = "with columns, as in 'time (ms),MLII (mV)'";

/** @param {Uint8Array} bytes @param {string} where */
function textIn(bytes, where) {
  let text;
  if ((bytes[0] === 0xff && bytes[1] === 0xfe) || (bytes[0] === 0xfe && bytes[1] === 0xff)) {
    text = new TextDecoder(bytes[0] === 0xff ? "utf-16le" : "utf-16be").decode(bytes);
  } else {
    try {
      text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    } catch {
      text = new TextDecoder("latin1").decode(bytes);
    }
  }
  if (text.includes("\0")) throw new RecordError(where, "is not text", "a table of numbers", "check that it is the right file");
  return text;
}

/** @param {string} text @returns {[string, string]} */
function nameAndUnit(text) {
  const match = WITH_UNIT.exec(text) ?? WITH_SUFFIX.exec(text);
  return match ? [match[1].trim(), (match.slice(2).find(Boolean) ?? "").trim()] : [text, ""];
}

/** A unit without the brackets around it. @param {string} unit */
function bare(unit) {
  const match = /^(?:\(([^()]*)\)|\[([^[\]]*)\])$/.exec(unit.trim());
  return match ? (match[1] ?? match[2] ?? "").trim() : unit.trim();
}

/** @param {Table} table @param {How} how @returns {Column[]} */
function columnsOf(table, how) {
  const named = how.columns ?? [];
  if (named.length && named.length !== table.columns) throw new RecordError(table.where, `has ${table.columns} column${table.columns === 1 ? "" : "s"}`, `${named.length}, as columns names`);
  if (!table.header.length && !named.length) {
    throw new RecordError(table.where, "has no line with the columns' names", "", "name them in order with columns time,MLII");
  }
  return (table.header.length ? table.header : named).map((written, number) => {
    let [name, unit] = nameAndUnit(written);
    const below = table.units.length ? bare(table.units[number]) : "";
    if (named.length) {
      const parsed = nameAndUnit(named[number]);
      [name, unit] = [parsed[0], parsed[1] || unit];
    }
    return { number, name, unit: unit || below };
  });
}

/** @param {Column} column */
const isTime = (column) => TIME.has(column.name.toLowerCase());
/** @param {Column} column */
const isCount = (column) => COUNT.has(column.name.toLowerCase());
/** @param {Column} column */
const isStamp = (column) => column.name.toLowerCase() === "timestamp" && column.unit !== "" && SECONDS.has(column.unit);

/** A column of times in seconds: numbers in its unit, or clock times. @param {Table} table @param {Column} column */
function timesS(table, column) {
  if (clockS(table.cells(0)[column.number]) === null) {
    const unit = SECONDS.get(column.unit);
    if (unit === undefined) {
      throw new RecordError(table.where, `column ${column.name} is in '${column.unit}'`, "s, ms, us or clock times", `name its unit ${NAME_TIMES}`);
    }
    return table.numbers([column.number])[0].map((value) => value * unit);
  }
  return Float64Array.from(table.text(column.number), (cell, i) => {
    const at = clockS(cell);
    if (at === null) throw new RecordError(table.where, `line ${table.lines[i]} of column ${column.name} is no clock time`, "mm:ss.mmm", "correct that line");
    return at;
  });
}

/** The sampling frequency of times, which must step evenly to half a step. @param {Table} table @param {Float64Array} times */
function fsOfTimes(table, times) {
  const missing = times.findIndex((time) => !Number.isFinite(time));
  if (missing >= 0) throw new RecordError(table.where, `line ${table.lines[missing]} has no time`, "a time for each sample", "correct or delete that line");
  const last = times.length - 1;
  if (last < 1 || !(times[last] > times[0])) throw new RecordError(table.where, "its times do not rise", "at least two samples, in order of time", "sort it");
  const off = (/** @type {number} */ rate, /** @type {number} */ i) => Math.abs((times[i] - times[0]) * rate - i);
  const fsHz = last / (times[last] - times[0]);
  if (times.some((time, i) => off(fsHz, i) > 0.5 || (i > 0 && time < times[i - 1]))) {
    const steps = times.slice(1).map((time, i) => time - times[i]);
    const usual = medianOf(steps.slice());
    let at = 0;
    steps.forEach((step, i) => {
      if (Math.abs(step - usual) > Math.abs(steps[at] - usual)) at = i;
    });
    const reason = `times are not even: line ${table.lines[at + 1]} is ${Number(steps[at].toPrecision(6))} s after the one before`;
    throw new RecordError(table.where, reason, `${Number(usual.toPrecision(6))} s`, "resample it, and fill gaps with rows that hold NaN");
  }
  const rounded = rint(fsHz);
  return rounded && times.every((_, i) => off(rounded, i) <= 0.5) ? rounded : fsHz;
}

/** Refuse a column of sample numbers that skips or repeats one. @param {Table} table @param {Column} column */
function checkCount(table, column) {
  const [numbers] = table.numbers([column.number]);
  const step = numbers[1] - numbers[0];
  for (let i = 2; i < numbers.length; i += 1) {
    if (numbers[i] - numbers[i - 1] === step) continue;
    const reason = `line ${table.lines[i]} does not count on from the one before`;
    throw new RecordError(table.where, reason, `steps of ${step}`, "fill gaps with rows that hold NaN");
  }
}

/** @param {Table} table @param {Column[]} columns @param {How} how */
function samplingFrequency(table, columns, how) {
  let times = columns.filter(isTime);
  for (const column of columns) if (isCount(column) && (column.name || !how.columns)) checkCount(table, column);
  if (!times.length && how.fsHz === undefined) times = columns.filter(isStamp);
  if (!times.length) {
    if (how.fsHz === undefined) {
      const reason = `has no column of times; it has ${columns.map((column) => column.name).join(", ")}`;
      throw new RecordError(table.where, reason, "", `say the sampling frequency, or which column holds times ${NAME_TIMES}`);
    }
    checkFs(how.fsHz, table.where, String(how.fsHz), "correct it");
    return how.fsHz;
  }
  if (times.length > 1) throw new RecordError(table.where, `has ${times.length} columns of times`, "one", "name the columns");
  const fsHz = fsOfTimes(table, timesS(table, times[0]));
  checkFs(fsHz, table.where, String(Number(fsHz.toPrecision(6))), `check the unit of column ${times[0].name}`);
  if (how.fsHz !== undefined && Math.abs(how.fsHz / fsHz - 1) > 0.01) {
    throw new RecordError(table.where, `its times say ${Number(fsHz.toPrecision(6))} Hz`, `${how.fsHz} as was said`, "leave the frequency out");
  }
  return fsHz;
}

/** How a lead's numbers become millivolt. @param {Column} column @param {How} how @param {string} where */
function scaleOf(column, how, where) {
  const stated = how.units ? parseUnits(how.units, "units") : null;
  if (!column.unit) {
    if (!stated) throw new RecordError(where, `units of lead ${column.name} are not stated`, "mV, uV or V", "say them");
    return stated;
  }
  const statedUnit = MILLIVOLT.get(column.unit);
  if (statedUnit === undefined) throw new RecordError(where, `lead ${column.name} is in '${column.unit}'`, UNITS, "correct the column's name");
  if (stated && (stated.mv !== statedUnit || stated.zero)) throw new RecordError(where, `lead ${column.name} is in ${column.unit}`, `${how.units} as was said`, "leave the units out");
  return { mv: statedUnit, zero: 0 };
}

/**
 * Read a recording, one row per sample: all ECG leads with a voltage as unit.
 * @param {NamedFile} file
 * @param {How} how
 */
export function readCsv(file, how = {}) {
  const where = file.name;
  const table = new Table(where, textIn(file.bytes, where));
  const columns = columnsOf(table, how);
  const named = columns.filter((column) => column.name && !isTime(column) && !isCount(column));
  if (!named.length) throw new RecordError(where, "has no column of a lead", "one beside time and sample numbers", "check its first line");
  const names = distinct(named.map((column) => column.name));
  const present = named.map((column, i) => ({ ...column, name: names[i] }));
  const chosen = present[chooseLead(names, where, [], present.map((column) => column.unit))];
  checkSamples(table.rows.length, where);
  const fsHz = samplingFrequency(table, columns, how);
  const ecg = areEcg(names);
  const read = present.filter((column, i) => column === chosen || (ecg[i] && (!column.unit || MILLIVOLT.has(column.unit))));
  const scales = read.map((column) => scaleOf(column, how, where));
  const signalsMv = table.numbers(read.map((column) => column.number)).map((row, i) => row.map((column) => (column - scales[i].zero) * scales[i].mv));
  const leads = read.map((column) => column.name);
  checkSize(signalsMv, leads, where);
  return { name: where.replace(/\.[^.]*$/, ""), fsHz, leads, units: read.map((column) => column.unit), signalsMv };
}
