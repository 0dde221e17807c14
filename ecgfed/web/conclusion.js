"use strict";
/*
 * The draft of a report's conclusion: the rules of ecgfed/reports/conclusion.py, whose sentences come with the page's
 * data. Needs counts.js and words.js.
 */
const EcgConclusion = (() => {
  const W = typeof EcgWords === "undefined" ? require("./words.js") : EcgWords;
  const C = typeof EcgCounts === "undefined" ? require("./counts.js") : EcgCounts;
  const UNDERLYING_PERCENT = 50;
  const UNUSABLE_PERCENT = 0.05;
  const FIBRILLATION = ["AF", "AF or flutter", "atrial flutter"];
  const KINDS = [["ventricular", "VT"], ["supraventricular", "SVT"]];

  const capital = (text) => text.slice(0, 1).toUpperCase() + text.slice(1);

  /** Return the lines of the draft. `page`: duration_s, lead, usable_percent, rules and sentences of the report. */
  function draft(counts, page) {
    const { rhythms } = counts;
    const named = rhythms.flatMap(C.byCertainty);
    const filled = (name, values = {}) => page.sentences[name].replace(/\{(\w+)\}/g, (_, key) => values[key]);

    function underlyingOf(all) {
      const able = all.filter((rhythm) => rhythm.source !== "rates" && rhythm.rhythm !== "no beats" && !rhythm.rhythm.startsWith(C.POSSIBLE));
      const best = W.highestOf(able, "seconds");
      return best && 100 * best.seconds >= UNDERLYING_PERCENT * page.duration_s ? best : null;
    }

    function share(name, rhythm) {
      const longest = Math.max(0, ...rhythm.episodes.map(([start, stop]) => stop - start));
      const percent = W.perCent((100 * rhythm.seconds) / page.duration_s);
      return filled(C.toReview(rhythm) ? `${name}_review` : name, { rhythm: capital(rhythm.rhythm), percent, longest: W.clock(longest, 0) });
    }

    function rate({ mean, intervals, lowest, highest, lowest_possible: lower, highest_possible: higher }) {
      if (mean === null) return filled(lower || higher ? "rate_open" : "rate_none");
      if (intervals < W.FEW_INTERVALS) return filled(lower || higher ? "rate_open" : "rate_few");
      const values = { mean: W.fixed(mean) };
      if (!lowest || !highest) return filled(lower || higher ? "rate_both_open" : "rate_mean", values);
      Object.assign(values, { lowest: W.fixed(lowest.value), highest: W.fixed(highest.value) });
      const [low, high] = [lowest.confirmed && !lower, highest.confirmed && !higher];
      return filled(low ? (high ? "rate" : "rate_highest_open") : high ? "rate_lowest_open" : "rate_both_open", values);
    }

    const certainAndReview = (name, series) =>
      [[name, false], [`${name}_review`, true]]
        .map(([sentence, review]) => [sentence, series.filter((item) => item.review === review)])
        .filter(([, some]) => some.length);

    function seriesOf(ectopy, fast) {
      const sentences = certainAndReview("runs", ectopy.runs).map(([name, runs]) => {
        const longest = W.highestOf(runs, "beats");
        return filled(name, {
          count: W.comma(runs.length),
          fast: W.comma(runs.filter((run) => run.name === fast).length),
          name: fast,
          beats: `${longest.cut ? "≥ " : ""}${W.comma(longest.beats)}`,
          per_min: W.fixed(W.highestOf(runs, "per_min").per_min),
        });
      });
      if (ectopy.short.length) sentences.push(filled("short", { count: W.comma(ectopy.short.length) }));
      const rest = [...certainAndReview("couplets", ectopy.couplets), ...certainAndReview("cycles", [...ectopy.bigeminy, ...ectopy.trigeminy])];
      return [...sentences, ...rest.map(([name, some]) => filled(name, { count: W.comma(some.length) }))];
    }

    function ectopyOf(word, fast) {
      const [ectopy, review] = [counts[word], counts.to_review[word]];
      if (!ectopy) return [filled(word in counts.withheld ? "ectopy_withheld" : "ectopy_open", { kind: capital(word) }), ...(review ? seriesOf(review, fast) : [])];
      if (!ectopy.total) return [filled("ectopy_none", { kind: word })];
      const low = ectopy.uncertain ? W.comma(ectopy.uncertain) : "";
      const count = filled(low ? "ectopy_low" : "ectopy", { kind: capital(word), beats: W.comma(ectopy.total), percent: W.perCent(ectopy.percent), low });
      const series = seriesOf(ectopy, fast);
      return [count, ...(series.length || low ? series : [filled("singles")])];
    }

    function pausesOf(pauses) {
      const { longest, found, ends, not_confirmed: unconfirmed, not_assessed: unassessed } = pauses;
      const pause = W.general(page.rules.pause_s);
      const unsure = unconfirmed.length || unassessed || ends.length;
      const sentences = [];
      if (!longest) sentences.push(filled("pauses_not_assessed"));
      else if (found.length) sentences.push(filled(longest.confirmed ? "pauses" : "pauses_open", { pause, count: W.comma(found.length), longest: W.fixed(longest.value, 2) }));
      else sentences.push(filled(unsure || !longest.confirmed ? "pauses_none_open" : "pauses_none", { pause }));
      if (unconfirmed.length) sentences.push(filled("intervals_review", { count: W.comma(unconfirmed.length) }));
      if (unassessed) sentences.push(filled("intervals_unusable", { count: W.comma(unassessed) }));
      if (ends.length) sentences.push(filled("ends", { seconds: W.fixed(W.highestOf(ends, "value").value, 1) }));
      return sentences;
    }

    function noFibrillation() {
      if (rhythms.some((rhythm) => rhythm.source === "labels")) return filled("no_af_marked");
      if (rhythms.some((rhythm) => rhythm.rhythm === "paced")) return filled("af_paced");
      const assessed = counts.counted && page.duration_s >= W.FIBRILLATION_S;
      return assessed ? filled("no_af", { seconds: W.general(W.FIBRILLATION_S) }) : filled("af_open");
    }

    const underlying = underlyingOf(named);
    const first = [underlying ? share("rhythm", underlying) : filled("rhythm_open"), rate(counts.rates)];
    const second = KINDS.flatMap(([word, fast]) => ectopyOf(word, fast));
    const episodes = (ofRates) => named.filter((rhythm) => rhythm !== underlying && (rhythm.source === "rates") === ofRates).map((rhythm) => share("episodes", rhythm));
    const third = [...episodes(false), ...pausesOf(counts.pauses), ...episodes(true)];
    if (!rhythms.some((rhythm) => FIBRILLATION.includes(rhythm.rhythm))) third.push(noFibrillation());
    if (!rhythms.some((rhythm) => rhythm.rhythm.includes("AV block"))) third.push(filled("block"));
    const unusable = 100 - page.usable_percent;
    if (unusable >= UNUSABLE_PERCENT) third.push(filled("unusable", { percent: W.perCent(unusable), lead: page.lead }));
    return [first, second, third].map((sentences) => sentences.join(" "));
  }

  return { draft };
})();
if (typeof module !== "undefined") module.exports = EcgConclusion;
