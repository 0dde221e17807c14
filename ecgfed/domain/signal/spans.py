"""Stretches of samples as their edges: what a mask of every sample says, without the mask."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Spans:
    """Stretches in order, none of which touches another.

    Attributes:
        start: (stretches,) int64 first samples.
        stop: (stretches,) int64 the samples behind the last ones.
    """

    start: Ints
    stop: Ints

    @classmethod
    def merged(cls, edges: Iterable[tuple[int, int]]) -> "Spans":
        """Join stretches (start, stop) that may overlap and stand in any order."""
        pairs = np.array(list(edges), np.int64).reshape(-1, 2)
        pairs = pairs[pairs[:, 1] > pairs[:, 0]]
        pairs = pairs[np.argsort(pairs[:, 0], kind="stable")]
        reach = np.maximum.accumulate(pairs[:, 1])
        new = np.ones(len(pairs), np.bool_)
        new[1:] = pairs[1:, 0] > reach[:-1]
        last = np.append(np.flatnonzero(new)[1:] - 1, len(pairs) - 1) if len(pairs) else np.empty(0, np.int64)
        return cls(pairs[new, 0], reach[last])

    def __iter__(self) -> Iterator[tuple[int, int]]:
        yield from zip(self.start.tolist(), self.stop.tolist(), strict=True)

    @property
    def total(self) -> int:
        """How many samples they hold."""
        return int((self.stop - self.start).sum())

    def before(self, at: Ints) -> Ints:
        """Return how many of their samples lie before each position: what a cumulative sum of a mask says."""
        cumulative = np.concatenate([[0], np.cumsum(self.stop - self.start)])
        number = np.searchsorted(self.start, at, side="left")
        last = np.concatenate([[np.iinfo(np.int64).min], self.stop])[number]
        return np.asarray(cumulative[number] - np.maximum(last, at) + at, dtype=np.int64)

    def inside(self, at: Ints) -> NDArray[np.bool_]:
        """Say which positions (n,) lie in one of them, (n,) bool."""
        return self.overlap(at, at + 1)

    def overlap(self, start: Ints, stop: Ints) -> NDArray[np.bool_]:
        """Say which stretches ``start`` to ``stop`` (not included), (n,) each, share a sample with one; (n,) bool."""
        return self.before(stop) > self.before(start)

    def mask(self, start: int, stop: int) -> NDArray[np.bool_]:
        """Return (stop - start,) bool, true in the stretches."""
        mask = np.zeros(stop - start, np.bool_)
        first, last = np.searchsorted(self.stop, start, side="right"), np.searchsorted(self.start, stop, side="left")
        for low, high in zip(self.start[first:last].tolist(), self.stop[first:last].tolist(), strict=True):
            mask[max(low - start, 0) : high - start] = True
        return mask
