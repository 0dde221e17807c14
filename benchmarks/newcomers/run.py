"""Patients who took no part: what each method makes of their first minutes or of twenty labels, on MIT-BIH.

    python benchmarks/newcomers/run.py --source MITDB --work DIR [--only METHOD ...] [--seeds 0 ...] [--folds 0 ...]

All 46 records with lead MLII, twelve classes, in four folds of patients; a fold's patients are held out of a training
on the others. Of each, every label of the first five minutes is known, or twenty of the whole record, which ``ecgfed
label`` asks for and a simulated person answers; FedAvg's global model looks at the beats for it, so that all methods
get the same twenty. Scored are the beats that nobody learned from, for all answers the same ones:

- the method's global model; its own way with a newcomer; its model from the class mix alone, where it has one; and
  seven tenths of the way from its global model to one trained on (``partway``);
- without any method: the net from scratch, a support vector machine, and the groups of the twenty beats.

Each finished method, fold and seed is written into ``runs.json`` beside this file at once, and is not run again; DIR
may be deleted between two sessions. ``--results`` gets what is known so far; ``benchmarks/pages.py`` puts it into the
README. Runs with other ``--passes`` than 10 count by themselves.
"""

import argparse
import sys
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "clinical"))
from answers import of_method, of_nobody
from common import SAME_SERVER, UNSEEN, benchmark, option, prepared, print_table, remembered, save, trained
from patients import Lesson, Questions, class_counts, folds_of, lessons, questions
from summary import KINDS, NOBODY, finished, summary

import ecgfed
from ecgfed.base.errors import OptionError, RunError
from ecgfed.base.files import read_json, write_json
from ecgfed.core.methods.server_sgd import PLAIN_MEAN
from ecgfed.domain.beats.labels import BUILT_IN
from ecgfed.domain.beats.path import BeatOptions, read_beats
from ecgfed.domain.cohort.mitbih import SAME_PATIENT, record_names

#: method -> its settings, and the passes over five minutes that the runs of ten patients chose (``ten_patients.json``).
METHODS: dict[str, tuple[dict[str, float | str], int]] = {
    "fedavg": ({**SAME_SERVER}, 10),
    "grp-fed": ({}, 30),
    "fed-rod-hyper": ({"lr": 0.02, **PLAIN_MEAN}, 10),
    "ditto": ({**SAME_SERVER, "personal_lr": 0.02}, 10),
    "per-fedavg": ({**SAME_SERVER, "alpha": 0.01}, 1),
    "local": ({"lr": 0.02}, 30),
    "pfedme": ({"lr": 5e-3, "lam": 15.0, "inner_steps": 5}, 30),
}
ASKING = "fedavg"
#: Gradients a beat, where a method takes more than one: it reads fewer beats, for the same work (table1's ``work``).
WORK = {"pfedme": 5}
CLASSES, FOLDS, SEEDS, PASSES = "mitbih12", 4, (0, 1, 2), 10.0
RUNS = Path(__file__).with_name("runs.json")
#: They have no MLII.
WITHOUT = ("102", "104")


class Fold:
    """One fold and seed: its patients, and the runs on the others.

    Args:
        given: options.
        number: of the fold, from 0 on.
        seed: of the trainings.
        records: the fold's.
    """

    def __init__(self, given: argparse.Namespace, number: int, seed: int, records: list[str]) -> None:
        self.given, self.number, self.seed, self.records = given, number, seed, records
        self.work = given.work / f"fold-{number}"

    def key(self, name: str) -> str:
        return f"{name}/fold {self.number}/seed {self.seed}/{self.given.passes:g} passes"

    @cached_property
    def cohort(self) -> ecgfed.Cohort:
        return prepared(self.given.source, self.work, by="record", classes=CLASSES, holdout=self.records)

    def run(self, method: str) -> ecgfed.Run:
        settings, _ = METHODS[method]
        plan = {
            **UNSEEN,
            "passes": self.given.passes / WORK.get(method, 1),
            "seed": self.seed,
            "workers": self.given.workers,
        }
        folder = self.work / f"{method}-{self.seed}-{self.given.passes:g}"
        return trained(self.cohort, folder, method=method, settings=settings, **plan)

    @cached_property
    def asked(self) -> dict[str, Questions]:
        """The twenty labels of each record; made again from FedAvg's run where DIR does not hold them."""
        file = self.work / f"asked-{self.seed}-{self.given.passes:g}.json"
        if not file.is_file():
            bundle = ecgfed.export(
                self.run(ASKING), self.work / f"asking-{self.seed}", global_only=True, overwrite=True
            )
            made = {name: questions(self.given.source, name, bundle) for name in self.records}
            lists = {name: {"asked": one.asked.tolist(), "told": one.told.tolist()} for name, one in made.items()}
            write_json(file, lists)
        found = read_json(file, RunError)
        return {name: Questions(np.array(one["asked"]), np.array(one["told"])) for name, one in found.items()}

    @cached_property
    def lessons(self) -> dict[str, dict[str, Lesson]]:
        found = {}
        for name in self.records:
            options = BeatOptions(self.cohort.leads, "annotated", rr_version=self.cohort.rr_version)
            beats = read_beats(self.given.source / name, options)
            found[name] = lessons(beats, self.cohort.labels, self.asked[name], rr=bool(UNSEEN["rr"]))
        return found

    def nobody(self) -> dict[str, Any]:
        """Score what needs no method; say which beats were asked for."""
        run = self.run(ASKING)
        made = {name: of_nobody(run, self.cohort, known) for name, known in self.lessons.items()}
        about = {
            "asked": [self.asked[name].asked.tolist() for name in self.records],
            "learned": _by(lambda lesson: len(lesson.learn), self.lessons),
            "scored": _by(lambda lesson: len(lesson.first.rest), self.lessons),
        }
        return {"patients": {"records": self.records, **about, **_columns(made)}}

    def method(self, name: str, asked: list[list[int]]) -> dict[str, Any]:
        """Score a method.

        Raises:
            RunError: the twenty labels are others than those that the others were given.
        """
        if [self.asked[one].asked.tolist() for one in self.records] != asked:
            again = f"take what names fold {self.number} and seed {self.seed} out of it"
            raise RunError(
                self.given.runs, "was made with other labels", "those that FedAvg's model asks for here", again
            )
        run = self.run(name)
        state = run.state()
        kept = (run.client_state(state, client.index) for client in self.cohort.federation)
        everyone = run.method.global_model(state.server, kept, "ensemble")
        epochs = METHODS[name][1]
        made = {one: of_method(run, self.cohort, state, epochs, everyone, known) for one, known in self.lessons.items()}
        return {"rounds": state.round, "patients": {"records": self.records, **_columns(made)}}


def _by(number: Callable[[Lesson], int], lessons_of: dict[str, dict[str, Lesson]]) -> dict[str, list[int]]:
    names = next(iter(lessons_of.values()))
    return {name: [number(known[name]) for known in lessons_of.values()] for name in names}


def _columns(made: dict[str, dict[str, dict[str, tuple[float, float]]]]) -> dict[str, Any]:
    """Turn record -> lesson -> answer -> score into lesson -> answer -> kind of score -> list over the records."""
    first = next(iter(made.values()))
    return {
        lesson: {
            answer: {kind: [one[lesson][answer][at] for one in made.values()] for at, kind in enumerate(KINDS)}
            for answer in first[lesson]
        }
        for lesson in first
    }


def folds(source: Path) -> list[list[str]]:
    """Deal the 46 records."""
    names = [name for name in record_names() if name not in WITHOUT]
    return folds_of(class_counts(source, names, BUILT_IN[CLASSES]), SAME_PATIENT, FOLDS)


def parts(given: argparse.Namespace, dealt: list[list[str]]) -> None:
    """Run what is asked for and not known yet."""
    for seed in given.seeds:
        for number in given.folds:
            fold = Fold(given, number, seed, dealt[number])
            known = remembered(given.runs, fold.key(NOBODY), fold.nobody, fold.cohort)
            for name in given.only:
                remembered(
                    given.runs,
                    fold.key(name),
                    lambda fold=fold, name=name, known=known: fold.method(name, known["patients"]["asked"]),
                    fold.cohort,
                )


def main(given: argparse.Namespace) -> None:
    if given.passes != PASSES and given.results == Path(__file__).with_name("results.json"):
        found = f"{PASSES:g} for the results beside the script"
        raise OptionError("--passes", f"{given.passes:g}", found, "name other ones with --results and --runs")
    if given.runs.is_file():
        finished(read_json(given.runs, RunError), given.passes)  # refuses those of another benchmark
    parts(given, folds(given.source))
    found = summary(read_json(given.runs, RunError), given.passes)
    for lesson, rows in found["lessons"].items():
        print(f"\n{lesson}", flush=True)
        print_table(
            ("method", "answer", "macro-F1", "classes in truth", "worst tenth"),
            [
                (
                    row["method"],
                    row["answer"],
                    *(f"{row[kind]['mean']:.3f}" for kind in KINDS),
                    f"{row[KINDS[0]]['worst_tenth']:.3f}",
                )
                for row in rows
            ],
        )
    given.only = given.seeds = given.folds = None  # the results are of all that is known, whichever part ran last
    save(given, {"settings": {name: settings for name, (settings, _) in METHODS.items()}, **found})


if __name__ == "__main__":
    benchmark(
        main,
        option(
            "--passes",
            type=float,
            default=PASSES,
            help="over the training beats; of pfedme, whose step takes five gradients, a fifth",
        ),
        option("--only", nargs="+", choices=tuple(METHODS), default=list(METHODS), metavar="METHOD"),
        option("--seeds", nargs="+", type=int, default=list(SEEDS)),
        option("--folds", nargs="+", type=int, choices=range(FOLDS), default=list(range(FOLDS))),
        option("--workers", type=int, default=None, help="threads; default one a core"),
        option("--runs", type=Path, default=RUNS, help="finished runs, read and added to"),
    )
