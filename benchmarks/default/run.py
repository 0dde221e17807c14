"""Training with nothing else said, on the 46 MIT-BIH clients by record: how long, and how good.

    python benchmarks/default/run.py --source MITDB --work DIR [--methods fed-gate grp-fed] [--workers 2]

``fed-gate`` is the default method, ``grp-fed`` was it in version 0.2 (docs/decisions/0111). Each is trained as
``ecgfed train --method`` does with no other option, then scored on validation and test beats; training and scoring are
each a process of their own. ``minutes`` are those of the rounds with their aggregation and validation; ``train_cpu_s``
and ``evaluate_cpu_s`` are user and system time of the whole process, its imports included, the latter for test beats.
Writes ``results.json`` beside this file (or ``--results``). A method that DIR already holds is not run again.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import benchmark, option, prepared, print_table, remembered, save, scored, trained
from measure import measured

from ecgfed.core.config import TrainConfig
from ecgfed.core.runs.history import HISTORY, TIMING, read_lines

#: The default of today, and the one before.
METHODS = (str(TrainConfig.method), "grp-fed")
SCORES = ("T_g", "T_p", "T_r", "T_l")


def train(cohort: Path, run: Path, method: str, workers: int | None) -> dict[str, Any]:
    """Train with nothing else said; return rounds, passes, clients and minutes."""
    made = trained(cohort, run, method=method, workers=workers)
    history, timing = (read_lines(made.path / file, made.plan.rounds) for file in (HISTORY, TIMING))
    return {
        "method": made.meta["method"],
        "rounds": made.plan.rounds,
        "passes": round(history[-1]["passes"], 2),
        "clients": len(history[-1]["clients"]),
        "minutes": round(sum(line["seconds"] for line in timing) / 60, 1),
    }


def scores(run: Path, split: str, workers: int | None) -> dict[str, Any]:
    """Score a run's folder."""
    from ecgfed import open_run

    found = scored(open_run(run), split, workers=workers)
    return {split: found["scores"], f"{split}_truth": found["scores_truth"]}


def row(cohort: Path, work: Path, method: str, workers: int | None) -> dict[str, Any]:
    """Train and score one method."""
    about, training = measured(train, cohort, work / method, method, workers)
    valid, _ = measured(scores, work / method, "valid", workers)
    test, scoring = measured(scores, work / method, "test", workers)
    return {**about, "train_cpu_s": training["cpu_s"], "evaluate_cpu_s": scoring["cpu_s"], **valid, **test}


def main(given: argparse.Namespace) -> None:
    cohort = prepared(given.source, given.work, by="record")
    runs = given.work / "runs.json"
    rows = {
        method: remembered(
            runs, method, lambda method=method: row(cohort.path, given.work, method, given.workers), cohort
        )
        for method in given.methods
    }
    save(given, {"methods": rows})
    print_table(
        ("method", "minutes", "CPU s", "CPU s of evaluate", "split", *SCORES),
        [
            (
                name,
                *(str(one[key]) for key in ("minutes", "train_cpu_s", "evaluate_cpu_s")),
                split,
                *(f"{one[split][key]:.3f}" for key in SCORES),
            )
            for name, one in rows.items()
            for split in ("valid", "test")
        ],
    )


if __name__ == "__main__":
    benchmark(
        main,
        option("--methods", nargs="+", default=list(METHODS[:1]), choices=METHODS),
        option("--workers", type=int, default=None),
    )
