"""What the QRS detector looks at: slope energy, its level over the last seconds, and the peaks of it.

Every lead is brought to 200 samples a second in whole microvolts, and every filter after that is a sum of whole
numbers (int32; a sum that runs over comes back when the next one is taken off). Such sums have no rounding, so the
values do not depend on how a stream was cut into chunks, to the last bit. The rest is arithmetic on single elements.
Nothing looks further than ``LOOK_BACK`` or ``LOOK_AHEAD``, levels apart, which remember thirty seconds.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Integers = NDArray[np.int32]
Floats = NDArray[np.float32]

#: Samples a second of everything in this module, and samples in the blocks whose levels are taken.
RATE_HZ = 200
BLOCK = 200
#: Samples of the 200 Hz signal that a block's features need before its start and after its end.
WINDOW_BACK, WINDOW_AHEAD = 330, 200
_BASE = 151  # samples of the mean that is taken for the baseline (0.755 s)
LOOK_BACK, LOOK_AHEAD = WINDOW_BACK + _BASE // 2, WINDOW_AHEAD + _BASE // 2
#: How far the envelope reaches, and samples after a block with which its features are known. What is missing up to
#: ``LOOK_AHEAD`` changes shapes alone that no feature reads.
ENVELOPE_BACK, ENVELOPE_AHEAD = 14, 13
NEEDED_AHEAD = WINDOW_AHEAD + ENVELOPE_AHEAD
#: Half the shortest distance of two candidates (90 ms).
APART = 18
#: The lowest joint envelope of a candidate, beside 1 for a usual beat.
LOWEST = 0.04
#: A level below this (microvolt of slope) is that of a lead with nothing on it.
FLOOR_UV = 4.0
#: A recording's first levels are taken from this many blocks: they lie ahead, for there is nothing before.
FIRST_BLOCKS = 4


def _sums(signal: Integers, length: int) -> Integers:
    """Return the sums of every ``length`` neighbours, (leads, samples - length + 1), doubled up from pairs."""
    count = signal.shape[1] - length + 1
    sums, at, width, power = np.zeros((len(signal), count), np.int32), 0, 1, signal
    while length:
        if length & 1:
            sums += power[:, at : at + count]
            at += width
        length >>= 1
        if length:
            power = power[:, :-width] + power[:, width:]
            width *= 2
    return sums


def _slopes(signal_uv: Integers) -> tuple[Integers, Floats]:
    """Return the signal over 30 ms, twelvefold, sample i standing for i + 3 of it, and its envelope."""
    smooth = _sums(_sums(signal_uv, 4), 3)
    slope = np.abs(smooth[:, 6:] - smooth[:, :-6])
    return smooth, _sums(slope, 17).astype(np.float32) / np.float32(12 * 17)


def envelope_of(signal_uv: Integers) -> Floats:
    """Return the envelope of a stretch (leads, samples), as of ``Traces``.

    It begins ``ENVELOPE_BACK`` samples after the stretch, and ends ``ENVELOPE_AHEAD`` before its end.
    """
    return _slopes(signal_uv)[1]


@dataclass(frozen=True)
class Traces:
    """What is derived from a stretch of the 200 Hz signal, all (leads, samples) and aligned, from ``start`` on.

    Attributes:
        start: 200 Hz sample at which the stretch begins.
        shape: microvolt, baseline removed, smoothed over 30 ms.
        envelope: microvolt in 30 ms: mean over 85 ms of the slope's magnitude.
        smooth: three times the signal smoothed over 15 ms, in whole microvolts, for the place of the R peak.
    """

    start: int
    shape: Floats
    envelope: Floats
    smooth: Integers
    _turns: dict[int, Ints] = field(default_factory=dict, repr=False)

    def some(self, rows: Ints) -> "Traces":
        """Return those of some leads."""
        return Traces(self.start, self.shape[rows], self.envelope[rows], self.smooth[rows])

    def turns(self, lead: int) -> Ints:
        """Return the positions of the local extrema of a lead, smoothed, far before the stretch where it has none."""
        if lead not in self._turns:
            rising, falling = (
                self.smooth[lead, 1:] > self.smooth[lead, :-1],
                self.smooth[lead, 1:] < self.smooth[lead, :-1],
            )
            at = np.flatnonzero((rising[:-1] & ~rising[1:]) | (falling[:-1] & ~falling[1:])) + 1
            self._turns[lead] = at if len(at) else np.array([-(10**9)])
        return self._turns[lead]


def traces(signal_uv: Integers, start: int) -> Traces:
    """Filter a stretch (leads, samples) that reaches half a baseline further on both sides than what is returned.

    The smoothing (means of 4 and of 3 samples) has a zero at 50 Hz and leaves 2% at 60 Hz; the slope is a difference
    over 30 ms, which favours 10 to 20 Hz, where a QRS complex has its energy.
    """
    half = _BASE // 2
    inner = signal_uv[:, half - ENVELOPE_BACK : signal_uv.shape[1] - half + ENVELOPE_AHEAD]
    smooth, envelope = _slopes(inner)
    total = np.zeros((len(signal_uv), signal_uv.shape[1] + 1), np.int32)
    np.cumsum(signal_uv, axis=1, dtype=np.int32, out=total[:, 1:])
    base = total[:, _BASE:] - total[:, :-_BASE]  # for a long sum faster than ``_sums``
    count = base.shape[1]
    shape = smooth[:, 11 : 11 + count].astype(np.float32) / np.float32(12)
    shape -= base.astype(np.float32) / np.float32(_BASE)
    return Traces(start + half, shape, envelope, _sums(signal_uv[:, half - 1 : half + count + 1], 3))


def block_statistics(envelope: Floats) -> Floats:
    """Return maximum and median of the envelope (leads, samples) in each block, the last maybe short: (2, leads, n)."""
    leads, samples = envelope.shape
    rounded = samples // BLOCK
    blocks = envelope[:, : rounded * BLOCK].reshape(leads, rounded, BLOCK)
    middle = np.partition(blocks, BLOCK // 2, axis=2)[:, :, BLOCK // 2]
    statistics = np.stack([blocks.max(axis=2), middle])
    if samples > rounded * BLOCK:
        rest = np.sort(envelope[:, rounded * BLOCK :], axis=1)
        statistics = np.concatenate([statistics, np.stack([rest[:, -1:], rest[:, rest.shape[1] // 2, None]])], axis=2)
    return statistics


def _order(window: Floats, count: NDArray[np.int64], share: float) -> Floats:
    """Return an order statistic along the last axis of sorted rows of which only the first ``count`` are values."""
    at = np.floor(share * (count - 1) + 0.5).astype(np.int64)
    return np.asarray(window[..., np.arange(len(at)), at])


def levels(statistics: Floats, begin: int, first: int, stop: int) -> Floats:
    """Describe the seconds up to each block; for the first ones the first four, which may lie ahead.

    Args:
        statistics: (2, leads, blocks) maxima and medians of the envelope.
        begin: the first block in ``statistics``, at least 29 before ``first`` or 0.
        first: first block wanted.
        stop: end of the blocks wanted.

    Returns:
        (6, leads, stop - first): the level (65th percentile of ten maxima), median, highest and lowest fifth of ten
        seconds, the level over thirty, and the block's own maximum.
    """
    last = np.maximum(np.arange(first, stop), min(FIRST_BLOCKS, begin + statistics.shape[2]) - 1)
    padded = np.full((*statistics.shape[:2], statistics.shape[2] + 29), np.inf, np.float32)
    padded[..., 29:] = statistics
    view = np.lib.stride_tricks.sliding_window_view(padded, 30, axis=2)[:, :, last - begin]
    ten, thirty = np.sort(view[..., 20:], axis=-1), np.sort(view[0], axis=-1)
    count = np.minimum(last + 1, 10)
    return np.stack(
        [
            _order(ten[0], count, 0.65),
            _order(ten[1], count, 0.5),
            _order(ten[0], count, 1.0),
            _order(ten[0], count, 0.2),
            _order(thirty, np.minimum(last + 1, 30), 0.65),
            statistics[0][:, first - begin : stop - begin],
        ]
    )


def lead_weights(level: Floats) -> Floats:
    """How much a lead counts when candidates are looked for: the less it shows between the beats, the more.

    Args:
        level: (6, leads, blocks) from ``levels``.

    Returns:
        (leads, blocks), 0 where there is nothing on the lead, in ten seconds or in this one; at most 1.
    """
    high, middle = level[0], level[1]
    weight = np.maximum(np.float32(0.05), 1 - 3 * middle / np.maximum(high, np.float32(FLOOR_UV)))
    return np.where((high >= FLOOR_UV) & (level[5] >= FLOOR_UV), weight, np.float32(0))


def candidates(envelope: Floats, level: Floats, back: int) -> Ints:
    """Find the peaks of the leads' joint envelope.

    Args:
        envelope: (leads, samples), from ``back`` samples before the first block on.
        level: (6, leads, blocks) of the blocks to search and of one more on each side.
        back: samples of ``envelope`` before the first block to search.

    Returns:
        Positions in ``envelope``, more than 90 ms apart.
    """
    blocks = level.shape[2] - 2
    weight, rounded = lead_weights(level), np.zeros(level.shape[2], np.float32)
    for lead_weight in weight:  # one after the other, so that the sum has one order
        rounded += lead_weight
    scale = weight / np.maximum(level[0], np.float32(FLOOR_UV)) / np.maximum(rounded, np.float32(0.05))
    count = blocks * BLOCK
    joint = np.zeros(count + 2 * APART, np.float32)
    for lead in range(len(envelope)):
        along = np.repeat(scale[lead], BLOCK)[BLOCK - APART : BLOCK + count + APART]
        joint += along * envelope[lead, back - APART : back + count + APART]
    center = joint[APART : APART + count]
    highest = _maxima(joint)
    before, after = highest[:count], highest[APART + 1 : APART + 1 + count]
    return np.flatnonzero((center > before) & (center >= after) & (center > LOWEST)) + back


def _maxima(joint: Floats) -> Floats:
    """Return the maximum of every ``APART`` neighbours."""
    two = np.maximum(joint[:-1], joint[1:])
    four = np.maximum(two[:-2], two[2:])
    eight = np.maximum(four[:-4], four[4:])
    sixteen = np.maximum(eight[:-8], eight[8:])
    return np.asarray(np.maximum(sixteen[:-2], two[16:]))
