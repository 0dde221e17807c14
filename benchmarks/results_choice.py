"""The part of docs/results.md that says what to choose when, from several benchmarks' results files."""

import statistics
from collections.abc import Iterator
from typing import Any

from common import interval, results_of, table

#: Of the flagship's benchmark, what is compared here.
COMPARED = ("FedGate", "GRP-FED", "FedAvg", "Local")
#: What the newcomers' benchmark learned from, and what is compared there.
FIVE_MINUTES, TWENTY = "five minutes", "twenty labels, spread"
TWENTY_COUNT = "20"
Means = dict[str, float]
WRONG_NOW = "the results say otherwise now: change the sentence that follows"


def choices() -> list[str]:
    """Return the lines of the section; nothing while the flagship has not been measured."""
    flagship = results_of("flagship")
    if flagship is None or not set(COMPARED) <= set(flagship["methods"]):
        return []
    means = seed_means(flagship["methods"])
    rows = [*_who_takes_part(means), *_who_is_new()]
    return [*table(("you want", "take", "because"), rows), "", *_what_does_not_hold(means)]


def seed_means(methods: dict[str, Any]) -> dict[str, Means]:
    """Return for each method the means over seeds of T_g, T_p, T_r, T_l, ``in_truth`` and ``worst``.

    ``in_truth`` is T_p over the classes in truth, ``worst`` T_p of the worst tenth of patients.
    """
    found = {}
    for name in COMPARED:
        runs = [
            {**run["test"], "in_truth": run["test_truth"]["T_p"], "worst": run["test_worst_tenth"]}
            for run in methods[name]
        ]
        found[name] = {key: statistics.fmean(run[key] for run in runs) for key in runs[0]}
    return found


def _who_takes_part(means: dict[str, Means]) -> Iterator[tuple[str, str, str]]:
    gate, grp, avg, local = (means[name] for name in COMPARED)
    yield (
        "one model for all patients who take part",
        "`fed-gate`, or `fedavg` with its server step",
        f"T_g {gate['T_g']:.2f} and {avg['T_g']:.2f}: they are the same training but for the weights",
    )
    yield (
        "each patient's own answer, best on that patient's usual beats, that can name other classes too",
        "`fed-gate`",
        f"T_p {gate['T_p']:.2f}, worst tenth {gate['worst']:.2f}; `grp-fed` {grp['T_p']:.2f} and {grp['worst']:.2f}",
    )
    yield (
        "the same, best at naming what the patient has never had",
        "`grp-fed`",
        f"T_r {grp['T_r']:.2f}, T_l {grp['T_l']:.2f}; `fed-gate` {gate['T_r']:.2f} and {gate['T_l']:.2f}",
    )
    yield (
        "only what each patient has had already, nothing shared",
        "`local`",
        f"T_p {local['T_p']:.2f}, worst tenth {local['worst']:.2f}; but T_r {local['T_r']:.2f}",
    )


def _who_is_new() -> Iterator[tuple[str, str, str]]:
    clinical = results_of("clinical")
    if clinical is None:
        return
    for label, take, protocol, labels in (
        ("beats of a patient nobody has labelled", "`ecgfed predict`", "no label", "none"),
        ("the same with twenty labels", "`ecgfed label`, `ecgfed personalize`", "whole record", TWENTY_COUNT),
    ):
        found = clinical["protocols"][protocol]["detected"][labels]["all"]
        veb, sveb = (f"{found[kind]['f1']:.1f}%" for kind in ("veb", "sveb"))
        yield label, take, f"F1 of ventricular beats {veb}, of supraventricular ones {sveb} (DS2)"


def _what_does_not_hold(means: dict[str, Means]) -> Iterator[str]:
    gate, grp, local = (means[name] for name in ("FedGate", "GRP-FED", "Local"))
    assert local["T_p"] > gate["T_p"], WRONG_NOW
    assert grp["T_l"] > gate["T_l"], WRONG_NOW
    yield "What was hoped for and does not hold:"
    yield ""
    yield (
        f"- On its own usual beats a patient is served best by a net of its own: T_p {local['T_p']:.2f} against"
        f" FedGate's {gate['T_p']:.2f}.\n  That net can never name another class, and macro-F1 over classes in truth or"
        " prediction halves the score of a patient\n  of one class for a single foreign answer. Over the classes in"
        f" truth FedGate has {gate['in_truth']:.2f}, the net {local['in_truth']:.2f}."
    )
    yield (
        f"- In T_l, which counts T_p and T_r alike, GRP-FED by the same recipe is ahead of FedGate: {grp['T_l']:.2f}"
        f" against {gate['T_l']:.2f}.\n  FedGate was made for the patient's own beats (T_p {gate['T_p']:.2f} against"
        f" {grp['T_p']:.2f}) and for the worst tenth ({gate['worst']:.2f} against {grp['worst']:.2f})."
    )
    yield from _fairness()
    yield from _newcomers()


def _fairness() -> Iterator[str]:
    found = results_of("fairness")
    if found is None:
        return
    rules = found["against_uniform"]
    rows = [row["worst_decile"] for row in rules.values()]
    assert all(row["low"] <= 0 for row in rows), WRONG_NOW
    *others, last = rules
    yield (
        "- Of the ways of weighting patients that were best on validation beats none serves the worst tenth measurably"
        f" better\n  than equal weights, so these are FedGate's: {', '.join(others)} and {last}\n"
        f"  ({min(row['mean'] for row in rows):+.3f} to {max(row['mean'] for row in rows):+.3f} in the global model's"
        " macro-F1 on each patient, five seeds). Others had one seed."
    )


def _newcomers() -> Iterator[str]:
    found = results_of("newcomers")
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
    assert five["macro_f1"]["low"] <= 0 < five["macro_f1_truth"]["low"], WRONG_NOW
    assert twenty["macro_f1"]["mean"] <= 0, WRONG_NOW
    plain, truth, groups = (interval(one) for one in (five["macro_f1"], five["macro_f1_truth"], twenty["macro_f1"]))
    yield (
        "- To five labelled minutes of a newcomer federation adds a little, to twenty labels that speak for their"
        " groups nothing.\n  FedAvg's model, trained on (`partway`), less a net from scratch, macro-F1:"
        f" {plain}, over\n  the classes in truth {truth}; and {groups} after twenty labels"
        "\n  ([all methods](../benchmarks/newcomers/README.md))."
    )
