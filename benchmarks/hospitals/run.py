"""Federated learning between two hospitals, each one client: new patients of each, and a third site nobody trained on.

    python benchmarks/hospitals/run.py --source DATA --work DIR --tune
    python benchmarks/hospitals/run.py --source DATA --work DIR

DATA holds ``mitdb``, ``svdb`` and ``qtdb``. The first command chooses each method's settings on validation patients and
writes ``chosen.json``; the second trains and scores. What ``runs.json`` holds is not trained again.
"""

import sys
from argparse import Namespace
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import benchmark, known_runs, option, remembered, save
from models import ENTRIES, Entry, models_of, trained
from scoring import counts_by_patient, f1
from sites import FOLDS, NORMAL_BEATS, SITES, UNSEEN, Division, beats_of_sites, division, joined_cohort, patients_of
from summary import summary

from ecgfed.base.files import write_json
from ecgfed.domain.cohort.cohort import Cohort

CHOSEN, RUNS = (Path(__file__).with_name(f"{name}.json") for name in ("chosen", "runs"))


def scored(cohort: Cohort, entry: Entry, settings: dict[str, Any], divided: Division, seed: int) -> dict[str, Any]:
    """Train an entry and count the beats of the new patients: site -> model -> patient -> counts."""
    data = beats_of_sites(cohort, divided.training, seed, pooled=entry.pooled)
    method, state = trained(entry, data, settings, seed)
    models = models_of(entry, method, state, data, seed)
    new = {site: patients for site, patients in divided.new.items() if patients}
    return {site: counts_by_patient(cohort, method.net, data, models, patients) for site, patients in new.items()}


def own_f1(counts: dict[str, Any]) -> float:
    """Return the mean of V's and S's F1 over both sites, each by its own model where it has one."""
    scores = []
    for site in SITES:
        total = np.sum(list(counts[site].get(site, counts[site]["global"]).values()), axis=0)
        scores += [float(f1(total, "v")), float(f1(total, "s"))]
    return float(np.mean(scores))


def tune(given: Namespace, cohort: Cohort) -> None:
    """Choose each entry's settings by ``own_f1`` on validation patients of the first fold."""
    divided, file = division(cohort, 0, validation=True), given.work / "tuning.json"
    chosen = {}
    for name, entry in ENTRIES.items():
        tried = []
        for settings in entry.grid:
            result = remembered(
                file,
                f"{name}/{settings}",
                lambda entry=entry, settings=settings: {"own_f1": own_f1(scored(cohort, entry, settings, divided, 0))},
                cohort,
            )
            tried.append({"settings": settings, "own_f1": round(result["own_f1"], 2)})
        chosen[name] = {"chosen": max(tried, key=lambda one: one["own_f1"])["settings"], "tried": tried}
    write_json(CHOSEN, chosen)


def runs_of(given: Namespace, cohort: Cohort) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """Yield entry, seed and counts of every run; those that are there are not made again."""
    chosen = known_runs(CHOSEN)
    for name, entry in ENTRIES.items():
        keys = {(seed, fold): f"{name}/{fold}/{seed}" for seed in range(given.seeds) for fold in range(FOLDS)}
        if given.collect and not known_runs(RUNS).keys() >= set(keys.values()):
            continue
        for (seed, fold), key in keys.items():
            make = partial(run, cohort, entry, chosen[name]["chosen"], fold, seed)
            yield name, seed, remembered(RUNS, key, make, cohort)["patients"]


def run(cohort: Cohort, entry: Entry, settings: dict[str, Any], fold: int, seed: int) -> dict[str, Any]:
    """Train and score one entry; each fold has seeds of its own."""
    return {"patients": scored(cohort, entry, settings, division(cohort, fold), FOLDS * seed + fold)}


def main(given: Namespace) -> None:
    torch.set_num_threads(1)
    cohort = joined_cohort(given.source, given.work)
    if given.tune:
        tune(given, cohort)
        return
    runs = list(runs_of(given, cohort))
    sites = {site: len(patients_of(cohort, site)) for site in (*SITES, UNSEEN)}
    about = {"patients": sites, "normal_beats": NORMAL_BEATS, "folds": FOLDS, "tuning": known_runs(CHOSEN)}
    save(given, {**about, **summary(runs)})


if __name__ == "__main__":
    benchmark(
        main,
        option("--tune", action="store_true", help="choose settings on validation patients"),
        option("--collect", action="store_true", help="train nothing: the rows whose trainings are all in runs.json"),
        option("--seeds", type=int, default=1, help="trainings of each fold, each with a seed of its own"),
        source="folder with mitdb, svdb and qtdb",
    )
