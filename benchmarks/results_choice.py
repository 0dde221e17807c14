"""The part of docs/results.md that says what to choose when, from several benchmarks' results files."""

import json
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from common import table

BENCHMARKS = Path(__file__).resolve().parent
#: What the newcomers' benchmark learned from, and what is compared there.
FIVE_MINUTES, TWENTY = "five minutes", "twenty labels, spread"
TWENTY_COUNT = "20"


def choices() -> list[str]:
    """Return the lines of the section; nothing while the flagship has not been measured."""
    flagship = _results("flagship")
    if flagship is None or len(flagship["methods"]) < len(("FedGate", "GRP-FED", "FedAvg", "Local")):
        return []
    rows = [*_who_takes_part(flagship["methods"]), *_who_is_new()]
    return [*table(("you want", "take", "because"), rows), "", *_what_does_not_hold(flagship["methods"])]


def _results(folder: str) -> dict[str, Any] | None:
    file = BENCHMARKS / folder / "results.json"
    found: dict[str, Any] | None = json.loads(file.read_text()) if file.is_file() else None
    return found


def of(runs: Sequence[dict[str, Any]], key: str, split: str = "test") -> str:
    """The mean of a score over seeds, ``0.93``."""
    return f"{statistics.fmean(run[split][key] for run in runs):.2f}"


def worst(runs: Sequence[dict[str, Any]]) -> str:
    """The mean over seeds of T_p of the worst tenth, ``0.58``."""
    return f"{statistics.fmean(run['test_worst_tenth'] for run in runs):.2f}"


def _who_takes_part(methods: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    gate, grp, avg, local = (methods[name] for name in ("FedGate", "GRP-FED", "FedAvg", "Local"))
    yield (
        "one model for all patients who take part",
        "`fed-gate`, or `fedavg` with its server step",
        f"T_g {of(gate, 'T_g')} and {of(avg, 'T_g')}: they are the same training but for the weights",
    )
    yield (
        "each patient's own answer that still names what the patient has never had",
        "`fed-gate`",
        f"T_p {of(gate, 'T_p')}, T_r {of(gate, 'T_r')}; `grp-fed` {of(grp, 'T_p')} and {of(grp, 'T_r')}",
    )
    yield (
        "only what each patient has had already, nothing shared",
        "`local`",
        f"T_p {of(local, 'T_p')}, worst tenth {worst(local)}; but T_r {of(local, 'T_r')}",
    )


def _who_is_new() -> Iterator[tuple[str, str, str]]:
    clinical = _results("clinical")
    if clinical is None:
        return
    for label, take, protocol, labels in (
        ("beats of a patient nobody has labelled", "`ecgfed predict`", "no label", "none"),
        ("the same with twenty labels", "`ecgfed label`, `ecgfed personalize`", "whole record", TWENTY_COUNT),
    ):
        found = clinical["protocols"][protocol]["detected"][labels]["all"]
        veb, sveb = (f"{found[kind]['f1']:.1f}%" for kind in ("veb", "sveb"))
        yield label, take, f"F1 of ventricular beats {veb}, of supraventricular ones {sveb} (DS2)"


def _what_does_not_hold(methods: dict[str, Any]) -> Iterator[str]:
    gate, local = methods["FedGate"], methods["Local"]
    yield "What was hoped for and does not hold:"
    yield ""
    yield (
        f"- On its own usual beats a patient is served best by a net of its own: T_p {of(local, 'T_p')} against"
        f" FedGate's {of(gate, 'T_p')}.\n  That net can never name another class, and macro-F1 over classes in truth or"
        " prediction halves the score of a patient\n  of one class for a single foreign answer. Over the classes in"
        f" truth FedGate has {of(gate, 'T_p', 'test_truth')}, the net {of(local, 'T_p', 'test_truth')}."
    )
    grp = methods["GRP-FED"]
    yield (
        f"- In T_l, which counts T_p and T_r alike, GRP-FED by the same recipe is ahead of FedGate: {of(grp, 'T_l')}"
        f" against {of(gate, 'T_l')}.\n  FedGate was made for the patient's own beats (T_p {of(gate, 'T_p')} against"
        f" {of(grp, 'T_p')}) and for the worst tenth ({worst(gate)} against {worst(grp)})."
    )
    yield from _fairness()
    yield from _newcomers()


def _fairness() -> Iterator[str]:
    found = _results("fairness")
    if found is None:
        return
    rows = [row["worst_decile"] for row in found["against_uniform"].values()]
    assert all(row["low"] <= 0 for row in rows), "a rule serves the worst better: this sentence is wrong now"
    yield (
        "- No way of weighting patients serves the worst tenth measurably better than equal weights"
        f" ({min(row['mean'] for row in rows):+.3f} to {max(row['mean'] for row in rows):+.3f}\n  in T_p), so these are"
        " FedGate's."
    )


def _newcomers() -> Iterator[str]:
    found = _results("newcomers")
    if found is None:
        return
    five, twenty = (
        next(
            one
            for one in found["differences"][lesson]
            if (one["method"], one["answer"], one["less"]) == ("fedavg", "partway", "from scratch")
        )
        for lesson in (FIVE_MINUTES, TWENTY)
    )
    wrong = "what a newcomer gains by federation is another thing now: change this sentence"
    assert five["macro_f1"]["low"] <= 0 < five["macro_f1_truth"]["low"], wrong
    assert twenty["macro_f1"]["mean"] <= 0, wrong
    plain, truth, groups = (_gain(one) for one in (five["macro_f1"], five["macro_f1_truth"], twenty["macro_f1"]))
    yield (
        "- To five labelled minutes of a newcomer federation adds a little, to twenty labels that speak for their"
        " groups nothing.\n  FedAvg's model, trained on (`partway`), less a net from scratch, macro-F1:"
        f" {plain}, over\n  the classes in truth {truth}; and {groups} after twenty labels"
        "\n  ([all methods](../benchmarks/newcomers/README.md))."
    )


def _gain(found: dict[str, float]) -> str:
    return f"{found['mean']:+.3f} ({found['low']:+.3f} to {found['high']:+.3f})"
