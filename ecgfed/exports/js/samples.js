/** The last samples of a stream, numbered from its start. */

export class Samples {
  constructor() {
    this.values = new Float64Array(1024);
    this.from = 0; // index of the first stored sample in `values`
    this.start = 0; // number of that sample in the stream
    this.count = 0; // number of stored samples
  }

  /** Number of samples received. */
  get stop() {
    return this.start + this.count;
  }

  /** Append samples. @param {Float64Array} more */
  append(more) {
    this.makeRoom(more.length);
    this.values.set(more, this.from + this.count);
    this.count += more.length;
  }

  /** Append a value `count` times. @param {number} value @param {number} count */
  repeat(value, count) {
    this.makeRoom(count);
    this.values.fill(value, this.from + this.count, this.from + this.count + count);
    this.count += count;
  }

  /** @param {number} count */
  makeRoom(count) {
    if (this.from + this.count + count <= this.values.length) return;
    const size = Math.max(2 * (this.count + count), 1024);
    const larger = size > this.values.length || this.from < this.count ? new Float64Array(Math.max(size, this.values.length)) : this.values;
    larger.set(this.values.subarray(this.from, this.from + this.count));
    this.values = larger;
    this.from = 0;
  }

  /** Return stored samples as a view. @param {number} start @param {number} stop */
  part(start, stop) {
    return this.values.subarray(this.from + start - this.start, this.from + stop - this.start);
  }

  /** Return a stored sample. @param {number} number */
  at(number) {
    return this.values[this.from + number - this.start];
  }

  /** Drop the samples before a number. @param {number} before */
  forget(before) {
    const drop = Math.min(before - this.start, this.count);
    if (drop <= 0) return;
    this.from += drop;
    this.start += drop;
    this.count -= drop;
  }

  /** Drop all samples and continue at a later number. @param {number} start */
  jump(start) {
    this.from = 0;
    this.count = 0;
    this.start = start;
  }
}
