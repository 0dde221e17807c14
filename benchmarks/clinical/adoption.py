"""When a personal model is refused since it lowers a class's sensitivity: the threshold, chosen on DS1.

    python benchmarks/clinical/adoption.py --source MITDB --work DIR

For each record of DS1 with two classes of ten beats or more, 20 answers of a simulated person of which 0 or 15% of the
doubtful ones are wrong; a model of four fifths of DS1 that has not seen the record; labels held back as ``ecgfed
personalize`` does, and the models made of all labels, on all beats. A model is bad where it finds a class of ten beats
or more with a sensitivity more than two points below the global model's. What each record gave is kept in
``DIR/adoption``.
"""

import argparse
import sys
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import DS1, benchmark, option, print_table, save
from models import Model, fold_of, model
from person import as_answered, grouped, labelled, truth

from ecgfed.base.errors import RunError
from ecgfed.base.files import read_json, write_json
from ecgfed.core.personal.partway import Partway
from ecgfed.domain.labels.spread import spread
from ecgfed.exports.bundles.weights import global_model
from ecgfed.tasks import cross_validation
from ecgfed.tasks.cross_validation import (
    PREDICTORS,
    ClassResult,
    CrossValidation,
    Learner,
    cross_validate,
    training_beats,
)

RATES, COUNT, LEAST_BEATS, POINTS = (0.0, 0.15), 20, 10, 0.02
#: 0 refuses nobody.
CHANCES = (0.0, 0.05, 0.13, 0.25, 0.51)
MADE = ("personal", "scratch")


def tried(given: argparse.Namespace, record: str, rate: float, reader: Model) -> dict[str, Any]:
    """Return what labels held back say of a record's models, and confusion matrices of these on all its beats."""
    found = grouped(given.source, record, reader.bundle, "detected")
    symbol = truth(given.source, record, found)
    number = found.bundle.labels.encode(symbol).astype(np.int64)
    if (np.bincount(number[number >= 0]) >= LEAST_BEATS).sum() < 2:
        return {}
    ((_, label),) = labelled(found, as_answered(found, symbol, rate, 0), (COUNT,), "ours")
    classes, beats = len(found.bundle.classes), training_beats(found, label)
    everyone = torch.full((classes,), 1 / classes)
    learner = Learner(global_model(found.bundle), found.groups, found.bundle.labels, beats, Partway(), everyone, 0)
    checked, own, rows = (
        cross_validate(learner, label, found.predictions.label),
        learner.patient_beats(label),
        beats.row,
    )
    assert checked is not None
    assert own is not None
    answers = {
        "groups": found.bundle.labels.encode(spread(found.groups, label)[0][rows]),
        "global": found.predictions.label[rows],
        "personal": learner.predict(learner.personal(own), rows),
        "scratch": learner.predict(learner.from_scratch(own), rows),
    }
    confusion = {name: matrix(number[rows], answer, classes).tolist() for name, answer in answers.items()}
    stored = asdict(checked)
    stored["parts"] = stored.pop("folds")
    return {"held_back": stored, "confusion": confusion}


def matrix(true: NDArray[np.integer], answer: NDArray[np.integer], classes: int) -> NDArray[np.int64]:
    """Return a confusion matrix, true classes in rows, of beats that have both."""
    found = np.zeros((classes, classes), np.int64)
    both = (true >= 0) & (answer >= 0)
    np.add.at(found, (true[both], answer[both]), 1)
    return found


def is_bad(confusion: dict[str, Any], name: str) -> bool:
    """Say whether a model finds fewer of a class's beats than the global one."""
    of, everyone = np.array(confusion[name]), np.array(confusion["global"])
    beats = everyone.sum(1)
    lost = (everyone.diagonal() - of.diagonal()) / np.maximum(beats, 1)
    return bool(((lost > POINTS) & (beats >= LEAST_BEATS)).any())


def as_checked(stored: dict[str, Any]) -> CrossValidation:
    """Return what was kept of labels held back."""
    by_class = {name: ClassResult(**check) for name, check in stored["by_class"].items()}
    return CrossValidation(
        stored["labels"], stored["parts"], {name: stored["right"][name] for name in PREDICTORS}, by_class
    )


def at_chance(runs: list[dict[str, Any]], chance: float) -> dict[str, float | int]:
    """Return what is refused and exported where a class counts as lowered up to this probability."""
    cross_validation.MAX_CHANCE = chance
    result = dict.fromkeys(
        ("bad", "bad_refused", "good", "good_refused", "exported_bad", "personal", "global", "scratch"), 0
    )
    right = []
    for run in runs:
        checked, confusion = as_checked(run["held_back"]), run["confusion"]
        for name in MADE:
            kind = "bad" if is_bad(confusion, name) else "good"
            result[kind] += 1
            result[f"{kind}_refused"] += bool(checked.lowered(name))
        best = checked.best
        result[best] += 1
        result["exported_bad"] += best != "global" and is_bad(confusion, best)
        kept = np.array(confusion[best])
        right.append(kept.trace() / kept.sum())
    return {**result, "accuracy": round(float(np.mean(right)), 4)}


def main(given: argparse.Namespace) -> None:
    reader = cache(lambda name: model(given, name))
    runs: dict[float, list[dict[str, Any]]] = {rate: [] for rate in RATES}
    for record in DS1:
        for rate in RATES:
            file = given.work / "adoption" / f"{record}-{rate:g}.json"
            if not file.is_file():
                file.parent.mkdir(parents=True, exist_ok=True)
                write_json(file, tried(given, record, rate, reader(fold_of(record))))
            runs[rate] += [one for one in [read_json(file, RunError)] if one]
    results = {
        f"{rate:g}": {"records": len(some), **{f"{chance:g}": at_chance(some, chance) for chance in CHANCES}}
        for rate, some in runs.items()
    }
    for rate, by_chance in results.items():
        rows = [(chance, *one.values()) for chance, one in by_chance.items() if isinstance(one, dict)]
        print(f"{rate} of the doubtful answers wrong")
        print_table(("chance", *by_chance["0"]), rows)
    save(given, {"rates": results})


if __name__ == "__main__":
    benchmark(
        main, option("--workers", type=int, default=None, help="threads; default one a core"), results="adoption.json"
    )
