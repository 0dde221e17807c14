"""Seconds until a global model has T_g 0.86: the recipe of 60 passes beside FedGate's, in turns, on one machine.

    python benchmarks/flagship/seconds.py --source MITDB --work DIR

A few rounds of each are timed in turns, on a machine with nothing else to do; a round's seconds are those of training
with aggregation (``timing.jsonl``). How many rounds it takes is known already: the recipe before (GRP-FED, 4 steps of
64 windows, no RR intervals) has those of its 60 passes, local steps in the last of them (``benchmarks/grp_fed``);
FedGate's rounds until T_g .86 on validation beats are those of ``runs.json``, three seeds.
"""

import argparse
import json
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import ROOT, benchmark, prepared, print_table, results_of, save, trained
from results_flagship import ENOUGH, passes_to

from ecgfed.base.errors import RunError
from ecgfed.core.runs.history import TIMING, read_lines
from ecgfed.domain.cohort.cohort import Cohort

#: Rounds of a run that are timed after its first, which warms up; turns, each with runs of its own.
ROUNDS, TURNS = 9, 3
BEFORE: dict[str, Any] = {"method": "grp-fed", "rr": False, "local_steps": 4, "batch_size": 64}
GLOBAL, LOCAL, FED_GATE = "before, global model", "before, local extractors too", "FedGate"
#: name -> options of ``ecgfed.train``
RECIPES: dict[str, dict[str, Any]] = {
    GLOBAL: {**BEFORE, "settings": {"personalise": False}},
    LOCAL: {**BEFORE, "settings": {"personal_start": 0.0}},
    FED_GATE: {"method": "fed-gate"},
}
RUNS = Path(__file__).with_name("runs.json")


def timed(cohort: Cohort, folder: Path) -> dict[str, float]:
    """Return the median seconds of a round of each recipe, timed in turns."""
    seconds: dict[str, list[float]] = {name: [] for name in RECIPES}
    for turn in range(TURNS):
        for number, (name, options) in enumerate(RECIPES.items()):
            run = trained(cohort, folder / f"{number}-{turn}", **options, rounds=ROUNDS + 1, eval_every=0, seed=turn)
            seconds[name] += [line["seconds"] for line in read_lines(run.path / TIMING, run.plan.rounds)][1:]
    return {name: statistics.median(found) for name, found in seconds.items()}


def rounds_before() -> tuple[int, float]:
    """Return the rounds of the recipe before, and the share of them with local steps.

    Raises:
        RunError: ``benchmarks/grp_fed`` has no results.
    """
    found = results_of("grp_fed")
    if found is None:
        raise RunError(ROOT / "benchmarks" / "grp_fed", "has no results.json", "those of its run.py")
    first = next(row for row in found["rows"] if row["name"] == "grp")
    return first["rounds"], 1 - first["settings"]["personal_start"]


def rounds_needed(runs: dict[str, Any]) -> Iterator[float]:
    """Yield for each seed the rounds that FedGate took until ``ENOUGH`` on validation beats."""
    for seed in range(3):
        run = runs[f"FedGate/{seed}"]
        yield passes_to(run, ENOUGH) / run["curve"][-1][0] * run["rounds"]


def main(given: argparse.Namespace) -> None:
    cohort = prepared(given.source, given.work, by="record")
    round_s = timed(cohort, given.work / "timed")
    rounds, local_share = rounds_before()
    before = rounds * round_s[GLOBAL]
    local = rounds * local_share * (round_s[LOCAL] - round_s[GLOBAL])
    now = [rounds * round_s[FED_GATE] for rounds in rounds_needed(json.loads(RUNS.read_text()))]
    found = {
        "round_s": {name: round(value, 4) for name, value in round_s.items()},
        "before_s": round(before, 1),
        "before_with_local_s": round(before + local, 1),
        "fed_gate_s": [round(value, 1) for value in now],
        "times_as_fast": round(before / statistics.fmean(now), 2),
    }
    print_table(("what", "seconds"), found.items())
    save(given, found)


if __name__ == "__main__":
    benchmark(main, results="seconds.json")
