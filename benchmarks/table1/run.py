"""Table 1 of GRP-FED on the 46 MIT-BIH clients: eight methods, ours and simple personal answers, tuned alike.

    python benchmarks/table1/run.py --source MITDB --work DIR [--stage tune] [--only METHOD ...] [--workers 1]
        [--split chronological | --split-seed K]

By record, 12 classes, windows without RR intervals as in the paper, the recipe's local work (4 steps of 16 beats).
Stages:

- ``tune``: 5 passes, seed 0, three trials of each method; the one with the best T_l on *validation* beats is its own;
- ``passes``: 12 passes of the training beats, three seeds (five for Local, FedAvg and GRP-FED), test beats;
- ``work``: as many gradients as FedAvg's 12 passes take: a method that needs more of them for a beat reads fewer beats;
- ``beta``: GRP-FED by beta, 12 passes, three seeds (the paper's figure 4);
- ``printed``: GRP-FED with the paper's q0 = 10 and R = 5 local epochs of batches of 64, its losses bounded, and FedAvg
  with the same local work, 60 passes, three seeds;
- ``sixty``: the same as ``passes`` with 60 of them, five times the steps, as many seeds: what does it change?
- ``sixty-work``: the same as ``work``, as many gradients as FedAvg's 60 passes take.

The simple personal answers are made from FedAvg's models of three seeds. Every finished run is written into
``runs.json`` beside this file at once, with what ``figures.py`` draws; what is there is not run again, and a stage goes
on where it was stopped. ``--known`` trains nothing: it writes the results of what is finished, and which rows are not.
``--only`` trains some methods, so that several processes share the work, ``--first`` the first seeds of each; neither
writes results. With another split of the beats all of it, the tuning too, is of that split; its runs' keys begin with
it, and its results are in a file of their own.
"""

import argparse
import math
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import (
    SPLIT_OPTIONS,
    benchmark,
    check_cohort,
    known_runs,
    of_split,
    of_spread,
    option,
    prepared,
    print_table,
    remembered,
    save,
    scored,
    spread_of,
    trained,
)
from methods import PERSONAL, PRINTED, ROWS, Settings

import ecgfed
from ecgfed.base.errors import DivergedError, RunError
from ecgfed.core.runs.history import HISTORY, read_lines
from ecgfed.domain.cohort.cohort import Cohort

STAGES = ("tune", "passes", "work", "beta", "printed", "sixty", "sixty-work")
TITLES = {
    "passes": "equal passes",
    "work": "equal work",
    "beta": "by beta",
    "printed": "as printed",
    "sixty": "60 passes",
    "sixty-work": "the work of 60 passes",
}
PASSES = {"tune": 5.0, "passes": 12.0, "work": 12.0, "beta": 12.0, "printed": 60.0, "sixty": 60.0, "sixty-work": 60.0}
#: In these all methods take as many gradients.
EQUAL_WORK = ("work", "sixty-work")
#: In these the simple personal answers stand beside the methods.
WITH_PERSONAL = ("passes", "sixty")
#: Stages whose first seeds keep what the figures show.
WITH_DRAWN = ("passes", "sixty")
#: No more points of a curve than these.
POINTS = 320
#: All of one machine: another one's bits move T_g by up to .02, beta moves it not at all.
BETAS = (0.1, 0.3, 0.5, 0.7, 0.9)
MORE_SEEDS = ("Local", "FedAvg", "GRP-FED")
#: Of so many seeds of FedAvg the simple personal answers are made.
PERSONAL_SEEDS = 3
#: A row of one seed is better than none where a run takes a quarter of an hour.
LEAST_SEEDS = {"sixty": 1, "sixty-work": 1}
SCORES = ("T_g", "T_p", "T_r", "T_l")
RUNS = Path(__file__).with_name("runs.json")


def known_or_made(
    cohort: Cohort, given: argparse.Namespace, key: str, make: Callable[[], dict[str, Any]]
) -> dict[str, Any] | None:
    """Return a run as ``remembered`` does, with ``stopped`` where its numbers were no longer finite.

    None where it is not known, and nothing is to be trained.
    """

    def made() -> dict[str, Any]:
        try:
            return make()
        except DivergedError as problem:
            return {"stopped": str(problem)}

    if not given.known:
        return remembered(RUNS, key, made, cohort)
    found = known_runs(RUNS).get(key)
    if found:
        check_cohort(RUNS, key, found, cohort)
    return found


def measured(
    cohort: Cohort, given: argparse.Namespace, stage: str, name: str, settings: Settings, seed: int
) -> dict[str, Any] | None:
    """Train and score one run, or read what is known of it (see ``known_or_made``)."""
    trial = f"{settings['beta']:g}" if stage == "beta" else ROWS[name].trials.index(settings)
    key = f"{given.prefix}{stage}/{name}/{trial}/{seed}"

    def make() -> dict[str, Any]:
        run = trained_run(cohort, given.work / key.replace("/", "_"), stage, name, settings, seed)
        return {"passes": passes_of(stage, name), "settings": settings, **scores_of(run, stage, name, given)}

    found = known_or_made(cohort, given, key, make)
    if found and found.get("settings", settings) != settings:
        known = f"{key} of {found['settings']}"
        raise RunError(RUNS, f"holds {known}", str(settings), "remove that run from it, so that it is made anew")
    return found


def passes_of(stage: str, name: str) -> float:
    """Passes over the training beats."""
    return PASSES[stage] / (ROWS[name].work if stage in EQUAL_WORK else 1)


def trained_run(cohort: Cohort, folder: Path, stage: str, name: str, settings: Settings, seed: int) -> ecgfed.Run:
    """Train one run of a stage, or open it where ``folder`` has it."""
    row = ROWS[name]
    return trained(
        cohort,
        folder,
        method=row.method,
        settings={**row.settings, **settings},
        seed=seed,
        rr=False,
        passes=passes_of(stage, name),
        eval_every=0,
        engine="batched",
        slots=23,
    )


def scores_of(run: ecgfed.Run, stage: str, name: str, given: argparse.Namespace) -> dict[str, Any]:
    """A run's scores: on validation beats while tuning, on test beats else; FedAvg's personal answers with it."""
    split = "valid" if stage == "tune" else "test"
    plain = scored(run, split, local_models=False, workers=given.workers)
    found = summary(plain)
    if stage in WITH_DRAWN and run.plan.seed == 0:
        found["drawn"] = drawn(run, plain)
    if name == "FedAvg" and stage in WITH_PERSONAL and run.plan.seed < PERSONAL_SEEDS:
        found["personal"] = {}
        for personal in PERSONAL:
            answer = ecgfed.evaluate(run, split=split, personal=personal, local_models=False, workers=given.workers)
            found["personal"][personal] = summary(answer.to_dict())
    return found


def summary(scores: dict[str, Any]) -> dict[str, Any]:
    """What is kept of an evaluation."""
    return {
        "scores": {key: scores["scores"][key] for key in SCORES},
        "scores_truth": {key: scores["scores_truth"][key] for key in SCORES},
        "personal_f1": {key: scores["fairness"]["personal_f1"][key] for key in ("std", "worst_decile", "worst")},
        "patients": {row["client"]: row["personal_f1"] for row in scores["per_patient"]},
    }


def drawn(run: ecgfed.Run, scores: dict[str, Any]) -> dict[str, Any]:
    """What the figures show of a run: each patient's scores, and the losses over the rounds."""
    of_patient = {"T_g": "global_f1", "T_r": "generalisation_f1"}
    rows = {row["client"]: row for row in scores["per_patient"]}
    return {
        "by_patient": {
            key: {client: _short(row[column]) for client, row in rows.items()} for key, column in of_patient.items()
        },
        "several": [name for name, row in rows.items() if row["classes"] > 1],
        "losses": _losses(read_lines(run.path / HISTORY)),
    }


def _losses(lines: Sequence[dict[str, Any]]) -> list[list[float | None]]:
    """Passes, mean and largest loss over the rounds: means of some rounds each where there are many."""
    each = math.ceil(len(lines) / POINTS)
    blocks = [lines[at : at + each] for at in range(0, len(lines), each)]
    return [
        [_short(statistics.fmean(line[key] for line in block)) for key in ("passes", "loss_mean", "loss_max")]
        for block in blocks
    ]


def _short(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.5g}")


def tuned(cohort: Cohort, given: argparse.Namespace, name: str) -> Settings | None:
    """The trial with the best T_l on validation beats; None where not all of them are finished."""
    trials = ROWS[name].trials
    runs = [run for one in trials if (run := measured(cohort, given, "tune", name, one, 0))]
    found = [-1.0 if "stopped" in run else run["scores"]["T_l"] for run in runs]
    return trials[found.index(max(found))] if len(found) == len(trials) else None


def final(cohort: Cohort, given: argparse.Namespace, stage: str) -> Iterator[dict[str, Any]]:
    """Rows of the table: one for each method, and beside FedAvg's one for each simple personal answer."""
    for name, row in ROWS.items():
        if name not in given.only or (stage in EQUAL_WORK and row.work == 1):
            continue
        settings = tuned(cohort, given, name)
        if settings is None:
            continue
        seeds = range(5 if stage in WITH_PERSONAL and name in MORE_SEEDS else 3)
        found = [measured(cohort, given, stage, name, settings, seed) for seed in seeds[: given.first]]
        runs = [run for run in found if run and "stopped" not in run]
        if len(runs) < LEAST_SEEDS.get(stage, 2):
            continue
        trial = row.trials.index(settings)
        about = {
            "name": name,
            "trial": trial,
            "settings": settings,
            "paper": row.paper,
            "of": len(seeds),
            "work": row.work,
        }
        yield {**about, **spread(runs), **last_losses(runs[0])}
        if stage in WITH_PERSONAL and name == "FedAvg":
            for personal in PERSONAL:
                answers = [run["personal"][personal] for run in runs if "personal" in run]
                about = {"name": f"FedAvg, {personal}", "settings": settings, "paper": None, "of": PERSONAL_SEEDS}
                if len(answers) >= LEAST_SEEDS.get(stage, 2):
                    yield {**about, **spread(answers)}


def last_losses(run: dict[str, Any]) -> dict[str, Any]:
    """Mean and largest client's training loss over the last pass, where they are kept for the figures."""
    if "drawn" not in run:
        return {}
    lines = run["drawn"]["losses"]
    last = [line for line in lines if line[0] > lines[-1][0] - 1]
    mean, largest = (statistics.fmean(line[column] for line in last) for column in (1, 2))
    return {"last_losses": {"mean": mean, "largest": largest}}


def by_beta(cohort: Cohort, given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Rows of the paper's figure 4."""
    tuned_settings = tuned(cohort, given, "GRP-FED")
    if tuned_settings is None:
        return
    for beta in BETAS:
        settings = {**tuned_settings, "beta": beta}
        found = [measured(cohort, given, "beta", "GRP-FED", settings, seed) for seed in range(3)]
        runs = [run for run in found if run and "stopped" not in run]
        if len(runs) > 1:
            yield {"name": f"beta {beta:g}", "beta": beta, "of": 3, **spread(runs)}


def as_printed(cohort: Cohort, given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Rows of what the paper prints; a run that stops by itself, its numbers no longer finite, says so."""
    plan = {"passes": PASSES["printed"], "local_epochs": 5, "batch_size": 64, "eval_every": 0, "rr": False}

    def make(name: str, seed: int) -> dict[str, Any]:
        method, settings = PRINTED[name]
        folder = given.work / f"printed_{method}_{seed}"
        run = trained(cohort, folder, method=method, settings=settings, seed=seed, **plan)
        return {"rounds": run.plan.rounds, **summary(scored(run, local_models=False, workers=given.workers))}

    for name in PRINTED:
        keys = [f"{given.prefix}printed/{name}/{seed}" for seed in range(3)]
        found = [known_or_made(cohort, given, key, partial(make, name, seed)) for seed, key in enumerate(keys)]
        runs = [run for run in found if run]
        done = [run for run in runs if "stopped" not in run]
        stopped = [run["stopped"] for run in runs if "stopped" in run]
        if runs:
            scores = spread(done) if len(done) > 1 else {}
            yield {**scores, "name": name, "of": len(keys), "seeds": len(done), "stopped": stopped}


def spread(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Mean and standard deviation over seeds of every score (``spread_of``)."""
    return {
        "seeds": len(runs),
        "scores": {key: spread_of([run["scores"][key] for run in runs]) for key in SCORES},
        "scores_truth": {key: spread_of([run["scores_truth"][key] for run in runs]) for key in SCORES},
        "worst_decile": spread_of([run["personal_f1"]["worst_decile"] for run in runs]),
    }


def unfinished(results: dict[str, Any]) -> Iterator[str]:
    """Say of each stage what is not there with all of its seeds."""
    costly = [name for name, row in ROWS.items() if row.work > 1]
    asked = {
        "passes": list(ROWS),
        "work": costly,
        "beta": [f"beta {beta:g}" for beta in BETAS],
        "printed": list(PRINTED),
        "sixty": list(ROWS),
        "sixty-work": costly,
    }
    for stage, names in asked.items():
        there = {row["name"] for row in results.get(stage, []) if row.get("of") == row["seeds"]}
        left = [name for name in names if name not in there]
        if left:
            yield f"{TITLES[stage]}: {'; '.join(left)}"


def main(given: argparse.Namespace) -> None:
    given = of_split(given)
    cohort = prepared(given.source, given.work, by="record", **given.prepare)
    results: dict[str, Any] = {"trials": {name: tuned(cohort, given, name) for name in given.only}}
    for stage in STAGES[1 : STAGES.index(given.stage) + 1]:
        if stage in ("beta", "printed"):
            if "GRP-FED" not in given.only:
                continue
            results[stage] = list((by_beta if stage == "beta" else as_printed)(cohort, given))
            continue
        results[stage] = list(final(cohort, given, stage))
        print_table(
            ("method", "seeds", *SCORES, "worst tenth"),
            [
                (
                    row["name"],
                    row["seeds"],
                    *(of_spread(row["scores"][key]) for key in SCORES),
                    f"{row['worst_decile']['mean']:.3f}",
                )
                for row in results[stage]
            ],
        )
    if given.only != list(ROWS) or given.first:
        return
    given.only = None  # no word of the command
    save(given, {**results, "unfinished": list(unfinished(results))})


if __name__ == "__main__":
    benchmark(
        main,
        option("--stage", choices=STAGES, default=STAGES[-1], help="the last stage to run"),
        option("--only", nargs="+", choices=list(ROWS), default=list(ROWS), metavar="METHOD"),
        option("--first", type=int, metavar="N", help="of each method no more than N seeds"),
        option("--workers", type=int, default=1),
        option("--known", action="store_true", help="train nothing, write the results of finished runs"),
        *SPLIT_OPTIONS,
    )
