"""The table that the live page saves, and numbers of things, as Python writes them: strangers' names stay text."""

import csv
import io
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from node_runtime import in_node, node_path, own

import ecgfed.web
from ecgfed.base.text import count_of, safe_cell

pytestmark = pytest.mark.browser
PAPER = Path(ecgfed.web.__file__).parent / "paper.js"
COUNTS = (0, 1, 2, 11, 1234, 105_045)
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


def test_a_number_of_things_as_in_python() -> None:
    script = f"const {{countOf}} = require({json.dumps(str(PAPER))});"
    script += f"console.log(JSON.stringify({json.dumps(COUNTS)}.map((many) => countOf(many, 'beat'))));"
    done = subprocess.run([node_path(), "-e", script], capture_output=True, text=True, timeout=60, check=True)
    assert json.loads(done.stdout) == [count_of(many, "beat") for many in COUNTS]
