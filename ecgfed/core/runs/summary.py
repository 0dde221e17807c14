"""Summaries of run folders: progress, scores and speed, without torch."""

import os
import statistics
from dataclasses import Field, asdict, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ecgfed.base.errors import EcgfedError, OptionError
from ecgfed.core.runs.document import (
    CHECKPOINT,
    FILE_NAME,
    PROGRESS,
    RunDocument,
    finished_rounds,
    read_document,
    typed,
)
from ecgfed.core.runs.evaluations import LEFT_OUT, SPLITS, read_evaluation
from ecgfed.core.runs.history import HISTORY, TIMING, read_lines

#: Rounds that the current speed is averaged over.
WINDOW = 20
_RESTORE = "restore the file from a backup"
_LOSSES = ("loss_mean", "loss_max")


def find_runs(folder: Path) -> list[Path]:
    """Return the run folders in a folder (itself included), sorted by name, without hidden folders.

    Raises:
        OptionError: not a folder.
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
    """Progress of a run.

    Attributes:
        method: name or location of its method.
        finished_rounds: rounds of the last checkpoint.
        rounds: planned rounds.
        passes: over the training beats, or None if the history is incomplete.
        valid_T_g: last score on the validation split, or None.
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
    """One row of ``ecgfed runs list``: path of a run, and its progress, or the problem if it is unreadable."""

    run: Path
    progress: RunProgress | None
    problem: str | None

    def as_json(self) -> dict[str, Any]:
        """Return a flat JSON-ready dictionary; with a problem, ``state`` is ``unreadable`` and the rest null."""
        empty = {**dict.fromkeys(map(_json_key, fields(RunProgress))), "state": "unreadable"}
        values = empty if self.progress is None else self.progress.as_json()
        return {"run": str(self.run), **values, "problem": self.problem}


@dataclass(frozen=True)
class Speed:
    """Median seconds per round and samples per second over some rounds; None if not in timing.jsonl."""

    rounds_timed: int
    seconds_a_round: float | None
    samples_per_s: float | None


@dataclass(frozen=True)
class RunDescription:
    """Output of ``ecgfed runs show``.

    Attributes:
        document: configuration of the run.
        progress: its progress.
        losses: ``loss_mean`` and ``loss_max`` of the last round; empty before the first.
        valid: round -> validation scores by name.
        evaluations: split with exclusions -> round and scores of 'ecgfed evaluate'.
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
        """Return a JSON-ready dictionary."""
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
    """Return a row of ``ecgfed runs list``, also for a damaged run."""
    try:
        return RunRow(path, progress_of(read_document(path)), None)
    except EcgfedError as problem:
        return RunRow(path, None, problem.line)


def progress_of(document: RunDocument) -> RunProgress:
    """Return the progress of a run; raises RunError."""
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
    except (OSError, ValueError, OverflowError):  # deleted meanwhile, or an invalid time
        return None


def last_scores(lines: list[dict[str, Any]], where: Path) -> dict[str, float]:
    """Return the latest validation scores in records of a history; raises RunError if one is not a number."""
    scores: dict[str, float] = {}
    for line in lines:
        scores |= {name: typed(line, name, float, where, _RESTORE) for name in line if name.startswith("valid_")}
    return scores


def describe_run(path: Path) -> RunDescription:
    """Return the output of ``ecgfed runs show``; raises RunError if it is not a run, or unreadable."""
    document = read_document(path)
    progress = progress_of(document)
    history, finished = path / HISTORY, progress.finished_rounds
    lines, timing = read_lines(history, finished), read_lines(path / TIMING, finished)
    return RunDescription(
        document,
        progress,
        {name: typed(line, name, float, history, _RESTORE) for line in lines[-1:] for name in _LOSSES},
        {line["round"]: scores for line in lines if (scores := last_scores([line], history))},
        {
            f"{split}{suffix}": {"round": result.round, **result.scores}
            for split in SPLITS
            for leave_out, suffix in LEFT_OUT.items()
            if (result := read_evaluation(document, split, leave_out))
        },
        _speed(timing, path),
        _speed(timing[-WINDOW:], path),
    )


def _speed(timing: list[dict[str, Any]], path: Path) -> Speed:
    if not timing:
        return Speed(0, None, None)
    seconds = [typed(line, "seconds", float, path / TIMING, _RESTORE) for line in timing]
    examples = [examples_of(line, path / TIMING) for line in timing]
    elapsed = sum(took for took, count in zip(seconds, examples, strict=True) if count)  # rounds with both values
    return Speed(len(timing), statistics.median(seconds), sum(examples) / elapsed if elapsed else None)


def examples_of(line: dict[str, Any], where: Path) -> float:
    """Return the examples of a round in ``timing.jsonl``; version 0.1 wrote ``beats``, or nothing.

    Raises RunError if it is not a number.
    """
    return typed({"beats": 0, **line}, "examples" if "examples" in line else "beats", float, where, _RESTORE)
