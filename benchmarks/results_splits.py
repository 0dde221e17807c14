"""The results page's section on other splits of the same beats, from ``flagship/results-*.json``."""

import statistics
from pathlib import Path
from typing import Any

from common import OF_ITS_MODEL, ROOT, interval, results_of, table, with_interval
from results_flagship import mean_score, over_patients

LOCAL, MINUS_LOCAL = "Local", "minus local"
#: Rows: name of the runs, label.
ROWS = (
    ("FedGate", "FedGate, the default"),
    (OF_ITS_MODEL + "finetune", "its global model, fine-tuned by each patient"),
    (OF_ITS_MODEL + "head", "its global model, a linear head for each patient"),
    (OF_ITS_MODEL + "unchanged", "its global model for everybody"),
    ("GRP-FED", "GRP-FED"),
    ("FedAvg", "FedAvg, restricted to the patient's classes"),
    (LOCAL, "each patient alone"),
)


def splits(results: dict[str, Any]) -> list[str]:
    """The same methods on later minutes and on other random splits; nothing until one is measured."""
    folder: Path = ROOT / "benchmarks" / "flagship"
    files = sorted(file.name for file in folder.glob("results-*.json"))
    if not files:
        return []
    measured = {"random, seed 0": results["methods"]}
    for file in files:
        name = file.removeprefix("results-").removesuffix(".json")
        title = "chronological" if name == "chronological" else f"random, {name.replace('split-', 'seed ')}"
        measured[title] = (results_of("flagship", file) or {})["methods"]
    lines = [
        "The chronological split trains on the first minutes of each recording and tests on the last ones, with 6 s"
        " between them, so no\ntest window shares samples with a training window"
        " ([splits](cohort.md#splits)). 20 passes; T_p with 95% bootstrap intervals over\n"
        "patients, and over seeds where there are several."
    ]
    for key, title in (
        ("T_p", "T_p"),
        (MINUS_LOCAL, "T_p minus that of each patient alone"),
        ("T_g", "T_g"),
        ("T_r", "T_r"),
    ):
        columns = ("model", *(f"{split} ({_seeds(methods)})" for split, methods in measured.items()))
        rows = [
            (label, *(_cell(methods, name, key) for methods in measured.values()))
            for name, label in ROWS
            if not (key == "T_g" and name.startswith(OF_ITS_MODEL))  # their global model is FedGate's
            and not (key == MINUS_LOCAL and name == LOCAL)
        ]
        lines += ["", f"**{title}**", "", *table(columns, rows)]
    commands = " and ".join(f"`{(results_of('flagship', file) or {})['command']}`" for file in files)
    return [*lines, "", f"Commands: {commands}."]


def _seeds(methods: dict[str, Any]) -> str:
    seeds = max(len(runs) for runs in methods.values())
    return "1 seed" if seeds == 1 else f"{seeds} seeds"


def _cell(methods: dict[str, Any], name: str, key: str) -> str:
    runs = methods.get(name)
    if not runs:
        return "not run"
    if key == MINUS_LOCAL:
        return interval(over_patients(runs, mean_score, minus=methods[LOCAL]))
    if key == "T_p":
        return with_interval(over_patients(runs, mean_score))
    return f"{statistics.fmean(run['test'][key] for run in runs):.3f}"
