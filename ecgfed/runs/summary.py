"""What a run folder says about itself: how far it is, how well, how fast."""

import os
import statistics
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ecgfed.errors import EcgfedError, OptionError, RunError
from ecgfed.files import read_json
from ecgfed.runs.history import HISTORY, TIMING, read_lines
from ecgfed.runs.run import FILE_NAME, Run, open_run

#: Rounds that the current speed is taken over.
WINDOW = 20


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
        row |= _progress(open_run(path))
    except EcgfedError as problem:
        row |= {"state": "unreadable", "problem": str(problem)}
    return {"run": str(path), **row}


def _progress(run: Run) -> dict[str, Any]:
    done = run.store.rounds()
    lines = read_lines(run.path / HISTORY, done)
    saved = run.store.folder / "progress.json"
    when = datetime.fromtimestamp(saved.stat().st_mtime, UTC).isoformat(timespec="seconds") if done else None
    scores = dict.fromkeys(("valid_T_g", "valid_T_p")) | last_scores(lines)
    return {
        "method": run.method.name,
        "rounds_done": done,
        "rounds": run.plan.rounds,
        "passes": lines[-1]["passes"] if lines else 0.0,
        **scores,
        "state": "finished" if done >= run.plan.rounds else "unfinished",
        "saved": when,
    }


def last_scores(lines: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the newest validation scores in lines of a history."""
    found: dict[str, Any] = {}
    for line in lines:
        found |= {name: value for name, value in line.items() if name.startswith("valid_")}
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
    run = open_run(path)
    progress = _progress(run)
    lines = read_lines(run.path / HISTORY, progress["rounds_done"])
    meta = run.meta
    timing = read_lines(run.path / TIMING, progress["rounds_done"])
    return {
        "run": str(path),
        **progress,
        "settings": meta["settings"],
        "plan": meta["plan"],
        "net": meta["net"],
        "cohort": {**meta["cohort"], "clients": len(meta.get("clients", ())), "classes": list(meta.get("classes", ()))},
        "versions": {"ecgfed": meta.get("tool_version"), **meta.get("versions", {})},
        "losses": {name: lines[-1][name] for name in ("loss_mean", "loss_max")} if lines else None,
        "valid": {line["round"]: scores for line in lines if (scores := last_scores([line]))},
        "evaluations": _evaluations(run.path),
        "speed": {**_speed(timing), "recent": _speed(timing[-WINDOW:])},
    }


def _evaluations(path: Path) -> dict[str, Any]:
    found = {}
    # beside the whole split, what 'ecgfed evaluate --leave-out poor-quality' found
    for split in ("valid", "valid-without-poor-quality", "test", "test-without-poor-quality"):
        file = path / f"evaluation-{split}" / "scores.json"
        if file.is_file():
            result = read_json(file, RunError)
            try:
                found[split] = {"round": result["round"], **result["scores"]}
            except (KeyError, TypeError) as problem:
                raise RunError(file, f"lacks {problem}", "scores", f"run 'ecgfed evaluate {path}' again") from None
    return found


def _speed(timing: list[dict[str, Any]]) -> dict[str, Any]:
    """Return seconds a round and samples a second; None where timing.jsonl does not say."""
    if not timing:
        return {"rounds_timed": 0, "seconds_a_round": None, "samples_per_s": None}
    counted = [line for line in timing if _examples(line)]  # runs of the first version have none
    elapsed = sum(line["seconds"] for line in counted)
    return {
        "rounds_timed": len(timing),
        "seconds_a_round": statistics.median(line["seconds"] for line in timing),
        "samples_per_s": sum(map(_examples, counted)) / elapsed if elapsed else None,
    }


def _examples(line: dict[str, Any]) -> int:
    """What a round went through; version 0.1 wrote ``beats``."""
    return int(line.get("examples", line.get("beats", 0)))
