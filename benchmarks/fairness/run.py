"""Which rule serves the patients served worst, and what it costs the others: eight rules, one server step.

    python benchmarks/fairness/run.py --source MITDB --work DIR [--stage tune] [--workers 1]

On the 46 MIT-BIH clients by record, the recipe's local work, Adam at the server with each rule's own step. Stages:

- ``tune``: 5 passes, seed 0, two steps of the server for each rule; the one whose worst tenth of patients is served
  best on *validation* beats is the rule's;
- ``factorial``: 12 passes, seed 0, each rule with its step, on validation beats;
- ``final``: uniform weights and the three other rules best there, five seeds, 12 passes, on test beats;
- ``longer``: the same four with 60 passes, all with the server's step that FedGate has, five seeds, on test beats.

The worst tenth is that of macro-F1 (classes in truth or prediction) of the global model on each patient's beats. Every
finished run is written into ``runs.json`` beside this file at once; what is there is not run again, and a stage goes on
where it was stopped. Uniform weights are q fixed at 0, so they are one rule here. AFL and q-FFL take
their losses over 64 beats a round: over all of them, a round of four steps would read far more than it trains on. AFL's
step of lambda is 0.001: with 0.01 it all but trains on one patient (T_g .425 in ``factorial``, commit 646cd0a).

``--only`` trains some rules of the last stage, so that several processes share the work, ``--first`` the first seeds of
each; neither writes results. ``--known`` trains no run of the last stage: it writes the seeds that all its rules
have, three at least.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import (
    SAME_SERVER,
    benchmark,
    bootstrap,
    known_runs,
    option,
    prepared,
    print_table,
    remembered,
    save,
    scored,
    t_interval,
    trained,
    worst_tenth,
)

import ecgfed
from ecgfed.core.runs.history import HISTORY, read_lines
from ecgfed.domain.cohort.cohort import Cohort

GLOBAL = {"personalise": False}
UNIFORM = "uniform (q = 0)"
#: rule -> method and its settings
RULES: dict[str, tuple[str, dict[str, Any]]] = {
    "adaptive q, sigma": ("grp-fed", {**GLOBAL, "driver": "spread"}),
    "adaptive q, sigma / mean": ("grp-fed", {**GLOBAL, "driver": "relative"}),
    "adaptive q, worst tenth on validation": ("grp-fed", {**GLOBAL, "driver": "worst-tenth"}),
    "q fixed at 1": ("grp-fed", {**GLOBAL, "eta_q": 0.0}),
    UNIFORM: ("grp-fed", {**GLOBAL, "q0": 0.0, "eta_q": 0.0}),
    "data share": ("fedavg", {}),
    "AFL": ("afl-fedavg", {"lambda_lr": 0.001, "survey_beats": 64}),
    "q-FFL, q = 1": ("q-ffl", {"q": 1.0, "survey_beats": 64}),
}
STEPS = (0.01, 0.02)
LONGER_STEP = 0.01
PASSES = {"tune": 5.0, "factorial": 12.0, "final": 12.0, "longer": 60.0}
FINALISTS, SEEDS = 4, (0, 1, 2, 3, 4)
#: Of fewer seeds nobody shall read an interval.
LEAST_PAIRS = 3
RUNS = Path(__file__).with_name("runs.json")


def key_of(stage: str, rule: str, step: float, seed: int) -> str:
    """The name of a run in ``runs.json``."""
    return f"{stage}/{rule}/{step:g}/{seed}"


def measured(
    cohort: Cohort, given: argparse.Namespace, stage: str, rule: str, step: float, seed: int
) -> dict[str, Any]:
    """Train one run, or read what is known of it; test beats are scored in the last two stages alone."""
    name = key_of(stage, rule, step, seed)

    def make() -> dict[str, Any]:
        method, own = RULES[rule]
        run = trained(
            cohort,
            given.work / name.replace(" ", "-").replace("/", "_"),
            method=method,
            settings={**SAME_SERVER, "server_lr": step, **own},
            seed=seed,
            passes=PASSES[stage],
            eval_every=0,
            engine="batched",
            slots=23,
        )
        split = "test" if stage in ("final", "longer") else "valid"
        scores = scored(run, split, local_models=False, workers=given.workers)
        return {
            "split": split,
            "rounds": run.plan.rounds,
            "T_g": scores["scores"]["T_g"],
            **last_losses(run, over=1.0 if stage == "longer" else 0.0),
            **{key: scores["fairness"]["global_f1"][key] for key in ("mean", "std", "worst_decile", "worst")},
            "patients": {row["client"]: row["global_f1"] for row in scores["per_patient"]},
            "patients_truth": {row["client"]: row["global_f1_truth"] for row in scores["per_patient"]},
        }

    return remembered(RUNS, name, make, cohort)


def last_losses(run: ecgfed.Run, over: float) -> dict[str, float]:
    """Largest, mean and standard deviation of the clients' losses of training batches.

    Over the last passes, or of the last round where 0. The deviation is the paper's measure of fairness (section 3.2).
    """
    lines = read_lines(run.path / HISTORY)
    last = [line for line in lines if line["passes"] > lines[-1]["passes"] - over] or lines[-1:]
    spread = np.mean([np.std(line["losses"]["loss"]) for line in last])
    found = {key: float(np.mean([line[key] for line in last])) for key in ("loss_max", "loss_mean")}
    return {**found, "loss_std": float(spread)}


def less_uniform(final: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Each rule's scores less those of uniform weights: mean and 95% interval, paired.

    For the worst tenth and the standard deviation over patients, patients and seeds are drawn with replacement, the
    same for both rules, 2,000 times. T_g and the largest loss are one number a seed: Student's t over the seeds, as
    drawing from five gives too narrow an interval.
    """
    base = final.get(UNIFORM)
    if base is None:
        return {}
    return {rule: _differences(runs, base) for rule, runs in final.items() if rule != UNIFORM}


def _differences(runs: list[dict[str, Any]], base: list[dict[str, Any]]) -> dict[str, Any]:
    def of(statistic: Callable[[NDArray[np.float64]], NDArray[np.float64]], key: str = "patients") -> dict[str, float]:
        ours, theirs = (np.array([list(run[key].values()) for run in one]) for one in (runs, base))

        def less(seeds: NDArray[np.int64], patients: NDArray[np.int64]) -> float:
            drawn = np.ix_(seeds, patients)
            return float(np.mean(statistic(ours[drawn]) - statistic(theirs[drawn])))

        return bootstrap(less, *ours.shape)

    in_truth = all("patients_truth" in run for run in (*runs, *base))  # runs of before 25 November 2026 lack it
    return {
        "worst_decile": of(worst_tenth),
        **({"worst_decile_truth": of(worst_tenth, "patients_truth")} if in_truth else {}),
        "std": of(lambda scores: scores.std(axis=1)),
        **{
            key: t_interval([a[key] - b[key] for a, b in zip(runs, base, strict=True)])
            for key in ("T_g", "loss_max", "loss_std")
            if all(key in run for run in (*runs, *base))  # those of before 26 November 2026 may lack the deviation
        },
    }


def finals(cohort: Cohort, given: argparse.Namespace, rules: Sequence[str], tuned: dict[str, float]) -> dict[str, Any]:
    """Five seeds of the best rules on test beats, and their differences to uniform weights."""
    found = {rule: [measured(cohort, given, "final", rule, tuned[rule], seed) for seed in SEEDS] for rule in rules}
    return {"final": found, "against_uniform": less_uniform(found)}


def longer(cohort: Cohort, given: argparse.Namespace, rules: Sequence[str]) -> dict[str, Any]:
    """The same with 60 passes and one step; nothing where not all of it was asked for."""
    asked, seeds = given.only or rules, SEEDS[: given.first]
    if given.known:  # pairs alone: the seeds that every rule has
        kept = known_runs(RUNS)
        seeds = tuple(
            seed for seed in seeds if all(key_of("longer", rule, LONGER_STEP, seed) in kept for rule in asked)
        )
    found = {rule: [measured(cohort, given, "longer", rule, LONGER_STEP, seed) for seed in seeds] for rule in asked}
    if given.only or given.first or len(seeds) < LEAST_PAIRS:
        return {}
    return {"longer": found, "longer_against_uniform": less_uniform(found)}


def main(given: argparse.Namespace) -> None:
    stages = tuple(PASSES)[: list(PASSES).index(given.stage) + 1]
    cohort = prepared(given.source, given.work, by="record")
    tuned = {
        rule: max(STEPS, key=lambda step: measured(cohort, given, "tune", rule, step, 0)["worst_decile"])
        for rule in RULES
    }
    results: dict[str, Any] = {"server_lr": tuned}
    if "factorial" in stages:
        factorial = {rule: measured(cohort, given, "factorial", rule, tuned[rule], 0) for rule in RULES}
        results["factorial"] = factorial
        order = sorted(RULES, key=lambda rule: (rule != UNIFORM, -factorial[rule]["worst_decile"]))
        best = order[:FINALISTS]  # uniform weights among them: what the others are compared with
        if "final" in stages:
            results |= finals(cohort, given, best, tuned)
        if "longer" in stages:
            results |= longer(cohort, given, best)
        print_table(
            ("rule", "server step", "T_g", "worst tenth", "sd over patients", "largest loss"),
            [
                (rule, tuned[rule], *(f"{row[key]:.3f}" for key in ("T_g", "worst_decile", "std", "loss_max")))
                for rule, row in factorial.items()
            ],
        )
    if not given.only and not given.first:
        save(given, results)


if __name__ == "__main__":
    benchmark(
        main,
        option("--stage", choices=tuple(PASSES), default="longer", help="the last stage to run"),
        option("--only", nargs="+", choices=list(RULES), metavar="RULE"),
        option("--first", type=int, metavar="N", help="of each rule no more than N seeds"),
        option(
            "--known", action="store_true", help="of the last stage train nothing, write the seeds that all rules have"
        ),
        option("--workers", type=int, default=1),
    )
