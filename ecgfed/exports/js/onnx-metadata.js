/** Metadata, opset, inputs and outputs of an ONNX file, read without running it. */

import { BundleError } from "./errors.js";

const NOTHING = new Uint8Array(0);
const TEXT = new TextDecoder("utf-8", { fatal: true });

/**
 * Yield the fields of a protobuf message: number, and bytes or an integer.
 * @param {Uint8Array} bytes
 * @returns {Generator<[number, Uint8Array | number]>}
 */
function* fieldsOf(bytes) {
  let at = 0;
  const varint = () => {
    let [value, scale] = [0, 1];
    for (let i = 0; i < 10; i += 1) {
      if (at >= bytes.length) throw new RangeError("it ends in the middle of a number");
      const byte = bytes[at++];
      value += (byte & 0x7f) * scale;
      if (byte < 0x80) return value;
      scale *= 128;
    }
    throw new RangeError("it holds a number of more than ten bytes");
  };
  while (at < bytes.length) {
    const key = varint();
    const [field, kind] = [Math.floor(key / 8), key % 8];
    if (kind === 0) {
      yield [field, varint()];
      continue;
    }
    if (kind !== 1 && kind !== 2 && kind !== 5) throw new RangeError(`it holds a field of kind ${kind}`);
    const size = kind === 1 ? 8 : kind === 5 ? 4 : varint();
    if (!(at + size <= bytes.length)) throw new RangeError("it ends in the middle of a field");
    yield [field, bytes.subarray(at, at + size)];
    at += size;
  }
}

/** @param {Uint8Array | number} value */
const textOf = (value) => (value instanceof Uint8Array ? TEXT.decode(value) : String(value));

/** ONNX element types of our graphs. @type {Record<number, string>} */
const TYPES = { 1: "float32", 2: "uint8", 3: "int8", 7: "int64" };
/** Maximum batch size of a graph. */
const MAX_BATCH = 256;

/** Fields of a message by number, the last one of each. @param {Uint8Array | number | undefined} value */
const messageOf = (value) => new Map(value instanceof Uint8Array ? fieldsOf(value) : []);

/** @typedef {{name: string, dtype: string, shape: (number | null)[]}} ValueType null is an axis of any length */
/** @typedef {{ir_version: number, opset: number, inputs: ValueType[], outputs: ValueType[]}} Outside */

/** Name, type and shape of an input or output. @param {Uint8Array} bytes @returns {ValueType} */
function valueOf(bytes) {
  const value = messageOf(bytes);
  const tensor = messageOf(messageOf(value.get(2)).get(1));
  const dims = tensor.get(2);
  const name = textOf(value.get(1) ?? NOTHING);
  const dtype = TYPES[Number(tensor.get(1) ?? 0)];
  if (dtype === undefined || !(dims instanceof Uint8Array)) throw new RangeError(`it holds '${name}' of no type or shape of ours`);
  const shape = [...fieldsOf(dims)].filter(([field]) => field === 1).map(([, dim]) => {
    const length = messageOf(dim).get(1);
    return length === undefined ? null : Number(length);
  });
  return { name, dtype, shape };
}

/**
 * Return a graph's metadata, versions, inputs and outputs.
 * @param {Uint8Array} bytes an ONNX file
 * @returns {{metadata: Map<string, string>, outside: Outside}}
 * @throws {RangeError | TypeError} not an ONNX file
 */
export function readMetadata(bytes) {
  /** @type {Map<string, string>} */
  const metadata = new Map();
  /** @type {Outside} */
  const outside = { ir_version: 0, opset: 0, inputs: [], outputs: [] };
  for (const [field, value] of fieldsOf(bytes)) {
    if (field === 1) outside.ir_version = Number(value);
    if (!(value instanceof Uint8Array)) continue;
    if (field === 14) {
      const pair = messageOf(value);
      metadata.set(textOf(pair.get(1) ?? NOTHING), textOf(pair.get(2) ?? NOTHING));
    } else if (field === 8) {
      const opset = messageOf(value);
      const domain = textOf(opset.get(1) ?? NOTHING);
      if (domain === "" || domain === "ai.onnx") outside.opset = Number(opset.get(2) ?? 0);
    } else if (field === 7) {
      for (const [part, content] of fieldsOf(value)) {
        if (part === 11 && content instanceof Uint8Array) outside.inputs.push(valueOf(content));
        if (part === 12 && content instanceof Uint8Array) outside.outputs.push(valueOf(content));
      }
    }
  }
  return { metadata, outside };
}

/** Fixed batch size of a graph, or null if it is variable. @param {Outside} outside @param {string} where */
export function batchOf(outside, where) {
  const sizes = [...new Set(outside.inputs.map(({ shape }) => (shape.length ? shape[0] : 0)))];
  const [first] = sizes;
  if (sizes.length !== 1 || (first !== null && !(first >= 1 && first <= MAX_BATCH))) {
    const listed = sizes.map((candidate) => candidate ?? "any number").join(" and ");
    throw new BundleError(where, `takes ${listed || "no"} beats at once`, `one number of 1 to ${MAX_BATCH}, or any`, "export it again");
  }
  return first;
}
