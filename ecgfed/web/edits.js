"use strict";
/*
 * A physician's edits of a report: what they do to beats, intervals and rhythms (the rules of ecgfed/reports/edited.py),
 * the steps to undo and redo, and the document that is saved (ecgfed/domain/labels/edits.py). Needs beats.js.
 */
const EcgEdits = (() => {
  const B = typeof EcgBeats === "undefined" ? require("./beats.js") : EcgBeats;
  const { trLater } = typeof EcgLanguage === "undefined" ? require("./language.js") : EcgLanguage;
  const FORMAT = "ecgfed-edits";
  const VERSION = 1;
  const NO_BEAT = "|";
  const ORDER = "NLRBV/AaJSFfEejnrQ?";
  const TEXTS = ["indication", "comments", "conclusion"];
  const [UNCERTAIN, UNLIKE, DOUBTED, CONFIRMED] = [1, 2, 4, 8];

  function bytesOf(text) {
    return Uint8Array.from(atob(text), (character) => character.charCodeAt(0)).buffer;
  }

  /** Return the beats before editing from the page's compact form. */
  function open(editing) {
    const base = { ...editing, sample: new Int32Array(bytesOf(editing.sample)), label: new Uint8Array(bytesOf(editing.label)) };
    const flags = new Uint8Array(bytesOf(editing.flags));
    const bit = (name, mask, count = flags.length) => (editing.known[name] ? Uint8Array.from(flags.subarray(0, count), (of) => (of & mask ? 1 : 0)) : null);
    base.uncertain = bit("uncertain", UNCERTAIN);
    base.unlike = bit("unlike", UNLIKE);
    base.doubted = bit("doubted", DOUBTED);
    base.confirmed = bit("confirmed", CONFIRMED, Math.max(flags.length - 1, 0));
    for (const name of ["ventricular", "supra"]) base[name] = editing[name] ? new Float64Array(bytesOf(editing[name])) : null;
    base.numbers = new Map(Array.from(base.sample, (sample, i) => [sample, i]));
    return base;
  }

  function labelsOf(base, edits) {
    const codes = [...base.codes];
    const [label, byPerson] = [Int16Array.from(base.label), new Uint8Array(base.label.length)];
    const labelled = edits.filter((edit) => edit.edit === "label");
    const numberOf = (code) => (code === NO_BEAT ? -1 : codes.includes(code) ? codes.indexOf(code) : codes.push(code) - 1);
    for (const { label: code } of labelled) numberOf(code);
    for (const edit of edits) {
      if (edit.edit !== "label" && edit.edit !== "accept") continue;
      const number = edit.edit === "label" ? numberOf(edit.label) : null;
      for (const sample of edit.samples) {
        const i = base.numbers.get(sample);
        if (number !== null) label[i] = number;
        byPerson[i] = 1;
      }
    }
    // of the new classes only those with beats, in the order of a legend
    const used = new Set(labelled.length ? label : []);
    const added = Array.from(ORDER).filter((code) => codes.indexOf(code) >= base.codes.length && used.has(codes.indexOf(code)));
    const places = new Map(codes.map((code, at) => [at, base.codes.length + added.indexOf(code)]));
    if (codes.length > base.codes.length) label.forEach((of, i) => of >= base.codes.length && (label[i] = places.get(of)));
    return { added, codes: [...base.codes, ...added], label, byPerson };
  }

  /** Return the remaining beats with the edits, as beatsOf of beats.js takes them, and where each was before. */
  function apply(base, edits, reviewed) {
    const { added, codes, label, byPerson } = labelsOf(base, edits);
    let count = 0;
    for (let i = 0; i < label.length; i += 1) count += label[i] >= 0 ? 1 : 0;
    const remaining = new Int32Array(count);
    for (let i = 0, at = 0; i < label.length; i += 1) if (label[i] >= 0) remaining[at++] = i;
    const kinds = [...base.kinds, ...added.map((code) => base.symbols[code][0])];
    const taken = (values) => {
      const left = new values.constructor(count);
      for (let at = 0; at < count; at += 1) left[at] = values[remaining[at]];
      return left;
    };
    const person = taken(byPerson);
    const own = Uint8Array.from(taken(label));
    const replaced = (values, by) => {
      const left = values && taken(values);
      for (let at = 0; left && at < count; at += 1) if (person[at]) left[at] = by(own[at]);
      return left;
    };
    const none = () => 0;
    const sample = taken(base.sample);
    return {
      fs: base.fs,
      samples: base.samples,
      unusable: base.unusable,
      sample,
      label: own,
      codes,
      kinds,
      classes: [...base.classes, ...added],
      meanings: [...base.meanings, ...added.map((code) => base.symbols[code][1])],
      uncertain: replaced(base.uncertain, none),
      unlike: replaced(base.unlike, none),
      doubted: replaced(base.doubted, none),
      ventricular: replaced(base.ventricular, (of) => Number(kinds[of] === B.KINDS.VENTRICULAR)),
      supra: replaced(base.supra, (of) => Number(kinds[of] === B.KINDS.SUPRA)),
      ...intervalsOf(base, remaining, sample, edits),
      provisional: base.provisional && !reviewed,
      remaining,
    };
  }

  function intervalsOf(base, remaining, sample, edits) {
    const between = Math.max(remaining.length - 1, 0);
    const confirmed = base.confirmed && new Uint8Array(between).fill(1);
    for (let at = 0; confirmed && at < between; at += 1) {
      for (let i = remaining[at]; i < remaining[at + 1]; i += 1) if (!base.confirmed[i]) confirmed[at] = 0;
    }
    const decisions = edits.filter((edit) => edit.edit === "interval");
    if (!decisions.length) return { confirmed, rejected: null };
    const rejected = new Uint8Array(between);
    for (const { samples, accepted } of decisions) {
      const at = B.lowerBound(sample, samples[0]);
      if (sample[at] !== samples[0] || sample[at + 1] !== samples[1]) continue;
      rejected[at] = accepted ? 0 : 1;
      if (confirmed && accepted) confirmed[at] = 1;
    }
    return { confirmed, rejected };
  }

  const keyOf = (name, samples) => JSON.stringify([name, ...samples]);

  /** Return the rhythms that do not depend on the beats, after the edits. */
  function rhythmsOf(base, edits) {
    const decided = new Map(edits.filter((edit) => edit.edit === "rhythm").map((edit) => [keyOf(edit.rhythm, edit.samples), edit.label]));
    const [remaining, accepted] = [[], new Map()];
    for (const rhythm of base.rhythms) {
      const undecided = { rhythm: rhythm.rhythm, source: rhythm.source, episodes: [], samples: [], certainty: [] };
      rhythm.episodes.forEach((episode, number) => {
        const label = decided.get(keyOf(rhythm.rhythm, rhythm.samples[number]));
        const origin = { episode, samples: rhythm.samples[number], of: rhythm.rhythm };
        if (label === undefined) {
          undecided.episodes.push(episode);
          undecided.samples.push(origin.samples);
          undecided.certainty.push(...rhythm.certainty.slice(number, number + 1));
        } else if (label) accepted.set(label, [...(accepted.get(label) || []), origin]);
      });
      if (undecided.episodes.length) remaining.push(undecided);
    }
    for (const [name, origins] of accepted) {
      origins.sort((a, b) => a.episode[0] - b.episode[0] || a.episode[1] - b.episode[1]);
      const all = { rhythm: name, source: "reviewer", certainty: [], episodes: origins.map((origin) => origin.episode) };
      remaining.push({ ...all, samples: origins.map((origin) => origin.samples), origins: origins.map((origin) => origin.of) });
    }
    return remaining;
  }

  /** Return the local date and time with its offset from UTC, as ISO 8601. */
  function localTime(now = new Date()) {
    const offset = -now.getTimezoneOffset();
    const two = (number) => String(Math.trunc(Math.abs(number))).padStart(2, "0");
    const local = new Date(now.getTime() + 60000 * offset).toISOString().slice(0, 19);
    return `${local}${offset < 0 ? "-" : "+"}${two(offset / 60)}:${two(offset % 60)}`;
  }

  const isText = (value, most = 10000) => typeof value === "string" && value.length <= most;

  /** Return why an edit of a document does not fit these beats, "" where it does. */
  function problemOf(base, edit) {
    const isObject = edit && typeof edit === "object" && Array.isArray(edit.samples) && edit.samples.length > 0;
    if (!isObject || !isText(edit.at, 40)) return trLater("an edit is not complete");
    if (edit.edit === "rhythm") {
      const known = base.rhythms.some((rhythm) => rhythm.samples.some((samples) => keyOf(rhythm.rhythm, samples) === keyOf(edit.rhythm, edit.samples)));
      return known && isText(edit.label, 200) ? "" : trLater("an episode that it edits is not in this report");
    }
    if (!["label", "accept", "interval"].includes(edit.edit)) return trLater("it has an unknown edit");
    if (!edit.samples.every((sample) => base.numbers.has(sample))) return trLater("a beat that it edits is not in this report");
    if (edit.edit === "label" && edit.label !== NO_BEAT && !(isText(edit.label, 1) && Object.hasOwn(base.symbols, edit.label))) return trLater("it has an unknown label");
    if (edit.edit === "interval" && (edit.samples.length !== 2 || typeof edit.accepted !== "boolean")) return trLater("an interval is not complete");
    return "";
  }

  /** Return why a document cannot be used with these beats, "" where it can. */
  function problemWith(base, document) {
    if (!document || document.format !== FORMAT || document.version !== VERSION) return trLater("it is not a file of edits of this version");
    if (document.recording !== base.recording) return trLater("it belongs to another recording");
    if (document.beats !== base.beats) return trLater("it belongs to other labels of this recording");
    const whole = isText(document.author, 200) && TEXTS.every((name) => isText(document[name])) && Array.isArray(document.strips) && Array.isArray(document.edits);
    const strips = whole && document.strips.every((strip) => strip && Number.isInteger(strip.sample) && isText(strip.comment));
    const review = document.reviewed === null || (document.reviewed && isText(document.reviewed.by, 200) && isText(document.reviewed.at, 40));
    if (!strips || !review) return trLater("it is not complete");
    return document.edits.map((edit) => problemOf(base, edit)).find(Boolean) || "";
  }

  /** Return the steps that make a document. */
  function stepsOf(document) {
    const steps = document.edits.map((edit) => ({ edits: [edit] }));
    for (const { sample, comment } of document.strips) steps.push({ sample, comment });
    for (const name of TEXTS) if (document[name]) steps.push({ text: name, value: document[name] });
    if (document.reviewed) steps.push({ reviewed: document.reviewed });
    return steps;
  }

  /** Return what the steps make: the edits, texts, comments on strips, and the review, which any later step ends. */
  function stateOf(steps) {
    const state = { edits: [], strips: new Map(), indication: "", comments: "", conclusion: "", reviewed: null };
    for (const step of steps) {
      state.reviewed = null;
      if (step.edits) state.edits.push(...step.edits);
      else if (step.text) state[step.text] = step.value;
      else if (step.reviewed !== undefined) state.reviewed = step.reviewed;
      else if (step.comment) state.strips.set(step.sample, step.comment);
      else state.strips.delete(step.sample);
    }
    return state;
  }

  /** Hold the steps of editing; onChange is called after each change. */
  function book(base, onChange) {
    let [steps, undone, author] = [[], [], ""];
    const changed = () => onChange(stateOf(steps));
    return {
      state: () => stateOf(steps),
      author: () => author,
      setAuthor: (name) => (author = name),
      canUndo: () => steps.length > 0,
      canRedo: () => undone.length > 0,
      /** Add a step, after which nothing can be redone. Typing in one text is one step. */
      add(step) {
        const last = steps[steps.length - 1];
        if (step.text && last && last.text === step.text) steps = [...steps.slice(0, -1), step];
        else steps = [...steps, step];
        undone = [];
        changed();
      },
      undo() {
        if (!steps.length) return;
        undone = [...undone, steps[steps.length - 1]];
        steps = steps.slice(0, -1);
        changed();
      },
      redo() {
        if (!undone.length) return;
        steps = [...steps, undone[undone.length - 1]];
        undone = undone.slice(0, -1);
        changed();
      },
      /** Replace everything by a document; returns why it cannot be used, "" where it was. */
      take(document) {
        const problem = problemWith(base, document);
        if (problem) return problem;
        [steps, undone, author] = [stepsOf(document), [], document.author];
        changed();
        return "";
      },
      /** Return the document to save. */
      document(at = localTime()) {
        const { edits, strips, indication, comments, conclusion, reviewed } = stateOf(steps);
        const commented = Array.from(strips, ([sample, comment]) => ({ sample, comment })).sort((a, b) => a.sample - b.sample);
        const ids = { format: FORMAT, version: VERSION, recording: base.recording, beats: base.beats };
        return { ...ids, author, saved_at: at, reviewed, indication, comments, conclusion, strips: commented, edits };
      },
    };
  }

  return { open, bytesOf, apply, rhythmsOf, book, localTime, NO_BEAT, TEXTS };
})();
if (typeof module !== "undefined") module.exports = EcgEdits;
