"""FedAvg and Local on the 46 MIT-BIH records: two kinds of local work, two norms, equal sample passes.

    python benchmarks/baselines/run.py --source MITDB --work DIR [--passes 20] [--seed 0]

Writes ``results.json`` beside this file (or ``--results``) and prints the table. A combination that DIR already holds
is not run again. Training and scoring are each a process of their own, because their time and memory are asked for.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import benchmark, option, prepared, print_table, save, scored, trained
from measure import measured

from ecgfed.core.methods.server_sgd import PLAIN_MEAN

WORK = ({"local_epochs": 1}, {"local_steps": 4})
SCORES = ("T_g", "T_p", "T_r", "T_l", "T_l_clients")


def main(given: argparse.Namespace) -> None:
    cohort = prepared(given.source, given.work, by="record").path
    rows = []
    for method in ("fedavg", "local"):
        for work in WORK:
            for norm in ("group", "batch"):
                rows.append(one(given, cohort, method, work, norm))
                print(json.dumps(rows[-1]), flush=True)
    save(given, {"passes": given.passes, "rows": rows})
    columns = ("method", "local work a round", "norm", "rounds", "T_g", "T_p", "T_r", "T_l", "T_l, patients")
    print_table((*columns, "train s", "peak MB"), map(cells, rows))


def one(given: argparse.Namespace, cohort: Path, method: str, work: dict[str, int], norm: str) -> dict[str, Any]:
    (kind, amount), *_ = work.items()
    run = given.work / f"{method}-{kind}-{amount}-{norm}-seed{given.seed}"
    options = {
        "method": method,
        "passes": given.passes,
        "norm": norm,
        "seed": given.seed,
        "rr": False,
        "batch_size": 64,
        **work,
        "settings": {"lr": 5e-3, **(PLAIN_MEAN if method == "fedavg" else {})},
    }
    done = run / "benchmark.json"
    if done.is_file():
        return dict(json.loads(done.read_text()))
    rounds, training = measured(rounds_of_training, cohort, run, options)
    result, scoring = measured(scores_of, run)
    row = {
        "method": method,
        "work": f"{kind.replace('_', '-')} {amount}",
        "norm": norm,
        "seed": given.seed,
        "rounds": rounds,
        **{key: result[key] for key in ("scores", "scores_truth", "accuracy")},
        "train_s": training["wall_s"],
        "train_cpu_s": training["cpu_s"],
        "train_peak_mb": training["peak_mb"],
        "evaluate_s": scoring["wall_s"],
        "evaluate_peak_mb": scoring["peak_mb"],
    }
    done.write_text(json.dumps(row))
    return row


def rounds_of_training(cohort: Path, run: Path, options: dict[str, Any]) -> int:
    return trained(cohort, run, **options).plan.rounds


def scores_of(run: Path) -> dict[str, Any]:
    from ecgfed import open_run

    return scored(open_run(run))


def cells(row: dict[str, Any]) -> list[str]:
    scores = [f"{row['scores'][key]:.3f}" for key in SCORES]
    what = [str(row[key]) for key in ("method", "work", "norm", "rounds")]
    return [*what, *scores, f"{row['train_s']:.0f}", str(row["train_peak_mb"])]


if __name__ == "__main__":
    benchmark(main, option("--passes", type=float, default=20), option("--seed", type=int, default=0))
