/** Lead names: equal and similar ones, and other signals (ecgfed/domain/record/leads.py, lead_names.py). */

import { RecordError } from "./errors.js";
import { NAMES } from "./lead-table.js";

/** How well a lead name matches another. */
export const MATCH = Object.freeze({ NONE: 0, MODIFIED: 1, LEAD: 2, NAME: 3, EXACT: 4 });
const NUMBERED = /\s*\(([0-9]{1,4})\)$/;
const KIND = new RegExp(`^(?:${NAMES.kind})`);
const MODIFIED = new RegExp(`^(?:${NAMES.modified})`);
const NOT_ECG = new RegExp(NAMES.other);
const ECG_WORD = new RegExp(NAMES.ecgWord);
const EEG = new RegExp(`^(?:${NAMES.eeg})$`);
const LEADS = new Map(Object.entries(/** @type {Record<string, string[]>} */ (NAMES.leads)));

/** Normalise a name: lower case, without spaces, hyphens, underscores and points; a leading or trailing minus stays. @param {string} name */
function folded(name) {
  const text = name.normalize("NFKC").toLowerCase().trim();
  const bare = text.replace(/[\s\-_.,:;]+/g, "");
  return (text.startsWith("-") ? "-" : "") + bare + (bare && text.endsWith("-") ? "-" : "");
}

/** Return the lead of a normalised name and its electrode placement, or null. @param {string} text */
function knownLead(text) {
  const known = LEADS.get(text);
  if (known) return { lead: known[0], electrodes: known[1] };
  const bare = text.replace(KIND, "");
  const modified = MODIFIED.exec(bare);
  const named = LEADS.get(modified ? bare.slice(modified[0].length) : bare);
  return named ? { lead: named[0], electrodes: modified ? named[1] || "mod" : named[1] } : null;
}

/** Return how well a present lead matches a requested one. @param {string} requested @param {string} present */
export function leadMatch(requested, present) {
  if (requested === present) return MATCH.EXACT;
  const numbers = new Set([requested, present].flatMap((name) => NUMBERED.exec(name)?.slice(1).map(Number) ?? []));
  if (numbers.size > 1) return MATCH.NONE;
  const [requestedName, presentName] = [requested, present].map((name) => folded(name.replace(NUMBERED, "")));
  if (requestedName === presentName && requestedName) return MATCH.NAME;
  const [first, second] = [knownLead(requestedName), knownLead(presentName)];
  if (!first || !second || first.lead !== second.lead) return MATCH.NONE;
  return first.electrodes === second.electrodes ? MATCH.LEAD : MATCH.MODIFIED;
}

/** @param {string} name */
function electrodeOfEeg(name) {
  const text = folded(name).replace(/^-+|-+$/g, "");
  return text.startsWith("eeg") || (EEG.test(text) && knownLead(text) === null);
}

/** Return whether a name is that of another signal than an ECG. @param {string} name @param {boolean} brain other channels are EEG */
function isAnotherSignal(name, brain) {
  const text = folded(name);
  if (knownLead(text) !== null) return brain && /^c[1-6]$/.test(text);
  if (text.endsWith("cal")) {
    const of = text.slice(0, -3);
    if (knownLead(of) !== null || new RegExp(`^(?:${NAMES.ecgWord})$`).test(of)) return true;
  }
  let words = name.normalize("NFKC").toLowerCase().replaceAll(".", "").replaceAll("_", " ");
  if (ECG_WORD.test(words)) words = words.replace(new RegExp(NAMES.notEcgWords, "g"), "");
  return NOT_ECG.test(words) || electrodeOfEeg(name);
}

/**
 * Return for each channel whether it is an ECG; if any is labelled as ECG, only labelled ones are.
 * @param {string[]} names
 * @param {string[]} units "" is unknown
 */
export function areEcg(names, units = []) {
  const namedEcg = names.map((name) => ECG_WORD.test(folded(name)));
  const brain = names.some((name, i) => electrodeOfEeg(name) || namedEcg[i]);
  const possible = names.map((name, i) => {
    const unit = (units[i] ?? "").trim();
    return !isAnotherSignal(name, brain) && (!unit || /^[mu\u00b5\u03bcn]?V$/.test(unit));
  });
  const labelled = names.map((name, i) => possible[i] && (namedEcg[i] || knownLead(folded(name.replace(NUMBERED, ""))) !== null));
  return labelled.includes(true) ? labelled : possible;
}

/**
 * Return the index of the requested lead, or of the first ECG if none is requested.
 * @param {string[]} present names of the channels, in order
 * @param {string} where the recording, for the error
 * @param {readonly string[]} leads names in order of preference, or positions such as "#2"
 * @param {string[]} units units of the channels, if known
 */
export function chooseLead(present, where, leads, units = []) {
  const listed = present.join(", ");
  if (!leads.length) {
    const named = areEcg(present);
    if (!named.includes(true)) throw new RecordError(where, `has no channel that is an ECG; it has ${listed}`, "", "name a lead");
    const voltages = areEcg(present, units);
    return (voltages.includes(true) ? voltages : named).indexOf(true);
  }
  for (const level of [MATCH.EXACT, MATCH.NAME, MATCH.LEAD, MATCH.MODIFIED]) {
    for (const lead of leads) {
      const number = /^#\s*([0-9]{1,4})$/.exec(lead.trim());
      if (number && level === MATCH.EXACT && Number(number[1]) >= 1 && Number(number[1]) <= present.length) return Number(number[1]) - 1;
      const at = present.flatMap((name, i) => (leadMatch(lead, name) === level ? [i] : []));
      if (at.length > 1) throw new RecordError(where, `has ${at.length} leads ${lead}: ${listed}`, "one", `choose by its place: '#${at[0] + 1}'`);
      if (at.length) return at[0];
    }
  }
  throw new RecordError(where, `has no lead ${leads.join(" or ")}; it has ${listed}`, "", "name a lead");
}

/** Make names unique: two channels "ECG" become "ECG (1)" and "ECG (2)". @param {string[]} names */
export function distinct(names) {
  const taken = new Set(names);
  /** @type {Map<string, number>} */
  const counts = new Map();
  return names.map((name) => {
    const twice = names.filter((candidate) => candidate === name).length > 1;
    let unique = name;
    while (twice && taken.has(unique)) {
      counts.set(name, (counts.get(name) ?? 0) + 1);
      unique = `${name} (${counts.get(name)})`;
    }
    taken.add(unique);
    return unique;
  });
}
