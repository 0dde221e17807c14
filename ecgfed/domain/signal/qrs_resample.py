"""Every sampling frequency brought to the QRS detector's 200 a second: means over 5 ms, the same however it is cut."""

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ecgfed.domain.signal.qrs_signal import RATE_HZ, Integers, Ints

#: Frequencies whose windows repeat after more 200 Hz samples than this are counted one by one.
_LONGEST = 40


@dataclass(frozen=True)
class _Windows:
    """Where the means of some 200 Hz samples begin and end: between samples of the signal.

    Attributes:
        low: whole samples before the beginning.
        high: whole samples before the end.
        before: part of sample ``low`` that lies before the beginning.
        after: part of sample ``high`` that lies before the end.
        over: 1 / length.
    """

    low: Ints
    high: Ints
    before: NDArray[np.float64]
    after: NDArray[np.float64]
    over: NDArray[np.float64]


def _between(low: NDArray[np.float64], high: NDArray[np.float64]) -> _Windows:
    a, b = np.floor(low).astype(np.int64), np.floor(high).astype(np.int64)
    return _Windows(a, b, low - a, high - b, 1 / (high - low))


def _edges(numbers: Ints, step: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    centre: NDArray[np.float64] = np.asarray(numbers * step + 0.5, dtype=np.float64)
    half = max(step, 1.0) / 2
    return np.asarray(centre - half), np.asarray(centre + half)


@lru_cache(maxsize=16)
def _period(fs_hz: float) -> tuple[int, int, _Windows] | None:
    """Return (samples, 200 Hz samples) after which the windows repeat, and those of one period; None if it is long."""
    share = Fraction(fs_hz / RATE_HZ).limit_denominator(_LONGEST)
    if abs(float(share) - fs_hz / RATE_HZ) > 1e-12:
        return None
    return share.numerator, share.denominator, _between(*_edges(np.arange(share.denominator), float(share)))


def _windows(numbers: Ints, fs_hz: float, end: int | None) -> _Windows:
    """Return the windows of some 200 Hz samples; the stream has nothing before 0, nor after ``end``."""
    step, period = fs_hz / RATE_HZ, _period(fs_hz)
    if period is None:
        windows = _between(*_edges(numbers, step))
    else:
        samples, count, single = period
        times, phase = np.divmod(numbers, count)
        low, high = single.low[phase] + times * samples, single.high[phase] + times * samples
        windows = _Windows(low, high, single.before[phase], single.after[phase], single.over[phase])
    low_edge, high_edge = _edges(numbers, step)
    outside = low_edge < 0
    if end is not None:
        outside |= high_edge > end
        high_edge = np.minimum(high_edge, float(end))
    if outside.any():
        cut = _between(np.maximum(low_edge, 0.0)[outside], high_edge[outside])
        for name in ("low", "high", "before", "after", "over"):
            getattr(windows, name)[outside] = getattr(cut, name)
    return windows


def resample(signal_uv: Integers, first: int, start: int, stop: int, fs_hz: float, end: int | None) -> Integers:
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
    out = np.empty((len(signal_uv), stop - start), np.int32)
    begin, finish = _middle(start, stop, fs_hz, ended=end is not None)
    outer = np.concatenate([np.arange(start, begin), np.arange(finish, stop)])
    windows = _windows(outer, fs_hz, end)
    a, b = windows.low - first, windows.high - first
    for lead, samples in enumerate(signal_uv):
        padded = np.append(samples, samples[-1:])  # a window that ends with the signal has nothing of the next
        total = np.zeros(len(samples) + 1, np.int32)
        np.cumsum(samples, out=total[1:], dtype=np.int32)
        inside = total[b] - total[a]
        sums = (inside + windows.after * padded[b] - windows.before * padded[a]) * windows.over
        sums = np.rint(sums)
        out[lead, : begin - start], out[lead, finish - start :] = (sums[: begin - start], sums[begin - start :])
        if begin < finish:
            _by_phase(padded, total, first, begin, fs_hz, out[lead, begin - start : finish - start])
    return out


def _middle(start: int, stop: int, fs_hz: float, *, ended: bool) -> tuple[int, int]:
    """Return the whole periods among some 200 Hz samples, away from the stream's ends; (stop, stop) for none."""
    period = _period(fs_hz)
    if period is None:
        return stop, stop
    count = period[1]
    begin = max(-(-start // count), 1) * count
    finish = (stop - (count + 2 if ended else 0)) // count * count
    return (begin, finish) if finish - begin >= 4 * count else (stop, stop)


def _by_phase(padded: Integers, total: Integers, first: int, begin: int, fs_hz: float, out: Integers) -> None:
    """Fill whole periods: the windows of one phase lie evenly, so slices do instead of indices."""
    period = _period(fs_hz)
    assert period is not None
    samples, count, single = period
    times = len(out) // count
    at = begin // count * samples - first
    for phase in range(count):
        a, b = at + int(single.low[phase]), at + int(single.high[phase])
        from_a = slice(a, a + samples * (times - 1) + 1, samples)
        from_b = slice(b, b + samples * (times - 1) + 1, samples)
        inside = total[from_b] - total[from_a]
        sums = inside + single.after[phase] * padded[from_b] - single.before[phase] * padded[from_a]
        sums *= single.over[phase]
        out[phase::count] = np.rint(sums)


def resampled_count(samples: int, fs_hz: float, ended: bool) -> int:
    """How many 200 Hz samples ``samples`` of a stream give: those whose 5 ms are over, or all when it has ended."""
    step = fs_hz / RATE_HZ
    reach = 0.0 if ended else max(step, 1.0) / 2
    count = int(np.ceil(samples / step)) + 2
    while count > 0 and (count - 1) * step + 0.5 + reach > samples:
        count -= 1
    return count
