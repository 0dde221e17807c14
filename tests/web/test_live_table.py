"""The table that the live page saves: what strangers named stands in it as text, in every spreadsheet."""

import csv
import io
from typing import Any

import pytest
from node_runtime import in_node, own

from ecgfed.base.text import safe_cell

pytestmark = pytest.mark.browser
NAMES = ("V", "=", "-", '=HYPERLINK("http://x","beat")', "+1", "-2+3", "@SUM(A1)", "a,b", 'a"b', "-,", "=1\n2", "")


def beat(name: str, sample: int) -> dict[str, Any]:
    said = {"class": name, "symbol": name[:1], "label": 0, "probability": 0.5, "probabilities": [0.5]}
    doubt = {"lowConfidence": False, "outOfDistribution": False}
    return {**said, **doubt, "sample": sample, "flags": 0, "poorQuality": "", "stage": "final"}


def test_names_that_a_spreadsheet_would_compute_are_texts_as_in_python() -> None:
    """Class names are a bundle's, its own name a file's, a lead's that of a recording or a device."""
    jobs = []
    for name in NAMES:
        about = {"fsHz": 360, "name": "a", "model": name, "patient": name, "lead": name}
        jobs.append(own("saved_table", [beat(name, 0), beat("N", 360)], about))
    for name, text in zip(NAMES, in_node(*jobs), strict=True):
        rows = list(csv.DictReader(io.StringIO(text, newline="")))
        assert [row["class"] for row in rows] == [safe_cell(name), "N"]
        assert {row["symbol"] for row in rows} == {name[:1], "N"}
        assert {(row["model"], row["patient"], row["lead"]) for row in rows} == {(safe_cell(name),) * 3}
        assert [row["time_s"] for row in rows] == ["0.0000", "1.0000"]
