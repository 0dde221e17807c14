"use strict";
/*
 * The beats of a report, which of them and of the intervals between them can be used, and heart rates, pauses and
 * variability: the rules of ecgfed/domain/events (beats.py, rhythm.py, hours.py, rate_episodes.py) for the page of a
 * report, whose counts change while a physician edits it. Results have the names of `RecordingReport.to_dict`.
 */
const EcgBeats = (() => {
  const KINDS = { NORMAL: 0, SUPRA: 1, VENTRICULAR: 2, FUSION: 3, PACED: 4, OTHER: 5 };
  const MINUTE_S = 60;
  /** Rhythms whose beats come from the sinus node, as in ecgfed/domain/events/rhythm.py. */
  const SINUS = ["sinus rhythm", "sinus bradycardia", "atrial bigeminy", "ventricular bigeminy", "ventricular trigeminy", "pre-excitation", "no rhythm assessed"];
  const HOUR_S = 3600;
  const FAST_PER_MIN = 220;
  const RATE_APART = 0.1;
  const UNUSABLE_SHARE = 0.1;

  /** Return the sum as numpy computes it: halves are summed separately, so that large sums lose few digits. */
  function sum(values, start = 0, count = values.length - start) {
    if (count < 8) {
      let total = 0;
      for (let i = 0; i < count; i += 1) total += values[start + i];
      return total;
    }
    if (count > 128) {
      const half = (count >> 1) - ((count >> 1) % 8);
      return sum(values, start, half) + sum(values, start + half, count - half);
    }
    const part = Array.from({ length: 8 }, (_, j) => values[start + j]);
    const whole = count - (count % 8);
    for (let i = 8; i < whole; i += 8) for (let j = 0; j < 8; j += 1) part[j] += values[start + i + j];
    let total = part[0] + part[1] + (part[2] + part[3]) + (part[4] + part[5] + (part[6] + part[7]));
    for (let i = whole; i < count; i += 1) total += values[start + i];
    return total;
  }

  /** Return the number of sorted values below a value. */
  function lowerBound(values, value) {
    let [low, high] = [0, values.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (values[middle] < value) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  function median(values) {
    const sorted = Float64Array.from(values).sort();
    const half = sorted.length >> 1;
    return sorted.length % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
  }

  /** Return the quotient of floats rounded down, as Python's //. */
  function floorDivided(a, b) {
    const quotient = (a - (a % b)) / b;
    const floor = Math.floor(quotient);
    return quotient - floor > 0.5 ? floor + 1 : floor;
  }

  /**
   * Return beats with everything that follows from them. `given` has sample, label, kinds, codes, fs, samples, unusable
   * (disjoint [start, stop] in order), provisional, and for each beat or interval, or null: uncertain, confirmed, rejected,
   * doubted, unlike, and the probabilities ventricular and supra.
   */
  function beatsOf(given) {
    const count = given.sample.length;
    const between = Math.max(count - 1, 0);
    const beats = { ...given, count, duration_s: given.samples / given.fs };
    beats.kind = Uint8Array.from(given.label, (label) => given.kinds[label]);
    beats.time = Float64Array.from(given.sample, (sample) => sample / given.fs);
    beats.rr = new Float64Array(between);
    beats.assessed = new Uint8Array(count);
    beats.known = new Uint8Array(between);
    beats.measured = new Uint8Array(between);
    beats.plausible = new Uint8Array(between);
    let stretch = 0;
    for (let i = 0; i < count; i += 1) {
      const at = given.sample[i];
      while (stretch < given.unusable.length && given.unusable[stretch][1] <= at) stretch += 1;
      const edge = stretch < given.unusable.length ? given.unusable[stretch][0] : Infinity;
      beats.assessed[i] = edge < at + 1 ? 0 : 1;
      if (i === between) break;
      beats.rr[i] = (given.sample[i + 1] - at) / given.fs;
      beats.known[i] = edge < given.sample[i + 1] + 1 ? 0 : 1;
      beats.plausible[i] = beats.known[i] && !(given.rejected && given.rejected[i]) ? 1 : 0;
      beats.measured[i] = beats.plausible[i] && (!given.confirmed || given.confirmed[i]) ? 1 : 0;
    }
    const lost = given.unusable.reduce((total, [start, stop]) => total + stop - start, 0);
    beats.unusable_share = lost / Math.max(given.samples, 1);
    return beats;
  }

  /** Return how many seconds between two times lie outside unusable stretches. */
  function usableS(beats, startS, stopS) {
    const [start, stop] = [startS * beats.fs, Math.min(stopS * beats.fs, beats.samples)];
    const clip = (value) => Math.min(Math.max(value, start), stop);
    const inside = beats.unusable.map(([from, to]) => clip(to) - clip(from));
    return (stop - start - sum(inside)) / beats.fs;
  }

  const intervalAt = (beats, i, confirmed = true) => ({ value: beats.rr[i], start_s: beats.time[i], stop_s: beats.time[i + 1], confirmed });

  /** Return the beats without those that the second analysis rejects; intervals across these are not confirmed. */
  function withoutDoubted(beats) {
    if (!beats.doubted || !beats.confirmed || !beats.doubted.some(Boolean)) return beats;
    const kept = [];
    for (let i = 0; i < beats.count; i += 1) if (!beats.doubted[i]) kept.push(i);
    const side = (values) => values && Uint8Array.from(kept.slice(0, -1), (i, at) => (kept[at + 1] === i + 1 ? values[i] : 0));
    const [sample, label] = [Int32Array.from(kept, (i) => beats.sample[i]), Uint8Array.from(kept, (i) => beats.label[i])];
    const { kinds, fs, samples, unusable } = beats;
    return beatsOf({ kinds, fs, samples, unusable, sample, label, confirmed: side(beats.confirmed), rejected: side(beats.rejected), doubted: null });
  }

  /** Call visit(first beat) for each series of `rate_intervals` usable intervals, none as long as two pauses. */
  function eachRated(beats, usable, rules, visit) {
    let since = 0;
    for (let i = 0; i < beats.rr.length; i += 1) {
      since = usable[i] && beats.rr[i] < 2 * rules.pause_s ? since + 1 : 0;
      if (since >= rules.rate_intervals) visit(i + 1 - rules.rate_intervals);
    }
  }

  function extremes(beats, usable, rules) {
    let [lowest, highest] = [null, null];
    eachRated(beats, usable, rules, (first) => {
      const [start, stop] = [beats.time[first], beats.time[first + rules.rate_intervals]];
      const value = (60 * rules.rate_intervals) / (stop - start);
      if (!lowest || value < lowest.value) lowest = { value, start_s: start, stop_s: stop, confirmed: true };
      if (!highest || value > highest.value) highest = { value, start_s: start, stop_s: stop, confirmed: true };
    });
    return [lowest, highest];
  }

  function possibleExtremes(beats, rules) {
    if (!beats.confirmed) return [null, null];
    const all = [beats, withoutDoubted(beats)].map((of) => extremes(of, of.plausible, rules));
    const choose = (number, better) =>
      all.map((pair) => pair[number]).filter(Boolean).reduce((best, at) => (!best || better(at.value, best.value) ? at : best), null);
    const unsure = (at) => at && { ...at, confirmed: false };
    return [unsure(choose(0, (a, b) => a < b)), unsure(choose(1, (a, b) => a > b))];
  }

  /** Return number and seconds of the measured intervals that end in each stretch of `widthS`. */
  function ratesBy(beats, widthS) {
    const stretches = Math.max(1, Math.ceil(beats.duration_s / widthS));
    const [count, seconds] = [new Int32Array(stretches), new Float64Array(stretches)];
    for (let i = 0; i < beats.rr.length; i += 1) {
      if (!beats.measured[i]) continue;
      const at = Math.min(floorDivided(beats.time[i + 1], widthS), stretches - 1);
      count[at] += 1;
      seconds[at] += beats.rr[i];
    }
    return [count, seconds];
  }

  function minutes(beats, usable) {
    const [count, seconds] = ratesBy(beats, MINUTE_S);
    let [lowest, highest] = [null, null];
    for (let i = 0; i < count.length; i += 1) {
      if (!(seconds[i] >= usable && count[i] > 0)) continue;
      const at = { value: (60 * count[i]) / seconds[i], start_s: MINUTE_S * i, stop_s: Math.min(MINUTE_S * (i + 1), beats.duration_s), confirmed: true };
      if (!lowest || at.value < lowest.value) lowest = at;
      if (!highest || at.value > highest.value) highest = at;
    }
    return [lowest, highest];
  }

  function heartRates(beats, rules) {
    const known = beats.rr.filter((_, i) => beats.measured[i]);
    let [lowest, highest] = extremes(beats, beats.measured, rules);
    const [slowestPossible, fastestPossible] = possibleExtremes(beats, rules);
    if (slowestPossible && lowest && slowestPossible.value < (1 - RATE_APART) * lowest.value) lowest = { ...lowest, confirmed: false };
    if (fastestPossible && highest) {
      const apart = fastestPossible.value > (1 + RATE_APART) * highest.value;
      highest = { ...highest, confirmed: !apart && highest.value <= FAST_PER_MIN };
    }
    let [slowest, fastest] = minutes(beats, rules.minute_usable_s);
    if (fastest && beats.confirmed) fastest = { ...fastest, confirmed: fastest.value <= FAST_PER_MIN };
    const possible = [lowest && lowest.confirmed ? null : slowestPossible, highest && highest.confirmed ? null : fastestPossible];
    if (beats.unusable_share > UNUSABLE_SHARE) {
      [lowest, highest, slowest, fastest] = [lowest, highest, slowest, fastest].map((at) => at && { ...at, confirmed: false });
    }
    return {
      mean: known.length ? (60 * known.length) / sum(known) : null,
      lowest,
      highest,
      slowest_minute: slowest,
      fastest_minute: fastest,
      intervals: known.length,
      lowest_possible: possible[0],
      highest_possible: possible[1],
    };
  }

  function longestOf(beats, which) {
    let at = -1;
    for (let i = 0; i < beats.rr.length; i += 1) if (which(i) && (at < 0 || beats.rr[i] > beats.rr[at])) at = i;
    return at;
  }

  function notConfirmed(beats, rules, longest) {
    const unconfirmed = (i) => beats.plausible[i] && !beats.measured[i];
    const at = longestOf(beats, unconfirmed);
    const found = [];
    for (let i = 0; at >= 0 && i < beats.rr.length; i += 1) {
      if (!unconfirmed(i)) continue;
      const longer = i === at && (!longest || beats.rr[i] > longest.value);
      if (longer || beats.rr[i] >= rules.pause_s) found.push({ ...intervalAt(beats, i, false), review: true });
    }
    return found;
  }

  function pauses(beats, rules) {
    const found = [];
    let notAssessed = 0;
    for (let i = 0; i < beats.rr.length; i += 1) {
      if (beats.rr[i] < rules.pause_s) continue;
      if (beats.measured[i]) found.push({ ...intervalAt(beats, i), review: false });
      if (!beats.known[i]) notAssessed += 1;
    }
    const at = longestOf(beats, (i) => beats.measured[i]);
    let longest = at < 0 ? null : intervalAt(beats, at);
    const unconfirmed = notConfirmed(withoutDoubted(beats), rules, longest);
    if (longest) {
      const longer = unconfirmed.some((interval) => interval.value > longest.value);
      longest = { ...longest, confirmed: !longer && beats.unusable_share <= UNUSABLE_SHARE };
    }
    const edges = beats.count ? [[0, beats.time[0]], [beats.time[beats.count - 1], beats.duration_s]] : [];
    const ends = edges.filter(([start, stop]) => usableS(beats, start, stop) >= rules.pause_s);
    return {
      found,
      longest,
      not_assessed: notAssessed,
      ends: ends.map(([start, stop]) => ({ value: stop - start, start_s: start, stop_s: stop, confirmed: true })),
      not_confirmed: unconfirmed,
    };
  }

  /** Return the variability of normal-to-normal intervals outside rhythms that are not sinus rhythm. */
  function variability(beats, rules, rhythms) {
    const episodes = rhythms.filter((one) => !SINUS.includes(one.rhythm)).flatMap((one) => one.episodes);
    const sinus = Array.from({ length: beats.count }, (_, i) => !episodes.some(([start, stop]) => start <= beats.time[i] && beats.time[i] < stop));
    let other = 0;
    const normal = beats.rr.map((rr, i) => {
      const both = beats.kind[i] === KINDS.NORMAL && beats.kind[i + 1] === KINDS.NORMAL;
      if (!(beats.measured[i] && both && rr >= rules.nn_min_s && rr <= rules.nn_max_s)) return 0;
      if (sinus[i] && sinus[i + 1]) return 1;
      other += 1;
      return 0;
    });
    const nn = beats.rr.filter((_, i) => normal[i]).map((rr) => 1000 * rr);
    const total = sum(nn);
    const found = { intervals: nn.length, seconds: total / 1000, mean_nn_ms: null, sdnn_ms: null, rmssd_ms: null, other_rhythm: other };
    if (nn.length < rules.hrv_intervals) return found;
    const mean = total / nn.length;
    const squares = [];
    for (let i = 0; i + 1 < normal.length; i += 1) if (normal[i] && normal[i + 1]) squares.push((1000 * (beats.rr[i + 1] - beats.rr[i])) ** 2);
    found.mean_nn_ms = mean;
    found.sdnn_ms = Math.sqrt(sum(nn.map((value) => (value - mean) ** 2)) / (nn.length - 1));
    found.rmssd_ms = squares.length ? Math.sqrt(sum(squares) / squares.length) : null;
    return found;
  }

  /** Return the bins of `widthS` seconds from the start on. */
  function timeBins(beats, widthS = HOUR_S) {
    const total = Math.max(1, Math.ceil(beats.duration_s / widthS - 1e-9));
    const of = Array.from({ length: total }, () => ({ counts: new Array(beats.codes.length).fill(0), shortest: Infinity, longest: 0 }));
    for (let i = 0; i < beats.count; i += 1) {
      const bin = of[Math.min(floorDivided(beats.time[i], widthS), total - 1)];
      if (beats.assessed[i]) bin.counts[beats.label[i]] += 1;
      if (i && beats.measured[i - 1]) {
        bin.shortest = Math.min(bin.shortest, beats.rr[i - 1]);
        bin.longest = Math.max(bin.longest, beats.rr[i - 1]);
      }
    }
    const [intervals, seconds] = ratesBy(beats, widthS);
    return of.map(({ counts, shortest, longest }, at) => {
      const [start, stop] = [at * widthS, Math.min((at + 1) * widthS, beats.duration_s)];
      const ofKind = (kind) => counts.reduce((number, count, i) => number + (beats.kinds[i] === kind ? count : 0), 0);
      return {
        start_s: start,
        stop_s: stop,
        usable_s: usableS(beats, start, stop),
        beats: counts.reduce((a, b) => a + b, 0),
        by_class: counts,
        supra: ofKind(KINDS.SUPRA),
        ventricular: ofKind(KINDS.VENTRICULAR),
        rate: intervals[at] ? (60 * intervals[at]) / seconds[at] : null,
        shortest_s: intervals[at] ? shortest : null,
        longest_s: intervals[at] ? longest : null,
      };
    });
  }

  /** Return the episodes of bradycardia and tachycardia, each as its name and its [start, stop] in seconds. */
  function rateEpisodes(beats, rules) {
    const spans = { bradycardia: [], tachycardia: [] };
    eachRated(beats, beats.measured, rules, (first) => {
      const [start, stop] = [beats.sample[first], beats.sample[first + rules.rate_intervals]];
      const value = (60 * rules.rate_intervals * beats.fs) / (stop - start);
      const name = value < rules.bradycardia_per_min ? "bradycardia" : value > rules.tachycardia_per_min ? "tachycardia" : null;
      if (!name) return;
      const last = spans[name][spans[name].length - 1];
      if (last && start <= last[1]) last[1] = Math.max(last[1], stop);
      else spans[name].push([start, stop]);
    });
    return Object.entries(spans)
      .map(([rhythm, all]) => [rhythm, all.filter(([start, stop]) => stop - start >= rules.rate_episode_s * beats.fs)])
      .filter(([, long]) => long.length)
      .map(([rhythm, long]) => ({ rhythm, source: "rates", episodes: long.map(([a, b]) => [a / beats.fs, b / beats.fs]), certainty: [] }));
  }

  return { KINDS, HOUR_S, beatsOf, sum, median, lowerBound, usableS, heartRates, pauses, variability, timeBins, rateEpisodes };
})();
if (typeof module !== "undefined") module.exports = EcgBeats;
