"""Fits the expected number of wrong labels (``ecgfed/domain/labels/label_errors.json``) to DS1, and reads DS2.

    python benchmarks/clinical/errors.py --source MITDB --work DIR

A simulated person answers 5 to 40 questions of each record; 0, 5 or 15% of the answers to doubtful beats are wrong
(``person.py``; one seed where all are right, else three). The labels are propagated, and a logistic regression
(scikit-learn, C = 1, each record with the same weight) learns which share of each smallest group has a label of another
kind than the reference. A record of DS1 is read by a model of four fifths of DS1 that has not seen it, one of DS2 by a
model of DS1. The correlation of the beta-binomial is the smallest of ``CORRELATIONS`` from which on at least
``COVERED`` of the 90% intervals hold the true number, at each rate of errors and each number of answers, of DS1 records
that the regression has not seen. DS2 decides nothing. What was simulated is kept in ``DIR/errors``.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import DS1, DS2, ROOT, benchmark, option, print_table, save
from models import Model, fold_of, model
from person import CANNOT_TELL, as_answered, grouped, labelled, truth

from ecgfed.base.files import write_json
from ecgfed.domain.labels.label_errors import ERROR_FEATURES, ErrorModel, leaf_labels
from ecgfed.domain.labels.spread import spread
from ecgfed.tasks.grouped import GroupedBeats

#: Share of wrong answers to doubtful beats -> seeds.
RATES: dict[float, tuple[int, ...]] = {0.0: (0,), 0.05: (0, 1, 2), 0.15: (0, 1, 2)}
COUNTS = (5, 10, 20, 40)
COVERED = 0.9
CORRELATIONS = tuple(np.geomspace(0.001, 0.5, 40).round(4).tolist())
PACKAGED = ROOT / "ecgfed" / "domain" / "labels" / "label_errors.json"


@dataclass(frozen=True, eq=False)
class Simulated:
    """One simulated person's labels of a record.

    Attributes:
        count: how many answers.
        rate: share of wrong ones to doubtful beats.
        seed: of the errors.
        unanswered: (groups,) beats of each smallest group without an answer of their own.
        wrong: (groups,) of these, how many have a wrong label.
        features: (groups, features) float32.
        labelled: beats that have a label.
        wrong_in_all: beats with a wrong label, wrong answers among them.
    """

    count: int
    rate: float
    seed: int
    unanswered: NDArray[np.int64]
    wrong: NDArray[np.int64]
    features: NDArray[np.float32]
    labelled: int
    wrong_in_all: int


def simulated(found: GroupedBeats, symbol: NDArray[np.str_]) -> Iterator[Simulated]:
    """Yield the labels of every simulated person of a record."""
    for rate, seeds in RATES.items():
        for seed in seeds:
            answers = as_answered(found, symbol, rate, seed)
            for count, label in labelled(found, answers, COUNTS, "ours"):
                if set(label.values()) - {CANNOT_TELL}:
                    yield of_answers(found, symbol, label, (count, rate, seed))


def of_answers(
    found: GroupedBeats, symbol: NDArray[np.str_], label: dict[int, str], about: tuple[int, float, int]
) -> Simulated:
    """Propagate the answers of one person; ``about`` is count, rate and seed."""
    kind_of = found.bundle.labels.symbols
    names = spread(found.groups, label)[0]
    kind, true_kind = (np.array([kind_of.get(one, one) for one in some.tolist()]) for some in (names, symbol))
    bad = (kind != true_kind) & (names != CANNOT_TELL)
    leaves = leaf_labels(found.groups, label)
    own = np.zeros(len(names), np.bool_)
    own[list(label)] = True
    wrong = np.bincount(found.groups.leaf[bad & ~own], minlength=len(found.groups))[leaves.leaf]
    features = leaves.features.astype(np.float32)
    return Simulated(*about, leaves.unanswered, wrong, features, leaves.labelled, int(bad.sum()))


def save_runs(file: Path, runs: Sequence[Simulated]) -> None:
    """Keep the simulated labels of a record."""
    file.parent.mkdir(parents=True, exist_ok=True)
    about = np.array([(one.count, one.rate, one.seed, one.labelled, one.wrong_in_all) for one in runs])
    arrays = {
        name: np.concatenate([getattr(one, name) for one in runs]) for name in ("unanswered", "wrong", "features")
    }
    np.savez_compressed(file, about=about, groups=np.array([len(one.wrong) for one in runs]), **arrays)


def load_runs(file: Path) -> list[Simulated]:
    """Read the simulated labels of a record."""
    with np.load(file, allow_pickle=False) as stored:
        ends = np.cumsum(stored["groups"])[:-1]
        parts = [np.split(stored[name], ends) for name in ("unanswered", "wrong", "features")]
        return [
            Simulated(int(count), float(rate), int(seed), *arrays, int(beats), int(wrong))
            for (count, rate, seed, beats, wrong), *arrays in zip(stored["about"].tolist(), *parts, strict=True)
        ]


def fitted(records: Sequence[Sequence[Simulated]]) -> ErrorModel:
    """Fit the regression to some records, each with the same weight; the correlation is left open."""
    rows, label, weight = [], [], []
    for runs in records:
        beats = sum(int(run.unanswered.sum()) for run in runs)
        for run in runs:
            rows += [run.features, run.features]
            label += [np.ones(len(run.wrong)), np.zeros(len(run.wrong))]
            weight += [run.wrong / beats, (run.unanswered - run.wrong) / beats]
    features, is_wrong, share = (np.concatenate(some).astype(np.float64) for some in (rows, label, weight))
    features, is_wrong, share = features[share > 0], is_wrong[share > 0], share[share > 0]
    mean, deviation = features.mean(0), np.maximum(features.std(0), 1e-6)
    regression = LogisticRegression(C=1.0, max_iter=3000)
    regression.fit((features - mean) / deviation, is_wrong, share * len(share) / share.sum())
    slope = regression.coef_[0] / deviation
    return ErrorModel(slope.round(6), round(float(regression.intercept_[0] - slope @ mean), 6), 0.5)


def expected(run: Simulated, errors: ErrorModel) -> float:
    """Return how many beats of a simulated person's labels are expected to be wrong."""
    return float(run.unanswered @ errors.share(run.features.astype(np.float64)))


#: Of each simulated person: record, count, rate, beats, how many are expected to be wrong, how many are.
Row = tuple[str, int, float, int, float, int]


def rows_of(record: str, runs: Sequence[Simulated], errors: ErrorModel) -> list[Row]:
    """Return what is expected of each simulated person's labels, and what is so."""
    return [(record, run.count, run.rate, run.labelled, expected(run, errors), run.wrong_in_all) for run in runs]


def covered(rows: Sequence[Row], errors: ErrorModel) -> NDArray[np.bool_]:
    """Return of each simulated person whether the interval holds the true number, (rows,) bool."""
    ends = [errors.interval(row[4], row[3]) for row in rows]
    return np.array([low <= row[5] <= high for (low, high), row in zip(ends, rows, strict=True)])


def worst(rows: Sequence[Row], errors: ErrorModel) -> float:
    """Return the smallest share of intervals that hold the true number, over rates and numbers of answers."""
    holds = covered(rows, errors)
    rates, counts = np.array([row[2] for row in rows]), np.array([row[1] for row in rows])
    shares = [holds[rates == rate].mean() for rate in RATES] + [holds[counts == count].mean() for count in COUNTS]
    return float(min(shares))


def chosen_correlation(rows: Sequence[Row], errors: ErrorModel) -> float:
    """Return the smallest correlation at which the intervals hold the true number often enough."""
    for correlation in CORRELATIONS:
        if worst(rows, replace(errors, correlation=correlation)) >= COVERED:
            return float(correlation)
    raise SystemExit("no correlation covers enough")


def summary(rows: Sequence[Row], errors: ErrorModel) -> dict[str, Any]:
    """Return coverage, expected and true numbers by rate and number of answers, and records whose interval misses."""
    holds = covered(rows, errors)
    ends = np.array([errors.interval(row[4], row[3]) for row in rows])

    def part(chosen: NDArray[np.bool_]) -> dict[str, float | int]:
        some = [row for row, is_in in zip(rows, chosen.tolist(), strict=True) if is_in]
        above = np.array([row[5] > high for row, (_, high) in zip(some, ends[chosen].tolist(), strict=True)])
        return {
            "persons": len(some),
            "covered": round(float(holds[chosen].mean()), 3),
            "above": round(float(above.mean()), 3),
            "expected": round(float(np.mean([row[4] for row in some])), 1),
            "wrong": round(float(np.mean([row[5] for row in some])), 1),
            "median_low": float(np.median(ends[chosen, 0])),
            "median_high": float(np.median(ends[chosen, 1])),
        }

    count, rate = np.array([row[1] for row in rows]), np.array([row[2] for row in rows])
    missed = {row[0]: 0 for row, is_in in zip(rows, holds.tolist(), strict=True) if not is_in}
    for row, is_in in zip(rows, holds.tolist(), strict=True):
        missed |= {row[0]: missed[row[0]] + 1} if not is_in else {}
    return {
        "all": part(np.ones(len(rows), np.bool_)),
        "by_rate": {str(one): part(rate == one) for one in RATES},
        "by_answers": {str(one): part(count == one) for one in COUNTS},
        "missed": missed,
    }


def runs_of(given: argparse.Namespace, record: str, reader: Callable[[str], Model]) -> list[Simulated]:
    """Return the simulated labels of a record, made now unless they are kept."""
    file = given.work / "errors" / f"{record}.npz"
    if not file.is_file():
        found = grouped(given.source, record, reader(fold_of(record) if record in DS1 else "ds1").bundle, "detected")
        save_runs(file, list(simulated(found, truth(given.source, record, found))))
    return load_runs(file)


def main(given: argparse.Namespace) -> None:
    reader = cache(lambda name: model(given, name))
    ds1 = {record: runs_of(given, record, reader) for record in DS1}
    left_out: list[Row] = []
    for record, runs in ds1.items():
        left_out += rows_of(record, runs, fitted([some for other, some in ds1.items() if other != record]))
    errors = fitted(list(ds1.values()))
    errors = replace(errors, correlation=chosen_correlation(left_out, errors))
    ds2 = [row for record in DS2 for row in rows_of(record, runs_of(given, record, reader), errors)]
    stored = {
        "weights": dict(zip(ERROR_FEATURES, errors.weight.tolist(), strict=True)),
        "bias": errors.bias,
        "correlation": errors.correlation,
    }
    write_json(PACKAGED, stored)
    results = {"ds1": summary(left_out, errors), "ds2": summary(ds2, errors)}
    for name, part in results.items():
        lines = [(group, *part["by_rate"][group].values()) for group in part["by_rate"]]
        lines += [(f"{group} answers", *part["by_answers"][group].values()) for group in part["by_answers"]]
        print(name, part["all"])
        print_table(("", *part["all"]), lines)
    save(given, {"model": stored, **results})


if __name__ == "__main__":
    benchmark(
        main, option("--workers", type=int, default=None, help="threads; default one a core"), results="errors.json"
    )
