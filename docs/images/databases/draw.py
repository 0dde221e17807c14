"""Draws how the packaged model's recipe does on patients and databases it was not trained on.

``python docs/images/databases/draw.py``, from ``benchmarks/shipped/results.json``.
"""

import json
import sys
from pathlib import Path
from statistics import harmonic_mean
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from svg import COMMON, GREY, LINE, OWN, bar, card, line, text

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
LEFT, PANEL, TOP, HIGH, WIDE, PAIR, STEP = 52.0, 418.0, 84.0, 200.0, 76.0, 86.0, 196.0
DATABASES = ("MIT-BIH", "SVDB")


def f1(scores: dict[str, Any], kind: str) -> float:
    """Harmonic mean of gross sensitivity and positive predictive value, in percent."""
    return harmonic_mean([scores["gross"]["scores"][f"{kind}_{end}"]["percent"] for end in ("se", "ppv")])


def drawn() -> str:
    """Return the picture."""
    results = json.loads((ROOT / "benchmarks" / "shipped" / "results.json").read_text("utf-8"))
    scores = {
        "MIT-BIH": (results["folds"]["mitdb"]["whole_records"], results["without_mitbih"]),
        "SVDB": (results["folds"]["svdb"]["whole_records"], results["without_svdb"]),
    }
    shapes = []
    for number, (kind, title) in enumerate((("veb", "Ventricular beats"), ("sveb", "Supraventricular beats"))):
        x = LEFT + PANEL * number
        shapes.append(text(x, 40, title, size=21, bold=True))
        for value in (0, 50, 100):
            y = TOP + HIGH * (1 - value / 100)
            shapes += [
                line(x, y, x + 2 * STEP - 20, y, "#d5dbe1" if value else LINE),
                text(x - 8, y + 5, f"{value}", size=17, colour=GREY, at="end"),
            ]
        for database, name in enumerate(DATABASES):
            left = x + STEP * database + 4
            for which, colour in enumerate((OWN, COMMON)):
                score = f1(scores[name][which], kind)
                top = TOP + HIGH * (1 - score / 100)
                middle = left + PAIR * which + WIDE / 2
                shapes += [
                    bar(left + PAIR * which, top, WIDE, HIGH * score / 100, colour),
                    text(middle, top - 7, f"{score:.0f}", size=22, at="middle", bold=True),
                ]
            shapes.append(text(left + (PAIR + WIDE) / 2, TOP + HIGH + 27, name, size=21, at="middle", bold=True))
    for row, (colour, label) in enumerate(
        ((OWN, "trained on other patients of both databases"), (COMMON, "trained without any record of this database"))
    ):
        y = TOP + HIGH + 48 + 26 * row
        shapes += [bar(LEFT, y, 18, 18, colour), text(LEFT + 28, y + 15, label, size=17)]
    foot = "F1 in percent, beat by beat (EC57), no labels of the patient, ecgfed's own R peaks."
    return card(
        "F1 of ventricular and supraventricular beats on MIT-BIH and SVDB",
        int(TOP + HIGH + 132),
        [*shapes, text(LEFT, TOP + HIGH + 118, foot, size=15, colour=GREY)],
    )


if __name__ == "__main__":
    (HERE / "databases.svg").write_text(drawn(), "utf-8")
