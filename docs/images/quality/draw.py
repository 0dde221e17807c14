"""Draws what is found on a damaged recording: ``python docs/images/quality/draw.py``, from what ``look.py`` found."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from svg import GREY, INK, LINE, OWN, area, card, line, text, trace

HERE = Path(__file__).parent
#: Seconds a row, pixels a second and a millivolt, and where rows begin.
ROW_S, PX_S, PX_MV, LEFT, ROWS = 18.0, 45.5, 34.0, 20, (58, 298)
#: Millivolt that are drawn; what is beyond is cut off.
LOWEST, HIGHEST = -1.5, 2.6
SHADE, FINE = "#fbdcc0", "#d3e6f5"


def place(second: float) -> tuple[int, float]:
    """Return the row of a second, and its x."""
    row = min(int(second // ROW_S), len(ROWS) - 1)
    return row, LEFT + PX_S * (second - ROW_S * row)


def height(row: int, value_mv: float) -> float:
    """Return the y of a value."""
    return ROWS[row] + PX_MV * (HIGHEST - min(max(value_mv, LOWEST), HIGHEST))


def pieces(said: dict[str, Any]) -> Iterator[list[tuple[float, float]]]:
    """Yield the signal's lines, each without a gap, and none across rows."""
    values, some, last = said["signal_uv"], [], 0
    step = 36.0 / len(values)
    for number, value in enumerate(values):
        row, x = place(number * step)
        if value is None or row != last:
            if some:
                yield some
            some, last = [], row
        if value is not None:
            some.append((x, height(row, value / 1000)))
    yield some


def stretches(said: dict[str, Any]) -> list[str]:
    """Return the bad stretches, shaded, with their reasons."""
    shapes, tall = [], PX_MV * (HIGHEST - LOWEST)
    for reason, start, stop in said["found"]:
        row, x = place(start)
        wide = max(PX_S * (stop - start), 4)
        shapes += [
            area(x, ROWS[row] - 6, wide, tall + 12, SHADE),
            text(x + wide / 2, ROWS[row] - 12, reason, bold=True, at="middle", colour=OWN),
        ]
    return shapes


def windows(said: dict[str, Any]) -> list[str]:
    """Return a box for each beat's window under the signal, in two lanes for those that overlap."""
    shapes, below, lane, last = [], PX_MV * (HIGHEST - LOWEST) + 14, 0, 0.0
    for one in said["windows"]:
        row, x = place(one["start_s"])
        lane = 1 - lane if one["start_s"] < last else 0
        last = one["stop_s"]
        y = ROWS[row] + below + 16 * lane
        wide = min(PX_S * (one["stop_s"] - one["start_s"]), LEFT + PX_S * ROW_S - x)
        fill, edge = (OWN, OWN) if one["flagged"] else (FINE, "#0072b2")
        shapes.append(area(x, y, wide, 13, fill, edge))
        if one["flagged"]:
            shapes.append(line(x + 3, y + 3, x + wide - 3, y + 10, "#ffffff", width=1.6))
    return shapes


def axis() -> list[str]:
    """Return the seconds."""
    shapes = []
    for second in range(0, 37, 3):
        row, x = (1, LEFT + PX_S * ROW_S) if second == 36 else place(float(second))
        y = ROWS[row] + PX_MV * (HIGHEST - LOWEST) + 48
        shapes += [line(x, y, x, y + 5), text(max(x, 28), y + 18, f"{second} s", size=12, at="middle", colour=GREY)]
    return shapes


def legend(said: dict[str, Any]) -> list[str]:
    """Return what the boxes mean, and how many there are."""
    flagged = sum(one["flagged"] for one in said["windows"])
    fine, y = len(said["windows"]) - flagged, 522
    return [
        area(LEFT, y - 11, 32, 13, FINE, "#0072b2"),
        text(LEFT + 40, y, f"window of a beat, {fine} in all"),
        area(LEFT + 230, y - 11, 32, 13, OWN, OWN),
        line(LEFT + 233, y - 8, LEFT + 259, y - 1, "#ffffff", width=1.6),
        text(LEFT + 270, y, f"touches a bad stretch: flag bit 1, {flagged} in all"),
        area(LEFT + 560, y - 13, 22, 17, SHADE),
        text(LEFT + 590, y, "bad stretch, with its reason"),
        text(
            LEFT,
            y + 22,
            "A synthetic patient, lead MLII, damaged on purpose. Spike and rail are cut off at the frame.",
            size=12,
            colour=GREY,
        ),
    ]


def drawn() -> str:
    """Return the picture."""
    said = json.loads((HERE / "numbers.json").read_text("utf-8"))
    shapes = [text(LEFT, 22, "What was recorded, what of it is bad, and which windows touch that", bold=True, size=14)]
    shapes += stretches(said)
    shapes += [trace(some, INK, width=1.1) for some in pieces(said) if len(some) > 1]
    shapes += [*windows(said), *axis(), *legend(said)]
    scale = LEFT + PX_S * ROW_S - 8
    shapes += [
        line(scale, height(0, 2.5), scale, height(0, 1.5), LINE, width=2.5),
        text(scale - 6, 84, "1 mV", size=12, at="end"),
    ]
    return card("36 seconds of a damaged recording: bad stretches, and windows with their flags", 562, shapes)


if __name__ == "__main__":
    (HERE / "quality.svg").write_text(drawn(), "utf-8")
