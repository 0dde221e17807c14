"""What a run's page holds, gathered from the run's folder and its cohort. No torch, but where bytes are measured."""

import os
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ecgfed.base.errors import EcgfedError, RunError
from ecgfed.base.plugins import names_code
from ecgfed.base.text import count_of
from ecgfed.core.runs.document import RunDocument, read_document, typed
from ecgfed.core.runs.history import HISTORY, TIMING, read_lines
from ecgfed.core.runs.stored_evaluations import StoredEvaluation, read_evaluations
from ecgfed.core.runs.summary import RunProgress, examples_of, progress_of
from ecgfed.domain.cohort.cohort import Cohort, open_cohort
from ecgfed.domain.cohort.split import TEST, TRAIN, VALID
from ecgfed.reports.charts import Curve, Panel
from ecgfed.reports.run_parts import Mixes, RunParts, Scored, ScoredClass, ScoredPatient, Sent

USE = "Research use only, not for diagnosis."
#: A number of this size is no loss of any training, and its square no number.
_MOST = 1e100
#: No round takes 30,000 years.
_LONGEST_S = 1e12
_RESTORE = "restore the file"
#: Keys of a line of the history that are no curve.
_NO_CURVES = {"round", "passes", "loss_mean", "loss_max", "worst_client"}
_SCORES = {"valid_T_g": "global answer, pooled (T_g)", "valid_T_p": "personal answers, mean (T_p)"}
_ALSO = {"T_p_global": "T_p of the global model", "T_l_clients": "T_l, mean of the patients' own harmonic means"}
#: What other numbers of a round mean, where their name does not say it.
_MEANINGS = {
    "q": "q, the weight of high losses",
    "sigma": "sigma, spread of the clients' losses",
    "effective_clients": "effective clients, by their weights",
}
Lines = list[dict[str, Any]]


def name_of_run(path: Path) -> str:
    """Return what a run is called on a page: its folder, without the way there, which may name a person."""
    return path.resolve().name


def run_parts(path: Path, cohort: Path | None) -> RunParts:
    """Gather a run's page.

    Args:
        path: the run's folder.
        cohort: where its cohort lies now; None: where it lay.

    Raises:
        RunError: it is no run, or damaged.
        CohortError, RunError: a cohort that was named cannot be opened, or is another one.
    """
    document = read_document(path)
    progress = progress_of(document)
    lines, timing = (read_lines(path / name, progress.finished_rounds) for name in (HISTORY, TIMING))
    kept = read_evaluations(document)
    opened = _cohort(document, cohort)
    images = any(one.images for one in kept) or (isinstance(opened, Cohort) and opened.modality == "image")
    what = "images" if images else "beats"
    return RunParts(
        name_of_run(path),
        document.method,
        _about(document, progress),
        USE,
        tuple(_notes(document, progress, lines, kept, opened)),
        what,
        document.classes,
        tuple(_scored(one, kept, what) for one in kept),
        tuple(panels_of(lines, path / HISTORY)),
        _mixes(opened) if isinstance(opened, Cohort) else opened,
        _sent(document, lines),
        _seconds(timing, path / TIMING, progress.finished_rounds),
        _settings(document),
    )


def _cohort(document: RunDocument, named: Path | None) -> Cohort | str:
    """Return the run's cohort, or why nobody can look into it; one that was named has to be the right one."""
    where = document.path / document.cohort_path if named is None else named
    if named is None and not where.is_dir():
        return "its cohort is not where it was; say where it lies with --cohort"
    try:
        opened = open_cohort(where)
    except EcgfedError as problem:
        if named is not None:
            raise
        return f"its cohort cannot be opened ({problem.reason})"
    if opened.fingerprint != document.fingerprint:
        if named is not None:
            found = f"was trained on another cohort than {named} is (fingerprints differ)"
            raise RunError(document.path, found, action="name the right one with --cohort")
        return "what lies where its cohort was is another one; say where it lies with --cohort"
    if document.classes and opened.classes != document.classes:
        return "its cohort names other classes now"
    if document.clients and tuple(client.id for client in opened.clients) != document.clients:
        return "its cohort names other clients now"
    if document.held_out is not None and opened.held_out != document.held_out:
        return "its cohort holds out other clients now"
    return opened


def _about(document: RunDocument, progress: RunProgress) -> tuple[tuple[str, str], ...]:
    plan, versions = document.plan, document.versions
    local = plan.get("local_steps")
    epochs = plan.get("local_epochs") or 0
    work = count_of(epochs, "epoch") if local is None else count_of(local, "step")
    some = plan.get("clients_per_round")
    cohort = Path(os.path.normpath(document.cohort_path)).name
    said = [
        ("Method", document.method),
        (
            "Cohort",
            f"{cohort}: {count_of(len(document.clients), 'client')}, {count_of(len(document.classes), 'class')}",
        ),
        ("Cohort's fingerprint", document.fingerprint[:12]),
        ("Seed", str(plan.get("seed", "-"))),
        ("Rounds", f"{progress.finished_rounds:,} of {progress.rounds:,}"),
        ("Passes over the training data", "-" if progress.passes is None else f"{progress.passes:.1f}"),
        ("Local work a round", f"{work}, batches of {plan.get('batch_size', '-')}"),
        ("Clients a round", "all" if some is None else str(some)),
        ("Made by", ", ".join(f"{name} {one}" for name, one in versions.items())),
    ]
    return tuple(said)


def _notes(
    document: RunDocument, progress: RunProgress, lines: Lines, kept: Sequence[StoredEvaluation], cohort: Cohort | str
) -> list[tuple[str, str]]:
    """Return what to keep in mind: code and sentence."""
    name, notes = name_of_run(document.path), []
    if isinstance(cohort, Cohort) and cohort.meta.get("synthetic"):
        notes.append(("synthetic", "Its patients are made up: scores show that the software runs, and nothing more."))
    if not kept:
        notes.append(("not-evaluated", f"not evaluated: run 'ecgfed evaluate {name}'"))
    elif all(one.split != "test" for one in kept):
        said = f"Not evaluated on the test split: run 'ecgfed evaluate {name}'. Validation scores are shown."
        notes.append(("not-evaluated-on-test", said))
    for one in kept:
        if one.round != progress.finished_rounds:
            again = f"run 'ecgfed evaluate {name} {one.command}' again"
            said = f"{one.folder} is of round {one.round:,}, and the run has {progress.finished_rounds:,}: {again}"
            notes.append(("old-evaluation", said))
    if progress.finished_rounds < progress.rounds:
        said = f"The run is not finished: {progress.finished_rounds:,} of {count_of(progress.rounds, 'round')}."
        notes.append(("not-finished", said))
    if said := never_predicted(lines):
        notes.append(("never-predicted", said))
    return notes


def never_predicted(lines: Lines) -> str:
    """Say which classes the global model never predicted when it was last asked; empty where it predicts them all."""
    told = [line for line in lines if isinstance(line.get("never_predicted"), list)]
    if not (told and told[-1]["never_predicted"]):
        return ""
    never = ", ".join(map(str, told[-1]["never_predicted"]))
    return f"On validation beats of round {told[-1]['round']:,} the global model never predicts: {never}."


def _title(one: StoredEvaluation) -> str:
    said = "Test split" if one.split == "test" else "Validation split"
    if one.personal:
        said += f", personal answers {'of the method' if one.personal == 'method' else f'by {one.personal}'}"
    if one.leave_out != "nothing":
        said += f", without {one.leave_out}"
    return said


def _scored(one: StoredEvaluation, every: Sequence[StoredEvaluation], what: str) -> Scored:
    """Return one evaluation, beside it what other personal answers score on the same beats."""
    same = ("split", "leave_out", "protocol", "round")
    others = [
        other
        for other in every
        if other is not one and other.personal and all(getattr(other, name) == getattr(one, name) for name in same)
    ]
    worst = {patient.client for patient in one.worst_tenth()}
    by_client = [{patient.client: patient.personal_f1 for patient in other.patients} for other in others]
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
        )
        for patient in sorted(one.patients, key=lambda patient: -patient.gain)
    ]
    more = [(said, f"{one.scores[name]:.3f}") for name, said in _ALSO.items() if name in one.scores]
    more += [(f"T_p with the {name}", f"{value:.3f}") for name, value in one.variants.items()]
    more += [(f"{name} of the local models", f"{value:.3f}") for name, value in one.local.items()]
    if one.protocol:
        more.append(("Without a global model, a method answers globally by its", one.protocol))
    classes = [
        ScoredClass(row.name, row.beats, row.predicted, row.sensitivity, row.positive_predictivity, row.f1)
        for row in one.classes
        if row.beats or row.predicted
    ]
    return Scored(
        _title(one),
        one.split,
        one.personal,
        one.round,
        one.beats,
        one.scores,
        one.scores_truth,
        tuple(more),
        tuple(classes),
        tuple(patients),
        tuple(other.personal for other in others),
        one.confusion,
        one.confusion_personal,
    )


def numbers_of(line: dict[str, Any], names: Sequence[str]) -> tuple[float, ...] | None:
    """Return what stands under some names of a line of a history; None where one is no number that can be drawn."""
    values = [line.get(name) for name in names]
    found = [
        float(one) for one in values if isinstance(one, int | float) and not isinstance(one, bool) and abs(one) < _MOST
    ]
    return tuple(found) if len(found) == len(values) else None


def _curve(lines: Lines, name: str, said: str) -> Curve:
    """Return a curve over rounds: the finite numbers that stand under a name."""
    told = [found for line in lines if (found := numbers_of(line, ("round", name))) is not None]
    return Curve(said, tuple((number, value) for number, value in told))


def panels_of(lines: Lines, where: Path) -> list[Panel]:
    """Return the learning curves of a history; raises RunError where a round lacks its loss."""
    if not lines:
        return []
    for line in lines:
        for name in ("loss_mean", "loss_max"):
            typed(line, name, float, where, _RESTORE)
    losses = (_curve(lines, "loss_mean", "mean over clients"), _curve(lines, "loss_max", "worst client"))
    found = [Panel("Training loss", "round", losses, log=True)]
    scores = [one for name, said in _SCORES.items() if (one := _curve(lines, name, said)).points]
    if scores:
        found.append(Panel("Macro-F1 on the validation split", "round", tuple(scores), span=(0.0, 1.0)))
    rest = dict.fromkeys(name for line in lines for name in line if name not in (*_NO_CURVES, *_SCORES))
    for name in rest:
        one = _curve(lines, name, _MEANINGS.get(name, name))
        if one.points:
            found.append(Panel(_MEANINGS.get(name, name), "round", (one,)))
    return found


def _mixes(cohort: Cohort) -> Mixes:
    clients = cohort.federation
    counts = np.stack([cohort.class_counts(client, TRAIN) for client in clients])
    valid, test = (np.array([len(cohort.rows(client, part)) for client in clients]) for part in (VALID, TEST))
    return Mixes(tuple(client.id for client in clients), counts.astype(np.int64), valid, test)


def _sent(document: RunDocument, lines: Lines) -> Sent | str:
    """Return what travelled, or why nobody can tell."""
    if names_code(document.method):
        return "its method is somebody's own code, which is not run for a page"
    try:
        from ecgfed.core.federation.cost import round_bytes
        from ecgfed.core.runs.run import open_run
    except ImportError:
        return "it is measured with torch, which is not installed (pip install 'ecgfed[train]')"
    try:
        run = open_run(document.path)
        found = round_bytes(run.method, run.plan, len(document.clients))
    except (EcgfedError, ValueError, RuntimeError) as problem:
        return f"it could not be measured ({problem.reason if isinstance(problem, EcgfedError) else problem})"
    numbers = sorted(found)
    rows = [(f"Round {number:,}, one client", *found[number]) for number in numbers]
    rows = [row for i, row in enumerate(rows) if i == 0 or row[1:] != rows[i - 1][1:]]
    if len(rows) == 1:
        rows = [("Each round, one client", *rows[0][1:])]
    else:
        rows = [(f"{row[0]}{', and from then on' if i else ''}", *row[1:]) for i, row in enumerate(rows)]
    took = [len(line["clients"]) if isinstance(line.get("clients"), list) else None for line in lines]
    if not took or None in took:
        return Sent(tuple(rows), None, None, False)
    down = up = 0
    for line, many in zip(lines, took, strict=True):
        after = next((number for number in numbers if number >= line["round"]), numbers[-1])
        down, up = down + (many or 0) * found[after][0], up + (many or 0) * found[after][1]
    later, whole = {found[number] for number in numbers[1:]}, document.plan.get("clients_per_round") is None
    return Sent(tuple(rows), down, up, len(later) > 1 or (len(rows) > 1 and not whole))


def _seconds(timing: Lines, where: Path, done: int) -> tuple[tuple[str, str | None], ...]:
    seconds = [typed(line, "seconds", float, where, _RESTORE) for line in timing]
    for took in seconds:
        if not 0 <= took < _LONGEST_S:  # and what is no number
            raise RunError(where, f"seconds is {took:g}", "the time of a round", _RESTORE)
    names = ("Training time", "A round, median", "Examples a second")
    if not seconds:
        return tuple((name, None) for name in names)
    told = [(many, took) for line, took in zip(timing, seconds, strict=True) if (many := examples_of(line, where))]
    total = sum(took for _, took in told)
    part = "" if len(seconds) == done else f" of {len(seconds):,} of {count_of(done, 'round')}"
    rate = f"{sum(many for many, _ in told) / total:,.0f}" if total > 0 else None
    return (
        (names[0], f"{duration(sum(seconds))}{part}"),
        (names[1], f"{statistics.median(seconds):.2f} s"),
        (names[2], rate),
    )


def duration(seconds: float) -> str:
    """Write a time: ``41.3 s``, ``26 min 5 s``, ``3 h 12 min``."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60:,} h {minutes % 60} min"


def _settings(document: RunDocument) -> tuple[tuple[str, tuple[tuple[str, str], ...]], ...]:
    parts = (("The method", document.settings), ("The plan", document.plan), ("The net", document.net))
    return tuple(
        (title, tuple((name, "-" if one is None else str(one)) for name, one in values.items()))
        for title, values in parts
    )
