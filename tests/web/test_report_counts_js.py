"""The page's counts of edited beats and Python's are the same, on random beats and on recordings."""

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from edits_files import SAVED, document_of, written
from node_runtime import node_path
from random_reports import counts_of, of_page, random_edits, random_labelled, random_rules, recording_of

import ecgfed
import ecgfed.web
from ecgfed.domain.labels.edits import read_edits
from ecgfed.reports.drawing import reading_of
from ecgfed.reports.editing import editing_data

WEB = Path(ecgfed.web.__file__).parent
DRIVER = Path(__file__).parents[1] / "browser" / "edits.mjs"
CASES = 150
pytestmark = pytest.mark.browser


def by_script(folder: Path, given: list[dict[str, Any]]) -> list[dict[str, Any]]:
    file = folder / "given.json"
    file.write_text(json.dumps(given))
    command = [node_path(), str(DRIVER), str(WEB), str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    answers: list[dict[str, Any]] = json.loads(done.stdout)
    return answers


def assert_same(ours: Any, theirs: Any, where: str) -> None:
    """Equal, but for the last digits of sums of floats."""
    if isinstance(theirs, dict):
        assert isinstance(ours, dict) and set(ours) == set(theirs), where
        for name, value in theirs.items():
            assert_same(ours[name], value, f"{where}.{name}")
    elif isinstance(theirs, list | tuple):
        assert len(ours) == len(theirs), f"{where}: {ours} {theirs}"
        for number, value in enumerate(theirs):
            assert_same(ours[number], value, f"{where}[{number}]")
    elif isinstance(theirs, float | np.floating):
        assert ours == pytest.approx(float(theirs), rel=1e-11, abs=1e-9), f"{where}: {ours} {theirs}"
    else:
        assert ours == theirs, f"{where}: {ours} {theirs}"


def test_random_edits_of_random_beats(tmp_path: Path) -> None:
    given, expected = [], []
    for seed in range(CASES):
        rng = np.random.default_rng(seed)
        labelled, quality = random_labelled(rng, int(rng.integers(2, 400)))
        recording, rules, edits = recording_of(quality), random_rules(rng), random_edits(rng, labelled)
        reviewed = {"by": "x", "at": SAVED} if rng.random() < 0.3 else None
        unedited = reading_of(recording, {"II": quality}, labelled, rules)
        editing = editing_data(unedited, "0" * 16, "0" * 16)
        given.append({"editing": editing, "edits": edits, "reviewed": reviewed})
        empty: dict[str, Any] = dict.fromkeys(("indication", "comments", "conclusion"), "")
        ids = {"format": "ecgfed-edits", "version": 1, "recording": "0" * 16, "beats": "0" * 16}
        document = {
            **ids,
            **empty,
            "author": "x",
            "saved_at": SAVED,
            "reviewed": reviewed,
            "strips": [],
            "edits": edits,
        }
        edited = reading_of(recording, {"II": quality}, labelled, rules, edits=read_edits(written(tmp_path, document)))
        expected.append(json.loads(json.dumps(counts_of(edited), default=float)))
    for seed, (answer, counts) in enumerate(zip(by_script(tmp_path, given), expected, strict=True)):
        assert_same(of_page(answer["counts"]), counts, f"case {seed}")
    assert sum(bool(counts["ventricular"] and counts["ventricular"]["runs"]) for counts in expected) > CASES / 10
    assert sum(bool(counts["pauses"]["found"]) for counts in expected) > CASES / 10
    assert sum(bool(counts["withheld"]) for counts in expected) > CASES / 10
