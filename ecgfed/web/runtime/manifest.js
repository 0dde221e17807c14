/**
 * `manifest.json`: checked alone, and compared with what this runtime does and with every graph
 * (ecgfed/device/manifest.py). Versions 1 and 2 are read.
 */

import { digestOf } from "./canonical.js";
import { BundleError } from "./errors.js";
import { DESCRIPTION, bandPassTaps } from "./filters.js";
import { labelFault, pathFault } from "./paths.js";
import { FS_HZ, RR_NAMES, R_INDEX, WINDOW_SAMPLES } from "./windows.js";

/** @typedef {Record<string, any>} Manifest the parsed file, whose fields are checked before they are used */

export const MANIFEST = "manifest.json";
const VERSIONS = [1, 2];
const MOST_BYTES = 64 << 20;
const MOST_CLASS_NAME = 4096;
const NORMALISATION = "each window by its own mean and standard deviation, in the graph";
const CHAINS = [
  "model", "ensemble", "extractor,head", "extractor,linear", "describer,kernel", "describer,gated", "decoupled",
];
const AGAIN = "export it again";
const ASK = "ask for the bundle again";

/** Whether two values of JSON are equal. @param {any} one @param {any} other @returns {boolean} */
export function same(one, other) {
  if (Array.isArray(one) || Array.isArray(other)) {
    return Array.isArray(one) && Array.isArray(other) && one.length === other.length && one.every((part, i) => same(part, other[i]));
  }
  if (one !== null && other !== null && typeof one === "object" && typeof other === "object") {
    const names = Object.keys(one);
    return names.length === Object.keys(other).length && names.every((name) => Object.hasOwn(other, name) && same(one[name], other[name]));
  }
  return one === other;
}

/**
 * Read and check a manifest.
 * @param {string} where for errors
 * @param {Uint8Array} bytes
 * @returns {Promise<Manifest>}
 */
export async function readManifest(where, bytes) {
  if (bytes.length > MOST_BYTES) throw new BundleError(where, `has ${bytes.length} bytes`, `at most ${MOST_BYTES}`);
  /** @type {Manifest} */
  let manifest;
  try {
    manifest = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch {
    throw new BundleError(where, "cannot be read as JSON", "", AGAIN);
  }
  const version = manifest?.schema_version;
  if (!VERSIONS.includes(version)) throw new BundleError(where, `schema version ${String(version)}`, VERSIONS.join(" or "), "run 'ecgfed export' again");
  await checkDigest(where, manifest);
  try {
    checkFields(where, manifest);
  } catch (problem) {
    if (problem instanceof BundleError) throw problem;
    throw new BundleError(where, "is not of its form", "the manifest of a bundle of ECG beats", AGAIN);
  }
  return manifest;
}

/** @param {string} where @param {Manifest} manifest */
async function checkDigest(where, manifest) {
  if (!Object.hasOwn(manifest, "digest")) return;
  let found = "";
  try {
    found = await digestOf(manifest, "digest");
  } catch (problem) {
    throw new BundleError(where, `has no digest (${problem instanceof Error ? problem.message : problem})`, "", AGAIN);
  }
  if (manifest.digest !== found) throw new BundleError(where, "was changed (its digest is not the one it holds)", "", ASK);
}

/** @param {string} where @param {Manifest} manifest */
function checkFields(where, manifest) {
  const fail = (/** @type {string} */ found, expected = "") => new BundleError(where, found, expected, AGAIN);
  if ((manifest.modality ?? "ecg") !== "ecg") throw fail("was trained on images", "a bundle of ECG beats");
  const { classes, symbols } = manifest.label_map;
  for (const name of classes) if (labelFault(name, MOST_CLASS_NAME)) throw fail("has a class whose name cannot be shown", "a printable name");
  if (new Set(classes).size !== classes.length || classes.length < 2) throw fail("one class twice, or fewer than two", "each once");
  if (manifest.classes !== undefined && !same(manifest.classes, classes)) throw fail("classes in another order than its label map's");
  const named = new Set(Object.values(symbols));
  if (classes.some((/** @type {string} */ name) => !named.has(name))) throw fail("lacks a symbol for a class");
  for (const lead of leadsOf(manifest)) if (labelFault(lead)) throw fail("has a lead whose name cannot be shown");
  for (const field of ["method", "intended_use"]) if (typeof manifest[field] !== "string") throw fail(`lacks ${field}`);
  checkRuntime(manifest, fail);
  checkFiles(manifest, fail);
  for (const entry of [manifest.global, ...Object.values(manifest.patients)]) {
    certaintyOf(manifest, entry);
    if (entry.int8 != null) certaintyOf(manifest, checkedInt8(manifest, entry.int8));
  }
  farRuleOf(manifest);
  if (manifest.schema_version > 1) checkTold(manifest, fail);
}

/** Check what is said of an int8 form. @param {Manifest} manifest @param {any} form */
function checkedInt8(manifest, form) {
  for (const bound of [manifest.int8.loss, manifest.int8.agreement]) numberIn(bound, 0, 1);
  if (form.accepted !== (form.chain !== null)) throw new TypeError("graphs of the int8 forms that were accepted");
  if (form.chain === null && typeof form.reason !== "string") throw new TypeError("a reason");
  for (const name of ["macro_f1_float", "macro_f1", "agreement"]) if (form[name] !== null) numberIn(form[name], 0, 1);
  return form;
}

/**
 * Return the int8 form of the global model (null) or a patient's, or say why there is none.
 * @param {string} where for errors
 * @param {Manifest} manifest
 * @param {string | null} patient one of the bundle's
 */
export function int8FormOf(where, manifest, patient) {
  const entry = patient === null ? manifest.global : manifest.patients[patient];
  const whose = patient === null ? "the global model" : `patient '${patient}'`;
  const leave = "leave int8 out for the float model";
  if (entry.int8 == null) throw new BundleError(where, `has no int8 form of ${whose}`, "one of 'ecgfed export --int8'", leave);
  if (entry.int8.chain === null) throw new BundleError(where, `refused the int8 form of ${whose}: ${entry.int8.reason.slice(0, 200)}`, "an accepted one", leave);
  return entry.int8;
}

/** Check what version 2 says beyond version 1. @param {Manifest} manifest @param {(found: string, expected?: string) => BundleError} fail */
function checkTold(manifest, fail) {
  for (const name of ["digest", "run"]) if (!Object.hasOwn(manifest, name)) throw fail(`has no ${name}`, "one, as of every bundle of version 2");
  checkPreprocessing(manifest, fail);
  for (const field of ["golden", "card", "card_facts"]) {
    const name = manifest[field];
    if (!Object.hasOwn(manifest.files, name) || manifest.files[name].role !== field) throw fail(`lacks a file of the bundle that is its ${field}`);
  }
}

/** The lead names it was trained on, in order of preference. @param {Manifest} manifest @returns {string[]} */
export function leadsOf(manifest) {
  return manifest.leads ?? String(manifest.lead).split("|");
}

/** The version of the RR features that its graphs take, 0 for none. @param {Manifest} manifest @returns {0 | 1 | 2} */
export function rrVersionOf(manifest) {
  return Object.hasOwn(manifest.inputs, "rr") ? (manifest.rr_features?.version ?? 1) : 0;
}

/**
 * Compare what the manifest says of preprocessing with what this runtime does.
 * @param {Manifest} manifest
 * @param {(found: string, expected?: string) => BundleError} fail
 */
function checkRuntime(manifest, fail) {
  const fixed = { fs_hz: FS_HZ, window_samples: WINDOW_SAMPLES, r_index: R_INDEX, units: "mV", filter: DESCRIPTION };
  for (const [name, value] of Object.entries(fixed)) {
    if (!same(manifest[name], value)) throw fail(`${name} ${JSON.stringify(manifest[name])}`, `${value}, all this runtime does`);
  }
  if (manifest.normalisation !== undefined && manifest.normalisation !== NORMALISATION) throw fail("another normalisation", NORMALISATION);
  const said = manifest.rr_features;
  const known = said === undefined || [1, 2].some((version) => same(said, { version, names: [.../** @type {any} */ (RR_NAMES)[version]] }));
  if (!known) throw fail("other rr_features", "those of version 1 or 2");
  const version = rrVersionOf(manifest);
  /** @type {Record<string, number[]>} */
  const inputs = { window: [1, WINDOW_SAMPLES] };
  if (version) inputs.rr = [RR_NAMES[version].length];
  if (!same(manifest.inputs, inputs)) throw fail(`inputs ${JSON.stringify(manifest.inputs)}`, "those of a net of ecgfed");
}

/**
 * Yield every model of a bundle: its id (null: the global one), its entry, its form, its chain of files.
 * @param {Manifest} manifest
 * @returns {{client: string | null, entry: any, form: "float" | "int8", chain: string[]}[]}
 */
export function modelsOf(manifest) {
  const all = [[null, manifest.global], ...Object.entries(manifest.patients)];
  return all.flatMap(([client, entry]) => {
    const found = [{ client, entry, form: /** @type {"float" | "int8"} */ ("float"), chain: entry.chain }];
    if (entry.int8?.chain != null) found.push({ client, entry, form: "int8", chain: entry.int8.chain });
    return found;
  });
}

/** @param {Manifest} manifest @param {(found: string, expected?: string) => BundleError} fail */
function checkFiles(manifest, fail) {
  const { files } = manifest;
  const strangers = fail("names files that are not the bundle's");
  for (const [name, about] of Object.entries(files)) {
    if (pathFault(name) || typeof about.sha256 !== "string" || !Number.isSafeInteger(about.bytes ?? 0)) throw strangers;
  }
  for (const { chain } of modelsOf(manifest)) {
    if (!Array.isArray(chain) || !chain.length || !chain.every((one) => typeof one === "string" && Object.hasOwn(files, one))) throw strangers;
    if (!CHAINS.includes(chain.map((name) => files[name].role).join(","))) throw fail("a chain of other graphs", "a model, or an extractor and a head");
  }
  for (const [client, entry] of Object.entries(manifest.patients)) {
    if (pathFault(client) || labelFault(client) || labelFault(entry.patient)) throw fail("has a patient whose id cannot be a file's name");
  }
}

/** @param {unknown} value @param {number} low @param {number} high @returns {number} */
function numberIn(value, low, high) {
  if (typeof value !== "number" || !(value >= low && value <= high)) throw new TypeError("a number in its bounds");
  return value;
}

/**
 * What one model's probabilities are worth: what divides its logits, and below which probability a class is uncertain.
 * @param {Manifest} manifest
 * @param {any} entry `global`, a patient's, or that of its int8 form
 */
export function certaintyOf(manifest, entry) {
  if (entry.certainty == null || manifest.certainty == null) return { temperature: 1, threshold: 0 };
  const temperature = numberIn(entry.certainty.temperature, Number.MIN_VALUE, 1000);
  return { temperature, threshold: numberIn(entry.certainty.threshold, 0, 1) };
}

/** When a beat is far, or null where nobody says. @param {Manifest} manifest @returns {{graph: string, threshold: number} | null} */
export function farRuleOf(manifest) {
  const said = manifest.certainty?.far;
  if (said == null) return null;
  if (typeof said.graph !== "string" || manifest.files[said.graph]?.role !== "far") throw new TypeError("a graph of the bundle");
  return { graph: said.graph, threshold: numberIn(said.threshold, 0, Number.MAX_VALUE) };
}

/** Compare what version 2 says in full with what this runtime does. @param {Manifest} manifest @param {(found: string, expected?: string) => BundleError} fail */
function checkPreprocessing(manifest, fail) {
  const { filter, window, rr } = manifest.preprocessing;
  const other = (/** @type {string} */ what) => fail(`preprocessing.${what} that this runtime does not do`);
  const taps = bandPassTaps(FS_HZ);
  const said = filter.taps.first_half_and_middle;
  const half = taps.length >> 1;
  const close = said.length === half + 1 && said.every((/** @type {number} */ one, /** @type {number} */ i) => Math.abs(one - taps[i]) <= 1e-9 * Math.abs(taps[i]) + 1e-15);
  if (!close || filter.taps.count !== taps.length) throw other("filter");
  const cut = { samples: WINDOW_SAMPLES, r_index: R_INDEX, fs_hz: FS_HZ, unit: "mV" };
  if (Object.entries(cut).some(([name, value]) => window[name] !== value)) throw other("window");
  const version = rrVersionOf(manifest);
  const names = version ? RR_NAMES[version] : null;
  const told = rr === null ? null : rr.features.map((/** @type {{name: string}} */ one) => one.name);
  if (!same(told, names && [...names])) throw other("rr");
}

/**
 * Compare one graph's metadata with the manifest that names it; what it does not say is not asked of it.
 * @param {Manifest} manifest
 * @param {string} name the graph's file
 * @param {string} where for errors
 * @param {Map<string, string>} metadata
 */
export function checkGraph(manifest, name, where, metadata) {
  const leads = leadsOf(manifest);
  const told = {
    schema_version: manifest.schema_version, classes: manifest.label_map.classes, symbols: manifest.label_map.symbols,
    units: manifest.units, method: manifest.method, cohort_fingerprint: manifest.cohort?.fingerprint ?? null,
    fs_hz: manifest.fs_hz, samples_before_r: R_INDEX, samples_after_r: WINDOW_SAMPLES - R_INDEX, leads,
    lead: leads.join("|"), filter: manifest.filter, rr_features: manifest.rr_features ?? null, run: manifest.run ?? null,
  };
  const disagree = (/** @type {string} */ key, /** @type {string} */ said, /** @type {string} */ expected) =>
    new BundleError(where, `says ${key} ${said.slice(0, 100)} of itself, its manifest ${expected.slice(0, 100)}`, "one and the same", ASK);
  for (const [key, expected] of Object.entries(told)) {
    const said = metadata.get(key);
    if (said === undefined) continue;
    let parsed;
    try {
      parsed = JSON.parse(said);
    } catch {
      throw new BundleError(where, `says ${key} of itself that is no JSON`, "", AGAIN);
    }
    if (!same(parsed, expected)) throw disagree(key, said, JSON.stringify(expected));
  }
  const plain = { role: manifest.files[name].role, tool_version: manifest.tool_version, intended_use: manifest.intended_use };
  for (const [key, expected] of Object.entries(plain)) {
    const said = metadata.get(key);
    if (said !== undefined && said !== expected) throw disagree(key, said, String(expected));
  }
  for (const { client, entry } of modelsOf(manifest).filter(({ chain }) => chain.includes(name))) {
    for (const [key, whose] of [["client", client], ["patient", client === null ? null : entry.patient]]) {
      const said = metadata.get(/** @type {string} */ (key));
      if (said !== undefined && said !== whose) throw disagree(String(key), said, whose === null ? "the global model" : String(whose));
    }
  }
  if (metadata.has("run") && manifest.digest === undefined) throw new BundleError(where, "asks for a digest that its manifest lacks", "", ASK);
  if (manifest.run !== undefined && !metadata.has("run")) throw new BundleError(where, "does not say which run it is of", "a graph of this bundle", AGAIN);
}
