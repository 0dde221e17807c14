"""A rhythm strip on ECG paper, as clinicians read it: 25 mm/s, 10 mm/mV, true to scale at its printed size.

Minor grid 0.04 s and 0.1 mV (1 mm), major grid 0.2 s and 0.5 mV (5 mm), a 1 mV calibration pulse of 0.2 s in front.
"""

import io
import textwrap
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ecgfed.base.extras import require
from ecgfed.base.text import safe_text

STRIP_S = 10.0
MM_PER_S, MM_PER_MV = 25.0, 10.0
MARGIN_MM, TITLE_MM, FOOT_MM = 6.0, 9.0, 8.0
#: Paper in front of the strip, for the calibration pulse.
PULSE_S = 0.6
MM_PER_INCH = 25.4
#: A line of remarks below the strip: its height, and its length in characters of 7 points.
REMARK_MM, REMARK_CHARACTERS = 3.5, 190
INK, GREY = "#1a1a1a", "#444444"
_MINOR, _MAJOR, _MARK = "#f6d5d5", "#e8a5a5", "#1b4f9c"


class Stretches(Protocol):
    """A signal that can be sliced: an array, or computed on demand."""

    def __len__(self) -> int: ...

    def __getitem__(self, stretch: slice, /) -> NDArray[np.float64]: ...


@dataclass(frozen=True)
class Strip:
    """The content of a strip.

    Attributes:
        signal_mv: (samples,) the whole recording, millivolt, finite.
        fs_hz: its sampling frequency in Hz.
        r_samples: (beats,) R positions in it.
        label: (beats,) the label above each beat.
        usual: the most frequent label, drawn lightly.
        title: text above the strip.
        footer: text below it.
        remarks: sentences below that, each on its own lines.
    """

    signal_mv: Stretches
    fs_hz: float
    r_samples: NDArray[np.int64]
    label: list[str]
    usual: str
    title: str
    footer: str
    remarks: tuple[str, ...] = ()


def busiest_start(r_samples: NDArray[np.int64], label: list[str], usual: str, fs_hz: float, samples: int) -> float:
    """Return the start (s) of the strip with the most labels, then with the most beats other than the usual.

    Args:
        r_samples: (beats,) increasing positions.
        label: (beats,) labels.
        usual: the label that counts as usual.
        fs_hz: sampling frequency in Hz.
        samples: length of the recording.
    """
    last = max(0.0, samples / fs_hz - STRIP_S)
    best, start = (-1, -1), 0.0
    times = r_samples / fs_hz
    for time in times:
        begin = float(np.clip(time - 0.5, 0.0, last))
        first, stop = np.searchsorted(times, [begin, begin + STRIP_S])
        inside = label[first:stop]
        score = (len(set(inside)), sum(name != usual for name in inside))
        if score > best:
            best, start = score, begin
    return start


def draw_strip(strip: Strip, start_s: float, *, dpi: int = 150) -> bytes:
    """Draw 10 s from ``start_s`` on and return the PNG."""
    require("matplotlib", "drawing a strip")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    first = round(start_s * strip.fs_hz)
    piece = np.asarray(strip.signal_mv[first : first + round(STRIP_S * strip.fs_hz)], dtype=np.float64)
    piece = piece - np.median(piece)
    low, high = paper_range(piece)
    width_mm, height_mm = (STRIP_S + PULSE_S) * MM_PER_S, (high - low) * MM_PER_MV
    remarks = [line for remark in strip.remarks for line in textwrap.wrap(safe_text(remark), REMARK_CHARACTERS)]
    foot_mm = FOOT_MM + REMARK_MM * len(remarks)
    page_mm = (width_mm + 2 * MARGIN_MM, height_mm + TITLE_MM + foot_mm)
    figure = Figure(figsize=(page_mm[0] / MM_PER_INCH, page_mm[1] / MM_PER_INCH), facecolor="white")
    FigureCanvasAgg(figure)
    rectangle = (MARGIN_MM / page_mm[0], foot_mm / page_mm[1], width_mm / page_mm[0], height_mm / page_mm[1])
    axes = figure.add_axes(rectangle)
    draw_paper(axes, low, high)
    axes.plot(np.arange(len(piece)) / strip.fs_hz, piece, color=INK, linewidth=0.8)
    for sample, name in zip(strip.r_samples, strip.label, strict=True):
        at = sample / strip.fs_hz - start_s
        if 0 <= at <= STRIP_S:
            quiet = name == strip.usual
            look = (8, "#8a8a8a", "normal") if quiet else (11, _MARK, "bold")
            style: dict[str, Any] = dict(zip(("fontsize", "color", "fontweight"), look, strict=True))
            axes.text(at, high - 0.12, safe_text(name), parse_math=False, ha="center", va="top", **style)
            if not quiet:
                axes.axvline(at, ymin=0.02, ymax=1 - 0.5 / (high - low), color=_MARK, linewidth=0.6, alpha=0.5)
    side = MARGIN_MM / page_mm[0]
    figure.text(
        side, 1 - 0.4 * TITLE_MM / page_mm[1], safe_text(strip.title), fontsize=9, va="center", parse_math=False
    )
    scale = f"25 mm/s, 10 mm/mV · from {clock(start_s)} · {strip.footer}"
    for number, line in enumerate((scale, *remarks)):
        at_mm = foot_mm - 0.55 * FOOT_MM - number * REMARK_MM
        colour = INK if number else GREY
        figure.text(side, at_mm / page_mm[1], safe_text(line), fontsize=7, va="center", color=colour, parse_math=False)
    png = io.BytesIO()
    figure.savefig(png, dpi=dpi, format="png")
    return png.getvalue()


def paper_range(piece_mv: NDArray[np.float64], max_mv: float = np.inf) -> tuple[float, float]:
    """Return the lowest and highest value (mV) of the paper for a signal around 0, in whole large squares.

    Args:
        piece_mv: (samples,) millivolt; NaN for missing samples.
        max_mv: limit of the paper up and down.
    """
    lowest, highest = np.nanmin(piece_mv, initial=0.0), np.nanmax(piece_mv, initial=0.0)
    low = np.floor(min(lowest - 0.3, -0.5) * 2) / 2
    high = np.ceil(max(highest + 0.5, 1.0) * 2) / 2
    return max(float(low), -max_mv), min(float(high), max_mv)


def draw_paper(axes: Any, low: float, high: float) -> None:
    """Draw the grid of a 10 s strip and the calibration pulse in front of it."""
    axes.set(xlim=(-PULSE_S, STRIP_S), ylim=(low, high), facecolor="#fffafa")
    for step_s, step_mv, colour, width in ((0.04, 0.1, _MINOR, 0.3), (0.2, 0.5, _MAJOR, 0.5)):
        axes.vlines(np.arange(-PULSE_S, STRIP_S + 1e-9, step_s), low, high, color=colour, linewidth=width)
        axes.hlines(np.arange(low, high + 1e-9, step_mv), -PULSE_S, STRIP_S, color=colour, linewidth=width)
    axes.set_axis_off()
    axes.plot(np.array([-0.5, -0.4, -0.4, -0.2, -0.2, -0.1]), [0, 0, 1, 1, 0, 0], color=INK, linewidth=0.9)


def clock(seconds: float) -> str:
    """Write a time in a recording: ``5:07.3``."""
    seconds = round(seconds, 1)  # 59.96 s are 1:00.0
    return f"{int(seconds // 60)}:{seconds % 60:04.1f}"
