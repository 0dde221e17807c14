"""What happened when: beats of each class, rate and quality of consecutive stretches of a recording."""

from dataclasses import dataclass

import numpy as np

from ecgfed.domain.events.beats import Beats, Ints
from ecgfed.domain.events.kinds import Kind
from ecgfed.domain.events.rhythm import rates_by

HOUR_S = 3600.0


@dataclass(frozen=True)
class Stretch:
    """A stretch of a recording.

    Attributes:
        start_s: where it begins, in seconds.
        stop_s: where it ends.
        usable_s: seconds in no unusable stretch.
        beats: beats that lie in no unusable stretch.
        by_class: how many of them are of each class, in order of the classes.
        supra: supraventricular ectopic ones.
        ventricular: ventricular ectopic ones.
        rate: mean heart rate, None without a usable interval that ends here.
        shortest_s: the shortest usable interval that ends here, None without any.
        longest_s: the longest.
    """

    start_s: float
    stop_s: float
    usable_s: float
    beats: int
    by_class: tuple[int, ...]
    supra: int
    ventricular: int
    rate: float | None
    shortest_s: float | None
    longest_s: float | None


def stretches(beats: Beats, width_s: float = HOUR_S) -> tuple[Stretch, ...]:
    """Return what happened in each stretch of ``width_s`` seconds from the start on, the last one maybe shorter."""
    count = max(1, int(np.ceil(beats.duration_s / width_s - 1e-9)))
    where = np.minimum((beats.time_s // width_s).astype(np.int64), count - 1)
    classes = len(beats.classes)
    assessed = beats.assessed
    counts = np.bincount(where[assessed] * classes + beats.label[assessed], minlength=count * classes)
    counts = counts.reshape(count, classes)
    intervals, seconds = rates_by(beats, width_s)
    shortest, longest = _extremes(beats, where, count)
    kinds = np.array(beats.kinds)
    hours = []
    for at in range(count):
        start, stop = at * width_s, min((at + 1) * width_s, beats.duration_s)
        known = bool(intervals[at])
        hours.append(
            Stretch(
                start,
                stop,
                beats.usable_s(start, stop),
                int(counts[at].sum()),
                tuple(counts[at].tolist()),
                int(counts[at][kinds == Kind.SUPRA].sum()),
                int(counts[at][kinds == Kind.VENTRICULAR].sum()),
                60 * int(intervals[at]) / float(seconds[at]) if known else None,
                float(shortest[at]) if known else None,
                float(longest[at]) if known else None,
            )
        )
    return tuple(hours)


def _extremes(beats: Beats, where: Ints, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the shortest and the longest usable interval that ends in each stretch, in seconds."""
    shortest, longest = np.full(count, np.inf), np.zeros(count)
    at, rr = where[1:][beats.measured], beats.rr_s[beats.measured]
    np.minimum.at(shortest, at, rr)
    np.maximum.at(longest, at, rr)
    return shortest, longest


def busiest(hours: tuple[Stretch, ...], kind: Kind) -> Stretch | None:
    """Return the stretch with most ectopic beats of a kind, the first of several; None where there is none at all."""

    def count(hour: Stretch) -> int:
        return hour.ventricular if kind is Kind.VENTRICULAR else hour.supra

    busiest_hour = max(hours, key=count, default=None)
    return busiest_hour if busiest_hour is not None and count(busiest_hour) else None
