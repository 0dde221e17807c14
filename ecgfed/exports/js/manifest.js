/**
 * `manifest.json`: checks of its own fields, against this runtime and against every graph
 * (ecgfed/exports/device/manifest.py). Versions 1 and 2 are read.
 */

import { digestOf } from "./canonical.js";
import { BundleError } from "./errors.js";
import { DESCRIPTION } from "./filters.js";
import { checkCertainties, checkInt8, checkTrainedOn, entriesOf, modelsOf, objectOf } from "./manifest-models.js";
import { checkClassTable, difference, preprocessingDifference } from "./manifest-preprocessing.js";
import { labelProblem, nameProblem, pathProblem } from "./paths.js";
import { FS_HZ, RR_NAMES, R_INDEX, WINDOW_SAMPLES } from "./windows.js";

/** @typedef {Record<string, any>} Manifest the parsed file, whose fields are checked before they are used */

export const MANIFEST = "manifest.json";
const VERSIONS = [1, 2];
const MAX_BYTES = 64 << 20;
const MAX_CLASS_NAME = 4096;
const NORMALISATION = "each window by its own mean and standard deviation, in the graph";
const CHAINS = [
  ["model"], ["ensemble"], ["extractor", "head"], ["extractor", "linear"], ["extractor", "neighbours"], ["describer", "kernel"], ["describer", "gated"], ["decoupled"], ["valved"],
];
/** Maximum nesting depth. */
const MAX_DEPTH = 32;
const AGAIN = "export it again";
const ASK = "ask for the bundle again";

/** Return whether two JSON values are equal. @param {any} a @param {any} b @returns {boolean} */
export function same(a, b) {
  if (Array.isArray(a) || Array.isArray(b)) {
    return Array.isArray(a) && Array.isArray(b) && a.length === b.length && a.every((part, i) => same(part, b[i]));
  }
  if (a !== null && b !== null && typeof a === "object" && typeof b === "object") {
    const names = Object.keys(a);
    return names.length === Object.keys(b).length && names.every((name) => Object.hasOwn(b, name) && same(a[name], b[name]));
  }
  return a === b;
}

/**
 * Read and check a manifest.
 * @param {string} where for errors
 * @param {Uint8Array} bytes
 * @returns {Promise<Manifest>}
 */
export async function readManifest(where, bytes) {
  if (bytes.length > MAX_BYTES) throw new BundleError(where, `has ${bytes.length} bytes`, `at most ${MAX_BYTES}`);
  /** @type {Manifest} */
  let manifest;
  try {
    manifest = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch {
    throw new BundleError(where, "cannot be read as JSON", "", AGAIN);
  }
  checkDepth(where, manifest);
  const version = manifest?.schema_version;
  if (!VERSIONS.includes(version)) throw new BundleError(where, `schema version ${String(version)}`, VERSIONS.join(" or "), "run 'ecgfed export' again");
  await checkDigest(where, manifest);
  try {
    checkFields(where, manifest);
  } catch (problem) {
    if (problem instanceof BundleError) throw problem;
    const lacks = problem instanceof Error ? `is not of its form (${problem.message})` : "is not of its form";
    throw new BundleError(where, lacks, "the manifest of a bundle of ECG beats", AGAIN);
  }
  return manifest;
}

/** @param {string} where @param {Manifest} manifest */
async function checkDigest(where, manifest) {
  if (!Object.hasOwn(manifest, "digest")) return;
  let digest = "";
  try {
    digest = await digestOf(manifest, "digest");
  } catch (problem) {
    throw new BundleError(where, `has no digest (${problem instanceof Error ? problem.message : problem})`, "", AGAIN);
  }
  if (manifest.digest !== digest) throw new BundleError(where, "was changed (its digest is not the one it holds)", "", ASK);
}

/** @param {string} where @param {unknown} document */
function checkDepth(where, document) {
  let level = [document];
  for (let depth = 0; depth <= MAX_DEPTH; depth += 1) {
    level = level.flatMap((value) => (value !== null && typeof value === "object" ? Object.values(value) : []));
    if (!level.length) return;
  }
  throw new BundleError(where, `cannot be read as JSON (deeper than ${MAX_DEPTH} levels)`, "", AGAIN);
}

/** @param {string} where @param {Manifest} manifest */
function checkFields(where, manifest) {
  const fail = (/** @type {string} */ problem, expected = "") => new BundleError(where, problem, expected, AGAIN);
  const modality = Object.hasOwn(manifest, "modality") ? manifest.modality : "ecg";
  if (modality !== "ecg") throw fail(modality === "image" ? "was trained on images" : "modality of another kind", "a bundle of ECG beats");
  checkClasses(manifest, fail);
  for (const lead of leadsOf(manifest)) if (labelProblem(lead)) throw fail("has a lead whose name cannot be shown");
  for (const field of ["method", "intended_use"]) if (typeof manifest[field] !== "string") throw fail(`lacks ${field}`);
  checkRuntime(manifest, fail);
  checkFiles(manifest, fail);
  checkTrainedOn(manifest);
  checkInt8(manifest);
  checkCertainties(manifest);
  if (manifest.schema_version > 1) checkVersion2(manifest, fail);
}

/** @param {Manifest} manifest @param {(found: string, expected?: string) => BundleError} fail */
function checkClasses(manifest, fail) {
  const { name: map, classes, symbols } = objectOf(manifest.label_map, "label_map");
  if (map === undefined || !Array.isArray(classes)) throw new TypeError("a label_map with its name and classes");
  for (const name of classes) if (labelProblem(name, MAX_CLASS_NAME)) throw fail("has a class whose name cannot be shown", "a printable name");
  if (new Set(classes).size !== classes.length || classes.length < 2) throw fail("one class twice, or fewer than two", "each once");
  if (manifest.classes !== undefined && !same(manifest.classes, classes)) throw fail("classes in another order than its label map's");
  const named = new Set(Object.values(objectOf(symbols, "symbols of label_map")));
  if (classes.some((/** @type {string} */ name) => !named.has(name))) throw fail("lacks a symbol for a class");
}

/** Check the additional fields of version 2. @param {Manifest} manifest @param {(found: string, expected?: string) => BundleError} fail */
function checkVersion2(manifest, fail) {
  for (const name of ["digest", "run"]) if (!Object.hasOwn(manifest, name)) throw fail(`has no ${name}`, "one, as of every bundle of version 2");
  checkClassTable(manifest);
  const differs = preprocessingDifference(manifest, rrVersionOf(manifest));
  if (differs) throw fail(`${differs.where} ${JSON.stringify(differs.stored)?.slice(0, 100)}`, `${JSON.stringify(differs.expected)?.slice(0, 200)}, all this runtime does`);
  for (const field of ["golden", "card", "card_facts"]) {
    const name = manifest[field];
    if (typeof name !== "string" || !Object.hasOwn(manifest.files, name) || manifest.files[name].role !== field) {
      throw fail(`lacks a file of the bundle that is its ${field}`);
    }
  }
}

/** The lead names it was trained on, in order of preference. @param {Manifest} manifest @returns {string[]} */
export function leadsOf(manifest) {
  if (Object.hasOwn(manifest, "leads")) {
    if (!Array.isArray(manifest.leads)) throw new TypeError("leads in a list");
    return manifest.leads;
  }
  if (!Object.hasOwn(manifest, "lead")) throw new TypeError("leads");
  return String(manifest.lead).split("|");
}

/** Version of the RR features of its graphs, 0 for none. @param {Manifest} manifest @returns {0 | 1 | 2 | 3} */
export function rrVersionOf(manifest) {
  return Object.hasOwn(manifest.inputs, "rr") ? (manifest.rr_features?.version ?? 1) : 0;
}

/**
 * Compare the preprocessing in the manifest with this runtime.
 * @param {Manifest} manifest
 * @param {(found: string, expected?: string) => BundleError} fail
 */
function checkRuntime(manifest, fail) {
  const fixed = { fs_hz: FS_HZ, window_samples: WINDOW_SAMPLES, r_index: R_INDEX, units: "mV", filter: DESCRIPTION };
  for (const [name, value] of Object.entries(fixed)) {
    if (!same(manifest[name], value)) throw fail(`${name} ${JSON.stringify(manifest[name])}`, `${value}, all this runtime does`);
  }
  if (manifest.normalisation !== undefined && manifest.normalisation !== NORMALISATION) throw fail("another normalisation", NORMALISATION);
  const rr = manifest.rr_features;
  const known = rr === undefined || [1, 2, 3].some((version) => same(rr, { version, names: [.../** @type {any} */ (RR_NAMES)[version]] }));
  if (!known) throw fail("other rr_features", "those of version 1, 2 or 3");
  const version = rrVersionOf(manifest);
  /** @type {Record<string, number[]>} */
  const inputs = { window: [1, WINDOW_SAMPLES] };
  if (version) inputs.rr = [RR_NAMES[version].length];
  if (!same(manifest.inputs, inputs)) throw fail(`inputs ${JSON.stringify(manifest.inputs)}`, "those of a net of ecgfed");
}

/** @param {Manifest} manifest @param {(found: string, expected?: string) => BundleError} fail */
function checkFiles(manifest, fail) {
  const files = objectOf(manifest.files, "files");
  const strangers = fail("names files that are not the bundle's");
  const isFile = (/** @type {unknown} */ name) => typeof name === "string" && Object.hasOwn(files, name);
  for (const [name, entry] of Object.entries(files)) {
    const size = Object.hasOwn(entry, "bytes") ? entry.bytes : 0;
    if (pathProblem(name) || typeof entry.sha256 !== "string" || !Number.isSafeInteger(size)) throw strangers;
  }
  objectOf(manifest.patients, "patients");
  for (const [, entry] of entriesOf(manifest)) objectOf(entry, "a model's entry");
  for (const { chain } of modelsOf(manifest)) {
    if (!Array.isArray(chain) || !chain.length || !chain.every(isFile)) throw strangers;
    const roles = chain.map((name) => files[name].role);
    if (!CHAINS.some((known) => same(known, roles))) throw fail("a chain of other graphs", "a model, or an extractor and a head");
  }
  if (manifest.weights != null && !isFile(manifest.weights)) throw strangers;
  for (const [client, entry] of Object.entries(manifest.patients)) {
    if (nameProblem(client) || labelProblem(entry.patient)) throw fail("has a patient whose id cannot be a file's name");
  }
}

/**
 * Compare a graph's metadata with the manifest; missing entries are not compared.
 * @param {Manifest} manifest
 * @param {string} name the graph's file
 * @param {string} where for errors
 * @param {Map<string, string>} metadata
 */
export function checkGraph(manifest, name, where, metadata) {
  const leads = leadsOf(manifest);
  const described = {
    schema_version: manifest.schema_version, classes: manifest.label_map.classes, symbols: manifest.label_map.symbols,
    units: manifest.units, method: manifest.method, cohort_fingerprint: manifest.cohort?.fingerprint ?? null,
    fs_hz: manifest.fs_hz, samples_before_r: R_INDEX, samples_after_r: WINDOW_SAMPLES - R_INDEX, leads,
    lead: leads.join("|"), filter: manifest.filter, rr_features: manifest.rr_features ?? null, run: manifest.run ?? null,
  };
  const disagree = (/** @type {string} */ key, /** @type {string} */ stored, /** @type {string} */ expected) =>
    new BundleError(where, `says ${key} ${stored.slice(0, 100)} of itself, its manifest ${expected.slice(0, 100)}`, "one and the same", ASK);
  for (const [key, expected] of Object.entries(described)) {
    const stored = metadata.get(key);
    if (stored === undefined) continue;
    let parsed;
    try {
      parsed = JSON.parse(stored);
    } catch {
      throw new BundleError(where, `says ${key} of itself that is no JSON`, "", AGAIN);
    }
    if (!same(parsed, expected)) throw disagree(key, stored, JSON.stringify(expected));
  }
  const plain = { role: manifest.files[name].role, tool_version: manifest.tool_version, intended_use: manifest.intended_use };
  for (const [key, expected] of Object.entries(plain)) {
    const stored = metadata.get(key);
    if (stored !== undefined && stored !== expected) throw disagree(key, stored, String(expected));
  }
  for (const { client, entry } of modelsOf(manifest).filter(({ chain }) => chain.includes(name))) {
    for (const [key, id] of [["client", client], ["patient", client === null ? null : entry.patient]]) {
      const stored = metadata.get(/** @type {string} */ (key));
      if (stored !== undefined && stored !== id) throw disagree(String(key), stored, id === null ? "the global model" : String(id));
    }
  }
  if (metadata.has("run") && manifest.digest === undefined) throw new BundleError(where, "asks for a digest that its manifest lacks", "", ASK);
  if (manifest.run !== undefined && !metadata.has("run")) throw new BundleError(where, "does not say which run it is of", "a graph of this bundle", AGAIN);
}

/**
 * Compare a graph's versions, inputs and outputs with a manifest of version 2.
 * @param {Manifest} manifest
 * @param {string} name the graph's file
 * @param {string} where for errors
 * @param {import("./onnx-metadata.js").Outside} outside
 */
export function checkOutside(manifest, name, where, outside) {
  if (!(manifest.schema_version > 1)) return;
  const differs = difference(outside, manifest.files[name].graph, "graph");
  if (!differs) return;
  const [graph, expected] = [differs.stored, differs.expected].map((value) => String(JSON.stringify(value)).slice(0, 100));
  throw new BundleError(where, `says ${differs.where} ${graph} of itself, its manifest ${expected}`, "one and the same", ASK);
}
