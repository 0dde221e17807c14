"use strict";
/*
 * Full disclosure of a report: a sheet an hour, a row a minute, each beat that is not of the usual class marked. Sheets
 * are drawn when they come near the screen, and all for printing. Needs paper.js, report.js and edits.js.
 */
const EcgDisclosure = (() => {
  const { data } = EcgReport;
  const { make } = EcgPaper.parts;
  const { rows, columns, row_s: rowS, per_mv: perMv } = data.disclosure;
  const values = new Int8Array(EcgEdits.bytesOf(data.disclosure.int8));
  const NONE = -128;
  const HOUR = 60; // rows
  /** Lengths in mm: a row, where it begins, how long it is, a millivolt, a sheet. */
  const [ROW, LEFT, LONG, MV, WIDTH] = [2.7, 15, 250, 2, 267];
  const HEIGHT = ROW * HOUR + 3;
  const AROUND_S = 0.15;
  const KINDS = { 1: "supra", 2: "ventricular" };
  let labelled = null;

  /** Return the path of some columns of a row, in hundredths of a mm from the row's beginning. */
  function pathOf(row, from, to) {
    let [path, pen, x0, y0] = ["", false, 0, 0];
    for (let i = Math.max(from, 0); i < Math.min(to, columns); i += 1) {
      const at = 2 * (row * columns + i);
      const [low, high] = [values[at], values[at + 1]];
      if (low === NONE || high === NONE) {
        pen = false;
        continue;
      }
      const x = Math.round((100 * LONG * (i + 0.5)) / columns);
      let [first, second] = [low, high].map((value) => Math.round((-100 * MV * value) / perMv));
      if (pen && Math.abs(second - y0) < Math.abs(first - y0)) [first, second] = [second, first];
      path += pen ? `l${x - x0} ${first - y0}` : `M${x} ${first}`;
      if (second !== first || !pen) path += `v${second - first}`;
      [pen, x0, y0] = [true, x, second];
    }
    return path;
  }

  /** Return how far some columns of a row reach above it in mm, at most half a row. */
  function highestOf(row, from, to) {
    let highest = 0;
    for (let i = Math.max(from, 0); i < Math.min(to, columns); i += 1) highest = Math.max(highest, values[2 * (row * columns + i) + 1]);
    return Math.min((MV * highest) / perMv, ROW / 2);
  }

  /** Return the usual class: the most frequent one that is not ectopic, among the labels as they are now. */
  function usualOf() {
    const number = new Int32Array(labelled.codes.length);
    for (const of of labelled.label) number[of] += 1;
    let best = -1;
    number.forEach((count, of) => {
      if (!(labelled.kinds[of] in KINDS) && count && (best < 0 || count > number[best])) best = of;
    });
    return best;
  }

  function drawRow(svg, row, y, usual) {
    make("text", { x: LEFT - 1, y: y + 0.6, class: "disclosed-time" }, svg, EcgPaper.clock(row * rowS, 0));
    const group = make("g", { transform: `translate(${LEFT} ${y.toFixed(2)}) scale(0.01)` }, svg);
    make("path", { d: pathOf(row, 0, columns), class: "disclosed-trace" }, group);
    const [first, last] = [row, row + 1].map((at) => EcgBeats.lowerBound(labelled.sample, at * rowS * labelled.fs));
    const [thick, marks] = [{}, []];
    for (let i = first; i < last; i += 1) {
      const of = labelled.label[i];
      if (of === usual) continue;
      const seconds = labelled.sample[i] / labelled.fs - row * rowS;
      const [from, to] = [seconds - AROUND_S, seconds + AROUND_S].map((at) => Math.round((at / rowS) * columns));
      const kind = KINDS[labelled.kinds[of]] || "other";
      thick[kind] = (thick[kind] || "") + pathOf(row, from, to);
      marks.push([(LEFT + (seconds / rowS) * LONG).toFixed(1), (y - highestOf(row, from, to) - 0.3).toFixed(2), labelled.codes[of]]);
    }
    for (const [kind, path] of Object.entries(thick)) make("path", { d: path, class: `disclosed-trace disclosed-${kind}` }, group);
    for (const [x, top, code] of marks) make("text", { x, y: top, class: "disclosed-code" }, svg, code);
  }

  function draw(host) {
    const hour = Number(host.dataset.hour);
    const svg = make("svg", {});
    const shown = Math.min(HOUR, rows - hour * HOUR);
    const height = shown === HOUR ? HEIGHT : ROW * shown + 3;
    for (const [key, value] of [["viewBox", `0 0 ${WIDTH} ${height.toFixed(1)}`], ["class", "disclosed"], ["aria-hidden", "true"]]) svg.setAttribute(key, value);
    const usual = usualOf();
    for (let i = 0; i < shown; i += 1) drawRow(svg, hour * HOUR + i, ROW * (i + 1), usual);
    host.replaceChildren(svg);
  }

  const hosts = Array.from(document.querySelectorAll("[data-hour]"));
  const near = new Set();
  const watch = new IntersectionObserver(
    (entries) => {
      for (const { target, isIntersecting } of entries) {
        if (isIntersecting) {
          near.add(target);
          if (labelled) draw(target);
        } else {
          near.delete(target);
          target.replaceChildren();
        }
      }
    },
    { rootMargin: "400px" },
  );
  for (const host of hosts) {
    host.style.aspectRatio = `${WIDTH} / ${Math.min(HEIGHT, ROW * (rows - Number(host.dataset.hour) * HOUR) + 3)}`;
    watch.observe(host);
  }
  window.addEventListener("beforeprint", () => hosts.forEach(draw));
  window.addEventListener("afterprint", () => hosts.filter((host) => !near.has(host)).forEach((host) => host.replaceChildren()));

  /** Mark the beats by their labels as they are now. */
  function update(now) {
    labelled = now;
    near.forEach(draw);
  }

  return { update };
})();
