"""The part of docs/results.md that says what to choose when, from several benchmarks' results files."""

import statistics
from collections.abc import Iterator
from functools import partial
from typing import Any

from common import LONGER, LONGER_GRP, OF_ITS_MODEL, OF_LONGER, interval, results_of, table
from results_pairs import BY_SEED, ahead, of_flagship, told

TUNED, HEAD, UNCHANGED = (OF_ITS_MODEL + name for name in ("finetune", "head", "unchanged"))
LONGER_TUNED, LONGER_PROBE, LONGER_UNCHANGED = (OF_LONGER + name for name in ("finetune", "probe", "unchanged"))
#: Of the flagship's benchmark, what is compared here.
COMPARED = (
    *("FedGate", "GRP-FED", "FedAvg", "Local", TUNED, HEAD, UNCHANGED),
    *(LONGER, LONGER_TUNED, LONGER_PROBE, LONGER_GRP, LONGER_UNCHANGED),
)
#: What the newcomers' benchmark learned from, and what is compared there.
FIVE_MINUTES, TWENTY = "five minutes", "twenty labels, spread"
Means = dict[str, float]
#: Means of three seeds that lie no further apart are called about the same: their ranges overlap.
CLOSE = 0.02
WRONG_NOW = "the results say otherwise now: change the sentence that follows"


def choices() -> list[str]:
    """Return the lines of the section; nothing while the flagship has not been measured."""
    flagship = results_of("flagship")
    if flagship is None or not set(COMPARED) <= set(flagship["methods"]):
        return []
    means = seed_means(flagship["methods"])
    rows = [*_who_takes_part(means), *_who_is_new()]
    return [*table(("you want", "take", "because"), rows), "", *_what_does_not_hold(means, flagship["methods"])]


def seed_means(methods: dict[str, Any]) -> dict[str, Means]:
    """Return for each method the means over seeds of T_g, T_p, T_r, T_l, ``in_truth``, ``both_in_truth`` and ``worst``.

    ``in_truth`` is T_p over the classes in truth, ``both_in_truth`` T_l, ``worst`` T_p of the worst tenth of patients.
    """
    found = {}
    for name in COMPARED:
        runs = [
            {
                **run["test"],
                "in_truth": run["test_truth"]["T_p"],
                "both_in_truth": run["test_truth"]["T_l"],
                "worst": run["test_worst_tenth"],
            }
            for run in methods[name]
        ]
        found[name] = {key: statistics.fmean(run[key] for run in runs) for key in runs[0]}
    return found


def _who_takes_part(means: dict[str, Means]) -> Iterator[tuple[str, str, str]]:
    gate, grp, avg, local, tuned, head, alone, longer, longer_tuned, probe, longer_grp, _ = (
        means[name] for name in COMPARED
    )
    assert abs(gate["T_l"] - tuned["T_l"]) < CLOSE, WRONG_NOW
    assert longer["T_p"] > longer_tuned["T_p"] + CLOSE, WRONG_NOW
    assert longer["T_p"] > max(probe["T_p"], longer_grp["T_p"]) + CLOSE, WRONG_NOW
    assert longer["T_l"] > max(gate["T_l"], grp["T_l"], tuned["T_l"]) + CLOSE, WRONG_NOW
    assert abs(gate["T_p"] - longer["T_p"]) < CLOSE, WRONG_NOW
    assert head["in_truth"] > max(local["in_truth"], gate["in_truth"]), WRONG_NOW
    yield (
        "one model for all patients who take part",
        "`fed-gate` (what `ecgfed train` does with no option), or `fedavg`",
        f"T_g {gate['T_g']:.2f} and {avg['T_g']:.2f}: they are the same training but for the weights;"
        f" {longer['T_g']:.2f} with `--passes 60`",
    )
    yield (
        "each patient's own answer, good on that patient's beats and on everybody's",
        "`fed-gate` with `--passes 60`",
        f"T_p {longer['T_p']:.2f} (in truth {longer['in_truth']:.2f}), T_r {longer['T_r']:.2f}, worst tenth"
        f" {longer['worst']:.2f}; from the same global model `--personal finetune` has {longer_tuned['T_p']:.2f}"
        f" ({longer_tuned['in_truth']:.2f}), {longer_tuned['T_r']:.2f} and {longer_tuned['worst']:.2f}, `probe`"
        f" {probe['T_p']:.2f} ({probe['in_truth']:.2f}), {probe['T_r']:.2f} and {probe['worst']:.2f}, `grp-fed`"
        f" with as many passes {longer_grp['T_p']:.2f} ({longer_grp['in_truth']:.2f}), {longer_grp['T_r']:.2f} and"
        f" {longer_grp['worst']:.2f}. In T_l (both together) they are {longer['T_l']:.2f}, {longer_tuned['T_l']:.2f},"
        f" {probe['T_l']:.2f} and {longer_grp['T_l']:.2f}: who is best there cannot be told",
    )
    yield (
        "the same in a third of the time, about as good on the patient's own beats",
        "`fed-gate`, or `--personal finetune` on its global model",
        f"T_p {gate['T_p']:.2f} and {tuned['T_p']:.2f} (in truth {gate['in_truth']:.2f} and {tuned['in_truth']:.2f}),"
        f" T_r {gate['T_r']:.2f} and {tuned['T_r']:.2f}, worst tenth {gate['worst']:.2f} and {tuned['worst']:.2f}:"
        " about the same; the gate shares one net among all, fine-tuning makes a net for each, with 300 steps more"
        " of its own",
    )
    yield (
        "the same in a third of the time, better at naming what the patient has never had",
        "`grp-fed`; where T_r alone counts, the global model as it is",
        f"`grp-fed` T_r {grp['T_r']:.2f}, T_l {grp['T_l']:.2f} (in truth {grp['both_in_truth']:.2f}); `fed-gate`"
        f" {gate['T_r']:.2f}, {gate['T_l']:.2f} ({gate['both_in_truth']:.2f}); its global model {alone['T_r']:.2f},"
        f" {alone['T_l']:.2f} ({alone['both_in_truth']:.2f}), but T_p {alone['T_p']:.2f}",
    )
    yield (
        "only what each patient has had already",
        "`--personal head` on a global model; `local` where nothing may be shared",
        f"T_p {head['T_p']:.2f} and {local['T_p']:.2f} (in truth {head['in_truth']:.2f} and {local['in_truth']:.2f}),"
        f" worst tenth {head['worst']:.2f} and {local['worst']:.2f}; but T_r {head['T_r']:.2f} and {local['T_r']:.2f}",
    )


def _who_is_new() -> Iterator[tuple[str, str, str]]:
    packaged = results_of("clinical", "packaged.json")
    if packaged is None:
        return
    for label, take, model in (
        ("beats of a patient nobody has labelled", "`ecgfed predict`", "before"),
        ("the same with twenty labels", "`ecgfed label`, `ecgfed personalize`", "partway, after"),
    ):
        scores = packaged["sets"]["ds2"]["twenty"][model]
        veb, sveb = (f"{scores[kind]['f1']:.1f}%" for kind in ("veb", "sveb"))
        yield label, take, f"F1 of ventricular beats {veb}, of supraventricular ones {sveb} (DS2, patients left out)"


def _what_does_not_hold(means: dict[str, Means], methods: dict[str, Any]) -> Iterator[str]:
    gate, grp, _, local, tuned, head, alone, longer, longer_tuned, probe, longer_grp, longer_alone = (
        means[name] for name in COMPARED
    )
    assert min(local["T_p"], head["T_p"]) > gate["T_p"], WRONG_NOW
    assert alone["both_in_truth"] > gate["both_in_truth"] + CLOSE, WRONG_NOW
    others = (probe, longer_tuned, longer_alone)
    assert max(abs(longer["both_in_truth"] - one["both_in_truth"]) for one in others) < CLOSE, WRONG_NOW
    of_longer, of_tuned = (
        {key: of_flagship(methods, name, key=key) for key in ("T_r", "T_l")} for name in (LONGER, LONGER_TUNED)
    )
    assert not ahead(of_longer["T_l"], of_flagship(methods, LONGER_PROBE)), WRONG_NOW
    assert ahead(of_tuned["T_r"], of_longer["T_r"]), WRONG_NOW
    assert not ahead(of_longer["T_l"], of_tuned["T_l"]), WRONG_NOW
    assert longer["in_truth"] > max(probe["in_truth"], longer_tuned["in_truth"]), WRONG_NOW
    assert abs(longer["both_in_truth"] - longer_grp["both_in_truth"]) < CLOSE, WRONG_NOW
    yield "What was hoped for and does not hold:"
    yield ""
    yield (
        "- With 20 passes FedGate does not beat what is simple. From the same global models of 20 passes,\n"
        "  early-stopped fine-tuning by each patient alone has T_p"
        f" {tuned['T_p']:.3f} against {gate['T_p']:.3f}, T_l {tuned['T_l']:.3f} against"
        f" {gate['T_l']:.3f},\n  worst tenth {tuned['worst']:.3f} against {gate['worst']:.3f}; in truth T_p"
        f" {tuned['in_truth']:.3f} against {gate['in_truth']:.3f}.\n  And the global model as it is has T_p"
        f" {alone['T_p']:.3f} and T_r {alone['T_r']:.3f}: T_l {alone['T_l']:.3f}, {_beside(alone, gate)} FedGate's;"
        f" in truth\n  {alone['both_in_truth']:.3f}, above FedGate's {gate['both_in_truth']:.3f}.\n"
        f"  With 60 passes its T_p is measurably above fine-tuning's, {longer['T_p']:.3f} against"
        f" {longer_tuned['T_p']:.3f}, and its T_r below, {longer['T_r']:.3f} against\n  {longer_tuned['T_r']:.3f}. The"
        f" rest is undecided: worst tenth {longer['worst']:.3f} against {longer_tuned['worst']:.3f}, T_l"
        f" {longer['T_l']:.3f} against {longer_tuned['T_l']:.3f}; so is what `probe` has,\n  which trains the head"
        f" first: {probe['T_p']:.3f}, {probe['worst']:.3f}, {probe['T_l']:.3f}"
        " ([all intervals](#fedgate-the-flagship)). And it is the single"
        " foreign answers that\n  count there: over the classes in truth T_p is"
        f" {longer['in_truth']:.3f}, {longer_tuned['in_truth']:.3f} and {probe['in_truth']:.3f}, and T_l"
        f" {longer['both_in_truth']:.3f}, {longer_tuned['both_in_truth']:.3f} and {probe['both_in_truth']:.3f}, where"
        f" the global\n  model as it is has {longer_alone['both_in_truth']:.3f}: nobody is ahead."
    )
    yield (
        "- On its own usual beats nothing serves a patient measurably better than an answer that can name no other"
        " class: T_p"
        f" {local['T_p']:.2f} by a net of its\n  own, {head['T_p']:.2f} by a linear head on the global model's frozen"
        f" features, {gate['T_p']:.2f} by FedGate. Macro-F1 over classes in truth or\n  prediction halves the score of"
        " a patient of one class for a single foreign answer. Over the classes in truth it is"
        f" {local['in_truth']:.2f},\n  {head['in_truth']:.2f} and {gate['in_truth']:.2f}."
    )
    yield _beside_grp_fed(methods, gate, grp)
    yield from _fairness()
    yield from _newcomers()


def _beside_grp_fed(methods: dict[str, Any], gate: Means, grp: Means) -> str:
    """What FedGate's T_l is beside GRP-FED's, by seed."""
    of = partial(of_flagship, methods)
    few, many = ("FedGate", "GRP-FED"), (LONGER, LONGER_GRP)
    assert not any(
        ahead(of(one, in_truth=truth), of(other, in_truth=truth))
        for one, other in (few, many)
        for truth in (False, True)
    ), WRONG_NOW
    assert ahead(of("GRP-FED", in_truth=True), of("FedGate", in_truth=True)), WRONG_NOW
    plain, truth = ([told(of(a, in_truth=one), of(b, in_truth=one)) for a, b in (few, many)] for one in (False, True))
    return (
        "- In T_l, which counts T_p and T_r alike, FedGate is not measurably ahead of GRP-FED. FedGate's less GRP-FED's"
        f" with 95%\n  intervals ({BY_SEED}): with 20 passes\n  {plain[0]}, in truth"
        f" {truth[0]}, where GRP-FED is ahead; with 60\n  {plain[1]}, in truth {truth[1]}. FedGate was made for the"
        f" patient's\n  own beats (with 20 passes T_p {gate['T_p']:.2f} against"
        f" {grp['T_p']:.2f}) and for the worst tenth ({gate['worst']:.2f} against {grp['worst']:.2f})."
    )


def _beside(one: Means, other: Means) -> str:
    """Whether a T_l is below, above or about the same as another one."""
    if abs(one["T_l"] - other["T_l"]) < CLOSE:
        return "about"
    return "below" if one["T_l"] < other["T_l"] else "above"


def _fairness() -> Iterator[str]:
    found = results_of("fairness")
    if found is None:
        return
    rules = found["against_uniform"]
    rows = [row["worst_decile"] for row in rules.values()]
    assert all(row["low"] <= 0 for row in rows), WRONG_NOW
    *others, last = rules
    worse = [name for name, row in rules.items() if row["worst_decile"]["high"] < 0]
    assert worse == ["adaptive q, sigma / mean"], WRONG_NOW
    apart = ", ".join(f"{row['mean']:+.3f}" for row in rows)
    yield (
        "- Of the other ways of weighting patients three were best on validation beats:"
        f" {'; '.join(others)}; and\n  {last}. None serves the worst tenth measurably better than equal weights, so"
        f" FedGate's are equal\n  (differences of {apart} in the global model's macro-F1 on each patient, five seeds);"
        f" {worse[0]}\n  serves it measurably worse. The rules that are left had one seed. Equal weights had a server"
        f" step of 0.02 there, FedGate has 0.01.{_fairness_longer(found)}"
    )


def _fairness_longer(found: dict[str, Any]) -> str:
    """What 60 passes with one server's step say of the same rules, where they are there."""
    if not found.get("longer"):
        return ""
    runs, less = found["longer"], found["longer_against_uniform"]
    assert all(row["worst_decile"]["low"] <= 0 <= row["worst_decile"]["high"] for row in less.values()), WRONG_NOW
    lower = [name for name, row in less.items() if row["loss_max"]["high"] < 0]
    assert {"adaptive q, sigma", "adaptive q, sigma / mean"} <= set(lower), WRONG_NOW

    def mean(name: str, key: str) -> float:
        return statistics.fmean(run[key] for run in runs[name])

    equal = next(name for name in runs if name not in less)
    worst = [mean(name, "worst_decile") for name in less]
    losses = "; ".join(f"{name} {mean(name, 'loss_max'):.3f}" for name in lower)
    spread = _of_losses(runs, less, equal)
    return (
        f"\n  With 60 passes and that step for all ({len(runs[equal])} seeds) no rule can be told from equal weights in"
        f" the worst tenth: {mean(equal, 'worst_decile'):.3f},\n  the others {min(worst):.3f} to {max(worst):.3f}."
        " What is measurably lower is the\n  largest training loss of a client, as in the paper's figure 3: equal"
        f" weights {mean(equal, 'loss_max'):.3f}; {losses}.{spread}\n  The macro-F1 of the patients"
        " served worst does not measurably follow it."
    )


def _of_losses(runs: dict[str, list[dict[str, Any]]], less: dict[str, Any], equal: str) -> str:
    """The standard deviation of the clients' losses, by which the paper says what is fair, where it is kept of all."""
    if not all("loss_std" in row for row in less.values()):
        return ""
    theirs = statistics.fmean(run["loss_std"] for run in runs[equal])
    others = "; ".join(f"{name} {interval(row['loss_std'])}" for name, row in less.items())
    return (
        f" Its measure of fairness, the standard\n  deviation of the losses, is {theirs:.3f} with equal weights; less"
        f" that: {others}."
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
    assert twenty["macro_f1"]["high"] < 0, WRONG_NOW
    plain, truth, groups = (interval(one) for one in (five["macro_f1"], five["macro_f1_truth"], twenty["macro_f1"]))
    yield (
        "- A newcomer who gives five labelled minutes gains a little from what others learned, but only over the"
        " classes in truth.\n  One who gives twenty labels, each spread over its group of beats, is better off with a"
        f" net from scratch. FedAvg's model\n  trained on (`partway`), less a net from scratch, macro-F1: after five"
        f" minutes {plain}, in truth\n  {truth}; after twenty labels {groups}"
        " ([all methods](../benchmarks/newcomers/README.md))."
    )
