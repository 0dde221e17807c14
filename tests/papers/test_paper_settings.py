"""Every run of a paper's table trains with the settings it had before methods shared a server step (decision 0111)."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from ecgfed.core.methods.fed_rod import FedRodSettings, unused_settings
from ecgfed.core.methods.registry import method_by_name, methods
from ecgfed.core.methods.settings import make_settings
from ecgfed.tasks.reproduce import PAPERS
from ecgfed.tasks.reproduce_run import PaperRun

#: As resolved by the version before, by the run's name without its data set.
BEFORE = json.loads(Path(__file__).with_name("settings.json").read_text())


def paper_runs() -> Iterator[PaperRun]:
    """Yield the runs that can be trained, with seed 0 and in full."""
    for paper in PAPERS.values():
        for table in paper.tables.values():
            for setting in table.settings:
                for row in table.rows:
                    if row.method in methods():
                        yield PaperRun(paper.name, table.ensemble, setting, row, "full", 0)


def test_resolved_settings_are_those_of_before() -> None:
    seen = set()
    for run in paper_runs():
        key = f"{run.paper}/{run.name.rpartition('/')[2]}"
        kind, expected = method_by_name(run.row.method).settings_type, dict(BEFORE[key])
        resolved = asdict(make_settings(kind, run.all_settings()))
        if issubclass(kind, FedRodSettings):  # has settings of every generic method, and takes only its own
            for name in unused_settings(resolved["generic"]):
                del resolved[name], expected[name]
        assert {name: resolved[name] for name in expected} == expected, key
        seen.add(key)
    assert seen == BEFORE.keys()


def test_what_is_written_into_results_is_as_before() -> None:
    """A results file of the version before is continued: names and declared settings of its runs are the same."""
    run = next(run for run in paper_runs() if run.row.method == "afl-fedavg")
    assert run.name == "grp-fed-full-mitbih/afl-fedavg-s0"
    assert run.declared()["settings"] == {"lr": 0.005, "momentum": 0.9, "lambda_lr": 0.1}
