"use strict";
/*
 * The tables of ectopic beats, of classes and of hours of an edited report, as templates/ectopy.html.j2 and
 * recording.html.j2 write them. Needs words.js and counts.js.
 */
const EcgTables = (() => {
  const W = typeof EcgWords === "undefined" ? require("./words.js") : EcgWords;
  const C = typeof EcgCounts === "undefined" ? require("./counts.js") : EcgCounts;

  const L = typeof EcgLanguage === "undefined" ? require("./language.js") : EcgLanguage;
  const { tr, trn, trParts } = L;

  const review = (series, text) => (series.review ? trParts("to review: {text}", { text }) : [text].flat());
  const bound = (series, text) => (series.cut ? tr("at least {text}", { text }) : text);
  const low = (n) => (n ? tr(", {n} of low confidence", { n }) : "");

  function firstOf(series, noun) {
    if (!series.length) return tr("none");
    const first = [...series].sort((a, b) => a.review - b.review || a.start_s - b.start_s)[0];
    return [`${W.certainFirst(series, noun)}${tr("; ")}`, ...review(first, trParts("first at {time}", { time: W.moment(first.start_s) }))];
  }

  function longestOf(series) {
    if (!series.length) return tr("none");
    const certain = series.filter((item) => !item.review);
    const top = W.highestOf(certain.length ? certain : series, "beats");
    const longest = trParts("{beats} at {time}", { beats: bound(top, W.comma(top.beats)), time: W.moment(top.start_s) });
    return [`${W.certainFirst(series, "episode")}${tr("; ")}`, ...review(top, longest)];
  }

  function runText(run) {
    const beats = review(run, bound(run, trn("{n} beat", "{n} beats", run.beats)));
    const bridged = run.bridged ? trn(", across {n} beat of another class", ", across {n} beats of another class", run.bridged) : "";
    const hidden = run.undetected ? tr(", one of them a wave that may be an undetected beat") : "";
    const place = { rate: run.per_min, name: tr(run.name), time: W.moment(run.start_s) };
    return [...beats, `${low(run.uncertain)}${bridged}${hidden}`, ...trParts(", {rate:.0f}/min ({name}) at {time}", place)];
  }

  /** Return the certain run with the highest value, and a run to review if its value is higher. */
  function highest(runs, name) {
    if (!runs.length) return tr("no run");
    const certain = W.highestOf(runs.filter((run) => !run.review), name);
    const doubtful = W.highestOf(runs.filter((run) => run.review), name);
    if (!certain) return runText(doubtful);
    if (!doubtful || doubtful[name] <= certain[name]) return runText(certain);
    return [...runText(certain), tr("; "), ...runText(doubtful)];
  }

  function busiestHour(counts, word) {
    const of = word === "ventricular" ? "ventricular" : "supra";
    const hour = W.highestOf(counts.hours, of);
    return hour && hour[of] ? trParts("{n} from {time}", { n: hour[of], time: W.moment(hour.start_s, 0) }) : tr("none");
  }

  /** Return head and rows of the counts of ectopic beats: the figure, ventricular, supraventricular, a rule with numbers. */
  function ectopy(counts, page, labelled) {
    const of = (word) => counts[word] || counts.to_review[word] || null;
    const withheld = (word) => word in counts.withheld;
    const fast = (word) => (word === "ventricular" ? "VT" : "SVT");
    function burden(ectopy, word) {
      if (withheld(word)) return tr("withheld");
      const share = W.perCent(ectopy.percent);
      return word === "ventricular" && ectopy.percent > page.rules.high_burden_percent ? tr("{share} (high)", { share }) : share;
    }
    function total(ectopy, word) {
      if (!ectopy.total) return tr("none detected");
      const text = trn("{n} beat", "{n} beats", ectopy.total);
      return `${withheld(word) ? tr("about {text}", { text }) : text}${low(ectopy.uncertain)}`;
    }
    const short = tr("Short series");
    const figures = [
      [tr("Beats"), total],
      [tr("Burden"), burden],
      [tr("Single"), (e) => W.comma(e.singles)],
      [tr("Couplets"), (e) => firstOf(e.couplets, "couplet")],
      [short, (e) => firstOf(e.short, "series")],
      [tr("Runs"), (e) => firstOf(e.runs, "run")],
      [tr("Tachycardias"), (e, word) => firstOf(W.tachycardias(e), fast(word))],
      [tr("Longest run"), (e) => highest(e.runs, "beats")],
      [tr("Fastest run"), (e) => highest(e.runs, "per_min")],
      [tr("Bigeminy"), (e) => longestOf(e.bigeminy)],
      [tr("Trigeminy"), (e) => longestOf(e.trigeminy)],
      [tr("Busiest hour"), (e, word) => busiestHour(counts, word)],
    ];
    const words = W.KINDS.map(([word]) => word);
    const anyShort = words.some((word) => of(word) && of(word).short.length);
    const cell = (value, word) => (of(word) ? value(of(word), word) : withheld(word) ? tr("withheld") : null);
    const titles = { ventricular: tr("Ventricular"), supraventricular: tr("Supraventricular") };
    const title = (word) => (counts.to_review[word] ? tr("{kind} (to review, no finding)", { kind: titles[word] }) : titles[word]);
    const rows = figures.filter(([name]) => anyShort || name !== short);
    const codes = (kind) => labelled.codes.filter((_, i) => labelled.kinds[i] === kind).join(" ") || "-";
    const rules = new Map([
      [tr("Beats"), tr("ventricular: {ventricular}; supraventricular: {supraventricular}", { ventricular: codes(2), supraventricular: codes(1) })],
      [tr("Burden"), tr("of {n} counted beats; above {percent:g}% ventricular is high", { n: counts.counted, percent: page.rules.high_burden_percent })],
    ]);
    const cells = rows.map(([name, value]) => [name, ...words.map((word) => cell(value, word)), ...(rules.has(name) ? [rules.get(name)] : [])]);
    return { head: [tr("Figure"), ...words.map(title)], rows: cells };
  }

  const wordOf = (kind) => C.WORDS[kind];

  /** Return head and rows of the beats of each class, and the sentence about classes without beats. */
  function classes(counts, page, labelled) {
    const of = labelled.classes.map((name, i) => ({ name, code: labelled.codes[i], meaning: labelled.meanings[i], word: wordOf(labelled.kinds[i]), beats: counts.by_class[name], uncertain: counts.uncertain_by_class[name] }));
    const withheld = ({ word }) => word !== undefined && word in counts.withheld;
    const confidence = labelled.uncertain !== null;
    const rows = of.filter(({ beats }) => beats).map((row) => {
      const both = () => (row.meaning ? tr("{where}: {reason}", { where: row.name, reason: row.meaning }) : row.name);
      const meaning = row.name === row.code ? row.meaning : both();
      let [beats, share] = [W.comma(row.beats), W.perCent((100 * row.beats) / counts.counted)];
      if (withheld(row) && !(row.word in counts.to_review)) [beats, share] = [tr("withheld"), "-"];
      else if (C.withholds(page.rules, row.uncertain || 0, row.beats)) [beats, share] = [tr("about {n}, to review", { n: row.beats }), "-"];
      return [row.code, meaning, beats, share, ...(confidence ? [W.comma(row.uncertain)] : [])];
    });
    const none = of.filter((row) => !row.beats && !(counts.counted && withheld(row))).map((row) => `${row.code} ${row.meaning || row.name}`).join(tr("; "));
    const values = { classes: none };
    const nothing = none ? tr("None detected of: {classes}.", values) : "";
    const absent = counts.counted ? nothing : tr("No beat was counted: whether there is any of these is not assessed: {classes}.", values);
    const head = [tr("Code"), tr("Meaning"), tr("Beats"), tr("Share"), ...(confidence ? [tr("Low confidence")] : [])];
    return { head, rows: counts.counted ? rows : [], absent };
  }

  /** Return head and rows of the counts of each hour. */
  function hours(counts, page, labelled) {
    const withheld = (kind) => wordOf(kind) !== undefined && wordOf(kind) in counts.withheld;
    const columns = labelled.classes.map((_, i) => i).filter((i) => counts.by_class[labelled.classes[i]] && !withheld(labelled.kinds[i]));
    const toReview = (i) => C.withholds(page.rules, counts.uncertain_by_class[labelled.classes[i]] || 0, counts.by_class[labelled.classes[i]]);
    const known = [[tr("Ventricular"), "ventricular", 2], [tr("Supraventricular"), "supra", 1]].filter(([, , kind]) => !withheld(kind) && labelled.kinds.includes(kind));
    const rows = counts.hours.map((hour) => [
      trParts("{start} to {stop}", { start: W.moment(hour.start_s, 0), stop: W.time(hour.stop_s, 0) }),
      W.clock(hour.usable_s, 0),
      W.comma(hour.beats),
      hour.rate === null ? "-" : W.perMin(hour.rate),
      ...known.map(([, name]) => (hour.beats ? `${W.comma(hour[name])} (${W.perCent((100 * hour[name]) / hour.beats)})` : "-")),
      ...columns.map((i) => (toReview(i) ? tr("about {text}", { text: W.comma(hour.by_class[i]) }) : W.comma(hour.by_class[i]))),
    ]);
    const codes = columns.map((i) => (toReview(i) ? tr("{code} (to review)", { code: labelled.codes[i] }) : labelled.codes[i]));
    return { head: [tr("Hour"), tr("Usable"), tr("Beats"), tr("Mean rate"), ...known.map(([name]) => name), ...codes], rows };
  }

  return { ectopy, classes, hours };
})();
if (typeof module !== "undefined") module.exports = EcgTables;
