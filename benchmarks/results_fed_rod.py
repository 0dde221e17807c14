"""The results page's section on Fed-RoD's findings."""

import statistics
from collections.abc import Sequence
from typing import Any

from common import mean_of, results_of, table
from results_table1_paper import SCORES, WRONG_NOW

Runs = Sequence[dict[str, Any]]


def fed_rod(found: dict[str, Any]) -> list[str]:
    """Fed-RoD's findings on hearts: the table, and which of them hold."""
    rows = []
    for name, runs in found["methods"].items():
        local = [run["local_models"] for run in runs if run["local_models"]]
        cells = [mean_of(one[key] for one in local) if local else "" for key in ("T_p", "T_r")]
        rows.append((name, len(runs), *(mean_of(run["scores"][key] for run in runs) for key in SCORES), *cells))
    lines = [
        "12 passes, batches of 16, windows alone as in table 1. FedAvg, BSM and FedProx have the server step of"
        " FedAvg's first trial\nthere, the others only its local step; none was tuned. Local models are what clients"
        " have after their\nlocal steps on the last global model.",
        "",
        *table(("method", "seeds", *SCORES, "T_p of local models", "their T_r"), rows),
        "",
        "Of what the paper found on images:",
        "",
    ]
    return [*lines, *_free(found["methods"]["FedAvg"]), *_balanced(found), *_second_head(found), *_new_clients()]


def _mean(runs: Runs, key: str, of: str = "scores") -> float:
    return statistics.fmean(run[of][key] for run in runs)


def _free(avg: Runs) -> list[str]:
    own, generic = _mean(avg, "T_p", "local_models"), _mean(avg, "T_p")
    assert own > generic, WRONG_NOW
    return [
        f"- *Local models of a generic method are personal ones for free.* A little: FedAvg's have T_p {own:.2f}, its"
        f" global model {generic:.2f};\n  their T_r falls from {_mean(avg, 'T_r'):.2f} to"
        f" {_mean(avg, 'T_r', 'local_models'):.2f}. A round is four steps here, in the paper epochs."
    ]


def _balanced(found: dict[str, Any]) -> list[str]:
    balanced, plain = (_mean(found["methods"][name], "T_g") for name in ("FedAvg, BSM", "FedAvg"))
    assert balanced < plain, WRONG_NOW
    (any_class, own_classes), (any_plain, own_plain) = (
        (_mean(found["methods"][name], "T_p"), _mean(found["masked"][name], "T_p"))
        for name in ("FedAvg, BSM", "FedAvg")
    )
    assert own_classes > 2 * any_class, WRONG_NOW
    return [
        f"- *A balanced risk makes a better generic model.* It does not: T_g {balanced:.2f} with BSM, {plain:.2f} with"
        " cross-entropy. The likeliest\n  reason: BSM takes a class that a client does not have out of the client's"
        " sum, so nothing there says that a beat is not\n  of it. Kept to the classes that each patient has, the same"
        f" model's T_p is {own_classes:.2f}, not {any_class:.2f}"
        f" (FedAvg's {own_plain:.2f}, not {any_plain:.2f})."
    ]


def _second_head(found: dict[str, Any]) -> list[str]:
    rod, avg = found["methods"]["Fed-RoD"], found["methods"]["FedAvg"]
    own, generic, plain = _mean(rod, "T_p"), _mean(rod, "T_g"), _mean(avg, "T_g")
    balanced = _mean(found["methods"]["FedAvg, BSM"], "T_g")
    assert own > _mean(avg, "T_p"), WRONG_NOW
    assert generic < plain, WRONG_NOW
    return [
        f"- *A second head personalises at no loss for the generic model.* It personalises (T_p {own:.2f}; FedAvg's"
        f" global model {_mean(avg, 'T_p'):.2f}). The\n  generic model beside it is trained with BSM:"
        f" T_g {generic:.2f}, with BSM alone {balanced:.2f}, FedAvg's {plain:.2f}."
    ]


def _new_clients() -> list[str]:
    """What a class mix is worth to patients who took no part, from the newcomers' benchmark."""
    found = results_of("newcomers")
    if found is None:
        return []
    rows = {(row["method"], row["answer"]): row for row in found["lessons"]["five minutes"]}

    def said(method: str, answer: str) -> str:
        row = rows[method, answer]
        return f"{row['macro_f1']['mean']:.2f} ({row['macro_f1_truth']['mean']:.2f} in truth)"

    def of(method: str, answer: str) -> float:
        return float(rows[method, answer]["macro_f1_truth"]["mean"])

    hyper = "fed-rod-hyper"
    assert of(hyper, "global") < of(hyper, "class mix") < of("fedavg", "partway"), WRONG_NOW
    return [
        f"- *A hypernetwork serves new clients from their class mix alone.* Its model made from the mix has"
        f" {said(hyper, 'class mix')},\n  its global model {said(hyper, 'global')}. FedAvg's global model has"
        f" {said('fedavg', 'global')}, and trained on over the five\n  labelled minutes that the mix was counted in"
        f" {said('fedavg', 'partway')} ([newcomers](../benchmarks/newcomers/README.md))."
    ]
