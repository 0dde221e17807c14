"use strict";
/*
 * The draft of a report's conclusion: the rules of ecgfed/reports/conclusion.py, whose sentences come with the page's
 * data. Needs counts.js and words.js.
 */
const EcgConclusion = (() => {
  const W = typeof EcgWords === "undefined" ? require("./words.js") : EcgWords;
  const C = typeof EcgCounts === "undefined" ? require("./counts.js") : EcgCounts;
  const { tr } = typeof EcgLanguage === "undefined" ? require("./language.js") : EcgLanguage;
  const UNDERLYING_PERCENT = 50;
  const UNUSABLE_PERCENT = 0.05;
  const FIBRILLATION = ["AF", "AF or flutter", "atrial flutter"];
  const KINDS = [["ventricular", "VT"], ["supraventricular", "SVT"]];

  const capital = (text) => text.slice(0, 1).toUpperCase() + text.slice(1);

  /** Return the lines of the draft. `page`: duration_s, lead, fibrillation_from_s, usable_percent, rules and sentences of the report. */
  function draft(counts, page) {
    const { rhythms } = counts;
    const named = rhythms.flatMap(C.byCertainty);
    const filled = (name, values) => tr(page.sentences[name], values);
    const unusable = 100 - page.usable_percent;
    const partlyCounted = unusable >= UNUSABLE_PERCENT;

    function underlyingOf(all) {
      const able = all.filter((rhythm) => rhythm.source !== "rates" && rhythm.rhythm !== "no beats" && !rhythm.rhythm.startsWith(C.POSSIBLE));
      const best = W.highestOf(able, "seconds");
      return best && 100 * best.seconds >= UNDERLYING_PERCENT * page.duration_s ? best : null;
    }

    function share(name, rhythm) {
      const longest = Math.max(0, ...rhythm.episodes.map(([start, stop]) => stop - start));
      const percent = W.perCent((100 * rhythm.seconds) / page.duration_s);
      return filled(C.toReview(rhythm) ? `${name}_review` : name, { rhythm: capital(tr(rhythm.rhythm)), percent, longest: W.clock(longest, 0) });
    }

    function rate({ mean, intervals, lowest, highest, lowest_possible: lower, highest_possible: higher }) {
      if (mean === null) return filled(lower || higher ? "rate_open" : "rate_none");
      if (intervals < W.FEW_INTERVALS) return filled(lower || higher ? "rate_open" : "rate_few");
      const values = { mean };
      if (!lowest || !highest) return filled(lower || higher ? "rate_both_open" : "rate_mean", values);
      Object.assign(values, { lowest: lowest.value, highest: highest.value });
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
          count: runs.length,
          fast: runs.filter((run) => run.name === fast).length,
          name: tr(fast),
          beats: `${longest.cut ? "≥ " : ""}${W.comma(longest.beats)}`,
          per_min: W.highestOf(runs, "per_min").per_min,
        });
      });
      if (ectopy.short.length) sentences.push(filled("short", { count: ectopy.short.length }));
      const rest = [...certainAndReview("couplets", ectopy.couplets), ...certainAndReview("cycles", [...ectopy.bigeminy, ...ectopy.trigeminy])];
      return [...sentences, ...rest.map(([name, some]) => filled(name, { count: some.length }))];
    }

    function ectopyOf(word, fast) {
      const [ectopy, review] = [counts[word], counts.to_review[word]];
      if (!ectopy) return [filled(word in counts.withheld ? `${word}_withheld` : `${word}_open`), ...(review ? seriesOf(review, fast) : [])];
      if (!ectopy.total) return [filled(`${word}_none`)];
      const low = ectopy.uncertain;
      const count = filled(low ? `${word}_low` : word, { beats: ectopy.total, percent: W.perCent(ectopy.percent), low });
      const series = seriesOf(ectopy, fast);
      return [count, ...(series.length || low ? series : [filled("singles")])];
    }

    function pausesOf(pauses) {
      const { longest, found, ends, not_confirmed: unconfirmed, not_assessed: unassessed } = pauses;
      const pause = page.rules.pause_s;
      const unsure = unconfirmed.length || unassessed || ends.length;
      const sentences = [];
      if (!longest) sentences.push(filled("pauses_not_assessed"));
      else if (found.length) sentences.push(filled(longest.confirmed ? "pauses" : "pauses_open", { pause, count: found.length, longest: longest.value }));
      else {
        const name = unsure || !longest.confirmed ? "pauses_none_open" : "pauses_none";
        sentences.push(filled(partlyCounted ? `${name}_counted` : name, { pause, percent: W.perCent(page.usable_percent) }));
      }
      if (unconfirmed.length) sentences.push(filled("intervals_review", { count: unconfirmed.length }));
      if (unassessed) sentences.push(filled("intervals_unusable", { count: unassessed }));
      if (ends.length) sentences.push(filled("ends", { seconds: W.highestOf(ends, "value").value }));
      return sentences;
    }

    function noFibrillation() {
      if (rhythms.some((rhythm) => rhythm.source === "labels")) return filled("no_af_marked");
      if (rhythms.some((rhythm) => rhythm.rhythm === "paced")) return filled("af_paced");
      if (!counts.counted || page.fibrillation_from_s === null) return filled("af_open");
      return filled(W.isStrip(page) ? "no_af_strip" : "no_af", { seconds: page.fibrillation_from_s });
    }

    const underlying = underlyingOf(named);
    const first = [underlying ? share("rhythm", underlying) : filled("rhythm_open"), rate(counts.rates)];
    const second = KINDS.flatMap(([word, fast]) => ectopyOf(word, fast));
    const episodes = (ofRates) => named.filter((rhythm) => rhythm !== underlying && (rhythm.source === "rates") === ofRates).map((rhythm) => share("episodes", rhythm));
    const third = [...episodes(false), ...pausesOf(counts.pauses), ...episodes(true)];
    if (!rhythms.some((rhythm) => FIBRILLATION.includes(rhythm.rhythm))) third.push(noFibrillation());
    if (!rhythms.some((rhythm) => rhythm.rhythm.includes("AV block"))) third.push(filled("block"));
    if (partlyCounted) third.push(filled("unusable", { percent: W.perCent(unusable), lead: page.lead }));
    return [first, second, third].map((sentences) => sentences.join(" "));
  }

  return { draft };
})();
if (typeof module !== "undefined") module.exports = EcgConclusion;
