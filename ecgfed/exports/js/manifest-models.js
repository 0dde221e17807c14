/**
 * Models in a manifest: chains of graphs, int8 variants, calibration, training metadata (ecgfed/exports/device/int8.py,
 * calibration.py, training_metadata.py). An invalid field is a TypeError.
 */

import { BundleError } from "./errors.js";

/** @typedef {import("./manifest.js").Manifest} Manifest */

/** Limits of temperatures and of distances from prototypes. */
const [MIN_TEMPERATURE, MAX_TEMPERATURE, MAX_DISTANCE] = [0.001, 1000, 1e6];

/** @param {unknown} value @returns {value is Record<string, any>} */
export const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);

/** @param {unknown} value @param {string} what @returns {Record<string, any>} */
export function objectOf(value, what) {
  if (!isObject(value)) throw new TypeError(`${what} that is an object`);
  return value;
}

/** @param {unknown} value @param {string} what @returns {string[]} */
export function textsOf(value, what) {
  if (!Array.isArray(value) || !value.every((text) => typeof text === "string")) throw new TypeError(`${what} in a list of texts`);
  return value;
}

/** @param {unknown} value @param {number} low @param {number} high @param {string} what @returns {number} */
function numberIn(value, low, high, what) {
  if (typeof value !== "number" || !(value >= low && value <= high)) throw new TypeError(`a ${what} from ${low} to ${high}`);
  return value;
}

/** Entries of the global model (client null) and of each patient. @param {Manifest} manifest @returns {[string | null, any][]} */
export const entriesOf = (manifest) => [[null, manifest.global], ...Object.entries(manifest.patients)];

/**
 * Return all models of a bundle: client (null for the global model), entry, variant and chain of files.
 * @param {Manifest} manifest
 * @returns {{client: string | null, entry: any, form: "float" | "int8", chain: string[]}[]}
 */
export function modelsOf(manifest) {
  return entriesOf(manifest).flatMap(([client, entry]) => {
    const models = [{ client, entry, form: /** @type {"float" | "int8"} */ ("float"), chain: entry.chain }];
    if (entry.int8 != null && entry.int8.chain !== null) models.push({ client, entry, form: "int8", chain: entry.int8.chain });
    return models;
  });
}

/** Check the int8 fields of a manifest. @param {Manifest} manifest */
export function checkInt8(manifest) {
  const rule = manifest.int8 ?? null;
  if (rule !== null) for (const name of ["loss", "agreement"]) numberIn(rule[name], 0, 1, `${name} of int8`);
  for (const [, entry] of entriesOf(manifest)) {
    const form = entry.int8 ?? null;
    if (form === null) continue;
    if (rule === null) throw new TypeError("how its int8 forms were judged");
    if (form.accepted !== (form.chain !== null)) throw new TypeError("graphs of the int8 forms that were accepted, and of no others");
    if (form.chain === null && typeof form.reason !== "string") throw new TypeError("a reason why an int8 form was refused");
    for (const name of ["macro_f1_float", "macro_f1", "agreement"]) if (form[name] !== null) numberIn(form[name], 0, 1, `${name} of int8`);
  }
}

/**
 * Return the int8 variant of the global model (null) or of a patient; throws with the reason if there is none.
 * @param {string} where for errors
 * @param {Manifest} manifest
 * @param {string | null} patient one of the bundle's
 */
export function int8FormOf(where, manifest, patient) {
  const entry = patient === null ? manifest.global : manifest.patients[patient];
  const model = patient === null ? "the global model" : `patient '${patient}'`;
  const leave = "leave int8 out for the float model";
  if (entry.int8 == null) throw new BundleError(where, `has no int8 form of ${model}`, "one of 'ecgfed export --int8'", leave);
  if (entry.int8.chain === null) throw new BundleError(where, `refused the int8 form of ${model}: ${entry.int8.reason.slice(0, 200)}`, "an accepted one", leave);
  return entry.int8;
}

/**
 * Calibration of a model: temperature, and the probability below which a class has low confidence.
 * @param {Manifest} manifest
 * @param {any} entry `global`, a patient's, or that of its int8 form
 */
export function certaintyOf(manifest, entry) {
  const [calibration, rule] = [entry.certainty ?? null, manifest.certainty ?? null];
  if (calibration === null || rule === null) return { temperature: 1, threshold: 0 };
  const accuracy = numberIn(rule.accuracy, 0, 1, "accuracy");
  if (accuracy === 0) throw new TypeError("an accuracy above 0");
  const temperature = numberIn(calibration.temperature, MIN_TEMPERATURE, MAX_TEMPERATURE, "temperature");
  return { temperature, threshold: numberIn(calibration.threshold, 0, 1, "threshold") };
}

/** Graph and threshold of out-of-distribution detection, or null. @param {Manifest} manifest @returns {{graph: string, threshold: number} | null} */
export function oodRuleOf(manifest) {
  const rule = manifest.certainty ? objectOf(manifest.certainty, "certainty").far ?? null : null;
  if (rule === null) return null;
  const { graph, threshold } = rule;
  if (typeof graph !== "string" || !Object.hasOwn(manifest.files, graph) || manifest.files[graph].role !== "far") {
    throw new TypeError("a graph of the bundle that says what is far");
  }
  return { graph, threshold: numberIn(threshold, 0, MAX_DISTANCE, "distance from which on a beat is far") };
}

/** Check the calibration fields of a manifest. @param {Manifest} manifest */
export function checkCertainties(manifest) {
  oodRuleOf(manifest);
  for (const [, entry] of entriesOf(manifest)) {
    certaintyOf(manifest, entry);
    if (entry.int8 != null) certaintyOf(manifest, entry.int8);
  }
}

/** Check the training metadata of a manifest. @param {Manifest} manifest */
export function checkTrainedOn(manifest) {
  const classes = new Set(manifest.label_map.classes);
  for (const entry of Object.values(manifest.patients)) {
    if (entry.recordings != null) textsOf(entry.recordings, "a patient's recordings");
    if (entry.classes == null) continue;
    const named = textsOf(entry.classes, "a patient's classes");
    if (manifest.trained_on != null && named.some((name) => !classes.has(name))) throw new TypeError("classes of a patient that are the bundle's");
  }
  if (manifest.trained_on == null) return;
  const { synthetic, class_counts: counts, epoch_counts: drawn, other_leads: others = {}, recordings } = objectOf(manifest.trained_on, "trained_on");
  if (typeof synthetic !== "boolean") throw new TypeError("trained_on in its form");
  for (const [name, table] of Object.entries({ class_counts: counts, ...(drawn !== undefined && { epoch_counts: drawn }) })) {
    const ofClasses = areCounts(table) && Object.keys(table).length === classes.size && Object.keys(table).every((key) => classes.has(key));
    if (!ofClasses) throw new TypeError(`${name} of trained_on in their form`);
  }
  if (!areCounts(others)) throw new TypeError("other_leads of trained_on in their form");
  if (recordings !== null) textsOf(recordings, "recordings of trained_on");
}

/** @param {unknown} table @returns {table is Record<string, number>} */
const areCounts = (table) => isObject(table) && Object.values(table).every((count) => Number.isSafeInteger(count) && count >= 0);
