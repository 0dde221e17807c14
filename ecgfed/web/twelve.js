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
  const { tr, trn } = EcgLanguage;
  const { make, laidOut, drawLead, drawBeats, drawSeconds, drawUnusable, gridPath, hatching } = EcgPaper.parts;
  const COLUMN_S = 2.5;
  const STRIP_S = 10;
  const LEFT = 15;
  const PER_S = 25;
  let sheets = 0;
  /** Paper above the rows, for the beats' labels above the rhythm strip, and below, in mm. */
  const [ABOVE, LABELS, BELOW] = [1, 5, 4.5];
  /** Baselines of rows lie at most so far apart in mm; higher waves reach into the rows beside theirs, as on a recorder. */
  const MOST_APART = 25;
  /** A lead's name and the hatching of what is unusable reach so far from the baseline, in mm. */
  const NEAR = 12.5;
  const MOST_UNITS = 3;
  /** Height in mm of the printed sheet, which shares a sheet of A4 with the findings. */
  const PRINTED_MM = 118;

  /** Return a lead by its name, inverted behind a minus, of some seconds of a strip. */
  function cut(strip, name, from, to) {
    const lead = strip.leads.find((one) => one.name === name.replace(/^-/, ""));
    const sign = name.startsWith("-") ? -1 : 1;
    const [first, last] = [from, to].map((seconds) => Math.round(seconds * strip.fs));
    const samples = Array.from(EcgPaper.decode(lead.samples).slice(first, last), (value) => sign * value);
    const shifted = (span) => ({ ...span, start: Math.max(0, span.start - first), stop: Math.min(last, span.stop) - first });
    return { name, unit: "mV", samples, unusable: (lead.unusable || []).map(shifted).filter((span) => span.stop > span.start) };
  }

  /** Return where everything lies, in mm: rows of leads, the last one the rhythm strip, with their baselines. */
  function layoutOf(strip, rows, rhythm, perUnit) {
    const cell = (name, column, seconds) => {
      const lead = cut(strip, name, column * COLUMN_S, column * COLUMN_S + seconds);
      return { ...laidOut(lead, MOST_UNITS, perUnit), unusable: lead.unusable, left: LEFT + column * COLUMN_S * PER_S, seconds };
    };
    const all = [...rows.map((names) => names.map((name, column) => cell(name, column, COLUMN_S))), [cell(rhythm, 0, STRIP_S)]];
    const laid = all.map((cells, number) => ({
      cells,
      rhythm: number === rows.length,
      up: perUnit * Math.max(...cells.map((lead) => lead.top)),
      down: -perUnit * Math.min(...cells.map((lead) => lead.bottom)),
    }));
    let y = ABOVE;
    laid.forEach((row, number) => {
      y += number ? Math.min(MOST_APART, laid[number - 1].down + row.up) + (row.rhythm ? LABELS : 0) : row.up;
      row.baseline = y;
    });
    return { laid, bottom: y + laid.at(-1).down };
  }

  function describe(strip, rows, rhythm) {
    const labels = strip.beats.map((beat) => (beat.uncertain ? tr("{label} uncertain", { label: beat.label }) : beat.label));
    const leads = rows.map((row) => row.join(" ")).join(tr("; "));
    const beats = labels.length ? tr("{where}: {reason}", { where: trn("{n} beat", "{n} beats", labels.length), reason: labels.join(" ") }) : tr("no beats");
    const values = { seconds: COLUMN_S, time: EcgPaper.clock(strip.start_s), leads, rhythm, beats };
    return tr("Twelve leads, {seconds:g} s each, from {time}: {leads}; rhythm strip {rhythm}; {beats}", values);
  }

  /** Draw twelve leads into an element; returns the drawing. */
  function draw(host, strip, { rows, rhythm, mm_per_unit: perUnit = 10 }) {
    const { laid, bottom } = layoutOf(strip, rows, rhythm, perUnit);
    const [wide, high] = [LEFT + STRIP_S * PER_S, bottom + BELOW];
    const size = { viewBox: `0 0 ${wide} ${high.toFixed(2)}`, width: `${wide}mm`, height: `${high.toFixed(2)}mm` };
    const svg = make("svg", { ...size, class: "ecg-paper", role: "img", "aria-label": describe(strip, rows, rhythm) });
    const id = `twelve-${(sheets += 1)}`;
    const defs = hatching(svg, `${id}-hatch`);
    make("rect", { x: 0, y: ABOVE, width: wide, height: bottom - ABOVE, class: "paper-sheet" }, svg);
    make("path", { d: gridPath(0, ABOVE, wide, bottom - ABOVE, 1), class: "paper-minor" }, svg);
    make("path", { d: gridPath(0, ABOVE, wide, bottom - ABOVE, 5), class: "paper-major" }, svg);
    laid.forEach((row, number) => {
      const [up, down] = [Math.min(row.up, NEAR), Math.min(row.down, NEAR)];
      for (const lead of row.cells) {
        const scale = { fs: strip.fs, perS: PER_S, perUnit, seconds: lead.seconds };
        const area = { left: lead.left, top: row.baseline - up, width: lead.seconds * PER_S, height: up + down };
        const clip = `${id}-${number}-${lead.left}`;
        make("rect", { x: lead.left, y: ABOVE, width: area.width, height: bottom - ABOVE }, make("clipPath", { id: clip }, defs));
        drawUnusable(svg, lead.unusable, area, scale, `${id}-hatch`);
        drawLead(svg, { ...lead, top: up / perUnit }, { left: lead.left, top: area.top, clip }, scale, { pulse: lead.left === LEFT });
        if (lead.left > LEFT) make("path", { d: `M${lead.left} ${row.baseline - 3}v2M${lead.left} ${row.baseline + 1}v2`, class: "paper-change" }, svg);
        if (row.rhythm) {
          drawBeats(svg, strip.beats, { ...area, top: row.baseline - row.up, height: row.up + row.down }, scale, { intervals: true });
          drawSeconds(svg, strip, { ...area, top: bottom - area.height }, scale);
        }
      }
    });
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
      const points = marks.map((mark) => mark.text).join(", ") || tr("nothing");
      EcgPaper.draw(box, strip, { pulse: false, intervals: false, seconds: false, maxUnits: MOST_UNITS, name: tr("Average beat of {lead}, marked: {points}", { lead: lead.name, points }), ...scale });
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
