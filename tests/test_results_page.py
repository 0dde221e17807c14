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
