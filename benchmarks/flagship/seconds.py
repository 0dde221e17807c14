"""Seconds until a global model has T_g 0.86: the recipe of 60 passes beside FedGate's, in turns, on one machine.

    python benchmarks/flagship/seconds.py --source MITDB --work DIR

A few rounds of each are timed in turns, on a machine with nothing else to do; a round's seconds are those of training
with aggregation (``timing.jsonl``). How many rounds it takes is known already: the recipe before (GRP-FED, 4 steps of
64 windows, no RR intervals) had T_g .84 and .87 after its 60 passes, local steps in their last fifth
(``benchmarks/grp_fed``); FedGate's rounds until T_g .86 on validation beats are those of ``runs.json``, three seeds.
"""

import json
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import parser, prepared, print_table, save, script, trained
from results_page import ENOUGH, passes_to

from ecgfed.cohort.cohort import Cohort
from ecgfed.runs.history import TIMING, read_lines

#: Rounds of a run that are timed after its first, which warms up; turns, each with runs of its own.
ROUNDS, TURNS = 9, 3
#: name -> options of ``ecgfed.train``
RECIPES: dict[str, dict[str, Any]] = {
    "before, global model": {
        "method": "grp-fed",
        "settings": {"personalise": False},
        "rr": False,
        "local_steps": 4,
        "batch_size": 64,
    },
    "before, local extractors too": {
        "method": "grp-fed",
        "settings": {"personal_start": 0.0},
        "rr": False,
        "local_steps": 4,
        "batch_size": 64,
    },
    "FedGate": {"method": "fed-gate"},
}
#: Rounds of the recipe before (60 passes), and the share of them with local steps.
ROUNDS_BEFORE, LOCAL_SHARE = 385, 0.2
RUNS = Path(__file__).with_name("runs.json")


def timed(cohort: Cohort, folder: Path) -> dict[str, float]:
    """Return the median seconds of a round of each recipe, timed in turns."""
    seconds: dict[str, list[float]] = {name: [] for name in RECIPES}
    for turn in range(TURNS):
        for number, (name, options) in enumerate(RECIPES.items()):
            run = trained(cohort, folder / f"{number}-{turn}", **options, rounds=ROUNDS + 1, eval_every=0, seed=turn)
            seconds[name] += [line["seconds"] for line in read_lines(run.path / TIMING, run.plan.rounds)][1:]
    return {name: statistics.median(found) for name, found in seconds.items()}


def rounds_needed(runs: dict[str, Any]) -> Iterator[float]:
    """Yield for each seed the rounds that FedGate took until ``ENOUGH`` on validation beats."""
    for seed in range(3):
        run = runs[f"FedGate/{seed}"]
        yield passes_to(run, ENOUGH) / run["curve"][-1][0] * run["rounds"]


def main() -> None:
    given = parser(__doc__, __file__, results="seconds.json").parse_args()
    cohort = prepared(given.source, given.work, by="record")
    round_s = timed(cohort, given.work / "timed")
    of_global, of_local = round_s["before, global model"], round_s["before, local extractors too"]
    before = ROUNDS_BEFORE * of_global
    local = ROUNDS_BEFORE * LOCAL_SHARE * (of_local - of_global)
    now = [rounds * round_s["FedGate"] for rounds in rounds_needed(json.loads(RUNS.read_text()))]
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
    script(main)
