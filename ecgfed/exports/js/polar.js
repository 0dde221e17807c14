/**
 * The ECG of a Polar H10 chest strap: Polar's measurement data service (PMD) over Web Bluetooth.
 *
 * Source: https://github.com/polarofficial/polar-ble-sdk, technical_documentation/Polar_Measurement_Data_Specification.pdf
 * and TimeSystemExplained.md; the classes BlePMDClient, PmdControlPointResponse, PmdDataFrame and EcgData of the SDK.
 */

import { EcgfedError } from "./errors.js";
import { rint } from "./numbers.js";

/** UUIDs of the service, of its control point and of its data. */
export const POLAR_PMD = Object.freeze({
  service: "fb005c80-02e7-f387-1cad-8acd2d8df0c8",
  control: "fb005c81-02e7-f387-1cad-8acd2d8df0c8",
  data: "fb005c82-02e7-f387-1cad-8acd2d8df0c8",
});
/** Sampling frequency of the ECG in Hz, nominal: 128 to 131 Hz by the sensor's clock (Polar's issue 71). */
export const POLAR_FS_HZ = 130;
/** Request to start a measurement (2) of the ECG (0): one sampling frequency, 130 Hz, and one resolution, 14 bits. */
const START = [0x02, 0x00, 0x00, 0x01, 0x82, 0x00, 0x01, 0x01, 0x0e, 0x00];
const STOP = [0x03, 0x00];
const RESPONSE = 0xf0;
const OK = 0x00;
const ALREADY_IN_STATE = 0x06;
const RESPONSE_WITHIN_MS = 10_000;
/** A frame: measurement type, time of the last sample in nanoseconds since 2000, frame type, samples in microvolt. */
const HEADER_BYTES = 10;
const SAMPLE_BYTES = 3;
const ECG = 0x00;
const TYPE_MASK = 0x3f;
/** Share of a frame by which its distance from the one before may differ before samples are missing. */
const CLOCK_TOLERANCE = 0.1;
const WHERE = "Polar H10";

/** @param {ArrayLike<number>} bytes */
const hex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join(" ");

/** @param {ArrayBuffer | ArrayBufferView} value */
function viewOf(value) {
  return value instanceof ArrayBuffer ? new DataView(value) : new DataView(value.buffer, value.byteOffset, value.byteLength);
}

/**
 * Read a frame of the data characteristic.
 * @param {ArrayBuffer | ArrayBufferView} frame
 * @returns {{timestampNs: bigint, samplesMv: Float64Array}} time of the last sample on the sensor's clock, in nanoseconds
 *     since 2000-01-01; the samples in millivolt
 */
export function parsePolarEcg(frame) {
  const view = viewOf(frame);
  const bytes = view.byteLength - HEADER_BYTES;
  const expected = "10 bytes, then 3 for each sample";
  if (bytes < SAMPLE_BYTES || bytes % SAMPLE_BYTES) throw new EcgfedError(WHERE, `a frame of ${view.byteLength} bytes`, expected);
  const [measurement, frameType] = [view.getUint8(0) & TYPE_MASK, view.getUint8(HEADER_BYTES - 1)];
  if (measurement !== ECG) throw new EcgfedError(WHERE, `a frame of measurement type ${measurement}`, "0, an ECG");
  if (frameType !== 0) throw new EcgfedError(WHERE, `an ECG frame of type ${frameType}`, "0, samples in microvolt");
  const samplesMv = Float64Array.from({ length: bytes / SAMPLE_BYTES }, (_, i) => {
    const at = HEADER_BYTES + SAMPLE_BYTES * i;
    return (view.getUint16(at, true) + view.getInt8(at + 2) * 65_536) / 1000;
  });
  return { timestampNs: view.getBigUint64(1, true), samplesMv };
}

/** Numbers the samples of consecutive frames; frames that were lost are left out of the numbers. */
export class PolarEcgReader {
  constructor() {
    /** Number of the next sample. */
    this.sampleCount = 0;
    /** @type {bigint | null} */
    this.lastNs = null;
  }

  /**
   * Read the next frame.
   * @param {ArrayBuffer | ArrayBufferView} frame
   * @returns {{atSample: number, samplesMv: Float64Array}} number of the first sample since the first frame, as
   *     `StreamClassifier.push` takes it, and the samples in millivolt
   */
  push(frame) {
    const { timestampNs, samplesMv } = parsePolarEcg(frame);
    const count = samplesMv.length;
    let missing = 0;
    if (this.lastNs !== null) {
      const late = (Number(timestampNs - this.lastNs) * POLAR_FS_HZ) / 1e9 - count;
      if (late < -CLOCK_TOLERANCE * count) {
        const problem = `a frame of ${count} samples, ${Number(timestampNs - this.lastNs) / 1e6} ms after the one before it`;
        throw new EcgfedError(WHERE, problem, `${rint((1000 * count) / POLAR_FS_HZ)} ms or more`, "begin another stream");
      }
      if (late > CLOCK_TOLERANCE * count) missing = rint(late);
    }
    const atSample = this.sampleCount + missing;
    this.lastNs = timestampNs;
    this.sampleCount = atSample + count;
    return { atSample, samplesMv };
  }
}

/**
 * Start the ECG of a connected sensor.
 * @param {any} server `BluetoothRemoteGATTServer` of a device requested with `optionalServices: [POLAR_PMD.service]`
 * @param {(frame: DataView) => void} onFrame called with each frame of the data characteristic
 * @returns {Promise<() => Promise<void>>} stops it
 */
export async function startPolarEcg(server, onFrame) {
  const service = await server.getPrimaryService(POLAR_PMD.service);
  const control = await service.getCharacteristic(POLAR_PMD.control);
  const data = await service.getCharacteristic(POLAR_PMD.data);
  const heard = (/** @type {any} */ event) => onFrame(event.target.value);
  data.addEventListener("characteristicvaluechanged", heard);
  await data.startNotifications();
  await control.startNotifications();
  await Promise.all([responseOf(control), control.writeValueWithResponse(Uint8Array.from(START))]);
  return async () => {
    data.removeEventListener("characteristicvaluechanged", heard);
    if (server.connected) await control.writeValueWithResponse(Uint8Array.from(STOP));
  };
}

/** Wait for the sensor's response to the start; reject if it refuses. @param {any} control @returns {Promise<void>} */
function responseOf(control) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => done("did not respond to the start of the ECG"), RESPONSE_WITHIN_MS);
    const heard = (/** @type {any} */ event) => {
      const { buffer, byteOffset, byteLength } = event.target.value;
      const bytes = new Uint8Array(buffer, byteOffset, byteLength);
      if (bytes[0] !== RESPONSE || bytes[1] !== START[0]) return;
      done([OK, ALREADY_IN_STATE].includes(bytes[3]) ? "" : `refused the start of the ECG (${hex(bytes)})`);
    };
    const done = (/** @type {string} */ problem) => {
      clearTimeout(timer);
      control.removeEventListener("characteristicvaluechanged", heard);
      if (problem) reject(new EcgfedError(WHERE, problem, "", "wear the strap, and connect again"));
      else resolve();
    };
    control.addEventListener("characteristicvaluechanged", heard);
  });
}
