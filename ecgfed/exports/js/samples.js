/** The last samples of a stream, numbered from its start. */

export class Samples {
  constructor() {
    this.values = new Float64Array(1024);
    this.from = 0; // place of the first one kept in `values`
    this.start = 0; // its number
    this.count = 0; // how many are kept
  }

  /** How many samples have come. */
  get stop() {
    return this.start + this.count;
  }

  /** Take the next samples. @param {Float64Array} more */
  append(more) {
    this.makeRoom(more.length);
    this.values.set(more, this.from + this.count);
    this.count += more.length;
  }

  /** Take one value so many times. @param {number} value @param {number} count */
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

  /** Return samples that are kept, not to be changed. @param {number} start @param {number} stop */
  part(start, stop) {
    return this.values.subarray(this.from + start - this.start, this.from + stop - this.start);
  }

  /** One sample that is kept. @param {number} number */
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

  /** Drop all, and go on at a later number. @param {number} start */
  jump(start) {
    this.from = 0;
    this.count = 0;
    this.start = start;
  }
}
