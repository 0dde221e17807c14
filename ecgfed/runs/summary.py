"""What a run folder says about itself: how far it is, how well, how fast. No torch on this path."""

import os
import statistics
from dataclasses import asdict, dataclass, fields
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
    found = []
    for place, below, files in os.walk(folder):
        if FILE_NAME in files:
            found.append(Path(place))
            below.clear()
        below[:] = sorted(name for name in below if not name.startswith("."))
    return found


@dataclass(frozen=True)
class RunProgress:
    """How far a run is.

    Attributes:
        method: its method's name, or where that lies.
        rounds_done: rounds of the last checkpoint.
        rounds: rounds asked for.
        passes: over the training beats, or None where the history lacks its lines.
        valid_T_g: the last one on the validation split, or None.
        valid_T_p: likewise.
        state: ``finished`` or ``unfinished``.
        saved: ISO time of the last checkpoint, UTC, or None.
    """

    method: str
    rounds_done: int
    rounds: int
    passes: float | None
    valid_T_g: float | None  # noqa: N815 (the paper's name)
    valid_T_p: float | None  # noqa: N815
    state: str
    saved: str | None


@dataclass(frozen=True)
class RunRow:
    """One row of ``ecgfed runs list``: a run's path, and how far it is, or the problem why nobody can tell."""

    run: Path
    progress: RunProgress | None
    problem: str | None

    def as_json(self) -> dict[str, Any]:
        """Return it JSON-ready, flat; ``state`` is ``unreadable`` and the rest null where there is a problem."""
        empty = {**dict.fromkeys(field.name for field in fields(RunProgress)), "state": "unreadable"}
        found = empty if self.progress is None else asdict(self.progress)
        return {"run": str(self.run), **found, "problem": self.problem}


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
            **asdict(self.progress),
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
    done = finished_rounds(document.path, document.identity)
    lines = read_lines(history, done)
    scores = last_scores(lines, history)
    passes = typed(lines[-1], "passes", float, history, _RESTORE) if lines else None
    return RunProgress(
        document.method,
        done,
        document.rounds,
        passes if done else 0.0,
        scores.get("valid_T_g"),
        scores.get("valid_T_p"),
        "finished" if done >= document.rounds else "unfinished",
        _saved(document.path / CHECKPOINT / PROGRESS) if done else None,
    )


def _saved(file: Path) -> str | None:
    try:
        return datetime.fromtimestamp(file.stat().st_mtime, UTC).isoformat(timespec="seconds")
    except (OSError, ValueError, OverflowError):  # gone meanwhile, or a time no calendar has
        return None


def last_scores(lines: list[dict[str, Any]], where: Path) -> dict[str, float]:
    """Return the newest validation scores in lines of a history; raises RunError where one is no number."""
    found: dict[str, float] = {}
    for line in lines:
        found |= {name: typed(line, name, float, where, _RESTORE) for name in line if name.startswith("valid_")}
    return found


def describe_run(path: Path) -> RunDescription:
    """Return all that ``ecgfed runs show`` says; raises RunError where it is no run, or cannot be read."""
    document = read_document(path)
    progress = progress_of(document)
    history, done = path / HISTORY, progress.rounds_done
    lines, timing = read_lines(history, done), read_lines(path / TIMING, done)
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
    found = {}
    for split in SPLITS:
        for leave_out, suffix in LEFT_OUT.items():
            if result := read_evaluation(document, split, leave_out):
                found[f"{split}{suffix}"] = {"round": result.round, **result.scores}
    return found


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
