"use strict";
/* Places on a strip where a beat may be added while a report is edited. Needs paper.js and beats.js. */
const EcgAdding = (() => {
  const { tr, trLater } = EcgLanguage;
  const SNAP_S = 0.06;
  const STEP_S = 0.02;

  /** Return the values of a strip's first lead, and the samples of the recording that they are from: first, first + step, ... */
  function extentOf(strip, { fs, stripFs }) {
    const values = EcgPaper.decode(strip.leads[0].samples);
    return { values, first: Math.round(strip.start_s * fs), step: Math.round(fs / stripFs) };
  }

  /**
   * Return where a click means a beat: at the largest deflection of the first lead from the strip's median within 60 ms,
   * among the samples that `allowed` accepts; else at the sample itself.
   */
  function snapped(strip, sample, rates, allowed) {
    const { values, first, step } = extentOf(strip, rates);
    const known = Float64Array.from(values.filter((value) => Number.isFinite(value))).sort();
    const baseline = known[known.length >> 1];
    let [best, largest] = [Math.round(sample), -1];
    for (let i = 0; i < values.length; i += 1) {
      const at = first + i * step;
      if (Math.abs(at - sample) > SNAP_S * rates.fs || !(Math.abs(values[i] - baseline) > largest) || !allowed(at)) continue;
      [best, largest] = [at, Math.abs(values[i] - baseline)];
    }
    return best;
  }

  /** Return a sample moved by steps of 20 ms, on the strip. */
  function moved(strip, sample, steps, rates) {
    const { values, first, step } = extentOf(strip, rates);
    return Math.min(Math.max(sample + Math.round(steps * STEP_S * rates.fs), first), first + (values.length - 1) * step);
  }

  /** Describe a place by its time and the beats beside it. */
  function described(labelled, place) {
    const at = EcgBeats.lowerBound(labelled.sample, place);
    const beside = [[at - 1, trLater("{ms} ms after {code}")], [at, trLater("{ms} ms before {code}")]].filter(([i]) => i >= 0 && i < labelled.sample.length);
    const msTo = (i) => Math.round((1000 * Math.abs(labelled.sample[i] - place)) / labelled.fs);
    const parts = beside.map(([i, sentence]) => tr(sentence, { ms: msTo(i), code: labelled.codes[labelled.label[i]] }));
    return [tr("Cursor at {time}", { time: EcgPaper.clock(place / labelled.fs, 2) }), ...parts].join(", ");
  }

  return { snapped, moved, described };
})();
