"""What a run folder says about itself: how far it is, how well, how fast. No torch on this path."""

import os
import statistics
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ecgfed.errors import EcgfedError, OptionError
from ecgfed.runs.document import CHECKPOINT, FILE_NAME, PROGRESS, RunDocument, finished_rounds, read_document, typed
from ecgfed.runs.evaluations import LEFT_OUT, SPLITS, read_evaluation
from ecgfed.runs.history import HISTORY, TIMING, read_lines

#: Rounds that the current speed is taken over.
WINDOW = 20
_RESTORE = "restore the file"
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


def summarise_run(path: Path) -> dict[str, Any]:
    """Return one row of ``ecgfed runs list``, JSON-ready.

    Returns:
        ``run`` (path), ``method``, ``rounds_done``, ``rounds``, ``passes``, ``valid_T_g`` and ``valid_T_p`` (the last
        ones, or None), ``state`` (``finished``, ``unfinished`` or ``unreadable``), ``saved`` (ISO time of the last
        checkpoint, UTC, or None) and ``problem`` (why it is unreadable, or None).
    """
    row: dict[str, Any] = dict.fromkeys(
        ("method", "rounds_done", "rounds", "passes", "valid_T_g", "valid_T_p", "state", "saved", "problem")
    )
    try:
        row |= progress_of(read_document(path))
    except EcgfedError as problem:
        row |= {"state": "unreadable", "problem": str(problem)}
    return {"run": str(path), **row}


def progress_of(document: RunDocument) -> dict[str, Any]:
    """Return how far a run is, without ``run`` and ``problem`` of ``summarise_run``; raises RunError."""
    path = document.path
    done = finished_rounds(path, document.identity)
    lines = read_lines(path / HISTORY, done)
    scores = {"valid_T_g": None, "valid_T_p": None, **last_scores(lines, path / HISTORY)}
    passes = typed(lines[-1], "passes", float, path / HISTORY, _RESTORE) if lines else None
    return {
        "method": document.method,
        "rounds_done": done,
        "rounds": document.rounds,
        "passes": passes if done else 0.0,
        **scores,
        "state": "finished" if done >= document.rounds else "unfinished",
        "saved": _saved(path / CHECKPOINT / PROGRESS) if done else None,
    }


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


def describe_run(path: Path) -> dict[str, Any]:
    """Return all that ``ecgfed runs show`` says, JSON-ready.

    Returns:
        What ``summarise_run`` returns, and ``settings``, ``plan``, ``net``, ``cohort`` (path, fingerprint, clients,
        classes), ``versions``, ``losses`` (mean and worst of the last round), ``valid`` (round -> scores),
        ``evaluations`` (split, with what was left out -> scores of 'ecgfed evaluate') and ``speed``:
        ``seconds_a_round`` (median), ``samples_per_s`` and ``rounds_timed``, over all rounds and, as ``recent``,
        over the last 20.

    Raises:
        RunError: it is no run, or cannot be read.
    """
    document = read_document(path)
    progress = progress_of(document)
    history, done = path / HISTORY, progress["rounds_done"]
    lines, timing = read_lines(history, done), read_lines(path / TIMING, done)
    losses = {name: typed(line, name, float, history, _RESTORE) for line in lines[-1:] for name in _LOSSES}
    return {
        "run": str(path),
        **progress,
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
        "losses": losses or None,
        "valid": {line["round"]: scores for line in lines if (scores := last_scores([line], history))},
        "evaluations": _evaluations(path),
        "speed": {**_speed(timing, path), "recent": _speed(timing[-WINDOW:], path)},
    }


def _evaluations(path: Path) -> dict[str, Any]:
    found = {}
    for split in SPLITS:
        for leave_out, suffix in LEFT_OUT.items():
            if result := read_evaluation(path, split, leave_out):
                found[f"{split}{suffix}"] = {"round": result.round, **result.scores}
    return found


def _speed(timing: list[dict[str, Any]], path: Path) -> dict[str, Any]:
    """Return seconds a round and samples a second; None where timing.jsonl does not say."""
    if not timing:
        return {"rounds_timed": 0, "seconds_a_round": None, "samples_per_s": None}
    seconds = [typed(line, "seconds", float, path / TIMING, _RESTORE) for line in timing]
    examples = [_examples(line, path / TIMING) for line in timing]
    elapsed = sum(took for took, count in zip(seconds, examples, strict=True) if count)  # rounds that say both
    return {
        "rounds_timed": len(timing),
        "seconds_a_round": statistics.median(seconds),
        "samples_per_s": sum(examples) / elapsed if elapsed else None,
    }


def _examples(line: dict[str, Any], where: Path) -> float:
    """What a round went through; version 0.1 wrote ``beats``, and its first runs nothing."""
    name = "examples" if "examples" in line else "beats"
    return typed({"beats": 0, **line}, name, float, where, _RESTORE)
