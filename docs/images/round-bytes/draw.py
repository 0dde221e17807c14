"""Draws what leaves a site in a round: ``python docs/images/round-bytes/draw.py``, from what ``look.py`` found."""

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from svg import COMMON, GREY, LINE, OWN, arrow, bar, box, card, text

HERE = Path(__file__).parent
#: Where bars begin, and bytes a pixel.
LEFT, PER_PX = 330, 4_300


def row(y: float, name: str, what: str, size: int, colour: str) -> list[str]:
    """Return a bar with its name, what it is and its bytes; all bars of the picture are to one scale."""
    wide = size / PER_PX
    shapes = [text(LEFT - 14, y + 12, name, at="end", bold=True), text(LEFT - 14, y + 28, what, at="end", size=12)]
    inside = wide > 300
    said = f"{size:,} bytes"
    told = text(LEFT + wide - 8, y + 19, said, at="end", colour="#ffffff", bold=True) if inside else ""
    told = told or text(LEFT + wide + 8, y + 19, said, bold=True)
    return [*shapes, bar(LEFT, y, max(wide, 1.5), 28, colour), told]


def drawn() -> str:
    """Return the picture."""
    said: dict[str, Any] = json.loads((HERE / "numbers.json").read_text("utf-8"))
    stays, up, many = said["stays"], said["up"], said["patients"]
    where = f"Site 1: what is in here stays; {many} patients, each of them a number to the server"
    foot = (
        f"GRP-FED, one of {said['sites']} sites, synthetic patients of six minutes; all bars to one scale; "
        "Flower's own headers come on top."
    )
    shapes = [
        *box(14, 14, 832, 46, COMMON, "Server", "gets each patient's update, and no recording and no name"),
        arrow(50, 222, 50, 64, COMMON),
        arrow(80, 64, 80, 222, COMMON),
        text(LEFT - 14, 95, "up, each round", at="end", bold=True, colour=COMMON),
        *row(76, "", "", many * up["model"], COMMON),
        text(LEFT, 122, f"{many} × {up['model']:,}: each patient's extractor and head, trained", size=12, colour=GREY),
        *row(134, "", "", many * up["beside"], COMMON),
        text(LEFT + 110, 153, f"{many} × {up['beside']}: losses, how many beats, numbers", size=12, colour=GREY),
        text(LEFT - 14, 197, "down, each round", at="end", bold=True, colour=COMMON),
        *row(178, "", "", said["down"], COMMON),
        text(LEFT + 180, 197, "the global model, once for all patients of the site", size=12, colour=GREY),
        f'<rect x="14" y="226" width="832" height="222" rx="9" fill="none" stroke="{LINE}" stroke-dasharray="7 5"/>',
        text(30, 250, where, bold=True, size=14),
        *row(266, "recordings", "signals, names, annotations", stays["recordings"], OWN),
        *row(310, "cohort", "windows, RR features, labels", stays["cohort"], OWN),
        *row(354, "what patients keep", "own extractor, discriminator, memory", stays["kept"], OWN),
        *row(398, "private key", "proves to the server who it is", stays["key"], OWN),
        text(30, 468, foot, size=12, colour=GREY),
    ]
    shapes = [one for one in shapes if one and "></text>" not in one]
    return card("What leaves a site in one round, and what stays, in bytes", 484, shapes)


if __name__ == "__main__":
    (HERE / "round-bytes.svg").write_text(drawn(), "utf-8")
