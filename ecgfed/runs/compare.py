"""Two or more runs side by side: what was asked for, what came out, for which classes and patients. No torch here."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ecgfed.errors import OptionError, RunError
from ecgfed.runs.document import RunDocument, read_document
from ecgfed.runs.evaluations import LEFT_OUT, SPLITS, Evaluation, command, read_evaluation
from ecgfed.runs.summary import progress_of

#: The scores compared, by their names in ``scores.json``.
SCORES = ("T_g", "T_p", "T_r", "T_l")
#: The parts of a run that hold settings.
PARTS = ("settings", "plan", "net")
#: Whose answer a patient gets: the patient's own model, or everybody's.
ANSWERS = ("personal", "global")


@dataclass(frozen=True)
class ComparedRun:
    """One run of a comparison.

    Attributes:
        run: its folder, as it was named.
        method: its method.
        rounds_done: finished rounds.
        rounds: rounds asked for.
        passes: over the training beats, or None where its history does not say.
        scored_round: the round that was evaluated, or None.
        protocol: how a method without a global model answered globally, or None.
        scores: macro-F1 by name (``SCORES``), or None where the run was not evaluated on the split.
        worst_tenth: for each of ``ANSWERS``, macro-F1 of the tenth of patients (at least one) served worst, mean.
        notes: what to know beside the scores, each with the command that helps.
    """

    run: str
    method: str
    rounds_done: int
    rounds: int
    passes: float | None
    scored_round: int | None
    protocol: str | None
    scores: dict[str, float | None] | None
    worst_tenth: dict[str, float] | None
    notes: tuple[str, ...]


@dataclass(frozen=True)
class ComparedClass:
    """F1 of the global answer on one class, for each run in order; None where a run says nothing of it."""

    name: str
    beats: int | None
    f1: tuple[float | None, ...]


@dataclass(frozen=True)
class ComparedPatients:
    """How patients fare with one run against the first.

    Attributes:
        run: number of the run in the comparison, 1 or more.
        answer: one of ``ANSWERS``.
        better: patients whose macro-F1 is higher than with the first run.
        same: patients whose macro-F1 is the same.
        worse: patients whose macro-F1 is lower.
        mean: difference, mean over patients.
        largest_gain: patient and difference, or None where nobody gains.
        largest_loss: patient and difference, or None where nobody loses.
    """

    run: int
    answer: str
    better: int
    same: int
    worse: int
    mean: float
    largest_gain: tuple[str, float] | None
    largest_loss: tuple[str, float] | None


@dataclass(frozen=True)
class Comparison:
    """Runs side by side.

    Attributes:
        split: ``valid`` or ``test``.
        leave_out: beats that were not scored, ``nothing`` or ``poor-quality``.
        one_cohort: whether all were trained on the same cohort.
        runs: in the order named.
        differing: part of the run (``settings``, ``plan``, ``net``) -> name of a setting that all runs have and that
            differs -> value of each run.
        own: for each run, the settings that it has and another one has not.
        classes: per-class scores, where a run was evaluated; classes that no run saw or predicted are left out.
        patients: for each evaluated run after the first, where that one was evaluated too.
    """

    split: str
    leave_out: str
    one_cohort: bool
    runs: tuple[ComparedRun, ...]
    differing: dict[str, dict[str, tuple[Any, ...]]]
    own: tuple[dict[str, Any], ...]
    classes: tuple[ComparedClass, ...]
    patients: tuple[ComparedPatients, ...]

    def as_json(self) -> dict[str, Any]:
        """Return it JSON-ready, names as the attributes'."""
        return asdict(self)


def compare_runs(
    paths: Sequence[Path], split: str = "test", leave_out: str = "nothing", *, any_cohort: bool = False
) -> Comparison:
    """Compare runs on one split, from what they left on the disk; nothing is computed anew.

    Args:
        paths: two or more run folders.
        split: ``valid`` or ``test``.
        leave_out: of which evaluation, ``nothing`` or ``poor-quality``.
        any_cohort: compare runs of different cohorts too.

    Raises:
        OptionError: fewer than two runs, one named twice, or no such split.
        RunError: one is no run, or damaged, or was trained on another cohort than the first.
    """
    _check(paths, split, leave_out)
    documents = [read_document(path) for path in paths]
    strangers = [document for document in documents if document.fingerprint != documents[0].fingerprint]
    if strangers and not any_cohort:
        raise RunError(
            strangers[0].path,
            f"was trained on another cohort than {paths[0]} (fingerprints differ)",
            "runs of one cohort",
            "their beats or splits are not the same; compare all the same with --any-cohort",
        )
    found = [read_evaluation(path, split, leave_out) for path in paths]
    return Comparison(
        split,
        leave_out,
        not strangers,
        tuple(_run(document, result, split, leave_out) for document, result in zip(documents, found, strict=True)),
        {part: _differing([getattr(document, part) for document in documents]) for part in PARTS},
        tuple(_own(document, documents) for document in documents),
        _classes(found),
        tuple(_patients(found)),
    )


def _check(paths: Sequence[Path], split: str, leave_out: str) -> None:
    if len(paths) < 2:
        raise OptionError("RUNS", "one run" if paths else "none", "two runs or more")
    resolved = [path.resolve() for path in paths]
    twice = next((path for i, path in enumerate(paths) if resolved[i] in resolved[:i]), None)
    if twice is not None:
        raise OptionError("RUNS", f"{twice} is named twice", "different runs")
    if split not in SPLITS:
        raise OptionError("--split", f"{split!r}", f"one of {', '.join(SPLITS)}")
    if leave_out not in LEFT_OUT:
        raise OptionError("--leave-out", f"{leave_out!r}", f"one of {', '.join(LEFT_OUT)}")


def _run(document: RunDocument, result: Evaluation | None, split: str, leave_out: str) -> ComparedRun:
    progress = progress_of(document)
    done = progress["rounds_done"]
    notes = []
    if result is None:
        notes.append(f"not evaluated on {split}: {command(document.path, split, leave_out)}")
    elif result.round != done:
        again = command(document.path, split, leave_out)
        notes.append(f"its scores are of round {result.round}, it has {done}: {again}")
    if done < document.rounds:
        notes.append(f"not finished: {done} of {document.rounds} rounds")
    answers = {} if result is None else {"personal": result.personal_f1, "global": result.global_f1}
    return ComparedRun(
        str(document.path),
        document.method,
        done,
        document.rounds,
        progress["passes"],
        None if result is None else result.round,
        None if result is None else result.protocol,
        None if result is None else {name: result.scores.get(name) for name in SCORES},
        {name: _worst_tenth(list(of.values())) for name, of in answers.items() if of} or None,
        tuple(notes),
    )


def _worst_tenth(values: list[float]) -> float:
    lowest = sorted(values)[: -(-len(values) // 10)]
    return sum(lowest) / len(lowest)


def _differing(parts: list[dict[str, Any]]) -> dict[str, tuple[Any, ...]]:
    """Return names that all have, with values that are not the same, but ``rounds``, which has a row of its own."""
    names = [name for name in parts[0] if name != "rounds" and all(name in part for part in parts)]
    values = {name: tuple(part[name] for part in parts) for name in names}
    return {name: of for name, of in values.items() if any(value != of[0] for value in of)}


def _own(document: RunDocument, documents: list[RunDocument]) -> dict[str, Any]:
    return {
        name: value
        for part in PARTS
        for name, value in getattr(document, part).items()
        if not all(name in getattr(other, part) for other in documents)
    }


def _classes(found: list[Evaluation | None]) -> tuple[ComparedClass, ...]:
    tables = [{} if result is None else {row.name: row for row in result.classes} for result in found]
    rows = []
    for name in dict.fromkeys(name for table in tables for name in table):
        of = [table.get(name) for table in tables]
        if any(row and (row.beats or row.predicted) for row in of):
            beats = {row.beats for row in of if row}
            f1 = tuple(row.f1 if row else None for row in of)
            rows.append(ComparedClass(name, beats.pop() if len(beats) == 1 else None, f1))
    return tuple(rows)


def _patients(found: list[Evaluation | None]) -> list[ComparedPatients]:
    first = found[0]
    rows = []
    for number, other in enumerate(found[1:], start=1):
        for answer in ANSWERS if first and other else ():
            before, after = (getattr(result, f"{answer}_f1") for result in (first, other))
            change = {patient: after[patient] - before[patient] for patient in before if patient in after}
            if change:
                rows.append(_change(number, answer, change))
    return rows


def _change(number: int, answer: str, change: dict[str, float]) -> ComparedPatients:
    most, least = max(change, key=change.__getitem__), min(change, key=change.__getitem__)
    better, worse = (sum(sign * value > 0 for value in change.values()) for sign in (1, -1))
    return ComparedPatients(
        number,
        answer,
        better,
        len(change) - better - worse,
        worse,
        sum(change.values()) / len(change),
        (most, change[most]) if better else None,
        (least, change[least]) if worse else None,
    )
