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

  /** Move to the window of a block, of those of `count` beats. @param {number} block one of the next blocks @param {number} count */
  move(block, count) {
    const [start, stop] = [Math.max(block - BACK, 0) * BLOCK, Math.min((block + AHEAD + 1) * BLOCK, count)];
    for (; this.stop < stop; this.stop += 1) this.sorted.add(this.valueOf(this.stop));
    for (; this.start < start; this.start += 1) this.sorted.remove(this.valueOf(this.start));
    return this.sorted;
  }
}

/** Means of rows of chosen beats over the window of a block. */
export class RunningMeans {
  /** @param {number} width of a row */
  constructor(width) {
    this.width = width;
    /** Sum and number of rows of each block that has any. @type {Map<number, {sum: Float64Array, count: number}>} */
    this.blocks = new Map();
    /** Sum over the first blocks, which all windows begin with until one has BACK blocks before its own. */
    this.head = { sum: new Float64Array(width), count: 0, stop: 0 };
  }

  /** @param {number} block @param {Float64Array} row */
  add(block, row) {
    const entry = this.blocks.get(block) ?? { sum: new Float64Array(this.width), count: 0 };
    this.blocks.set(block, entry);
    entry.count += 1;
    for (let k = 0; k < row.length; k += 1) entry.sum[k] += row[k];
  }

  /**
   * The mean over the window of a block, NaN if there are too few rows. Sums are in the order of the blocks.
   * @param {number} block the same or a later one at every call
   * @param {number} last the last block
   * @returns {Float64Array}
   */
  mean(block, last) {
    const stop = Math.min(block + AHEAD, last) + 1;
    const total = block <= BACK ? this.head : { sum: new Float64Array(this.width), count: 0, stop: block - BACK };
    for (; total.stop < stop; total.stop += 1) {
      const entry = this.blocks.get(total.stop);
      if (!entry) continue;
      total.count += entry.count;
      for (let k = 0; k < this.width; k += 1) total.sum[k] += entry.sum[k];
    }
    return total.sum.map((sum) => (total.count >= MIN_COUNT ? sum / total.count : NaN));
  }

  /** Drop the blocks before one. @param {number} before */
  forget(before) {
    for (const block of this.blocks.keys()) if (block < before) this.blocks.delete(block);
  }
}
