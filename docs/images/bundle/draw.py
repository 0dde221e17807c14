"""Draws one bundle and the places it runs: ``python docs/images/bundle/draw.py``, from what ``look.py`` found."""

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from svg import COMMON, GREY, INK, LINE, OWN, THIRD, arrow, box, card, text

HERE = Path(__file__).parent
#: Files of the bundle, what they are, and whose.
FILES = (
    ("manifest.json", "every number of the preprocessing", INK),
    ("global.onnx", "the model for everybody", COMMON),
    ("head.onnx", "the head that patients share", COMMON),
    ("patients/", "each patient's own extractor", OWN),
    ("far.onnx", "how far a beat lies from known ones", COMMON),
    ("golden.json", "golden vectors: a test of the place", THIRD),
    ("weights/", "to start a new patient from", COMMON),
    ("CARD.md, card.json", "what it is for, and not for", INK),
)
GREEN = "#00664b"


def size(files: dict[str, int], name: str) -> str:
    """Return a file's bytes; of a folder of several files of one size, so many times."""
    found = [files[one] for one in name.split(", ") if one in files]
    found = found or [count for one, count in files.items() if one.startswith(name)]
    if len(found) > 1 and len(set(found)) == 1:
        return f"{len(found)} × {found[0]:,}"
    return f"{sum(found):,}"


def bundle(files: dict[str, int]) -> list[str]:
    """Return the bundle as a list of its files."""
    total = f"{len(files)} files, {sum(files.values()):,} bytes"
    shapes = [
        f'<rect x="150" y="20" width="400" height="276" rx="9" fill="#f4f6f8" stroke="{LINE}"/>',
        text(166, 46, "The bundle", size=15, bold=True),
        text(534, 46, total, size=12, colour=GREY, at="end"),
    ]
    for row, (name, what, colour) in enumerate(FILES):
        y = 74 + 29 * row
        ink = GREEN if colour == THIRD else colour
        shapes += [
            text(166, y, name, bold=True, colour=ink),
            text(304, y, what, size=12, colour=GREY),
            text(540, y, size(files, name), size=12, at="end"),
        ]
    return shapes


def places(said: dict[str, Any]) -> list[str]:
    """Return where it runs, and what each place makes of the golden vectors."""
    shapes = []
    for row, (name, what, place) in enumerate(
        (
            ("Python", "NumPy and ONNX Runtime, no torch", "python"),
            ("Node", "onnxruntime-node", "node"),
            ("Browser", "onnxruntime-web, no network", "chromium"),
        )
    ):
        y = 20 + 96 * row
        shapes += [
            arrow(550, y + 42, 592, y + 42),
            f'<rect x="594" y="{y}" width="250" height="84" rx="7" fill="#e8f1fa" stroke="{COMMON}"/>',
            text(608, y + 25, name, size=14, bold=True),
            text(608, y + 44, what, size=12),
            text(
                608,
                y + 69,
                said["places"][place].replace("the golden vectors", "golden.json"),
                size=12,
                bold=True,
                colour=GREEN,
            ),
        ]
    return shapes


def sources(said: dict[str, Any]) -> list[str]:
    """Return the way to a microcontroller, which is made of the run as well."""
    return [
        *box(14, 130, 104, 56, LINE, "A run", "ecgfed train"),
        arrow(118, 158, 148, 158),
        text(20, 122, "export", size=12, colour=GREY),
        arrow(66, 186, 66, 346),
        text(74, 322, "export", size=12, colour=GREY),
        text(74, 338, "--target mcu", size=12, colour=GREY),
        f'<rect x="14" y="348" width="536" height="62" rx="9" fill="#f4f6f8" stroke="{LINE}"/>',
        text(30, 374, "C99 sources of one patient's model, in int8", size=14, bold=True),
        text(
            30, 396, f"{said['sources']:,} bytes of text, all numbers and golden vectors included", size=12, colour=GREY
        ),
        arrow(550, 379, 592, 379),
        f'<rect x="594" y="337" width="250" height="84" rx="7" fill="#fdf1e3" stroke="{OWN}"/>',
        text(608, 362, "Microcontroller", size=14, bold=True),
        text(608, 381, "no allocation, no operating system", size=12),
        text(608, 406, f"on this computer: {said['places']['c']}", size=12, bold=True, colour=GREEN),
    ]


def drawn() -> str:
    """Return the picture."""
    said = json.loads((HERE / "numbers.json").read_text("utf-8"))
    foot = "GRP-FED on four synthetic patients, without RR features; a run and a bundle of yours have other sizes."
    shapes = [*bundle(said["files"]), *places(said), *sources(said), text(14, 446, foot, size=12, colour=GREY)]
    return card("One bundle and the places it runs, with what each says of the golden vectors", 462, shapes)


if __name__ == "__main__":
    (HERE / "bundle.svg").write_text(drawn(), "utf-8")
