"""Compare runs: settings, scores, classes and patients, without torch.

A folder with several seeds counts as one run: its numbers are means over the seeds.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecgfed.base.errors import OptionError, RunError, param
from ecgfed.base.text import count_of
from ecgfed.core.runs.comparison import (
    MODELS,
    PARTS,
    SCORES,
    ComparedClass,
    ComparedPatients,
    ComparedRun,
    PairedPatients,
    RunComparison,
)
from ecgfed.core.runs.document import RunDocument, read_document
from ecgfed.core.runs.evaluations import LEFT_OUT, SPLITS, Evaluation, command, read_evaluation
from ecgfed.core.runs.intervals import LEVEL, drawn, holm, interval, over_seeds, paired_p
from ecgfed.core.runs.seeds import run_folders
from ecgfed.core.runs.summary import progress_of


@dataclass(frozen=True)
class _Side:
    """A run as passed: documents and evaluations per seed; no evaluations if one seed lacks its own."""

    path: Path
    documents: list[RunDocument]
    evaluations: list[Evaluation]

    def part(self, name: str) -> dict[str, Any]:
        """Return ``settings``, ``plan`` or ``net``; values that differ between seeds as lists."""
        parts = [getattr(document, name) for document in self.documents]
        merged = {
            key: [part.get(key) for part in parts] for key in dict.fromkeys(key for part in parts for key in part)
        }
        return {key: of[0] if all(value == of[0] for value in of) else of for key, of in merged.items()}

    def draws(self, score: str) -> NDArray[np.float64]:
        """Return a score when patients, and seeds, are drawn with replacement; empty where that is not known."""
        each = [of for result in self.evaluations if (of := result.draws.get(("scores", score))) is not None]
        return over_seeds(each, self.splits) if each and len(each) == len(self.evaluations) else np.empty(0)

    @property
    def splits(self) -> list[str]:
        """The split of the beats that each of the seeds was trained on."""
        return [document.fingerprint for document in self.documents]

    def each_f1(self, model: str) -> list[Mapping[str, float]]:
        """Return patient -> macro-F1 with one of ``MODELS``, of each seed."""
        return [getattr(result, f"{model}_f1") for result in self.evaluations]

    def f1(self, model: str) -> dict[str, float]:
        """Return patient -> macro-F1 with one of ``MODELS``, mean over seeds."""
        tables = self.each_f1(model)
        patients = [patient for patient in (tables or [{}])[0] if all(patient in table for table in tables)]
        return {patient: statistics.fmean(table[patient] for table in tables) for patient in patients}


def compare_runs(
    paths: Sequence[Path], split: str = "test", leave_out: str = "nothing", *, any_cohort: bool = False
) -> RunComparison:
    """Compare runs on one split from their stored files; nothing is recomputed.

    Args:
        paths: two or more folders of runs, or of the seeds of one.
        split: ``valid`` or ``test``.
        leave_out: beats excluded from the evaluation, ``nothing`` or ``poor-quality``.
        any_cohort: allow runs of different cohorts.

    Raises:
        OptionError: fewer than two runs, a duplicate, or an unknown split.
        RunError: not a run, damaged, or trained on another cohort than the first.
    """
    _check(paths, split, leave_out)
    sides = [_side(path, split, leave_out) for path in paths]
    documents = [document for side in sides for document in side.documents]
    excluded = next((document.held_out for document in documents if document.held_out is not None), None)
    first = documents[0]
    first_cohorts = {document.fingerprint for document in sides[0].documents}  # one for each split of the beats
    different_cohorts = [
        document
        for side in sides
        for document in side.documents
        if {of.fingerprint for of in side.documents} != first_cohorts or document.held_out not in (None, excluded)
    ]
    if different_cohorts and not any_cohort:
        actual = f"was trained on another cohort than {first.path} (fingerprints or held-out clients differ)"
        action = (
            f"their beats, splits or patients are not the same; compare all the same with {param('any_cohort=True')}"
        )
        raise RunError(different_cohorts[0].path, actual, "runs of one cohort", action)
    parts = {name: [side.part(name) for side in sides] for name in PARTS}
    return RunComparison(
        split,
        leave_out,
        not different_cohorts,
        _with_differences([_run(side, split, leave_out) for side in sides], sides if not different_cohorts else []),
        {name: _differing(of) for name, of in parts.items()},
        tuple(
            {
                name: value
                for of in parts.values()
                for name, value in of[number].items()
                if not all(name in part for part in of)
            }
            for number in range(len(sides))
        ),
        _classes(sides),
        _with_p_values([(_change(pair), pair) for pair in _pairs(sides)], sides),
    )


def _side(path: Path, split: str, leave_out: str) -> _Side:
    documents = [read_document(folder) for folder in run_folders(path)]
    evaluations = [read_evaluation(document, split, leave_out) for document in documents]
    scored = [result for result in evaluations if result is not None]
    return _Side(path, documents, scored if len(scored) == len(documents) else [])


def _check(paths: Sequence[Path], split: str, leave_out: str) -> None:
    if len(paths) < 2:
        raise OptionError("RUNS", "one run" if paths else "none", "two runs or more")
    resolved = [path.resolve() for path in paths]
    twice = next((path for i, path in enumerate(paths) if resolved[i] in resolved[:i]), None)
    if twice is not None:
        raise OptionError("RUNS", f"{twice} is named twice", "different runs")
    if split not in SPLITS:
        raise OptionError("split", f"{split!r}", f"one of {', '.join(SPLITS)}", code="unknown-choice")
    if leave_out not in LEFT_OUT:
        raise OptionError("leave_out", f"{leave_out!r}", f"one of {', '.join(LEFT_OUT)}", code="unknown-choice")


def _run(side: _Side, split: str, leave_out: str) -> ComparedRun:
    progress = [progress_of(document) for document in side.documents]
    finished = min(entry.finished_rounds for entry in progress)
    rounds = max(document.rounds for document in side.documents)
    scored = min((result.round for result in side.evaluations), default=None)
    passes = [entry.passes for entry in progress if entry.passes is not None]
    scores = {name: _over_seeds([result.scores.get(name) for result in side.evaluations]) for name in SCORES}
    worst = {name: _over_seeds([_worst_tenth(result, name) for result in side.evaluations]) for name in MODELS}
    at_sites = {
        f"{site} {model}": _over_seeds([result.sites.get(site, {}).get(model) for result in side.evaluations])
        for site in (side.evaluations[0].sites if side.evaluations else ())
        for model in MODELS
    }
    evaluate = command(side.path, split, leave_out)
    notes = []
    if scored is None:
        notes.append(f"is not evaluated on {split}: {evaluate}")
    elif scored != finished:
        notes.append(f"was evaluated after round {scored}, and has {finished}: {evaluate}")
    if finished < rounds:
        notes.append(f"is not finished: {finished} of {count_of(rounds, 'round')}")
    return ComparedRun(
        str(side.path),
        len(side.documents),
        side.documents[0].method,
        finished,
        rounds,
        statistics.fmean(passes) if len(passes) == len(progress) else None,
        scored,
        side.evaluations[0].protocol if side.evaluations else None,
        {name: mean for name, (mean, _) in scores.items()} if side.evaluations else None,
        {name: mean for name, (mean, _) in worst.items() if mean is not None} or None,
        {name: spread for name, (_, spread) in (scores | worst | at_sites).items() if spread is not None},
        tuple(notes),
        {
            site: {model: at_sites[f"{site} {model}"][0] for model in MODELS}
            for site in (side.evaluations[0].sites if side.evaluations else ())
        },
        {name: ends for name in SCORES if (ends := interval(side.draws(name))) is not None},
    )


def _over_seeds(values: list[float | None]) -> tuple[float | None, float | None]:
    """Return mean and standard deviation over seeds; None if undefined, or if a seed has no value."""
    available = [value for value in values if value is not None]
    if not available or len(available) < len(values):
        return None, None
    return statistics.fmean(available), statistics.stdev(available) if len(available) > 1 else None


def _worst_tenth(result: Evaluation, model: str) -> float | None:
    values: list[float] = sorted(getattr(result, f"{model}_f1").values())
    return statistics.fmean(values[: -(-len(values) // 10)]) if values else None


def _differing(parts: list[dict[str, Any]]) -> dict[str, tuple[Any, ...]]:
    """Return common settings with different values, except ``rounds``, which has its own row."""
    names = [name for name in parts[0] if name != "rounds" and all(name in part for part in parts)]
    values = {name: tuple(part[name] for part in parts) for name in names}
    return {name: of for name, of in values.items() if any(value != of[0] for value in of)}


def _classes(sides: list[_Side]) -> tuple[ComparedClass, ...]:
    tables = [[{row.name: row for row in result.classes} for result in side.evaluations] for side in sides]
    rows = []
    for name in dict.fromkeys(name for side in tables for table in side for name in table):
        of = [[table[name] for table in side if name in table] for side in tables]
        everywhere = [row for side in of for row in side]
        if any(row.beats or row.predicted for row in everywhere):
            beats = {row.beats for row in everywhere}
            f1 = [[row.f1 for row in side if row.f1 is not None] for side in of]
            means = tuple(statistics.fmean(values) if values else None for values in f1)
            rows.append(ComparedClass(name, beats.pop() if len(beats) == 1 else None, means))
    return tuple(rows)


def pair_patients(paths: Sequence[Path], split: str = "test", leave_out: str = "nothing") -> list[PairedPatients]:
    """Pair every patient's scores of the first run with those of each other run; raises as ``compare_runs``."""
    _check(paths, split, leave_out)
    return _pairs([_side(path, split, leave_out) for path in paths])


def _with_differences(runs: list[ComparedRun], sides: list[_Side]) -> tuple[ComparedRun, ...]:
    """Add the intervals of differences from the first run, of runs that were scored on the same patients."""
    first = {name: sides[0].draws(name) for name in SCORES} if sides else {}
    level = 1 - (1 - LEVEL) / max(1, len(SCORES) * (len(runs) - 1))
    for number, side in enumerate(sides[1:], start=1):
        changes = {name: side.draws(name) for name in SCORES}
        same = sides[0].f1("personal").keys() == side.f1("personal").keys()
        differences = {
            name: ends
            for name, values in changes.items()
            if same and len(values) and len(first[name]) and (ends := interval(values - first[name], level)) is not None
        }
        runs[number] = replace(runs[number], differences=differences)
    return tuple(runs)


def _with_p_values(
    rows: list[tuple[ComparedPatients, PairedPatients]], sides: list[_Side]
) -> tuple[ComparedPatients, ...]:
    """Add interval, p value and its correction for all rows."""
    with_intervals = []
    for row, pair in rows:
        tables = [sides[0].each_f1(pair.model), sides[pair.run].each_f1(pair.model)]
        names = [name for name, _, _ in pair.scores]
        means = np.array([after - before for _, before, after in pair.scores])
        before, after = (
            over_seeds([np.array([f1[name] for name in names])[drawn(len(names))].mean(1) for f1 in of], side.splits)
            for of, side in zip(tables, (sides[0], sides[pair.run]), strict=True)
        )
        ends = interval(after - before) if len(names) > 1 else None
        with_intervals.append(replace(row, interval=ends, p_value=paired_p(means) if len(names) > 1 else None))
    tested = [row.p_value for row in with_intervals if row.p_value is not None]
    corrected = iter(holm(tested))
    return tuple(row if row.p_value is None else replace(row, corrected_p=next(corrected)) for row in with_intervals)


def _pairs(sides: list[_Side]) -> list[PairedPatients]:
    pairs = []
    for number, side in enumerate(sides[1:], start=1):
        for model in MODELS:
            before, after = sides[0].f1(model), side.f1(model)
            both = tuple((patient, before[patient], after[patient]) for patient in before if patient in after)
            if both:
                pairs.append(PairedPatients(number, model, both))
    return pairs


def _change(pair: PairedPatients) -> ComparedPatients:
    change = {patient: after - before for patient, before, after in pair.scores}
    best, worst_patient = max(change, key=change.__getitem__), min(change, key=change.__getitem__)
    better, worse = (sum(sign * value > 0 for value in change.values()) for sign in (1, -1))
    return ComparedPatients(
        pair.run,
        pair.model,
        better,
        len(change) - better - worse,
        worse,
        sum(change.values()) / len(change),
        (best, change[best]) if better else None,
        (worst_patient, change[worst_patient]) if worse else None,
    )
