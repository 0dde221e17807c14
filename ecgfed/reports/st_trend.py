"""The ST level of a recording as a trend: experimental: how the recorder filters is not known."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil, sqrt

import numpy as np

from ecgfed.base.language import number, tr, tr_later, translated
from ecgfed.domain.events.figure import Figure, Measurement
from ecgfed.domain.waves.points import LEVEL_S, ST_S
from ecgfed.reports.markup import Cell, PageTimes, not_assessed_text

#: Seconds of a segment, whose normal beats are averaged.
SEGMENT_S = 300.0
#: A level is not assessed where the standard error of its mean is larger: a fifth of a millimetre.
MOST_ERROR_MV = 0.02
#: Millimetres a millivolt.
MM_PER_MV = 10.0


def standard_error(level: Measurement) -> float:
    """Return the standard error of the mean of single beats; infinite where they have no standard deviation."""
    return float("inf") if level.sd is None else level.sd / sqrt(level.beats)


@dataclass(frozen=True)
class StSegment:
    """The ST level of a few minutes.

    Attributes:
        start_s: beginning, in seconds from the start of the recording.
        stop_s: end.
        level: of the average normal beat in mV, or why it was not assessed.
    """

    start_s: float
    stop_s: float
    level: Measurement

    @property
    def error_mv(self) -> float | None:
        """Standard error of the level in mV; None where it was not assessed."""
        return None if self.level.value is None else standard_error(self.level)

    def to_dict(self) -> dict[str, object]:
        """Return a JSON-ready dictionary."""
        value, error = self.level.value, self.error_mv
        return {
            "start_s": round(self.start_s, 3),
            "stop_s": round(self.stop_s, 3),
            "beats": self.level.beats,
            "level_mv": None if value is None else round(value, 3),
            "level_mm": None if value is None else round(MM_PER_MV * value, 2),
            "error_mv": None if error is None else round(error, 4),
            **({"not_assessed": self.level.not_assessed} if self.level.not_assessed else {}),
        }


@dataclass(frozen=True)
class StTrend:
    """The ST level at J + 60 ms.

    Attributes:
        lead: in which it was measured.
        segments: from the start of the recording to its end; none where nothing is measured.
        not_assessed: why nothing is; ``""`` where the segments have the reasons.
    """

    lead: str
    segments: tuple[StSegment, ...]
    not_assessed: str = ""

    @property
    def assessed(self) -> tuple[StSegment, ...]:
        """The segments that have a level."""
        return tuple(segment for segment in self.segments if segment.level.value is not None)

    @property
    def levels_mv(self) -> list[float]:
        """The levels in mV, in order of time."""
        return [segment.level.value for segment in self.segments if segment.level.value is not None]

    @property
    def reason(self) -> str:
        """Why most segments without a level have none; ``""`` where all have one."""
        reasons = [segment.level.not_assessed for segment in self.segments if segment.level.value is None]
        return max(reasons, key=reasons.count) if reasons else self.not_assessed

    def to_dict(self) -> dict[str, object]:
        """Return a JSON-ready dictionary with its units and rules."""
        return {
            "experimental": True,
            "lead": self.lead,
            "behind_j_ms": round(1000 * ST_S),
            "segment_s": SEGMENT_S,
            "most_error_mv": MOST_ERROR_MV,
            "segments": [segment.to_dict() for segment in self.segments],
            **({"not_assessed": self.not_assessed} if self.not_assessed else {}),
        }


def st_figures(trend: StTrend | None) -> Iterator[Figure]:
    """Yield the median, the lowest and the highest level of the segments as figures."""
    levels = [] if trend is None else trend.levels_mv
    remark = "experimental: of the average beat of 5 minutes in one lead; the recorder's lower corner is not known"
    for name, title, value in (
        ("st_level_mv", "ST level at J + 60 ms, median", np.median(levels) if levels else None),
        ("st_level_lowest_mv", "ST level at J + 60 ms, lowest", min(levels, default=None)),
        ("st_level_highest_mv", "ST level at J + 60 ms, highest", max(levels, default=None)),
    ):
        if value is None:
            yield Figure(name, title, "mV", None, "not measured" if trend is None else trend.reason)
        else:
            yield Figure(name, title, "mV", round(float(value), 3), remark=remark)


def st_rows(trend: StTrend, times: PageTimes) -> Iterator[Sequence[Cell]]:
    """Yield the rows of the page's table: lowest, median and highest level in mV and mm, and when."""
    for title, segment in _extremes(trend):
        value = segment.level.value
        if value is not None:
            error = f"± {number(standard_error(segment.level), '.3f')}"
            edges = tr("{start} to {stop}", start=times.text(segment.start_s, 0), stop=times.text(segment.stop_s, 0))
            mm = number(MM_PER_MV * value, "+.1f")
            yield translated(title), number(value, "+.2f"), mm, error, segment.level.beats, edges
    lost: dict[str, float] = {}
    for segment in trend.segments:
        if segment.level.value is None:
            lost[segment.level.not_assessed] = (
                lost.get(segment.level.not_assessed, 0.0) + segment.stop_s - segment.start_s
            )
    for reason, seconds in lost.items():
        why = not_assessed_text(reason)
        yield why, "-", "-", "-", "-", tr("{minutes:.0f} min", minutes=seconds / 60)


def _extremes(trend: StTrend) -> list[tuple[str, StSegment]]:
    """Return the segments of the lowest, the middle and the highest level."""
    ordered = sorted(trend.assessed, key=lambda segment: segment.level.value or 0.0)
    if not ordered:
        return []
    return [
        (tr_later("Lowest"), ordered[0]),
        (tr_later("Median"), ordered[(len(ordered) - 1) // 2]),
        (tr_later("Highest"), ordered[-1]),
    ]


@dataclass(frozen=True)
class StChart:
    """A chart of the trend in pixels, drawn by ``templates/st.html.j2``.

    Attributes:
        width: of the chart.
        height: of the chart.
        left: where the recording begins.
        right: where it ends.
        foot: where the axis of time is.
        levels: (y, mV, mm) of the lines of the grid.
        zero: the number of the line of 0 mV.
        ticks: (x, time) of the axis.
        path: the levels.
        lost: (x, width) of what is not assessed.
    """

    width: int
    height: int
    left: float
    right: float
    foot: float
    levels: tuple[tuple[float, str, str], ...]
    zero: int
    ticks: tuple[tuple[float, str], ...]
    path: str
    lost: tuple[tuple[float, float], ...]


#: Lines of the grid are so far apart, in mV; times of the axis, in s.
_GRID_MV, _TICKS_S = (0.1, 0.2, 0.5, 1.0, 2.0), (300, 600, 900, 1800, 3600, 7200, 14400, 28800, 86400)
_LEFT, _RIGHT, _TOP, _FOOT, _WIDTH = 118.0, 990.0, 8.0, 128.0, 1040


def st_chart(trend: StTrend, times: PageTimes) -> StChart | None:
    """Return the chart of a trend, None where no segment has a level."""
    levels = trend.levels_mv
    if not levels:
        return None
    duration_s = trend.segments[-1].stop_s
    step = next((size for size in _GRID_MV if max(map(abs, levels)) <= 3 * size), _GRID_MV[-1])
    low, high = (
        round(edge * step, 3) for edge in (-max(1, ceil(-min(levels) / step)), max(1, ceil(max(levels) / step)))
    )

    def to_x(seconds: float) -> float:
        return round(_LEFT + seconds / duration_s * (_RIGHT - _LEFT), 1)

    def to_y(level_mv: float) -> float:
        return round(_TOP + (high - level_mv) / (high - low) * (_FOOT - _TOP), 1)

    every = next((size for size in _TICKS_S if duration_s / size <= 9), _TICKS_S[-1])
    path, lost = "", []
    for segment in trend.segments:
        left, right = to_x(segment.start_s), to_x(segment.stop_s)
        if segment.level.value is None:
            lost.append((left, round(right - left, 1)))
        else:
            path += f"M{left} {to_y(segment.level.value)}H{right}"
    grid = np.arange(round(low / step), round(high / step) + 1) * step
    return StChart(
        _WIDTH,
        160,
        _LEFT,
        _RIGHT,
        _FOOT,
        tuple((to_y(level), number(level, "+.1f"), number(MM_PER_MV * level, "+.0f")) for level in grid.tolist()),
        -round(low / step),
        tuple((to_x(second), times.text(second, 0)) for second in np.arange(0, duration_s + 1, every).tolist()),
        path,
        tuple(lost),
    )


#: How the page states the rule.
LEVEL_MS, BEHIND_J_MS = round(1000 * LEVEL_S), round(1000 * ST_S)
