/** A strip of at most ten seconds on ECG paper with its beats; uses paper.js. */

/** @typedef {import("../../exports/js/index.d.ts").StreamBeat} StreamBeat */

const MM_PER_S = 25;
const PULSE_MM = 15;
const PX_PER_MM = 96 / 25.4;
const MIN_S = 4;
const MAX_S = 10;

/** Label of a beat: its class, or the symbol of an unclassified one, with an ellipsis until it is final. @param {StreamBeat} beat */
export function labelOf(beat) {
  const name = beat.class || beat.symbol;
  return beat.stage === "final" ? name : `${name}\u2026`;
}

/** The most frequent class, which is written small. @param {Iterable<StreamBeat>} beats */
export function usualOf(beats) {
  /** @type {Map<string, number>} */
  const counts = new Map();
  for (const beat of beats) counts.set(beat.class, (counts.get(beat.class) ?? 0) + 1);
  return [...counts].sort((a, b) => b[1] - a[1])[0]?.[0] ?? "";
}

/** Bad segments around the beats of poor quality. @param {StreamBeat[]} beats @param {number} fsHz @param {number} first */
function badSpans(beats, fsHz, first) {
  const half = 0.35 * fsHz;
  /** @type {{start: number, stop: number, kind: string, text: string}[]} */
  const spans = [];
  for (const beat of beats) {
    if (!beat.poorQuality) continue;
    const [start, stop] = [beat.sample - first - half, beat.sample - first + half];
    const last = spans[spans.length - 1];
    if (last && last.text === beat.poorQuality && start <= last.stop + fsHz) last.stop = stop;
    else spans.push({ start, stop, kind: "unusable", text: beat.poorQuality });
  }
  return spans;
}

/** The strip on the page. */
export class Sheet {
  /** @param {HTMLElement} host */
  constructor(host) {
    this.host = host;
  }

  /** Number of seconds that fit beside the calibration pulse. */
  get seconds() {
    const mm = this.host.clientWidth / PX_PER_MM - PULSE_MM;
    return Math.min(Math.max(Math.floor(mm / MM_PER_S), MIN_S), MAX_S);
  }

  /**
   * Draw samples with their beats.
   * @param {object} what
   * @param {Float64Array} what.samples
   * @param {number} what.first number of the first sample in the recording
   * @param {number} what.fsHz
   * @param {string} what.lead
   * @param {StreamBeat[]} what.beats in order of time
   * @param {string} what.usual the class that is written small
   */
  draw({ samples, first, fsHz, lead, beats, usual }) {
    const stop = first + samples.length;
    const near = beats.filter((beat) => beat.sample >= first && beat.sample < stop);
    const strip = {
      fs: fsHz,
      start_s: first / fsHz,
      leads: [{ name: lead, unit: "mV", samples }],
      beats: near.map((beat) => {
        return { sample: beat.sample - first, label: labelOf(beat), quiet: beat.class === usual && !beat.lowConfidence, uncertain: beat.lowConfidence };
      }),
      spans: badSpans(near, fsHz, first),
    };
    EcgPaper.draw(this.host, strip, { name: "ECG" });
  }
}
