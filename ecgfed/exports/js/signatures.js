/**
 * Signatures of bundles (ecgfed/exports/device/signatures.py): Ed25519 over the bytes of the manifest, verified by Web Crypto
 * if supported (Node 20, Chromium 137, Firefox 129, Safari 17).
 */

import { sha256 } from "./canonical.js";
import { BundleError, EcgfedError } from "./errors.js";

/** @typedef {import("./index.d.ts").Signature} Signature */

export const SIGNATURE = "manifest.sig";
export const PUBLIC_KEY = "manifest.pub.pem";
const MAX_KEY_BYTES = 1 << 16;
const SIGNATURE_BYTES = 64;
/** DER prefix of an Ed25519 public key (RFC 8410); 32 bytes follow. */
const HEAD = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
const KEY_BYTES = HEAD.length + 32;
const EXPECTED = "an Ed25519 public key in PEM";
/** Name of the error of a runtime without Ed25519. */
const UNKNOWN = "NotSupportedError";

/**
 * Return the DER of a public key in PEM.
 * @param {string} pem
 * @param {string} where for errors
 * @param {typeof EcgfedError} Problem
 * @returns {Uint8Array<ArrayBuffer>}
 */
function derOf(pem, where, Problem) {
  if (pem.length > MAX_KEY_BYTES) throw new Problem(where, `has ${pem.length} bytes`, EXPECTED);
  if (pem.includes("PRIVATE KEY")) throw new Problem(where, "is a private key", EXPECTED, "name its .pub.pem, and keep the private one to yourself");
  const body = /-----BEGIN PUBLIC KEY-----([A-Za-z0-9+/=\s]*)-----END PUBLIC KEY-----/.exec(pem)?.[1].replace(/\s+/g, "");
  let der = new Uint8Array(0);
  try {
    der = Uint8Array.from(atob(body ?? ""), (character) => character.charCodeAt(0));
  } catch {
    der = new Uint8Array(0);
  }
  if (!der.length) throw new Problem(where, "holds no public key", EXPECTED);
  if (der.length !== KEY_BYTES || HEAD.some((byte, i) => der[i] !== byte)) throw new Problem(where, "is a key of another kind", EXPECTED);
  return der;
}

/** Fingerprint of a public key, as in `ecgfed keys show`. @param {Uint8Array} der */
const fingerprint = async (der) => `SHA256:${await sha256(der)}`;

/**
 * Return whether a signature of the bytes is valid for a key; null if this runtime lacks Ed25519.
 * @param {Uint8Array<ArrayBuffer>} der
 * @param {Uint8Array} signature
 * @param {Uint8Array} bytes
 */
async function verified(der, signature, bytes) {
  try {
    const key = await globalThis.crypto.subtle.importKey("spki", der, { name: "Ed25519" }, false, ["verify"]);
    const [sig, data] = [signature, bytes].map((array) => /** @type {Uint8Array<ArrayBuffer>} */ (array.slice()));
    return await globalThis.crypto.subtle.verify({ name: "Ed25519" }, key, sig, data);
  } catch (problem) {
    if (/** @type {any} */ (problem)?.name === UNKNOWN) return null;
    return false; // for example not a point of the curve
  }
}

/**
 * Check the signature of a bundle.
 * @param {import("./bundle.js").Files} files
 * @param {Uint8Array} manifest its bytes, as they were read
 * @param {string | string[] | undefined} trusted public keys in PEM, one of which has to have signed it
 * @returns {Promise<Signature | null>} null for a bundle that is not signed
 */
export async function checkSignature(files, manifest, trusted) {
  const keys = trusted === undefined ? null : [trusted].flat();
  if (keys?.length === 0) throw new EcgfedError("trusted", "names no key", "one or more public keys in PEM");
  const known = keys && (await Promise.all(keys.map((pem) => fingerprint(derOf(String(pem), "trusted", EcgfedError)))));
  const unsigned = new BundleError(files.name, "is not signed", "a bundle signed by a key of trusted");
  const signed = files.has(SIGNATURE) ?? known !== null; // fetched from an address only if required
  if (!signed && known !== null) throw unsigned;
  if (!signed) return null;
  const signature = await files.read(SIGNATURE).catch((problem) => {
    throw files.has(SIGNATURE) === null ? unsigned : problem;
  });
  const pem = new TextDecoder("latin1").decode(await files.read(PUBLIC_KEY));
  const der = derOf(pem, `${files.name}/${PUBLIC_KEY}`, BundleError);
  const holds = signature.length === SIGNATURE_BYTES && (await verified(der, signature, manifest));
  if (holds === false) {
    throw new BundleError(`${files.name}/${SIGNATURE}`, "is not the manifest's signature", `that of the key in ${PUBLIC_KEY}`, "ask for the bundle again");
  }
  const key = await fingerprint(der);
  if (known === null) return { key, verified: holds === true, trusted: false };
  if (holds === null) throw new BundleError(files.name, "cannot be checked: no Ed25519 here", "Node 20, Chromium 137, Firefox 129, Safari 17, or newer");
  if (!known.includes(key)) throw new BundleError(files.name, `is signed by ${key}`, `${known.join(" or ")}, of trusted`);
  return { key, verified: true, trusted: true };
}
