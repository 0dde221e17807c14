"""The results page is what the results files give."""

from pathlib import Path
from types import ModuleType

import pytest
from loaded_scripts import load_script

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def results_page() -> ModuleType:
    return load_script(ROOT / "benchmarks" / "results_page.py")


def test_the_page_is_what_the_files_give(results_page: ModuleType) -> None:
    told = "run python benchmarks/results_page.py"
    assert (ROOT / "docs" / "results.md").read_text() == results_page.page(), told


def test_spreads_and_intervals_by_hand(results_page: ModuleType) -> None:
    assert results_page.spread({"mean": 0.93449, "sd": 0.0041}) == "0.934 ± 0.004"
    assert results_page._interval({"mean": 0.01, "low": -0.002, "high": 0.03}) == "+0.010 (-0.002 to +0.030)"
    assert results_page.table(("a", "b"), [(1, 2)]) == ["| a | b |", "| --- | --- |", "| 1 | 2 |"]


def test_the_flagships_row_by_hand(results_page: ModuleType) -> None:
    runs = [
        {"test": dict.fromkeys(results_page.SCORES, score), "test_worst_tenth": score / 2, "curve": curve}
        for score, curve in ((0.9, [[1.0, 0.5], [2.0, 0.87], [3.0, 0.85]]), (0.8, [[1.0, 0.86], [2.0, 0.9]]))
    ]
    lines = results_page.flagship({"methods": {"FedGate": runs, "Local": [{**runs[0], "curve": [[1.0, 0.1]]}]}})
    four = "0.850 (0.800 to 0.900) | " * 4
    assert f"| FedGate | {four}0.425 (0.400 to 0.450) | 1.5 |" in lines
    assert lines[-3].endswith("| never |")
    assert lines[-1] == "Still to be measured beside it: GRP-FED, FedAvg."
    assert "2 seeds" in lines[0]
