/** Band-pass and resampling of a stream, with the same bits as for the whole recording. */

import { inner, Resampler } from "./fir.js";
import { bandPassTaps, bridgeSamples } from "./filters.js";
import { Samples } from "./samples.js";
import { SAMPLES_BEFORE, STRIP_SAMPLES, besideOf } from "./strip.js";
import { FS_HZ, R_INDEX, WINDOW_SAMPLES, resampledPeak } from "./windows.js";

/** Duration of stored filtered samples, and maximum duration of a stored constant segment, in seconds. */
const MEMORY_S = 45;
const NOTHING = new Float64Array(0);

export class BandStream {
  /** @param {number} fsHz @param {boolean} withStrip whether what lies beside windows is cut too */
  constructor(fsHz, withStrip) {
    this.fsHz = fsHz;
    this.withStrip = withStrip;
    this.taps = bandPassTaps(fsHz);
    this.half = this.taps.length >> 1;
    this.longest = bridgeSamples(fsHz);
    this.memory = Math.ceil(MEMORY_S * fsHz);
    this.resampler = new Resampler(fsHz, FS_HZ);
    this.bridged = new Samples();
    this.filtered = new Samples();
    this.pending = 0; // samples of a gap not filled yet
    this.holding = false; // within a long gap, filled with the value before it except for its last seconds
    /** @type {number | null} */
    this.last = null;
    this.ended = false;
  }

  /** Process the next samples of the lead, NaN if missing. @param {Float64Array} samples */
  push(samples) {
    for (let i = 0; i < samples.length; ) {
      if (Number.isFinite(samples[i])) {
        this.valid(samples[i]);
        i += 1;
        continue;
      }
      const start = i;
      while (i < samples.length && !Number.isFinite(samples[i])) i += 1;
      this.missing(i - start);
    }
    if (this.bridged.count > this.memory) this.filter();
  }

  /** End the recording. */
  finish() {
    this.constant(this.last ?? 0, this.pending);
    this.pending = 0;
    this.ended = true;
    if (this.bridged.stop) this.bridged.repeat(this.bridged.at(this.bridged.stop - 1), this.half);
    this.filter();
  }

  /** Process a gap, or its next part. @param {number} count */
  missing(count) {
    this.pending += count;
    if (this.last === null || (!this.holding && this.pending <= this.longest)) return;
    this.holding = true;
    const half = Math.floor(this.longest / 2);
    this.constant(this.last, this.pending - half);
    this.pending = half;
  }

  /** @param {number} value */
  valid(value) {
    if (this.pending) {
      if (this.last === null || this.holding) this.constant(value, this.pending);
      else this.line(this.last, value);
      this.pending = 0;
      this.holding = false;
    } else if (this.bridged.stop === 0) {
      this.begin(value);
    }
    this.last = value;
    this.bridged.repeat(value, 1);
  }

  /** Pad the signal before its start with its first value, at negative numbers. @param {number} value */
  begin(value) {
    this.bridged.jump(-this.half);
    this.bridged.repeat(value, this.half);
  }

  /** @param {number} before @param {number} after */
  line(before, after) {
    const slope = (after - before) / (this.pending + 1);
    for (let i = 1; i <= this.pending; i += 1) this.bridged.repeat(slope * i + before, 1);
  }

  /** Append a constant segment; of a very long one only its end. @param {number} value @param {number} count */
  constant(value, count) {
    if (!count) return;
    if (this.bridged.stop === 0) this.begin(value);
    if (count > this.memory) {
      this.bridged.jump(this.bridged.stop + count - this.memory);
      this.bridged.repeat(value, this.memory);
      // one sum is computed for all equal samples, so that long gaps cost nothing
      const [first, repeats] = [this.bridged.start, this.memory - 2 * this.half];
      this.filtered.jump(first + this.half);
      this.filtered.repeat(inner(this.bridged.part(first, first + this.taps.length), this.taps)[0], repeats);
    } else {
      this.bridged.repeat(value, count);
    }
  }

  /** End of what is filtered or can be filtered now. */
  get stop() {
    return Math.max(this.bridged.stop - this.half, this.filtered.stop);
  }

  /** Filter what has come since the last call. */
  filter() {
    const { bridged, filtered, half, stop } = this;
    if (stop > filtered.stop) filtered.append(inner(bridged.part(filtered.stop - half, bridged.stop), this.taps));
    bridged.forget(filtered.stop - half);
    filtered.forget(filtered.stop - this.memory);
  }

  /** What follows the filtered signal, up to a sample, as if the last valid sample were held. @param {number} stop */
  held(stop) {
    const { bridged, filtered, half } = this;
    const count = stop - filtered.stop;
    if (count <= 0) return NOTHING;
    const input = new Float64Array(count + 2 * half).fill(this.last ?? 0);
    input.set(bridged.part(filtered.stop - half, Math.min(bridged.stop, stop + half)));
    return inner(input, this.taps);
  }

  /**
   * Cut the window of an R peak, and what lies beside it; null if its samples are not available yet.
   * @param {number} peak
   * @param {boolean} isHeld whether the filter holds the last sample
   * @returns {import("./beat-stream.js").WindowCut | null}
   */
  window(peak, isHeld = false) {
    const { resampler, filtered } = this;
    const length = this.ended ? resampler.count(this.stop) : Infinity;
    const [before, samples] = this.withStrip ? [SAMPLES_BEFORE, STRIP_SAMPLES] : [0, WINDOW_SAMPLES];
    const first = resampledPeak(peak, this.fsHz, length) - R_INDEX;
    const start = first - before;
    const last = resampler.newest(start + samples - 1);
    if (!this.ended && !isHeld && last >= this.stop) return null;
    this.filter();
    const held = isHeld ? this.held(last + 1) : NOTHING;
    const read = (/** @type {number} */ i) => (i < 0 ? 0 : i < filtered.stop ? filtered.at(i) : held[i - filtered.stop] ?? 0);
    const aroundMv = new Float32Array(samples);
    for (let k = Math.max(0, -start); k < samples && start + k < length; k += 1) {
      aroundMv[k] = resampler.up === resampler.down ? read(start + k) : resampler.at(read, start + k);
    }
    const windowMv = aroundMv.slice(before, before + WINDOW_SAMPLES);
    return { windowMv, besideMv: this.withStrip ? besideOf(aroundMv) : null, padded: first < 0 || first + WINDOW_SAMPLES > length };
  }
}
