"use strict";
/* A recording's report: its strips and its clickable timeline. Needs paper.js and twelve.js. */
const EcgReport = (() => {
  const { tr, trLater, comma } = EcgLanguage;
  const data = JSON.parse(document.getElementById("page-data").textContent);
  const ofDay = data.clock_s !== undefined && data.clock_s !== null;
  if (ofDay) EcgPaper.startAt(data.clock_s);
  const { make } = EcgPaper.parts;
  /** What editing needs: the data, which it changes, the beats of a strip, and what draws them again. */
  const report = { data, stripOf, drawFigure, beatsOf: (strip) => strip.beats, redraw() {}, shown: () => null };

  /** Expand a strip from the page's compact form to the format of paper.js. */
  function stripOf(strip) {
    const beats = report.beatsOf(strip).map(([sample, number, flags, second]) => ({
      sample,
      label: data.codes[number],
      quiet: number === data.usual || Boolean(flags & 2),
      uncertain: Boolean(flags & 1),
      secondLabel: second === undefined || second === null ? undefined : data.codes[second],
    }));
    const leads = strip.leads.map((lead, i) => ({ name: data.leads[i], unit: "mV", ...lead }));
    return { fs: data.fs, start_s: strip.start_s, leads, beats, spans: strip.spans };
  }

  /** Largest height in mm of a printed strip: three fit on a sheet of A4 across. */
  const PRINTED_MM = 48;

  /** Return a strip and its options for printing: the first form that is low enough, with fewer leads if need be. */
  function printedForm(strip, options) {
    const all = strip.leads.length;
    const forms = [[10, all], [5, all], ...(options.mm_per_s ? [] : [[5, 2], [5, 1]])].map(([mmPerUnit, leads]) => [
      { ...strip, leads: strip.leads.slice(0, leads) },
      { ...options, mm_per_s: 25, mm_per_unit: mmPerUnit },
    ]);
    return forms.find(([some, scale]) => EcgPaper.sizeOf(some, scale).height <= PRINTED_MM) || forms.at(-1);
  }

  function drawFigure(figure, printing = false) {
    const { strip, options } = data.strips[Number(figure.dataset.strip)];
    const [drawn, scale] = printing ? printedForm(stripOf(strip), options) : [stripOf(strip), options];
    EcgPaper.draw(figure, drawn, scale);
    const alone = () => tr(", {leads} alone", { leads: drawn.leads.map((lead) => lead.name).join(", ") });
    const leads = drawn.leads.length < strip.leads.length ? alone() : "";
    const stated = figure.parentElement.querySelector(".printed");
    if (stated) stated.textContent = `${tr("; ")}${scale.mm_per_s || 25} mm/s, ${scale.mm_per_unit || 10} mm/mV${leads}`;
    // on a narrow screen the strip overflows: scroll to its event
    const event = strip.spans.find((span) => span.kind !== "unusable");
    if (event && figure.scrollWidth > figure.clientWidth) {
      const middle = (event.start + event.stop) / 2 / data.fs / 10;
      figure.scrollLeft = middle * figure.scrollWidth - figure.clientWidth / 2;
    }
  }

  function drawFigures(printing) {
    for (const figure of document.querySelectorAll("[data-strip]")) drawFigure(figure, printing);
    EcgTwelve.drawReport(report, printing);
  }
  drawFigures(false);
  report.redraw = () => EcgTwelve.drawReport(report, false);

  /** Make elements that overflow, and only these, focusable, so that they can be scrolled by keyboard. */
  function reachable() {
    for (const box of document.querySelectorAll(".wide, .paper:not(#edit-strip)")) {
      if (box.scrollWidth > box.clientWidth + 1) box.setAttribute("tabindex", "0");
      else box.removeAttribute("tabindex");
    }
  }

  const line = data.timeline;
  const slider = document.getElementById("timeline-slider");
  reachable();
  EcgTwelve.listen(report, reachable);
  window.addEventListener("resize", reachable);
  window.addEventListener("beforeprint", () => drawFigures(true));
  window.addEventListener("afterprint", () => drawFigures(false));
  if (!line || !slider) return report;
  /** Room for the names at the left; the longest that is always there is that of the rate. */
  const MARGIN = Math.max(134, 34 + 8.4 * tr("Heart rate").length);
  const RIGHT = ofDay ? 52 : 26;
  const RATE = 96;
  const ROW = 26;
  const LANE = 18;
  const total = line.start_s.length;
  let at = 0;
  let cursor = null;
  let toX = (seconds) => seconds;

  function counted(number) {
    return line.counts.map((row) => row[number]);
  }

  /** Return tick positions at round numbers of seconds, about maxCount at most. */
  function ticks(maxCount) {
    const steps = [10, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 14400, 21600, 43200, 86400];
    const step = steps.find((seconds) => line.duration_s / seconds <= maxCount) || 86400 * 2;
    const first = (step - ((data.clock_s || 0) % step)) % step; // round times of day
    return Array.from({ length: Math.max(0, Math.floor((line.duration_s - first) / step) + 1) }, (_, i) => first + i * step);
  }

  function drawRate(svg, top) {
    const share = (values, part) => values.filter((value) => value !== null).sort((a, b) => a - b)[Math.floor(part * known)];
    const known = line.rate.filter((value) => value !== null).length - 1;
    const low = Math.max(0, Math.floor((Math.min(50, ...(known < 0 ? [] : [share(line.low, 0.02)])) - 5) / 10) * 10);
    const high = Math.min(300, Math.ceil((Math.max(100, ...(known < 0 ? [] : [share(line.high, 0.98)])) + 5) / 10) * 10);
    const toY = (rate) => top + RATE - ((Math.min(Math.max(rate, low), high) - low) / (high - low)) * RATE;
    make("text", { x: 0, y: top + 14, class: "line-name" }, svg, tr("Heart rate"));
    make("text", { x: 0, y: top + 29, class: "line-small" }, svg, tr("per minute"));
    const step = high - low > 120 ? 50 : high - low > 60 ? 20 : 10;
    for (let rate = Math.ceil(low / step) * step; rate <= high; rate += step) {
      make("path", { d: `M${MARGIN} ${toY(rate)}H${toX(line.duration_s)}`, class: "line-grid" }, svg);
      make("text", { x: MARGIN - 6, y: toY(rate) + 4, class: "line-value" }, svg, rate);
    }
    let band = "";
    let path = "";
    let pen = false;
    for (let i = 0; i < total; i += 1) {
      if (line.rate[i] === null) {
        pen = false;
        continue;
      }
      const [x, to] = [toX(line.start_s[i]), toX(line.stop_s[i])];
      band += `M${x} ${toY(line.low[i])}H${to}V${toY(line.high[i])}H${x}Z`;
      path += `${pen ? "L" : "M"}${((x + to) / 2).toFixed(1)} ${toY(line.rate[i]).toFixed(1)}`;
      if (!pen && (i + 1 === total || line.rate[i + 1] === null)) path += "h0.1";
      pen = true;
    }
    make("path", { d: band, class: "line-band" }, svg);
    make("path", { d: path, class: "line-rate" }, svg);
    return top + RATE + 12;
  }

  function drawClass(svg, top, number) {
    const counts = counted(number);
    const highest = Math.max(...counts);
    make("text", { x: 0, y: top + 13, class: "line-name" }, svg, data.codes[number]);
    make("text", { x: 20, y: top + 13, class: "line-small" }, svg, tr("up to {n}", { n: highest }));
    make("path", { d: `M${MARGIN} ${top + ROW - 6}H${toX(line.duration_s)}`, class: "line-grid" }, svg);
    let path = "";
    counts.forEach((count, i) => {
      if (!count) return;
      const height = Math.max(2, (count / highest) * (ROW - 8));
      const x = toX(line.start_s[i]);
      path += `M${x.toFixed(1)} ${top + ROW - 6}v${-height.toFixed(1)}h${Math.max(1, toX(line.stop_s[i]) - x - 0.3).toFixed(1)}v${height.toFixed(1)}z`;
    });
    make("path", { d: path, class: "line-count" }, svg);
    return top + ROW;
  }

  function drawQuality(svg, top) {
    const patterns = make("defs", {}, svg);
    const pattern = make("pattern", { id: "line-hatch", width: 5, height: 5, patternUnits: "userSpaceOnUse" }, patterns);
    make("path", { d: "M0 5L5 0", class: "line-hatch" }, pattern);
    const stripes = make("pattern", { id: "line-stripes", width: 3, height: 3, patternUnits: "userSpaceOnUse" }, patterns);
    make("path", { d: "M0.5 0V3", class: "line-stripe" }, stripes);
    make("text", { x: 0, y: top + 13, class: "line-name" }, svg, tr("Unusable"));
    const frame = { x: MARGIN, y: top, width: toX(line.duration_s) - MARGIN, height: 16 };
    make("rect", { ...frame, class: "line-frame" }, svg);
    line.unusable.forEach((share, i) => {
      if (!share) return;
      const x = toX(line.start_s[i]);
      const width = Math.max(1.5, toX(line.stop_s[i]) - x);
      const height = Math.max(2, 16 * share);
      make("rect", { x, y: top + 16 - height, width, height, fill: "url(#line-hatch)", class: "line-bad" }, svg);
    });
    return top + 22;
  }

  /** Lanes of events that are no rhythms: kind, name, and the name of one event in words. */
  const LANES = [
    ["patient event", trLater("Patient events")],
    [trLater("ventricular run"), trLater("Ventricular runs")],
    [trLater("supraventricular run"), trLater("Supraventricular runs")],
    ["pause", trLater("Pauses")],
    ["interval not confirmed", trLater("Not confirmed")],
    ["no beat at an end", trLater("No beat at an end")],
  ];

  /** Return the lanes below the heart rate, each with its events: the patient's, each rhythm's, runs, pauses. */
  function lanes() {
    const [first, ...others] = LANES.map(([kind, name]) => ({ kind, name, events: data.events.filter(([of]) => of === kind) }));
    const rhythms = new Map();
    for (const event of data.events) if (event[0] === "rhythm") rhythms.set(event[1], [...(rhythms.get(event[1]) || []), event]);
    const ofRhythms = Array.from(rhythms, ([name, events]) => ({ kind: "rhythm", name, events }));
    return [first, ...ofRhythms, ...others].filter(({ events }) => events.length);
  }

  /** Draw a lane: a bar for each event, striped where it is to be reviewed; a triangle for each patient event. */
  function drawLane(svg, top, { kind, name: english, events }) {
    const name = tr(english);
    const label = make("text", { x: 0, y: top + 11, class: "line-small" }, svg, name.length > 22 ? `${name.slice(0, 21)}…` : name);
    make("title", {}, label, name);
    const frame = { x: MARGIN, y: top, width: toX(line.duration_s) - MARGIN, height: 14 };
    make("rect", { ...frame, class: "line-frame" }, svg);
    let [solid, striped] = ["", ""];
    for (const [, , start, stop, review] of events) {
      const [x, width] = [toX(start), Math.max(1.5, toX(stop) - toX(start))];
      if (kind === "patient event") solid += `M${x.toFixed(1)} ${top + 13}l-5 -11h10z`;
      else if (review) striped += `M${x.toFixed(1)} ${top + 0.5}h${Math.max(3, width).toFixed(1)}v13h${-Math.max(3, width).toFixed(1)}z`;
      else solid += `M${x.toFixed(1)} ${top}h${width.toFixed(1)}v14h${-width.toFixed(1)}z`;
    }
    if (striped) make("path", { d: striped, fill: "url(#line-stripes)", class: "line-review" }, svg);
    if (solid) make("path", { d: solid, class: "line-rhythm" }, svg);
    return top + LANE;
  }

  function drawLine(wide) {
    const width = wide || Math.max(slider.clientWidth || 1000, 640);
    toX = (seconds) => MARGIN + (seconds / line.duration_s) * (width - MARGIN - RIGHT);
    const rows = data.codes.map((_, i) => i).filter((i) => i !== data.usual && counted(i).some(Boolean));
    const rowsOfEvents = lanes();
    const height = 6 + RATE + 12 + ROW * rows.length + 24 + LANE * rowsOfEvents.length + 20;
    const svg = make("svg", {});
    for (const [key, value] of [["viewBox", `0 0 ${width} ${height}`], ["class", "line"], ["aria-hidden", "true"]]) svg.setAttribute(key, value);
    let top = drawRate(svg, 6);
    top = drawQuality(svg, top + 2);
    for (const lane of rowsOfEvents) top = drawLane(svg, top, lane);
    top += 2;
    for (const number of rows) top = drawClass(svg, top, number);
    for (const second of ticks(width / (ofDay ? 115 : 75))) {
      make("path", { d: `M${toX(second)} 4V${top}`, class: "line-tick" }, svg);
      make("text", { x: toX(second), y: top + 14, class: "line-time" }, svg, EcgPaper.clock(second, 0));
    }
    cursor = make("rect", { y: 2, height: top - 2, class: "line-cursor" }, svg);
    slider.replaceChildren(svg);
    moveCursor();
  }

  function moveCursor() {
    const x = toX(line.start_s[at]);
    cursor.setAttribute("x", String(x - 1));
    cursor.setAttribute("width", String(Math.max(3, toX(line.stop_s[at]) - x + 2)));
  }

  /** Describe an interval of the timeline in words. */
  function descriptionOf(i) {
    const rate = line.rate[i] === null ? tr("no rate") : tr("{n} a minute", { n: Math.round(line.rate[i]) });
    const beats = line.counts[i].map((count, number) => (count ? `${comma(count)} ${data.codes[number]}` : "")).filter(Boolean);
    const bad = line.unusable[i] ? tr(", {n}% unusable", { n: Math.max(1, Math.round(100 * line.unusable[i])) }) : "";
    const times = tr("{start} to {stop}", { start: EcgPaper.clock(line.start_s[i], 0), stop: EcgPaper.clock(line.stop_s[i], 0) });
    const inside = ([, , start, stop]) => start < line.stop_s[i] && (stop > line.start_s[i] || (stop === start && start >= line.start_s[i]));
    const names = data.events.filter(inside).map(([kind, name, , , review]) => {
      const event = tr(kind === "rhythm" || kind === "patient event" ? name : kind);
      return review ? tr("{event} to review", { event }) : event;
    });
    const events = Array.from(new Set(names), (name) => `, ${name}`);
    return tr("{where}: {reason}", { where: times, reason: `${[rate, beats.length ? beats.join(", ") : tr("no beats")].join(tr("; "))}${bad}${events.join("")}` });
  }

  function select(i, moved = true) {
    at = Math.min(Math.max(i, 0), total - 1);
    slider.setAttribute("aria-valuenow", String(at));
    slider.setAttribute("aria-valuetext", descriptionOf(at));
    document.getElementById("timeline-said").textContent = descriptionOf(at);
    const strip = line.strips[at];
    const host = document.getElementById("timeline-strip");
    if (strip) EcgPaper.draw(host, stripOf(strip), { name: tr("Chosen strip") });
    else host.replaceChildren();
    const from = strip ? EcgPaper.clock(strip.start_s) : "";
    document.getElementById("timeline-caption").textContent = strip ? `${from}, ${data.scale}` : "";
    if (cursor && moved) moveCursor();
  }

  function ectopic(i) {
    return line.counts[i].some((count, number) => count > 0 && data.ectopic[number]);
  }

  function next(step, matches) {
    for (let i = at + step; i >= 0 && i < total; i += step) if (matches(i)) return i;
    return at;
  }

  /** Return the interval that contains a time. */
  function stretchAt(seconds) {
    const index = line.stop_s.findIndex((stop) => seconds < stop);
    return index < 0 ? total - 1 : index;
  }

  function pointed(event) {
    const box = slider.firstElementChild.getBoundingClientRect();
    const view = slider.firstElementChild.viewBox.baseVal;
    const x = ((event.clientX - box.left) / box.width) * view.width;
    return stretchAt(((x - toX(0)) / (toX(line.duration_s) - toX(0))) * line.duration_s);
  }

  slider.addEventListener("pointerdown", (event) => {
    select(pointed(event));
    if (event.pointerType === "mouse") slider.setPointerCapture(event.pointerId);
  });
  slider.addEventListener("pointermove", (event) => {
    if (slider.hasPointerCapture(event.pointerId)) select(pointed(event));
  });
  const page = Math.max(1, Math.round(total / 20));
  const keys = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, PageUp: page, PageDown: -page, Home: -total, End: total };
  slider.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || !(event.key in keys)) return;
    event.preventDefault();
    select(at + keys[event.key]);
  });
  const buttons = {
    "timeline-earlier": () => at - 1,
    "timeline-later": () => at + 1,
    "timeline-before": () => next(-1, ectopic),
    "timeline-after": () => next(1, ectopic),
  };
  for (const [id, where] of Object.entries(buttons)) document.getElementById(id).addEventListener("click", () => select(where()));
  document.addEventListener("click", (event) => {
    const link = event.target.closest("[data-at]");
    if (!link) return;
    event.preventDefault();
    select(stretchAt(Number(link.dataset.at)));
    document.getElementById("timeline").scrollIntoView();
    slider.focus({ preventScroll: true });
  });
  slider.setAttribute("aria-valuemax", String(total - 1));
  drawLine();
  select(line.begin || 0);
  reachable();
  window.addEventListener("beforeprint", () => drawLine(1040));
  window.addEventListener("afterprint", () => drawLine());
  if (typeof ResizeObserver !== "undefined") {
    let width = slider.clientWidth;
    new ResizeObserver(() => {
      if (slider.clientWidth !== width && !window.matchMedia("print").matches) {
        width = slider.clientWidth;
        drawLine();
      }
    }).observe(slider);
  }
  report.redraw = () => {
    EcgTwelve.drawReport(report, false);
    drawLine();
    select(at, false);
  };
  report.shown = () => line.strips[at];
  return report;
})();
