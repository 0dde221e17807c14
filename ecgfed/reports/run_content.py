"""The content of a run's page, from its folder and its cohort."""

import os
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ecgfed.base.errors import EcgfedError, RunError, param
from ecgfed.base.text import count_of
from ecgfed.core.runs.document import RunDocument, read_document, typed
from ecgfed.core.runs.history import HISTORY, TIMING, read_lines
from ecgfed.core.runs.stored_evaluations import StoredEvaluation, read_evaluations
from ecgfed.core.runs.summary import RunProgress, examples_of, progress_of
from ecgfed.domain.cohort.cohort import Cohort, open_cohort
from ecgfed.domain.cohort.split import TEST, TRAIN, VALID
from ecgfed.reports.charts import Curve, Panel
from ecgfed.reports.run_parts import CommunicationCost, Mixes, RunParts, Scored, ScoredPatient

USE = "Research use only, not for diagnosis."
#: Larger numbers are not plotted: their squares overflow.
_MOST = 1e100
#: Longer rounds, of 30,000 years, are refused as damaged.
_LONGEST_S = 1e12
_RESTORE = "restore the file"
#: Keys of a history line without a curve.
_NO_CURVES = {"round", "passes", "loss_mean", "loss_max", "worst_client"}
_SCORES = {"valid_T_g": "global model, pooled (T_g)", "valid_T_p": "personal models, mean (T_p)"}
_ALSO = {"T_p_global": "T_p of the global model", "T_l_clients": "T_l, mean of the patients' own harmonic means"}
#: Labels of other numbers of a round.
_MEANINGS = {
    "q": "q, the weight of high losses",
    "sigma": "sigma, spread of the clients' losses",
    "effective_clients": "effective clients, by their weights",
}
Lines = list[dict[str, Any]]


def name_of_run(path: Path) -> str:
    """Return the name of a run on a page: that of its folder, since the path may name a person."""
    return path.resolve().name


def run_parts(
    path: Path,
    cohort: Path | None,
    sent: Callable[[RunDocument, Lines], CommunicationCost | str],
    federation: Sequence[tuple[str, str]] = (),
) -> RunParts:
    """Return the content of a run's page.

    Args:
        path: the run's folder.
        cohort: the folder of its cohort; None for the recorded one.
        sent: returns the bytes that a run sent, or why they are unknown.
        federation: names and values of the federation that trained it, if one did.

    Raises:
        RunError: the folder is not a run, or is damaged.
        CohortError, RunError: ``cohort`` cannot be opened, or is not the run's.
    """
    document = read_document(path)
    progress = progress_of(document)
    lines, timing = (read_lines(path / name, progress.finished_rounds) for name in (HISTORY, TIMING))
    evaluations = read_evaluations(document)
    opened = _cohort(document, cohort)
    words = [opened.example_word] if isinstance(opened, Cohort) else [entry.example_word for entry in evaluations]
    what = f"{words[0] if words else 'beat'}s"
    parts = (("The method", document.settings), ("The plan", document.plan), ("The net", document.net))
    return RunParts(
        name_of_run(path),
        document.method,
        (*_header(document, progress), *federation),
        USE,
        tuple(_notes(document, progress, lines, evaluations, opened)),
        what,
        document.classes,
        tuple(_scored(evaluation, evaluations, what) for evaluation in evaluations),
        tuple(panels_of(lines, path / HISTORY)),
        _mixes(opened) if isinstance(opened, Cohort) else opened,
        sent(document, lines),
        _seconds(timing, path / TIMING, progress.finished_rounds),
        tuple(
            (title, tuple((name, "-" if value is None else str(value)) for name, value in values.items()))
            for title, values in parts
        ),
    )


def _cohort(document: RunDocument, named: Path | None) -> Cohort | str:
    """Return the run's cohort, or why it is not available; raises for a wrong ``named`` one."""
    where = document.path / document.cohort_path if named is None else named
    if named is None and not where.is_dir():
        return "its cohort is not where it was; name its folder as its cohort"
    try:
        opened = open_cohort(where)
    except EcgfedError as error:
        if named is not None:
            raise
        return f"its cohort cannot be opened ({error.reason})"
    if opened.fingerprint != document.fingerprint:
        if named is not None:
            problem = f"was trained on another cohort than {named} is (fingerprints differ)"
            raise RunError(document.path, problem, action=f"name the right one with {param('cohort')}")
        return "the folder of its cohort holds another one; name the right folder as its cohort"
    if document.classes and opened.classes != document.classes:
        return "its cohort names other classes now"
    if document.clients and tuple(client.id for client in opened.clients) != document.clients:
        return "its cohort names other clients now"
    if document.held_out is not None and opened.held_out != document.held_out:
        return "its cohort holds out other clients now"
    return opened


def _header(document: RunDocument, progress: RunProgress) -> tuple[tuple[str, str], ...]:
    plan, versions = document.plan, document.versions
    local = plan.get("local_steps")
    epochs = plan.get("local_epochs") or 0
    work = count_of(epochs, "epoch") if local is None else count_of(local, "step")
    some, most = plan.get("clients_per_round"), plan.get("most_per_class")
    drawn = "" if most is None else f", at most {most} of each class an epoch"
    drawn += ", augmented" if plan.get("augment") else ""
    cohort, clients = Path(os.path.normpath(document.cohort_path)).name, count_of(len(document.clients), "client")
    rows = [
        ("Method", document.method),
        ("Cohort", f"{cohort}: {clients}, {count_of(len(document.classes), 'class')}"),
        ("Cohort's fingerprint", document.fingerprint[:12]),
        ("Seed", str(plan.get("seed", "-"))),
        ("Rounds", f"{progress.finished_rounds:,} of {progress.rounds:,}"),
        ("Passes over the training data", "-" if progress.passes is None else f"{progress.passes:.1f}"),
        ("Local work a round", f"{work}, batches of {plan.get('batch_size', '-')}{drawn}"),
        ("Clients a round", "all" if some is None else str(some)),
        ("Made by", ", ".join(f"{name} {version}" for name, version in versions.items())),
    ]
    return tuple(rows)


def _notes(
    document: RunDocument,
    progress: RunProgress,
    lines: Lines,
    evaluations: Sequence[StoredEvaluation],
    cohort: Cohort | str,
) -> list[tuple[str, str]]:
    """Return the notes: code and sentence."""
    name, notes = name_of_run(document.path), []
    if isinstance(cohort, Cohort) and cohort.meta.get("synthetic"):
        notes.append(("synthetic", "Its patients are synthetic: the scores only show that the software runs."))
    if not evaluations:
        notes.append(("not-evaluated", f"not evaluated: run 'ecgfed evaluate {name}'"))
    elif all(evaluation.split != "test" for evaluation in evaluations):
        text = f"Not evaluated on the test split: run 'ecgfed evaluate {name}'. Validation scores are shown."
        notes.append(("not-evaluated-on-test", text))
    for evaluation in evaluations:
        if evaluation.round != progress.finished_rounds:
            again = f"run 'ecgfed evaluate {name} {evaluation.command}' again"
            rounds = f"is of round {evaluation.round:,}, and the run has {progress.finished_rounds:,}"
            notes.append(("old-evaluation", f"{evaluation.folder} {rounds}: {again}"))
    if progress.finished_rounds < progress.rounds:
        text = f"The run is not finished: {progress.finished_rounds:,} of {count_of(progress.rounds, 'round')}."
        notes.append(("not-finished", text))
    if text := never_predicted(lines):
        notes.append(("never-predicted", text))
    return notes


def never_predicted(lines: Lines) -> str:
    """Return the classes that the global model never predicted at its last validation, as a sentence, or ``""``."""
    recorded = [line for line in lines if isinstance(line.get("never_predicted"), list)]
    if not (recorded and recorded[-1]["never_predicted"]):
        return ""
    never = ", ".join(map(str, recorded[-1]["never_predicted"]))
    return f"On validation beats of round {recorded[-1]['round']:,} the global model never predicts: {never}."


def _title(evaluation: StoredEvaluation) -> str:
    title = "Test split" if evaluation.split == "test" else "Validation split"
    if evaluation.personal:
        source = "of the method" if evaluation.personal == "method" else f"by {evaluation.personal}"
        title += f", personal answers {source}"
    if evaluation.leave_out != "nothing":
        title += f", without {evaluation.leave_out}"
    return title


def _scored(evaluation: StoredEvaluation, evaluations: Sequence[StoredEvaluation], what: str) -> Scored:
    """Return one evaluation, with scores of alternative personal models on the same beats."""
    same = ("split", "leave_out", "protocol", "round")
    alternatives = [
        candidate
        for candidate in evaluations
        if candidate is not evaluation
        and candidate.personal
        and all(getattr(candidate, name) == getattr(evaluation, name) for name in same)
    ]
    worst = {patient.client for patient in evaluation.worst_tenth()}
    by_client = [{patient.client: patient.personal_f1 for patient in candidate.patients} for candidate in alternatives]
    patients = [
        ScoredPatient(
            patient.client,
            patient.beats,
            patient.classes,
            patient.global_f1,
            patient.personal_f1,
            patient.generalisation_f1,
            patient.client in worst,
            tuple(table.get(patient.client) for table in by_client),
            patient.site,
        )
        for patient in sorted(evaluation.patients, key=lambda patient: -patient.gain)
    ]
    more = [(label, f"{evaluation.scores[name]:.3f}") for name, label in _ALSO.items() if name in evaluation.scores]
    more += [(f"T_p with the {name}", f"{value:.3f}") for name, value in evaluation.variants.items()]
    more += [(f"{name} of the local models", f"{value:.3f}") for name, value in evaluation.local.items()]
    if evaluation.protocol:
        more.append(("Global model, for a method without one", evaluation.protocol))
    of_sites = dict.fromkeys(name for row in evaluation.sites for name, f1 in row.classes.items() if f1 is not None)
    return Scored(
        _title(evaluation),
        evaluation.split,
        evaluation.personal,
        evaluation.round,
        evaluation.beats,
        evaluation.scores,
        evaluation.scores_truth,
        tuple(more),
        tuple(row for row in evaluation.classes if row.beats or row.predicted),
        tuple(patients),
        tuple(candidate.personal for candidate in alternatives),
        evaluation.confusion,
        evaluation.confusion_personal,
        tuple(sorted(evaluation.sites, key=lambda site: 2.0 if site.personal_f1 is None else site.personal_f1)),
        tuple(of_sites),
    )


def numbers_of(line: dict[str, Any], names: Sequence[str]) -> tuple[float, ...] | None:
    """Return some values of a history line; None unless all are numbers that can be plotted."""
    values = [line.get(name) for name in names]
    numbers = [
        float(value)
        for value in values
        if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _MOST
    ]
    return tuple(numbers) if len(numbers) == len(values) else None


def _curve(lines: Lines, name: str, label: str) -> Curve:
    """Return a curve over rounds of the finite values of a key."""
    points = [numbers for line in lines if (numbers := numbers_of(line, ("round", name))) is not None]
    return Curve(label, tuple((number, value) for number, value in points))


def panels_of(lines: Lines, where: Path) -> list[Panel]:
    """Return the learning curves of a history; raises RunError if a round lacks its loss."""
    if not lines:
        return []
    for line in lines:
        for name in ("loss_mean", "loss_max"):
            typed(line, name, float, where, _RESTORE)
    losses = (_curve(lines, "loss_mean", "mean over clients"), _curve(lines, "loss_max", "worst client"))
    panels = [Panel("Training loss", "round", losses, log=True)]
    scores = [curve for name, label in _SCORES.items() if (curve := _curve(lines, name, label)).points]
    if scores:
        panels.append(Panel("Macro-F1 on the validation split", "round", tuple(scores), span=(0.0, 1.0)))
    rest = dict.fromkeys(name for line in lines for name in line if name not in (*_NO_CURVES, *_SCORES))
    for name in rest:
        curve = _curve(lines, name, _MEANINGS.get(name, name))
        if curve.points:
            panels.append(Panel(_MEANINGS.get(name, name), "round", (curve,)))
    return panels


def _mixes(cohort: Cohort) -> Mixes:
    clients = cohort.federation
    counts = np.stack([cohort.class_counts(client, TRAIN) for client in clients])
    valid, test = (np.array([len(cohort.rows(client, part)) for client in clients]) for part in (VALID, TEST))
    return Mixes(tuple(client.id for client in clients), counts.astype(np.int64), valid, test)


def _seconds(timing: Lines, where: Path, finished_rounds: int) -> tuple[tuple[str, str | None], ...]:
    seconds = [typed(line, "seconds", float, where, _RESTORE) for line in timing]
    for took in seconds:
        if not 0 <= took < _LONGEST_S:  # NaN too
            raise RunError(where, f"seconds is {took:g}", "the time of a round", _RESTORE)
    names = ("Training time", "A round, median", "Examples a second")
    if not seconds:
        return tuple((name, None) for name in names)
    timed = [
        (examples, took) for line, took in zip(timing, seconds, strict=True) if (examples := examples_of(line, where))
    ]
    total = sum(took for _, took in timed)
    part = "" if len(seconds) == finished_rounds else f" of {len(seconds):,} of {count_of(finished_rounds, 'round')}"
    rate = f"{sum(examples for examples, _ in timed) / total:,.0f}" if total > 0 else None
    return (
        (names[0], f"{duration(sum(seconds))}{part}"),
        (names[1], f"{statistics.median(seconds):.2f} s"),
        (names[2], rate),
    )


def duration(seconds: float) -> str:
    """Format a time: ``41.3 s``, ``26 min 5 s``, ``3 h 12 min``."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60:,} h {minutes % 60} min"
