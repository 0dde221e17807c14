"use strict";
/* The labelling page: one beat at a time, labelled by button or key. Needs the other scripts of its page. */
(() => {
  const data = JSON.parse(document.getElementById("page-data").textContent);
  const book = EcgLabelBook.open(data);
  const pictures = EcgPictures.of(data);
  const byId = (id) => document.getElementById(id);
  const words = new Map(data.labels.map((label) => [label.symbol, label.words]));
  /** Minimum time for a label: a faster one is the second half of a double click. */
  const MIN_MS = 250;
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

  const beatsOf = (count) => EcgPaper.countOf(count, "beat");
  const timeOf = (beat) => EcgPaper.clock(data.points[beat].time_s);
  const named = (label) => (words.has(label) ? `${label} (${words.get(label)})` : label);

  /** Format a share of the beats: never 100% unless all, never 0% unless none. */
  function share(count) {
    const percent = (100 * count) / data.beats;
    if (count && percent < 0.1) return "less than 0.1%";
    if (count < data.beats && percent > 99.9) return "more than 99.9%";
    return `${percent < 10 || percent > 99 ? percent.toFixed(percent === 100 || percent === 0 ? 0 : 1) : Math.round(percent)}%`;
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
      ? `Interval before its beats: median ${interval[1]} ms (middle 80%: ${interval[0]} to ${interval[2]} ms). Recording's median: ${data.interval_ms} ms.`
      : "";
    for (const button of byId("answers").children) {
      button.setAttribute("aria-pressed", String(button.dataset.label === label));
    }
    if (pending.group !== group) pending = { group, since: performance.now() };
    if (!alone) byId("split").disabled = !book.divisible(group);
    byId("later").disabled = Boolean(mine);
    byId("strip-caption").textContent = `${data.leads.join(" above ")}; the grey column marks the beat in question`;
  }

  const titleOf = (state, mine) =>
    mine ? `Answer ${1 + state.entries.indexOf(mine)}: ${named(mine.label)}` : `Question ${state.entries.length + 1}: what is this beat?`;

  function descriptionOf(group, mine) {
    const { beat, size } = data.groups[group];
    if (alone) return `The beat at ${timeOf(beat)}.`;
    const meaning = mine
      ? `It was given as ${mine.label}; the answer stands for ${beatsOf(mine.beats)} (${share(mine.beats)}).`
      : size > 1 ? `It stands for a group of ${beatsOf(size)} (${share(size)} of all).` : "It is a group of its own.";
    return `The beat at ${timeOf(beat)}. ${meaning}`;
  }

  function drawProgress(state) {
    const count = state.entries.length;
    const postponed = state.postponed.size ? `; ${state.postponed.size} put off` : "";
    const [covered, before] = [share(state.covered), share(state.coveredBefore)];
    const fell = state.covered < state.coveredBefore && covered !== before ? ` (${before} before the last answer)` : "";
    const covers = count && !alone ? `; covers ${covered} of the beats${fell}` : "";
    byId("progress-said").textContent = `${count} of ${state.goal} answered${covers}${postponed}`;
    byId("bar-answered").style.width = `${Math.min(100, (100 * count) / state.goal)}%`;
    byId("bar-covered").style.width = `${(100 * state.covered) / data.beats}%`;
    byId("undo").disabled = !book.canUndo();
    byId("redo").disabled = !book.canRedo();
    byId("back").disabled = neighbour(-1) === undefined;
    byId("forward").disabled = reviewing === null;
    byId("download").disabled = !count;
    byId("download").textContent = `Save ${EcgPaper.countOf(count, "label")} (CSV)`;
  }

  function render() {
    const state = book.state();
    const group = current();
    const over = reviewing === null && (keeping.over() || group === null || state.entries.length >= state.goal);
    byId("question").hidden = over;
    byId("finished").hidden = !over;
    if (over) {
      const count = EcgPaper.countOf(state.entries.length, "answer");
      const why = keeping.over() ? (data.ends === false ? "This page is done" : "The program has ended") : group === null ? `Every ${alone ? "beat" : "group"} has an answer` : "That is what was asked for";
      const then = data.served ? `They are in ${data.file}.` : `Save them now${alone ? "" : ", or ask on"}.`;
      const wrong = alone ? "" : `They cover ${share(state.covered)} of the beats. ${expectedOf(state.expected)}`;
      byId("finished-said").textContent = `${why}: ${count}. ${wrong}${toConfirm(state)}${then}`;
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
    const count = Math.round(expected.beats) || "Fewer than 1";
    const subject = count === 1 ? "1 beat is" : `${count} beats are`;
    return `${subject} expected to have a wrong label (90% interval ${expected.low} to ${expected.high}). `;
  }

  /** Return the reason to confirm a label, or "". */
  function whyAgain(beat, state) {
    const mine = state.entries.find((entry) => entry.beat === beat);
    const contested = state.contested.find((each) => each.beat === beat);
    if (mine && mine.differs) return "The two answers for this beat differ: answer it once more, and the label given twice counts.";
    if (!contested) return "";
    return `This beat is most like the one at ${timeOf(contested.rival)}, which you called ${state.labels.get(contested.rival)}: is it ${state.labels.get(beat)}? Answer it again to confirm.`;
  }

  function toConfirm(state) {
    const count = state.entries.filter((entry) => whyAgain(entry.beat, state)).length;
    return count ? `${EcgPaper.countOf(count, "answer")} to confirm, marked below. ` : "";
  }

  // The labelled groups

  function mergeChoice(entry, entries) {
    const attributes = { "data-key": `merge-${entry.beat}`, "aria-label": `Give the beat at ${timeOf(entry.beat)} the label of another` };
    const select = make("select", attributes);
    make("option", { value: "" }, select, entry.into === null ? "Same as \u2026" : `Same as the beat at ${timeOf(entry.into)}`);
    for (const candidate of entries) {
      if (candidate.beat !== entry.beat && candidate.into === null) {
        make("option", { value: candidate.beat }, select, `${candidate.label} at ${timeOf(candidate.beat)}`);
      }
    }
    select.disabled = select.options.length < 2;
    const merge = make("button", { type: "button", "data-key": `merge-now-${entry.beat}`, "aria-label": `Merge the beat at ${timeOf(entry.beat)}` }, null, "Merge");
    merge.disabled = true; // selecting alone does nothing, since arrow keys step through the options
    select.addEventListener("change", () => (merge.disabled = select.value === ""));
    merge.addEventListener("click", () => {
      const into = Number(select.value);
      act({ do: "merge", beat: entry.beat, into }, `The beat at ${timeOf(entry.beat)} has the label of the one at ${timeOf(into)} now.`);
    });
    return [select, merge];
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
        const merged = entry.into === null ? "" : `, merged with the beat at ${timeOf(entry.into)}`;
        make("p", {}, text, `${timeOf(entry.beat)}${alone ? "" : `; stands for ${beatsOf(entry.beats)} (${share(entry.beats)})${merged}`}`);
        const why = whyAgain(entry.beat, state);
        if (why) make("p", { class: "confirm" }, text, why);
        const tools = make("div", { class: "tools" }, item);
        const again = { type: "button", "data-key": `again-${entry.beat}`, "aria-label": `Look again at the beat at ${timeOf(entry.beat)}` };
        make("button", again, tools, "Look again").addEventListener("click", () => look(entry.beat, true));
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
    if (keeping.over()) announce(data.ends === false ? "This page is done: nothing can be changed here. Open it again to go on." : "The program has ended: nothing can be changed here. Start it again to go on.");
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
    if (performance.now() - pending.since < MIN_MS) announce("Not taken: this beat had only just appeared.");
    else act({ do: "answer", group, label }, `${named(label)} for the beat at ${timeOf(data.groups[group].beat)}.`);
  }

  const UNDONE = {
    answer: (action) => `${action.label} for the beat at ${timeOf(data.groups[action.group].beat)}`,
    later: (action) => `putting off the beat at ${timeOf(data.groups[action.group].beat)}`,
    split: (action) => `splitting the group of ${beatsOf(data.groups[action.group].size)}`,
    merge: (action) => `merging the beat at ${timeOf(action.beat)}`,
    more: () => "asking on",
  };

  function step(by) {
    const action = closed() ? null : book.step(by);
    if (action) settled(`${by < 0 ? "Undone" : "Done again"}: ${UNDONE[action.do](action)}.`);
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
    if (group !== null && reviewing === null && !finished) act({ do: "later", group }, "Put off: it comes again in the end.");
  }

  function split() {
    const group = current();
    if (group === null || finished || !book.divisible(group)) return;
    act({ do: "split", group }, `The group of ${beatsOf(data.groups[group].size)} is split: its parts are asked for now.`);
  }

  function download() {
    const link = make("a", { download: data.file_name, href: URL.createObjectURL(new Blob([book.csv()], { type: "text/csv" })) });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
    announce(`${data.file_name} is saved by the browser.`);
  }

  async function finish() {
    byId("done").disabled = true;
    const ended = await keeping.finish();
    byId("done").disabled = ended;
    render();
    if (ended) announce("Everything is written. This page can be closed.");
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
    more: () => act({ do: "more" }, `${EcgLabelBook.MORE} more are asked for.`),
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
    make("span", {}, button, text);
    if (key && key.toLowerCase() !== symbol.toLowerCase()) make("small", {}, button, `key ${key}`);
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
