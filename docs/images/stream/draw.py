"""Draws when a stream answers: ``python docs/images/stream/draw.py``, from what ``look.py`` found."""

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from svg import COMMON, GREY, INK, LINE, OWN, area, card, line, text, trace

HERE = Path(__file__).parent
#: Pixels a second and where the R peak stands, on top and below; pixels a millivolt and where 0 mV is.
TOP, BELOW, PX_MV, ZERO = (45.0, 110.0), (6.0, 110.0), 34.0, 142.0
GREEN = "#00664b"


def at(scale: tuple[float, float], late_s: float) -> float:
    """Return the x of so many seconds after the R peak."""
    return scale[1] + scale[0] * late_s


def sure(answer: dict[str, Any]) -> str:
    """Return an answer in words."""
    return f"{answer['name']}, {answer['probability']:.2f}, {'uncertain' if answer['uncertain'] else 'sure'}"


def signal(said: dict[str, Any]) -> list[str]:
    """Return what has been recorded, with the beat."""
    step = 6 / said["fs_hz"]
    points = [(at(TOP, -2.0 + i * step), ZERO - PX_MV * value) for i, value in enumerate(said["signal_mv"])]
    x = at(TOP, 0)
    return [
        area(x - 12.5, 44, 32, 160, "#d3e6f5"),
        trace([one for one in points if one[0] <= 850], INK, width=1.2),
        text(x + 3, 36, "the beat", bold=True, at="middle"),
    ]


def marks(said: dict[str, Any]) -> list[str]:
    """Return the answers that come within seconds."""
    early, final = said["shipped"][0]["late_s"], said["without_rr"][-1]["late_s"]
    shapes = []
    for late, colour, dash in ((early, OWN, "6 4"), (final, GREEN, "2 3")):
        shapes.append(line(at(TOP, late), 44, at(TOP, late), 226, colour, width=2.2, dash=dash))
    shapes += [
        text(at(TOP, early) + 8, 36, f"early, {early:.2f} s after the R peak", bold=True, colour=OWN),
        text(at(TOP, early) + 8, 56, sure(said["shipped"][0]), colour=OWN),
        text(at(TOP, final) + 8, 36, f"final, {final:.2f} s", bold=True, colour=GREEN),
        text(at(TOP, final) + 8, 56, "a model without RR features", colour=GREEN),
    ]
    for second in range(0, 17, 2):
        x = at(TOP, second)
        shapes += [line(x, 226, x, 232), text(x, 247, f"{second} s", size=12, at="middle", colour=GREY)]
    return [line(20, 226, 850, 226), *shapes]


def long_wait(said: dict[str, Any]) -> list[str]:
    """Return the final answer of the model in the package, on a scale of minutes."""
    early, final = (one["late_s"] for one in said["shipped"])
    ahead, y = said["ahead_s"], 322
    shapes = [text(20, 284, "The same beat and the model in the package, on a longer scale", bold=True, size=14)]
    shapes += [line(at(BELOW, 0), y, 850, y), area(at(BELOW, 0) - 2, y - 16, 4, 16, INK)]
    shapes.append(text(at(BELOW, 0) - 10, y - 4, "R peak", at="end", size=12))
    for late, colour, dash in ((early, OWN, "6 4"), (final, COMMON, "")):
        shapes.append(line(at(BELOW, late), y - 22, at(BELOW, late), y, colour, width=2.5, dash=dash))
    shapes += [
        text(at(BELOW, early) + 6, y - 10, "early", bold=True, colour=OWN),
        text(850, y - 28, f"final, {final:.2f} s: {sure(said['shipped'][1])}", bold=True, colour=COMMON, at="end"),
        line(at(BELOW, ahead), y - 10, at(BELOW, ahead), y, LINE, width=2),
        text(
            at(BELOW, ahead) - 6,
            y - 8,
            f"beat {said['beats_ahead']} after it, {ahead:.2f} s",
            at="end",
            size=12,
            colour=GREY,
        ),
    ]
    for second in range(0, 121, 20):
        x = at(BELOW, second)
        shapes += [line(x, y, x, y + 6), text(x, y + 21, f"{second} s", size=12, at="middle", colour=GREY)]
    foot = "Its RR features look at the beats around, so it waits for them and for their quality. A synthetic patient."
    return [*shapes, text(20, y + 50, foot, size=12, colour=GREY)]


def drawn() -> str:
    """Return the picture."""
    said = json.loads((HERE / "numbers.json").read_text("utf-8"))
    return card("When a stream says what of one beat", 390, [*signal(said), *marks(said), *long_wait(said)])


if __name__ == "__main__":
    (HERE / "stream.svg").write_text(drawn(), "utf-8")
