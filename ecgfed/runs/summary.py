"""What a run folder says about itself: how far it is, how well, how fast. No torch on this path."""

import os
import statistics
from dataclasses import Field, asdict, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ecgfed.errors import EcgfedError, OptionError
from ecgfed.runs.document import CHECKPOINT, FILE_NAME, PROGRESS, RunDocument, finished_rounds, read_document, typed
from ecgfed.runs.evaluations import LEFT_OUT, SPLITS, read_evaluation
from ecgfed.runs.history import HISTORY, TIMING, read_lines

#: Rounds that the current speed is taken over.
WINDOW = 20
_RESTORE = "restore the file from a backup"
_LOSSES = ("loss_mean", "loss_max")


def find_runs(folder: Path) -> list[Path]:
    """Return the run folders below a folder (itself included) in order of their names; hidden folders are passed by.

    Raises:
        OptionError: it is no folder.
    """
    if not folder.is_dir():
        raise OptionError("DIR", f"{folder} is not a folder", "a folder with runs of 'ecgfed train' in it")
    runs = []
    for parent, below, files in os.walk(folder):
        if FILE_NAME in files:
            runs.append(Path(parent))
            below.clear()
        below[:] = sorted(name for name in below if not name.startswith("."))
    return runs


@dataclass(frozen=True)
class RunProgress:
    """How far a run is.

    Attributes:
        method: its method's name, or where that lies.
        finished_rounds: rounds of the last checkpoint.
        rounds: rounds asked for.
        passes: over the training beats, or None where the history lacks its lines.
        valid_T_g: the last one on the validation split, or None.
        valid_T_p: likewise.
        state: ``finished`` or ``unfinished``.
        saved: ISO time of the last checkpoint, UTC, or None.
    """

    method: str
    finished_rounds: int
    rounds: int
    passes: float | None
    valid_T_g: float | None  # noqa: N815 (the paper's name)
    valid_T_p: float | None  # noqa: N815
    state: str
    saved: str | None

    def as_json(self) -> dict[str, Any]:
        """Return a JSON-ready dictionary."""
        return {_json_key(field): getattr(self, field.name) for field in fields(self)}


def _json_key(field: Field[Any]) -> str:
    """Return a field's key in JSON: ``rounds_done`` for ``finished_rounds``."""
    return "rounds_done" if field.name == "finished_rounds" else field.name


@dataclass(frozen=True)
class RunRow:
    """One row of ``ecgfed runs list``: a run's path, and how far it is, or the problem why nobody can tell."""

    run: Path
    progress: RunProgress | None
    problem: str | None

    def as_json(self) -> dict[str, Any]:
        """Return it JSON-ready, flat; ``state`` is ``unreadable`` and the rest null where there is a problem."""
        empty = {**dict.fromkeys(map(_json_key, fields(RunProgress))), "state": "unreadable"}
        values = empty if self.progress is None else self.progress.as_json()
        return {"run": str(self.run), **values, "problem": self.problem}


@dataclass(frozen=True)
class Speed:
    """Median seconds a round and samples a second, over so many rounds; None where timing.jsonl does not say."""

    rounds_timed: int
    seconds_a_round: float | None
    samples_per_s: float | None


@dataclass(frozen=True)
class RunDescription:
    """All that ``ecgfed runs show`` says.

    Attributes:
        document: what was asked for.
        progress: how far it is.
        losses: ``loss_mean`` and ``loss_max`` of the last round; empty before the first.
        valid: round -> validation scores by name.
        evaluations: split, with what was left out -> round and scores of 'ecgfed evaluate'.
        speed: over all rounds.
        recent: over the last 20.
    """

    document: RunDocument
    progress: RunProgress
    losses: dict[str, float]
    valid: dict[int, dict[str, float]]
    evaluations: dict[str, dict[str, float]]
    speed: Speed
    recent: Speed

    def as_json(self) -> dict[str, Any]:
        """Return it JSON-ready."""
        document = self.document
        return {
            "run": str(document.path),
            **self.progress.as_json(),
            "settings": document.settings,
            "plan": document.plan,
            "net": document.net,
            "cohort": {
                "path": document.cohort_path,
                "fingerprint": document.fingerprint,
                "clients": len(document.clients),
                "classes": list(document.classes),
            },
            "versions": document.versions,
            "losses": self.losses or None,
            "valid": self.valid,
            "evaluations": self.evaluations,
            "speed": {**asdict(self.speed), "recent": asdict(self.recent)},
        }


def summarise_run(path: Path) -> RunRow:
    """Return one row of ``ecgfed runs list``; a damaged run is a row too."""
    try:
        return RunRow(path, progress_of(read_document(path)), None)
    except EcgfedError as problem:
        return RunRow(path, None, problem.line)


def progress_of(document: RunDocument) -> RunProgress:
    """Return how far a run is; raises RunError."""
    history = document.path / HISTORY
    finished = finished_rounds(document.path, document.identity)
    lines = read_lines(history, finished)
    scores = last_scores(lines, history)
    passes = typed(lines[-1], "passes", float, history, _RESTORE) if lines else None
    return RunProgress(
        document.method,
        finished,
        document.rounds,
        passes if finished else 0.0,
        scores.get("valid_T_g"),
        scores.get("valid_T_p"),
        "finished" if finished >= document.rounds else "unfinished",
        _saved(document.path / CHECKPOINT / PROGRESS) if finished else None,
    )


def _saved(file: Path) -> str | None:
    try:
        return datetime.fromtimestamp(file.stat().st_mtime, UTC).isoformat(timespec="seconds")
    except (OSError, ValueError, OverflowError):  # gone meanwhile, or a time no calendar has
        return None


def last_scores(lines: list[dict[str, Any]], where: Path) -> dict[str, float]:
    """Return the newest validation scores in lines of a history; raises RunError where one is no number."""
    scores: dict[str, float] = {}
    for line in lines:
        scores |= {name: typed(line, name, float, where, _RESTORE) for name in line if name.startswith("valid_")}
    return scores


def describe_run(path: Path) -> RunDescription:
    """Return all that ``ecgfed runs show`` says; raises RunError where it is no run, or cannot be read."""
    document = read_document(path)
    progress = progress_of(document)
    history, finished = path / HISTORY, progress.finished_rounds
    lines, timing = read_lines(history, finished), read_lines(path / TIMING, finished)
    return RunDescription(
        document,
        progress,
        {
            name: typed(line, name, float, history, _RESTORE)
            for line in lines[-1:]
            for name in ("loss_mean", "loss_max")
        },
        {line["round"]: scores for line in lines if (scores := last_scores([line], history))},
        _evaluations(document),
        _speed(timing, path),
        _speed(timing[-WINDOW:], path),
    )


def _evaluations(document: RunDocument) -> dict[str, dict[str, float]]:
    scores = {}
    for split in SPLITS:
        for leave_out, suffix in LEFT_OUT.items():
            if result := read_evaluation(document, split, leave_out):
                scores[f"{split}{suffix}"] = {"round": result.round, **result.scores}
    return scores


def _speed(timing: list[dict[str, Any]], path: Path) -> Speed:
    if not timing:
        return Speed(0, None, None)
    seconds = [typed(line, "seconds", float, path / TIMING, _RESTORE) for line in timing]
    examples = [examples_of(line, path / TIMING) for line in timing]
    elapsed = sum(took for took, count in zip(seconds, examples, strict=True) if count)  # rounds that say both
    return Speed(len(timing), statistics.median(seconds), sum(examples) / elapsed if elapsed else None)


def examples_of(line: dict[str, Any], where: Path) -> float:
    """Return what a round of ``timing.jsonl`` went through; version 0.1 wrote ``beats``, and its first runs nothing.

    Raises RunError where it is no number.
    """
    name = "examples" if "examples" in line else "beats"
    return typed({"beats": 0, **line}, name, float, where, _RESTORE)
