"""GRP-FED as shipped and as printed beside FedAvg and Local: 46 MIT-BIH records, 4 local steps, equal sample passes.

    python benchmarks/grp_fed/run.py --source MITDB --work DIR [--passes 60] [--seeds 0 1] [--only NAME ...] [--collect]

Settings were chosen on the validation split; the test split is read once a run, at its end. Writes ``results.json``
beside this file (or ``--results``) and prints the table. A run that DIR already holds is not done again; ``--collect``
only gathers those that are there. A run that stops by itself, as the printed losses do, is listed with its reason.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import SAME_SERVER, benchmark, option, prepared, print_table, save, scored, trained

from ecgfed import Run, open_run
from ecgfed.base.errors import RunError
from ecgfed.core.methods.server_sgd import PLAIN_MEAN
from ecgfed.core.runs.history import HISTORY, TIMING, read_lines

#: name -> (method, settings)
RUNS: dict[str, tuple[str, dict[str, float | str]]] = {
    "grp": ("grp-fed", {}),
    "fedavg-adam": ("fedavg", {**SAME_SERVER}),
    "fedavg": ("fedavg", {"lr": 0.02, **PLAIN_MEAN}),
    "local": ("local", {}),
    "printed": ("grp-fed-printed", {}),
    "printed-bce": ("grp-fed-printed", {"discriminator_loss": "bce", "regulariser": "non-saturating"}),
    "grp-beta.9": ("grp-fed", {"beta": 0.9}),
    "grp-beta.1": ("grp-fed", {"beta": 0.1}),
    "grp-beta1": ("grp-fed", {"beta": 1.0}),
    "grp-q1": ("grp-fed", {"eta_q": 0.0}),
}
TEST_SCORES = ("T_g", "T_p", "T_p_global", "T_r", "T_l")


def main(given: argparse.Namespace) -> None:
    rows: list[dict[str, Any]] = []
    stopped: list[dict[str, Any]] = []
    for seed in given.seeds:
        for name in given.only:
            run, reason = given.work / f"{name}-s{seed}", given.work / f"{name}-s{seed}.stopped"
            if not given.collect:
                reason.write_text(train(run, name, seed, given))
            if reason.is_file() and (text := reason.read_text()):
                stopped.append({"name": name, "seed": seed, "reason": text})
                print(json.dumps(stopped[-1]), flush=True)
            elif (run / "evaluation-test" / "scores.json").is_file():
                rows.append(row_of(open_run(run), name, seed))
                print(json.dumps(rows[-1]), flush=True)
    save(given, {"rows": rows, "stopped": stopped})
    columns = ("run", "seed", "valid T_g", "T_g", "T_p", "T_p of the global model", "T_r", "T_l")
    print_table((*columns, "effective clients", "worst loss"), map(cells, rows))


def train(run: Path, name: str, seed: int, given: argparse.Namespace) -> str:
    """Train and evaluate; return why it stopped by itself, or an empty text."""
    cohort = prepared(given.source, given.work, by="record")
    method, settings = RUNS[name]
    plan = {
        "local_steps": 4,
        "batch_size": 64,
        "passes": given.passes,
        "rr": False,
        "seed": seed,
        "checkpoint_every": 20,
    }
    try:
        done = trained(cohort, run, method=method, settings=settings, **plan)
        for split in ("valid", "test"):
            scored(done, split)
    except RunError as problem:
        return str(problem)
    return ""


def row_of(run: Run, name: str, seed: int) -> dict[str, Any]:
    valid, test = (scored(run, split) for split in ("valid", "test"))
    lines, seconds = (read_lines(run.path / file, run.plan.rounds) for file in (HISTORY, TIMING))
    effective = [line["effective_clients"] for line in lines if "effective_clients" in line]
    return {
        "name": name,
        "method": run.meta["method"],
        "settings": run.meta["settings"],
        "seed": seed,
        "rounds": len(lines),
        "passes": round(lines[-1]["passes"], 2),
        "valid": valid["scores"],
        "test": test["scores"],
        "test_truth": test["scores_truth"],
        "T_p_variants": test["T_p_variants"],
        "loss_max": lines[-1]["loss_max"],
        "q_last": lines[-1].get("q"),
        "effective_clients": [round(min(effective), 1), round(max(effective), 1)] if effective else None,
        "train_s": round(sum(line["seconds"] for line in seconds)),
    }


def cells(row: dict[str, Any]) -> list[str]:
    scores = [f"{row['valid']['T_g']:.3f}", *(f"{row['test'][key]:.3f}" for key in TEST_SCORES)]
    return [row["name"], str(row["seed"]), *scores, str(row["effective_clients"] or "-"), f"{row['loss_max']:.2f}"]


if __name__ == "__main__":
    benchmark(
        main,
        option("--passes", type=float, default=60),
        option("--seeds", nargs="+", type=int, default=[0, 1]),
        option("--only", nargs="+", default=list(RUNS), choices=list(RUNS)),
        option("--collect", action="store_true"),
        required=False,
    )
