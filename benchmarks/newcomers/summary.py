"""From finished runs to means over patients and seeds, and paired differences with intervals."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from answers import GLOBAL, GROUPS, MACHINE, MIX, OWN, PARTWAY, SCRATCH
from common import bootstrap, worst_tenth
from numpy.typing import NDArray
from patients import ALONE, FIRST, LABELS, MINUTES, SPREAD

from ecgfed.base.errors import OptionError
from ecgfed.domain.cohort.mitbih import SAME_PATIENT

KINDS = ("macro_f1", "macro_f1_truth")
NOBODY, BETTER = "nobody", "the better of global and from scratch"
#: Answers whose difference is told, where a method (or nobody) has both; the second may be of another lesson.
PAIRS: tuple[tuple[str, str, str | None], ...] = (
    (PARTWAY, SCRATCH, None),
    (PARTWAY, GLOBAL, None),
    (PARTWAY, BETTER, None),
    (PARTWAY, MACHINE, None),
    (PARTWAY, GROUPS, None),
    (PARTWAY, PARTWAY, ALONE),
    (OWN, SCRATCH, None),
    (OWN, GLOBAL, None),
    (OWN, PARTWAY, None),
    (MIX, GLOBAL, None),
    (MIX, SCRATCH, None),
    (SCRATCH, MACHINE, None),
    (GROUPS, SCRATCH, None),
    (GROUPS, MACHINE, None),
    (GROUPS, MACHINE, ALONE),
)
Scores = NDArray[np.float64]
_KEY = re.compile(r"([a-z-]+)/fold (\d+)/seed (\d+)/(.+) passes")
#: (fold, seed) -> what a finished run says of its patients.
Cells = dict[tuple[int, int], dict[str, Any]]


@dataclass(frozen=True)
class Known:
    """What is known of a method: its folds and seeds that are there whole.

    Attributes:
        seeds: the seeds.
        folds: the folds that each of them has.
        patients: (records,) of these folds.
        own: the method's finished runs.
        nobody: those that need no method.
    """

    seeds: tuple[int, ...]
    folds: tuple[int, ...]
    patients: tuple[str, ...]
    own: Cells
    nobody: Cells

    def scores(self, lesson: str, answer: str, kind: str) -> Scores | None:
        """Return scores (seeds, patients), None where there is no such answer."""
        if answer == BETTER:
            both = [self.scores(lesson, one, kind) for one in (GLOBAL, SCRATCH)]
            return None if both[0] is None or both[1] is None else np.maximum(both[0], both[1])
        for cells in (self.own, self.nobody):
            if answer in cells[self.folds[0], self.seeds[0]].get(lesson, {}):
                rows = [[cells[fold, seed][lesson][answer][kind] for fold in self.folds] for seed in self.seeds]
                return np.array([np.concatenate(row) for row in rows])
        return None

    def columns(self) -> list[NDArray[np.int64]]:
        """Return for each person which of the records are theirs."""
        whose = [SAME_PATIENT.get(name, name) for name in self.patients]
        return [np.flatnonzero([one == who for one in whose]) for who in dict.fromkeys(whose)]


def finished(runs: Any, passes: float) -> dict[str, Cells]:
    """Sort finished runs with so many passes by method: method -> (fold, seed) -> its patients.

    Args:
        runs: what ``runs.json`` holds.
        passes: over the training beats.

    Raises:
        OptionError: they are of another benchmark.
    """
    found: dict[str, Cells] = {}
    for key, run in runs.items() if isinstance(runs, dict) else [(str(runs), None)]:
        named = _KEY.fullmatch(key)
        if named is None or not isinstance(run, dict) or "patients" not in run:
            raise OptionError("--runs", f"holds {key!r:.100}", "runs of this benchmark", "name another file")
        name, fold, seed, length = named.groups()
        if length == f"{passes:g}":
            found.setdefault(name, {})[int(fold), int(seed)] = run["patients"]
    return found


def whole(cells: Cells) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the seeds and folds of the most runs of which every seed has every fold; the more seeds the better."""
    seeds = sorted({seed for _, seed in cells})
    best: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())
    for count in range(1, len(seeds) + 1):
        for some in combinations(seeds, count):
            folds = tuple(sorted(f for f, s in cells if s == some[0] and all((f, other) in cells for other in some)))
            if len(some) * len(folds) >= len(best[0]) * len(best[1]) and folds:
                best = some, folds
    return best


def known_of(found: Mapping[str, Cells], name: str) -> Known | None:
    """Return what is known of a method, or of ``NOBODY``; None where nothing is."""
    nobody = found.get(NOBODY, {})
    own = {at: run for at, run in found.get(name, {}).items() if at in nobody}
    seeds, folds = whole(own)
    if not seeds:
        return None
    patients = tuple(one for fold in folds for one in nobody[fold, seeds[0]]["records"])
    return Known(seeds, folds, patients, own, nobody)


def summary(runs: Mapping[str, dict[str, Any]], passes: float) -> dict[str, Any]:
    """Return what runs say: ``done``, ``lessons`` (means) and ``differences`` (paired, with intervals).

    Args:
        runs: ``runs.json``.
        passes: over the training beats; runs with others do not count.
    """
    found = finished(runs, passes)
    known = {name: one for name in found if (one := known_of(found, name)) is not None}
    done = {
        name: {"seeds": list(one.seeds), "folds": list(one.folds), "patients": len(one.patients)}
        for name, one in known.items()
    }
    every = [(name, one) for name, one in known.items() if name != NOBODY]
    some = [(NOBODY, known[NOBODY])] if NOBODY in known else []
    return {
        "passes": passes,
        "minutes": MINUTES,
        "labels": LABELS,
        "done": done,
        "lessons": {lesson: list(_means(lesson, some + every)) for lesson in (FIRST, SPREAD, ALONE)},
        "differences": {lesson: list(_differences(lesson, some + every)) for lesson in (FIRST, SPREAD, ALONE)},
    }


def _means(lesson: str, known: Sequence[tuple[str, Known]]) -> Iterator[dict[str, Any]]:
    for name, one in known:
        for answer in one.own[one.folds[0], one.seeds[0]][lesson]:
            row: dict[str, Any] = {"method": name, "answer": answer}
            for kind in KINDS:
                scores = one.scores(lesson, answer, kind)
                assert scores is not None
                row[kind] = {"mean": float(scores.mean()), "worst_tenth": float(worst_tenth(scores).mean())}
            yield row


def _differences(lesson: str, known: Sequence[tuple[str, Known]]) -> Iterator[dict[str, Any]]:
    for name, one in known:
        own = one.own[one.folds[0], one.seeds[0]][lesson]
        for answer, less, other in PAIRS:
            if answer not in own or other == lesson or (other is not None and lesson != SPREAD):
                continue
            pairs = [(one.scores(lesson, answer, kind), one.scores(other or lesson, less, kind)) for kind in KINDS]
            row = {"method": name, "answer": answer, "less": less, **({"of": other} if other else {})}
            if pairs[0][1] is not None:
                for kind, (ours, theirs) in zip(KINDS, pairs, strict=True):
                    assert ours is not None
                    assert theirs is not None
                    row |= {kind: paired(ours, theirs, one.columns())}
                    if kind == KINDS[0]:
                        row |= {"worst_tenth": paired(ours, theirs, one.columns(), worst_tenth)}
                yield row


def _mean(scores: Scores) -> Scores:
    return np.asarray(scores.mean(axis=1))


def paired(
    ours: Scores, theirs: Scores, people: Sequence[NDArray[np.int64]], of: Callable[[Scores], Scores] = _mean
) -> dict[str, float]:
    """Return the difference of two answers, with a 95% interval over people and seeds.

    Args:
        ours: scores (seeds, records).
        theirs: of the same.
        people: for each person the records.
        of: (seeds,) of scores (seeds, records): their mean, or the worst tenth.
    """

    def difference(seeds: NDArray[np.int64], drawn: NDArray[np.int64]) -> float:
        records = np.concatenate([people[one] for one in drawn])
        return float(np.mean(of(ours[seeds][:, records]) - of(theirs[seeds][:, records])))

    return bootstrap(difference, len(ours), len(people))
