"""What ``ecgfed evaluate`` left beside a run, read back and checked: ``evaluation-SPLIT/scores.json``."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ecgfed.errors import RunError
from ecgfed.files import read_json
from ecgfed.runs.document import typed

FILE_NAME = "scores.json"
#: Splits that are scored, and what ``--leave-out`` adds to the name of the folder.
SPLITS = ("valid", "test")
LEFT_OUT = {"nothing": "", "poor-quality": "-without-poor-quality"}


@dataclass(frozen=True)
class ClassScore:
    """The global answer on one class: beats of it, beats it was predicted for, F1 (None where it is neither)."""

    name: str
    beats: int
    predicted: int
    f1: float | None


@dataclass(frozen=True)
class Evaluation:
    """The scores of one run on one split.

    Attributes:
        round: the round that was scored.
        protocol: how a method without a global model answered globally.
        scores: macro-F1 by name: T_g, T_p, T_r, T_l and others.
        classes: the global answer, per class.
        personal_f1: each patient's own model on that patient's beats, macro-F1.
        global_f1: the global answer on them.
    """

    round: int
    protocol: str
    scores: dict[str, float]
    classes: tuple[ClassScore, ...]
    personal_f1: dict[str, float]
    global_f1: dict[str, float]


def folder_name(split: str, leave_out: str = "nothing") -> str:
    """Return the folder in a run that holds a split's scores: ``evaluation-test``."""
    return f"evaluation-{split}{LEFT_OUT[leave_out]}"


def command(run: Path, split: str, leave_out: str = "nothing") -> str:
    """Return the command that makes it."""
    more = "" if leave_out == "nothing" else f" --leave-out {leave_out}"
    return f"ecgfed evaluate {run} --split {split}{more}"


def read_evaluation(run: Path, split: str, leave_out: str = "nothing") -> Evaluation | None:
    """Read a split's scores; None where the run was not evaluated on it; raises RunError where they are damaged."""
    file = run / folder_name(split, leave_out) / FILE_NAME
    if not file.is_file():
        return None
    again = f"run '{command(run, split, leave_out)}' again"
    result = read_json(file, RunError)
    if not isinstance(result, dict):
        raise RunError(file, "is no JSON object", "scores", again)
    scores = typed(result, "scores", dict, file, again)
    patients = list(_rows(result, "per_patient", file, again))
    return Evaluation(
        typed(result, "round", int, file, again),
        str(result.get("protocol", "")),
        {name: typed(scores, name, float, file, again) for name in scores},
        tuple(_class_score(row, file, again) for row in _rows(result, "per_class", file, again)),
        {typed(row, "client", str, file, again): _f1(row, "personal_f1", file, again) for row in patients},
        {typed(row, "client", str, file, again): _f1(row, "global_f1", file, again) for row in patients},
    )


def _rows(result: dict[str, Any], name: str, file: Path, again: str) -> Iterator[dict[str, Any]]:
    for row in typed(result, name, list, file, again):
        if not isinstance(row, dict):
            raise RunError(file, f"{name} holds what is no JSON object", "a row of scores", again)
        yield row


def _f1(row: dict[str, Any], name: str, file: Path, again: str) -> float:
    found = typed(row, name, float, file, again)
    if not 0 <= found <= 1:  # and what is no number
        raise RunError(file, f"{name} is {found:g}", "0 to 1", again)
    return found


def _class_score(row: dict[str, Any], file: Path, again: str) -> ClassScore:
    f1 = None if row.get("f1") is None else typed(row, "f1", float, file, again)
    beats, predicted = (typed(row, name, int, file, again) for name in ("beats", "predicted"))
    return ClassScore(typed(row, "class", str, file, again), beats, predicted, f1)
