"""A page on a recording's quality: each lead as a line, and 10 s on ECG paper, with bad stretches shaded."""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ecgfed.base.extras import require
from ecgfed.base.text import safe_text
from ecgfed.reports.strip import (
    FOOT_MM,
    GREY,
    INK,
    MARGIN_MM,
    MM_PER_INCH,
    MM_PER_MV,
    MM_PER_S,
    PULSE_S,
    STRIP_S,
    TITLE_MM,
    Stretches,
    clock,
    draw_paper,
    paper_range,
)

FORMATS = ("png", "svg")
#: The strip's paper reaches this far from the median; values beyond are clipped, with a note.
PAPER_MV = 4.0
#: A colour per reason, from Okabe and Ito's colour-blind safe palette; each is also written out.
COLOURS = {
    "gap": "#8c8c8c",
    "flat": "#0072b2",
    "rail": "#d55e00",
    "spike": "#cc79a7",
    "noise": "#e69f00",
    "baseline": "#009e73",
}
_ROW_MM, _FEW_LEADS, _MANY_ROW_MM, _BETWEEN_MM, _AXIS_MM = 16.0, 3, 8.0, 12.0, 7.0
_BINS = 2400
#: Samples per block.
_AT_ONCE = 1 << 20
#: A stretch is drawn at least this share of the overview wide, so that a spike in half an hour is seen.
_LEAST_SHARE = 1 / 900
#: Share of an overview row's values that may lie outside its height.
_OUTSIDE_PERCENT = 0.5
#: Look of a word on the paper, and of the box behind it.
_BOLD = {"fontsize": 7.5, "fontweight": "bold"}
_BOX = {"facecolor": "white", "alpha": 0.8, "edgecolor": "none"}


class BadStretches(Protocol):
    """A (samples,) bool mask of a lead's bad samples that can be sliced: an array, or computed on demand."""

    def __len__(self) -> int: ...

    def __getitem__(self, stretch: slice, /) -> NDArray[np.bool_]: ...


@dataclass(frozen=True)
class QualityPage:
    """The content of the page.

    Attributes:
        signals_mv: of each lead (samples,) as recorded, millivolt, NaN where there is no sample.
        leads: their names.
        chosen: the lead on the strip.
        fs_hz: sampling frequency in Hz.
        stretches: lead name -> start (s), stop (s) and reason of its bad stretches.
        title: text at the top.
        footer: text at the bottom.
    """

    signals_mv: Sequence[Stretches] | NDArray[np.floating]
    leads: tuple[str, ...]
    chosen: str
    fs_hz: float
    stretches: dict[str, list[tuple[float, float, str]]]
    title: str
    footer: str

    @property
    def duration_s(self) -> float:
        """Length of the recording in seconds."""
        return len(self.signals_mv[0]) / self.fs_hz


def worst_start(bad: BadStretches, fs_hz: float) -> float:
    """Return the start (s) of the 10 s with the most bad samples, these centred if possible.

    Args:
        bad: (samples,) where the lead is bad.
        fs_hz: sampling frequency in Hz.
    """
    width = min(len(bad), round(STRIP_S * fs_hz))
    starts = len(bad) - width + 1
    highest, best = 0, 0
    for count in (0, 1):  # how many places hold most, then the one in their middle
        start_count = 0
        for first in range(0, starts, _AT_ONCE):
            last = min(first + _AT_ONCE, starts)
            before = np.concatenate([[0], np.cumsum(bad[first : last + width - 1])])
            in_window = before[width:] - before[:-width]
            if not count and int(in_window.max()) > highest:
                highest, best = int(in_window.max()), 0
            maxima = np.flatnonzero(in_window == highest) if highest else np.empty(0, np.int64)
            if not count:
                best += len(maxima)
            elif start_count <= best // 2 < start_count + len(maxima):
                return float((first + maxima[best // 2 - start_count]) / fs_hz)
            start_count += len(maxima)
    return 0.0


def draw_quality(page: QualityPage, start_s: float, *, form: str = "png", dpi: int = 150) -> bytes:
    """Draw the page, true to scale at its printed size, with the 10 s from ``start_s`` on; return a PNG or SVG."""
    require("matplotlib", "drawing a recording")
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    piece = _piece(page, start_s)
    low, high = paper_range(piece, PAPER_MV)
    row_mm = _ROW_MM if len(page.leads) <= _FEW_LEADS else _MANY_ROW_MM
    width_mm, strip_mm, all_mm = (STRIP_S + PULSE_S) * MM_PER_S, (high - low) * MM_PER_MV, row_mm * len(page.leads)
    page_mm = (width_mm + 2 * MARGIN_MM, TITLE_MM + all_mm + _AXIS_MM + _BETWEEN_MM + strip_mm + FOOT_MM)
    figure = Figure(figsize=(page_mm[0] / MM_PER_INCH, page_mm[1] / MM_PER_INCH), facecolor="white")
    FigureCanvasAgg(figure)

    def axes_at(bottom_mm: float, height_mm: float) -> Any:
        rectangle = (MARGIN_MM / page_mm[0], bottom_mm / page_mm[1], width_mm / page_mm[0], height_mm / page_mm[1])
        return figure.add_axes(rectangle)

    above_strip = FOOT_MM + strip_mm
    for i, lead in enumerate(page.leads):
        bottom = above_strip + _BETWEEN_MM + _AXIS_MM + row_mm * (len(page.leads) - 1 - i)
        _draw_overview(axes_at(bottom, row_mm), page, lead, start_s, clocked=i == len(page.leads) - 1)
    axes = axes_at(FOOT_MM, strip_mm)
    draw_paper(axes, low, high)
    _shade_strip(axes, page, start_s, low)
    axes.plot(np.arange(len(piece)) / page.fs_hz, piece, color=INK, linewidth=0.8)
    cut = f" · beyond ±{PAPER_MV:g} mV not drawn" if np.nanmax(np.abs(piece), initial=0.0) > PAPER_MV else ""
    side = MARGIN_MM / page_mm[0]
    figure.text(side, 1 - 0.5 * TITLE_MM / page_mm[1], safe_text(page.title), fontsize=9, va="center", parse_math=False)
    _legend(figure, page, 1 - 0.5 * TITLE_MM / page_mm[1], 1 - side)
    caption = f"{page.chosen} from {clock(start_s)}, as recorded{cut}"
    figure.text(side, (above_strip + 3.0) / page_mm[1], safe_text(caption), fontsize=8, va="center", parse_math=False)
    scale = f"25 mm/s, 10 mm/mV · {page.footer}"
    figure.text(
        side, 0.45 * FOOT_MM / page_mm[1], safe_text(scale), fontsize=7, va="center", color=GREY, parse_math=False
    )
    out = io.BytesIO()
    with mpl.rc_context({"svg.hashsalt": "ecgfed", "svg.fonttype": "none"}):  # the same page, the same bytes
        figure.savefig(out, dpi=dpi, format=form, metadata={"Date": None} if form == "svg" else None)
    return out.getvalue()


def _piece(page: QualityPage, start_s: float) -> NDArray[np.float64]:
    """Return the strip's samples minus their median, NaN for missing ones."""
    first = round(start_s * page.fs_hz)
    signal = page.signals_mv[page.leads.index(page.chosen)]
    piece = np.array(signal[first : first + round(STRIP_S * page.fs_hz)], dtype=np.float64)
    piece[~np.isfinite(piece)] = np.nan
    return piece - np.nanmedian(piece) if np.isfinite(piece).any() else piece


def _draw_overview(axes: Any, page: QualityPage, lead: str, start_s: float, *, clocked: bool) -> None:
    """Draw one lead's lowest and highest values over time."""
    signal = page.signals_mv[page.leads.index(lead)]
    size = max(1, int(np.ceil(len(signal) / _BINS)))
    low, high = _lowest_and_highest(signal, size)
    valid = np.isfinite(low)
    at = (np.arange(len(low)) + 0.5) * size / page.fs_hz
    duration = page.duration_s
    bottom, top = _row_range(low[valid], high[valid])
    axes.set(xlim=(0, duration), ylim=(bottom, top), yticks=[])
    for start, stop, reason in page.stretches[lead]:
        width = max(stop - start, duration * _LEAST_SHARE)
        axes.axvspan((start + stop - width) / 2, (start + stop + width) / 2, color=COLOURS[reason], alpha=0.55, lw=0)
    axes.fill_between(at, low, high, color=INK, linewidth=0.3, alpha=0.75)
    if lead == page.chosen:
        axes.axvspan(start_s, min(start_s + STRIP_S, duration), fill=False, edgecolor=INK, linewidth=1.2)
    position = {"transform": axes.transAxes, "va": "top", "parse_math": False}
    axes.text(0.004, 0.94, safe_text(lead), bbox={**_BOX, "pad": 1}, **_BOLD, **position)
    for side in ("top", "left", "right"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color("#bbbbbb")
    step = next((s for s in (1, 5, 10, 30, 60, 300, 600, 1800, 3600) if duration / s <= 13), 7200)
    ticks = np.arange(0, duration, step)
    axes.set_xticks(ticks, [f"{int(t // 60)}:{int(t % 60):02d}" for t in ticks] if clocked else [], fontsize=7)
    axes.tick_params(length=2, color="#bbbbbb")


def _lowest_and_highest(signal: Stretches, size: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the lowest and the highest value of every ``size`` samples, NaN without any."""
    extremes = []
    step = max(1, _AT_ONCE // size) * size
    for start in range(0, len(signal), step):
        part = np.array(signal[start : start + step], dtype=np.float64)
        part[~np.isfinite(part)] = np.nan
        cut = np.pad(part, (0, -len(part) % size), constant_values=np.nan).reshape(-1, size)
        valid = np.isfinite(cut).any(axis=1)
        edges = np.full((2, len(cut)), np.nan)
        edges[0, valid], edges[1, valid] = (np.nanmin(cut[valid], axis=1), np.nanmax(cut[valid], axis=1))
        extremes.append(edges)
    low, high = np.concatenate(extremes, axis=1)
    return low, high


def _row_range(low: NDArray[np.float64], high: NDArray[np.float64]) -> tuple[float, float]:
    if not len(low):
        return -1.0, 1.0
    bottom, top = np.percentile(low, _OUTSIDE_PERCENT), np.percentile(high, 100 - _OUTSIDE_PERCENT)
    room = max(0.1, 0.15 * float(top - bottom))
    return float(bottom) - room, float(top) + room


def _shade_strip(axes: Any, page: QualityPage, start_s: float, low: float) -> None:
    """Shade the bad stretches and write the reason into each, one line higher where two overlap."""
    written: list[float] = []
    for start, stop, reason in page.stretches[page.chosen]:
        begin, end = max(0.0, start - start_s), min(STRIP_S, stop - start_s)
        if begin >= end:
            continue
        axes.axvspan(begin, end, color=COLOURS[reason], alpha=0.3, lw=0)
        line = next((i for i, until in enumerate(written) if until <= begin), len(written))
        until = max(end, begin + 0.085 * len(reason) + 0.1)
        written[line : line + 1] = [until]
        x, side = (begin + 0.04, "left") if until <= STRIP_S else (STRIP_S - 0.04, "right")
        box = {**_BOX, "pad": 0.6}
        axes.text(x, low + 0.08 + 0.28 * line, reason, color=COLOURS[reason], ha=side, bbox=box, **_BOLD)


def _legend(figure: Any, page: QualityPage, y: float, right: float) -> None:
    """Name the colours of the reasons that occur."""
    from matplotlib.patches import Patch

    reasons = {reason for stretches in page.stretches.values() for _, _, reason in stretches}
    patches = [Patch(color=colour, alpha=0.6, label=name) for name, colour in COLOURS.items() if name in reasons]
    if patches:
        look = {"fontsize": 7.5, "frameon": False, "handlelength": 1.2, "columnspacing": 1.2, "borderaxespad": 0}
        figure.legend(handles=patches, loc="center right", bbox_to_anchor=(right, y), ncols=len(patches), **look)
