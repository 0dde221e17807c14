/** The last minute of a lead of a stream, for drawing. */

const MEMORY_S = 60;

export class Heard {
  /** @param {number} fsHz 0 without a stream @param {string} lead its name */
  constructor(fsHz = 0, lead = "") {
    this.fsHz = fsHz;
    this.lead = lead;
    this.samples = new Float64Array(0);
    this.first = 0; // number of the first stored sample in the stream
    this.on = fsHz > 0; // whether the stream is active
  }

  /** Pass over missing samples. @param {number} missing */
  gap(missing) {
    const drawn = Math.min(missing, MEMORY_S * this.fsHz);
    if (drawn > 0) this.add(new Float64Array(drawn).fill(NaN));
    this.first += missing - drawn;
  }

  /** Append samples and drop the oldest. @param {Float64Array} fresh millivolt */
  add(fresh) {
    const maxSamples = MEMORY_S * this.fsHz;
    const old = this.samples.subarray(Math.max(this.samples.length + fresh.length - maxSamples, 0));
    this.first += this.samples.length - old.length;
    const both = new Float64Array(old.length + fresh.length);
    both.set(old);
    both.set(fresh, old.length);
    this.samples = both;
  }
}
