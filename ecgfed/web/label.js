"use strict";
/* The labelling page: one beat at a time, labelled by button or key. Needs the other scripts of its page. */
(() => {
  const { tr, trn, fixed, percent } = EcgLanguage;
  const data = JSON.parse(document.getElementById("page-data").textContent);
  const book = EcgLabelBook.open(data);
  const pictures = EcgPictures.of(data);
  const byId = (id) => document.getElementById(id);
  const words = new Map(data.labels.map((label) => [label.symbol, tr(label.words)]));
  /** Minimum time for a label: a faster one is the second half of a double click. */
  const MIN_MS = 250;
  const ABOVE = tr(" above ");
  let pending = { group: null, since: 0 };
  /** A second reader's page: beats speak for no other, so nothing is said of coverage, and nothing is merged. */
  const alone = data.reader !== undefined;
  let reviewing = null; // the labelled beat under review, or null: the next question
  let drawn = { group: null, label: null };
  let finished = false;

  function make(name, attributes, parent, text) {
    const element = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, String(value));
    if (text !== undefined) element.textContent = text;
    if (parent) parent.appendChild(element);
    return element;
  }

  const timeOf = (beat) => EcgPaper.clock(data.points[beat].time_s);
  const named = (label) => (words.has(label) ? `${label} (${words.get(label)})` : label);

  /** Format a share of the beats: never 100% unless all, never 0% unless none. */
  function share(count) {
    const value = (100 * count) / data.beats;
    if (count && value < 0.1) return tr("less than {share:.1%}", { share: 0.001 });
    if (count < data.beats && value > 99.9) return tr("more than {share:.1%}", { share: 0.999 });
    return percent(fixed(value, (value < 10 || value > 99) && value !== 100 && value !== 0 ? 1 : 0));
  }

  /** Return the current group: that of the beat under review, or the next one. */
  function current() {
    const { entries, asking } = book.state();
    const again = entries.find((entry) => entry.beat === reviewing);
    if (!again) reviewing = null;
    return again ? again.group : asking;
  }

  function drawQuestion(group, state) {
    const { beat } = data.groups[group];
    const mine = state.entries.find((entry) => entry.beat === beat);
    const label = mine ? mine.label : null;
    if (drawn.group !== group || drawn.label !== label) {
      if (drawn.group === null || data.groups[drawn.group].beat !== beat || drawn.label !== label) pictures.strip(beat, label);
      if (drawn.group !== group) pictures.group(group);
      drawn = { group, label };
    }
    Object.assign(byId("question").dataset, { beat, group });
    byId("question-title").textContent = titleOf(state, mine);
    byId("question-said").textContent = `${descriptionOf(group, mine)} ${mine ? whyAgain(beat, state) : ""}`.trim();
    const interval = data.pictures[group] && data.pictures[group].interval_ms;
    byId("question-rhythm").textContent = interval
      ? tr("Interval before its beats: median {median:.0f} ms (middle 80%: {low:.0f} to {high:.0f} ms). Recording's median: {all:.0f} ms.", { median: interval[1], low: interval[0], high: interval[2], all: data.interval_ms })
      : "";
    for (const button of byId("answers").children) {
      button.setAttribute("aria-pressed", String(button.dataset.label === label));
    }
    if (pending.group !== group) pending = { group, since: performance.now() };
    if (!alone) byId("split").disabled = !book.divisible(group);
    byId("later").disabled = Boolean(mine);
    byId("strip-caption").textContent = tr("{leads}; the grey column marks the beat in question", { leads: data.leads.join(ABOVE) });
  }

  const titleOf = (state, mine) =>
    mine ? tr("Answer {n}: {label}", { n: 1 + state.entries.indexOf(mine), label: named(mine.label) }) : tr("Question {n}: what is this beat?", { n: state.entries.length + 1 });

  function descriptionOf(group, mine) {
    const { beat, size } = data.groups[group];
    const which = tr("The beat at {time}.", { time: timeOf(beat) });
    if (alone) return which;
    const meaning = mine
      ? trn("It was given as {label}; the answer stands for {n} beat ({share}).", "It was given as {label}; the answer stands for {n} beats ({share}).", mine.beats, { label: mine.label, share: share(mine.beats) })
      : size > 1 ? tr("It stands for a group of {n} beats ({share} of all).", { n: size, share: share(size) }) : tr("It is a group of its own.");
    return `${which} ${meaning}`;
  }

  function drawProgress(state) {
    const count = state.entries.length;
    const postponed = state.postponed.size ? trn("{n} put off", "{n} put off", state.postponed.size) : "";
    const [covered, before] = [share(state.covered), share(state.coveredBefore)];
    const fell = state.covered < state.coveredBefore && covered !== before;
    const covers = fell ? tr("covers {share} of the beats ({before} before the last answer)", { share: covered, before }) : tr("covers {share} of the beats", { share: covered });
    byId("progress-said").textContent = [tr("{n} of {goal} answered", { n: count, goal: state.goal }), count && !alone ? covers : "", postponed].filter(Boolean).join(tr("; "));
    byId("bar-answered").style.width = `${Math.min(100, (100 * count) / state.goal)}%`;
    byId("bar-covered").style.width = `${(100 * state.covered) / data.beats}%`;
    byId("undo").disabled = !book.canUndo();
    byId("redo").disabled = !book.canRedo();
    byId("back").disabled = neighbour(-1) === undefined;
    byId("forward").disabled = reviewing === null;
    byId("download").disabled = !count;
    byId("download").textContent = trn("Save {n} label (CSV)", "Save {n} labels (CSV)", count);
  }

  function render() {
    const state = book.state();
    const group = current();
    const over = reviewing === null && (keeping.over() || group === null || state.entries.length >= state.goal);
    byId("question").hidden = over;
    byId("finished").hidden = !over;
    if (over) {
      const answers = trn("{n} answer", "{n} answers", state.entries.length);
      const every = alone ? tr("Every beat has an answer") : tr("Every group has an answer");
      const ended = data.ends === false ? tr("This page is done") : tr("The program has ended");
      const why = keeping.over() ? ended : group === null ? every : tr("All questions are answered");
      const save = alone ? tr("Save them now.") : tr("Save them now, or continue.");
      const then = data.served ? tr("They are in {file}.", { file: data.file }) : save;
      const covers = alone ? "" : tr("They cover {share} of the beats.", { share: share(state.covered) });
      const sentences = [tr("{why}: {answers}.", { why, answers }), covers, alone ? "" : expectedOf(state.expected), toConfirm(state), then];
      byId("finished-said").textContent = sentences.filter(Boolean).join(" ");
      byId("more").hidden = group === null || keeping.over();
      drawn = { group: null, label: null };
    } else {
      drawQuestion(group, state);
    }
    drawProgress(state);
    drawEntries(state);
    if (over !== finished) {
      finished = over;
      if (document.activeElement === document.body || over) byId(over ? "finished-title" : "question-title").focus({ preventScroll: !over });
    }
  }

  /** Describe the number of beats expected to have a wrong label. */
  function expectedOf(expected) {
    if (!expected) return "";
    const count = Math.round(expected.beats);
    const { low, high } = expected;
    if (!count) return tr("Less than one beat is expected to have a wrong label (90% interval {low} to {high}).", { low, high });
    return trn("{n} beat is expected to have a wrong label (90% interval {low} to {high}).", "{n} beats are expected to have a wrong label (90% interval {low} to {high}).", count, { low, high });
  }

  /** Return the reason to confirm a label, or "". */
  function whyAgain(beat, state) {
    const mine = state.entries.find((entry) => entry.beat === beat);
    const contested = state.contested.find((each) => each.beat === beat);
    if (mine && mine.differs) return tr("The two answers for this beat differ: answer it once more, and the label given twice counts.");
    if (!contested) return "";
    const [rival, label] = [state.labels.get(contested.rival), state.labels.get(beat)];
    return tr("This beat is most like the one at {time}, which you called {rival}: is it {label}? Answer it again to confirm.", { time: timeOf(contested.rival), rival, label });
  }

  function toConfirm(state) {
    const count = state.entries.filter((entry) => whyAgain(entry.beat, state)).length;
    return count ? trn("{n} answer to confirm, marked below.", "{n} answers to confirm, marked below.", count) : "";
  }

  // The labelled groups

  function mergeChoice(entry, entries) {
    const attributes = { "data-key": `merge-${entry.beat}`, "aria-label": tr("Give the beat at {time} the label of another", { time: timeOf(entry.beat) }) };
    const select = make("select", attributes);
    make("option", { value: "" }, select, entry.into === null ? tr("Same as \u2026") : tr("Same as the beat at {time}", { time: timeOf(entry.into) }));
    for (const candidate of entries) {
      if (candidate.beat !== entry.beat && candidate.into === null) {
        make("option", { value: candidate.beat }, select, tr("{label} at {time}", { label: candidate.label, time: timeOf(candidate.beat) }));
      }
    }
    select.disabled = select.options.length < 2;
    const merge = make("button", { type: "button", "data-key": `merge-now-${entry.beat}`, "aria-label": tr("Merge the beat at {time}", { time: timeOf(entry.beat) }) }, null, tr("Merge"));
    merge.disabled = true; // selecting alone does nothing, since arrow keys step through the options
    select.addEventListener("change", () => (merge.disabled = select.value === ""));
    merge.addEventListener("click", () => {
      const into = Number(select.value);
      act({ do: "merge", beat: entry.beat, into }, tr("The beat at {time} has the label of the one at {other} now.", { time: timeOf(entry.beat), other: timeOf(into) }));
    });
    return [select, merge];
  }

  function standsFor(entry) {
    const values = { time: timeOf(entry.beat), share: share(entry.beats) };
    if (entry.into === null) return trn("{time}; stands for {n} beat ({share})", "{time}; stands for {n} beats ({share})", entry.beats, values);
    return trn("{time}; stands for {n} beat ({share}), merged with the beat at {other}", "{time}; stands for {n} beats ({share}), merged with the beat at {other}", entry.beats, { ...values, other: timeOf(entry.into) });
  }

  function drawEntries(state) {
    const key = document.activeElement && document.activeElement.dataset ? document.activeElement.dataset.key : undefined;
    const list = byId("answered-list");
    byId("answered").hidden = !state.entries.length;
    list.replaceChildren(
      ...state.entries.map((entry) => {
        const item = make("li", entry.beat === reviewing ? { class: "seen" } : {});
        item.appendChild(pictures.thumbnail(entry.group));
        const text = make("div", { class: "told" }, item);
        make("strong", { class: "symbol" }, text, entry.label);
        make("span", {}, text, ` ${words.get(entry.label) || ""}`);
        make("p", {}, text, alone ? timeOf(entry.beat) : standsFor(entry));
        const why = whyAgain(entry.beat, state);
        if (why) make("p", { class: "confirm" }, text, why);
        const tools = make("div", { class: "tools" }, item);
        const again = { type: "button", "data-key": `again-${entry.beat}`, "aria-label": tr("Look again at the beat at {time}", { time: timeOf(entry.beat) }) };
        make("button", again, tools, tr("Look again")).addEventListener("click", () => look(entry.beat, true));
        if (!alone) tools.append(...mergeChoice(entry, state.entries));
        return item;
      }),
    );
    if (key) Array.from(list.querySelectorAll("[data-key]")).find((element) => element.dataset.key === key)?.focus({ preventScroll: true });
  }

  // Actions

  /** Announce a message and the current question to screen readers. */
  function announce(text) {
    const state = book.state();
    const group = current();
    const next = finished ? byId("finished-said").textContent : `${byId("question-title").textContent} ${group === null ? "" : descriptionOf(group, state.entries.find((entry) => entry.beat === reviewing))}`;
    byId("live").textContent = `${text} ${next}`.trim();
    byId("did").textContent = text;
  }

  /** Return whether the program that writes the labels has ended, and announce it. */
  function closed() {
    if (keeping.over()) announce(data.ends === false ? tr("This page is done: nothing can be changed here. Open it again to go on.") : tr("The program has ended: nothing can be changed here. Start it again to go on."));
    return keeping.over();
  }

  function act(action, text) {
    if (closed()) return;
    book.act(action);
    settled(text);
  }

  function settled(text) {
    byId("other").textContent = "";
    const mine = keeping.changed();
    reviewing = null;
    render();
    announce(mine ? text : byId("other").textContent);
  }

  function submit(label) {
    const group = finished ? null : current();
    if (group === null) return;
    if (performance.now() - pending.since < MIN_MS) announce(tr("Not taken: this beat had only just appeared."));
    else act({ do: "answer", group, label }, tr("{label} for the beat at {time}.", { label: named(label), time: timeOf(data.groups[group].beat) }));
  }

  const UNDONE = {
    answer: (action) => tr("{label} for the beat at {time}", { label: action.label, time: timeOf(data.groups[action.group].beat) }),
    later: (action) => tr("putting off the beat at {time}", { time: timeOf(data.groups[action.group].beat) }),
    split: (action) => tr("splitting the group of {n} beats", { n: data.groups[action.group].size }),
    merge: (action) => tr("merging the beat at {time}", { time: timeOf(action.beat) }),
    more: () => tr("continuing"),
  };

  function step(by) {
    const action = closed() ? null : book.step(by);
    const what = action && UNDONE[action.do](action);
    if (action) settled(by < 0 ? tr("Undone: {what}.", { what }) : tr("Done again: {what}.", { what }));
  }

  /** Return the labelled beat before or after the current one: null is the next question, undefined if there is none. */
  function neighbour(by) {
    const { entries } = book.state();
    const at = reviewing === null ? entries.length : entries.findIndex((entry) => entry.beat === reviewing);
    const to = at + by;
    if (to < 0 || to > entries.length) return undefined;
    return to === entries.length ? null : entries[to].beat;
  }

  function look(beat, moved) {
    if (beat === undefined) return;
    reviewing = beat;
    render();
    announce("");
    if (moved) {
      byId("question").scrollIntoView();
      byId("question-title").focus({ preventScroll: true });
    }
  }

  function postpone() {
    const group = current();
    if (group !== null && reviewing === null && !finished) act({ do: "later", group }, tr("Put off: it comes again in the end."));
  }

  function split() {
    const group = current();
    if (group === null || finished || !book.divisible(group)) return;
    act({ do: "split", group }, tr("The group of {n} beats is split: its parts are asked for now.", { n: data.groups[group].size }));
  }

  function download() {
    const link = make("a", { download: data.file_name, href: URL.createObjectURL(new Blob([book.csv()], { type: "text/csv" })) });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
    announce(tr("{file} is saved by the browser.", { file: data.file_name }));
  }

  async function finish() {
    byId("done").disabled = true;
    const ended = await keeping.finish();
    byId("done").disabled = ended;
    render();
    if (ended) announce(tr("Everything is written. This page can be closed."));
  }

  // Buttons and keys

  const actions = {
    undo: () => step(-1),
    redo: () => step(1),
    back: () => look(neighbour(-1)),
    forward: () => look(neighbour(1)),
    later: postpone,
    split,
    download,
    more: () => act({ do: "more" }, tr("{n} more are asked for.", { n: EcgLabelBook.MORE })),
    done: finish,
  };
  const commands = { s: "later", m: "split", u: "undo", y: "redo", ArrowLeft: "back", ArrowRight: "forward" };
  const labelOf = new Map();
  for (const { symbol, key } of data.labels) for (const shortcut of [symbol, key, key.toUpperCase()]) labelOf.set(shortcut || symbol, symbol);
  // a small letter stands for its capital, unless it is a WFDB code of its own, as a and j are
  for (const { symbol } of data.labels) if (!labelOf.has(symbol.toLowerCase())) labelOf.set(symbol.toLowerCase(), symbol);

  function pressed(event) {
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    if ((event.ctrlKey || event.metaKey) && !event.altKey && (key === "z" || key === "y")) {
      event.preventDefault();
      step(key === "z" && !event.shiftKey ? -1 : 1);
      return;
    }
    // AltGr, which some keyboards need for / and |, is reported as Ctrl and Alt
    const altered = event.metaKey || (event.ctrlKey !== event.altKey);
    const inField = event.target.matches("select, input:not([type=checkbox]), textarea, summary");
    const scrolling = key.startsWith("Arrow") && event.target.matches(".paper[tabindex]");
    if (altered || event.repeat || inField || scrolling || !byId("keys").checked) return;
    if (labelOf.has(event.key)) {
      event.preventDefault();
      submit(labelOf.get(event.key));
    } else if (key in commands) {
      event.preventDefault();
      actions[commands[key]]();
    }
  }

  for (const { symbol, words: text, key } of data.labels) {
    const button = make("button", { type: "button", class: "answer", "data-label": symbol, "aria-pressed": "false" }, byId("answers"));
    make("kbd", {}, button, symbol);
    make("span", {}, button, tr(text));
    if (key && key.toLowerCase() !== symbol.toLowerCase()) make("small", {}, button, tr("key {key}", { key }));
    button.addEventListener("click", () => submit(symbol));
  }
  for (const [id, act_] of Object.entries(actions)) byId(id)?.addEventListener("click", act_);
  document.addEventListener("keydown", pressed);
  let room = 0; // width only: the bars of a phone's browser change the height, and the strip keeps its scroll position
  new ResizeObserver(() => {
    const now = byId("strip").clientWidth;
    if (now === room || drawn.group === null) return;
    room = now;
    pictures.toSize();
    pictures.group(drawn.group);
  }).observe(document.documentElement);
  const showMessage = (where, text) => {
    byId(where).textContent = text;
  };
  const keeping = EcgKeep.keep(data, book, showMessage, () => {
    reviewing = null;
    render();
  });
  byId("page").hidden = false;
  keeping.load();
  render();
  announce("");
})();
