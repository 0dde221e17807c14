"use strict";
/*
 * The counts of a report in words: what reports/headline.py, recording_tables.py, event_list.py and the templates write,
 * for a page that is edited. A cell is a string, or a list of strings and places {at, digits} in the recording. Needs
 * paper.js and counts.js.
 */
const EcgWords = (() => {
  const { startAt, duration: clock, clock: time, countOf } = typeof EcgPaper === "undefined" ? require("./paper.js") : EcgPaper;
  const { byCertainty } = typeof EcgCounts === "undefined" ? require("./counts.js") : EcgCounts;
  const NOT_ASSESSED = "not assessed";
  const FIBRILLATION_S = 30;
  const FEW_INTERVALS = 3;
  const LISTED = 12;
  const EVENT_HEAD = ["Event", "From", "Length", "Beats", "Rate", "Confidence"];
  const RHYTHM_HEAD = ["Rhythm", "Episodes", "Time", "Share", "Longest", "Certainty", "Source"];
  const SOURCES = { signal: "detected in the signal", rates: "by the heart rate", labels: "marked in the labels' file", reviewer: "accepted by the reviewer" };
  const KINDS = [["ventricular", 2], ["supraventricular", 1]];

  /** Round a number of digits behind the point as Python does: halves to the even digit. */
  function fixed(value, digits = 0) {
    const text = Math.abs(value).toFixed(digits);
    const exact = Math.abs(value).toFixed(Math.min(100, digits + 50));
    const tail = exact.slice(exact.indexOf(".") + 1 + digits);
    const odd = Number(text[text.length - 1]) % 2 === 1;
    const even = /^50*$/.test(tail) && odd ? (Number(text) - 10 ** -digits).toFixed(digits) : text;
    return value < 0 && Number(even) !== 0 ? `-${even}` : even;
  }

  const numbers = new Intl.NumberFormat("en-US"); // toLocaleString would look the language up each time
  const comma = (count) => numbers.format(count);
  const general = (value) => String(Number(value.toPrecision(6)));
  const moment = (at, digits = 1) => ({ at, digits });
  const joined = (...parts) => parts.flat();

  function perCent(value) {
    if (value > 0 && value < 0.01) return "<0.01%";
    return `${fixed(value, value > 0 && value < 1 ? 2 : 1)}%`;
  }

  /** Return a cell as text. */
  const textOf = (cell) => [cell].flat().map((part) => (part === null ? NOT_ASSESSED : typeof part === "object" ? time(part.at, part.digits) : String(part))).join("");

  /** Return the number of certain series, then of those to review. */
  function certainFirst(series, singular, plural = `${singular}s`) {
    const review = series.filter((item) => item.review).length;
    const certain = series.length - review;
    if (!series.length) return `no ${singular}`;
    if (!certain) return `no certain ${singular}, ${comma(review)} to review`;
    return countOf(certain, singular, plural) + (review ? `, ${comma(review)} more to review` : "");
  }

  const tachycardias = (ectopy) => ectopy.runs.filter((run) => run.name === "VT" || run.name === "SVT");
  /** Return the first item with the highest value, or null. */
  const highestOf = (items, name) => items.reduce((best, item) => (best === null || item[name] > best[name] ? item : best), null);

  function possibleRates(rates) {
    const parts = rates.lowest_possible ? [`down to ${fixed(rates.lowest_possible.value)}/min`] : [];
    if (rates.highest_possible) parts.push(`up to ${fixed(rates.highest_possible.value)}/min`);
    return parts.join(" and ");
  }

  function ratesText(rates) {
    const possible = possibleRates(rates);
    if (rates.mean === null) return possible ? `not confirmed: possibly ${possible}` : null;
    const parts = rates.intervals < FEW_INTERVALS ? [`of ${countOf(rates.intervals, "interval")} alone`] : [];
    if (rates.lowest && rates.highest) {
      parts.push(`${fixed(rates.lowest.value)} to ${fixed(rates.highest.value)}`);
      const unconfirmed = ["lowest", "highest"].filter((name) => !rates[name].confirmed).join(" and ");
      if (unconfirmed) parts.push(`${unconfirmed} not confirmed`);
    }
    if (possible) parts.push(`possibly ${possible}`);
    const mean = `${fixed(rates.mean)}/min`;
    return parts.length ? `${mean} (${parts.join("; ")})` : mean;
  }

  function pausesText(pauses) {
    let number = pauses.found.length ? comma(pauses.found.length) : "none found";
    if (pauses.not_confirmed.length) number += `; ${countOf(pauses.not_confirmed.length, "interval")} not confirmed`;
    if (!pauses.not_assessed) return number;
    return `${number}; ${countOf(pauses.not_assessed, "more touches", "more touch")} an unusable stretch: not assessed`;
  }

  function pausesShort(pauses) {
    let cell = null;
    const add = (...parts) => (cell = joined(cell === null ? [null] : cell, ...parts));
    if (pauses.longest) {
      const value = `${fixed(pauses.longest.value, 2)} s`;
      const longest = pauses.longest.confirmed ? value : `not confirmed: ${value} or more`;
      cell = [`${pausesText(pauses)}; longest interval ${longest} at `, moment(pauses.longest.start_s)];
    }
    for (const at of pauses.not_confirmed) add(`; ${fixed(at.value, 2)} s at `, moment(at.start_s), " not confirmed");
    for (const at of pauses.ends) add(`; no beat for ${fixed(at.value, 1)} s from `, moment(at.start_s));
    return cell;
  }

  function ectopyShort(counts, word) {
    const [ectopy, review] = [counts[word], counts.to_review[word]];
    if (!ectopy && !(word in counts.withheld)) return null;
    if (!ectopy) return `Withheld. ${counts.withheld[word]}${review ? candidates(review) : ""}`;
    if (!ectopy.total) return "none detected";
    const low = ectopy.uncertain ? `, ${comma(ectopy.uncertain)} of low confidence` : "";
    const parts = [`${comma(ectopy.total)} (${perCent(ectopy.percent)})${low}`];
    if (ectopy.runs.length) {
      const name = word === "ventricular" ? "VT" : "SVT";
      const fast = tachycardias(ectopy);
      const fastest = highestOf(fast.filter((run) => !run.review), "per_min");
      parts.push(certainFirst(ectopy.runs, "run"), certainFirst(fast, name, name) + (fastest ? ` (fastest ${fixed(fastest.per_min)}/min)` : ""));
    }
    if (ectopy.couplets.length) parts.push(certainFirst(ectopy.couplets, "couplet"));
    return parts.join("; ");
  }

  function candidates(ectopy) {
    const parts = [];
    const run = highestOf(ectopy.runs, "beats");
    if (run) parts.push(`${countOf(ectopy.runs.length, "possible run")} (longest ${countOf(run.beats, "beat")} at ${fixed(run.per_min)}/min, from ${time(run.start_s)})`);
    if (ectopy.couplets.length) parts.push(countOf(ectopy.couplets.length, "possible couplet"));
    return parts.length ? ` To be reviewed: ${parts.join(" and ")}.` : "";
  }

  function longestEpisode(rhythm) {
    let longest = null;
    for (const [start, stop] of rhythm.episodes) if (!longest || stop - start > longest[1] - longest[0]) longest = [start, stop];
    return longest ? [`${clock(longest[1] - longest[0], 0)} from `, moment(longest[0], 0)] : [""];
  }

  function certaintyText(rhythm) {
    if (!rhythm.certainty.length) return "";
    const [low, high] = [Math.min(...rhythm.certainty), Math.max(...rhythm.certainty)].map((value) => `${fixed(100 * value)}%`);
    return low === high ? low : `${low} to ${high}`;
  }

  function noneDetected(counts, page) {
    if (!counts.counted) return null;
    const fibrillation = page.duration_s >= FIBRILLATION_S;
    const assessed = fibrillation ? ["atrial fibrillation or flutter"] : [];
    if (counts.rates.lowest && page.duration_s >= page.rules.rate_episode_s) assessed.push("bradycardia", "tachycardia");
    if (page.duration_s >= 2 * page.rules.pause_s) assessed.push("standstill");
    if (!assessed.length) return null;
    const open = fibrillation ? [] : ["atrial fibrillation"];
    if (!assessed.includes("bradycardia")) open.push("bradycardia", "tachycardia");
    const last = assessed.pop();
    let text = assessed.length ? `no ${assessed.join(", ")} or ${last} detected` : `no ${last} detected`;
    if (page.usable_percent < 90) text += ` in the ${fixed(page.usable_percent)}% that can be used`;
    const lastOpen = open.pop();
    return lastOpen ? `${text}; ${[open.join(", "), lastOpen].filter(Boolean).join(" and ")} not assessed` : text;
  }

  function rhythmsShort(counts, page) {
    const parts = counts.rhythms.flatMap(byCertainty).map((rhythm) => {
      const share = `${rhythm.rhythm} ${perCent((100 * rhythm.seconds) / page.duration_s)}`;
      const certainty = certaintyText(rhythm);
      return [`${share} in ${countOf(rhythm.episodes.length, "episode")}, longest `, ...longestEpisode(rhythm), certainty ? `, certainty ${certainty}: to be reviewed` : ""];
    });
    const episodes = parts.length ? parts.reduce((all, part) => [...all, "; ", ...part]) : noneDetected(counts, page);
    if (episodes === null) return null;
    const paced = counts.rhythms.some((rhythm) => rhythm.rhythm === "paced" && rhythm.source === "signal");
    const fibrillation = paced ? "; atrial fibrillation is not assessed where the rhythm is paced" : "";
    return joined(episodes, `${fibrillation}; flutter with regular intervals is not assessed`);
  }

  /** Return names and cells of the findings in short. */
  function short(counts, page) {
    const counted = comma(counts.counted);
    return [
      ["Beats", counts.counted === counts.beats ? counted : `${counted} counted of ${comma(counts.beats)} found`],
      ["Heart rate", ratesText(counts.rates)],
      ["Pauses", pausesShort(counts.pauses)],
      ["Rhythm", rhythmsShort(counts, page)],
      ["Ventricular ectopic beats", ectopyShort(counts, "ventricular")],
      ["Supraventricular ectopic beats", ectopyShort(counts, "supraventricular")],
    ];
  }

  const positions = (intervals) => intervals.flatMap((gap, i) => [i ? "; " : "", moment(gap.start_s)]);
  const unconfirmed = (at) => (at.confirmed ? "" : ", not confirmed");

  function rateCells(at, possible, minute) {
    let text = at ? `${fixed(at.value)}/min${unconfirmed(at)}` : null;
    let where = at ? [moment(at.start_s, minute ? 0 : 1)] : [];
    if (possible) {
      text = `${text === null ? NOT_ASSESSED : text}; possibly ${fixed(possible.value)}/min`;
      where = [...where, where.length ? "; " : "", moment(possible.start_s)];
    }
    return [text, where];
  }

  /** Return figure, value, place and, where it differs from recording to recording, the rule of each row of rates and pauses. */
  function rates(counts, page) {
    const { rates: of, pauses } = counts;
    const more = pauses.found.length > LISTED ? ` and ${comma(pauses.found.length - LISTED)} more` : "";
    const rows = [
      ["Mean heart rate", of.mean === null ? null : `${fixed(of.mean)}/min`, "", `${countOf(of.intervals, "gap")} that touch no unusable stretch, over their time`],
      ["Lowest heart rate", ...rateCells(of.lowest, of.lowest_possible)],
      ["Highest heart rate", ...rateCells(of.highest, of.highest_possible)],
      ["Slowest minute", ...rateCells(of.slowest_minute, null, true)],
      ["Fastest minute", ...rateCells(of.fastest_minute, null, true)],
      ["Pauses", pauses.longest ? pausesText(pauses) : null, [...positions(pauses.found.slice(0, LISTED)), more]],
      ["Longest interval", ...(pauses.longest ? [`${fixed(pauses.longest.value, 2)} s${unconfirmed(pauses.longest)}`, [moment(pauses.longest.start_s)]] : [null, ""])],
    ];
    const others = (intervals, digits) => intervals.map((gap) => `${fixed(gap.value, digits)} s`).join(", ");
    if (pauses.not_confirmed.length) {
      const first = pauses.not_confirmed.slice(0, LISTED);
      const left = pauses.not_confirmed.length - LISTED;
      rows.push(["Not confirmed", others(first, 2) + (left > 0 ? ` and ${comma(left)} more` : ""), positions(first), "a second analysis of the signal did not confirm that no beat lies between: in no rate and no pause above"]);
    }
    if (pauses.ends.length) rows.push(["No beat at an end", others(pauses.ends, 1), positions(pauses.ends), `usable for ${general(page.rules.pause_s)} s or more, and no beat: in no rate`]);
    return rows;
  }

  function variability(counts, page, labelled) {
    const ms = (value) => (value === null ? null : `${fixed(value)} ms`);
    const { mean_nn_ms: mean, sdnn_ms: sdnn, rmssd_ms: rmssd } = counts.variability;
    const normal = labelled.codes.filter((_, i) => labelled.kinds[i] === 0).join(", ") || "no class is";
    const { rules } = page;
    const { intervals, seconds } = counts.variability;
    let nn = `${countOf(intervals, "interval")} between two normal beats (${normal}), ${clock(seconds, 0)} in all, of ${general(rules.nn_min_s)} to ${general(rules.nn_max_s)} s, none of it unusable`;
    const other = counts.variability.other_rhythm;
    if (other) nn += `; ${countOf(other, "more is", "more are")} left out: not in sinus rhythm`;
    if (mean === null) nn += `; below ${countOf(rules.hrv_intervals, "interval")} it is not assessed`;
    if (page.paced && labelled.provisional) nn += "; the rhythm is paced, and a model calls paced beats normal: do not read it";
    return [["Mean NN", ms(mean), nn], ["SDNN", ms(sdnn)], ["RMSSD", ms(rmssd)]];
  }

  const rhythms = (counts, page) =>
    counts.rhythms.flatMap(byCertainty).map((rhythm) => [
      rhythm.rhythm,
      rhythm.episodes.length,
      clock(rhythm.seconds, 0),
      perCent((100 * rhythm.seconds) / page.duration_s),
      longestEpisode(rhythm),
      certaintyText(rhythm) || "-",
      SOURCES[rhythm.source] || rhythm.source,
    ]);

  function confidenceText(event) {
    const parts = event.review ? ["to review"] : [];
    if (event.confidence !== null) parts.push(`${event.kind === "rhythm" ? "certainty" : "mean probability"} ${fixed(event.confidence, 2)}`);
    if (event.uncertain) parts.push(`${comma(event.uncertain)} of low confidence`);
    return parts.join(", ") || "-";
  }

  /** Return the name of an event; of a patient event with its text and what is around it. */
  const eventName = (event) => (event.kind === "patient event" ? `${event.name}${event.text ? `: ${event.text}` : ""}; within 30 s: ${event.context}` : event.name);

  const events = (counts) =>
    counts.events.map((event) => [
      eventName(event),
      [moment(event.start_s)],
      event.kind === "patient event" ? "-" : `${event.cut ? "at least " : ""}${fixed(event.stop_s - event.start_s, 2)} s`,
      event.beats === null ? "-" : comma(event.beats),
      event.per_min === null ? "-" : `${fixed(event.per_min)}/min`,
      confidenceText(event),
    ]);

  /** Return a sentence for what the list of events lacks. */
  function notListed(counts) {
    const sentences = KINDS.filter(([word]) => !counts[word] && !counts.to_review[word]).map(
      ([word]) => `Runs of ${word} beats: ${counts.withheld[word] || NOT_ASSESSED}.`,
    );
    const many = counts.pauses.not_assessed;
    if (many) sentences.push(`${countOf(many, "interval")} as long as a pause touch an unusable stretch: beats may be missing there, and none is listed.`);
    return sentences;
  }

  return { FIBRILLATION_S, FEW_INTERVALS, startAt, time, fixed, general, comma, clock, perCent, countOf, moment, textOf, certainFirst, tachycardias, highestOf, short, rates, variability, rhythms, events, notListed, KINDS, NOT_ASSESSED, EVENT_HEAD, RHYTHM_HEAD };
})();
if (typeof module !== "undefined") module.exports = EcgWords;
