"""Learns the rule that chooses beats (``ecgfed/domain/labels/differ.json``) on DS1, with models that have not seen
them.

    python benchmarks/clinical/learn.py --source MITDB --work DIR

Five models, each of four fifths of DS1 (by record), answer for the others; the beats are those at detected and at
annotated R peaks. A pair is a group and the beat of a group around it that does not hold that beat; what is learned is
how likely their labels differ: logistic regression (scikit-learn, C = 1). ``--results`` gets how well groups and rule
do on each record of DS1 with the rule of the other records.
"""

import argparse
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import DS1, ROOT, benchmark, compared, option, print_table, save
from models import FOLDS, Model, fold_of, model
from person import annotation, grouped, labelled, truth
from scoring import scored

from ecgfed.base.files import write_json
from ecgfed.domain.labels.choose import FEATURES, LabelledTree, Rule, differ_features, group_errors
from ecgfed.domain.labels.spread import spread
from ecgfed.tasks.grouped import GroupedBeats

PEAKS, COUNTS = ("detected", "annotated"), (5, 10, 20, 40, 80)
RULE = ROOT / "ecgfed" / "domain" / "labels" / "differ.json"
#: One record's beats in groups and what a person calls them.
Known = tuple[GroupedBeats, NDArray[np.str_]]


def pairs(found: GroupedBeats, symbol: NDArray[np.str_]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return features (pairs, features) and whether the two labels differ, of three groups around each group."""
    groups, rows, differ = found.groups, [], []
    kind = {one: found.bundle.labels.symbols.get(one, one) for one in np.unique(symbol).tolist()}
    for group in range(1, len(groups)):
        around = [one for one in groups.path(group)[1:] if group not in groups.path(int(groups.leaf[groups.beat[one]]))]
        for one in sorted({around[0], around[-1], around[len(around) // 2]} if around else ()):
            beat = int(groups.beat[one])
            theirs = symbol[groups.beat[group]]
            rows.append(differ_features(groups, group, one, beat, str(symbol[beat])))
            differ.append(kind[str(theirs)] != kind[str(symbol[beat])])
    return np.array(rows).reshape(-1, len(FEATURES)), np.array(differ, dtype=np.bool_)


def learned(parts: Iterable[tuple[NDArray[np.float64], NDArray[np.bool_]]]) -> Rule:
    """Fit the regression to pairs of several records."""
    features, differ = (np.concatenate(one) for one in zip(*parts, strict=True))
    mean, spread_ = features.mean(0), features.std(0)
    fitted = LogisticRegression(C=1.0, max_iter=3000).fit((features - mean) / spread_, differ)
    weight = fitted.coef_[0] / spread_
    return Rule(weight.round(6), round(float(fitted.intercept_[0] - weight @ mean), 6))


def expected_and_wrong(
    found: GroupedBeats, symbol: NDArray[np.str_], told: NDArray[np.str_], label: dict[int, str], rule: Rule
) -> tuple[float, int]:
    """Return how many beats the rule expects to have got a label of another kind, and how many have."""
    kind = found.bundle.labels.symbols
    wrong = sum(
        kind.get(one, one) != kind.get(other, other) for one, other in zip(told.tolist(), symbol.tolist(), strict=True)
    )
    asked = LabelledTree.of(found.groups, label)
    leaves = np.array([leaf for leaf in np.unique(found.groups.leaf).tolist() if not asked.inside[leaf]], np.int64)
    return float(group_errors(asked, rule, leaves).sum()), wrong


def main(given: argparse.Namespace) -> None:
    models: dict[str, Model] = {f"fold{number}": model(given, f"fold{number}") for number in range(FOLDS)}
    known: dict[tuple[str, str], Known] = {}
    for record in DS1:
        for peaks in PEAKS:
            found = grouped(given.source, record, models[fold_of(record)].bundle, peaks)
            known[record, peaks] = (found, truth(given.source, record, found))
    rows = {key: pairs(*one) for key, one in known.items()}
    rule = learned(rows.values())
    results: dict[str, Any] = {}
    for peaks in PEAKS:
        counts: dict[int, dict[str, NDArray[np.int64]]] = {count: {} for count in COUNTS}
        wrong = {count: np.zeros(2) for count in COUNTS}
        for record in DS1:
            others = learned(part for key, part in rows.items() if key[0] != record)
            found, symbol = known[record, peaks]
            for count, label in labelled(found, symbol, COUNTS, "ours", others):
                told = spread(found.groups, label)[0]
                counts[count][record] = compared(given.source / record, annotation(found, told), start_s=0.0).counts
                wrong[count] += expected_and_wrong(found, symbol, told, label, others)
        results[peaks] = {
            str(count): {**scored(one), "expected_wrong": round(wrong[count][0], 1), "wrong": int(wrong[count][1])}
            for count, one in counts.items()
        }
        print_table(
            ("labels", "VEB", "SVEB"), [(n, one["veb"]["f1"], one["sveb"]["f1"]) for n, one in results[peaks].items()]
        )
    said = {"weights": dict(zip(FEATURES, rule.weight.tolist(), strict=True)), "bias": rule.bias}
    write_json(RULE, said)
    share = float(np.mean(np.concatenate([differ for _, differ in rows.values()])))
    save(
        given,
        {"rule": said, "pairs": sum(len(one[1]) for one in rows.values()), "differ": round(share, 4), "ds1": results},
    )
    print(json.dumps(said))


if __name__ == "__main__":
    benchmark(
        main, option("--workers", type=int, default=None, help="threads; default one a core"), results="learned.json"
    )
