/** Canonical JSON (RFC 8785), and SHA-256 by Web Crypto. */

/**
 * Return a JSON value in canonical form.
 * @param {unknown} value a value of JSON
 * @returns {string}
 */
export function canonical(value) {
  if (typeof value === "number" && !Number.isFinite(value)) throw new RangeError(`${value} is no number of JSON`);
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  const fields = /** @type {Record<string, unknown>} */ (value);
  const keys = Object.keys(fields).sort();
  return `{${keys.map((key) => `${JSON.stringify(key)}:${canonical(fields[key])}`).join(",")}}`;
}

/**
 * Return the SHA-256 of bytes, 64 hexadecimal digits.
 * @param {Uint8Array} bytes
 */
export async function sha256(bytes) {
  if (!globalThis.crypto?.subtle) throw new Error("this page is not served securely, so the browser gives it no Web Crypto");
  const copy = new Uint8Array(bytes); // not slice: that of Node's Buffer shares the memory
  const digest = new Uint8Array(await globalThis.crypto.subtle.digest("SHA-256", copy));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/**
 * Return the digest of a document: SHA-256 of its canonical form without one field.
 * @param {Record<string, unknown>} document
 * @param {string} without
 */
export async function digestOf(document, without) {
  const rest = Object.fromEntries(Object.entries(document).filter(([name]) => name !== without));
  return sha256(new TextEncoder().encode(canonical(rest)));
}
