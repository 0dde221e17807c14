"""Draws what answers of the labelling page speak for: ``python docs/images/groups/draw.py``, from ``look.py``'s."""

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from svg import COMMON, GREY, OWN, bar, card, text, trace

HERE = Path(__file__).parent
#: Left edge and width of the panels, pixels a millivolt, and where 0 mV is.
LEFT, WIDE, PX_MV, ZERO = 20.0, 164.0, 38.0, 160.0
MEANING = {"N": "normal", "R": "right bundle branch block", "A": "atrial premature", "V": "ventricular premature"}


def panel(number: int, group: dict[str, Any], beats: int) -> list[str]:
    """Return one answered beat over some of those that it speaks for."""
    x = LEFT + (WIDE + 2) * number
    step = (WIDE - 16) / (len(group["answered"]) - 1)

    def line(window: list[int], colour: str, width: float) -> str:
        return trace([(x + step * i, ZERO - PX_MV * v / 100) for i, v in enumerate(window)], colour, width=width)

    share = group["beats"] / beats
    return [
        text(x, 30, f"Answer {number + 1}: {group['label']}", size=14, bold=True),
        text(x, 48, MEANING[group["label"]], size=12, colour=GREY),
        *(line(one, "#7fb8da", 1) for one in group["some"]),
        line(group["answered"], "#1d2730", 2),
        text(x, 246, f"speaks for {group['beats']} beats", bold=True),
        bar(x, 254, WIDE - 16, 8, "#e4e8ec"),
        bar(x, 254, (WIDE - 16) * share, 8, COMMON),
        text(
            x,
            282,
            f"{group['right']} are {group['label']}",
            size=12,
            colour=OWN if group["right"] < group["beats"] else GREY,
        ),
    ]


def drawn() -> str:
    """Return the picture."""
    said = json.loads((HERE / "numbers.json").read_text("utf-8"))
    shapes = []
    for number, group in enumerate(said["groups"]):
        shapes += panel(number, group, said["beats"])
    right = sum(group["right"] for group in said["groups"])
    foot = (
        f"A synthetic patient, {said['beats']} beats, lead MLII: after {len(said['groups'])} answers {right} have "
        "their label. Black: the beat that was asked for."
    )
    return card(
        "Five answered beats, and the beats that each of them speaks for",
        326,
        [*shapes, text(20, 310, foot, size=12, colour=GREY)],
    )


if __name__ == "__main__":
    (HERE / "groups.svg").write_text(drawn(), "utf-8")
