/**
 * An untrusted zip file: its directory is checked before its contents are read. Accepts plain files, stored or deflated,
 * each once; anything else is refused in one line.
 */

import { BundleError } from "./errors.js";
import { pathProblem } from "./paths.js";

const MAX_FILES = 100_000;
const MAX_BYTES = 1 << 30;
/** Maximum ratio of deflate (RFC 1951); a higher one indicates a zip bomb. */
const MAX_RATIO = 1032;
const FLAGS = 0b0000_1000_0000_1110;
const AGAIN = "pack it again, or ask for the bundle's folder";

/** @typedef {{at: number, method: number, packed: number, size: number, crc: number}} Entry */

/** @type {Uint32Array | null} */
let table = null;

/** @param {Uint8Array} bytes */
function crc32(bytes) {
  table ??= Uint32Array.from({ length: 256 }, (_, i) => {
    let value = i;
    for (let bit = 0; bit < 8; bit += 1) value = value & 1 ? (value >>> 1) ^ 0xedb88320 : value >>> 1;
    return value;
  });
  let crc = 0xffffffff;
  for (const byte of bytes) crc = (crc >>> 8) ^ table[(crc ^ byte) & 0xff];
  return (crc ^ 0xffffffff) >>> 0;
}

/**
 * Inflate to at most the stated size.
 * @param {Uint8Array} packed
 * @param {number} size
 */
async function inflated(packed, size) {
  const copy = /** @type {Uint8Array<ArrayBuffer>} */ (packed.slice());
  const stream = new Blob([copy]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  const out = new Uint8Array(size);
  let at = 0;
  const reader = stream.getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    if (at + value.length > size) throw new RangeError("it is longer than the archive says");
    out.set(value, at);
    at += value.length;
  }
  if (at !== size) throw new RangeError("it is shorter than the archive says");
  return out;
}

/** A zip file whose directory has been checked. */
export class ZipFiles {
  /** @param {string} name for errors @param {Uint8Array} bytes */
  constructor(name, bytes) {
    this.name = name;
    this.bytes = bytes;
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    /** @type {Map<string, Entry>} */
    this.entries = new Map();
    this.readDirectory();
  }

  /** @param {string} problem @returns {never} */
  refuse(problem) {
    throw new BundleError(this.name, problem, "", AGAIN);
  }

  readDirectory() {
    const { view, bytes } = this;
    let end = bytes.length - 22;
    while (end >= 0 && end >= bytes.length - 22 - 0xffff && view.getUint32(end, true) !== 0x06054b50) end -= 1;
    if (end < 0 || view.getUint32(end, true) !== 0x06054b50) this.refuse("is no zip file, or not all of it");
    const [count, size, start] = [view.getUint16(end + 10, true), view.getUint32(end + 12, true), view.getUint32(end + 16, true)];
    if (count === 0xffff || size === 0xffffffff || start === 0xffffffff) this.refuse("is a zip file of the 64-bit kind");
    if (view.getUint16(end + 4, true) || view.getUint16(end + 8, true) !== count) this.refuse("is one of several parts of a zip file");
    const misplaced = start + size !== end || end + 22 + view.getUint16(end + 20, true) !== bytes.length;
    if (misplaced) this.refuse("is a zip file with other data before, inside or behind it");
    if (count > MAX_FILES) this.refuse(`claims ${count} files`);
    let [at, total] = [start, 0];
    for (let i = 0; i < count; i += 1) {
      if (at + 46 > end || view.getUint32(at, true) !== 0x02014b50) this.refuse("has a damaged directory");
      total += this.readEntry(at);
      if (total > MAX_BYTES) this.refuse(`claims more than ${MAX_BYTES} bytes`);
      at += 46 + view.getUint16(at + 28, true) + view.getUint16(at + 30, true) + view.getUint16(at + 32, true);
    }
    if (at !== end) this.refuse("has a damaged directory");
  }

  /** Read one entry of the directory; return its size. @param {number} at */
  readEntry(at) {
    const { view } = this;
    const raw = this.bytes.subarray(at + 46, at + 46 + view.getUint16(at + 28, true));
    const name = new TextDecoder("utf-8").decode(raw);
    const [flags, method] = [view.getUint16(at + 8, true), view.getUint16(at + 10, true)];
    const [crc, packed, size] = [view.getUint32(at + 16, true), view.getUint32(at + 20, true), view.getUint32(at + 24, true)];
    const kind = (view.getUint32(at + 38, true) >>> 28) & 0xf; // of Unix: 8 a file, 4 a folder, 10 a link
    const folder = name.endsWith("/");
    if (pathProblem(folder ? name.slice(0, -1) : name) || this.entries.has(name)) this.refuse("names a file that leads elsewhere, or twice");
    if (folder) return 0;
    if (flags & ~FLAGS || (kind !== 0 && kind !== 8)) this.refuse("holds a file that is encrypted, or no plain file");
    if (!(method === 8 || (method === 0 && packed === size))) this.refuse(`holds a file packed by method ${method}`);
    if (size > MAX_RATIO * packed + 64) this.refuse("claims more bytes than were packed");
    this.entries.set(name, { at: view.getUint32(at + 42, true), method, packed, size, crc });
    return size;
  }

  /** @param {string} name */
  has(name) {
    return this.entries.has(name);
  }

  /** @param {string} name @returns {Promise<Uint8Array>} */
  async read(name) {
    const entry = this.entries.get(name);
    const where = `${this.name}/${name}`;
    if (!entry) throw new BundleError(where, "does not exist", "a file of the bundle");
    const { view } = this;
    if (entry.at + 30 > this.bytes.length || view.getUint32(entry.at, true) !== 0x04034b50) this.refuse("has a damaged directory");
    const start = entry.at + 30 + view.getUint16(entry.at + 26, true) + view.getUint16(entry.at + 28, true);
    if (start + entry.packed > this.bytes.length) this.refuse("ends in the middle of a file");
    const packed = this.bytes.subarray(start, start + entry.packed);
    let data = packed;
    try {
      if (entry.method !== 0) data = await inflated(packed, entry.size);
    } catch (problem) {
      throw new BundleError(where, `cannot be unpacked (${problem instanceof Error ? problem.message : problem})`, "", AGAIN);
    }
    if (crc32(data) !== entry.crc) throw new BundleError(where, "is damaged (its CRC-32 is not the archive's)", "", AGAIN);
    return data;
  }
}
