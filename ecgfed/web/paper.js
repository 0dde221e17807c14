"use strict";
/*
 * ECG paper for every page: EcgPaper.draw(host, strip, options) draws one SVG into an element.
 *
 * One unit of the drawing is 1 mm, and its width is in mm, so that at 100% zoom and in print it is true to scale: 25 mm/s
 * and 10 mm/mV by default, thin lines every mm, thick ones every 5 mm, after a calibration pulse of 1 mV and 0.2 s.
 *
 * strip = {
 *   fs,                 sampling frequency in Hz
 *   start_s,            time of its first sample in the recording, in seconds
 *   leads: [{
 *     name, unit,       "MLII", "mV"
 *     samples,          numbers (NaN if missing), or {int16, per_unit}: base64 of little-endian 16-bit integers,
 *                       per_unit of them per unit, -32768 if missing
 *     low, high,        optional: like samples; the band between them is drawn behind the trace
 *     overlays,         optional: [samples, ...] drawn thin and dashed behind, each around its own median
 *   }],
 *   beats: [{           optional, in order of time
 *     sample,           relative to the strip's first sample, may be fractional
 *     label,            written above it
 *     quiet,            true: one of the usual beats, written small
 *     marked,           true: the beat that the strip is about, in a grey column with an arrow head above
 *     uncertain,        true: written with a question mark, in a dashed box
 *     secondLabel,      optional: the label of a second reader, below; in a box if it differs
 *   }],
 *   marks: [{sample}],  optional: points of an average beat, dashed lines
 *   spans: [{           optional
 *     start, stop,      in samples, relative to the strip's first
 *     kind,             "unusable" (hatched), "event" (a bracket above the beats) or "pause" (a double arrow)
 *     text,
 *   }],
 * }
 * options = { mm_per_s, mm_per_unit, pulse: true, intervals: true, seconds: true, maxUnits: largest extent of the
 *             paper up or down, in units; readers: [names of the readers above and below], name: start of the description }
 *
 * Text is never parsed as markup: it becomes text nodes and attributes.
 */
const EcgPaper = (() => {
  const SVG = "http://www.w3.org/2000/svg";
  const NONE = -32768;
  const PULSE_S = 0.2;
  const MARKED_S = 0.28;
  let drawn = 0;

  function make(name, attributes, parent, text) {
    const element = document.createElementNS(SVG, name);
    for (const key of Object.keys(attributes)) element.setAttribute(key, String(attributes[key]));
    if (text !== undefined) element.textContent = text;
    if (parent) parent.appendChild(element);
    return element;
  }

  /** Return samples as numbers, NaN if missing. */
  function decode(samples) {
    if (samples === undefined || samples === null) return null;
    if (samples.int16 === undefined) return Float64Array.from(samples, (value) => (value === null ? NaN : value));
    const bytes = Uint8Array.from(atob(samples.int16), (character) => character.charCodeAt(0));
    const view = new DataView(bytes.buffer);
    const values = new Float64Array(bytes.length / 2);
    for (let i = 0; i < values.length; i += 1) {
      const value = view.getInt16(2 * i, true);
      values[i] = value === NONE ? NaN : value / samples.per_unit;
    }
    return values;
  }

  const L = typeof EcgLanguage === "undefined" ? require("./language.js") : EcgLanguage;
  const { tr, trn } = L;

  /** The recording's start in seconds from midnight, where times are written as time of day; else null. */
  let midnight = null;

  function startAt(seconds) {
    midnight = seconds;
  }

  /** Round to a whole number as Python does: halves to the even one. */
  function rounded(value) {
    const floor = Math.floor(value);
    const part = value - floor;
    return part > 0.5 || (part === 0.5 && floor % 2 === 1) ? floor + 1 : floor;
  }

  /** Return whole days, hours, minutes, and seconds with a number of digits behind the point. */
  function partsOf(seconds, digits) {
    const unit = 10 ** digits;
    const units = rounded(seconds * unit);
    const [minutes, rest] = [Math.floor(units / (60 * unit)), units % (60 * unit)];
    const last = String(Math.floor(rest / unit)).padStart(2, "0") + (digits ? `${L.decimal()}${String(rest % unit).padStart(digits, "0")}` : "");
    return { day: Math.floor(minutes / 1440), hour: Math.floor(minutes / 60), minute: minutes % 60, last };
  }

  const two = (number) => String(number).padStart(2, "0");

  /** Format a duration: 5:07.3, from one hour on 1:05:07.3. */
  function duration(seconds, digits = 1) {
    const { hour, minute, last } = partsOf(seconds, digits);
    return hour ? `${hour}:${two(minute)}:${last}` : `${minute}:${last}`;
  }

  /** Format a place in the recording: as time of day, 09:20:07.3 or day 2 00:20:07.3, where the start is known; else its time from the start. */
  function clock(seconds, digits = 1) {
    if (midnight === null) return duration(seconds, digits);
    const { day, hour, minute, last } = partsOf(midnight + seconds, digits);
    const time = `${two(hour % 24)}:${two(minute)}:${last}`;
    return day ? tr("day {day} {time}", { day: day + 1, time }) : time;
  }

  /** Format a count with its noun, in English: 1 beat, 1,234 beats. */
  const countOf = (count, singular, plural = `${singular}s`) => `${count.toLocaleString("en-US")} ${count === 1 ? singular : plural}`;

  function extremes(values) {
    let low = Infinity;
    let high = -Infinity;
    for (const value of values) {
      if (value < low) low = value;
      if (value > high) high = value;
    }
    return low <= high ? [low, high] : [0, 0];
  }

  function median(values) {
    const known = Array.from(values).filter((value) => Number.isFinite(value)).sort((a, b) => a - b);
    return known.length ? known[known.length >> 1] : 0;
  }

  /** Return a lead minus its median, and the extent of its paper down and up in whole large squares. */
  function laidOut(lead, maxUnits, perUnit) {
    const samples = decode(lead.samples);
    const level = median(samples);
    const around = (values) => (values ? values.map((value) => value - level) : null);
    const layout = { name: lead.name, unit: lead.unit || "mV", samples: around(samples) };
    layout.low = around(decode(lead.low));
    layout.high = around(decode(lead.high));
    layout.overlays = (lead.overlays || []).map(decode).map((values) => values.map((value) => value - median(values)));
    const reach = [layout.low, layout.high, layout.low && layout.high ? null : layout.samples, ...layout.overlays].filter(Boolean).map(extremes);
    const [lowest, best] = [Math.min(...reach.map((two) => two[0])), Math.max(...reach.map((two) => two[1]))];
    const square = 5 / perUnit;
    layout.bottom = Math.max(Math.floor(Math.min(lowest - 0.1, -0.4) / square) * square, -maxUnits);
    layout.top = Math.min(Math.ceil(Math.max(best + 0.1, 0.9) / square) * square, maxUnits);
    layout.cut = lowest < layout.bottom || best > layout.top;
    return layout;
  }

  function gridPath(x, y, width, height, step) {
    let path = "";
    for (let i = 0; i * step <= width + 1e-6; i += 1) path += `M${(x + i * step).toFixed(2)} ${y}v${height}`;
    for (let i = 0; i * step <= height + 1e-6; i += 1) path += `M${x} ${(y + i * step).toFixed(2)}h${width}`;
    return path;
  }

  /** Return the path of the values, broken at missing ones. */
  function tracePath(values, toX, toY) {
    let path = "";
    let pen = false;
    for (let i = 0; i < values.length; i += 1) {
      if (Number.isNaN(values[i])) {
        pen = false;
      } else {
        path += `${pen ? "L" : "M"}${toX(i).toFixed(2)} ${toY(values[i]).toFixed(2)}`;
        pen = true;
      }
    }
    return path;
  }

  function drawLead(svg, lead, area, scale, options) {
    const { left, top, clip } = area;
    const toX = (i) => left + (i / scale.fs) * scale.perS;
    const toY = (value) => top + (lead.top - value) * scale.perUnit;
    const group = make("g", { "clip-path": `url(#${clip})` }, svg);
    if (lead.low && lead.high) {
      const upper = tracePath(lead.high, toX, toY);
      const back = Array.from(lead.low, (value, i) => `L${toX(i).toFixed(2)} ${toY(value).toFixed(2)}`).reverse().join("");
      if (upper) make("path", { d: `${upper}${back}Z`, class: "paper-band" }, group);
    }
    for (const overlay of lead.overlays) make("path", { d: tracePath(overlay, toX, toY), class: "paper-other-trace" }, group);
    make("path", { d: tracePath(lead.samples, toX, toY), class: "paper-trace" }, group);
    if (options.pulse) {
      const pulse = PULSE_S * scale.perS;
      const rest = (left - pulse) / 2;
      const unit = scale.perUnit;
      const from = toY(0);
      const d = `M${(left - pulse - rest).toFixed(2)} ${from.toFixed(2)}h${rest * 0.6}v${-unit}h${pulse}v${unit}h${rest * 0.6}`;
      make("path", { d, class: "paper-trace" }, svg);
    }
    const caption = lead.cut ? tr("{lead} (cut at the paper's edge)", { lead: lead.name }) : lead.name;
    make("text", { x: left + 1, y: top + 3.6, class: "paper-lead" }, svg, caption);
  }

  /** Return a span's position on the paper, or null outside the strip. */
  function placed(span, area, scale) {
    const from = Math.max(0, span.start / scale.fs) * scale.perS;
    const to = Math.min(scale.seconds, span.stop / scale.fs) * scale.perS;
    return to <= from ? null : { span, x: area.left + from, width: Math.max(to - from, 0.4) };
  }

  function drawUnusable(svg, spans, area, scale, hatch) {
    for (const { span, x, width } of spans.map((item) => placed(item, area, scale)).filter(Boolean)) {
      const box = { x, y: area.top, width, height: area.height };
      make("rect", { ...box, class: "paper-unusable" }, svg);
      make("rect", { ...box, fill: `url(#${hatch})` }, svg);
      const inside = Math.min(x + 0.8, area.left + area.width - 18);
      make("text", { x: inside, y: area.top + area.height - 1.2, class: "paper-reason" }, svg, span.text);
    }
  }

  /** Assign spans to rows so that their texts do not overlap. */
  function inRows(spans, area, scale) {
    const ends = [];
    return spans.map((item) => placed(item, area, scale)).filter(Boolean).sort((a, b) => a.x - b.x).map((item) => {
      const room = Math.max(item.width, 2 * item.span.text.length + 2);
      const middle = Math.min(Math.max(item.x + item.width / 2, area.left + room / 2), area.left + area.width - room / 2);
      const [low, high] = [Math.min(item.x, middle - room / 2), Math.max(item.x + item.width, middle + room / 2)];
      let row = ends.findIndex((end) => end <= low);
      if (row < 0) row = ends.length;
      ends[row] = high;
      return { ...item, middle, row };
    });
  }

  function drawEvents(svg, rows, area) {
    for (const { span, x, width, middle, row } of rows) {
      const y = area.top - 8.4 - 5 * row;
      const line = `M${x} ${y}h${width}M${x} ${y}`;
      const arrows = `${line}l1.8 -1M${x} ${y}l1.8 1M${x + width} ${y}l-1.8 -1M${x + width} ${y}l-1.8 1`;
      make("path", { d: span.kind === "pause" ? arrows : `${line}v1.6M${x + width} ${y}v1.6`, class: "paper-bracket" }, svg);
      make("text", { x: middle, y: y - 0.9, class: "paper-event" }, svg, span.text);
    }
  }

  /** Mark the beat that a strip is about with a column behind the traces. */
  function drawMarked(svg, beats, area, scale) {
    for (const beat of beats.filter((candidate) => candidate.marked)) {
      const x = area.left + (beat.sample / scale.fs) * scale.perS;
      const width = 2 * MARKED_S * scale.perS;
      make("rect", { x: x - width / 2, y: area.top, width, height: area.height, class: "paper-asked" }, svg);
      make("path", { d: `M${x} ${area.top - 0.4}l-1.5 -2.6h3z`, class: "paper-arrow" }, svg);
    }
  }

  function drawBeats(svg, beats, area, scale, options) {
    let before = null;
    for (const beat of beats) {
      const x = area.left + (beat.sample / scale.fs) * scale.perS;
      const inside = x >= area.left && x <= area.left + area.width;
      if (inside) {
        const y = area.top - (beat.marked ? 3.8 : 4.4);
        const text = beat.uncertain ? `${beat.label}?` : beat.label;
        if (!beat.quiet && !beat.marked) make("path", { d: `M${x} ${area.top - 0.4}v${area.height + 0.4}`, class: "paper-mark" }, svg);
        if (beat.uncertain) {
          const width = 1.8 + 2.2 * text.length;
          make("rect", { x: x - width / 2, y: y - 2.9, width, height: 3.8, class: "paper-uncertain" }, svg);
        }
        make("text", { x, y, class: beat.quiet ? "paper-beat paper-quiet" : "paper-beat" }, svg, text);
        if (beat.secondLabel !== undefined && beat.secondLabel !== null) {
          const low = area.top + area.height + 8.2;
          if (beat.secondLabel !== beat.label) {
            make("rect", { x: x - 1.8, y: low - 3.1, width: 3.6, height: 4.2, class: "paper-apart" }, svg);
          }
          make("text", { x, y: low, class: "paper-other" }, svg, beat.secondLabel);
        }
      }
      if (before !== null && options.intervals) {
        const seconds = (beat.sample - before) / scale.fs;
        const middle = x - (seconds * scale.perS) / 2;
        if (seconds * scale.perS >= 7.5 && middle > area.left + 2 && middle < area.left + area.width - 2) {
          make("text", { x: middle, y: area.top - 1, class: "paper-interval" }, svg, Math.round(1000 * seconds));
        }
      }
      before = beat.sample;
    }
  }

  function drawSeconds(svg, strip, area, scale) {
    const y = area.top + area.height;
    for (let second = 0; second <= scale.seconds + 1e-6; second += 1) {
      const x = area.left + second * scale.perS;
      make("path", { d: `M${x} ${y}v1.4`, class: "paper-tick" }, svg);
      const wide = second % 2 === 0 && second < scale.seconds - 0.5;
      if (wide) make("text", { x: x + 0.6, y: y + 3.6, class: "paper-second" }, svg, clock(strip.start_s + second, 1));
    }
  }

  function hatching(svg, id) {
    const defs = make("defs", {}, svg);
    const pattern = { id, width: 2, height: 2, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" };
    make("path", { d: "M0 0v2", class: "paper-hatch" }, make("pattern", pattern, defs));
    return defs;
  }

  /** Describe a strip in words. */
  function described(strip, leads) {
    const marked = (strip.beats || []).find((beat) => beat.marked);
    const beats = (strip.beats || []).map((beat) => (beat.uncertain ? tr("{label} uncertain", { label: beat.label }) : beat.label));
    const spans = (strip.spans || []).map((span) => span.text);
    const seconds = leads.length ? leads[0].samples.length / strip.fs : 0;
    const length = tr("{seconds} s from {time}", { seconds: Math.round(10 * seconds) / 10, time: clock(strip.start_s) });
    const parts = [length, leads.map((lead) => lead.name).join(tr(" and "))];
    if (spans.length) parts.push(spans.join(", "));
    const count = trn("{n} beat", "{n} beats", beats.length);
    if (marked) parts.push(tr("{beats}, the one asked about at {time}", { beats: count, time: clock(strip.start_s + marked.sample / strip.fs) }));
    else parts.push(beats.length ? tr("{where}: {reason}", { where: count, reason: beats.join(" ") }) : tr("no beats"));
    return parts.filter(Boolean).join(tr("; "));
  }

  const DEFAULTS = { mm_per_s: 25, mm_per_unit: 10, pulse: true, intervals: true, seconds: true, maxUnits: 4 };

  /** Return where everything of a strip lies, in mm; wide and high are the size of the drawing. */
  function layoutOf(strip, options) {
    const scale = { fs: strip.fs, perS: options.mm_per_s, perUnit: options.mm_per_unit, seconds: 0 };
    const leads = strip.leads.map((lead) => laidOut(lead, options.maxUnits, scale.perUnit));
    scale.seconds = Math.max(...leads.map((lead) => lead.samples.length)) / strip.fs;
    const beats = strip.beats || [];
    const second = beats.some((beat) => beat.secondLabel !== undefined && beat.secondLabel !== null);
    const below = (options.seconds ? 4.5 : 1) + (second ? 5 : 0);
    const left = options.pulse ? 15 : 0;
    const heights = leads.map((lead) => (lead.top - lead.bottom) * scale.perUnit);
    const height = heights.reduce((a, b) => a + b, 0);
    const width = Math.ceil((scale.seconds * scale.perS) / 5 - 1e-6) * 5;
    const spans = strip.spans || [];
    const rows = inRows(spans.filter((span) => span.kind !== "unusable"), { left, width: scale.seconds * scale.perS }, scale);
    const above = (beats.length ? 7 : 1) + (rows.length ? 5 * (1 + Math.max(...rows.map((row) => row.row))) : 0);
    return { scale, leads, beats, left, heights, height, width, spans, rows, above, wide: left + width, high: above + height + below };
  }

  /** Return the size in mm that a strip would be drawn with. */
  function sizeOf(strip, overrides = {}) {
    const { wide, high } = layoutOf(strip, { ...DEFAULTS, ...overrides });
    return { width: wide, height: high };
  }

  function draw(host, strip, overrides = {}) {
    const options = { ...DEFAULTS, ...overrides };
    const { scale, leads, beats, left, heights, height, width, spans, rows, above, wide, high } = layoutOf(strip, options);
    const id = (drawn += 1);
    const size = { viewBox: `0 0 ${wide} ${high.toFixed(2)}`, width: `${wide}mm`, height: `${high.toFixed(2)}mm` };
    const description = options.name ? tr("{where}: {reason}", { where: options.name, reason: described(strip, leads) }) : described(strip, leads);
    const svg = make("svg", { ...size, class: "ecg-paper", role: "img", "aria-label": description });
    const defs = hatching(svg, `paper-hatch-${id}`);
    make("rect", { x: 0, y: above, width: wide, height, class: "paper-sheet" }, svg);
    make("path", { d: gridPath(0, above, wide, height, 1), class: "paper-minor" }, svg);
    make("path", { d: gridPath(0, above, wide, height, 5), class: "paper-major" }, svg);
    const all = { left, top: above, width: scale.seconds * scale.perS, height };
    drawUnusable(svg, spans.filter((span) => span.kind === "unusable"), all, scale, `paper-hatch-${id}`);
    drawMarked(svg, beats, all, scale);
    let top = above;
    leads.forEach((lead, i) => {
      const clip = `paper-clip-${id}-${i}`;
      const box = make("clipPath", { id: clip }, defs);
      make("rect", { x: left, y: top, width, height: heights[i] }, box);
      drawLead(svg, lead, { left, top, clip }, scale, options);
      top += heights[i];
    });
    drawEvents(svg, rows, all);
    drawBeats(svg, beats, all, scale, options);
    if (options.readers) {
      const baselines = [above - 4.4, above + height + 8.2];
      options.readers.forEach((name, i) => make("text", { x: 0, y: baselines[i], class: "paper-reader" }, svg, name));
    }
    for (const { sample } of strip.marks || []) make("path", { d: `M${left + (sample / scale.fs) * scale.perS} ${above}v${height}`, class: "paper-point" }, svg);
    if (options.seconds) drawSeconds(svg, strip, all, scale);
    host.replaceChildren(svg);
    return svg;
  }

  /** What other drawings are made of (twelve.js, report.js, disclosure.js). */
  const parts = { make, laidOut, drawLead, drawBeats, drawSeconds, drawUnusable, gridPath, hatching };
  return { draw, sizeOf, decode, clock, duration, startAt, countOf, parts };
})();
if (typeof module !== "undefined") module.exports = EcgPaper;
