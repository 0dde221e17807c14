"use strict";
/*
 * A physician's edits of a report: what they do to beats, intervals and rhythms (the rules of ecgfed/reports/edited.py),
 * the steps to undo and redo, and the document that is saved. Needs beats.js and edits_file.js.
 */
const EcgEdits = (() => {
  const B = typeof EcgBeats === "undefined" ? require("./beats.js") : EcgBeats;
  const { trLater } = typeof EcgLanguage === "undefined" ? require("./language.js") : EcgLanguage;
  const { FORMAT, VERSION, NO_BEAT, TEXTS, problemWith, visible } = typeof EcgEditsFile === "undefined" ? require("./edits_file.js") : EcgEditsFile;
  const ORDER = "NLRBV/AaJSFfEejnrQ?";
  const [UNCERTAIN, UNLIKE, DOUBTED, CONFIRMED] = [1, 2, 4, 8];
  const UNDETECTED_SHIFT = 4;

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
    base.undetected = editing.known.undetected ? flags.subarray(0, Math.max(flags.length - 1, 0)).map((of) => of >> UNDETECTED_SHIFT) : null;
    for (const name of ["ventricular", "supra"]) base[name] = editing[name] ? new Float64Array(bytesOf(editing[name])) : null;
    base.numbers = numbersOf(base.sample);
    base.before = Int32Array.from(base.sample, (_, i) => i);
    return base;
  }

  const numbersOf = (samples) => new Map(Array.from(samples, (sample, i) => [sample, i]));

  /**
   * Return the beats with the added ones, which have the first class until the edits label them; `before` is the number of
   * each before editing, -1 for an added one. An interval that an added beat divides is confirmed in both parts or in neither,
   * and no beat is undetected in either.
   */
  function withAdded(base, edits) {
    const samples = edits.filter((edit) => edit.edit === "add").map((edit) => edit.samples[0]).sort((a, b) => a - b);
    if (!samples.length) return base;
    const count = base.sample.length + samples.length;
    const [sample, before, last] = [new Int32Array(count), new Int32Array(count).fill(-1), new Int32Array(count)];
    for (let at = 0, i = 0, j = 0; at < count; at += 1) {
      const isAdded = j < samples.length && !(i < base.sample.length && base.sample[i] < samples[j]);
      if (!isAdded) before[at] = i;
      sample[at] = isAdded ? samples[j++] : base.sample[i++];
      last[at] = i - 1;
    }
    const filled = (values) => {
      const all = values && new values.constructor(count);
      for (let at = 0; all && at < count; at += 1) if (before[at] >= 0) all[at] = values[before[at]];
      return all;
    };
    const names = ["label", "uncertain", "unlike", "doubted", "ventricular", "supra"];
    // outside the first and the last beat there is no interval before editing
    const isConfirmed = (i) => (i < 0 || i >= base.confirmed.length ? 1 : base.confirmed[i]);
    const confirmed = base.confirmed && Uint8Array.from(last.subarray(0, count - 1), isConfirmed);
    const undetected = base.undetected && Uint8Array.from(last.subarray(0, count - 1), (i, at) => (before[at] < 0 || before[at + 1] < 0 ? 0 : base.undetected[i]));
    return { ...base, ...Object.fromEntries(names.map((name) => [name, filled(base[name])])), sample, before, confirmed, undetected, numbers: numbersOf(sample), divided: true };
  }

  /** Return why a beat cannot be added at a sample of edited beats, "" where it can. */
  function problemAt(base, labelled, sample) {
    if (!(sample >= 0 && sample < base.samples)) return "it lies outside the recording";
    const at = B.lowerBound(labelled.sample, sample);
    const near = [at - 1, at].map((i) => labelled.sample[i]).filter((other) => other !== undefined && Math.abs(other - sample) < base.refractory_s * base.fs);
    if (!near.length) return "";
    return `it is ${Math.round((1000 * Math.abs(near[0] - sample)) / base.fs)} ms from another beat, less than ${Math.round(1000 * base.refractory_s)} ms`;
  }

  function labelsOf(base, edits) {
    const codes = [...base.codes];
    const [label, byPerson] = [Int16Array.from(base.label), new Uint8Array(base.label.length)];
    const labelled = edits.filter((edit) => edit.edit === "label" || edit.edit === "add");
    const numberOf = (code) => (code === NO_BEAT ? -1 : codes.includes(code) ? codes.indexOf(code) : codes.push(code) - 1);
    for (const { label: code } of labelled) numberOf(code);
    for (const edit of edits) {
      if (!["label", "accept", "add"].includes(edit.edit)) continue;
      const number = edit.edit === "accept" ? null : numberOf(edit.label);
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

  /** Return where each remaining beat was before, and its sample: the arrays of the last time if the same remain. */
  function remainingOf(unedited, base, label) {
    let count = 0;
    for (let i = 0; i < label.length; i += 1) count += label[i] >= 0 ? 1 : 0;
    const remaining = new Int32Array(count);
    for (let i = 0, at = 0; i < label.length; i += 1) if (label[i] >= 0) remaining[at++] = i;
    const sample = count === label.length ? base.sample : base.sample.filter((_, i) => label[i] >= 0);
    const { last } = unedited;
    if (!last || !B.same(last.remaining, remaining) || !B.same(last.sample, sample)) unedited.last = { remaining, sample };
    return unedited.last;
  }

  /** Return the remaining beats with the edits, as beatsOf of beats.js takes them; `remaining` is the number of each before. */
  function apply(unedited, edits, reviewed) {
    const base = withAdded(unedited, edits);
    const { added, codes, label, byPerson } = labelsOf(base, edits);
    const { remaining, sample } = remainingOf(unedited, base, label);
    const count = remaining.length;
    const kinds = [...base.kinds, ...added.map((code) => base.symbols[code][0])];
    const taken = (values) => {
      if (count === label.length) return values.slice();
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
      remaining: taken(base.before),
    };
  }

  function intervalsOf(base, remaining, sample, edits) {
    const between = Math.max(remaining.length - 1, 0);
    const all = base.confirmed && base.confirmed.length === between && !base.divided;
    const confirmed = base.confirmed && (all ? base.confirmed.slice() : new Uint8Array(between).fill(1));
    for (let at = 0; confirmed && !all && at < between; at += 1) {
      for (let i = remaining[at]; i < remaining[at + 1]; i += 1) if (!base.confirmed[i]) confirmed[at] = 0;
      if (base.before[remaining[at]] < 0 || base.before[remaining[at + 1]] < 0) confirmed[at] = 1;
    }
    const undetected = base.undetected && new Uint8Array(between);
    for (let at = 0; undetected && at < between; at += 1) {
      if (remaining[at + 1] === remaining[at] + 1) undetected[at] = base.undetected[remaining[at]];
    }
    const decisions = edits.filter((edit) => edit.edit === "interval");
    if (!decisions.length) return { confirmed, undetected, rejected: null };
    const rejected = new Uint8Array(between);
    for (const { samples, accepted } of decisions) {
      const at = B.lowerBound(sample, samples[0]);
      if (sample[at] !== samples[0] || sample[at + 1] !== samples[1]) continue;
      rejected[at] = accepted ? 0 : 1;
      if (confirmed && accepted) confirmed[at] = 1;
      if (undetected && accepted) undetected[at] = 0;
    }
    return { confirmed, undetected, rejected };
  }

  /** Return the most frequent code that is not ectopic: what a rejected ectopic beat becomes. */
  function usualCode(base) {
    const number = new Map();
    for (const label of base.label) if (base.kinds[label] !== 1 && base.kinds[label] !== 2) number.set(label, (number.get(label) || 0) + 1);
    const [best] = [...number].sort((a, b) => b[1] - a[1])[0] || [-1];
    return best < 0 ? "N" : base.codes[best];
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

  /** Return why edits do not fit these beats, "" where they do. */
  function unfit(base, document) {
    const { edits, strips } = document;
    const last = [...strips.map(({ sample }) => sample), ...edits.map(({ edit, samples }) => samples.reduce((most, sample) => Math.max(most, sample)) - (edit === "rhythm" ? 1 : 0))].reduce((most, sample) => Math.max(most, sample), 0);
    if (last >= base.samples) return trLater("it has an edit beyond the end of the recording");
    const added = edits.filter((edit) => edit.edit === "add").map((edit) => edit.samples[0]);
    if (new Set(added).size < added.length || added.some((sample) => base.numbers.has(sample))) return trLater("it adds a beat where there is one");
    const { numbers } = withAdded(base, edits);
    const episodes = new Set(base.rhythms.flatMap((rhythm) => rhythm.samples.map((samples) => keyOf(rhythm.rhythm, samples))));
    for (const edit of edits) {
      if (edit.edit === "rhythm" && !episodes.has(keyOf(edit.rhythm, edit.samples))) return trLater("an episode that it edits is not in this report");
      if (edit.edit !== "rhythm" && !edit.samples.every((sample) => numbers.has(sample))) return trLater("a beat that it edits is not in this report");
    }
    const { sample, remaining } = apply(base, edits, null);
    for (let i = 1; i < sample.length; i += 1) {
      if ((remaining[i] < 0 || remaining[i - 1] < 0) && sample[i] - sample[i - 1] < base.refractory_s * base.fs) return trLater("an added beat is too near to another beat");
    }
    return "";
  }

  /** Return why a document cannot be used with these beats, "" where it can. */
  function problemOf(base, document, how) {
    const known = { symbols: new Set(Object.keys(base.symbols)), rhythms: new Set(base.rhythm_names) };
    const problem = problemWith(document, known, how);
    if (problem) return problem;
    if (document.recording !== base.recording) return trLater("it belongs to another recording");
    if (document.beats !== base.beats) return trLater("it belongs to other labels of this recording");
    return unfit(base, document);
  }

  /** Return the steps that make a document. */
  function stepsOf(document) {
    const steps = document.edits.map((edit) => ({ edits: [edit] }));
    for (const { sample, comment } of document.strips) steps.push({ sample, comment });
    for (const name of TEXTS) {
      const draft = name === "conclusion" ? { draft: document.conclusion_draft || "" } : {};
      if (document[name]) steps.push({ text: name, value: document[name], ...draft });
    }
    if (document.reviewed) steps.push({ reviewed: document.reviewed });
    return steps;
  }

  /** Return what the steps make: the edits, texts, comments on strips, and the review, which any later step ends. */
  function stateOf(steps) {
    const state = { edits: [], strips: new Map(), indication: "", comments: "", conclusion: "", draft: "", reviewed: null };
    for (const step of steps) {
      state.reviewed = null;
      if (step.edits) state.edits.push(...step.edits);
      else if (step.text) {
        state[step.text] = step.text === "conclusion" && !step.value.trim() ? "" : visible(step.value);
        if (step.draft !== undefined) state.draft = state[step.text] && step.draft;
      }
      else if (step.reviewed !== undefined) state.reviewed = step.reviewed;
      else if (step.comment) state.strips.set(step.sample, visible(step.comment));
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
      take(document, how) {
        const problem = problemOf(base, document, how);
        if (problem) return problem;
        [steps, undone, author] = [stepsOf(document), [], document.author];
        changed();
        return "";
      },
      /** Return the document to save. */
      document(at = localTime()) {
        const { edits, strips, indication, comments, conclusion, draft, reviewed } = stateOf(steps);
        const commented = Array.from(strips, ([sample, comment]) => ({ sample, comment })).sort((a, b) => a.sample - b.sample);
        const ids = { format: FORMAT, version: VERSION, recording: base.recording, beats: base.beats };
        return { ...ids, author, saved_at: at, reviewed, indication, comments, conclusion, conclusion_draft: draft, strips: commented, edits };
      },
    };
  }

  return { open, bytesOf, apply, usualCode, problemAt, problemOf, rhythmsOf, book, localTime, NO_BEAT, TEXTS };
})();
if (typeof module !== "undefined") module.exports = EcgEdits;
