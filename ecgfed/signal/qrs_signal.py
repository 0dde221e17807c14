"""What the QRS detector looks at: slope energy, its level over the last seconds, and windows around its peaks.

Every lead is brought to 200 samples a second in whole microvolts, and every filter after that is a sum of whole
numbers. Such sums have no rounding, so the values do not depend on how a stream was cut into chunks, to the last bit.
The rest is arithmetic on single elements. Nothing looks further than ``LOOK_BACK`` or ``LOOK_AHEAD``, levels apart,
which remember thirty seconds.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

#: Samples a second of everything in this module, and samples in the blocks whose levels are taken.
RATE_HZ = 200
BLOCK = 200
#: Samples of the 200 Hz signal that a block's features need before its start and after its end.
WINDOW_BACK, WINDOW_AHEAD = 400, 300
_BASE = 151  # samples of the mean that is taken for the baseline (0.755 s)
LOOK_BACK, LOOK_AHEAD = WINDOW_BACK + _BASE // 2, WINDOW_AHEAD + _BASE // 2
#: Half the shortest distance of two candidates (90 ms).
APART = 18
#: The lowest joint envelope of a candidate, beside 1 for a usual beat on one clean lead.
LOWEST = 0.02
#: A level below this (microvolt of slope) is that of a lead with nothing on it.
FLOOR_UV = 4.0
#: Where the features of a lead are read, in samples from the candidate: shape close by, envelope far around.
SHAPE_AT = np.concatenate([np.arange(-120, -32, 8), np.arange(-30, 31, 2), np.arange(33, 121, 8)])
ENVELOPE_AT = np.concatenate([np.arange(-400, -60, 12), np.arange(-60, 61, 6), np.arange(66, 301, 12)])
#: Where the features of a possible R peak are read, in samples from that extremum.
PEAK_SHAPE_AT = np.concatenate([np.arange(-60, -24, 6), np.arange(-24, 25, 2), np.arange(30, 61, 6)])
PEAK_ENVELOPE_AT = np.arange(-30, 31, 6)
#: How far from a candidate its R peak may stand (140 ms), and how many extrema are compared.
REACH, EXTREMA = 28, 8
LEVELS = 5
LEAD_FEATURES = len(SHAPE_AT) + len(ENVELOPE_AT) + LEVELS
PEAK_FEATURES = len(PEAK_SHAPE_AT) + len(PEAK_ENVELOPE_AT) + 1
#: Features are whole multiples of 1/256, between -4 and 4.
UNIT = 256


def resample(signal_uv: Ints, first: int, start: int, stop: int, fs_hz: float, end: int | None) -> Ints:
    """Average a signal over each 5 ms (or over one sample, where those are longer).

    Args:
        signal_uv: (leads, samples) whole microvolts, from sample ``first`` of the stream on.
        first: where it begins.
        start: first 200 Hz sample wanted.
        stop: end of the 200 Hz samples wanted.
        fs_hz: sampling frequency of the signal.
        end: length of the stream, where it has ended there; else ``None``.

    Returns:
        (leads, stop - start) whole microvolts.
    """
    step = fs_hz / RATE_HZ
    width = max(step, 1.0)
    centre = np.arange(start, stop) * step + 0.5
    low = np.maximum(centre - width / 2, 0.0)
    high = centre + width / 2
    if end is not None:
        high = np.minimum(high, float(end))
    a, b = np.floor(low).astype(np.int64), np.floor(high).astype(np.int64)
    after, before = high - b, low - a
    made = np.empty((len(signal_uv), len(a)), np.int64)
    for lead, samples in enumerate(signal_uv):
        total = np.concatenate([[0], np.cumsum(samples)])
        padded = np.concatenate([samples, samples[-1:]])  # a window that ends with the signal has nothing of the next
        inside = (total.take(b - first) - total.take(a - first)).astype(np.float64)
        sums = inside + after * padded.take(b - first) - before * padded.take(a - first)
        made[lead] = np.rint(sums / (high - low))
    return made


def resampled_count(samples: int, fs_hz: float, ended: bool) -> int:
    """How many 200 Hz samples ``samples`` of a stream give: those whose 5 ms are over, or all when it has ended."""
    step = fs_hz / RATE_HZ
    reach = 0.0 if ended else max(step, 1.0) / 2
    count = int(np.ceil(samples / step)) + 2
    while count > 0 and (count - 1) * step + 0.5 + reach > samples:
        count -= 1
    return count


def _sums(signal: Ints, length: int) -> Ints:
    """Return the sums of every ``length`` neighbours, (leads, samples - length + 1)."""
    total = np.cumsum(signal, axis=1)
    total[:, length:] -= total[:, :-length].copy()
    out: Ints = total[:, length - 1 :]
    return out


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
    smooth: Ints


def traces(signal_uv: Ints, start: int) -> Traces:
    """Filter a stretch (leads, samples) that reaches half a baseline further on both sides than what is returned.

    The smoothing (means of 4 and of 3 samples) has a zero at 50 Hz and leaves 2% at 60 Hz; the slope is a difference
    over 30 ms, which favours 10 to 20 Hz, where a QRS complex has its energy.
    """
    half = _BASE // 2
    inner = signal_uv[:, half - 14 : signal_uv.shape[1] - half + 13]  # what the envelope needs
    smooth = _sums(_sums(inner, 4), 3)  # twelvefold; sample i stands for i + 3 of ``inner``
    slope = np.abs(smooth[:, 6:] - smooth[:, :-6])
    envelope = _sums(slope, 17) / (12 * 17)
    base = _sums(signal_uv, _BASE)
    count = base.shape[1]
    shape = smooth[:, 11 : 11 + count] / 12 - base / _BASE
    return Traces(start + half, shape, envelope, _sums(signal_uv[:, half - 1 : half + count + 1], 3))


def block_statistics(envelope: Floats) -> Floats:
    """Return maximum and median of the envelope (leads, samples) in each block, the last maybe short: (2, leads, n)."""
    leads, samples = envelope.shape
    whole = samples // BLOCK
    blocks = envelope[:, : whole * BLOCK].reshape(leads, whole, BLOCK)
    middle = np.partition(blocks, BLOCK // 2, axis=2)[:, :, BLOCK // 2]
    found = np.stack([blocks.max(axis=2), middle])
    if samples > whole * BLOCK:
        rest = np.sort(envelope[:, whole * BLOCK :], axis=1)
        found = np.concatenate([found, np.stack([rest[:, -1:], rest[:, rest.shape[1] // 2, None]])], axis=2)
    return found


def _order(window: Floats, count: NDArray[np.int64], share: float) -> Floats:
    """Return an order statistic along the last axis of sorted rows of which only the first ``count`` are values."""
    at = np.floor(share * (count - 1) + 0.5).astype(np.int64)
    return np.take_along_axis(window, np.broadcast_to(at[:, None], (*window.shape[:-1], 1)), axis=-1)[..., 0]


def levels(statistics: Floats, begin: int, first: int, stop: int) -> Floats:
    """Describe the seconds up to each block, and for the very first block also the second one, which ends it.

    Args:
        statistics: (2, leads, blocks) maxima and medians of the envelope.
        begin: the first block in ``statistics``, at least 29 before ``first`` or 0.
        first: first block wanted.
        stop: end of the blocks wanted.

    Returns:
        (5, leads, stop - first): the level (65th percentile of ten maxima), median, highest and lowest fifth of ten
        seconds, and the level over thirty.
    """
    last = np.arange(first, stop)
    last[last == 0] = min(1, begin + statistics.shape[2] - 1)
    padded = np.pad(statistics, ((0, 0), (0, 0), (29, 0)), constant_values=np.inf)
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
        ]
    )


def lead_weights(level: Floats) -> Floats:
    """How much a lead counts when candidates are looked for: the less it shows between the beats, the more.

    Args:
        level: (5, leads, blocks) from ``levels``.

    Returns:
        (leads, blocks), 0 where there is nothing on the lead, at most 1.
    """
    high, middle = level[0], level[1]
    weight = np.maximum(0.05, 1 - 3 * middle / np.maximum(high, FLOOR_UV))
    return np.where(high >= FLOOR_UV, weight, 0.0)


def candidates(envelope: Floats, level: Floats, back: int) -> Ints:
    """Find the peaks of the leads' joint envelope.

    Args:
        envelope: (leads, samples), from ``back`` samples before the first block on.
        level: (5, leads, blocks) of the blocks to search and of one more on each side.
        back: samples of ``envelope`` before the first block to search.

    Returns:
        Positions in ``envelope``, more than 90 ms apart.
    """
    from scipy.ndimage import maximum_filter1d

    blocks = level.shape[2] - 2
    scale = np.repeat(lead_weights(level) / np.maximum(level[0], FLOOR_UV), BLOCK, axis=1)
    count = blocks * BLOCK
    joint = np.zeros(count + 2 * APART)
    for lead in range(len(envelope)):  # one after the other, so that the sum has one order
        stretch = envelope[lead, back - APART : back + count + APART]
        joint += scale[lead, BLOCK - APART : BLOCK + count + APART] * stretch
    highest = maximum_filter1d(joint, APART)  # of samples -9 to +8
    before, after = highest[APART // 2 : APART // 2 + count], highest[APART + APART // 2 + 1 :][:count]
    here = joint[APART : APART + count]
    return np.flatnonzero((here > before) & (here >= after) & (here > LOWEST)) + back


def logarithm(ratio: Floats) -> Floats:
    """Return log2 of positive numbers, by straight lines between the powers of two: exact and the same everywhere."""
    mantissa, exponent = np.frexp(ratio)
    return np.asarray(exponent - 2 + 2 * mantissa, dtype=np.float64)


def _fixed(features: Floats) -> NDArray[np.float64]:
    return np.rint(np.clip(features, -4.0, 4.0) * UNIT)


def lead_features(made: Traces, at: Ints, level: Floats) -> Floats:
    """Return what each lead shows around each candidate.

    Args:
        made: the traces.
        at: (candidates,) positions in them.
        level: (5, leads, candidates) levels of each candidate's block.

    Returns:
        (leads, candidates, LEAD_FEATURES) whole numbers, features times ``UNIT``, as float64.
    """
    high = np.maximum(level[0], 2 * FLOOR_UV)[..., None]
    shape = made.shape[:, at[:, None] + SHAPE_AT] / (4 * high)
    envelope = made.envelope[:, at[:, None] + ENVELOPE_AT] / high
    ratios = [logarithm(np.maximum(level[i], 1.0) / high[..., 0]) / 2 for i in (1, 2, 3, 4)]
    ratios.append(logarithm(high[..., 0] / 100) / 4)
    return _fixed(np.concatenate([shape, envelope, np.stack(ratios, axis=-1)], axis=-1))


def extrema(made: Traces, lead: int, at: Ints, level: Floats) -> tuple[Ints, NDArray[np.bool_], Floats]:
    """List the local extrema of one lead around each beat, the most prominent first, and describe each.

    Args:
        made: the traces.
        lead: which lead.
        at: (beats,) positions in them.
        level: (beats,) that lead's level.

    Returns:
        Positions (beats, EXTREMA), which of them there are, and (beats, EXTREMA, PEAK_FEATURES) as ``lead_features``.
    """
    smooth, shape = made.smooth[lead], made.shape[lead]
    slope = np.diff(smooth)
    turns = np.flatnonzero(((slope[:-1] > 0) & (slope[1:] <= 0)) | ((slope[:-1] < 0) & (slope[1:] >= 0))) + 1
    if not len(turns):
        turns = np.array([-(10**9)])
    first = np.searchsorted(turns, at - REACH)
    index = first[:, None] + np.arange(2 * REACH + 1)
    place = turns[np.minimum(index, len(turns) - 1)]
    there = (index < len(turns)) & (np.abs(place - at[:, None]) <= REACH)
    place = np.where(there, place, at[:, None])
    height = np.where(there, np.abs(shape[place]), -1.0)
    order = np.argsort(-height, axis=1, kind="stable")[:, :EXTREMA]
    place, there = np.take_along_axis(place, order, 1), np.take_along_axis(there, order, 1)
    high = np.maximum(level, 2 * FLOOR_UV)[:, None, None]
    features = [
        shape[place[..., None] + PEAK_SHAPE_AT] / (4 * high),
        made.envelope[lead][place[..., None] + PEAK_ENVELOPE_AT] / high,
        ((place - at[:, None]) / 20)[..., None],
    ]
    return place, there, _fixed(np.concatenate(features, axis=-1))
