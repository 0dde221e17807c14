"""The parts of docs/results.md that several benchmarks decide: what to use when, and which hopes did not hold."""

import statistics
from collections.abc import Iterator
from functools import partial
from typing import Any

from common import LONGER, LONGER_GRP, OF_ITS_MODEL, OF_LONGER, interval, results_of, table
from results_flagship import mean_score, over_patients
from results_pairs import is_above, of_flagship, with_seeds
from results_table1_paper import WRONG_NOW

TUNED, HEAD, UNCHANGED = (OF_ITS_MODEL + name for name in ("finetune", "head", "unchanged"))
LONGER_TUNED, LONGER_PROBE = (OF_LONGER + name for name in ("finetune", "probe"))
#: The runs of the flagship benchmark that are compared here.
COMPARED = ("FedGate", "GRP-FED", "FedAvg", "Local", TUNED, HEAD, UNCHANGED, LONGER, LONGER_TUNED, LONGER_GRP)
#: What newcomers give, in the newcomers benchmark.
FIVE_MINUTES, TWENTY = "five minutes", "twenty labels, spread"
Means = dict[str, float]
#: Means over seeds that differ by less are called alike.
ALIKE = 0.02


def choices() -> list[str]:
    """What to use when; nothing until the flagship has been measured."""
    flagship = results_of("flagship")
    if flagship is None or not set(COMPARED) <= set(flagship["methods"]):
        return []
    means = seed_means(flagship["methods"])
    return table(("you want", "use", "measured"), [*_patients_who_take_part(means), *_new_patients()])


def seed_means(methods: dict[str, Any]) -> dict[str, Means]:
    """For each method the means over seeds of T_g, T_p, T_r, T_l and ``T_p_true``, T_p over the true classes only."""
    means = {}
    for name in COMPARED:
        runs = [{**run["test"], "T_p_true": run["test_truth"]["T_p"]} for run in methods[name]]
        means[name] = {key: statistics.fmean(run[key] for run in runs) for key in runs[0]}
    return means


def _patients_who_take_part(means: dict[str, Means]) -> Iterator[tuple[str, str, str]]:
    gate, grp, avg, local, tuned, head, _, longer, longer_tuned, longer_grp = (means[name] for name in COMPARED)
    assert longer["T_p"] > max(longer_tuned["T_p"], longer_grp["T_p"]), WRONG_NOW
    assert longer["T_l"] > max(gate["T_l"], grp["T_l"], tuned["T_l"]), WRONG_NOW
    assert min(head["T_p_true"], local["T_p"]) > gate["T_p"], WRONG_NOW
    yield (
        "one model for all patients",
        "`ecgfed train` (FedGate) or `--method fedavg`; `--passes 60` for more accuracy",
        f"T_g {gate['T_g']:.2f} and {avg['T_g']:.2f}; {longer['T_g']:.2f} with 60 passes",
    )
    yield (
        "personal models that also recognise classes the patient has not had",
        "`ecgfed train --passes 60`",
        f"T_p {longer['T_p']:.2f} ({longer['T_p_true']:.2f} over true classes only), T_r {longer['T_r']:.2f}",
    )
    yield (
        "the same in a third of the time",
        "`ecgfed train`, or `--personal finetune` on its global model; `--method grp-fed` if new classes matter more",
        f"T_p {gate['T_p']:.2f}, {tuned['T_p']:.2f}, {grp['T_p']:.2f}; T_r {gate['T_r']:.2f}, {tuned['T_r']:.2f},"
        f" {grp['T_r']:.2f}",
    )
    yield (
        "personal models for the classes each patient has had",
        "`--personal head` on a global model; `--method local` if nothing may be shared",
        f"T_p {head['T_p']:.2f} and {local['T_p']:.2f}, but T_r {head['T_r']:.2f} and {local['T_r']:.2f}",
    )


def _new_patients() -> Iterator[tuple[str, str, str]]:
    packaged = results_of("clinical", "packaged.json")
    if packaged is None:
        return
    for label, use, model in (
        ("a new patient's beats, without labels", "`ecgfed predict`, `ecgfed report`", "before"),
        ("the same with twenty labels", "`ecgfed label`, `ecgfed personalize`", "partway, after"),
    ):
        scores = packaged["sets"]["ds2"]["twenty"][model]
        veb, sveb = (
            f"{scores[kind]['f1']:.1f}% ({scores[kind]['interval'][0]:.1f} to {scores[kind]['interval'][1]:.1f})"
            for kind in ("veb", "sveb")
        )
        yield label, use, f"F1 on DS2: VEB {veb}, SVEB {sveb}"


def not_supported() -> list[str]:
    """What was hoped for and is not supported; nothing until the flagship has been measured."""
    flagship = results_of("flagship")
    if flagship is None or not set(COMPARED) <= set(flagship["methods"]):
        return []
    return [*_own_models(flagship["methods"]), *_grp_fed(flagship["methods"]), *_fairness(), *_newcomers()]


def _own_models(methods: dict[str, Any]) -> Iterator[str]:
    means = seed_means(methods)
    of = partial(of_flagship, methods)
    assert not is_above(of("FedGate", key="T_p"), of(TUNED, key="T_p")), WRONG_NOW
    assert is_above(of(LONGER_TUNED, key="T_r"), of(LONGER, key="T_r")), WRONG_NOW
    assert not is_above(of(LONGER), of(LONGER_PROBE)), WRONG_NOW
    assert abs(means[LONGER]["T_p_true"] - means[LONGER_TUNED]["T_p_true"]) < ALIKE, WRONG_NOW
    for name in (HEAD, "FedGate", TUNED, LONGER, LONGER_TUNED):
        assert over_patients(methods[name], mean_score, minus=methods["Local"])["low"] <= 0, WRONG_NOW
    yield (
        "- **FedGate does not beat simple fine-tuning after 20 passes.** T_p"
        f" {means['FedGate']['T_p']:.3f} against {means[TUNED]['T_p']:.3f}, T_l {means['FedGate']['T_l']:.3f} against"
        f" {means[TUNED]['T_l']:.3f}.\n  After 60 passes its T_p is higher ({means[LONGER]['T_p']:.3f} against"
        f" {means[LONGER_TUNED]['T_p']:.3f}) and its T_r lower; over the true classes only they are alike."
    )
    yield (
        "- **No shared model is measurably better on a patient's usual beats than a model of that patient alone** on a"
        f" random split: T_p\n  {means['Local']['T_p']:.2f} alone, {means[HEAD]['T_p']:.2f} with a linear head on"
        f" global features, {means['FedGate']['T_p']:.2f} with FedGate. A single beat assigned to a class\n"
        "  that the patient does not have can halve a patient's macro-F1; over the true classes only the three are"
        f" {means['Local']['T_p_true']:.2f}, {means[HEAD]['T_p_true']:.2f} and {means['FedGate']['T_p_true']:.2f}."
    )


def _grp_fed(methods: dict[str, Any]) -> Iterator[str]:
    of = partial(of_flagship, methods)
    pairs = ("FedGate", "GRP-FED"), (LONGER, LONGER_GRP)
    assert not any(is_above(of(ours), of(theirs)) for ours, theirs in pairs), WRONG_NOW
    few, many = (with_seeds(of(ours), of(theirs)) for ours, theirs in pairs)
    few_true, many_true = (
        with_seeds(of(ours, true_classes=True), of(theirs, true_classes=True)) for ours, theirs in pairs
    )
    yield (
        "- **FedGate is not ahead of GRP-FED in T_l**, which weighs T_p and T_r alike. FedGate minus GRP-FED (95% CI,"
        f" Student's t):\n  20 passes {few}; over the true classes only {few_true}, where GRP-FED is ahead.\n"
        f"  60 passes {many}; over the true classes only {many_true}."
    )


def _fairness() -> Iterator[str]:
    results = results_of("fairness")
    if results is None:
        return
    rules = [row["worst_decile"] for row in results["against_uniform"].values()]
    longer = [row["worst_decile"] for row in results.get("longer_against_uniform", {}).values()]
    assert all(row["low"] <= 0 for row in (*rules, *longer)), WRONG_NOW
    yield (
        "- **Weighting patients by their loss or their data does not help the worst-served tenth** beyond the"
        " uncertainty of five seeds\n  ([the rules](#does-weighting-help-the-worst-served-patients))."
    )


def _newcomers() -> Iterator[str]:
    results = results_of("newcomers")
    if results is None:
        return
    five, twenty = (
        next(
            row
            for row in results["differences"][lesson]
            if (row["method"], row["answer"], row["less"]) == ("fedavg", "partway", "from scratch")
        )
        for lesson in (FIVE_MINUTES, TWENTY)
    )
    assert five["macro_f1"]["low"] <= 0 < five["macro_f1_truth"]["low"], WRONG_NOW
    assert twenty["macro_f1"]["high"] < 0, WRONG_NOW
    plain, truth, groups = (interval(row) for row in (five["macro_f1"], five["macro_f1_truth"], twenty["macro_f1"]))
    yield (
        "- **A new patient gains little from the others' model once labels exist.** FedAvg's model trained further,"
        f" minus a model from\n  scratch, macro-F1: five labelled minutes {plain}, over the true classes only"
        f" {truth};\n  twenty labels that are propagated to similar beats {groups}"
        " ([all methods](../benchmarks/newcomers/README.md))."
    )
