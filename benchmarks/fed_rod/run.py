"""Fed-RoD's findings on the 46 MIT-BIH clients: do they hold for hearts?

    python benchmarks/fed_rod/run.py --source MITDB --work DIR [--seeds 0 1 2]

Asked (Chen and Chao, ICLR 2022): that local models of generic methods are personal ones "for free" (their T_p beside
the global model's); that a balanced risk (BSM) makes a better generic model than cross-entropy; that a second head
personalises without loss for the generic one; that a hypernetwork gives new clients a head from their class mix alone
(``benchmarks/newcomers``). Windows without RR intervals as in table 1, the recipe's local work, FedAvg's server step
for all, 12 passes. Test beats. Every finished run is in ``runs.json`` beside this file; what is there is not
run again.
"""

import argparse
import sys
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import (
    SAME_SERVER,
    benchmark,
    kept_of,
    mean_of,
    option,
    prepared,
    print_table,
    remembered,
    save,
    scored,
    trained,
)

import ecgfed
from ecgfed.core.methods.server_sgd import PLAIN_MEAN
from ecgfed.domain.cohort.cohort import Cohort

PLAIN = {"lr": 0.02, **PLAIN_MEAN}
#: name -> method and settings
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "FedAvg": ("fedavg", SAME_SERVER),
    "FedAvg, BSM": ("fedavg", {**SAME_SERVER, "risk": "bsm"}),
    "FedProx": ("fedprox", SAME_SERVER),
    "SCAFFOLD": ("scaffold", PLAIN),
    "FedDyn": ("feddyn", {"lr": 0.02}),
    "Fed-RoD": ("fed-rod", PLAIN),
    "Fed-RoD (hyper)": ("fed-rod-hyper", PLAIN),
}
#: Of these the global model is scored a second time, kept to the classes that a patient has.
MASKED = ("FedAvg", "FedAvg, BSM")
PASSES = 12.0
RUNS = Path(__file__).with_name("runs.json")


def measured(cohort: Cohort, given: argparse.Namespace, name: str, seed: int) -> dict[str, Any]:
    """Train one method and score it, the clients' local models too."""
    return kept_of(scored(trained_run(cohort, given, name, seed), workers=given.workers))


def own_classes(cohort: Cohort, given: argparse.Namespace, name: str, seed: int) -> dict[str, Any]:
    """Score the same global model where it may only answer what the patient has: are its errors other classes?"""
    run = trained_run(cohort, given, name, seed)
    found = ecgfed.evaluate(run, split="test", personal="masked", local_models=False, workers=given.workers)
    return {"scores": {key: found.to_dict()["scores"][key] for key in ("T_g", "T_p")}}


def trained_run(cohort: Cohort, given: argparse.Namespace, name: str, seed: int) -> ecgfed.Run:
    """Train one method, or open its run."""
    method, settings = METHODS[name]
    return trained(
        cohort,
        given.work / f"{name}-{seed}".replace(" ", "-"),
        method=method,
        settings=settings,
        seed=seed,
        rr=False,
        passes=PASSES,
        eval_every=0,
        engine="batched",
        slots=23,
    )


def main(given: argparse.Namespace) -> None:
    cohort = prepared(given.source, given.work, by="record")
    rows = {
        name: [
            remembered(RUNS, f"{name}/{seed}", partial(measured, cohort, given, name, seed), cohort)
            for seed in given.seeds
        ]
        for name in METHODS
    }
    masked = {
        name: [
            remembered(RUNS, f"{name}, masked/{seed}", partial(own_classes, cohort, given, name, seed), cohort)
            for seed in given.seeds
        ]
        for name in MASKED
    }
    print_table(
        ("method", "T_g", "T_p", "T_p of local models", "T_r of local models"),
        [
            (
                name,
                *(mean_of(run["scores"][key] for run in runs) for key in ("T_g", "T_p")),
                *(mean_of((run["local_models"] or {}).get(key) for run in runs) for key in ("T_p", "T_r")),
            )
            for name, runs in rows.items()
        ],
    )
    save(given, {"methods": rows, "masked": masked})


if __name__ == "__main__":
    benchmark(main, option("--seeds", nargs="+", type=int, default=[0, 1, 2]), option("--workers", type=int, default=1))
