"use strict";
/*
 * Brings a report's page up to date with its edited beats: findings, tables, list of events, timeline and strips. Parts
 * that only Python draws are marked as older than the edits. Needs report.js, counts.js, words.js and tables.js.
 */
const EcgEditedPage = (() => {
  const { tr, trn } = EcgLanguage;
  const STRIP_S = 10;
  /** Sections with captions or figures that are not counted again on the page. */
  const OLDER = ["warnings", "intervals", "st", "strips", "averages", "beats-of-leads", "apart", "notes", "limits"];
  const FOLDED = 60;

  function make(name, attributes = {}, parent = null, text = undefined) {
    const element = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, String(value));
    if (text !== undefined) element.textContent = text;
    if (parent) parent.appendChild(element);
    return element;
  }

  /** Return a time as a link to the timeline, or as text on a page without one. */
  function momentOf({ at, digits }) {
    const text = EcgWords.time(at, digits);
    return document.getElementById("timeline") ? make("a", { href: "#timeline", "data-at": at.toFixed(3) }, null, text) : text;
  }

  /** Write a cell of words.js: text, and places as links to the timeline. */
  function fill(element, cell) {
    element.replaceChildren();
    for (const part of [cell].flat()) {
      if (part instanceof Node) element.append(part);
      else if (part !== null && typeof part === "object") element.append(momentOf(part));
      else element.append(part === null ? EcgWords.notAssessed() : String(part));
    }
  }

  const tableOf = (caption) => Array.from(document.querySelectorAll("table")).find((table) => table.caption && table.caption.textContent === caption);

  function writeHead(table, head) {
    const row = make("tr");
    for (const name of head) make("th", { scope: "col" }, row, name);
    table.tHead.replaceChildren(row);
  }

  /** Write the first columns of a table's rows; the others, such as rules, keep their text by the row's name. */
  function writeRows(table, rows) {
    const cellsOf = new Map(Array.from(table.tBodies[0].rows, (row) => [row.cells[0].textContent, Array.from(row.cells)]));
    const body = make("tbody");
    for (const [name, ...cells] of rows) {
      const row = make("tr", {}, body);
      fill(make("th", { scope: "row" }, row), name);
      for (const cell of cells) fill(make("td", {}, row), cell);
      row.append(...(cellsOf.get(EcgWords.textOf(name)) || []).slice(1 + cells.length));
    }
    table.tBodies[0].replaceWith(body);
  }

  function newTable(caption, head, rows) {
    const host = make("div", { class: "wide", role: "group", "aria-label": caption });
    const table = make("table", {}, host);
    make("caption", {}, table, caption);
    make("thead", {}, table);
    make("tbody", {}, table);
    writeHead(table, head);
    writeRows(table, rows);
    return host;
  }

  function writeShort(counts, page) {
    const values = new Map(EcgWords.short(counts, page));
    for (const name of document.querySelectorAll("#short .facts dt")) {
      if (values.has(name.textContent)) fill(name.nextElementSibling, values.get(name.textContent));
    }
  }

  function writeRhythms(counts, page) {
    const host = document.getElementById("rhythm-list");
    const rows = EcgWords.rhythms(counts, page);
    const table = tableOf(tr("Rhythms"));
    host.hidden = !rows.length;
    if (table) writeRows(table, rows);
    else if (rows.length) host.replaceChildren(newTable(tr("Rhythms"), EcgWords.RHYTHM_HEAD.map((name) => tr(name)), rows));
  }

  function writeEctopy(counts, page, labelled) {
    const ectopy = EcgTables.ectopy(counts, page, labelled);
    const table = tableOf(tr("Counts of ectopic beats"));
    writeHead(table, [...ectopy.head, tr("Rule")]);
    writeRows(table, ectopy.rows);
    const classes = EcgTables.classes(counts, page, labelled);
    const ofClasses = tableOf(tr("Beats of each class"));
    if (ofClasses) writeRows(ofClasses, classes.rows);
    document.getElementById("absent-classes").textContent = classes.absent;
    const hours = EcgTables.hours(counts, page, labelled);
    const ofHours = tableOf(tr("Beats hour by hour, hours counted from the start of the recording"));
    writeHead(ofHours, hours.head);
    ofHours.tBodies[0].replaceChildren();
    writeRows(ofHours, hours.rows);
    const out = counts.beats - counts.counted;
    const lead = { lead: page.lead };
    const lie = out
      ? trn("{n} beat lies in unusable stretches of {lead} and is in no count below.", "{n} beats lie in unusable stretches of {lead} and are in no count below.", out, lead)
      : tr("No beat lies in an unusable stretch of {lead}.", lead);
    document.getElementById("beats-out").textContent = `${lie} ${tr("No interval is measured across one.")}`;
  }

  /** Return the strips of the page that show a time, those of the gallery first. */
  function stripsAt(data, time) {
    const gallery = data.strips.filter(({ options }) => options.pulse !== false && !options.readers).map(({ strip }) => strip);
    const all = [...gallery, ...data.event_strips, ...(data.timeline ? data.timeline.strips : [])];
    return all.filter((strip) => strip && strip.start_s <= time && time < strip.start_s + STRIP_S);
  }

  function stripLink(data, time) {
    const number = data.strips.findIndex(({ strip, options }) => options.pulse !== false && !options.readers && strip.start_s <= time && time < strip.start_s + STRIP_S);
    if (number < 0) return "-";
    const link = make("a", { href: `#strip-${number}` });
    link.textContent = data.strips[number].options.name;
    return link;
  }

  /** Write the list of events, each with a button that chooses it; a folded list is written when it is opened. */
  function writeEvents(counts, data, choose) {
    const host = document.getElementById("event-list");
    const open = Boolean(host.querySelector("details[open]"));
    const title = document.getElementById("events-title");
    title.textContent = tr("All runs, pauses, rhythm episodes and patient events ({n})", { n: counts.events.length });
    const table = () => {
      const rows = EcgWords.events(counts).map((row, i) => {
        const button = make("button", { type: "button", class: "screen", "aria-label": tr("Edit {event} at {time}", { event: tr(counts.events[i].name), time: EcgWords.time(counts.events[i].start_s) }) }, null, tr("Edit"));
        button.addEventListener("click", () => choose(i));
        return [...row, stripLink(data, counts.events[i].start_s), button];
      });
      return newTable(tr("Events"), [...EcgWords.EVENT_HEAD.map((name) => tr(name)), tr("Strip"), tr("Edit")], rows);
    };
    const parts = [];
    if (counts.events.length > FOLDED) {
      const details = make("details");
      make("summary", {}, details, `${tr("Every event")} (${trn("{n} row", "{n} rows", counts.events.length)})`);
      details.open = open;
      const show = () => details.open && details.children.length === 1 && details.append(table());
      details.addEventListener("toggle", show);
      show();
      parts.push(details);
    } else parts.push(counts.events.length ? table() : make("p", {}, null, tr("None listed.")));
    for (const sentence of EcgWords.notListed(counts)) parts.push(make("p", {}, null, sentence));
    host.replaceChildren(...parts);
  }

  /** Return the beats of a strip in the page's compact form; a second reader's labels stay with their beats. */
  function stripBeats(strip, beats, labelled, data, step) {
    const first = Math.round(strip.start_s * beats.fs);
    const [low, high] = [first, first + STRIP_S * beats.fs].map((sample) => EcgBeats.lowerBound(beats.sample, sample));
    const second = new Map(strip.beats.filter((beat) => beat.length > 3).map((beat) => [beat[0], beat[3]]));
    const rows = [];
    for (let i = low; i < high; i += 1) {
      const at = Math.round((10 * (beats.sample[i] - first)) / step) / 10;
      const flags = (labelled.uncertain && labelled.uncertain[i] ? 1 : 0) | (beats.assessed[i] ? 0 : 2);
      rows.push([at, data.codes.indexOf(labelled.codes[labelled.label[i]]), flags, ...(second.has(at) ? [second.get(at)] : [])]);
    }
    return rows;
  }

  function writeStrips(labelled, beats, data) {
    const step = Math.round(beats.fs / data.fs);
    EcgReport.beatsOf = (strip) => stripBeats(strip, beats, labelled, data, step);
    for (const figure of document.querySelectorAll("[data-strip]")) {
      const { strip, options } = data.strips[Number(figure.dataset.strip)];
      if (options.pulse === false) continue;
      const rows = String(EcgReport.beatsOf(strip));
      if (rows !== (figure.dataset.beats || String(strip.beats))) EcgReport.drawFigure(figure);
      figure.dataset.beats = rows;
    }
  }

  function writeTimeline(labelled, beats, data, counts) {
    for (const code of labelled.codes) if (!data.codes.includes(code)) data.codes.push(code);
    labelled.codes.forEach((code, i) => (data.ectopic[data.codes.indexOf(code)] = labelled.kinds[i] === 1 || labelled.kinds[i] === 2));
    data.events = counts.events.map((event) => [event.kind, event.name, event.start_s, event.stop_s, event.review ? 1 : 0]);
    const line = data.timeline;
    if (!line) return;
    const bins = EcgBeats.timeBins(beats, line.start_s.length > 1 ? line.start_s[1] - line.start_s[0] : Math.max(beats.duration_s, 1));
    const tenth = (value) => (value === null ? null : Math.round(10 * value) / 10);
    line.rate = bins.map((bin) => tenth(bin.rate));
    line.low = bins.map((bin) => (bin.longest_s === null ? null : tenth(60 / bin.longest_s)));
    line.high = bins.map((bin) => (bin.shortest_s === null ? null : tenth(60 / bin.shortest_s)));
    line.counts = bins.map((bin) => data.codes.map((code) => (labelled.codes.includes(code) ? bin.by_class[labelled.codes.indexOf(code)] : 0)));
  }

  /** Mark the sections that are not counted again, where the edits differ from those that the page was made with. */
  function markOlder(differs, sections) {
    for (const section of sections.map((name) => document.getElementById(name)).filter(Boolean)) {
      const mark = section.querySelector(".older") || make("p", { class: "older" });
      mark.textContent = tr("Not updated with these edits: run ecgfed report --edits to update this part.");
      mark.hidden = !differs;
      section.querySelector("h2").after(mark);
    }
  }

  /** Bring the page up to date. */
  function update({ labelled, beats, counts, page, differs, choose }) {
    const { data } = EcgReport;
    if (!data.short_form) {
      writeShort(counts, page);
      writeRows(tableOf(tr("Heart rate and pauses")), EcgWords.rates(counts, page));
      writeRows(tableOf(tr("Heart rate variability")), EcgWords.variability(counts, page, labelled));
      writeRhythms(counts, page);
      writeEctopy(counts, page, labelled);
    }
    writeTimeline(labelled, beats, data, counts);
    writeStrips(labelled, beats, data);
    writeEvents(counts, data, choose);
    markOlder(differs, data.short_form ? [...OLDER, "short"] : OLDER);
    EcgReport.redraw();
  }

  return { update, make, stripsAt, tableOf };
})();
