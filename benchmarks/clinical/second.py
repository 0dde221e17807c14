"""What a second question about contested answers is worth (``ecgfed/domain/labels/contested.py``), chosen on DS1.

    python benchmarks/clinical/second.py --source MITDB --work DIR

20 answers of a simulated person for each record of DS1, of which 0, 5 or 15% of the doubtful ones are wrong (three
seeds). Up to three contested answers are asked again; where the second answer differs, a third one decides. Each answer
errs by itself, at the same rate. V and S F1 of all records' beats together (by AAMI kind), wrong labels and questions
a record, without and with the second question.
"""

import argparse
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import DS1, benchmark, option, print_table, save
from models import fold_of, model
from person import CANNOT_TELL, as_answered, grouped, labelled, mistaken, truth

from ecgfed.domain.labels.contested import contested
from ecgfed.domain.labels.spread import spread
from ecgfed.tasks.grouped import GroupedBeats

RATES: dict[float, tuple[int, ...]] = {0.0: (0,), 0.05: (0, 1, 2), 0.15: (0, 1, 2)}
COUNT, KINDS = 20, ("V", "S", "F")


def asked_again(
    found: GroupedBeats,
    symbol: NDArray[np.str_],
    label: dict[int, str],
    wrong: NDArray[np.str_],
    rate: float,
    seed: int,
) -> tuple[dict[int, str], int]:
    """Return the answers after contested ones were asked again, and how many questions that took.

    Args:
        found: the beats in groups.
        symbol: (beats,) what each is.
        label: the first answers.
        wrong: (beats,) what each may be mistaken for, of ``mistaken``.
        rate: share of the doubtful answers that are wrong.
        seed: of the errors.
    """
    rng, asked, final = np.random.default_rng([seed, 77]), 0, dict(label)

    def answer(beat: int) -> str:
        errs = wrong[beat] != "" and rng.random() < rate
        return str(wrong[beat] if errs else symbol[beat])

    for one in contested(found.groups, label):
        asked += 1
        if answer(one.beat) != label[one.beat]:
            asked, final[one.beat] = asked + 1, answer(one.beat)
    return final, asked


def counted(found: GroupedBeats, symbol: NDArray[np.str_], label: dict[int, str]) -> Counter[str]:
    """Return how many beats of each kind are found, missed and falsely called so, and how many labels are wrong."""
    kind_of = found.bundle.labels.symbols
    names = spread(found.groups, label)[0]
    names = np.where(names == CANNOT_TELL, found.names[: len(names)], names)
    kind, true_kind = (np.array([kind_of.get(one, one) for one in some.tolist()]) for some in (names, symbol))
    result = Counter(wrong=int((kind != true_kind).sum()))
    for one in KINDS:
        result[f"{one} found"] = int(((kind == one) & (true_kind == one)).sum())
        result[f"{one} other"] = int(((kind == one) != (true_kind == one)).sum())
    return result


def add_record(found: GroupedBeats, symbol: NDArray[np.str_], total: dict[float, dict[str, Counter[str]]]) -> None:
    """Let every simulated person answer a record, and add what comes of it to ``total``: rate -> way -> counts."""
    wrong = mistaken(found, symbol)
    for rate, seeds in RATES.items():
        for seed in seeds:
            answers = as_answered(found, symbol, rate, seed)
            ((_, label),) = labelled(found, answers, (COUNT,), "ours")
            if set(label.values()) == {CANNOT_TELL}:
                continue
            again, asked = asked_again(found, symbol, label, wrong, rate, seed)
            for way, some, questions in (("one", label, 0), ("two", again, asked)):
                total[rate][way].update(counted(found, symbol, some))
                total[rate][way].update(persons=1, questions=questions)


def summary(total: dict[float, dict[str, Counter[str]]]) -> dict[str, dict[str, dict[str, float]]]:
    """Return F1 by kind in percent, and wrong labels and further questions a record."""

    def f1(count: Counter[str], kind: str) -> float:
        return round(200 * count[f"{kind} found"] / max(2 * count[f"{kind} found"] + count[f"{kind} other"], 1), 1)

    return {
        f"{rate:g}": {
            way: {
                **{kind: f1(count, kind) for kind in KINDS},
                "wrong": round(count["wrong"] / count["persons"], 1),
                "questions": round(count["questions"] / count["persons"], 2),
            }
            for way, count in by_way.items()
        }
        for rate, by_way in total.items()
    }


def main(given: argparse.Namespace) -> None:
    reader = cache(lambda name: model(given, name))
    total: dict[float, dict[str, Counter[str]]] = {rate: {"one": Counter(), "two": Counter()} for rate in RATES}
    for record in DS1:
        found = grouped(given.source, record, reader(fold_of(record)).bundle, "detected")
        symbol = truth(given.source, record, found)
        add_record(found, symbol, total)
    results = summary(total)
    for rate, by_way in results.items():
        print(f"{rate} of the doubtful answers wrong")
        print_table(("", *by_way["one"]), [(way, *one.values()) for way, one in by_way.items()])
    save(given, {"rates": results})


if __name__ == "__main__":
    benchmark(
        main, option("--workers", type=int, default=None, help="threads; default one a core"), results="second.json"
    )
