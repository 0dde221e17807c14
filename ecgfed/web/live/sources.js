/** Sources of live samples: playback of a recording, a serial port, Bluetooth. */

import { LineReader } from "../../exports/js/serial.js";

/** @typedef {import("../../exports/js/index.d.ts").Recording} Recording */
/**
 * Callbacks of a source: its format, once; samples, a row per lead; its end, with the reason.
 * @typedef {{begin: (format: {fsHz: number, leads: string[]}) => Promise<void>, samples: (chunk: Float64Array[]) => Promise<void>, end: (problem?: unknown) => Promise<void>}} Listener
 */

const STEP_MS = 100;
const BAUD = 115200;
/** Nordic's UART service: data arrives as notifications of the second characteristic. */
const UART = "6e400001-b5a3-f393-e0a9-e50e24dcca9e";
const UART_SENDS = "6e400003-b5a3-f393-e0a9-e50e24dcca9e";

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

/** Read a Bluetooth device chosen by the user. @param {Listener} listener @returns {Promise<() => void>} */
export async function fromBluetooth(listener) {
  const device = await /** @type {any} */ (navigator).bluetooth.requestDevice({ filters: [{ services: [UART] }] });
  const server = await device.gatt.connect();
  const sends = await (await server.getPrimaryService(UART)).getCharacteristic(UART_SENDS);
  const decoder = new TextDecoder();
  /** @type {string[]} */
  const come = [];
  let [wake, over] = [() => {}, false];
  const stop = () => {
    over = true;
    wake();
  };
  sends.addEventListener("characteristicvaluechanged", () => {
    come.push(decoder.decode(sends.value, { stream: true }));
    wake();
  });
  device.addEventListener("gattserverdisconnected", stop);
  async function* texts() {
    while (!over || come.length) {
      if (come.length) yield come.splice(0).join("");
      else await new Promise((resolve) => (wake = () => resolve(undefined)));
    }
  }
  await sends.startNotifications();
  const ended = async (/** @type {unknown} */ problem) => {
    over = true;
    server.disconnect();
    await listener.end(problem);
  };
  readLines(texts(), listener).then(() => ended(undefined), ended);
  return stop;
}
