"""Read and validate the scores of ``ecgfed evaluate``: ``evaluation-SPLIT/scores.json``."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ecgfed.base.errors import RunError
from ecgfed.base.files import read_json
from ecgfed.base.plugins import names_code
from ecgfed.core.runs.document import RunDocument, typed
from ecgfed.core.runs.draws import read_draws
from ecgfed.core.runs.intervals import Draws

FILE_NAME = "scores.json"
#: Version of ``scores.json`` from which it names the scored run; versions 0.1 and 0.2 wrote no version.
SCHEMA_VERSION = 2
#: Scored splits, and folder suffixes for ``--leave-out``.
SPLITS = ("valid", "test")
LEFT_OUT = {"nothing": "", "poor-quality": "-without-poor-quality"}


@dataclass(frozen=True)
class ClassScore:
    """Score of the global model on one class: true beats, predicted beats, F1 (None if both are 0)."""

    name: str
    beats: int
    predicted: int
    f1: float | None


@dataclass(frozen=True)
class Evaluation:
    """The scores of one run on one split.

    Attributes:
        round: the scored round.
        protocol: global model of a method without one.
        scores: macro-F1 by name: T_g, T_p, T_r, T_l and others.
        classes: scores of the global model per class.
        personal_f1: macro-F1 of each patient's model on that patient's beats.
        global_f1: macro-F1 of the global model on them.
        sites: of a joined cohort: site -> ``personal``, mean macro-F1 of its patients' models, and ``global``, macro-F1
            of the global model on its beats; None for a site without scored beats.
        draws: T_g, T_p, T_r and T_l when patients are drawn with replacement; {} where the evaluation is older.
    """

    round: int
    protocol: str
    scores: dict[str, float]
    classes: tuple[ClassScore, ...]
    personal_f1: dict[str, float]
    global_f1: dict[str, float]
    sites: dict[str, dict[str, float | None]] = field(default_factory=dict)
    draws: Draws = field(default_factory=dict)


def folder_name(split: str, leave_out: str = "nothing") -> str:
    """Return the folder name of a split's scores: ``evaluation-test``."""
    return f"evaluation-{split}{LEFT_OUT[leave_out]}"


def command(run: Path, split: str, leave_out: str = "nothing") -> str:
    """Return the command that creates an evaluation."""
    more = "" if leave_out == "nothing" else f" --leave-out {leave_out}"
    return f"ecgfed evaluate {run} --split {split}{more}"


def check_result(result: Mapping[str, Any], file: Path, method: str, identity: str, again: str) -> None:
    """Check that scores match the run, the method, and the split and exclusions in their folder's name.

    Args:
        result: contents of ``scores.json``; fields missing in version 0.1 and 0.2 are not compared.
        identity: of the run (``identity_of``).
        again: action for the error message.

    Raises:
        RunError: a mismatch, or a missing identity.
    """
    version = typed({"schema_version": 1, **result}, "schema_version", int, file, again)
    if not 1 <= version <= SCHEMA_VERSION:
        raise RunError(file, f"schema version {version}", f"at most {SCHEMA_VERSION}", "read it with a newer ecgfed")
    if version == SCHEMA_VERSION and "run_identity" not in result:
        raise RunError(file, "does not say which run it scored", "run_identity", again)
    folder = file.parent.name
    names = [*(name for name in SPLITS if folder.startswith(f"evaluation-{name}")), ""]
    expected = {"run_identity": identity}
    if not names_code(method):  # scores have the class name of a custom method
        expected["method"] = method
    if names[0]:
        expected["split"] = names[0]
        if "-without-" not in folder:
            expected["leave_out"] = "nothing"
    for name, value in expected.items():
        if name in result and result[name] != value:
            actual = f"is of another run or split: {name} is {str(result[name])!r:.80}"
            raise RunError(file, actual, repr(value)[:80], again)


def read_result(file: Path, run: RunDocument, again: str) -> dict[str, Any]:
    """Return the contents of a run's ``scores.json``; raises RunError as ``check_result``."""
    result = read_json(file, RunError)
    if not isinstance(result, dict):
        raise RunError(file, "is no JSON object", "scores", again)
    check_result(result, file, run.method, run.identity, again)
    return result


def rows_of(result: dict[str, Any], name: str, file: Path, again: str) -> list[dict[str, Any]]:
    """Return a table of ``scores.json``; raises RunError if it is not a list of objects."""
    rows = typed(result, name, list, file, again)
    if not all(isinstance(row, dict) for row in rows):
        raise RunError(file, f"{name} holds what is no JSON object", "a row of scores", again)
    return rows


def read_evaluation(run: RunDocument, split: str, leave_out: str = "nothing") -> Evaluation | None:
    """Read a split's scores; None if the run was not evaluated on it; raises RunError (damaged, or of another run)."""
    file = run.path / folder_name(split, leave_out) / FILE_NAME
    if not file.is_file():
        return None
    again = f"run '{command(run.path, split, leave_out)}' again"
    result = read_result(file, run, again)
    scores = typed(result, "scores", dict, file, again)
    patients = rows_of(result, "per_patient", file, again)
    return Evaluation(
        typed(result, "round", int, file, again),
        str(result.get("protocol", "")),
        {name: typed(scores, name, float, file, again) for name in scores},
        tuple(_class_score(row, file, again) for row in rows_of(result, "per_class", file, again)),
        {typed(row, "client", str, file, again): _f1(row, "personal_f1", file, again) for row in patients},
        {typed(row, "client", str, file, again): _f1(row, "global_f1", file, again) for row in patients},
        {
            typed(row, "site", str, file, again): {
                model: None if row.get(f"{model}_f1") is None else _f1(row, f"{model}_f1", file, again)
                for model in ("personal", "global")
            }
            for row in rows_of({"per_site": [], **result}, "per_site", file, again)
        },
        read_draws(file.parent),
    )


def _f1(row: dict[str, Any], name: str, file: Path, again: str) -> float:
    f1 = typed(row, name, float, file, again)
    if not 0 <= f1 <= 1:  # NaN is rejected too
        raise RunError(file, f"{name} is {f1:g}", "0 to 1", again)
    return f1


def _class_score(row: dict[str, Any], file: Path, again: str) -> ClassScore:
    f1 = None if row.get("f1") is None else typed(row, "f1", float, file, again)
    beats, predicted = (typed(row, name, int, file, again) for name in ("beats", "predicted"))
    return ClassScore(typed(row, "class", str, file, again), beats, predicted, f1)
