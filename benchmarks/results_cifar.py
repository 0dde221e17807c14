"""The results page's section on CIFAR-10."""

import statistics
from collections.abc import Sequence
from typing import Any

from common import of_spread, spread_of, table
from results_pairs import BySeed, is_above, with_seeds
from results_table1_paper import WRONG_NOW

Runs = Sequence[dict[str, Any]]


def with_spread(values: Sequence[float]) -> str:
    """Mean and standard deviation over seeds; empty for no value."""
    return of_spread(spread_of(values)) if values else ""


def of_models(runs: Runs, key: str) -> BySeed:
    """An accuracy by seed."""
    return {seed: run["accuracies"][key] for seed, run in enumerate(runs)}


def of_local_models(runs: Runs) -> BySeed:
    """P-FL expected by seed of the local models after the last global model, if they were scored."""
    local = {seed: run["local_models"] or {} for seed, run in enumerate(runs)}
    return {seed: scores["P_FL_expected"] for seed, scores in local.items() if "P_FL_expected" in scores}


def cifar(results: dict[str, Any]) -> list[str]:
    """CIFAR-10 in Fed-RoD's protocol, reduced."""
    rows = []
    for name, runs in results["methods"].items():
        accuracies = sorted(runs[0]["accuracies"])
        cells = {key: with_spread([run["accuracies"][key] for run in runs]) for key in accuracies}
        local = with_spread(list(of_local_models(runs).values()))
        rows.append((name, len(runs), cells.get("G_FL", ""), cells.get("P_FL_expected", ""), local))
    rounds = next(iter(results["methods"].values()))[0]["rounds"]
    about = (
        f"Accuracy (chance is 0.10), means ± standard deviations over seeds. 20 clients, Dir(0.3), 10,000 training and"
        f" 2,000 test images, three\nconvolutions, {rounds} rounds of 8 clients and two local epochs. All methods share"
        " one learning rate that was not tuned, so this is\nnot a ranking. As its README states, 93 of the 60,000"
        " images of this copy of CIFAR-10 are JPEG stand-ins."
    )
    columns = ("method", "seeds", "G-FL", "P-FL expected", "P-FL expected of local models")
    full = "The papers' full protocols run with one command each: [reproduce.md](reproduce.md)."
    return [*table(columns, rows), "", about, *findings(results["methods"]), "", full]


def findings(methods: dict[str, Runs]) -> list[str]:
    """Which of Fed-RoD's findings are reproduced; nothing without several seeds."""
    if not {"FedAvg", "FedAvg, BSM", "Fed-RoD"} <= methods.keys() or len(methods["FedAvg"]) < 2:
        return []
    plain, balanced, rod = (of_models(methods[name], "G_FL") for name in ("FedAvg", "FedAvg, BSM", "Fed-RoD"))
    own, head = (of_models(methods[name], "P_FL_expected") for name in ("FedAvg", "Fed-RoD"))
    local = of_local_models(methods["FedAvg"])
    assert is_above(balanced, plain), WRONG_NOW
    assert is_above(local, own), WRONG_NOW
    assert is_above(local, head), WRONG_NOW
    assert rod == balanced, WRONG_NOW

    def mean(of: BySeed) -> str:
        return f"{statistics.fmean(of.values()):.3f}"

    rows = [
        (
            "the local models of FedAvg are good personal models",
            "yes",
            f"P-FL expected {mean(local)} (0.851), global model {mean(own)}: {with_seeds(local, own)}",
        ),
        (
            "a balanced loss improves the generic model",
            "yes",
            f"G-FL {mean(balanced)} with BSM (0.768), {mean(plain)} with cross-entropy (0.686):"
            f" {with_seeds(balanced, plain)}",
        ),
        (
            "a second head personalises at no cost for the generic model",
            "yes",
            f"the G-FL of BSM, bit for bit; P-FL expected {mean(head)} (0.864)",
        ),
        (
            "Fed-RoD is ahead of FedAvg's local models",
            "no",
            f"FedAvg's local models minus Fed-RoD {with_seeds(local, head)}",
        ),
    ]
    about = (
        "The paper's accuracies (its table 2: all images, 100 rounds) are in brackets; differences with 95% intervals"
        " (Student's t)."
    )
    return ["", about, "", *table(("Fed-RoD's finding", "reproduced?", "measured here"), rows)]
