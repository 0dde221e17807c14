"""Fed-RoD's and FedABC's CIFAR-10 comparison in a form a CPU can carry: 20 clients, Dir(0.3), 10,000 images, ConvNet.

    python benchmarks/cifar/run.py --source CIFAR --work DIR [--passes 12] [--images 10000] [--seeds 0]

CIFAR is what ``ecgfed prepare cifar10 --source`` takes. As in Fed-RoD's section 5: 8 of 20 clients a round, two local
epochs instead of five in batches of 40, SGD with lr 0.01 (FedABC 0.1 in its paper; here the same for all) and weight
decay 1e-5, three convolutions. No augmentation. G-FL is the accuracy of the global model on all test images, P-FL that
of the personal models with those images weighed by each client's classes; T_p and the rest are macro-F1. Every finished
run is in ``runs.json`` beside this file; what is there is not run again.
The papers' full protocols: ``ecgfed reproduce`` (docs/reproduce.md).
"""

import argparse
import sys
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import benchmark, kept_of, mean_of, option, prepared, print_table, remembered, save, scored, trained

from ecgfed import Cohort
from ecgfed.core.methods.server_sgd import PLAIN_MEAN

SGD = {"lr": 0.01, "momentum": 0.9, "weight_decay": 1e-5}
#: name -> method and what it has beside SGD
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "Local": ("local", {}),
    "FedAvg": ("fedavg", PLAIN_MEAN),
    "FedAvg, BSM": ("fedavg", {**PLAIN_MEAN, "risk": "bsm"}),
    "FedPer": ("fedper", {}),
    "Ditto": ("ditto", PLAIN_MEAN),
    "Fed-RoD": ("fed-rod", PLAIN_MEAN),
    "Fed-RoD (hyper)": ("fed-rod-hyper", PLAIN_MEAN),
    "FedABC": ("fedabc", PLAIN_MEAN),
}
RUNS = Path(__file__).with_name("runs.json")


def measured(cohort: Cohort, given: argparse.Namespace, name: str, seed: int) -> dict[str, Any]:
    """Train and score one method."""
    method, own = METHODS[name]
    run = trained(
        cohort,
        given.work / f"{name}-{seed}".replace(" ", "-"),
        method=method,
        settings={**SGD, **own},
        net="convnet3",
        local_epochs=2,
        batch_size=40,
        clients_per_round=8,
        passes=given.passes,
        eval_every=0,
        seed=seed,
        workers=given.workers,
    )
    return {"rounds": run.plan.rounds, **kept_of(scored(run, workers=given.workers))}


def main(given: argparse.Namespace) -> None:
    cohort = prepared(
        given.source,
        given.work,
        verb="prepare_cifar10",
        partition="dirichlet",
        alpha=0.3,
        clients=20,
        limit=given.images,
    )
    rows = {
        name: [
            remembered(
                RUNS,
                f"{given.images}/{given.passes:g}/{name}/{seed}",
                partial(measured, cohort, given, name, seed),
                cohort,
            )
            for seed in given.seeds
        ]
        for name in METHODS
    }
    names = sorted({key for runs in rows.values() for key in runs[0]["accuracies"]})
    print_table(
        ("method", *names, "T_g", "T_p"),
        [
            (
                name,
                *(mean_of(run["accuracies"].get(key) for run in runs) for key in names),
                *(mean_of(run["scores"][key] for run in runs) for key in ("T_g", "T_p")),
            )
            for name, runs in rows.items()
        ],
    )
    save(given, {"methods": rows})


if __name__ == "__main__":
    benchmark(
        main,
        option("--images", type=int, default=10_000),
        option("--passes", type=float, default=12.0),
        option("--seeds", nargs="+", type=int, default=[0]),
        option("--workers", type=int, default=1),
        source="folder with CIFAR-10, or an official archive",
    )
