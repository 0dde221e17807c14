"use strict";
/* The labelling page: one beat at a time, answered by button or key. Needs the other scripts of its page. */
(() => {
  const data = JSON.parse(document.getElementById("page-data").textContent);
  const book = EcgAnswers.open(data);
  const pictures = EcgPictures.of(data);
  const byId = (id) => document.getElementById(id);
  const words = new Map(data.labels.map((one) => [one.symbol, one.words]));
  /** Nobody reads a beat in less: an answer that comes sooner is the second half of a double click. */
  const LEAST_MS = 250;
  let asked = { group: null, since: 0 };
  let reviewing = null; // the answered beat that is looked at again, or null: the next question
  let drawn = { group: null, label: null };
  let finished = false;

  function make(name, about, parent, text) {
    const element = document.createElement(name);
    for (const [key, value] of Object.entries(about)) element.setAttribute(key, String(value));
    if (text !== undefined) element.textContent = text;
    if (parent) parent.appendChild(element);
    return element;
  }

  const beatsOf = (many) => EcgPaper.countOf(many, "beat");
  const timeOf = (beat) => EcgPaper.clock(data.points[beat].time_s);
  const named = (label) => (words.has(label) ? `${label} (${words.get(label)})` : label);

  /** Write a share of the beats: never 100% while some are left, never 0% of some. */
  function share(many) {
    const percent = (100 * many) / data.beats;
    if (many && percent < 0.1) return "less than 0.1%";
    if (many < data.beats && percent > 99.9) return "more than 99.9%";
    return `${percent < 10 || percent > 99 ? percent.toFixed(percent === 100 || percent === 0 ? 0 : 1) : Math.round(percent)}%`;
  }

  /** Return the group in question: of the beat looked at again, or the next one. */
  function current() {
    const { answered, asking } = book.state();
    const again = answered.find((one) => one.beat === reviewing);
    if (!again) reviewing = null;
    return again ? again.group : asking;
  }

  function drawQuestion(group, state) {
    const { beat } = data.groups[group];
    const mine = state.answered.find((one) => one.beat === beat);
    const label = mine ? mine.label : null;
    if (drawn.group !== group || drawn.label !== label) {
      if (drawn.group === null || data.groups[drawn.group].beat !== beat || drawn.label !== label) pictures.strip(beat, label);
      if (drawn.group !== group) pictures.group(group);
      drawn = { group, label };
    }
    Object.assign(byId("question").dataset, { beat, group });
    byId("question-title").textContent = titleOf(state, mine);
    byId("question-said").textContent = `${saidOf(group, mine)} ${mine ? whyAgain(beat, state) : ""}`.trim();
    const interval = data.pictures[group] && data.pictures[group].interval_ms;
    byId("question-rhythm").textContent = interval
      ? `Interval before its beats: median ${interval[1]} ms (middle 80%: ${interval[0]} to ${interval[2]} ms). Recording's median: ${data.interval_ms} ms.`
      : "";
    for (const button of byId("answers").children) {
      button.setAttribute("aria-pressed", String(button.dataset.label === label));
    }
    if (asked.group !== group) asked = { group, since: performance.now() };
    byId("split").disabled = !book.divisible(group);
    byId("later").disabled = Boolean(mine);
    byId("strip-caption").textContent = `${data.leads.join(" above ")}; the grey column marks the beat in question`;
  }

  const titleOf = (state, mine) =>
    mine ? `Answer ${1 + state.answered.indexOf(mine)}: ${named(mine.label)}` : `Question ${state.answered.length + 1}: what is this beat?`;

  function saidOf(group, mine) {
    const { beat, size } = data.groups[group];
    const stands = mine
      ? `It was given as ${mine.label}; the answer stands for ${beatsOf(mine.beats)} (${share(mine.beats)}).`
      : size > 1 ? `It stands for a group of ${beatsOf(size)} (${share(size)} of all).` : "It is a group of its own.";
    return `The beat at ${timeOf(beat)}. ${stands}`;
  }

  function drawProgress(state) {
    const many = state.answered.length;
    const later = state.later.size ? `; ${state.later.size} put off` : "";
    const covers = many ? `; covers ${share(state.covered)} of the beats` : "";
    byId("progress-said").textContent = `${many} of ${state.goal} answered${covers}${later}`;
    byId("bar-answered").style.width = `${Math.min(100, (100 * many) / state.goal)}%`;
    byId("bar-covered").style.width = `${(100 * state.covered) / data.beats}%`;
    byId("undo").disabled = !book.canUndo();
    byId("redo").disabled = !book.canRedo();
    byId("back").disabled = neighbour(-1) === undefined;
    byId("forward").disabled = reviewing === null;
    byId("download").disabled = !many;
    byId("download").textContent = `Save ${EcgPaper.countOf(many, "label")} (CSV)`;
  }

  function render() {
    const state = book.state();
    const group = current();
    const over = reviewing === null && (keeping.over() || group === null || state.answered.length >= state.goal);
    byId("question").hidden = over;
    byId("finished").hidden = !over;
    if (over) {
      const many = EcgPaper.countOf(state.answered.length, "answer");
      const why = keeping.over() ? "The program has ended" : group === null ? "Every group has an answer" : "That is what was asked for";
      const then = data.served ? `They are in ${data.file}.` : "Save them now, or ask on.";
      const wrong = `They cover ${share(state.covered)} of the beats. ${expectedOf(state.expected)}`;
      byId("finished-said").textContent = `${why}: ${many}. ${wrong}${toConfirm(state)}${then}`;
      byId("more").hidden = group === null || keeping.over();
      drawn = { group: null, label: null };
    } else {
      drawQuestion(group, state);
    }
    drawProgress(state);
    drawAnswered(state);
    if (over !== finished) {
      finished = over;
      if (document.activeElement === document.body || over) byId(over ? "finished-title" : "question-title").focus({ preventScroll: !over });
    }
  }

  /** Say how many beats are expected to have a wrong label. */
  function expectedOf(expected) {
    if (!expected) return "";
    const about = Math.round(expected.beats) || "Fewer than 1";
    const many = about === 1 ? "1 beat is" : `${about} beats are`;
    return `${many} expected to have a wrong label (90% interval ${expected.low} to ${expected.high}). `;
  }

  /** Return why an answer should be given again, or "". */
  function whyAgain(beat, state) {
    const mine = state.answered.find((one) => one.beat === beat);
    const one = state.contested.find((each) => each.beat === beat);
    if (mine && mine.differs) return "The two answers for this beat differ: answer it once more, and the label given twice counts.";
    if (!one) return "";
    return `This beat is most like the one at ${timeOf(one.rival)}, which you called ${state.labels.get(one.rival)}: is it ${state.labels.get(beat)}? Answer it again to confirm.`;
  }

  function toConfirm(state) {
    const many = state.answered.filter((one) => whyAgain(one.beat, state)).length;
    return many ? `${EcgPaper.countOf(many, "answer")} to confirm, marked below. ` : "";
  }

  // The answered groups

  function mergeChoice(one, answered) {
    const about = { "data-key": `merge-${one.beat}`, "aria-label": `Give the beat at ${timeOf(one.beat)} the label of another` };
    const select = make("select", about);
    make("option", { value: "" }, select, one.into === null ? "Same as \u2026" : `Same as the beat at ${timeOf(one.into)}`);
    for (const other of answered) {
      if (other.beat !== one.beat && other.into === null) {
        make("option", { value: other.beat }, select, `${other.label} at ${timeOf(other.beat)}`);
      }
    }
    select.disabled = select.options.length < 2;
    const merge = make("button", { type: "button", "data-key": `merge-now-${one.beat}`, "aria-label": `Merge the beat at ${timeOf(one.beat)}` }, null, "Merge");
    merge.disabled = true; // a choice alone does nothing: keys move along a list before they have found what they want
    select.addEventListener("change", () => (merge.disabled = select.value === ""));
    merge.addEventListener("click", () => {
      const into = Number(select.value);
      act({ do: "merge", beat: one.beat, into }, `The beat at ${timeOf(one.beat)} has the label of the one at ${timeOf(into)} now.`);
    });
    return [select, merge];
  }

  function drawAnswered(state) {
    const key = document.activeElement && document.activeElement.dataset ? document.activeElement.dataset.key : undefined;
    const list = byId("answered-list");
    byId("answered").hidden = !state.answered.length;
    list.replaceChildren(
      ...state.answered.map((one) => {
        const item = make("li", one.beat === reviewing ? { class: "seen" } : {});
        item.appendChild(pictures.thumbnail(one.group));
        const text = make("div", { class: "told" }, item);
        make("strong", { class: "symbol" }, text, one.label);
        make("span", {}, text, ` ${words.get(one.label) || ""}`);
        const merged = one.into === null ? "" : `, merged with the beat at ${timeOf(one.into)}`;
        make("p", {}, text, `${timeOf(one.beat)}; stands for ${beatsOf(one.beats)} (${share(one.beats)})${merged}`);
        const why = whyAgain(one.beat, state);
        if (why) make("p", { class: "confirm" }, text, why);
        const tools = make("div", { class: "tools" }, item);
        const again = { type: "button", "data-key": `again-${one.beat}`, "aria-label": `Look again at the beat at ${timeOf(one.beat)}` };
        make("button", again, tools, "Look again").addEventListener("click", () => look(one.beat, true));
        tools.append(...mergeChoice(one, state.answered));
        return item;
      }),
    );
    if (key) Array.from(list.querySelectorAll("[data-key]")).find((one) => one.dataset.key === key)?.focus({ preventScroll: true });
  }

  // What a person does

  /** Say something to a screen reader, and what is asked now. */
  function tell(text) {
    const state = book.state();
    const group = current();
    const next = finished ? byId("finished-said").textContent : `${byId("question-title").textContent} ${group === null ? "" : saidOf(group, state.answered.find((one) => one.beat === reviewing))}`;
    byId("live").textContent = `${text} ${next}`.trim();
    byId("did").textContent = text;
  }

  /** Say that nothing can be changed any more, where the program that writes the labels has ended. */
  function closed() {
    if (keeping.over()) tell("The program has ended: nothing can be changed here. Start it again to go on.");
    return keeping.over();
  }

  function act(one, text) {
    if (closed()) return;
    book.act(one);
    settled(text);
  }

  function settled(text) {
    byId("other").textContent = "";
    const mine = keeping.changed();
    reviewing = null;
    render();
    tell(mine ? text : byId("other").textContent);
  }

  function answer(label) {
    const group = finished ? null : current();
    if (group === null) return;
    if (performance.now() - asked.since < LEAST_MS) tell("Not taken: this beat had only just appeared.");
    else act({ do: "answer", group, label }, `${named(label)} for the beat at ${timeOf(data.groups[group].beat)}.`);
  }

  const UNDONE = {
    answer: (one) => `${one.label} for the beat at ${timeOf(data.groups[one.group].beat)}`,
    later: (one) => `putting off the beat at ${timeOf(data.groups[one.group].beat)}`,
    split: (one) => `splitting the group of ${beatsOf(data.groups[one.group].size)}`,
    merge: (one) => `merging the beat at ${timeOf(one.beat)}`,
    more: () => "asking on",
  };

  function step(by) {
    const one = closed() ? null : book.step(by);
    if (one) settled(`${by < 0 ? "Undone" : "Done again"}: ${UNDONE[one.do](one)}.`);
  }

  /** Return the answered beat before or after the one looked at: null is the next question, undefined where none is. */
  function neighbour(by) {
    const { answered } = book.state();
    const at = reviewing === null ? answered.length : answered.findIndex((one) => one.beat === reviewing);
    const to = at + by;
    if (to < 0 || to > answered.length) return undefined;
    return to === answered.length ? null : answered[to].beat;
  }

  function look(beat, moved) {
    if (beat === undefined) return;
    reviewing = beat;
    render();
    tell("");
    if (moved) {
      byId("question").scrollIntoView();
      byId("question-title").focus({ preventScroll: true });
    }
  }

  function later() {
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
    tell(`${data.file_name} is saved by the browser.`);
  }

  async function done() {
    byId("done").disabled = true;
    const ended = await keeping.done();
    byId("done").disabled = ended;
    render();
    if (ended) tell("Everything is written. This page can be closed.");
  }

  // Buttons and keys

  const actions = {
    undo: () => step(-1),
    redo: () => step(1),
    back: () => look(neighbour(-1)),
    forward: () => look(neighbour(1)),
    later,
    split,
    download,
    more: () => act({ do: "more" }, `${EcgAnswers.MORE} more are asked for.`),
    done,
  };
  const commands = { s: "later", m: "split", u: "undo", y: "redo", ArrowLeft: "back", ArrowRight: "forward" };
  const labelOf = new Map();
  for (const { symbol, key } of data.labels) {
    for (const one of [symbol.toLowerCase(), (key || symbol).toLowerCase()]) if (!labelOf.has(one)) labelOf.set(one, symbol);
  }

  function pressed(event) {
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    if ((event.ctrlKey || event.metaKey) && !event.altKey && (key === "z" || key === "y")) {
      event.preventDefault();
      step(key === "z" && !event.shiftKey ? -1 : 1);
      return;
    }
    // AltGr, with which some keyboards write / and |, is told as Ctrl and Alt
    const altered = event.metaKey || (event.ctrlKey !== event.altKey);
    const inField = event.target.matches("select, input:not([type=checkbox]), textarea, summary");
    const scrolling = key.startsWith("Arrow") && event.target.matches(".paper[tabindex]");
    if (altered || event.repeat || inField || scrolling || !byId("keys").checked) return;
    if (labelOf.has(key)) {
      event.preventDefault();
      answer(labelOf.get(key));
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
    button.addEventListener("click", () => answer(symbol));
  }
  for (const [id, act_] of Object.entries(actions)) byId(id)?.addEventListener("click", act_);
  document.addEventListener("keydown", pressed);
  let room = 0; // the width alone: a phone's bars come and go, and the strip stays where it was moved to
  new ResizeObserver(() => {
    const now = byId("strip").clientWidth;
    if (now === room || drawn.group === null) return;
    room = now;
    pictures.toSize();
    pictures.group(drawn.group);
  }).observe(document.documentElement);
  const say = (where, text) => {
    byId(where).textContent = text;
  };
  const keeping = EcgKeep.keep(data, book, say, () => {
    reviewing = null;
    render();
  });
  byId("page").hidden = false;
  keeping.load();
  render();
  tell("");
})();
