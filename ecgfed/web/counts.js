"use strict";
/*
 * The counts of a report: ectopic beats, runs, couplets, bigeminy, which of them are certain, rhythms and the list of
 * events. The rules of ecgfed/domain/events (series.py, ectopy.py, find.py) and reports/event_list.py for the page;
 * results have the names of `RecordingReport.to_dict`. Needs beats.js.
 */
const EcgCounts = (() => {
  const B = typeof EcgBeats === "undefined" ? require("./beats.js") : EcgBeats;
  const L = typeof EcgLanguage === "undefined" ? require("./language.js") : EcgLanguage;
  const { tr, trn } = L;
  const CORE = 3;
  const MAY_HIDE = 1.25;
  const OWN_RHYTHM = 2;
  /** So many seconds before and after a patient event its rate and its context are of. */
  const AROUND_S = 30;
  const [SOON_AFTER, SOON_BEFORE] = [1, 2];
  /** How the name of a rhythm begins that was not recognized for certain. */
  const POSSIBLE = "possible ";
  const WORDS = { [B.KINDS.VENTRICULAR]: "ventricular", [B.KINDS.SUPRA]: "supraventricular" };
  const NAMES = { [B.KINDS.VENTRICULAR]: "ventricular", [B.KINDS.SUPRA]: "supra" };

  /** Return first and last beat of each row of members; intervals that are not known separate rows. */
  function inARow(member, beats) {
    const rows = [];
    const { known } = beats;
    for (let first = member.indexOf(1); first >= 0; ) {
      let last = first;
      while (last + 1 < member.length && member[last + 1] && known[last]) last += 1;
      rows.push([first, last]);
      first = member.indexOf(1, last + 1);
    }
    return rows;
  }

  /** Return which beats are in one or the other. */
  function together(some, others) {
    const either = new Uint8Array(some.length);
    for (let i = 0; i < some.length; i += 1) either[i] = some[i] | others[i];
    return either;
  }

  /** Return the probability of each beat to be of a kind, or null. */
  const probabilityOf = (beats, kind) => (kind === B.KINDS.VENTRICULAR ? beats.ventricular : beats.supra);

  /** Return the beats with each interval confirmed, and no beat doubted, within runs that the model recognises surely. */
  function confirmedByRuns(beats, rules) {
    if (!beats.confirmed || !beats.ventricular || !beats.uncertain) return beats;
    const { kind, uncertain, assessed, ventricular, unlike } = beats;
    const sure = new Uint8Array(beats.count);
    for (let i = 0; i < sure.length; i += 1) {
      if (kind[i] !== B.KINDS.VENTRICULAR || uncertain[i] || !assessed[i]) continue;
      sure[i] = ventricular[i] >= rules.certain_probability && !(unlike && unlike[i]) ? 1 : 0;
    }
    const [confirmed, doubted] = [Uint8Array.from(beats.confirmed), beats.doubted && Uint8Array.from(beats.doubted)];
    for (const [first, last] of inARow(sure, beats)) {
      if (last - first + 1 < rules.run_beats) continue;
      const limit = MAY_HIDE * B.median(beats.rr.subarray(first, last));
      for (let i = first; i < last; i += 1) if (beats.rr[i] <= limit) confirmed[i] = 1;
      if (doubted) doubted.fill(0, first, last + 1);
    }
    return B.withConfirmed(beats, confirmed, doubted);
  }

  /** Return the beats that make runs of the series that are one beat short, the more probable of two. */
  function beside(beats, kind, rules, member, across) {
    const probability = probabilityOf(beats, kind);
    const added = new Uint8Array(beats.count);
    if (!probability) return added;
    const mayBe = (at, interval) => {
      if (at < 0 || at >= beats.count || !beats.known[interval] || member[at]) return false;
      if (!beats.assessed[at] || !beats.uncertain[at] || beats.kind[at] === B.KINDS.PACED) return false;
      const next = (member[at - 1] || 0) + (member[at + 1] || 0);
      return probability[at] >= rules.bridge_probability && next === 1;
    };
    for (const [first, last] of inARow(together(member, across), beats)) {
      if (last - first + 1 !== rules.run_beats - 1) continue;
      let bridged = 0;
      for (let i = first; i <= last; i += 1) bridged += across[i];
      if (bridged) continue;
      const sides = [];
      if (mayBe(first - 1, first - 1)) sides.push(first - 1);
      if (mayBe(last + 1, last)) sides.push(last + 1);
      if (sides.length) added[sides.length === 2 && probability[sides[1]] > probability[sides[0]] ? sides[1] : sides[0]] = 1;
    }
    return added;
  }

  /** Return which beats of another class a run may go across. */
  function bridges(beats, kind, rules, member) {
    const across = new Uint8Array(beats.count);
    if (!beats.uncertain || beats.count < CORE) return across;
    const rows = inARow(member, beats);
    const probability = probabilityOf(beats, kind);
    const tolerance = rules.bridge_percent / 100;
    let row = 0;
    const { uncertain, count } = beats;
    for (let i = 1; i + 1 < count; i += 1) {
      if (member[i] || !uncertain[i] || !member[i - 1] || !member[i + 1]) continue;
      if (!beats.assessed[i] || beats.kind[i] === B.KINDS.PACED || !beats.known[i - 1] || !beats.known[i]) continue;
      while (rows[row][0] < i) row += 1;
      if (probability && probability[i] >= rules.bridge_probability) across[i] = 1;
      else {
        const rr = [...beats.rr.subarray(rows[row - 1][0], i - 1), ...beats.rr.subarray(i + 1, rows[row][1])];
        const middle = rr.length >= OWN_RHYTHM ? B.median(rr) : NaN;
        if ([beats.rr[i - 1], beats.rr[i]].every((value) => Math.abs(value / middle - 1) <= tolerance)) across[i] = 1;
      }
    }
    for (const [first, last] of inARow(together(member, across), beats)) {
      let bridged = 0;
      for (let i = first; i <= last; i += 1) bridged += across[i];
      if (bridged && (last - first + 1 < rules.run_beats || 3 * bridged > last - first + 1)) across.fill(0, first, last + 1);
    }
    return kind === B.KINDS.VENTRICULAR ? together(across, beside(beats, kind, rules, member, across)) : across;
  }

  /** Return 1 where a wave between two beats of a row may be an undetected beat of it, else 0. */
  function hiddenInside(beats, first, last) {
    return beats.undetected && beats.undetected.subarray(first, last).includes(SOON_AFTER + SOON_BEFORE) ? 1 : 0;
  }

  /** Return 1 where an undetected beat may make a row of ventricular beats, one short of a run, one; else 0. */
  function completed(beats, kind, rules, first, last) {
    if (kind !== B.KINDS.VENTRICULAR || !beats.undetected || last - first + 1 !== rules.run_beats - 1) return 0;
    const near = (interval, side) => Boolean(beats.known[interval] && beats.undetected[interval] & side);
    return near(first - 1, SOON_BEFORE) || near(last, SOON_AFTER) || hiddenInside(beats, first, last) ? 1 : 0;
  }

  function isCertain(beats, kind, rules, first, last, perMin) {
    if (!beats.uncertain) return !beats.provisional;
    let [low, unlike] = [0, 0];
    for (let i = first; i <= last; i += 1) {
      low += beats.uncertain[i];
      unlike += beats.unlike ? beats.unlike[i] : 0;
    }
    if (!low) return true;
    const probability = probabilityOf(beats, kind);
    if (kind !== B.KINDS.VENTRICULAR || !probability || perMin <= rules.fast_run_per_min) return false;
    const width = Math.min(CORE, last - first + 1);
    let highest = -Infinity;
    for (let i = first; i + width - 1 <= last; i += 1) {
      let mean = 0;
      for (let j = 0; j < width; j += 1) mean += probability[i + j] * (1 / width);
      highest = Math.max(highest, mean);
    }
    return (100 * unlike) / (last - first + 1) <= rules.certain_unlike_percent && highest >= rules.certain_probability;
  }

  function seriesOf(beats, kind, rules, member, first, last, count, run, undetected = 0) {
    let [low, others] = [0, 0];
    for (let i = first; i <= last; i += 1) {
      if (!member[i]) others += 1;
      else if (beats.uncertain) low += beats.uncertain[i];
    }
    const intervals = last - first + (undetected && hiddenInside(beats, first, last));
    const perMin = (60 * intervals * beats.fs) / (beats.sample[last] - beats.sample[first]);
    const fast = perMin > rules.fast_run_per_min;
    const ventricular = kind === B.KINDS.VENTRICULAR;
    const slow = ventricular ? "slow ventricular run" : "supraventricular run";
    const name = fast && (ventricular || count + undetected >= rules.svt_beats) ? (ventricular ? "VT" : "SVT") : slow;
    return {
      first,
      last,
      beats: count + undetected,
      start_s: beats.time[first],
      stop_s: beats.time[last],
      per_min: perMin,
      uncertain: beats.uncertain ? low : null,
      cut: Boolean(first && !beats.known[first - 1]) || Boolean(last < beats.count - 1 && !beats.known[last]),
      review: undetected > 0 || !isCertain(beats, kind, rules, first, last, perMin),
      bridged: run ? others : 0,
      undetected,
      name: run ? name : "",
    };
  }

  /** Return the series in which every `period`-th beat is one of the singles, and the remaining singles. */
  function everyNth(beats, singles, period, rules, make) {
    const [series, remaining] = [[], []];
    const linked = (from, to) => {
      if (to - from !== period) return false;
      for (let i = from; i < to; i += 1) {
        const ectopic = beats.kind[i] === B.KINDS.SUPRA || beats.kind[i] === B.KINDS.VENTRICULAR;
        if (!beats.known[i] || (i > from && ectopic)) return false;
      }
      return true;
    };
    for (let start = 0, stop = 1; start < singles.length; start = stop, stop += 1) {
      while (stop < singles.length && linked(singles[stop - 1], singles[stop])) stop += 1;
      if (stop - start >= rules.cycles) series.push(make(singles[start], singles[stop - 1], stop - start, false));
      else remaining.push(...singles.slice(start, stop));
    }
    return [series, remaining];
  }

  /** Return the ectopic beats of a kind; null where not assessed. */
  function ectopy(beats, kind, rules) {
    const { counted } = beats;
    if (!beats.kinds.includes(kind) || !counted) return null;
    const member = new Uint8Array(beats.count);
    const { kind: kinds, assessed } = beats;
    for (let i = 0; i < member.length; i += 1) member[i] = kinds[i] === kind && assessed[i] ? 1 : 0;
    const across = bridges(beats, kind, rules, member);
    const rows = inARow(together(member, across), beats);
    const more = rows.map(([a, b]) => completed(beats, kind, rules, a, b));
    const make = (first, last, count, run, hidden) => seriesOf(beats, kind, rules, member, first, last, count, run, hidden);
    const long = (which, run) => rows.flatMap(([a, b], i) => (which(b - a + 1, more[i]) ? [make(a, b, b - a + 1, run, more[i])] : []));
    const alone = rows.filter(([a, b]) => a === b).map(([a]) => a);
    const [bigeminy, others] = everyNth(beats, alone, 2, rules, make);
    const [trigeminy, singles] = everyNth(beats, others, 3, rules, make);
    const runs = long((count, hidden) => count >= rules.run_beats || hidden, true);
    let [total, low] = [0, 0];
    for (let i = 0; i < member.length; i += 1) {
      total += member[i];
      low += member[i] && beats.uncertain ? beats.uncertain[i] : 0;
    }
    return {
      kind: NAMES[kind],
      total,
      counted,
      percent: (100 * total) / counted,
      singles: singles.length,
      couplets: long((count, hidden) => count === 2 && !hidden, false),
      short: long((count, hidden) => count > 2 && count < rules.run_beats && !hidden, false),
      runs,
      bigeminy,
      trigeminy,
      fast: runs.filter((run) => run.per_min > rules.fast_run_per_min).length,
      uncertain: beats.uncertain ? low : null,
      certain_runs: runs.filter((run) => !run.review).length,
      runs_to_review: runs.filter((run) => run.review).length,
    };
  }

  const mostlyLow = (rules, low, total) => 100 * low > rules.withheld_percent * total;
  const withholds = (rules, low, total) => low >= rules.withheld_beats && mostlyLow(rules, low, total);

  /** Return why a count is withheld for low confidence, as a sentence and its values; null where it is not. */
  function lowConfidence(counts, lowOfAll, rules) {
    const low = counts.uncertain || 0;
    const percent = rules.withheld_percent;
    if (withholds(rules, low, counts.total)) {
      const about = L.trLater("About {total}, {low} of them of low confidence (more than {percent:g}%): to be reviewed, no finding.");
      return [about, { total: counts.total, low, percent }];
    }
    const doubtful = counts.total ? withholds : mostlyLow;
    if (counts.total - low >= rules.withheld_beats || !doubtful(rules, lowOfAll, counts.counted)) return null;
    const none = L.trLater("None detected, but {low} of all {counted} beats are of low confidence (more than {percent:g}%): not assessed.");
    const some = L.trLater("{n} detected, but {low} of all {counted} beats are of low confidence (more than {percent:g}%): not assessed.");
    return [counts.total ? some : none, { n: counts.total, low: lowOfAll, counted: counts.counted, percent }];
  }

  function allToReview(counts) {
    const doubtful = (series) => series.map((item) => ({ ...item, review: true }));
    const changed = { ...counts, certain_runs: 0, runs_to_review: counts.runs.length };
    for (const name of ["couplets", "short", "runs", "bigeminy", "trigeminy"]) changed[name] = doubtful(counts[name]);
    return changed;
  }

  const EVENT = { beats: null, per_min: null, confidence: null, uncertain: null, cut: false, undetected: 0, text: "", context: "" };

  /** Return every run, pause and episode in order of time. */
  function eventList(beats, counts, rhythms, rules, patientEvents) {
    const rows = [];
    for (const [kind, word] of Object.entries(WORDS)) {
      const ofKind = counts.to_review[word] || counts[word];
      const probability = probabilityOf(beats, Number(kind));
      for (const run of ofKind ? ofKind.runs : []) {
        const mean = probability && B.sum(probability.subarray(run.first, run.last + 1)) / (run.last - run.first + 1);
        rows.push({ ...EVENT, kind: `${word} run`, name: run.name, start_s: run.start_s, stop_s: run.stop_s, beats: run.beats, per_min: run.per_min, confidence: mean, review: run.review, uncertain: run.uncertain, cut: run.cut, undetected: run.undetected, first: run.first, last: run.last });
      }
    }
    const { found, not_confirmed: unconfirmed, ends } = counts.pauses;
    for (const [kind, intervals] of [["pause", found], ["interval not confirmed", unconfirmed], ["no beat at an end", ends]]) {
      for (const { start_s, stop_s, confirmed } of intervals) rows.push({ ...EVENT, kind, name: kind, start_s, stop_s, review: kind !== "pause" || !confirmed });
    }
    for (const rhythm of rhythms) rhythm.episodes.forEach((episode, number) => rows.push(episodeRow(beats, rhythm, episode, number)));
    for (const event of patientEvents) rows.push({ ...EVENT, ...patientEvent(beats, counts, rhythms, rules, event) });
    const order = (a, b) => a.start_s - b.start_s || a.stop_s - b.stop_s || (a.kind < b.kind ? -1 : a.kind > b.kind ? 1 : 0);
    return rows.sort(order);
  }

  /** Return what an episode is called, as ecgfed/domain/events/certainty.py: a possible rhythm where its certainty is below 50%. */
  function episodeName(rhythm, number) {
    const unlikely = rhythm.certainty.length > 0 && rhythm.certainty[number] < 0.5;
    return unlikely && !rhythm.rhythm.startsWith(POSSIBLE) ? `${POSSIBLE}${rhythm.rhythm}` : rhythm.rhythm;
  }

  /** Return a rhythm's episodes under their names, those of its own name first. */
  function byCertainty(rhythm) {
    const names = rhythm.episodes.map((_, number) => episodeName(rhythm, number));
    return [...new Set(names)].sort((a, b) => a.length - b.length).map((name) => {
      const [episodes, certainty] = [rhythm.episodes, rhythm.certainty].map((values) => values.filter((_, number) => names[number] === name));
      return { ...rhythm, rhythm: name, episodes, certainty, seconds: secondsOf(episodes) };
    });
  }

  const secondsOf = (episodes) => episodes.reduce((total, [start, stop]) => total + (stop - start), 0);

  /** Return whether a rhythm must be reviewed before it counts as a finding. */
  const toReview = (rhythm) => Boolean(rhythm.certainty.length) || (rhythm.rhythm.startsWith(POSSIBLE) && rhythm.source !== "reviewer");

  /** Return ectopic beats and rhythms around a patient event in words. `around`: number, those of low confidence by kind; `unsure`: most beats are. */
  function contextOf(counts, around, counted, unsure, rhythms) {
    let context = [];
    for (const [word, [all, low]] of Object.entries(around)) {
      const [reason, sentence] = [word in counts.withheld ? `${word} withheld` : `${word} not assessed`, low ? `{n} ${word} ({low} of low confidence)` : `{n} ${word}`];
      if (!counts[word] || all) context.push(counts[word] ? trn(sentence, sentence, all, { low }) : tr(reason)); // marked in event_list.py
    }
    if (!counted) context = [tr("no beat counted")];
    else if (!context.length) context = [unsure ? tr("ectopic beats not assessed") : tr("no ectopic beat")];
    return [...context, ...rhythms.map((rhythm) => (toReview(rhythm) ? tr("{rhythm} (to review)", { rhythm: tr(rhythm.rhythm) }) : tr(rhythm.rhythm)))].join(", ");
  }

  /** Return a patient event with the rate of the measured intervals around it, and what is there. */
  function patientEvent(beats, counts, rhythms, rules, [time, source, text]) {
    const [start, stop] = [time - AROUND_S, time + AROUND_S];
    const [first, last] = [B.lowerBound(beats.time, start), B.lowerBound(beats.time, stop)];
    const rr = [];
    let [counted, doubtful] = [0, 0];
    for (let i = first; i < last; i += 1) {
      counted += beats.assessed[i];
      doubtful += beats.assessed[i] && beats.uncertain ? beats.uncertain[i] : 0;
      if (i < last - 1 && beats.measured[i]) rr.push(beats.rr[i]);
    }
    const around = {};
    for (const [kind, word] of [[B.KINDS.VENTRICULAR, "ventricular"], [B.KINDS.SUPRA, "supraventricular"]]) {
      let [all, low] = [0, 0];
      for (let i = first; i < last; i += 1) {
        if (!beats.assessed[i] || beats.kind[i] !== kind) continue;
        all += 1;
        low += beats.uncertain && beats.uncertain[i] ? 1 : 0;
      }
      around[word] = [all, low];
    }
    const context = () => contextOf(counts, around, counted, mostlyLow(rules, doubtful, counted), rhythms.filter((rhythm) => rhythm.episodes.some(([begin, end]) => begin < stop && end > start)));
    return { kind: "patient event", name: source, start_s: time, stop_s: time, per_min: rr.length ? (60 * rr.length) / B.sum(rr) : null, review: false, text, context: L.inEnglish(context), context_text: context() };
  }

  function episodeRow(beats, rhythm, [start, stop], number) {
    const [first, last] = [B.lowerBound(beats.time, start), B.lowerBound(beats.time, stop)];
    const rr = [];
    let inside = 0;
    for (let i = first; i < last; i += 1) {
      inside += beats.assessed[i];
      if (i < last - 1 && beats.known[i]) rr.push(beats.rr[i]);
    }
    const certainty = rhythm.certainty.length ? rhythm.certainty[number] : null;
    const rate = rr.length ? (60 * rr.length) / B.sum(rr) : null;
    return { ...EVENT, kind: "rhythm", name: episodeName(rhythm, number), start_s: start, stop_s: stop, beats: inside || null, per_min: rate, confidence: certainty, review: toReview(rhythm), source: rhythm.source };
  }

  /**
   * Return all counts. `all`: what beatsOf returned; rhythms: those that do not depend on the beats, each with rhythm, source,
   * episodes ([start, stop] in seconds) and certainty; withheld: kind in words -> reason; patientEvents: [seconds, source, text] each.
   */
  function count(all, rules, rhythms, withheld, patientEvents = []) {
    const beats = confirmedByRuns(all, rules);
    const { label, assessed, uncertain } = beats;
    const [ofClass, lowOfClass] = [new Int32Array(beats.classes.length), new Int32Array(beats.classes.length)];
    for (let i = 0; i < beats.count; i += 1) {
      if (!assessed[i]) continue;
      ofClass[label[i]] += 1;
      if (uncertain && uncertain[i]) lowOfClass[label[i]] += 1;
    }
    const low = lowOfClass.reduce((a, b) => a + b, 0);
    const byClass = Object.fromEntries(beats.classes.map((name, i) => [name, ofClass[i]]));
    const uncertainByClass = Object.fromEntries(beats.classes.map((name, i) => [name, uncertain ? lowOfClass[i] : null]));
    const paced = beats.kind.includes(B.KINDS.PACED);
    const counts = { beats: beats.count, by_class: byClass, uncertain_by_class: uncertainByClass, to_review: {}, withheld: { ...withheld }, withheld_text: Object.fromEntries(Object.entries(withheld).map(([word, text]) => [word, L.tr(text)])) };
    counts.counted = beats.counted;
    for (const [kind, word] of Object.entries(WORDS)) {
      const ofKind = ectopy(beats, Number(kind), rules);
      counts[word] = ofKind;
      if (!ofKind) continue;
      const reason = word in counts.withheld ? null : lowConfidence(ofKind, low, rules);
      if (reason) [counts.withheld[word], counts.withheld_text[word]] = [L.inEnglish(() => L.tr(...reason)), L.tr(...reason)];
      if (!(word in counts.withheld)) continue;
      if (ofKind.total && !(paced && word in withheld)) counts.to_review[word] = allToReview(ofKind);
      counts[word] = null;
    }
    counts.rates = B.heartRates(beats, rules);
    counts.pauses = B.pauses(beats, rules);
    counts.variability = B.variability(beats, rules, rhythms);
    counts.hours = B.timeBins(beats);
    // by all beats as they are: in Python, too, runs confirm only what is counted above
    counts.rhythms = [...rhythms, ...B.rateEpisodes(all, rules)].map((rhythm) => ({ ...rhythm, seconds: secondsOf(rhythm.episodes) }));
    counts.events = eventList(all, counts, counts.rhythms, rules, patientEvents);
    return counts;
  }

  return { AROUND_S, count, toReview, withholds, episodeName, byCertainty, POSSIBLE, WORDS };
})();
if (typeof module !== "undefined") module.exports = EcgCounts;
