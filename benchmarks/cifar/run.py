"""Does every registered method train on CIFAR-10? Two rounds of each on a subset.

    python benchmarks/cifar/run.py --source CIFAR --work DIR [--net resnet30] [--images 1000] [--clients 10]

CIFAR is what ``ecgfed prepare cifar10 --source`` takes. It shows that methods run and stay finite on images; two rounds
on a subset say nothing about which is better. Every method has its own default settings, which were chosen on ECG.
Writes ``results.json`` beside this file (or ``--results``). A method that DIR already holds is not done again.
"""

import argparse
import json
import math
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import parser, prepared, save, scored, script, trained

from ecgfed import Cohort
from ecgfed.errors import EcgfedError
from ecgfed.methods.registry import method_by_name, methods
from ecgfed.runs.history import HISTORY, read_lines

SCORES = ("T_g", "T_p", "T_r", "T_l", "T_p_global")


def main() -> None:
    arguments = parser(__doc__, __file__, source="folder with CIFAR-10, or an official archive")
    arguments.add_argument("--net", default="resnet30")
    arguments.add_argument("--images", type=int, default=1000)
    arguments.add_argument("--clients", type=int, default=10)
    arguments.add_argument("--rounds", type=int, default=2)
    arguments.add_argument("--workers", type=int, default=1)
    given = arguments.parse_args()
    cohort = prepared(given.source, given.work, verb="prepare_cifar10", limit=given.images, clients=given.clients)
    rows = []
    for name in methods():
        rows.append(row_of(name, cohort, given))
        print(json.dumps(rows[-1]), flush=True)
    about = {
        "partition": cohort.meta["partition"],
        "seed": cohort.meta["seed"],
        "official": cohort.meta["source"]["official"],
        "tool_version": cohort.meta["tool_version"],
        "finite": all(row["finite"] for row in rows),
    }
    save(given, {**about, "methods": rows})
    print(f"{sum(row['finite'] for row in rows)} of {len(rows)} methods finite; wrote {given.results}")


def row_of(name: str, cohort: Cohort, given: argparse.Namespace) -> dict[str, Any]:
    """Train and score one method: its losses and scores, or the line it stopped with."""
    work = {"local_steps": 1} if method_by_name(name).needs.one_step else {"local_epochs": 1}
    plan = {"method": name, "net": given.net, "rounds": given.rounds, "eval_every": 0, "seed": 0}
    try:
        run = trained(cohort, given.work / f"{given.net}-{name}", workers=given.workers, **plan, **work)
        result = scored(run, workers=given.workers)
    except EcgfedError as problem:
        return {"method": name, "finite": False, "reason": str(problem)}
    losses = [(line["loss_mean"], line["loss_max"]) for line in read_lines(run.path / HISTORY)]
    scores = {key: result["scores"][key] for key in SCORES}
    return {
        "method": name,
        "finite": all(math.isfinite(value) for value in (*scores.values(), *(v for pair in losses for v in pair))),
        "rounds": result["round"],
        "local_steps": run.plan.local_steps,
        **{key: round(value, 4) for key, value in scores.items()},
        "accuracy": round(result["accuracy"], 4),
        "loss_mean_by_round": [round(mean, 4) for mean, _ in losses],
    }


if __name__ == "__main__":
    script(main)
