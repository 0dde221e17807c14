/** Open bundles, verify their files, and create classifiers (ecgfed/exports/device/bundle.py, docs/bundle.md). */

import { sha256 } from "./canonical.js";
import { Classifier } from "./classifier.js";
import { BundleError, EcgfedError } from "./errors.js";
import { checkGolden } from "./golden.js";
import { MANIFEST, checkOutside, checkGraph, leadsOf, readManifest, rrVersionOf } from "./manifest.js";
import { certaintyOf, oodRuleOf, int8FormOf } from "./manifest-models.js";
import { batchOf, readMetadata } from "./onnx-metadata.js";
import { checkSignature } from "./signatures.js";
import { ZipFiles } from "./zip.js";

/** @typedef {import("./index.d.ts").BundleSource} BundleSource */
/**
 * Files by name; `has` returns null for a URL, which has no listing.
 * @typedef {{name: string, has: (name: string) => boolean | null, read: (name: string) => Promise<Uint8Array>}} Files
 */

const OPSET = 18;
const MAX_BYTES = 512 << 20;

/** @param {unknown} source @returns {source is Blob} */
const isBlob = (source) => typeof Blob !== "undefined" && source instanceof Blob;

/** @param {Blob} blob */
const bytesOf = async (blob) => new Uint8Array(await blob.arrayBuffer());

/** @param {Uint8Array} bytes */
const isZip = (bytes) => bytes[0] === 0x50 && bytes[1] === 0x4b;

/** Fetch a file; throws if it does not exist. @param {URL} url */
async function fetched(url) {
  const response = await fetch(url).catch(() => null);
  if (!response?.ok) throw new BundleError(url.href, "cannot be fetched", "a file of the bundle", "check the address");
  return new Uint8Array(await response.arrayBuffer());
}

/**
 * Files by name, in memory.
 * @param {string} name
 * @param {Map<string, Uint8Array | Blob>} map
 * @returns {Files}
 */
function inMemory(name, map) {
  const manifest = [...map.keys()].filter((path) => path === MANIFEST || path.endsWith(`/${MANIFEST}`));
  const root = manifest.reduce((short, path) => (path.length < short.length ? path : short), manifest[0] ?? MANIFEST).slice(0, -MANIFEST.length);
  return {
    name,
    has: (file) => map.has(`${root}${file}`),
    async read(file) {
      const content = map.get(`${root}${file}`);
      if (content === undefined) throw new BundleError(`${name}/${file}`, "does not exist", "a file of the bundle", "export again");
      return isBlob(content) ? bytesOf(content) : content;
    },
  };
}

/**
 * Return the files of any bundle source.
 * @param {BundleSource} source
 * @returns {Promise<Files>}
 */
async function filesOf(source) {
  if (source instanceof Uint8Array || source instanceof ArrayBuffer) {
    return new ZipFiles("bundle.zip", source instanceof Uint8Array ? source : new Uint8Array(source));
  }
  if (isBlob(source)) {
    const name = "name" in source ? String(source.name) : "bundle.zip";
    if (source.size > MAX_BYTES) throw new BundleError(name, `has ${source.size} bytes`, `at most ${MAX_BYTES}`);
    return new ZipFiles(name, await bytesOf(source));
  }
  if (typeof source === "string" || source instanceof URL) {
    const base = globalThis.location?.href;
    const url = new URL(source, base);
    if (url.pathname.endsWith(".zip")) return new ZipFiles(url.href, await fetched(url));
    const folder = new URL(url.href.endsWith("/") ? url.href : `${url.href}/`);
    return { name: folder.href, has: () => null, read: (file) => fetched(new URL(file, folder)) };
  }
  if (source instanceof Map) return inMemory("bundle", source);
  if (Symbol.iterator in source) {
    const files = [...source];
    if (files.length === 1 && isZip(await bytesOf(files[0].slice(0, 2)))) return filesOf(files[0]);
    return inMemory("bundle", new Map(files.map((file) => [file.webkitRelativePath || file.name, file])));
  }
  return inMemory("bundle", new Map(Object.entries(source)));
}

/** An opened bundle, its files verified. */
export class Bundle {
  /**
   * @param {Files} files
   * @param {import("./manifest.js").Manifest} manifest
   * @param {any} ort
   * @param {object} sessionOptions
   * @param {import("./index.d.ts").Signature | null} signature
   */
  constructor(files, manifest, ort, sessionOptions, signature) {
    this.files = files;
    this.manifest = manifest;
    this.signature = signature;
    this.ort = ort;
    this.sessionOptions = sessionOptions;
  }

  /** Class names in order. @returns {string[]} */
  get classes() {
    return this.manifest.label_map.classes;
  }

  /** The WFDB symbol of each class: its name if that is one. @returns {string[]} */
  get symbols() {
    const { symbols } = this.manifest.label_map;
    return this.classes.map((name) => (symbols[name] === name ? name : Object.keys(symbols).find((symbol) => symbols[symbol] === name) ?? "Q"));
  }

  /** Ids of the patients who have a personal model. */
  get patients() {
    return Object.keys(this.manifest.patients);
  }

  /** The lead names it was trained on, in order of preference. */
  get leads() {
    return leadsOf(this.manifest);
  }

  /** Version of the RR features of its graphs, 0 for none. */
  get rrVersion() {
    return rrVersionOf(this.manifest);
  }

  /** Return the bytes of a file, verified with the manifest. @param {string} name */
  async read(name) {
    const where = `${this.files.name}/${name}`;
    const entry = this.manifest.files[name];
    const bytes = await this.files.read(name);
    if (bytes.length > MAX_BYTES) throw new BundleError(where, `has ${bytes.length} bytes`, `at most ${MAX_BYTES}`);
    if ((await sha256(bytes)) !== entry.sha256) throw new BundleError(where, "was changed (its SHA-256 is not the manifest's)", "", "export again");
    if (entry.bytes !== undefined && bytes.length !== entry.bytes) throw new BundleError(where, `has ${bytes.length} bytes`, `${entry.bytes}, as the manifest says`);
    return bytes;
  }

  /** Return the bytes of a graph with its inputs and outputs, its metadata checked against the manifest. @param {string} name */
  async graph(name) {
    const where = `${this.files.name}/${name}`;
    const bytes = await this.read(name);
    let graph;
    try {
      graph = readMetadata(bytes);
    } catch (problem) {
      throw new BundleError(where, `is no graph of ecgfed's: ${problem instanceof Error ? problem.message : problem}`, "", "export it again");
    }
    const { metadata, outside } = graph;
    if (outside.opset !== OPSET) throw new BundleError(where, `is of version ${outside.opset} of ONNX's operations`, String(OPSET), "export it again");
    checkGraph(this.manifest, name, where, metadata);
    return { bytes, outside };
  }

  /** Verify every file with the manifest, and the metadata of graphs. */
  async verify() {
    for (const name of Object.keys(this.manifest.files)) await (name.endsWith(".onnx") ? this.graph(name) : this.read(name));
  }

  /**
   * Return a patient's classifier, or the global one.
   * @param {string | null} [patient]
   * @param {{int8?: boolean}} [options] the int8 form, where the bundle has one
   */
  async classifier(patient = null, options = {}) {
    const { manifest } = this;
    if (patient !== null && !Object.hasOwn(manifest.patients, patient)) {
      const known = this.patients.length ? `one of ${this.patients.join(", ")}` : "none: it holds the global model alone";
      throw new BundleError(this.files.name, `has no patient '${patient}'`, known, "name none for the global model");
    }
    const entry = patient === null ? manifest.global : manifest.patients[patient];
    const form = options.int8 ? int8FormOf(this.files.name, manifest, patient) : entry;
    const ood = oodRuleOf(manifest);
    const personal = patient !== null && manifest.patients[patient].personal !== "global"; // where that stands in
    const opened = [];
    try {
      for (const name of [...form.chain, ...(ood ? [ood.graph] : [])]) opened.push(await this.session(name));
      const [takes, expected] = [opened[0].inputs.slice().sort().join(" and "), Object.keys(manifest.inputs).sort().join(" and ")];
      if (takes !== expected) throw new BundleError(opened[0].name, `takes ${takes || "nothing"}`, expected, "export it again");
    } catch (problem) {
      await Promise.all(opened.map(({ session }) => session.release()));
      throw problem;
    }
    const chain = opened.slice(0, form.chain.length);
    return new Classifier({
      ort: this.ort, chain, oodGraph: ood && opened[chain.length], oodThreshold: ood?.threshold ?? Infinity,
      classes: this.classes, symbols: this.symbols, leads: this.leads, rrVersion: this.rrVersion, certainty: certaintyOf(manifest, form), personal,
    });
  }

  /** Recompute the golden vectors, stage by stage, for the global and all personal models, and compare. */
  checkGolden() {
    return checkGolden(this);
  }

  /** @param {string} name @returns {Promise<import("./classifier.js").Graph & {inputs: string[]}>} */
  async session(name) {
    const { bytes, outside } = await this.graph(name);
    const where = `${this.files.name}/${name}`;
    checkOutside(this.manifest, name, where, outside);
    const batch = batchOf(outside, where);
    try {
      return { name: where, batch, inputs: outside.inputs.map((input) => input.name), session: await this.ort.InferenceSession.create(bytes, { logSeverityLevel: 4, ...this.sessionOptions }) };
    } catch (problem) {
      throw new BundleError(where, `cannot be run (${problem instanceof Error ? problem.message : problem})`, "", "export it again");
    }
  }
}

/** Check that `ort` is ONNX Runtime. @param {any} ort */
export function checkRuntime(ort) {
  if (typeof ort?.InferenceSession?.create === "function" && typeof ort.Tensor === "function") return;
  const pass = 'pass onnxruntime-node (in a page onnxruntime-web): import * as ort from "onnxruntime-node"';
  throw new EcgfedError("ort", ort === undefined ? "is not given" : "is not ONNX Runtime", "openBundle(source, { ort })", pass);
}

/** @typedef {{ort: any, verify?: boolean, trusted?: string | string[], sessionOptions?: object}} Options */
/**
 * Open a bundle.
 * @param {BundleSource} source a zip file's bytes, files by name or as dropped on a page, or an address
 * @param {Options} [options] ONNX Runtime
 *     (`onnxruntime-node` or `-web`); with verify false each file is read and verified when used; trusted: public keys
 *     in PEM, one of which must have signed the bundle
 */
export async function openBundle(source, options) {
  const { ort, verify = true, trusted, sessionOptions = {} } = options ?? {};
  checkRuntime(ort);
  const files = await filesOf(source);
  const bytes = await files.read(MANIFEST);
  const manifest = await readManifest(`${files.name}/${MANIFEST}`, bytes);
  const bundle = new Bundle(files, manifest, ort, sessionOptions, await checkSignature(files, bytes, trusted));
  if (verify) await bundle.verify();
  return bundle;
}
