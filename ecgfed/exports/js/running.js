/** Quantiles and means of beats in running windows of blocks: what one window has is kept for the next. */

/** References are updated every BLOCK beats, from BACK blocks before the beat's own block to AHEAD blocks after it. */
export const BLOCK = 8;
export const BACK = 31;
export const AHEAD = 3;
export const MIN_COUNT = 3;

/** Sorted values without NaN, into which values are added and from which they are removed. */
export class SortedValues {
  constructor() {
    this.values = new Float64Array(64);
    this.length = 0;
  }

  /** @param {number} value */
  add(value) {
    if (Number.isNaN(value)) return;
    if (this.length === this.values.length) {
      const larger = new Float64Array(2 * this.length);
      larger.set(this.values);
      this.values = larger;
    }
    const { values } = this;
    let at = this.length;
    for (; at > 0 && values[at - 1] > value; at -= 1) values[at] = values[at - 1];
    values[at] = value;
    this.length += 1;
  }

  /** Remove one of the values. @param {number} value one that was added */
  remove(value) {
    if (Number.isNaN(value)) return;
    const { values } = this;
    let [low, high] = [0, this.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (values[middle] < value) low = middle + 1;
      else high = middle;
    }
    this.length -= 1;
    for (; low < this.length; low += 1) values[low] = values[low + 1];
  }

  /** The interpolated quantile; NaN for fewer than three values. @param {number} share */
  quantile(share) {
    if (this.length < MIN_COUNT) return NaN;
    const last = this.length - 1;
    const at = share * last;
    const low = Math.floor(at);
    const part = at - low;
    return this.values[low] * (1 - part) + this.values[Math.min(low + 1, last)] * part;
  }
}

/** Quantiles over the beats of a window that moves on. */
export class RunningQuantiles {
  /** @param {(beat: number) => number} valueOf the value of a beat, NaN for none */
  constructor(valueOf) {
    this.valueOf = valueOf;
    this.sorted = new SortedValues();
    this.start = 0;
    this.stop = 0;
  }

  /** Begin again. */
  reset() {
    this.sorted.length = this.start = this.stop = 0;
  }

  /** Move to the window of a block, of those of `count` beats. @param {number} block one of the next blocks @param {number} count */
  move(block, count) {
    const [start, stop] = [Math.max(block - BACK, 0) * BLOCK, Math.min((block + AHEAD + 1) * BLOCK, count)];
    for (; this.stop < stop; this.stop += 1) this.sorted.add(this.valueOf(this.stop));
    for (; this.start < start; this.start += 1) this.sorted.remove(this.valueOf(this.start));
    return this.sorted;
  }
}

/** Numbers of consecutive blocks, as many of each. */
export class PerBlock {
  /** @param {number} width numbers of a block */
  constructor(width) {
    this.width = width;
    this.first = 0; // the first stored block
    this.stop = 0; // end of the blocks that have any
    this.values = new Float64Array(64 * width);
  }

  /** Place of a block's numbers in `values`; they are 0 at first. @param {number} block */
  at(block) {
    const end = (block + 1 - this.first) * this.width;
    if (end > this.values.length) {
      const larger = new Float64Array(2 * end);
      larger.set(this.values);
      this.values = larger;
    }
    this.stop = Math.max(this.stop, block + 1);
    return end - this.width;
  }

  /** Drop the blocks before one. @param {number} before */
  forget(before) {
    const stored = (this.stop - this.first) * this.width;
    const dropped = Math.min(Math.max(before - this.first, 0) * this.width, stored);
    this.values.copyWithin(0, dropped, stored);
    this.values.fill(0, stored - dropped, stored);
    this.first = Math.max(before, this.first);
    this.stop = Math.max(before, this.stop);
  }

  /** Begin again. */
  reset() {
    this.values.fill(0, 0, (this.stop - this.first) * this.width);
    this.first = this.stop = 0;
  }
}

/** Means of rows of chosen beats over the window of a block. */
export class RunningMeans {
  /** @param {number} width of the mean */
  constructor(width) {
    this.width = width;
    /** Sum of the rows of each block, and their number. */
    this.sums = new PerBlock(width + 1);
    /** The same over the first blocks, which all windows begin with until one has BACK blocks before its own. */
    this.head = new Float64Array(width + 1);
    this.headStop = 0;
    this.total = new Float64Array(width + 1);
  }

  /** Begin again. */
  reset() {
    this.sums.reset();
    this.head.fill(0);
    this.headStop = 0;
  }

  /** @param {number} block @param {Float64Array} row as long at least as the mean */
  add(block, row) {
    const at = this.sums.at(block);
    const { values } = this.sums;
    for (let k = 0; k < this.width; k += 1) values[at + k] += row[k];
    values[at + this.width] += 1;
  }

  /**
   * The mean over the window of a block, NaN if there are too few rows. Sums are in the order of the blocks.
   * @param {number} block the same or a later one at every call
   * @param {number} last the last block
   * @param {Float64Array} out
   */
  mean(block, last, out) {
    const stop = Math.min(block + AHEAD, last, this.sums.stop - 1) + 1;
    let total = this.head;
    if (block <= BACK) {
      this.addBlocks(total, this.headStop, stop);
      this.headStop = Math.max(this.headStop, stop);
    } else {
      total = this.total.fill(0);
      this.addBlocks(total, block - BACK, stop);
    }
    const count = total[this.width];
    for (let k = 0; k < this.width; k += 1) out[k] = count >= MIN_COUNT ? total[k] / count : NaN;
    return out;
  }

  /** @param {Float64Array} total @param {number} start @param {number} stop */
  addBlocks(total, start, stop) {
    for (let block = start; block < stop; block += 1) {
      const at = this.sums.at(block);
      const { values } = this.sums;
      if (values[at + this.width]) for (let k = 0; k <= this.width; k += 1) total[k] += values[at + k];
    }
  }

  /** Drop the blocks before one. @param {number} before */
  forget(before) {
    this.sums.forget(before);
  }
}
