"""Draws models trained alone, together and personally: ``python docs/images/three-ways/draw.py``.

Macro-F1 of three models on a patient's own test beats (T_p) and on all patients' (T_r), means of the
seeds, from ``benchmarks/flagship/results.json``.
"""

import json
import statistics
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from svg import COMMON, GREY, LINE, OWN, THIRD, bar, card, line, text

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
#: Label, second line, name of the runs, colour.
MODELS = (
    ("alone", "own data", "Local", THIRD),
    ("together", "global model", "FedGate's global model, unchanged", COMMON),
    ("personal", "FedGate", "FedGate", OWN),
)
PANELS = (("T_p", "On the patient's own beats"), ("T_r", "On all patients' beats"))
LEFT, PANEL, STEP, WIDE = 52.0, 418.0, 128.0, 76.0
TOP, HIGH = 84.0, 200.0


def means(methods: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Means over seeds of T_p and T_r by name of the runs."""
    return {
        name: {key: statistics.fmean(run["test"][key] for run in methods[name]) for key, _ in PANELS}
        for _, _, name, _ in MODELS
    }


def panel(x: float, title: str, key: str, scores: dict[str, dict[str, float]]) -> list[str]:
    """Three bars from 0 to 1 with their values."""
    shapes = [text(x, 40, title, size=21, bold=True)]
    for value in (0.0, 0.5, 1.0):
        y = TOP + HIGH * (1 - value)
        shapes += [
            line(x, y, x + 3 * STEP, y, "#d5dbe1" if value else LINE),
            text(x - 8, y + 5, f"{value:g}", size=17, colour=GREY, at="end"),
        ]
    for number, (label, below, name, colour) in enumerate(MODELS):
        score = scores[name][key]
        left, middle = x + STEP * number + (STEP - WIDE) / 2, x + STEP * (number + 0.5)
        shapes += [
            bar(left, TOP + HIGH * (1 - score), WIDE, HIGH * score, colour),
            text(middle, TOP + HIGH * (1 - score) - 7, f"{score:.2f}", size=22, at="middle", bold=True),
            text(middle, TOP + HIGH + 27, label, size=21, at="middle", bold=True),
            text(middle, TOP + HIGH + 50, below, size=14, colour=GREY, at="middle"),
        ]
    return shapes


def drawn() -> str:
    """Return the picture."""
    methods = json.loads((ROOT / "benchmarks" / "flagship" / "results.json").read_text("utf-8"))["methods"]
    scores = means(methods)
    shapes = [
        shape
        for number, (key, title) in enumerate(PANELS)
        for shape in panel(LEFT + PANEL * number, title, key, scores)
    ]
    foot = (
        f"46 MIT-BIH records, random split, 12 classes, 20 passes: macro-F1, means of {len(methods['FedGate'])} seeds."
    )
    return card(
        "Macro-F1 of models trained alone, together and personally",
        376,
        [*shapes, text(LEFT, 362, foot, size=15, colour=GREY)],
    )


if __name__ == "__main__":
    (HERE / "three-ways.svg").write_text(drawn(), "utf-8")
