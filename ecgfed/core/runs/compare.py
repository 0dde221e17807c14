"""Compare runs: settings, scores, classes and patients, without torch.

A folder with several seeds counts as one run: its numbers are means over the seeds.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ecgfed.base.errors import OptionError, RunError, param
from ecgfed.base.text import count_of
from ecgfed.core.runs.document import RunDocument, read_document
from ecgfed.core.runs.evaluations import LEFT_OUT, SPLITS, Evaluation, command, read_evaluation
from ecgfed.core.runs.seeds import run_folders
from ecgfed.core.runs.summary import progress_of

#: The scores compared, by their names in ``scores.json``.
SCORES = ("T_g", "T_p", "T_r", "T_l")
#: The parts of a run that hold settings.
PARTS = ("settings", "plan", "net")
#: The model used for a patient: the personal or the global one.
MODELS = ("personal", "global")


#: Keys of the JSON form that differ from the attribute names.
_JSON_KEYS = {
    "finished_rounds": "rounds_done",
    "same_cohort": "one_cohort",
    "specific_settings": "own",
    "model": "answer",
}


@dataclass(frozen=True)
class ComparedRun:
    """One run of a comparison, or a folder of seeds.

    Attributes:
        run: its folder, as passed.
        seeds: number of runs.
        method: its method.
        finished_rounds: finished rounds; minimum over seeds.
        rounds: planned rounds.
        passes: over the training beats, or None if the history lacks them.
        scored_round: the evaluated round, or None; minimum over seeds.
        protocol: global model of a method without one, or None.
        scores: macro-F1 by name (``SCORES``), or None if the run was not evaluated on the split.
        worst_tenth: for each of ``MODELS``, mean macro-F1 of the worst tenth of patients (at least one).
        spread: names as in ``scores`` and ``worst_tenth``, and ``SITE MODEL`` -> sample standard deviation over seeds;
            empty for one run.
        notes: remarks on the scores, each with a command that helps.
        sites: of a joined cohort: site -> for each of ``MODELS``, macro-F1 as of ``Evaluation.sites``.
    """

    run: str
    seeds: int
    method: str
    finished_rounds: int
    rounds: int
    passes: float | None
    scored_round: int | None
    protocol: str | None
    scores: dict[str, float | None] | None
    worst_tenth: dict[str, float] | None
    spread: dict[str, float]
    notes: tuple[str, ...]
    sites: dict[str, dict[str, float | None]]


@dataclass(frozen=True)
class ComparedClass:
    """F1 of the global model on one class for each run in order, None if a run has no value.

    ``beats`` is None if the runs were not scored on the same beats.
    """

    name: str
    beats: int | None
    f1: tuple[float | None, ...]


@dataclass(frozen=True)
class ComparedPatients:
    """Patients' scores with one run compared to the first.

    Attributes:
        run: index of the run in the comparison, 1 or more.
        model: one of ``MODELS``.
        better: patients whose macro-F1 is higher than with the first run.
        same: patients whose macro-F1 is the same.
        worse: patients whose macro-F1 is lower.
        mean: mean difference over patients.
        largest_gain: patient and difference, or None.
        largest_loss: patient and difference, or None.
    """

    run: int
    model: str
    better: int
    same: int
    worse: int
    mean: float
    largest_gain: tuple[str, float] | None
    largest_loss: tuple[str, float] | None


@dataclass(frozen=True)
class PairedPatients:
    """Every patient's macro-F1 with the first run and with another one.

    Attributes:
        run: index of the other run in the comparison, 1 or more.
        model: one of ``MODELS``.
        scores: patient, score with the first run, score with the other, for patients in both.
    """

    run: int
    model: str
    scores: tuple[tuple[str, float, float], ...]


@dataclass(frozen=True)
class RunComparison:
    """Comparison of runs.

    Attributes:
        split: ``valid`` or ``test``.
        leave_out: beats excluded from scoring, ``nothing`` or ``poor-quality``.
        same_cohort: whether all were trained on the same cohort.
        runs: in the order passed.
        differing: part of the run (``settings``, ``plan``, ``net``) -> setting that all runs have and that differs ->
            value of each run.
        specific_settings: for each run, the settings that another run lacks.
        classes: scores per class of evaluated runs, without classes that no run saw or predicted.
        patients: for each evaluated run after the first, if that was evaluated too.
    """

    split: str
    leave_out: str
    same_cohort: bool
    runs: tuple[ComparedRun, ...]
    differing: dict[str, dict[str, tuple[Any, ...]]]
    specific_settings: tuple[dict[str, Any], ...]
    classes: tuple[ComparedClass, ...]
    patients: tuple[ComparedPatients, ...]

    def as_json(self) -> dict[str, Any]:
        """Return a JSON-ready dictionary; some keys have older names than the attributes."""
        return asdict(self, dict_factory=lambda items: {_JSON_KEYS.get(key, key): value for key, value in items})


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

    def f1(self, model: str) -> dict[str, float]:
        """Return patient -> macro-F1 with one of ``MODELS``, mean over seeds."""
        tables: list[Mapping[str, float]] = [getattr(result, f"{model}_f1") for result in self.evaluations]
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
    different_cohorts = [
        document
        for document in documents
        if document.fingerprint != documents[0].fingerprint or document.held_out not in (None, excluded)
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
        tuple(_run(side, split, leave_out) for side in sides),
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
        tuple(map(_change, _pairs(sides))),
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
