"use strict";
/*
 * The counts of a report in words: what reports/headline.py, recording_tables.py, event_list.py and the templates write,
 * for a page that is edited. A cell is a string, or a list of strings and places {at, digits} in the recording. Needs
 * paper.js and counts.js.
 */
const EcgWords = (() => {
  const L = typeof EcgLanguage === "undefined" ? require("./language.js") : EcgLanguage;
  const { tr, trn, trParts, trLater, fixed, comma, general } = L;
  const { startAt, duration: clock, clock: time } = typeof EcgPaper === "undefined" ? require("./paper.js") : EcgPaper;
  const { byCertainty, AROUND_S } = typeof EcgCounts === "undefined" ? require("./counts.js") : EcgCounts;
  const notAssessed = () => tr("not assessed");
  const FEW_INTERVALS = 3;
  const LISTED = 12;
  const EVENT_HEAD = ["Event", "From", "Length", "Beats", "Rate", "Confidence"];
  const RHYTHM_HEAD = ["Rhythm", "Episodes", "Time", "Share", "Longest", "Certainty", "Source"];
  const SOURCES = {
    signal: trLater("detected in the signal"),
    rates: trLater("by the heart rate"),
    labels: trLater("marked in the labels' file"),
    reviewer: trLater("accepted by the reviewer"),
  };
  /** Series that are counted: words for none, for none that is certain, for one and for several. */
  const SERIES = {
    run: ["no run", "no certain run, {n} to review", "{n} run", "{n} runs"],
    couplet: ["no couplet", "no certain couplet, {n} to review", "{n} couplet", "{n} couplets"],
    episode: ["no episode", "no certain episode, {n} to review", "{n} episode", "{n} episodes"],
    series: ["no series", "no certain series, {n} to review", "{n} series", "{n} series"],
    VT: ["no VT", "no certain VT, {n} to review", "{n} VT", "{n} VT"],
    SVT: ["no SVT", "no certain SVT, {n} to review", "{n} SVT", "{n} SVT"],
  };
  const KINDS = [["ventricular", 2], ["supraventricular", 1]];

  const perMin = (rate) => tr("{rate:.0f}/min", { rate });
  const moment = (at, digits = 1) => ({ at, digits });
  const joined = (...parts) => parts.flat();

  function perCent(value) {
    if (value > 0 && value < 0.01) return L.percent(`<${fixed(0.01, 2)}`);
    return L.percent(fixed(value, value > 0 && value < 1 ? 2 : 1));
  }

  /** Return a cell as text. */
  const textOf = (cell) => [cell].flat().map((part) => (part === null ? notAssessed() : typeof part === "object" ? time(part.at, part.digits) : String(part))).join("");

  /** Return the number of certain series of a name in SERIES, then of those to review. */
  function certainFirst(series, noun) {
    const [none, uncertain, one, several] = SERIES[noun];
    const review = series.filter((item) => item.review).length;
    const certain = series.length - review;
    if (!series.length) return tr(none);
    if (!certain) return tr(uncertain, { n: review });
    const count = trn(one, several, certain);
    return review ? tr("{count}, {n} more to review", { count, n: review }) : count;
  }

  const tachycardias = (ectopy) => ectopy.runs.filter((run) => run.name === "VT" || run.name === "SVT");
  /** Return the first item with the highest value, or null. */
  const highestOf = (items, name) => items.reduce((best, item) => (best === null || item[name] > best[name] ? item : best), null);
  /** Return one text, or two joined with an and. */
  const both = ([one, other]) => (other === undefined ? one : tr("{one} and {other}", { one, other }));

  function possibleRates(rates) {
    const parts = rates.lowest_possible ? [tr("down to {rate:.0f}/min", { rate: rates.lowest_possible.value })] : [];
    if (rates.highest_possible) parts.push(tr("up to {rate:.0f}/min", { rate: rates.highest_possible.value }));
    return parts.length ? both(parts) : "";
  }

  function ratesText(rates) {
    const possible = possibleRates(rates);
    if (rates.mean === null) return possible ? tr("not confirmed: possibly {rates}", { rates: possible }) : null;
    const parts = rates.intervals < FEW_INTERVALS ? [trn("of {n} interval alone", "of {n} intervals alone", rates.intervals)] : [];
    if (rates.lowest && rates.highest) {
      parts.push(tr("{low:.0f} to {high:.0f}", { low: rates.lowest.value, high: rates.highest.value }));
      if (!rates.lowest.confirmed && !rates.highest.confirmed) parts.push(tr("lowest and highest not confirmed"));
      else if (!rates.lowest.confirmed) parts.push(tr("lowest not confirmed"));
      else if (!rates.highest.confirmed) parts.push(tr("highest not confirmed"));
    }
    if (possible) parts.push(tr("possibly {rates}", { rates: possible }));
    const mean = perMin(rates.mean);
    return parts.length ? `${mean} (${parts.join(tr("; "))})` : mean;
  }

  function pausesText(pauses) {
    const parts = [pauses.found.length ? comma(pauses.found.length) : tr("none found")];
    if (pauses.not_confirmed.length) parts.push(trn("{n} interval not confirmed", "{n} intervals not confirmed", pauses.not_confirmed.length));
    if (pauses.not_assessed) {
      parts.push(trn("{n} more touches an unusable stretch: not assessed", "{n} more touch an unusable stretch: not assessed", pauses.not_assessed));
    }
    return parts.join(tr("; "));
  }

  function pausesShort(pauses) {
    let cell = null;
    const add = (parts) => (cell = joined(cell === null ? [null] : cell, tr("; "), ...parts));
    if (pauses.longest) {
      const { value, confirmed } = pauses.longest;
      const longest = confirmed ? tr("longest interval {value:.2f} s", { value }) : tr("longest interval not confirmed: {value:.2f} s or more", { value });
      cell = trParts("{pauses} at {time}", { pauses: [pausesText(pauses), longest].join(tr("; ")), time: moment(pauses.longest.start_s) });
    }
    for (const at of pauses.not_confirmed) add(trParts("{value:.2f} s at {time} not confirmed", { value: at.value, time: moment(at.start_s) }));
    for (const at of pauses.ends) add(trParts("no beat for {value:.1f} s from {time}", { value: at.value, time: moment(at.start_s) }));
    return cell;
  }

  function ectopyShort(counts, word) {
    const [ectopy, review] = [counts[word], counts.to_review[word]];
    if (!ectopy && !(word in counts.withheld)) return null;
    if (!ectopy) return `${tr("Withheld. {reason}", { reason: counts.withheld_text[word] })}${review ? candidates(review) : ""}`;
    if (!ectopy.total) return tr("none detected");
    const low = ectopy.uncertain ? tr(", {n} of low confidence", { n: ectopy.uncertain }) : "";
    const parts = [`${comma(ectopy.total)} (${perCent(ectopy.percent)})${low}`];
    if (ectopy.runs.length) {
      const fast = tachycardias(ectopy);
      const runs = certainFirst(fast, word === "ventricular" ? "VT" : "SVT");
      const fastest = highestOf(fast.filter((run) => !run.review), "per_min");
      parts.push(certainFirst(ectopy.runs, "run"), fastest ? tr("{runs} (fastest {rate:.0f}/min)", { runs, rate: fastest.per_min }) : runs);
    }
    if (ectopy.couplets.length) parts.push(certainFirst(ectopy.couplets, "couplet"));
    return parts.join(tr("; "));
  }

  function candidates(ectopy) {
    const parts = [];
    const run = highestOf(ectopy.runs, "beats");
    if (run) {
      const longest = trn("longest {n} beat at {rate:.0f}/min, from {time}", "longest {n} beats at {rate:.0f}/min, from {time}", run.beats, { rate: run.per_min, time: time(run.start_s) });
      parts.push(trn("{n} possible run ({longest})", "{n} possible runs ({longest})", ectopy.runs.length, { longest }));
    }
    if (ectopy.couplets.length) parts.push(trn("{n} possible couplet", "{n} possible couplets", ectopy.couplets.length));
    return parts.length ? tr(" To be reviewed: {series}.", { series: both(parts) }) : "";
  }

  function longestEpisode(rhythm) {
    let longest = null;
    for (const [start, stop] of rhythm.episodes) if (!longest || stop - start > longest[1] - longest[0]) longest = [start, stop];
    return longest ? trParts("{length} from {time}", { length: clock(longest[1] - longest[0], 0), time: moment(longest[0], 0) }) : [""];
  }

  function certaintyText(rhythm) {
    if (!rhythm.certainty.length) return "";
    const [low, high] = [Math.min(...rhythm.certainty), Math.max(...rhythm.certainty)].map((value) => L.percent(fixed(100 * value)));
    return low === high ? low : tr("{low} to {high}", { low, high });
  }

  /** Whether a recording was judged as a whole: nothing is known of other times. */
  const isStrip = (page) => page.fibrillation_from_s !== null && page.fibrillation_from_s >= page.duration_s;

  function noneDetected(counts, page) {
    if (!counts.counted) return null;
    const fibrillation = page.fibrillation_from_s !== null;
    const assessed = fibrillation ? [trLater("atrial fibrillation or flutter")] : [];
    const rated = counts.rates.lowest && page.duration_s >= page.rules.rate_episode_s;
    if (rated) assessed.push(trLater("bradycardia"), trLater("tachycardia"));
    if (page.duration_s >= 2 * page.rules.pause_s) assessed.push(trLater("standstill"));
    if (!assessed.length) return null;
    const names = assessed.map((name) => tr(name));
    const last = names.pop();
    let text = names.length ? tr("no {rhythms} or {last} detected", { rhythms: names.join(", "), last }) : tr("no {rhythm} detected", { rhythm: last });
    if (page.usable_percent < 90) text = tr("{text} in the {share:.0%} that can be used", { text, share: page.usable_percent / 100 });
    if (isStrip(page)) text = tr("{text}; none is excluded before or after these {seconds:.0f} s", { text, seconds: page.duration_s });
    if (!fibrillation) return rated ? tr("{text}; atrial fibrillation not assessed", { text }) : tr("{text}; atrial fibrillation, bradycardia and tachycardia not assessed", { text });
    return rated ? text : tr("{text}; bradycardia and tachycardia not assessed", { text });
  }

  function rhythmsShort(counts, page) {
    const parts = counts.rhythms.flatMap(byCertainty).map((rhythm) => {
      const cell = trParts("{rhythm} {share} in {episodes}, longest {longest}", {
        rhythm: tr(rhythm.rhythm),
        share: perCent((100 * rhythm.seconds) / page.duration_s),
        episodes: trn("{n} episode", "{n} episodes", rhythm.episodes.length),
        longest: longestEpisode(rhythm),
      });
      const certainty = certaintyText(rhythm);
      return certainty ? trParts("{rhythm}, certainty {certainty}: to be reviewed", { rhythm: cell, certainty }) : cell;
    });
    const episodes = parts.length ? parts.reduce((all, part) => [...all, tr("; "), ...part]) : noneDetected(counts, page);
    if (episodes === null) return null;
    const paced = counts.rhythms.some((rhythm) => rhythm.rhythm === "paced" && rhythm.source === "signal");
    const rhythms = paced ? trParts("{rhythms}; atrial fibrillation is not assessed where the rhythm is paced", { rhythms: episodes }) : episodes;
    return trParts("{rhythms}; flutter with regular intervals is not assessed", { rhythms });
  }

  /** Return names and cells of the findings in short. */
  function short(counts, page) {
    return [
      [tr("Beats"), counts.counted === counts.beats ? comma(counts.counted) : tr("{n} counted of {total} found", { n: counts.counted, total: counts.beats })],
      [tr("Heart rate"), ratesText(counts.rates)],
      [tr("Pauses"), pausesShort(counts.pauses)],
      [tr("Rhythm"), rhythmsShort(counts, page)],
      [tr("Ventricular ectopic beats"), ectopyShort(counts, "ventricular")],
      [tr("Supraventricular ectopic beats"), ectopyShort(counts, "supraventricular")],
    ];
  }

  const positions = (intervals) => intervals.flatMap((gap, i) => [i ? tr("; ") : "", moment(gap.start_s)]);
  const confirmed = (value, at) => (at.confirmed ? value : tr("{value}, not confirmed", { value }));
  const secondsOf = (seconds) => tr("{seconds:.2f} s", { seconds });
  const andMore = (listed, n) => (n > 0 ? trParts("{listed} and {n} more", { listed, n }) : listed);

  function rateCells(at, possible, minute) {
    let text = at ? confirmed(perMin(at.value), at) : null;
    let where = at ? [moment(at.start_s, minute ? 0 : 1)] : [];
    if (possible) {
      text = tr("{rate}; possibly {possible:.0f}/min", { rate: text === null ? notAssessed() : text, possible: possible.value });
      where = [...where, where.length ? tr("; ") : "", moment(possible.start_s)];
    }
    return [text, where];
  }

  /** Return figure, value, place and, where it differs from recording to recording, the rule of each row of rates and pauses. */
  function rates(counts, page) {
    const { rates: of, pauses } = counts;
    const { longest } = pauses;
    const gaps = trn("{n} gap that touches no unusable stretch, over its time", "{n} gaps that touch no unusable stretch, over their time", of.intervals);
    const rows = [
      [tr("Mean heart rate"), of.mean === null ? null : perMin(of.mean), "", gaps],
      [tr("Lowest heart rate"), ...rateCells(of.lowest, of.lowest_possible)],
      [tr("Highest heart rate"), ...rateCells(of.highest, of.highest_possible)],
      [tr("Slowest minute"), ...rateCells(of.slowest_minute, null, true)],
      [tr("Fastest minute"), ...rateCells(of.fastest_minute, null, true)],
      [tr("Pauses"), longest ? pausesText(pauses) : null, andMore(positions(pauses.found.slice(0, LISTED)), pauses.found.length - LISTED)],
      [tr("Longest interval"), ...(longest ? [confirmed(secondsOf(longest.value), longest), [moment(longest.start_s)]] : [null, ""])],
    ];
    const lengths = (intervals, digits) => intervals.map((gap) => `${fixed(gap.value, digits)} s`).join(", ");
    if (pauses.not_confirmed.length) {
      const first = pauses.not_confirmed.slice(0, LISTED);
      const rule = tr("a second analysis of the signal did not confirm that no beat lies between: in no rate and no pause above");
      rows.push([tr("Not confirmed"), andMore(lengths(first, 2), pauses.not_confirmed.length - LISTED), positions(first), rule]);
    }
    const rule = tr("usable for {seconds:g} s or more, and no beat: in no rate", { seconds: page.rules.pause_s });
    if (pauses.ends.length) rows.push([tr("No beat at an end"), lengths(pauses.ends, 1), positions(pauses.ends), rule]);
    return rows;
  }

  function variability(counts, page, labelled) {
    const ms = (value) => (value === null ? null : tr("{value:.0f} ms", { value }));
    const { mean_nn_ms: mean, sdnn_ms: sdnn, rmssd_ms: rmssd, intervals, seconds, other_rhythm: other, low_confidence: low } = counts.variability;
    const { rules } = page;
    let nn = trn(
      "{n} interval between two normal beats ({classes}), {time} in all, of {low:g} to {high:g} s, none of it unusable",
      "{n} intervals between two normal beats ({classes}), {time} in all, of {low:g} to {high:g} s, none of it unusable",
      intervals,
      { classes: labelled.codes.filter((_, i) => labelled.kinds[i] === 0).join(", ") || tr("no class is"), time: clock(seconds, 0), low: rules.nn_min_s, high: rules.nn_max_s },
    );
    if (other) nn += trn("; {n} more is left out: not in sinus rhythm", "; {n} more are left out: not in sinus rhythm", other);
    if (low) nn += tr("; most of their beats are of low confidence: not assessed");
    else if (mean === null) nn += trn("; below {n} interval it is not assessed", "; below {n} intervals it is not assessed", rules.hrv_intervals);
    if (page.paced && labelled.provisional) nn += tr("; the rhythm is paced, and a model calls paced beats normal: do not read it");
    return [[tr("Mean NN"), ms(mean), nn], ["SDNN", ms(sdnn)], ["RMSSD", ms(rmssd)]];
  }

  const rhythms = (counts, page) =>
    counts.rhythms.flatMap(byCertainty).map((rhythm) => [
      tr(rhythm.rhythm),
      comma(rhythm.episodes.length),
      clock(rhythm.seconds, 0),
      perCent((100 * rhythm.seconds) / page.duration_s),
      longestEpisode(rhythm),
      certaintyText(rhythm) || "-",
      tr(SOURCES[rhythm.source] || rhythm.source),
    ]);

  function confidenceText(event) {
    const parts = event.review ? [tr("to review")] : [];
    const value = event.confidence;
    if (value !== null) parts.push(event.kind === "rhythm" ? tr("certainty {value:.2f}", { value }) : tr("mean probability {value:.2f}", { value }));
    if (event.uncertain) parts.push(tr("{n} of low confidence", { n: event.uncertain }));
    if (event.undetected) parts.push(tr("one beat may be undetected"));
    return parts.join(", ") || "-";
  }

  /** Return the name of an event; of a patient event with its text and what is around it. */
  function eventName(event) {
    if (event.kind !== "patient event") return tr(event.name);
    const name = event.text ? tr("{where}: {reason}", { where: tr(event.name), reason: event.text }) : tr(event.name);
    return tr("{event}; within {seconds:g} s: {context}", { event: name, seconds: AROUND_S, context: event.context_text });
  }

  function events(counts) {
    return counts.events.map((event) => {
      const length = secondsOf(Math.round(1e6 * (event.stop_s - event.start_s)) / 1e6);
      return [
        eventName(event),
        [moment(event.start_s)],
        event.kind === "patient event" ? "-" : event.cut ? tr("at least {text}", { text: length }) : length,
        event.beats === null ? "-" : comma(event.beats),
        event.per_min === null ? "-" : perMin(event.per_min),
        confidenceText(event),
      ];
    });
  }

  /** Return a sentence for what the list of events lacks. */
  function notListed(counts) {
    const runs = { ventricular: trLater("Runs of ventricular beats: {reason}."), supraventricular: trLater("Runs of supraventricular beats: {reason}.") };
    const sentences = KINDS.filter(([word]) => !counts[word] && !counts.to_review[word]).map(([word]) => tr(runs[word], { reason: counts.withheld_text[word] || notAssessed() }));
    const many = counts.pauses.not_assessed;
    if (many) {
      sentences.push(
        trn(
          "{n} interval as long as a pause touches an unusable stretch: beats may be missing there, and it is not listed.",
          "{n} intervals as long as a pause touch an unusable stretch: beats may be missing there, and none is listed.",
          many,
        ),
      );
    }
    return sentences;
  }

  return { FEW_INTERVALS, isStrip, startAt, time, fixed, general, comma, clock, perCent, perMin, moment, textOf, certainFirst, tachycardias, highestOf, short, rates, variability, rhythms, events, notListed, notAssessed, KINDS, EVENT_HEAD, RHYTHM_HEAD };
})();
if (typeof module !== "undefined") module.exports = EcgWords;
