/** Names of leads: which are the same, like one another, and no ECG (ecgfed/domain/record/leads.py, lead_names.py). */

import { RecordError } from "./errors.js";
import { NAMES } from "./lead-table.js";

/** How far one name of a lead answers for another one. */
export const ALIKE = Object.freeze({ OTHER: 0, MODIFIED: 1, LEAD: 2, NAME: 3, EXACT: 4 });
const NUMBERED = /\s*\(([0-9]{1,4})\)$/;
const KIND = new RegExp(`^(?:${NAMES.kind})`);
const MODIFIED = new RegExp(`^(?:${NAMES.modified})`);
const OTHER = new RegExp(NAMES.other);
const SAYS_ECG = new RegExp(NAMES.saysEcg);
const EEG = new RegExp(`^(?:${NAMES.eeg})$`);
const LEADS = new Map(Object.entries(/** @type {Record<string, string[]>} */ (NAMES.leads)));

/** Return a name without case, blanks, hyphens, underscores and points; a minus before or behind it stays. @param {string} name */
function folded(name) {
  const text = name.normalize("NFKC").toLowerCase().trim();
  const bare = text.replace(/[\s\-_.,:;]+/g, "");
  return (text.startsWith("-") ? "-" : "") + bare + (bare && text.endsWith("-") ? "-" : "");
}

/** Return the lead that a folded name means, and how its electrodes were moved, or null. @param {string} text */
function knownLead(text) {
  const found = LEADS.get(text);
  if (found) return { lead: found[0], electrodes: found[1] };
  const bare = text.replace(KIND, "");
  const modified = MODIFIED.exec(bare);
  const named = LEADS.get(modified ? bare.slice(modified[0].length) : bare);
  return named ? { lead: named[0], electrodes: modified ? named[1] || "mod" : named[1] } : null;
}

/** Say how far a lead that is there answers for one that is asked for. @param {string} asked @param {string} present */
export function alike(asked, present) {
  if (asked === present) return ALIKE.EXACT;
  const numbers = new Set([asked, present].flatMap((name) => NUMBERED.exec(name)?.slice(1).map(Number) ?? []));
  if (numbers.size > 1) return ALIKE.OTHER;
  const [one, other] = [asked, present].map((name) => folded(name.replace(NUMBERED, "")));
  if (one === other && one) return ALIKE.NAME;
  const [first, second] = [knownLead(one), knownLead(other)];
  if (!first || !second || first.lead !== second.lead) return ALIKE.OTHER;
  return first.electrodes === second.electrodes ? ALIKE.LEAD : ALIKE.MODIFIED;
}

/** @param {string} name */
function electrodeOfEeg(name) {
  const text = folded(name).replace(/^-+|-+$/g, "");
  return text.startsWith("eeg") || (EEG.test(text) && knownLead(text) === null);
}

/** Say whether a name is one of something else than an ECG. @param {string} name @param {boolean} brain other channels are EEG */
function isAnotherSignal(name, brain) {
  const text = folded(name);
  if (knownLead(text) !== null) return brain && /^c[1-6]$/.test(text);
  if (text.endsWith("cal")) {
    const of = text.slice(0, -3);
    if (knownLead(of) !== null || new RegExp(`^(?:${NAMES.saysEcg})$`).test(of)) return true;
  }
  let words = name.normalize("NFKC").toLowerCase().replaceAll(".", "").replaceAll("_", " ");
  if (SAYS_ECG.test(words)) words = words.replace(new RegExp(NAMES.aboutEcg, "g"), "");
  return OTHER.test(words) || electrodeOfEeg(name);
}

/**
 * Say of each channel whether it may be taken for an ECG unasked: beside one that is labelled so no other is.
 * @param {string[]} names
 * @param {string[]} units "" is unknown
 */
export function areEcg(names, units = []) {
  const says = names.map((name) => SAYS_ECG.test(folded(name)));
  const brain = names.some((name, i) => electrodeOfEeg(name) || says[i]);
  const possible = names.map((name, i) => {
    const unit = (units[i] ?? "").trim();
    return !isAnotherSignal(name, brain) && (!unit || /^[mu\u00b5\u03bcn]?V$/.test(unit));
  });
  const labelled = names.map((name, i) => possible[i] && (says[i] || knownLead(folded(name)) !== null));
  return labelled.includes(true) ? labelled : possible;
}

/**
 * Return the position of the lead that is asked for, or of the first ECG where none is.
 * @param {string[]} present names of the channels, in order
 * @param {string} where the recording, for the error
 * @param {readonly string[]} leads names in order of preference, or places as "#2"
 * @param {string[]} units the channels' units, as far as they are known
 */
export function chooseLead(present, where, leads, units = []) {
  const listed = present.join(", ");
  if (!leads.length) {
    const named = areEcg(present);
    if (!named.includes(true)) throw new RecordError(where, `has no channel that is an ECG; it has ${listed}`, "", "name a lead");
    const voltages = areEcg(present, units);
    return (voltages.includes(true) ? voltages : named).indexOf(true);
  }
  for (const least of [ALIKE.EXACT, ALIKE.NAME, ALIKE.LEAD, ALIKE.MODIFIED]) {
    for (const lead of leads) {
      const place = /^#\s*([0-9]{1,4})$/.exec(lead.trim());
      if (place && least === ALIKE.EXACT && Number(place[1]) >= 1 && Number(place[1]) <= present.length) return Number(place[1]) - 1;
      const at = present.flatMap((name, i) => (alike(lead, name) === least ? [i] : []));
      if (at.length > 1) throw new RecordError(where, `has ${at.length} leads ${lead}: ${listed}`, "one", `choose by its place: '#${at[0] + 1}'`);
      if (at.length) return at[0];
    }
  }
  throw new RecordError(where, `has no lead ${leads.join(" or ")}; it has ${listed}`, "", "name a lead");
}

/** Return names of which no two are the same: the second ECG is "ECG (2)", and the first then "ECG (1)". @param {string[]} names */
export function distinct(names) {
  const taken = new Set(names);
  /** @type {Map<string, number>} */
  const seen = new Map();
  return names.map((name) => {
    const twice = names.filter((one) => one === name).length > 1;
    let made = name;
    while (twice && taken.has(made)) {
      seen.set(name, (seen.get(name) ?? 0) + 1);
      made = `${name} (${seen.get(name)})`;
    }
    taken.add(made);
    return made;
  });
}
