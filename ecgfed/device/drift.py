"""Whether a patient's beats have changed since the first minutes: then the model that knew them is to be asked again.

Counts of whole numbers over the last beats against those of the first ones, one comparison a beat, so that it can be
done in any language in some lines (docs/stream.md). What each bound was chosen on, how often it errs and how long it
takes is in benchmarks/drift.
"""

import math
from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecgfed.beats.context import QRS
from ecgfed.beats.extract import FLAG_POOR_QUALITY
from ecgfed.signal.quality import LIMIT_MV

#: A beat's shape is the mean of every four samples of its window, in whole microvolts.
SHAPE, _EACH = 64, 4

#: What may have changed, and what is to be done: the words of a line.
REASONS: dict[str, str] = {
    "far": "more beats than before look like none the model was trained on",
    "uncertain": "more beats than before have a class that is not sure",
    "classes": "the classes are no longer those of the first minutes",
    "shape": "the commonest beats have another shape than in the first minutes",
    "size": "the QRS has another height than in the first minutes: was the gain or the electrode changed?",
    "poor": "the signal has become poor: look at the electrodes",
    "silence": "no beat has come for a minute: look at the electrodes",
}
#: Changes that are remembered, the last ones.
KEPT_EVENTS = 1000
#: Reasons that speak of the signal, where new labels would not help.
OF_THE_SIGNAL = frozenset({"poor", "silence"})


@dataclass(frozen=True)
class DriftBounds:
    """When a change counts.

    Attributes:
        first: beats that are compared with: the first ones of good quality.
        last: beats that are compared: the last ones, of any quality.
        far: so much more of the beats of good quality are far than at first, a share.
        uncertain: likewise, uncertain.
        classes: share of the beats that would have to change their class for the classes to be as at first.
        shape: of the class that was the commonest at first, 1 less the correlation of the mean beat with that at first.
        poor: so much more of the beats are of poor quality than at first, a share.
        size: the QRS of the class that was the commonest at first is so many times higher or lower.
        silence_s: no beat for so long, in seconds.
        end: a change is over where it is below so much of its bound.
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
    """A change that began, or was over.

    Attributes:
        time_s: of the beat with which it was noticed, in seconds since the stream's start.
        reason: one of ``REASONS``.
        began: whether it began.
    """

    time_s: float
    reason: str
    began: bool


class _Beat(NamedTuple):
    label: int
    uncertain: bool
    far: bool
    poor: bool
    size_uv: int
    shape_uv: NDArray[np.int64]


class _Counts:
    """How many of some beats are what; sizes and shapes added up for each class."""

    def __init__(self, classes: int) -> None:
        self.beats = self.good = self.uncertain = self.far = 0
        self.label, self.size_uv = [0] * classes, [0] * classes
        self.shape_uv = np.zeros((classes, SHAPE), np.int64)

    def add(self, beat: _Beat, times: int = 1) -> None:
        """Count a beat, or with ``times`` -1 no longer."""
        self.beats += times
        if beat.poor:
            return
        self.good += times
        self.uncertain += times * beat.uncertain
        self.far += times * beat.far
        self.label[beat.label] += times
        self.size_uv[beat.label] += times * beat.size_uv
        self.shape_uv[beat.label] += times * beat.shape_uv


class Drift:
    """Watches the answers of a stream.

    Args:
        classes: how many classes there are.
        bounds: when a change counts.
    """

    def __init__(self, classes: int, bounds: DriftBounds = DriftBounds()) -> None:
        self.classes, self.bounds = classes, bounds
        self.restart()

    def restart(self) -> None:
        """Take the beats to come as the first ones: after new labels, or with another patient."""
        self._at_first, self._now = _Counts(self.classes), _Counts(self.classes)
        self._last: deque[_Beat] = deque()
        self._on: set[str] = set()
        self.told_s = 0.0  #: of the last beat, in seconds
        self.events: deque[DriftEvent] = deque(maxlen=KEPT_EVENTS)

    @property
    def reasons(self) -> tuple[str, ...]:
        """What has changed and is so still, in order of ``REASONS``."""
        return tuple(reason for reason in REASONS if reason in self._on)

    @property
    def label_again(self) -> bool:
        """Whether this patient's beats have changed: new labels are worth having."""
        return bool(self._on - OF_THE_SIGNAL)

    @property
    def text(self) -> str:
        """One sentence, or "" where nothing has changed."""
        if not self._on:
            return ""
        what = "; ".join(REASONS[reason] for reason in self.reasons)
        if self.label_again:
            return f"This patient's beats have changed: label some again ({what})."
        return f"{what[0].upper()}{what[1:]}."

    @property
    def values(self) -> dict[str, float]:
        """Each share of the last beats beside its bound: how much of the bound each change is; 0 before it is known."""
        first, now, bounds = self._at_first, self._now, self.bounds
        found = dict.fromkeys(("far", "uncertain", "classes", "shape", "size", "poor"), 0.0)
        if first.good < bounds.first or now.beats < bounds.last:
            return found
        found["poor"] = (_share(now.beats - now.good, now.beats) - _share(first.beats - first.good, first.beats)) / (
            bounds.poor
        )
        if now.good * 4 >= bounds.last:
            found["far"] = (_share(now.far, now.good) - _share(first.far, first.good)) / bounds.far
            found["uncertain"] = (_share(now.uncertain, now.good) - _share(first.uncertain, first.good)) / (
                bounds.uncertain
            )
            apart = sum(abs(a * first.good - b * now.good) for a, b in zip(now.label, first.label, strict=True))
            found["classes"] = apart / (2 * now.good * first.good) / bounds.classes
            found["shape"], found["size"] = self._usual_beat()
        return found

    def _usual_beat(self) -> tuple[float, float]:
        """How the mean beat of the class that was the commonest has changed: shape and size, each over its bound.

        0 where too few of the last beats have that class.
        """
        first, now = self._at_first, self._now
        usual = first.label.index(max(first.label))
        if now.label[usual] * 4 < self.bounds.last or not first.size_uv[usual] or not now.size_uv[usual]:
            return 0.0, 0.0
        times = now.size_uv[usual] * first.label[usual] / (first.size_uv[usual] * now.label[usual])
        one, other = (_about_mean(counts.shape_uv[usual]) for counts in (first, now))
        alike = _product(one, other) / max(math.sqrt(_product(one, one) * _product(other, other)), 1e-9)
        return (1 - alike) / self.bounds.shape, (max(times, 1 / times) - 1) / (self.bounds.size - 1)

    def add(
        self, time_s: float, label: int, uncertain: bool, far: bool, flags: int, window_mv: NDArray[np.float32]
    ) -> None:
        """Take one beat, as a stream tells it finally.

        Args:
            time_s: of its R peak, since the stream's start.
            label: its class number.
            uncertain: whether its class is not sure.
            far: whether it looks like none in training.
            flags: of its window (``ecgfed.beats.extract``).
            window_mv: (256,) its window.
        """
        uv = np.rint(1000.0 * np.clip(window_mv.astype(np.float64), -LIMIT_MV, LIMIT_MV)).astype(np.int64)
        shape_uv, size_uv = uv.reshape(SHAPE, _EACH).sum(axis=1) // _EACH, int(np.ptp(uv[QRS]))
        beat = _Beat(label, uncertain, far, bool(flags & FLAG_POOR_QUALITY), size_uv, shape_uv)
        self.told_s = time_s
        if self._at_first.good < self.bounds.first:
            self._at_first.add(beat)
        self._last.append(beat)
        self._now.add(beat)
        if len(self._last) > self.bounds.last:
            self._now.add(self._last.popleft(), -1)
        for reason, value in self.values.items():
            self._set(reason, value, time_s)

    def quiet(self, time_s: float, for_s: float) -> None:
        """Say how long no beat has come, found or told: a stream tells it a beat's answer late, and silence at once.

        Args:
            time_s: since the stream's start.
            for_s: since the last R peak, or the start.
        """
        self._set("silence", for_s / self.bounds.silence_s, time_s)

    def _set(self, reason: str, value: float, time_s: float) -> None:
        if reason not in self._on and value > 1:
            self._on.add(reason)
            self.events.append(DriftEvent(time_s, reason, True))
        elif reason in self._on and value < self.bounds.end:
            self._on.remove(reason)
            self.events.append(DriftEvent(time_s, reason, False))


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def _about_mean(sums: NDArray[np.int64]) -> list[int]:
    """Whole numbers less their mean, times how many there are: whole numbers again, the same in every language."""
    total = int(sums.sum())
    return [len(sums) * one - total for one in sums.tolist()]


def _product(one: list[int], other: list[int]) -> float:
    """The sum of products, rounded once."""
    return float(sum(a * b for a, b in zip(one, other, strict=True)))
