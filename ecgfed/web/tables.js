"use strict";
/*
 * The tables of ectopic beats, of classes and of hours of an edited report, as templates/ectopy.html.j2 and
 * recording.html.j2 write them. Needs words.js and counts.js.
 */
const EcgTables = (() => {
  const W = typeof EcgWords === "undefined" ? require("./words.js") : EcgWords;
  const C = typeof EcgCounts === "undefined" ? require("./counts.js") : EcgCounts;

  const review = (series) => (series.review ? "to review: " : "");
  const bound = (series) => (series.cut ? "at least " : "");
  const low = (count) => (count ? `, ${W.comma(count)} of low confidence` : "");

  function firstOf(series, singular, plural) {
    if (!series.length) return "none";
    const first = [...series].sort((a, b) => a.review - b.review || a.start_s - b.start_s)[0];
    return [`${W.certainFirst(series, singular, plural)}; ${review(first)}first at `, W.moment(first.start_s)];
  }

  function longestOf(series) {
    if (!series.length) return "none";
    const certain = series.filter((item) => !item.review);
    const top = W.highestOf(certain.length ? certain : series, "beats");
    return [`${W.certainFirst(series, "episode")}; ${review(top)}${bound(top)}${W.comma(top.beats)} at `, W.moment(top.start_s)];
  }

  function runText(run) {
    const bridged = run.bridged ? `, across ${W.countOf(run.bridged, "beat")} of another class` : "";
    const hidden = run.undetected ? ", one of them a wave that may be an undetected beat" : "";
    const text = `${review(run)}${bound(run)}${W.countOf(run.beats, "beat")}${low(run.uncertain)}${bridged}${hidden}`;
    return [`${text}, ${W.fixed(run.per_min)}/min (${run.name}) at `, W.moment(run.start_s)];
  }

  /** Return the certain run with the highest value, and a run to review if its value is higher. */
  function highest(runs, name) {
    if (!runs.length) return "no run";
    const certain = W.highestOf(runs.filter((run) => !run.review), name);
    const doubtful = W.highestOf(runs.filter((run) => run.review), name);
    if (!certain) return runText(doubtful);
    if (!doubtful || doubtful[name] <= certain[name]) return runText(certain);
    return [...runText(certain), "; ", ...runText(doubtful)];
  }

  function busiestHour(counts, word) {
    const of = word === "ventricular" ? "ventricular" : "supra";
    const hour = W.highestOf(counts.hours, of);
    return hour && hour[of] ? [`${W.comma(hour[of])} from `, W.moment(hour.start_s, 0)] : "none";
  }

  /** Return head and rows of the counts of ectopic beats: the figure, ventricular, supraventricular, a rule with numbers. */
  function ectopy(counts, page, labelled) {
    const of = (word) => counts[word] || counts.to_review[word] || null;
    const withheld = (word) => word in counts.withheld;
    const fast = (word) => (word === "ventricular" ? "VT" : "SVT");
    function burden(ectopy, word) {
      if (withheld(word)) return "withheld";
      return W.perCent(ectopy.percent) + (word === "ventricular" && ectopy.percent > page.rules.high_burden_percent ? " (high)" : "");
    }
    const figures = [
      ["Beats", (e, word) => (e.total ? `${withheld(word) ? "about " : ""}${W.countOf(e.total, "beat")}${low(e.uncertain)}` : "none detected")],
      ["Burden", burden],
      ["Single", (e) => W.comma(e.singles)],
      ["Couplets", (e) => firstOf(e.couplets, "couplet")],
      ["Short series", (e) => firstOf(e.short, "series", "series")],
      ["Runs", (e) => firstOf(e.runs, "run")],
      ["Tachycardias", (e, word) => firstOf(W.tachycardias(e), fast(word), fast(word))],
      ["Longest run", (e) => highest(e.runs, "beats")],
      ["Fastest run", (e) => highest(e.runs, "per_min")],
      ["Bigeminy", (e) => longestOf(e.bigeminy)],
      ["Trigeminy", (e) => longestOf(e.trigeminy)],
      ["Busiest hour", (e, word) => busiestHour(counts, word)],
    ];
    const words = W.KINDS.map(([word]) => word);
    const short = words.some((word) => of(word) && of(word).short.length);
    const cell = (value, word) => (of(word) ? value(of(word), word) : withheld(word) ? "withheld" : null);
    const title = (word) => word[0].toUpperCase() + word.slice(1) + (counts.to_review[word] ? " (to review, no finding)" : "");
    const rows = figures.filter(([name]) => short || name !== "Short series");
    const codes = (kind) => labelled.codes.filter((_, i) => labelled.kinds[i] === kind).join(" ") || "-";
    const rules = {
      Beats: [W.KINDS.map(([word, kind]) => `${word}: ${codes(kind)}`).join("; ")],
      Burden: [`of ${W.comma(counts.counted)} counted beats; above ${W.general(page.rules.high_burden_percent)}% ventricular is high`],
    };
    const cells = rows.map(([name, value]) => [name, ...words.map((word) => cell(value, word)), ...(rules[name] || [])]);
    return { head: ["Figure", ...words.map(title)], rows: cells };
  }

  const wordOf = (kind) => C.WORDS[kind];

  /** Return head and rows of the beats of each class, and the sentence about classes without beats. */
  function classes(counts, page, labelled) {
    const of = labelled.classes.map((name, i) => ({ name, code: labelled.codes[i], meaning: labelled.meanings[i], word: wordOf(labelled.kinds[i]), beats: counts.by_class[name], uncertain: counts.uncertain_by_class[name] }));
    const withheld = ({ word }) => word !== undefined && word in counts.withheld;
    const confidence = labelled.uncertain !== null;
    const rows = of.filter(({ beats }) => beats).map((row) => {
      const name = row.name === row.code ? "" : row.name + (row.meaning ? ": " : "");
      let [beats, share] = [W.comma(row.beats), W.perCent((100 * row.beats) / counts.counted)];
      if (withheld(row) && !(row.word in counts.to_review)) [beats, share] = ["withheld", "-"];
      else if (C.withholds(page.rules, row.uncertain || 0, row.beats)) [beats, share] = [`about ${W.comma(row.beats)}, to review`, "-"];
      return [row.code, name + row.meaning, beats, share, ...(confidence ? [W.comma(row.uncertain)] : [])];
    });
    const none = of.filter((row) => !row.beats && !(counts.counted && withheld(row))).map((row) => `${row.code} ${row.meaning || row.name}`).join("; ");
    const absent = counts.counted ? (none ? `None detected of: ${none}.` : "") : `No beat was counted: whether there is any of these is ${W.NOT_ASSESSED}: ${none}.`;
    return { head: ["Code", "Meaning", "Beats", "Share", ...(confidence ? ["Low confidence"] : [])], rows: counts.counted ? rows : [], absent };
  }

  /** Return head and rows of the counts of each hour. */
  function hours(counts, page, labelled) {
    const withheld = (kind) => wordOf(kind) !== undefined && wordOf(kind) in counts.withheld;
    const columns = labelled.classes.map((_, i) => i).filter((i) => counts.by_class[labelled.classes[i]] && !withheld(labelled.kinds[i]));
    const known = [["Ventricular", "ventricular", 2], ["Supraventricular", "supra", 1]].filter(([, , kind]) => !withheld(kind) && labelled.kinds.includes(kind));
    const rows = counts.hours.map((hour) => [
      [W.moment(hour.start_s, 0), ` to ${W.time(hour.stop_s, 0)}`],
      W.clock(hour.usable_s, 0),
      W.comma(hour.beats),
      hour.rate === null ? "-" : `${W.fixed(hour.rate)}/min`,
      ...known.map(([, name]) => (hour.beats ? `${W.comma(hour[name])} (${W.perCent((100 * hour[name]) / hour.beats)})` : "-")),
      ...columns.map((i) => W.comma(hour.by_class[i])),
    ]);
    return { head: ["Hour", "Usable", "Beats", "Mean rate", ...known.map(([name]) => name), ...columns.map((i) => labelled.codes[i])], rows };
  }

  return { ectopy, classes, hours };
})();
if (typeof module !== "undefined") module.exports = EcgTables;
