"""The tables of drift and of streams are those of their results, wherever they stand."""

import importlib.util
import json
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
BENCHMARKS = ROOT / "benchmarks"


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"{name}_run", BENCHMARKS / name / "run.py")
    assert spec is not None
    assert spec.loader is not None
    run = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(run)
    return run


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
    run, results = script("drift"), results_of("drift")
    assert run.summed(results["events"]) == results["rows"]
    assert written(page, "drift") == run.table(results["rows"])


def test_the_table_of_streams_is_that_of_the_results() -> None:
    found = written(BENCHMARKS / "stream" / "README.md", "stream")
    assert found == script("stream").rows_of(results_of("stream")["records"])
