"""Intervals of the average normal beat in a report: overall, by hour, and as rows of a table."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ecgfed.base.language import number, tr
from ecgfed.domain.events.figure import Measurement
from ecgfed.domain.waves.points import POINTS
from ecgfed.reports.markup import Cell, PageTimes, not_assessed_text

#: Name of an interval -> its title.
TITLES = {
    "pr_ms": "PR", "qrs_ms": "QRS", "qt_ms": "QT", "qtc_bazett_ms": "QTc Bazett", "qtc_fridericia_ms": "QTc Fridericia",
}  # fmt: skip
#: Point -> mean and standard deviation of its error in ms, in the first lead alone of 13 records of QTDB
#: (benchmarks/delineation/results.json; a test compares them).
ERRORS_MS = {"p_onset": (3.3, 13.9), "qrs_onset": (2.8, 7.4), "qrs_end": (2.4, 10.5), "t_end": (24.0, 23.2)}


@dataclass(frozen=True)
class HourIntervals:
    """The intervals of an hour.

    Attributes:
        start_s: its beginning, in seconds from the start of the recording.
        stop_s: its end.
        averaged: beats that the average is made of.
        measured: name among ``TITLES`` -> the interval, or why it was not assessed.
        numbers: (averaged,) int64, which of all beats the average is made of.
        points: (7,) float64, its points in samples from the R peak; NaN where not located.
    """

    start_s: float
    stop_s: float
    averaged: int
    measured: dict[str, Measurement]
    numbers: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64), repr=False, compare=False)
    points: NDArray[np.float64] = field(default_factory=lambda: np.full(len(POINTS), np.nan), repr=False, compare=False)

    def to_dict(self) -> dict[str, object]:
        """Return a JSON-ready dictionary."""
        edges = {"start_s": round(self.start_s, 3), "stop_s": round(self.stop_s, 3), "averaged": self.averaged}
        return {**edges, **{name: value.to_dict() for name, value in self.measured.items()}}


@dataclass(frozen=True)
class Overall:
    """An interval of the whole recording.

    Attributes:
        value: median of the hours in ms; None where it was assessed in none.
        lowest: of the hours.
        highest: of the hours.
        sd: standard deviation of single beats, where there is one hour.
        hours: in how many it was assessed.
        not_assessed: why not in most hours where it has no value; ``""`` where there is one.
    """

    value: float | None
    lowest: float | None = None
    highest: float | None = None
    sd: float | None = None
    hours: int = 0
    not_assessed: str = ""

    def to_dict(self) -> dict[str, object]:
        """Return a JSON-ready dictionary."""
        numbers = {"value": self.value, "lowest": self.lowest, "highest": self.highest, "sd": self.sd}
        rounded = {name: None if number is None else round(number, 3) for name, number in numbers.items()}
        return {**rounded, "hours": self.hours, **({"not_assessed": self.not_assessed} if self.not_assessed else {})}


@dataclass(frozen=True)
class NormalIntervals:
    """Intervals of the average normal beat.

    Attributes:
        lead: in which they were measured.
        hours: each hour that has a beat.
        not_assessed: why none is measured; ``""`` where the hours have the reasons.
    """

    lead: str
    hours: tuple[HourIntervals, ...]
    not_assessed: str = ""

    def overall(self, name: str) -> Overall:
        """Return an interval of the whole recording."""
        every = [hour.measured[name] for hour in self.hours]
        values = [one.value for one in every if one.value is not None]
        if not values:
            reasons = [one.not_assessed for one in every] or [self.not_assessed]
            return Overall(None, not_assessed=max(reasons, key=reasons.count))
        sd = next((one.sd for one in every if one.value is not None), None) if len(values) == 1 else None
        return Overall(float(np.median(values)), min(values), max(values), sd, len(values))

    def to_dict(self) -> dict[str, object]:
        """Return a JSON-ready dictionary."""
        overall = {name: self.overall(name).to_dict() for name in TITLES}
        return {"lead": self.lead, "overall": overall, "hours": [hour.to_dict() for hour in self.hours]}


def interval_rows(intervals: NormalIntervals, times: PageTimes) -> Iterator[Sequence[Cell]]:
    """Yield the rows of the page's table: the whole recording, then each hour of several."""
    overall = [intervals.overall(name) for name in TITLES]
    averaged = sum(hour.averaged for hour in intervals.hours)
    yield (tr("Overall"), averaged, *(overall_text(interval) for interval in overall))
    for hour in intervals.hours if len(intervals.hours) > 1 else ():
        edges = tr("{start} to {stop}", start=times.text(hour.start_s, 0), stop=times.text(hour.stop_s, 0))
        yield (edges, hour.averaged, *(_text(hour.measured[name]) for name in TITLES))


def overall_text(overall: Overall) -> str:
    """Return an interval of the whole recording in ms, or why it was not assessed."""
    if overall.value is None:
        return not_assessed_text(overall.not_assessed)
    if overall.hours == 1 or overall.lowest is None or overall.highest is None:
        return _with_sd(overall.value, overall.sd)
    return tr("{value:.0f} ({low:.0f} to {high:.0f})", value=overall.value, low=overall.lowest, high=overall.highest)


def _text(interval: Measurement) -> str:
    return not_assessed_text(interval.not_assessed) if interval.value is None else _with_sd(interval.value, interval.sd)


def _with_sd(value: float, sd: float | None) -> str:
    return number(value, ".0f") if sd is None else f"{number(value, '.0f')} ± {number(sd, '.0f')}"


def error_text(point: str) -> str:
    """Return the measured error of a point in ms: ``24.0 ± 23.2``."""
    mean, sd = ERRORS_MS[point]
    return f"{number(mean, '.1f')} ± {number(sd, '.1f')}"
