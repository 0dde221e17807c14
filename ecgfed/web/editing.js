"use strict";
/*
 * Editing of a report: what is chosen, keys and buttons, texts, and where the edits are stored. Needs the page's other
 * scripts. The edits are in the browser's storage after every change, and in a file when they are saved.
 */
(() => {
  const { make } = EcgEditedPage;
  const { tr, trn, trLater } = EcgLanguage;
  const { data } = EcgReport;
  const base = EcgEdits.open(data.editing);
  EcgWords.startAt(data.clock_s === undefined ? null : data.clock_s);
  const page = { ...base, duration_s: base.samples / base.fs };
  const byId = (id) => document.getElementById(id);
  const storageKey = `ecgfed-edits:${base.recording}:${base.beats}`;
  const setAsideKey = `${storageKey}:not-used`;
  const made = base.document ? base.document.edits : [];
  const usual = EcgEdits.usualCode(base);
  const rates = { fs: base.fs, stripFs: data.fs };
  /** Texts of the page that are no edits, such as an indication that its maker named. */
  const stated = new Map(base.document ? [] : Array.from(document.querySelectorAll("[data-text]"), (place) => [place.dataset.text, place.textContent.trim()]));
  let labelled = null;
  let counts = null;
  let chosen = null; // {title, time, samples | interval | rhythm | place}
  let [draft, draftOnPage] = ["", ""]; // of the conclusion, by the figures as they are now: in English, as files have it
  let event = -1;
  let opened = false; // only changes after that are stored: a page that is merely read leaves no draft

  const supra = base.codes[base.kinds.indexOf(1)] || "A";
  const labels = [...new Set([...base.codes, "N", "V", supra, "F", "/", "?"])].filter((code) => base.symbols[code]);
  const say = (text) => (byId("edit-message").textContent = text);
  const now = () => EcgEdits.localTime();

  function stored(key = storageKey) {
    try {
      return JSON.parse(window.localStorage.getItem(key));
    } catch {
      return null;
    }
  }

  function store() {
    const author = EcgEditsFile.isName(book.author()) ? book.author() : ""; // a draft with another one would not be read
    try {
      window.localStorage.setItem(storageKey, JSON.stringify({ ...book.document(), author }));
    } catch {
      say(tr("This browser does not store the edits: save them before you close the page."));
    }
  }

  const book = EcgEdits.book(base, (state) => {
    labelled = EcgEdits.apply(base, state.edits, state.reviewed);
    const beats = EcgBeats.beatsOf(labelled);
    counts = EcgCounts.count(beats, base.rules, EcgEdits.rhythmsOf(base, state.edits), base.withheld, base.patient_events);
    EcgEditedPage.update({ labelled, beats, counts, page, differs: differs(state.edits), choose: chooseEvent });
    draftOnPage = EcgConclusion.draft(counts, page).join("\n");
    draft = EcgLanguage.inEnglish(() => EcgConclusion.draft(counts, page).join("\n"));
    if (typeof EcgDisclosure !== "undefined") EcgDisclosure.update(labelled);
    writeTexts(state);
    writeGroups();
    drawChosen();
    byId("edit-undo").disabled = !book.canUndo();
    byId("edit-redo").disabled = !book.canRedo();
    if (opened) setTimeout(store, 0);
  });

  const writeTexts = (state) => EcgEditingTexts.write(state, { book, notes: base.conclusion_notes, draft, draftOnPage, stated });
  const conclude = (value) => book.add({ text: "conclusion", value, draft });

  /** Return whether the edits are others than those that the page was made with. */
  const differs = (edits) => edits.length !== made.length || JSON.stringify(edits) !== JSON.stringify(made);

  /** Return the numbers, among the remaining beats, of samples. */
  const remaining = (samples) => samples.map((sample) => EcgBeats.lowerBound(labelled.sample, sample)).filter((i, at) => labelled.sample[i] === samples[at]);

  function chooseEvent(number, { focus = true } = {}) {
    const row = counts.events[number];
    if (!row) return;
    event = number;
    const span = [row.start_s, row.stop_s].map((time) => Math.round(time * base.fs));
    const place = { event: tr(row.name), time: EcgWords.time(row.start_s) };
    const title = row.review ? tr("{event} at {time}, to review", place) : tr("{event} at {time}", place);
    chosen = { title, time: row.start_s, span };
    if (row.kind.endsWith(" run")) chosen.samples = Array.from(labelled.sample.subarray(row.first, row.last + 1));
    else if (row.kind === "pause" || row.kind === "interval not confirmed") chosen.interval = span;
    else if (row.kind === "rhythm" && row.source !== "rates") chosen.rhythm = episodeOf(row);
    else chosen.fixed = row.kind === "rhythm" ? tr("It follows from the heart rate: edit its beats.") : tr("There is no beat to edit.");
    drawChosen();
    if (focus) byId("edit-box").focus();
  }

  /** Return an episode's name before editing, and its samples. */
  function episodeOf(row) {
    for (const rhythm of EcgEdits.rhythmsOf(base, book.state().edits)) {
      const number = rhythm.episodes.findIndex(([start, stop], i) => EcgCounts.episodeName(rhythm, i) === row.name && start === row.start_s && stop === row.stop_s);
      if (number >= 0) return { name: rhythm.origins ? rhythm.origins[number] : rhythm.rhythm, samples: rhythm.samples[number] };
    }
    return null;
  }

  /** Return the name that an episode has now, also after undo; a rejected one has its own. */
  function shownOf({ name, samples }) {
    const last = book.state().edits.findLast((edit) => edit.edit === "rhythm" && edit.rhythm === name && edit.samples.every((sample, i) => sample === samples[i]));
    return (last && last.label) || name;
  }

  function chooseBeat(number) {
    if (number < 0 || number >= labelled.sample.length) return;
    const time = labelled.sample[number] / base.fs;
    chosen = { title: tr("Beat {code} at {time}", { code: labelled.codes[labelled.label[number]], time: EcgWords.time(time) }), time, samples: [labelled.sample[number]], beat: true };
    drawChosen();
  }

  const groupOf = new Uint8Array(EcgEdits.bytesOf(data.groups.of));

  /** Return the samples of a group's remaining beats. */
  const membersOf = (group) => Array.from(labelled.sample).filter((_, i) => groupOf[labelled.remaining[i]] === group);

  /** Write what the groups of similar beats hold now; their average beats are drawn once. */
  function writeGroups() {
    const host = byId("edit-groups");
    const number = labelled.codes.length;
    const of = new Int32Array(number * (data.groups.averages.length + 1));
    for (let i = 0; i < labelled.remaining.length; i += 1) if (labelled.remaining[i] >= 0) of[number * Math.min(groupOf[labelled.remaining[i]], data.groups.averages.length) + labelled.label[i]] += 1;
    if (!host.children.length) {
      for (const [group, lead] of data.groups.averages.entries()) {
        const card = make("figure", { class: "edit-group" }, host);
        EcgPaper.draw(make("div", { class: "group-picture" }, card), { fs: data.groups.fs, start_s: 0, leads: [{ name: "", unit: "mV", ...lead }] }, { ...data.groups.options, name: tr("Average beat of group {n}", { n: group + 1 }) });
        make("figcaption", {}, card);
        make("button", { type: "button" }, card, tr("Edit group {n}", { n: group + 1 })).addEventListener("click", () => chooseGroup(group));
      }
    }
    Array.from(host.children).forEach((card, group) => {
      const counted = labelled.codes.map((code, i) => [code, of[number * group + i]]).filter(([, count]) => count).sort((a, b) => b[1] - a[1]);
      card.querySelector("figcaption").textContent = counted.map(([code, count]) => `${EcgWords.comma(count)} ${code}`).join(", ") || tr("no beats");
    });
  }

  function chooseGroup(number) {
    const samples = membersOf(number);
    if (!samples.length) return say(tr("No beat of this group is left."));
    const shown = samples.find((sample) => EcgEditedPage.stripsAt(data, sample / base.fs).length) || samples[0];
    chosen = { title: trn("Group {group}: {n} similar beat", "Group {group}: {n} similar beats", samples.length, { group: number + 1 }), time: shown / base.fs, samples, example: shown };
    drawChosen();
    return byId("edit-box").focus();
  }

  function step(direction, toReview) {
    const events = counts.events;
    let at = event;
    const from = chosen ? chosen.time : -1;
    if (!events[at] || events[at].start_s !== from) {
      at = direction > 0 ? events.findIndex((row) => row.start_s > from) - 1 : events.findIndex((row) => row.start_s >= from);
      if (at < -1 || (direction < 0 && at < 0)) at = events.length; // no event begins later
    }
    for (let i = at + direction; i >= 0 && i < events.length; i += direction) {
      if (!toReview || events[i].review) return chooseEvent(i);
    }
    return say(toReview ? tr("No later event is to be reviewed.") : tr("There is no further event."));
  }

  function drawChosen() {
    const actions = byId("edit-actions");
    const strip = chosen && EcgEditedPage.stripsAt(data, chosen.time)[0];
    byId("edit-target").textContent = chosen ? chosen.title : tr("Nothing is chosen");
    byId("edit-strip").replaceChildren();
    byId("edit-caption").textContent = "";
    byId("edit-comment").disabled = !strip;
    byId("edit-comment").value = strip ? book.state().strips.get(Math.round(strip.start_s * base.fs)) || "" : "";
    if (strip) {
      EcgPaper.draw(byId("edit-strip"), markedStrip(strip), { name: tr("Chosen") });
      const host = byId("edit-strip");
      host.dataset.start = strip.start_s;
      // on a narrow screen the strip overflows: scroll to what is chosen
      host.scrollLeft = ((chosen.time - strip.start_s) / 10) * host.scrollWidth - host.clientWidth / 2;
      byId("edit-caption").textContent = tr("from {time}, {caption}", { time: EcgWords.time(strip.start_s), caption: data.scale });
    } else if (chosen) byId("edit-caption").textContent = tr("No strip of this place is on the page.");
    const focused = actions.contains(document.activeElement) ? document.activeElement.tagName : "";
    actions.replaceChildren();
    if (focused) byId("edit-box").focus(); // the focus is not lost with the button that had it
    if (!chosen) return;
    if (chosen.fixed) return make("span", {}, actions, chosen.fixed);
    const button = (text, key, act) => make("button", { type: "button", "data-key": key }, actions, `${text} [${key}]`).addEventListener("click", act);
    if (chosen.place !== undefined) {
      for (const code of labels) button(tr("Add {code}", { code }), code, () => relabel(code));
      return;
    }
    button(tr("Accept"), tr("Enter"), accept);
    button(tr("Reject"), "-", reject);
    if (chosen.samples) {
      button(tr("Remove"), "X", () => relabel(EcgEdits.NO_BEAT));
      for (const code of labels) button(code, code, () => relabel(code));
    }
    if (chosen.rhythm) {
      const select = make("select", { "aria-label": tr("Rhythm") }, actions);
      for (const name of new Set([chosen.rhythm.name, ...base.rhythm_names])) make("option", { value: name }, select, tr(name));
      select.value = shownOf(chosen.rhythm);
      select.addEventListener("change", () => rhythm(select.value));
      if (focused === "SELECT") select.focus();
    }
  }

  /** Return a strip for paper.js on which the chosen beats are marked. */
  function markedStrip(strip) {
    const drawn = EcgReport.stripOf(strip);
    const toX = (sample) => (sample / base.fs - strip.start_s) * data.fs;
    const one = chosen.beat ? chosen.samples[0] : chosen.example;
    if (one !== undefined) for (const beat of drawn.beats) beat.marked = Math.abs(beat.sample - toX(one)) < 1;
    if (chosen.place !== undefined) drawn.beats = [...drawn.beats, { sample: toX(chosen.place), label: "+", marked: true }].sort((a, b) => a.sample - b.sample);
    const { span } = chosen;
    if (span) drawn.spans = [...drawn.spans, { start: toX(span[0]), stop: Math.max(toX(span[1]), toX(span[0]) + 1), kind: chosen.interval ? "pause" : "event", text: chosen.title }];
    return drawn;
  }

  function add(edits, message) {
    const at = now();
    const timed = edits.map((edit) => ({ ...edit, at }));
    if (!EcgEditsFile.hasRoom([...book.state().edits, ...timed])) return say(tr("No further edit fits into a file of edits: undo some, or edit smaller groups."));
    book.add({ edits: timed });
    return say(message);
  }

  /** Return the samples of the remaining beats that lie inside an interval. */
  const inside = ([start, stop]) => Array.from(labelled.sample).filter((sample) => sample > start && sample < stop);

  const NO_BEAT_HERE = tr("There is no beat here: a letter adds one.");
  const REMOVED = tr("These beats were removed."); // an edit of them would be of no beat of the report
  /** Return why nothing can be accepted or rejected, "" where it can. */
  const undecidable = () => (chosen ? chosen.fixed || (chosen.place === undefined ? "" : NO_BEAT_HERE) : tr("Choose something first."));

  function accept() {
    if (undecidable()) return say(undecidable());
    if (chosen.samples) return left().length ? add([{ edit: "accept", samples: left() }], tr("Accepted: {what}.", { what: chosen.title })) : say(REMOVED);
    if (chosen.rhythm) return rhythm(shownOf(chosen.rhythm));
    if (remaining(chosen.interval).length < 2) return say(REMOVED);
    const between = inside(chosen.interval);
    const removal = between.length ? [{ edit: "label", samples: between, label: EcgEdits.NO_BEAT }] : [];
    return add([...removal, { edit: "interval", samples: chosen.interval, accepted: true }], tr("Accepted: {what}.", { what: chosen.title }));
  }

  /** Return the chosen beats that were not removed. */
  const left = () => chosen.samples.filter((sample) => remaining([sample]).length);

  function reject() {
    if (undecidable()) return say(undecidable());
    if (chosen.rhythm) return rhythm("");
    if (chosen.interval && remaining(chosen.interval).length < 2) return say(REMOVED);
    if (chosen.interval) {
      const between = inside(chosen.interval);
      const edit = between.length ? { edit: "accept", samples: between } : { edit: "interval", samples: chosen.interval, accepted: false };
      return add([edit], tr("Rejected: {what}.", { what: chosen.title }));
    }
    const ectopic = chosen.samples.filter((sample) => remaining([sample]).some((i) => [1, 2].includes(labelled.kinds[labelled.label[i]])));
    if (!ectopic.length) return say(tr("Only ectopic beats can be rejected; X removes a false detection."));
    return add([{ edit: "label", samples: ectopic, label: usual }], tr("Rejected, now {code}: {what}.", { code: usual, what: chosen.title }));
  }

  function choosePlace(place) {
    const time = place / base.fs;
    chosen = { title: tr("No beat at {time}", { time: EcgWords.time(time, 2) }), time, place };
    drawChosen();
    say(EcgAdding.described(labelled, place));
  }

  /** Move the cursor on the strip of what is chosen, which begins at a chosen beat. */
  function moveCursor(steps) {
    const strip = chosen && EcgEditedPage.stripsAt(data, chosen.time)[0];
    if (!strip) return say(tr("Choose something first."));
    const from = chosen.place !== undefined ? chosen.place : Math.round(chosen.time * base.fs);
    return choosePlace(EcgAdding.moved(strip, from, steps, rates));
  }

  function addBeat(label) {
    const { place } = chosen;
    if (label === EcgEdits.NO_BEAT) return say(NO_BEAT_HERE);
    const problem = EcgEdits.problemAt(base, labelled, place);
    if (problem) return say(tr("No beat was added: {problem}.", { problem: tr(problem) }));
    // a beat that was removed here is the same beat again
    const known = base.numbers.has(place) || book.state().edits.some((edit) => edit.edit === "add" && edit.samples[0] === place);
    add([{ edit: known ? "label" : "add", samples: [place], label }], "");
    if (EcgEdits.problemAt(base, labelled, place) === "") return undefined; // there was no room
    chooseBeat(EcgBeats.lowerBound(labelled.sample, place));
    return say(tr("Added: {what}.", { what: chosen.title }));
  }

  function relabel(label) {
    if (chosen && chosen.place !== undefined) return addBeat(label);
    if (!chosen || !chosen.samples) return;
    const samples = left();
    if (!samples.length) return say(REMOVED);
    const removed = label === EcgEdits.NO_BEAT;
    const n = samples.length;
    const message = removed ? trn("Removed: {n} beat.", "Removed: {n} beats.", n) : trn("Now {label}: {n} beat.", "Now {label}: {n} beats.", n, { label });
    add([{ edit: "label", samples, label }], message);
  }

  function rhythm(label) {
    const { name, samples } = chosen.rhythm;
    add([{ edit: "rhythm", rhythm: name, samples, label }], label ? tr("Accepted as {rhythm}: {what}.", { rhythm: tr(label), what: chosen.title }) : tr("Rejected: {what}.", { what: chosen.title }));
  }

  const undo = () => (book.undo(), say(tr("Undone.")));
  const redo = () => (book.redo(), say(tr("Redone.")));

  function nextBeat(direction) {
    const at = EcgBeats.lowerBound(labelled.sample, chosen && chosen.samples ? chosen.samples[0] : Math.round((chosen ? chosen.time : 0) * base.fs));
    const here = chosen && chosen.beat && labelled.sample[at] === chosen.samples[0];
    chooseBeat(!chosen || !chosen.beat ? at : direction > 0 ? at + (here ? 1 : 0) : at - 1);
  }

  const KEYS = { Enter: accept, "-": reject, x: () => relabel(EcgEdits.NO_BEAT), X: () => relabel(EcgEdits.NO_BEAT), Delete: () => relabel(EcgEdits.NO_BEAT), u: undo, U: undo, ArrowLeft: () => nextBeat(-1), ArrowRight: () => nextBeat(1), ArrowUp: () => step(-1), ArrowDown: () => step(1) };

  byId("edit-box").addEventListener("keydown", (pressed) => {
    const command = pressed.ctrlKey || pressed.metaKey;
    const key = pressed.key.toLowerCase();
    const act = command ? { z: () => (pressed.shiftKey ? redo() : undo()), y: redo }[key] : null;
    const onStrip = pressed.target === byId("edit-strip");
    const inside = pressed.target !== byId("edit-box") && !onStrip; // a button or a list in the box has its own keys
    const label = labels.find((code) => code === pressed.key) || labels.find((code) => code === pressed.key.toUpperCase());
    const cursor = onStrip && { ArrowLeft: -1, ArrowRight: 1 }[pressed.key];
    const keyed = cursor ? () => moveCursor(pressed.shiftKey ? 10 * cursor : cursor) : KEYS[pressed.key];
    const plain = command || pressed.altKey || inside ? null : keyed || (label && (() => relabel(label)));
    if (!act && !plain) return;
    pressed.preventDefault();
    (act || plain)();
  });

  /** Choose the beat that a click on a strip means, or the place where there is none. */
  document.addEventListener("click", (clicked) => {
    const host = clicked.target.closest(".paper");
    const svg = host && host.querySelector("svg");
    if (!svg) return;
    let strip = host.dataset.strip ? data.strips[Number(host.dataset.strip)] : null;
    if (strip && strip.options.pulse === false) return;
    strip = strip ? strip.strip : host.id === "timeline-strip" ? EcgReport.shown() : { start_s: Number(host.dataset.start) };
    if (!strip) return;
    const box = svg.getBoundingClientRect();
    const mm = ((clicked.clientX - box.left) / box.width) * svg.viewBox.baseVal.width - 15;
    const sample = (strip.start_s + mm / 25) * base.fs;
    const at = EcgBeats.lowerBound(labelled.sample, sample);
    const nearest = at && (at === labelled.sample.length || sample - labelled.sample[at - 1] < labelled.sample[at] - sample) ? at - 1 : at;
    const allowed = (place) => EcgEdits.problemAt(base, labelled, place) === "";
    const drawn = allowed(sample) && EcgEditedPage.stripsAt(data, strip.start_s + mm / 25).find(({ start_s }) => start_s === strip.start_s);
    if (drawn) choosePlace(EcgAdding.snapped(drawn, sample, rates, allowed));
    else chooseBeat(nearest);
    if (host.id === "edit-strip") byId(drawn ? "edit-strip" : "edit-box").focus({ preventScroll: true });
  });

  for (const [id, act] of Object.entries({ before: () => step(-1), after: () => step(1), review: () => step(1, true), undo, redo })) {
    byId(`edit-${id}`).addEventListener("click", act);
  }
  for (const name of EcgEdits.TEXTS) byId(`edit-${name}`).addEventListener("input", ({ target }) => (name === "conclusion" ? conclude(target.value) : book.add({ text: name, value: target.value })));
  byId("edit-conclusion").addEventListener("blur", () => setTimeout(() => writeTexts(book.state()), 0)); // an empty text is the draft again
  byId("edit-accept-draft").addEventListener("click", () => {
    conclude(draftOnPage);
    say(tr("The draft is the conclusion now; it can be edited."));
  });
  byId("edit-author").addEventListener("input", ({ target }) => {
    book.setAuthor(target.value.replace(/\p{Z}+/gu, " ").trim()); // a pasted name may have no-break spaces
    writeTexts(book.state());
    store();
  });
  byId("edit-comment").addEventListener("change", ({ target }) => {
    const strip = chosen && EcgEditedPage.stripsAt(data, chosen.time)[0];
    if (strip) book.add({ sample: Math.round(strip.start_s * base.fs), comment: target.value });
  });

  /** Return whether there is a name; asks for it. */
  function named() {
    if (EcgEditsFile.isName(book.author())) return true;
    say(book.author() ? tr("Enter your name without special characters.") : tr("Enter your name first."));
    byId("edit-author").focus();
    return false;
  }

  byId("edit-sign").addEventListener("click", () => {
    if (!named()) return;
    book.add({ reviewed: { by: book.author(), at: now() } });
    say(tr("Marked as reviewed. Any later edit ends this."));
  });
  byId("edit-save").addEventListener("click", () => {
    if (!named()) return;
    const text = `${JSON.stringify(book.document(), null, 1)}\n`;
    const link = make("a", { href: URL.createObjectURL(new Blob([text], { type: "application/json" })), download: `${data.record.replace(/[^\w.-]/g, "_")}-edits.json` });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    say(tr("Saved to the downloads folder."));
  });
  byId("edit-open").addEventListener("change", async ({ target }) => {
    let problem = trLater("it is not JSON");
    try {
      problem = take(JSON.parse(await target.files[0].text()));
    } catch {
      // reported below
    }
    const file = target.files[0].name;
    say(problem ? tr("{file} cannot be used: {problem}.", { file, problem: tr(problem) }) : tr("Opened {file}.", { file }));
    target.value = "";
  });

  function take(document, how) {
    const problem = book.take(document, how);
    byId("edit-author").value = book.author();
    return problem;
  }

  byId("editing").hidden = false;
  const unsaved = stored();
  const newer = unsaved && (!base.document || Date.parse(unsaved.saved_at) >= Date.parse(base.document.saved_at));
  const problem = newer ? take(unsaved, { draft: true }) : "none";
  if (!problem && unsaved.edits.length) say(tr("The edits of this report that are stored in this browser are shown."));
  if (problem && newer) {
    say(tr("Edits of this report that are stored in this browser cannot be used: {problem}.", { problem: tr(problem) }));
    window.localStorage.setItem(setAsideKey, JSON.stringify(unsaved)); // the next edit replaces them
  }
  if (problem && base.document) take(base.document);
  else if (problem) take({ ...book.document(), author: "" }, { draft: true });
  opened = true;
  EcgEditingTexts.offer(stored(setAsideKey), book, () => say(tr("The texts are restored. Undo takes them away again.")));

  // another tab with this report: the edits of both would replace each other
  window.addEventListener("storage", ({ key, newValue }) => {
    if (key !== storageKey || !newValue) return;
    opened = false;
    const refused = take(stored(), { draft: true });
    opened = true;
    if (!refused) say(tr("Another tab of this report has changed the edits: this tab shows them now."));
  });
})();
