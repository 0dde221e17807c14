/** What an ONNX file says of itself, read without running it: version of the operations, metadata. */

const NOTHING = new Uint8Array(0);
const TEXT = new TextDecoder("utf-8", { fatal: true });

/**
 * Yield the fields of a protobuf message: number, and bytes or a whole number.
 * @param {Uint8Array} bytes
 * @returns {Generator<[number, Uint8Array | number]>}
 */
function* fieldsOf(bytes) {
  let at = 0;
  const varint = () => {
    let [value, scale] = [0, 1];
    for (let i = 0; i < 10; i += 1) {
      if (at >= bytes.length) throw new RangeError("it ends in the middle of a number");
      const one = bytes[at++];
      value += (one & 0x7f) * scale;
      if (one < 0x80) return value;
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

/**
 * Return a graph's metadata and the version of ONNX's own operations.
 * @param {Uint8Array} bytes an ONNX file
 * @returns {{metadata: Map<string, string>, opset: number}}
 * @throws {RangeError | TypeError} it is none
 */
export function readMetadata(bytes) {
  /** @type {Map<string, string>} */
  const metadata = new Map();
  let opset = 0;
  for (const [field, value] of fieldsOf(bytes)) {
    if (field === 14 && value instanceof Uint8Array) {
      const pair = new Map(fieldsOf(value));
      metadata.set(textOf(pair.get(1) ?? NOTHING), textOf(pair.get(2) ?? NOTHING));
    } else if (field === 8 && value instanceof Uint8Array) {
      const one = new Map(fieldsOf(value));
      const domain = textOf(one.get(1) ?? NOTHING);
      if (domain === "" || domain === "ai.onnx") opset = Number(one.get(2) ?? 0);
    }
  }
  return { metadata, opset };
}
