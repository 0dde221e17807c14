"""Samples around the beats of a lead, and how long a QRS is steep."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ecgfed.domain.signal.filters import Stretches

STEEP_SHARE, STEEP_AROUND_S, STEEP_MEAN_S = 0.3, 0.14, 0.008
#: Fewer beats say nothing of a whole record.
MIN_BEATS = 5
#: How much of a long recording is looked at at once.
CHUNK_S = 1200.0


def around(
    signal: Stretches, fs_hz: float, peaks: NDArray[np.int64], before: int, after: int
) -> Iterator[NDArray[np.float64]]:
    """Yield (beats, before + after + 1) samples around the peaks that are not too near an end, some beats at a time.

    Nothing is yielded where there are too few of them.
    """
    inside = peaks[(peaks >= before) & (peaks + after < len(signal))]
    if len(inside) < MIN_BEATS:
        return
    chunk = inside // max(1, round(CHUNK_S * fs_hz))
    for some in np.split(inside, np.flatnonzero(np.diff(chunk)) + 1):
        first = int(some[0]) - before
        stretch = signal[first : int(some[-1]) + after + 1]
        yield stretch[(some - first)[:, None] + np.arange(-before, after + 1)]


@dataclass(frozen=True)
class _Slope:
    """How fast a lead changes, mV a sample."""

    signal: Stretches

    def __len__(self) -> int:
        return len(self.signal)

    def __getitem__(self, stretch: slice) -> NDArray[np.float64]:
        start, stop, _ = stretch.indices(len(self))
        first = max(start - 1, 0)
        slope: NDArray[np.float64] = np.abs(np.gradient(self.signal[first : stop + 1]))
        return slope[start - first : stop - first]


def steep_time_s(signal: Stretches, fs_hz: float, peaks: NDArray[np.int64]) -> float | None:
    """Median time (s) around a peak in which the smoothed slope exceeds 30% of its highest value."""
    half = round(STEEP_AROUND_S * fs_hz)
    width = max(1, round(STEEP_MEAN_S * fs_hz))
    steep = []
    for slope in around(_Slope(signal), fs_hz, peaks, half, half):
        summed = np.cumsum(np.pad(slope, ((0, 0), (1, 0))), axis=1)
        smooth = summed[:, width:] - summed[:, :-width]
        steep.append((smooth > STEEP_SHARE * smooth.max(axis=1, keepdims=True)).sum(axis=1))
    return float(np.median(np.concatenate(steep)) / fs_hz) if steep else None
