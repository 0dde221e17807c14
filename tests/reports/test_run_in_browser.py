"""A run's page and a comparison in headless Chromium: opened, wide and narrow, printed, read by a checker."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser_driver import opened
from support import change_json
from written_run import write_run, write_scores

import ecgfed
from ecgfed.tasks.compare_page import compare_as_page

pytestmark = pytest.mark.browser
HOSTILE = "</script><script>window.hacked = true</script>"


def many(folder: Path, name: str, seed: int, cohort: Path) -> Path:
    """A run of a hundred patients on a real cohort of four, evaluated, with hostile names."""
    document = json.loads((cohort / "cohort.json").read_text())
    classes = document["label_map"]["classes"]
    run = write_run(folder / name, method=HOSTILE, fingerprint=document["fingerprint"])
    clients = [client["id"] for client in document["clients"]]
    where = {"path": str(cohort), "fingerprint": document["fingerprint"]}
    change_json(run / "run.json", classes=classes, clients=clients, cohort=where)
    rng = np.random.default_rng(seed)
    patients = {
        f"patient {i}{HOSTILE * (i == 3)}": (float(a), float(b)) for i, (a, b) in enumerate(rng.random((100, 2)))
    }
    scores = {"T_g": 0.5, "T_p": 0.6, "T_r": 0.4, "T_l": 0.48}
    file = write_scores(run, scores, patients, classes={"N": (80, 90, 0.9), "V": (20, 10, 0.25)})
    matrix = rng.integers(0, 900, (len(classes), len(classes))).tolist()
    change_json(file, confusion=matrix, confusion_personal=matrix)
    return run


@pytest.fixture(scope="module", params=["run", "comparison"])
def told(request: pytest.FixtureRequest, cohort_path: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What happened when the page was opened and used."""
    folder = tmp_path_factory.mktemp("page")
    first, page = many(folder, "first", 0, cohort_path), folder / "page.html"
    if request.param == "run":
        ecgfed.report_run(first, page)
    else:
        compare_as_page([first, many(folder, "second", 1, cohort_path)], page)
    return {**opened(page, folder), "page": page, "kind": request.param}


def test_it_opens_without_an_error_and_asks_for_nothing(told: dict[str, Any]) -> None:
    assert told["errors"] == []
    assert set(told["requests"]) == {told["page"].as_uri()}
    assert told["hacked"] is False
    assert told["title"] == {"run": "Run report: first", "comparison": "Runs compared"}[told["kind"]]


def test_it_fits_a_desktop_and_a_phone(told: dict[str, Any]) -> None:
    assert told["widths"] == {"desktop": 1280, "phone": 390, "small": 320}
    assert told["unreachable"] == 0


def test_charts_say_what_they_show(told: dict[str, Any]) -> None:
    said = " ".join(told["charts"])
    words = ("Gain of 100 patients", "Training loss", "Map of 4 clients") if told["kind"] == "run" else ("B against A",)
    assert all(word in said for word in words), said
    assert told["folded"]
    assert not any(told["folded"])  # a hundred rows are folded away; the chart has them


def test_the_accessibility_checker_finds_nothing(told: dict[str, Any]) -> None:
    assert told["passes"] > 15
    assert told["axe"] == {"desktop": [], "phone": []}


def test_it_prints_on_a4_with_what_is_folded_away(told: dict[str, Any]) -> None:
    boxes = re.findall(rb"/MediaBox\s*\[\s*0 0 ([\d.]+) ([\d.]+)\s*\]", told["pdf"])
    assert {(round(float(width) / 72 * 25.4), round(float(height) / 72 * 25.4)) for width, height in boxes} == {
        (297, 210)
    }
    assert len(boxes) >= 5
