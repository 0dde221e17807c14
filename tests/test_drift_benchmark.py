"""The tables of drift and of streams are those of their results, wherever they stand."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from loaded_scripts import load_script

ROOT = Path(__file__).parent.parent
BENCHMARKS = ROOT / "benchmarks"


def results_of(name: str) -> Any:
    return json.loads((BENCHMARKS / name / "results.json").read_text())


def written(page: Path, name: str) -> str:
    marked = rf"<!-- written by benchmarks/{name}/run.py -->\n(.*?)\n<!-- end of what"
    found = re.search(marked, page.read_text(), re.DOTALL)
    assert found is not None
    return found[1].strip()


@pytest.mark.parametrize(
    "page", [BENCHMARKS / "drift" / "README.md", ROOT / "docs" / "stream.md"], ids=lambda page: page.parent.name
)
def test_the_table_of_drift_is_that_of_the_results(page: Path) -> None:
    run, results = load_script(BENCHMARKS / "drift" / "run.py"), results_of("drift")
    assert run.summed(results["events"]) == results["rows"]
    assert written(page, "drift") == run.table(results["rows"])


def test_the_table_of_streams_is_that_of_the_results() -> None:
    found = written(BENCHMARKS / "stream" / "README.md", "stream")
    assert found == load_script(BENCHMARKS / "stream" / "run.py").rows_of(results_of("stream")["records"])
