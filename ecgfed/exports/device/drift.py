"""Drift detection: whether a patient's beats have changed since the first minutes, so that new labels are needed.

Integer counts over the last beats are compared with those over the first ones, once per beat, which is simple to port
to other languages (docs/stream.md). benchmarks/drift documents how each bound was chosen, its error rates and delays.
"""

import math
from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecgfed.base.language import capitalized, joined_message, message, tr_later
from ecgfed.domain.beats.extract import FLAG_POOR_QUALITY
from ecgfed.domain.beats.patient_beat import QRS
from ecgfed.domain.signal.quality import LIMIT_MV

#: A beat's shape: its window averaged over four samples each, in integer microvolts.
SHAPE, _EACH = 64, 4

#: Reasons of drift with their messages.
REASONS: dict[str, str] = {
    "far": tr_later("more beats than before look like none the model was trained on"),
    "uncertain": tr_later("more beats than before have a class that is not sure"),
    "classes": tr_later("the classes are no longer those of the first minutes"),
    "shape": tr_later("the commonest beats have another shape than in the first minutes"),
    "size": tr_later("the QRS has another height than in the first minutes: was the gain or the electrode changed?"),
    "poor": tr_later("the signal has become poor: look at the electrodes"),
    "silence": tr_later("no beat has come for a minute: look at the electrodes"),
}
#: Maximum number of stored events.
MAX_EVENTS = 1000
#: Reasons due to the signal, for which new labels do not help.
OF_THE_SIGNAL = frozenset({"poor", "silence"})


@dataclass(frozen=True)
class DriftBounds:
    """Bounds above which a change is reported.

    Attributes:
        first: number of reference beats: the first ones of good quality.
        last: number of current beats: the last ones, of any quality.
        far: increase of the fraction of good-quality beats that are out of distribution.
        uncertain: increase of the fraction of good-quality beats of low confidence.
        classes: total variation distance between the class distributions.
        shape: 1 minus the correlation between the mean beats of the most frequent reference class.
        poor: increase of the fraction of poor-quality beats.
        size: ratio, or inverse ratio, between the QRS amplitudes of the most frequent reference class.
        silence_s: time without beats, in seconds.
        end: a change ends when its value falls below this fraction of its bound.
    """

    first: int = 300
    last: int = 200
    far: float = 0.2
    uncertain: float = 0.65
    classes: float = 0.65
    shape: float = 0.2
    poor: float = 0.5
    size: float = 1.9
    silence_s: float = 60.0
    end: float = 0.5


class DriftEvent(NamedTuple):
    """Start or end of a change.

    Attributes:
        time_s: time of the beat at which it was detected, in seconds since the start of the stream.
        reason: one of ``REASONS``.
        began: True for the start, False for the end.
    """

    time_s: float
    reason: str
    began: bool


class _Beat(NamedTuple):
    label: int
    uncertain: bool
    out_of_distribution: bool
    poor: bool
    size_uv: int
    shape_uv: NDArray[np.int64]


class _Counts:
    """Counts of beats, and sums of sizes and shapes per class."""

    def __init__(self, classes: int) -> None:
        self.beats = self.good = self.uncertain = self.out_of_distribution = 0
        self.label, self.size_uv = [0] * classes, [0] * classes
        self.shape_uv = np.zeros((classes, SHAPE), np.int64)

    def add(self, beat: _Beat, times: int = 1) -> None:
        """Add a beat, or remove it with ``times`` -1."""
        self.beats += times
        if beat.poor:
            return
        self.good += times
        self.uncertain += times * beat.uncertain
        self.out_of_distribution += times * beat.out_of_distribution
        self.label[beat.label] += times
        self.size_uv[beat.label] += times * beat.size_uv
        self.shape_uv[beat.label] += times * beat.shape_uv


class Drift:
    """Detects drift in the predictions of a stream.

    Args:
        classes: number of classes.
        bounds: bounds above which a change is reported.
    """

    def __init__(self, classes: int, bounds: DriftBounds = DriftBounds()) -> None:
        self.classes, self.bounds = classes, bounds
        self.restart()

    def restart(self) -> None:
        """Restart with new reference beats: after new labels, or for another patient."""
        self._at_first, self._now = _Counts(self.classes), _Counts(self.classes)
        self._last: deque[_Beat] = deque()
        self._on: set[str] = set()
        self.last_beat_s = 0.0  #: time of the last beat in seconds
        self.events: deque[DriftEvent] = deque(maxlen=MAX_EVENTS)

    @property
    def reasons(self) -> tuple[str, ...]:
        """Changes that are active, in the order of ``REASONS``."""
        return tuple(reason for reason in REASONS if reason in self._on)

    @property
    def label_again(self) -> bool:
        """Whether this patient's beats have changed: new labels are worth having."""
        return bool(self._on - OF_THE_SIGNAL)

    @property
    def text(self) -> str:
        """One sentence, or "" without changes."""
        if not self._on:
            return ""
        what = joined_message([message(REASONS[reason]) for reason in self.reasons], message("; "))
        if self.label_again:
            return message("This patient's beats have changed: label some again ({what}).", what=what)
        return message("{sentence}.", sentence=capitalized(what))

    @property
    def values(self) -> dict[str, float]:
        """Each change as a fraction of its bound; 0 before there are enough beats."""
        first, now, bounds = self._at_first, self._now, self.bounds
        ratios = dict.fromkeys(("far", "uncertain", "classes", "shape", "size", "poor"), 0.0)
        if first.good < bounds.first or now.beats < bounds.last:
            return ratios
        ratios["poor"] = (_share(now.beats - now.good, now.beats) - _share(first.beats - first.good, first.beats)) / (
            bounds.poor
        )
        if now.good * 4 >= bounds.last:
            ratios["far"] = (
                _share(now.out_of_distribution, now.good) - _share(first.out_of_distribution, first.good)
            ) / bounds.far
            ratios["uncertain"] = (_share(now.uncertain, now.good) - _share(first.uncertain, first.good)) / (
                bounds.uncertain
            )
            distance = sum(abs(a * first.good - b * now.good) for a, b in zip(now.label, first.label, strict=True))
            ratios["classes"] = distance / (2 * now.good * first.good) / bounds.classes
            ratios["shape"], ratios["size"] = self._usual_beat()
        return ratios

    def _usual_beat(self) -> tuple[float, float]:
        """Change of the commonest class's mean beat, shape and size over their bounds; 0 if too few beats have it."""
        first, now = self._at_first, self._now
        usual = first.label.index(max(first.label))
        if now.label[usual] * 4 < self.bounds.last or not first.size_uv[usual] or not now.size_uv[usual]:
            return 0.0, 0.0
        times = now.size_uv[usual] * first.label[usual] / (first.size_uv[usual] * now.label[usual])
        first_shape, now_shape = (_centred(counts.shape_uv[usual]) for counts in (first, now))
        correlation = _product(first_shape, now_shape) / max(
            math.sqrt(_product(first_shape, first_shape) * _product(now_shape, now_shape)), 1e-9
        )
        return (1 - correlation) / self.bounds.shape, (max(times, 1 / times) - 1) / (self.bounds.size - 1)

    def add(
        self,
        time_s: float,
        label: int,
        uncertain: bool,
        out_of_distribution: bool,
        flags: int,
        window_mv: NDArray[np.float32],
    ) -> None:
        """Add one beat with its final prediction.

        Args:
            time_s: time of its R peak since the start of the stream.
            label: class number.
            uncertain: whether its class has low confidence.
            out_of_distribution: whether it is unlike any training beat.
            flags: of its window (``ecgfed.domain.beats.extract``).
            window_mv: (256,) window in millivolt.
        """
        uv = np.rint(1000.0 * np.clip(window_mv.astype(np.float64), -LIMIT_MV, LIMIT_MV)).astype(np.int64)
        shape_uv, size_uv = uv.reshape(SHAPE, _EACH).sum(axis=1) // _EACH, int(np.ptp(uv[QRS]))
        beat = _Beat(label, uncertain, out_of_distribution, bool(flags & FLAG_POOR_QUALITY), size_uv, shape_uv)
        self.last_beat_s = time_s
        if self._at_first.good < self.bounds.first:
            self._at_first.add(beat)
        self._last.append(beat)
        self._now.add(beat)
        if len(self._last) > self.bounds.last:
            self._now.add(self._last.popleft(), -1)
        for reason, value in self.values.items():
            self._set(reason, value, time_s)

    def quiet(self, time_s: float, for_s: float) -> None:
        """Report the time without beats; a stream reports silence at once, but beats with a delay.

        Args:
            time_s: time since the start of the stream.
            for_s: time since the last R peak, or the start.
        """
        self._set("silence", for_s / self.bounds.silence_s, time_s)

    def _set(self, reason: str, value: float, time_s: float) -> None:
        if reason not in self._on and value > 1:
            self._on.add(reason)
            self.events.append(DriftEvent(time_s, reason, True))
        elif reason in self._on and value < self.bounds.end:
            self._on.remove(reason)
            self.events.append(DriftEvent(time_s, reason, False))


def _share(part: int, total: int) -> float:
    return part / total if total else 0.0


def _centred(sums: NDArray[np.int64]) -> list[int]:
    """Return n times the deviation from the mean, for n integers: integers again, exact in every language."""
    total = int(sums.sum())
    return [len(sums) * value - total for value in sums.tolist()]


def _product(a_values: list[int], b_values: list[int]) -> float:
    """Return the inner product, rounded once."""
    return float(sum(a * b for a, b in zip(a_values, b_values, strict=True)))
