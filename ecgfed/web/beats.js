"use strict";
/*
 * The beats of a report, which of them and of the intervals between them can be used, and heart rates, pauses and
 * variability: the rules of ecgfed/domain/events (beats.py, rhythm.py, hours.py, rate_episodes.py) for the page of a
 * report, whose counts change while a physician edits it. Results have the names of `RecordingReport.to_dict`.
 */
const EcgBeats = (() => {
  const KINDS = { NORMAL: 0, SUPRA: 1, VENTRICULAR: 2, FUSION: 3, PACED: 4, OTHER: 5 };
  const MINUTE_S = 60;
  const HOUR_S = 3600;
  const FAST_PER_MIN = 220;
  const RATE_APART = 0.1;
  const UNUSABLE_SHARE = 0.1;
  const LOW_SHARE = 0.5;

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

  /** Return the quotient of floats rounded down, as Python's //, which divides anew near whole numbers. */
  function floorDivided(a, b) {
    const near = a / b;
    if (Math.abs(near - Math.round(near)) > 1e-9) return Math.floor(near);
    const quotient = (a - (a % b)) / b;
    const floor = Math.floor(quotient);
    return quotient - floor > 0.5 ? floor + 1 : floor;
  }

  /** What follows from the samples alone, for as long as the same array is used: most edits leave all beats in place. */
  const placed = new WeakMap();

  /** Return what follows from a beat's sample: time, interval to the next, whether each lies outside unusable stretches. */
  function placesOf({ sample, fs, unusable }) {
    if (placed.has(sample)) return placed.get(sample);
    const count = sample.length;
    const between = Math.max(count - 1, 0);
    const [assessed, known] = [new Uint8Array(count), new Uint8Array(between)];
    const [time, rr] = [new Float64Array(count), new Float64Array(between)];
    let [stretch, counted] = [0, 0];
    for (let i = 0; i < count; i += 1) {
      const at = sample[i];
      time[i] = at / fs;
      while (stretch < unusable.length && unusable[stretch][1] <= at) stretch += 1;
      const edge = stretch < unusable.length ? unusable[stretch][0] : Infinity;
      assessed[i] = edge < at + 1 ? 0 : 1;
      counted += assessed[i];
      if (i === between) break;
      rr[i] = (sample[i + 1] - at) / fs;
      known[i] = edge < sample[i + 1] + 1 ? 0 : 1;
    }
    const places = { time, rr, assessed, known, counted, bins: new Map() };
    placed.set(sample, places);
    return places;
  }

  /** Return the number of the stretch of `widthS` in which each beat lies. */
  function binsOf(beats, widthS) {
    const { bins } = placesOf(beats);
    if (!bins.has(widthS)) bins.set(widthS, Int32Array.from(beats.time, (time) => floorDivided(time, widthS)));
    return bins.get(widthS);
  }

  const same = (some, others) => {
    if (some === others) return true;
    if (!some || !others || some.length !== others.length) return false;
    for (let i = 0; i < some.length; i += 1) if (some[i] !== others[i]) return false;
    return true;
  };

  /** Return a function of beats and rules that does not compute again what it computed last, of the same arrays. */
  function remembered(names, compute) {
    let last = null;
    return (beats, rules) => {
      const plain = [rules, beats.samples, beats.fs];
      if (!last || !same(last.plain, plain) || !names.every((name) => same(last.of[name], beats[name]))) {
        last = { plain, of: Object.fromEntries(names.map((name) => [name, beats[name]])), result: compute(beats, rules) };
      }
      return last.result;
    };
  }

  /**
   * Return beats with everything that follows from them. `labelled` has sample, label, kinds, codes, fs, samples, unusable
   * (disjoint [start, stop] in order), provisional, and for each beat or interval, or null: uncertain, confirmed, rejected,
   * undetected, doubted, unlike, and the probabilities ventricular and supra.
   */
  function beatsOf(labelled) {
    const { sample, label, kinds, fs, unusable, rejected, confirmed } = labelled;
    const count = sample.length;
    const { time, rr, assessed, known, counted } = placesOf(labelled);
    const kind = new Uint8Array(count);
    for (let i = 0; i < count; i += 1) kind[i] = kinds[label[i]];
    const plausible = rejected ? new Uint8Array(known.length) : known;
    for (let i = 0; rejected && i < known.length; i += 1) plausible[i] = known[i] && !rejected[i] ? 1 : 0;
    const measured = confirmed ? both(plausible, confirmed) : plausible;
    const lost = unusable.reduce((total, [start, stop]) => total + stop - start, 0);
    const share = lost / Math.max(labelled.samples, 1);
    return { ...labelled, count, counted, duration_s: labelled.samples / fs, kind, time, rr, assessed, known, plausible, measured, unusable_share: share };
  }

  function both(some, others) {
    const result = new Uint8Array(some.length);
    for (let i = 0; i < some.length; i += 1) result[i] = some[i] & others[i];
    return result;
  }

  /** Return the beats with other confirmed intervals and doubted beats. */
  function withConfirmed(beats, confirmed, doubted) {
    return { ...beats, confirmed, doubted, measured: both(beats.plausible, confirmed), undoubted: null };
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
    if (!beats.doubted || !beats.confirmed || !beats.doubted.includes(1)) return beats;
    if (beats.undoubted) return beats.undoubted;
    const remaining = [];
    for (let i = 0; i < beats.count; i += 1) if (!beats.doubted[i]) remaining.push(i);
    const [sample, label] = [new Int32Array(remaining.length), new Uint8Array(remaining.length)];
    const [confirmed, rejected] = [beats.confirmed, beats.rejected].map((values) => values && new Uint8Array(Math.max(remaining.length - 1, 0)));
    for (let at = 0; at < remaining.length; at += 1) {
      const i = remaining[at];
      sample[at] = beats.sample[i];
      label[at] = beats.label[i];
      if (remaining[at + 1] !== i + 1) continue;
      confirmed[at] = beats.confirmed[i];
      if (rejected) rejected[at] = beats.rejected[i];
    }
    const { kinds, fs, samples, unusable } = beats;
    beats.undoubted = beatsOf({ kinds, fs, samples, unusable, sample, label, confirmed, rejected, doubted: null });
    return beats.undoubted;
  }

  /** Return the first beat of each series of `rate_intervals` usable intervals, none as long as two pauses. */
  function rated(beats, usable, rules) {
    let [since, count] = [0, 0];
    const { rr } = beats;
    const [intervals, limit] = [rules.rate_intervals, 2 * rules.pause_s];
    const first = new Int32Array(rr.length);
    for (let i = 0; i < rr.length; i += 1) {
      since = usable[i] && rr[i] < limit ? since + 1 : 0;
      if (since >= intervals) first[count++] = i + 1 - intervals;
    }
    return first.subarray(0, count);
  }

  /** Return the first place of the lowest and of the highest value, -1 for none; NaN is no value. */
  function placesOfExtremes(count, valueOf) {
    let [low, high, lowest, highest] = [-1, -1, Infinity, -Infinity];
    for (let at = 0; at < count; at += 1) {
      const value = valueOf(at);
      if (value < lowest) [low, lowest] = [at, value];
      if (value > highest) [high, highest] = [at, value];
    }
    return [low, high];
  }

  function extremes(beats, usable, rules) {
    const [{ time }, intervals, starts] = [beats, rules.rate_intervals, rated(beats, usable, rules)];
    const rate = (at) => (60 * intervals) / (time[starts[at] + intervals] - time[starts[at]]);
    return placesOfExtremes(starts.length, rate).map((at) => (at < 0 ? null : { value: rate(at), start_s: time[starts[at]], stop_s: time[starts[at] + intervals], confirmed: true }));
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
    const { rr, measured } = beats;
    const bins = binsOf(beats, widthS);
    for (let i = 0; i < rr.length; i += 1) {
      if (!measured[i]) continue;
      const at = Math.min(bins[i + 1], stretches - 1);
      count[at] += 1;
      seconds[at] += rr[i];
    }
    return [count, seconds];
  }

  function minutes(beats, usable) {
    const [count, seconds] = ratesBy(beats, MINUTE_S);
    const rate = (i) => (seconds[i] >= usable && count[i] > 0 ? (60 * count[i]) / seconds[i] : NaN);
    return placesOfExtremes(count.length, rate).map((i) => (i < 0 ? null : { value: rate(i), start_s: MINUTE_S * i, stop_s: Math.min(MINUTE_S * (i + 1), beats.duration_s), confirmed: true }));
  }

  /** Return the values that are chosen. */
  function chosen(values, which) {
    return values.filter((_, i) => which[i]);
  }

  function heartRates(beats, rules) {
    const known = chosen(beats.rr, beats.measured);
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
    const { rr } = beats;
    let at = -1;
    for (let i = 0; i < rr.length; i += 1) if ((at < 0 || rr[i] > rr[at]) && which(i)) at = i;
    return at;
  }

  function notConfirmed(beats, rules, longest) {
    const unconfirmed = (i) => beats.plausible[i] && !beats.measured[i];
    const at = longestOf(beats, unconfirmed);
    const intervals = [];
    for (let i = 0; at >= 0 && i < beats.rr.length; i += 1) {
      if (!unconfirmed(i)) continue;
      const longer = i === at && (!longest || beats.rr[i] > longest.value);
      if (longer || beats.rr[i] >= rules.pause_s) intervals.push({ ...intervalAt(beats, i, false), review: true });
    }
    return intervals;
  }

  function pauses(beats, rules) {
    const intervals = [];
    let notAssessed = 0;
    for (let i = 0; i < beats.rr.length; i += 1) {
      if (beats.rr[i] < rules.pause_s) continue;
      if (beats.measured[i]) intervals.push({ ...intervalAt(beats, i), review: false });
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
      found: intervals,
      longest,
      not_assessed: notAssessed,
      ends: ends.map(([start, stop]) => ({ value: stop - start, start_s: start, stop_s: stop, confirmed: true })),
      not_confirmed: unconfirmed,
    };
  }

  /** Return the variability of normal-to-normal intervals outside `rhythms` that are not sinus rhythm. */
  function variability(beats, rules, rhythms) {
    const { rr, kind, measured, time } = beats;
    const sinusRhythms = new Set(rules.sinus_rhythms);
    const sinus = new Uint8Array(beats.count).fill(1);
    for (const rhythm of rhythms) {
      if (sinusRhythms.has(rhythm.rhythm)) continue;
      for (const [start, stop] of rhythm.episodes) sinus.fill(0, lowerBound(time, start), lowerBound(time, stop));
    }
    let other = 0;
    const normal = new Uint8Array(rr.length);
    for (let i = 0; i < rr.length; i += 1) {
      const both = measured[i] && kind[i] === KINDS.NORMAL && kind[i + 1] === KINDS.NORMAL;
      if (!both || rr[i] < rules.nn_min_s || rr[i] > rules.nn_max_s) continue;
      if (sinus[i] && sinus[i + 1]) normal[i] = 1;
      else other += 1;
    }
    const nn = chosen(rr, normal).map((value) => 1000 * value);
    const total = sum(nn);
    let [ends, uncertain] = [0, 0];
    for (let i = 0; i < beats.count; i += 1) {
      if (!normal[i] && !normal[i - 1]) continue;
      ends += 1;
      if (beats.uncertain && beats.uncertain[i]) uncertain += 1;
    }
    const low = uncertain > LOW_SHARE * ends;
    const result = { intervals: nn.length, seconds: total / 1000, mean_nn_ms: null, sdnn_ms: null, rmssd_ms: null, other_rhythm: other, low_confidence: low };
    if (low || nn.length < rules.hrv_intervals) return result;
    const mean = total / nn.length;
    const squares = [];
    for (let i = 0; i + 1 < normal.length; i += 1) if (normal[i] && normal[i + 1]) squares.push((1000 * (rr[i + 1] - rr[i])) ** 2);
    result.mean_nn_ms = mean;
    result.sdnn_ms = Math.sqrt(sum(nn.map((value) => (value - mean) ** 2)) / (nn.length - 1));
    result.rmssd_ms = squares.length ? Math.sqrt(sum(squares) / squares.length) : null;
    return result;
  }

  /** Return the bins of `widthS` seconds from the start on. */
  function timeBins(beats, widthS = HOUR_S) {
    const total = Math.max(1, Math.ceil(beats.duration_s / widthS - 1e-9));
    const of = Array.from({ length: total }, () => ({ counts: new Array(beats.codes.length).fill(0), shortest: Infinity, longest: 0 }));
    const { rr, measured, assessed, label } = beats;
    const bins = binsOf(beats, widthS);
    for (let i = 0; i < beats.count; i += 1) {
      const bin = of[Math.min(bins[i], total - 1)];
      if (assessed[i]) bin.counts[label[i]] += 1;
      if (i && measured[i - 1]) {
        bin.shortest = Math.min(bin.shortest, rr[i - 1]);
        bin.longest = Math.max(bin.longest, rr[i - 1]);
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
    for (const first of rated(beats, beats.measured, rules)) {
      const [start, stop] = [beats.sample[first], beats.sample[first + rules.rate_intervals]];
      const value = (60 * rules.rate_intervals * beats.fs) / (stop - start);
      const name = value < rules.bradycardia_per_min ? "bradycardia" : value > rules.tachycardia_per_min ? "tachycardia" : null;
      if (!name) continue;
      const last = spans[name][spans[name].length - 1];
      if (last && start <= last[1]) last[1] = Math.max(last[1], stop);
      else spans[name].push([start, stop]);
    }
    return Object.entries(spans)
      .map(([rhythm, all]) => [rhythm, all.filter(([start, stop]) => stop - start >= rules.rate_episode_s * beats.fs)])
      .filter(([, long]) => long.length)
      .map(([rhythm, long]) => ({ rhythm, source: "rates", episodes: long.map(([a, b]) => [a / beats.fs, b / beats.fs]), certainty: [] }));
  }

  const intervals = ["sample", "unusable", "plausible", "measured", "confirmed", "rejected", "doubted"];
  const [rates, gaps, episodes] = [heartRates, pauses, rateEpisodes].map((compute) => remembered(intervals, compute));
  return { KINDS, beatsOf, withConfirmed, sum, median, same, lowerBound, heartRates: rates, pauses: gaps, variability, timeBins, rateEpisodes: episodes };
})();
if (typeof module !== "undefined") module.exports = EcgBeats;
