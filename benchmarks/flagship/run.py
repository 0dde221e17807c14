"""The flagship beside GRP-FED, FedAvg and each patient alone, with nothing else said: 46 MIT-BIH clients, 20 passes.

FedGate and GRP-FED stand there once more with 60 passes.

    python benchmarks/flagship/run.py --source MITDB --work DIR [--seeds 0 1 2] [--only FedGate]
        [--split chronological | --split-seed K]

Each method as ``ecgfed train`` runs it with its defaults, but for Local's learning rate, which is the default of
version 0.2; FedAvg's answer is kept to the classes that the patient has in training; and FedGate without RR intervals,
as the papers' nets are. The simple personal answers beside the gated one are made from the global model of FedGate's
run, of 20 passes and of 60: nothing else is trained. Scores are on test beats; FedGate was changed after some of them
had been read (docs/decisions/0042 and 0054). T_g over rounds is on validation beats. Every finished run is in
``runs.json`` beside this file; what is there is not run again; with another split of the beats their keys begin with
it, and so do the results in a file of their own. Two of them are of FedGate as it was before docs/decisions/0054, and
stand in no table.
"""

import argparse
import statistics
import sys
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import (
    LONGER,
    LONGER_GRP,
    OF_ITS_MODEL,
    OF_LONGER,
    SAME_SERVER,
    SPLIT_OPTIONS,
    benchmark,
    of_split,
    option,
    prepared,
    print_table,
    remembered,
    save,
    trained,
)

import ecgfed
from ecgfed.core.runs.history import HISTORY, read_lines
from ecgfed.domain.cohort.cohort import Cohort

#: name -> options of ``ecgfed.train``, and the personal answer
METHODS: dict[str, tuple[dict[str, Any], str]] = {
    "FedGate": ({"method": "fed-gate"}, "gated"),
    "GRP-FED": ({"method": "grp-fed"}, "method"),
    "FedAvg": ({"method": "fedavg", "settings": SAME_SERVER}, "masked"),
    "Local": ({"method": "local", "settings": {"lr": 5e-3}}, "method"),
    "FedGate, windows alone": ({"method": "fed-gate", "rr": False}, "gated"),
    LONGER: ({"method": "fed-gate", "passes": 60.0}, "gated"),
    LONGER_GRP: ({"method": "grp-fed", "passes": 60.0}, "method"),
}
#: From the global model of FedGate's runs; the gated one is FedGate's.
SIMPLE = {"unchanged": "method"} | {name: name for name in ("masked", "prior", "head", "kernel", "finetune", "probe")}
for gate, of_its_model in (("FedGate", OF_ITS_MODEL), (LONGER, OF_LONGER)):
    METHODS |= {of_its_model + name: (METHODS[gate][0], personal) for name, personal in SIMPLE.items()}
SCORES = ("T_g", "T_p", "T_r", "T_l")
RUNS = Path(__file__).with_name("runs.json")


def measured(cohort: Cohort, given: argparse.Namespace, name: str, seed: int) -> dict[str, Any]:
    """Train one method and score it, on test beats and, to choose by, on validation beats."""
    options, personal = METHODS[name]
    trained_as = next(other for other, (same, _) in METHODS.items() if same == options)
    run = trained(cohort, given.work / f"{trained_as}-{seed}", **options, seed=seed, workers=given.workers)
    found: dict[str, Any] = {"rounds": run.plan.rounds}
    for split in ("valid", "test"):
        scores = ecgfed.evaluate(
            run, split=split, personal=personal, local_models=False, overwrite=True, workers=given.workers
        ).to_dict()
        found[split] = {key: scores["scores"][key] for key in SCORES}
        found[f"{split}_truth"] = {key: scores["scores_truth"][key] for key in SCORES}
        found[f"{split}_worst_tenth"] = scores["fairness"]["personal_f1"]["worst_decile"]
        found[f"{split}_worst_tenth_global"] = scores["fairness"]["global_f1"]["worst_decile"]
        if split == "test":
            found["patients"] = {row["client"]: row["personal_f1"] for row in scores["per_patient"]}
    found["curve"] = [
        [round(line["passes"], 2), line["valid_T_g"]] for line in read_lines(run.path / HISTORY) if "valid_T_g" in line
    ]
    return found


def main(given: argparse.Namespace) -> None:
    given = of_split(given)
    cohort = prepared(given.source, given.work, by="record", **given.prepare)
    rows = {
        name: [
            remembered(RUNS, f"{given.prefix}{name}/{seed}", partial(measured, cohort, given, name, seed), cohort)
            for seed in given.seeds
        ]
        for name in given.only
    }
    print_table(
        ("method", *SCORES, "worst tenth"),
        [
            (
                name,
                *(_over([run["test"][key] for run in runs]) for key in SCORES),
                _over([run["test_worst_tenth"] for run in runs]),
            )
            for name, runs in rows.items()
        ],
    )
    if given.only == list(METHODS):
        given.only = None  # no word of the command
    save(given, {"methods": rows})


def _over(values: list[float]) -> str:
    spread = f" ± {statistics.stdev(values):.3f}" if len(values) > 1 else ""
    return f"{statistics.fmean(values):.3f}{spread}"


if __name__ == "__main__":
    benchmark(
        main,
        option("--seeds", nargs="+", type=int, default=[0, 1, 2]),
        option("--only", nargs="+", default=list(METHODS), choices=list(METHODS)),
        option("--workers", type=int, default=None),
        *SPLIT_OPTIONS,
    )
