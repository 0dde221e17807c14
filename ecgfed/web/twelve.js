"use strict";
/*
 * Twelve leads on one sheet of ECG paper: 3 rows of 4 leads, 2.5 s each, one after another in time, and a rhythm strip
 * of 10 s below; and the average beat of each lead. Needs paper.js.
 *
 * data = {
 *   strip,      as on other strips, with twelve leads; each may have `unusable`: spans as paper.js takes them
 *   orders,     name -> rows of lead names; a minus in front inverts the lead
 *   rhythm,     the lead of the rhythm strip
 *   averages,   null, or {leads, marks}: the average beat of each lead, and the points on it: [{sample, text}]
 * }
 */
const EcgTwelve = (() => {
  const { make, laidOut, drawLead, drawBeats, drawSeconds, drawUnusable, gridPath, hatching } = EcgPaper.parts;
  const COLUMN_S = 2.5;
  const STRIP_S = 10;
  const LEFT = 15;
  const PER_S = 25;
  /** Paper above the rows, between them and the rhythm strip (for the beats' labels), and below. */
  const [ABOVE, LABELS, BELOW] = [1, 10, 4.5];
  const MOST_UNITS = 3;
  /** Height in mm of the printed sheet, which shares a sheet of A4 with the findings. */
  const PRINTED_MM = 112;

  /** Return a lead by its name, inverted behind a minus, of some seconds of a strip. */
  function cut(strip, name, from, to) {
    const lead = strip.leads.find((one) => one.name === name.replace(/^-/, ""));
    const sign = name.startsWith("-") ? -1 : 1;
    const [first, last] = [from, to].map((seconds) => Math.round(seconds * strip.fs));
    const samples = Array.from(EcgPaper.decode(lead.samples).slice(first, last), (value) => sign * value);
    const shifted = (span) => ({ ...span, start: Math.max(0, span.start - first), stop: Math.min(last, span.stop) - first });
    return { name, unit: "mV", samples, unusable: (lead.unusable || []).map(shifted).filter((span) => span.stop > span.start) };
  }

  /** Return where everything lies, in mm: rows of cells, the rhythm strip, the height. */
  function layoutOf(strip, rows, rhythm, perUnit) {
    const cell = (name, from, to, column) => {
      const lead = cut(strip, name, from, to);
      return { ...laidOut(lead, MOST_UNITS, perUnit), unusable: lead.unusable, column };
    };
    let y = ABOVE;
    const placed = rows.map((names) => {
      const cells = names.map((name, column) => cell(name, column * COLUMN_S, (column + 1) * COLUMN_S, column));
      const [top, bottom] = [Math.max(...cells.map((one) => one.top)), Math.min(...cells.map((one) => one.bottom))];
      const row = { y, height: (top - bottom) * perUnit, cells: cells.map((one) => ({ ...one, top, bottom })) };
      y += row.height;
      return row;
    });
    const below = cell(rhythm, 0, STRIP_S, 0);
    y += LABELS;
    const strips = [...placed, { y, height: (below.top - below.bottom) * perUnit, cells: [below], rhythm: true }];
    return { strips, bottom: y + strips.at(-1).height };
  }

  function describe(strip, rows, rhythm) {
    const labels = strip.beats.map((beat) => (beat.uncertain ? `${beat.label} uncertain` : beat.label));
    const leads = rows.map((row) => row.join(" ")).join("; ");
    const beats = labels.length ? `${EcgPaper.countOf(labels.length, "beat")}: ${labels.join(" ")}` : "no beats";
    return `Twelve leads, ${COLUMN_S} s each, from ${EcgPaper.clock(strip.start_s)}: ${leads}; rhythm strip ${rhythm}; ${beats}`;
  }

  /** Draw twelve leads into an element; returns the drawing. */
  function draw(host, strip, { rows, rhythm, mm_per_unit: perUnit = 10 }) {
    const { strips, bottom } = layoutOf(strip, rows, rhythm, perUnit);
    const [wide, high] = [LEFT + STRIP_S * PER_S, bottom + BELOW];
    const size = { viewBox: `0 0 ${wide} ${high.toFixed(2)}`, width: `${wide}mm`, height: `${high.toFixed(2)}mm` };
    const svg = make("svg", { ...size, class: "ecg-paper", role: "img", "aria-label": describe(strip, rows, rhythm) });
    const id = `twelve-${(draw.count = (draw.count || 0) + 1)}`;
    const defs = hatching(svg, `${id}-hatch`);
    make("rect", { x: 0, y: ABOVE, width: wide, height: bottom - ABOVE, class: "paper-sheet" }, svg);
    make("path", { d: gridPath(0, ABOVE, wide, bottom - ABOVE, 1), class: "paper-minor" }, svg);
    make("path", { d: gridPath(0, ABOVE, wide, bottom - ABOVE, 5), class: "paper-major" }, svg);
    for (const [number, row] of strips.entries()) {
      for (const lead of row.cells) {
        const left = LEFT + lead.column * COLUMN_S * PER_S;
        const scale = { fs: strip.fs, perS: PER_S, perUnit, seconds: row.rhythm ? STRIP_S : COLUMN_S };
        const area = { left, top: row.y, width: scale.seconds * PER_S, height: row.height };
        const clip = `${id}-${number}-${lead.column}`;
        make("rect", { x: left, y: row.y, width: area.width, height: row.height }, make("clipPath", { id: clip }, defs));
        drawUnusable(svg, lead.unusable, area, scale, `${id}-hatch`);
        drawLead(svg, lead, { left, top: row.y, clip }, scale, { pulse: lead.column === 0 });
        const level = row.y + lead.top * perUnit;
        if (lead.column) make("path", { d: `M${left} ${level - 4}v2.5M${left} ${level + 1.5}v2.5`, class: "paper-change" }, svg);
        if (row.rhythm) {
          drawBeats(svg, strip.beats, area, scale, { intervals: true });
          drawSeconds(svg, strip, area, scale);
        }
      }
    }
    host.replaceChildren(svg);
    return svg;
  }

  const heightOf = (strip, rows, rhythm, perUnit) => layoutOf(strip, rows, rhythm, perUnit).bottom + BELOW;

  /** Draw the average beat of each lead into an element. */
  function drawAverages(host, { leads, marks }, fs, scale) {
    host.replaceChildren();
    for (const lead of leads) {
      const box = document.createElement("div");
      const strip = { fs, start_s: 0, leads: [{ unit: "mV", ...lead }], marks };
      const points = marks.map((mark) => mark.text).join(", ");
      EcgPaper.draw(box, strip, { pulse: false, intervals: false, seconds: false, maxUnits: MOST_UNITS, name: `Average beat of ${lead.name}, marked: ${points || "nothing"}`, ...scale });
      host.appendChild(box);
    }
  }

  /** Draw what a report has of twelve leads: its sheet, its average beats, and the sheets of strips that are open. */
  function drawReport(report, printing) {
    const { data } = report;
    if (!data.twelve) return;
    const { strip, orders, rhythm, averages } = data.twelve;
    const order = document.getElementById("twelve-order");
    const rows = orders[(order && order.value) || "standard"];
    const sheet = report.stripOf(strip);
    const mmPerUnit = printing && heightOf(sheet, rows, rhythm, 10) > PRINTED_MM ? 5 : 10;
    draw(document.getElementById("twelve-sheet"), sheet, { rows, rhythm, mm_per_unit: mmPerUnit });
    document.getElementById("twelve-scale").textContent = `25 mm/s, ${mmPerUnit} mm/mV`;
    const panels = document.getElementById("twelve-averages");
    if (panels && averages) drawAverages(panels, averages, data.fs, printing ? {} : { mm_per_s: 50, mm_per_unit: 20 });
    for (const details of document.querySelectorAll("details[data-twelve]")) {
      if (!details.open) continue;
      const { strip: other } = data.strips[Number(details.dataset.twelve)];
      draw(details.querySelector(".paper"), report.stripOf({ ...other, leads: other.twelve }), { rows, rhythm });
    }
  }

  /** Draw again when another order of leads is chosen or a strip's twelve leads are opened. */
  function listen(report, reachable) {
    const again = () => {
      drawReport(report, false);
      reachable();
    };
    const order = document.getElementById("twelve-order");
    if (order) order.addEventListener("change", again);
    for (const details of document.querySelectorAll("details[data-twelve]")) details.addEventListener("toggle", again);
  }

  return { draw, drawReport, listen };
})();
if (typeof module !== "undefined") module.exports = EcgTwelve;
