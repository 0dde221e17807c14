"""Training with nothing else said, on the 46 MIT-BIH clients by record: how long, and how good.

    python benchmarks/default/run.py --source MITDB --work DIR

Calls ``ecgfed.train(cohort, run)`` and ``ecgfed.evaluate(run)`` as a newcomer would. The time is that of the rounds
with their aggregation; validation and saving go on beside them. Writes ``results.json`` beside this file (or
``--results``).
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import benchmark, prepared, print_table, save, scored, trained

from ecgfed.core.runs.history import HISTORY, TIMING, read_lines


def main(given: argparse.Namespace) -> None:
    run = trained(prepared(given.source, given.work, by="record"), given.work / "run")
    valid, test = (scored(run, split) for split in ("valid", "test"))
    history, timing = (read_lines(run.path / file, run.plan.rounds) for file in (HISTORY, TIMING))
    save(
        given,
        {
            "method": run.meta["method"],
            "rounds": run.plan.rounds,
            "passes": round(history[-1]["passes"], 2),
            "clients": test["patients"],
            "minutes": round(sum(line["seconds"] for line in timing) / 60, 1),
            "valid": valid["scores"],
            "test": test["scores"],
            "test_truth": test["scores_truth"],
        },
    )
    names = ("T_g", "T_p", "T_r", "T_l")
    print_table(
        ("split", *names),
        [(name, *(f"{part['scores'][key]:.3f}" for key in names)) for name, part in (("valid", valid), ("test", test))],
    )


if __name__ == "__main__":
    benchmark(main)
