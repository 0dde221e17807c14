"""Draws errors and time of R peak detectors: ``python docs/images/peers/draw.py``.

The 22 DS2 records of MIT-BIH, from ``benchmarks/qrs/results.json``.
"""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from svg import COMMON, GREY, OWN, bar, card, text

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
#: Label and name in the results.
DETECTORS = (
    ("ecgfed", "ecgfed"),
    ("NeuroKit2, pantompkins1985", "pantompkins1985"),
    ("wfdb, GQRS", "gqrs"),
    ("wfdb, XQRS", "xqrs"),
    ("sleepecg", "sleepecg"),
    ("NeuroKit2, its default", "neurokit"),
)
LEFT, ERRORS, SECONDS, LENGTH, STEP, HIGH, TOP = 24.0, 290.0, 590.0, 190.0, 38.0, 24.0, 62.0


def drawn() -> str:
    """Return the picture."""
    rows = json.loads((ROOT / "benchmarks" / "qrs" / "results.json").read_text("utf-8"))["results"]
    by_name = {row["detector"]: row for row in rows}
    errors = {
        name: 1e4 * (by_name[name]["DS2"]["missed"] + by_name[name]["DS2"]["extra"]) / by_name[name]["DS2"]["beats"]
        for _, name in DETECTORS
    }
    seconds = {name: by_name[name]["cpu_s_per_record"] for _, name in DETECTORS}
    shapes = [
        text(ERRORS, 40, "errors in 10,000 beats", size=17, bold=True),
        text(SECONDS, 40, "CPU seconds a record", size=17, bold=True),
    ]
    for number, (label, name) in enumerate(DETECTORS):
        y = TOP + STEP * number
        colour = OWN if name == "ecgfed" else COMMON
        shapes.append(text(LEFT, y + 18, label, size=18, bold=name == "ecgfed"))
        for x, values, shown in ((ERRORS, errors, f"{errors[name]:.0f}"), (SECONDS, seconds, f"{seconds[name]:.2f}")):
            width = LENGTH * values[name] / max(values.values())
            shapes += [bar(x, y, width, HIGH, colour), text(x + width + 6, y + 18, shown, size=18)]
    y = TOP + STEP * len(DETECTORS)
    foot = "MIT-BIH, 22 DS2 records of 30 minutes: 41,515 beats. Errors: missed and extra beats."
    return card(
        "R peak detectors: errors in 10,000 beats, and CPU seconds a record",
        int(y + 36),
        [*shapes, text(LEFT, y + 18, foot, size=15, colour=GREY)],
    )


if __name__ == "__main__":
    (HERE / "peers.svg").write_text(drawn(), "utf-8")
