"""The results page's section on CIFAR-10."""

import statistics
from collections.abc import Sequence
from typing import Any

from common import of_spread, spread_of, table
from results_pairs import By_seed, ahead, told
from results_table1_paper import WRONG_NOW

Runs = Sequence[dict[str, Any]]


def with_spread(values: Sequence[float]) -> str:
    """Mean and standard deviation over seeds; nothing of no value."""
    return of_spread(spread_of(values)) if values else ""


def of_models(runs: Runs, key: str) -> By_seed:
    """An accuracy by seed."""
    return {seed: run["accuracies"][key] for seed, run in enumerate(runs)}


def of_local_models(runs: Runs) -> By_seed:
    """P-FL expected by seed of what clients have after their steps on the last global model, where they were scored."""
    local = {seed: run["local_models"] or {} for seed, run in enumerate(runs)}
    return {seed: one["P_FL_expected"] for seed, one in local.items() if "P_FL_expected" in one}


def cifar(found: dict[str, Any]) -> list[str]:
    """CIFAR-10 in Fed-RoD's protocol, reduced."""
    rows = []
    for name, runs in found["methods"].items():
        there = sorted(runs[0]["accuracies"])
        cells = {key: with_spread([run["accuracies"][key] for run in runs]) for key in there}
        free = with_spread(list(of_local_models(runs).values()))
        rows.append((name, len(runs), cells.get("G_FL", ""), cells.get("P_FL_expected", ""), free))
    rounds = next(iter(found["methods"].values()))[0]["rounds"]
    said = (
        f"20 clients, Dir(0.3), 10,000 images to train on and 2,000 to test on, three convolutions, {rounds} rounds"
        " of 8\nclients and two local epochs: accuracy, where guessing has 0.10. All share one learning rate, which"
        " nobody tuned,\nso this is no ranking. The copy of CIFAR-10 that it was run on has, as its README says, JPEG"
        " stand-ins for\n93 of the 60,000 images."
    )
    columns = ("method", "seeds", "G-FL", "P-FL expected", "P-FL expected of local models")
    whole = "The papers' full protocols, one command each: [reproduce.md](reproduce.md)."
    return [said, "", *table(columns, rows), *what_came_out(found["methods"]), "", whole]


def what_came_out(methods: dict[str, Runs]) -> list[str]:
    """Which of Fed-RoD's findings came out in small, where there are seeds to say it of."""
    if not {"FedAvg", "FedAvg, BSM", "Fed-RoD"} <= methods.keys() or len(methods["FedAvg"]) < 2:
        return []
    plain, balanced, rod = (of_models(methods[name], "G_FL") for name in ("FedAvg", "FedAvg, BSM", "Fed-RoD"))
    own, head = (of_models(methods[name], "P_FL_expected") for name in ("FedAvg", "Fed-RoD"))
    local = of_local_models(methods["FedAvg"])
    assert ahead(balanced, plain), WRONG_NOW
    assert ahead(local, own), WRONG_NOW
    assert ahead(local, head), WRONG_NOW
    assert rod == balanced, WRONG_NOW

    def mean(of: By_seed) -> str:
        return f"{statistics.fmean(of.values()):.3f}"

    return [
        "",
        "Of what Fed-RoD's paper found, with differences by seed (95%, Student's t) and the paper's accuracies (its"
        " table 2, all images, 100\nrounds) in brackets:",
        "",
        f"- *Local models of a generic method are personal ones for free.* They are: FedAvg's have P-FL expected"
        f" {mean(local)} (0.851), its global model\n  {mean(own)}: {told(local, own)}.",
        f"- *A balanced risk makes a better generic model.* It does: G-FL {mean(balanced)} with BSM (0.768),"
        f" {mean(plain)} with cross-entropy (0.686):\n  {told(balanced, plain)}.",
        f"- *A second head personalises at no loss for the generic model.* It does: Fed-RoD has BSM's G-FL to the bit,"
        f" and P-FL expected {mean(head)} (0.864).\n  But FedAvg's local models are ahead of it here,"
        f" {told(local, head)}; in the paper it is ahead of them.",
    ]
