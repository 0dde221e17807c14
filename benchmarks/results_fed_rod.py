"""The results page's section on Fed-RoD's findings."""

import statistics
from collections.abc import Iterator, Sequence
from typing import Any

from common import mean_of, results_of, table
from results_table1_paper import SCORES, WRONG_NOW, Finding

Runs = Sequence[dict[str, Any]]


def fed_rod(results: dict[str, Any]) -> list[str]:
    """Fed-RoD's findings on ECGs: the scores, and which of the findings are reproduced."""
    methods, rows = results["methods"], []
    for name, runs in methods.items():
        local = [run["local_models"] for run in runs if run["local_models"]]
        cells = [mean_of(scores[key] for scores in local) if local else "" for key in ("T_p", "T_r")]
        rows.append((name, len(runs), *(mean_of(run["scores"][key] for run in runs) for key in SCORES), *cells))
    about = (
        "12 passes, batches of 16, windows alone as in Table 1. FedAvg, BSM and FedProx use the server step of FedAvg's"
        " first trial there, the\nothers only its local step; none was tuned. Local models are the clients' models"
        " after local training on the last global model."
    )
    findings = [*_local_models(methods["FedAvg"]), *_balanced(results), *_second_head(methods), *_new_clients()]
    return [
        *table(("method", "seeds", *SCORES, "T_p of local models", "T_r of local models"), rows),
        "",
        about,
        "",
        *table(("the paper's finding on images", "reproduced on ECGs?", "measured here"), findings),
    ]


def _mean(runs: Runs, key: str, of: str = "scores") -> float:
    return statistics.fmean(run[of][key] for run in runs)


def _local_models(avg: Runs) -> Iterator[Finding]:
    own, generic = _mean(avg, "T_p", "local_models"), _mean(avg, "T_p")
    assert own > generic, WRONG_NOW
    yield (
        "the local models of a generic method are good personal models",
        "slightly",
        f"FedAvg: T_p {own:.2f}, global model {generic:.2f}; T_r falls from {_mean(avg, 'T_r'):.2f} to"
        f" {_mean(avg, 'T_r', 'local_models'):.2f}. A round is four steps here, epochs in the paper",
    )


def _balanced(results: dict[str, Any]) -> Iterator[Finding]:
    methods, masked = results["methods"], results["masked"]
    balanced, plain = (_mean(methods[name], "T_g") for name in ("FedAvg, BSM", "FedAvg"))
    assert balanced < plain, WRONG_NOW
    own_classes = _mean(masked["FedAvg, BSM"], "T_p")
    assert own_classes > 2 * _mean(methods["FedAvg, BSM"], "T_p"), WRONG_NOW
    yield (
        "a balanced loss improves the generic model",
        "no",
        f"T_g {balanced:.2f} with BSM, {plain:.2f} with cross-entropy. BSM drops the classes that a client lacks from"
        " its softmax, so no client learns that a beat is *not* of them; restricted to the patient's classes, T_p rises"
        f" from {_mean(methods['FedAvg, BSM'], 'T_p'):.2f} to {own_classes:.2f}",
    )


def _second_head(methods: dict[str, Runs]) -> Iterator[Finding]:
    rod, avg = methods["Fed-RoD"], methods["FedAvg"]
    own, generic, plain = _mean(rod, "T_p"), _mean(rod, "T_g"), _mean(avg, "T_g")
    assert own > _mean(avg, "T_p"), WRONG_NOW
    assert generic < plain, WRONG_NOW
    yield (
        "a second head personalises at no cost for the generic model",
        "the first half",
        f"T_p {own:.2f} (FedAvg's global model {_mean(avg, 'T_p'):.2f}); its generic model, trained with BSM, has T_g"
        f" {generic:.2f} (FedAvg {plain:.2f})",
    )


def _new_clients() -> Iterator[Finding]:
    """The model from a class mix for patients who took no part, from the newcomers benchmark."""
    results = results_of("newcomers")
    if results is None:
        return
    rows = {(row["method"], row["answer"]): row for row in results["lessons"]["five minutes"]}

    def both(method: str, model: str) -> str:
        row = rows[method, model]
        return f"{row['macro_f1']['mean']:.2f} ({row['macro_f1_truth']['mean']:.2f} over true classes only)"

    def true_classes(method: str, model: str) -> float:
        return float(rows[method, model]["macro_f1_truth"]["mean"])

    hyper = "fed-rod-hyper"
    assert true_classes(hyper, "global") < true_classes(hyper, "class mix") < true_classes("fedavg", "partway"), (
        WRONG_NOW
    )
    yield (
        "a hypernetwork serves new clients from their class mix alone",
        "better than its global model only",
        f"macro-F1 {both(hyper, 'class mix')}, its global model {both(hyper, 'global')}; FedAvg's global model"
        f" {both('fedavg', 'global')}, trained further on the same five labelled minutes {both('fedavg', 'partway')}"
        " ([newcomers](../benchmarks/newcomers/README.md))",
    )
