"""Why FedABC's accuracy is below its paper's: more passes, more images, a larger learning rate, one at a time.

    python benchmarks/cifar/ablation.py --source CIFAR --work DIR [--only NAME ...]

The protocol of ``run.py`` (20 clients, Dir(0.3), 10,000 images, 12 passes, lr 0.01), one seed, with one change
in each row; FedAvg's local models have the same change. The paper trains on 50,000 images for 200 rounds of
five local epochs with lr 0.1 (docs/reproduce.md). Every finished run is in ``ablation-runs.json`` beside this file.
"""

import argparse
import sys
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import benchmark, kept_of, option, prepared, print_table, remembered, save, scored, trained
from run import METHODS, SGD

from ecgfed import Cohort

RUNS = Path(__file__).with_name("ablation-runs.json")
#: Name -> images, passes and learning rate.
CHANGES: dict[str, tuple[int, float, float]] = {
    "as in run.py": (10_000, 12.0, 0.01),
    "lr 0.03": (10_000, 12.0, 0.03),
    "60 passes": (10_000, 60.0, 0.01),
    "50,000 images": (50_000, 12.0, 0.01),
}
COMPARED = ("FedABC", "FedAvg")


def measured(cohort: Cohort, given: argparse.Namespace, change: str, name: str) -> dict[str, Any]:
    """Train and score one method with one change."""
    _, passes, lr = CHANGES[change]
    method, own = METHODS[name]
    run = trained(
        cohort,
        given.work / f"{name}-{change}".replace(" ", "-"),
        method=method,
        settings={**SGD, **own, "lr": lr},
        net="convnet3",
        local_epochs=2,
        batch_size=40,
        clients_per_round=8,
        passes=passes,
        eval_every=0,
        seed=0,
        workers=1,
    )
    return {"rounds": run.plan.rounds, **kept_of(scored(run, workers=1))}


def main(given: argparse.Namespace) -> None:
    rows: dict[str, dict[str, Any]] = {}
    for change in given.only:
        images, _, _ = CHANGES[change]
        cohort = prepared(
            given.source,
            given.work / f"images-{images}",
            verb="prepare_cifar10",
            partition="dirichlet",
            alpha=0.3,
            clients=20,
            limit=images,
        )
        rows[change] = {
            name: remembered(RUNS, f"{change}/{name}", partial(measured, cohort, given, change, name), cohort)
            for name in COMPARED
        }
    print_table(
        ("change", "rounds", "FedABC", "FedAvg, local models"),
        [
            (
                change,
                runs["FedABC"]["rounds"],
                f"{runs['FedABC']['accuracies']['P_FL_expected']:.3f}",
                f"{runs['FedAvg']['local_models']['P_FL_expected']:.3f}",
            )
            for change, runs in rows.items()
        ],
    )
    if given.only == list(CHANGES):
        given.only = None  # not part of the command
    save(given, {"changes": rows})


if __name__ == "__main__":
    benchmark(
        main,
        option("--only", nargs="+", default=list(CHANGES), choices=list(CHANGES)),
        source="folder with CIFAR-10, or an official archive",
        results="ablation.json",
    )
