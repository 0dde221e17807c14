/** Sources of live samples: playback of a recording, a serial port, Bluetooth. */

import { POLAR_FS_HZ, POLAR_PMD, PolarEcgReader, startPolarEcg } from "../../exports/js/polar.js";
import { LineReader } from "../../exports/js/serial.js";

/** @typedef {import("../../exports/js/index.d.ts").Recording} Recording */
/**
 * Callbacks of a source: its format, once; samples, a row per lead, with the number of the first if the source counts;
 * its end, with the reason.
 * @typedef {{begin: (format: {fsHz: number, leads: string[]}) => Promise<void>, samples: (chunk: Float64Array[], atSample?: number) => Promise<void>, end: (problem?: unknown) => Promise<void>}} Listener
 */

const STEP_MS = 100;
const BAUD = 115200;
/** Nordic's UART service: data arrives as notifications of the second characteristic. */
const UART = "6e400001-b5a3-f393-e0a9-e50e24dcca9e";
const UART_SENDS = "6e400003-b5a3-f393-e0a9-e50e24dcca9e";
/** First characters of the name of a Polar H10, and the name of its only lead here. */
const POLAR = "Polar H10";

/**
 * Play a recording in real time.
 * @param {Recording} recording
 * @param {() => number} speed playback speed, read at every step
 * @param {Listener} listener
 * @returns {() => void} stops it
 */
export function play(recording, speed, listener) {
  let stopped = false;
  const rows = recording.signalsMv.map((row) => Float64Array.from(row));
  const run = async () => {
    await listener.begin({ fsHz: recording.fsHz, leads: recording.leads ?? rows.map((_, i) => `lead ${i + 1}`) });
    let [at, before] = [0, performance.now()];
    while (!stopped && at < rows[0].length) {
      await new Promise((resolve) => setTimeout(resolve, STEP_MS));
      const now = performance.now();
      const due = Math.min(((now - before) / 1000) * speed(), 5 * speed());
      before = now;
      const stop = Math.min(at + Math.max(1, Math.round(due * recording.fsHz)), rows[0].length);
      await listener.samples(rows.map((row) => row.subarray(at, stop)));
      at = stop;
    }
  };
  run().then(() => listener.end(), (problem) => listener.end(problem));
  return () => {
    stopped = true;
  };
}

/**
 * Read lines of text.
 * @param {AsyncIterable<string>} texts
 * @param {Listener} listener
 */
async function readLines(texts, listener) {
  const reader = new LineReader();
  let started = false;
  for await (const text of texts) {
    const chunk = reader.push(text);
    if (reader.format && !started) {
      started = true;
      await listener.begin(reader.format);
    }
    if (started && chunk[0].length) await listener.samples(chunk);
  }
}

/** Whether this browser has serial ports, and Bluetooth. */
export const hasSerial = () => "serial" in navigator;
export const hasBluetooth = () => "bluetooth" in navigator;

/** Read a serial port chosen by the user. @param {Listener} listener @returns {Promise<() => void>} */
export async function fromSerial(listener) {
  const port = await /** @type {any} */ (navigator).serial.requestPort();
  await port.open({ baudRate: BAUD });
  const reader = port.readable.getReader();
  const decoder = new TextDecoder();
  async function* texts() {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield decoder.decode(value, { stream: true });
    }
  }
  const close = () => reader.cancel().catch(() => undefined);
  const ended = async (/** @type {unknown} */ problem) => {
    await close();
    reader.releaseLock();
    await port.close().catch(() => undefined);
    await listener.end(problem);
  };
  readLines(texts(), listener).then(() => ended(undefined), ended);
  return close;
}

/**
 * Return what a device sends, in order, until it disconnects or `stop` is called.
 * @template T
 * @param {any} device
 * @returns {{push: (item: T) => void, stop: () => void, items: () => AsyncGenerator<T>}}
 */
function queueOf(device) {
  /** @type {T[]} */
  const waiting = [];
  let [wake, over] = [() => {}, false];
  const stop = () => {
    over = true;
    wake();
  };
  device.addEventListener("gattserverdisconnected", stop);
  async function* items() {
    while (!over || waiting.length) {
      if (waiting.length) yield /** @type {T} */ (waiting.shift());
      else await new Promise((resolve) => (wake = () => resolve(undefined)));
    }
  }
  const push = (/** @type {T} */ item) => {
    waiting.push(item);
    wake();
  };
  return { push, stop, items };
}

/** Read a Bluetooth device chosen by the user: Nordic's UART, or a Polar H10. @param {Listener} listener @returns {Promise<() => void>} */
export async function fromBluetooth(listener) {
  const filters = [{ services: [UART] }, { namePrefix: POLAR }];
  const device = await /** @type {any} */ (navigator).bluetooth.requestDevice({ filters, optionalServices: [POLAR_PMD.service] });
  const server = await device.gatt.connect();
  const read = device.name?.startsWith(POLAR) ? readPolar : readUart;
  const { stop, work } = await read(device, server, listener);
  const ended = async (/** @type {unknown} */ problem) => {
    stop();
    server.disconnect();
    await listener.end(problem);
  };
  work.then(() => ended(undefined), ended);
  return stop;
}

/** @param {any} device @param {any} server @param {Listener} listener */
async function readUart(device, server, listener) {
  const sends = await (await server.getPrimaryService(UART)).getCharacteristic(UART_SENDS);
  const decoder = new TextDecoder();
  /** @type {ReturnType<typeof queueOf<string>>} */
  const { push, stop, items } = queueOf(device);
  sends.addEventListener("characteristicvaluechanged", () => push(decoder.decode(sends.value, { stream: true })));
  await sends.startNotifications();
  return { stop, work: readLines(items(), listener) };
}

/** @param {any} device @param {any} server @param {Listener} listener */
async function readPolar(device, server, listener) {
  const reader = new PolarEcgReader();
  /** @type {ReturnType<typeof queueOf<DataView>>} */
  const { push, stop, items } = queueOf(device);
  const stopEcg = await startPolarEcg(server, push);
  const work = async () => {
    try {
      await listener.begin({ fsHz: POLAR_FS_HZ, leads: [POLAR] });
      for await (const frame of items()) {
        const { atSample, samplesMv } = reader.push(frame);
        await listener.samples([samplesMv], atSample);
      }
    } finally {
      await stopEcg().catch(() => undefined);
    }
  };
  return { stop, work: work() };
}
