"""The beats of a recording, and which beats and RR intervals can be used."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ecgfed.domain.events.kinds import Kind

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


#: Where a wave that may be a beat lies between two beats: soon after the first one, soon before the second, or both.
SOON_AFTER, SOON_BEFORE = 1, 2


def merged(edges: Iterable[tuple[int, int]]) -> Ints:
    """Return stretches (start, stop) sorted, overlapping and adjacent ones joined: (stretches, 2) int64."""
    pairs = np.array(sorted((start, stop) for start, stop in edges if stop > start), np.int64).reshape(-1, 2)
    if not len(pairs):
        return pairs
    reach = np.maximum.accumulate(pairs[:, 1])
    new = np.append(True, pairs[1:, 0] > reach[:-1])
    last = np.append(np.flatnonzero(new)[1:] - 1, len(pairs) - 1)
    return np.stack([pairs[new, 0], reach[last]], axis=1)


@dataclass(frozen=True, eq=False)
class Beats:
    """The beats of one recording.

    Attributes:
        sample: (beats,) int64 increasing sample numbers of the R peaks.
        label: (beats,) int64 class numbers.
        classes: class names in order of their number.
        kinds: the kind of each class.
        fs_hz: sampling frequency in Hz.
        samples: length of the recording in samples.
        unusable: (stretches, 2) int64 start and stop (exclusive) of unusable stretches, as ``merged`` returns them.
        uncertain: (beats,) bool, beats whose class is not reliable; None where not assessed.
        confirmed: (beats - 1,) bool, False for an interval between two beats that a second analysis of the signal could
            not confirm (``ecgfed.domain.signal.confirm``); None: no second analysis was made.
        doubted: (beats,) bool, beats that the second analysis rejects. They count, but a lowest rate or a longest
            interval that would differ without them is not confirmed. None: no second analysis was made.
        probability: (beats, classes) a model's probability of each of its classes, the first of ``classes``: a class
            added later, such as paced beats, has none. None where a person labelled the beats.
        out_of_distribution: (beats,) bool, beats unlike any that the model was trained on; None where not assessed.
        provisional: the labels are a model's and have not been reviewed by a person.
        undetected: (beats - 1,) uint8, of intervals with a wave that may be an undetected beat: ``SOON_AFTER`` where it
            follows the first beat, plus ``SOON_BEFORE`` where the second beat follows it, sooner than beats around do;
            else 0. None: no second analysis was made.
        rejected: (beats - 1,) bool, intervals that a person rejects: a beat may be missing there. They are in no rate,
            no pause and no list of unconfirmed intervals. None: a person rejected none.
    """

    sample: Ints
    label: Ints
    classes: tuple[str, ...]
    kinds: tuple[Kind, ...]
    fs_hz: float
    samples: int
    unusable: Ints
    uncertain: Mask | None = None
    confirmed: Mask | None = None
    doubted: Mask | None = None
    probability: NDArray[np.floating] | None = None
    out_of_distribution: Mask | None = None
    provisional: bool = False
    rejected: Mask | None = None
    undetected: NDArray[np.uint8] | None = None

    def __len__(self) -> int:
        return len(self.sample)

    @cached_property
    def kind(self) -> Ints:
        """(beats,) int64, the kind of each beat."""
        return np.array(self.kinds, np.int64)[self.label]

    @cached_property
    def time_s(self) -> Floats:
        """(beats,) float64 seconds of the R peaks."""
        return np.asarray(self.sample / self.fs_hz)

    @cached_property
    def assessed(self) -> Mask:
        """(beats,) bool, true where the R peak lies outside unusable stretches. Only these beats are counted."""
        return ~self._touched(self.sample, self.sample + 1)

    @cached_property
    def rr_s(self) -> Floats:
        """(beats - 1,) float64 seconds from each beat to the next."""
        return np.asarray(np.diff(self.sample) / self.fs_hz)

    @cached_property
    def known(self) -> Mask:
        """(beats - 1,) bool, true where an interval, both its beats included, touches no unusable stretch."""
        return ~self._touched(self.sample[:-1], self.sample[1:] + 1)

    @cached_property
    def plausible(self) -> Mask:
        """(beats - 1,) bool, the intervals that are known and not rejected by a person."""
        return self.known if self.rejected is None else np.asarray(self.known & ~self.rejected)

    @cached_property
    def measured(self) -> Mask:
        """(beats - 1,) bool, the intervals used for rates and pauses: plausible, and confirmed by a second analysis."""
        return self.plausible if self.confirmed is None else np.asarray(self.plausible & self.confirmed)

    @property
    def duration_s(self) -> float:
        """Length of the recording in seconds."""
        return self.samples / self.fs_hz

    @property
    def unusable_share(self) -> float:
        """Share of the recording that is unusable."""
        return float(np.diff(self.unusable, axis=1).sum()) / max(self.samples, 1)

    def usable_s(self, start_s: float, stop_s: float) -> float:
        """Return how many seconds between two times lie outside unusable stretches."""
        start, stop = start_s * self.fs_hz, min(stop_s * self.fs_hz, self.samples)
        inside = np.clip(self.unusable, start, stop)
        return float(stop - start - (inside[:, 1] - inside[:, 0]).sum()) / self.fs_hz

    def kind_probability(self, kind: Kind) -> Floats:
        """Return the probability (beats,) that a beat is of a kind; requires ``probability``."""
        assert self.probability is not None
        of_kind = np.array([candidate is kind for candidate in self.kinds])[: self.probability.shape[1]]
        return np.asarray(self.probability[:, of_kind].sum(axis=1), np.float64)

    def has(self, kind: Kind) -> bool:
        """Return whether any class is of a kind; a kind without a class was not assessed."""
        return kind in self.kinds

    def _touched(self, start: Ints, stop: Ints) -> Mask:
        """Return which stretches share a sample with an unusable one."""
        first = np.searchsorted(self.unusable[:, 1], start, side="right")
        edge = np.append(self.unusable[:, 0], np.iinfo(np.int64).max)
        return np.asarray(edge[first] < stop)
