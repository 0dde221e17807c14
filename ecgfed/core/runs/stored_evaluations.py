"""Read all evaluations of a run: the ``scores.json`` of each ``evaluation-...`` folder, validated.

``ecgfed.core.runs.evaluations`` reads the scores of one split for comparisons; this module reads all, for a run's
report.
"""

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecgfed.base.errors import RunError
from ecgfed.core.runs.document import RunDocument, typed
from ecgfed.core.runs.evaluations import FILE_NAME, LEFT_OUT, SPLITS, read_result, rows_of
from ecgfed.core.scores import ClassScores, SiteScores
from ecgfed.domain.cohort.layout import EXAMPLE_WORDS

_NAME = re.compile(rf"evaluation-(?:{'|'.join(SPLITS)})(?:-.*)?")
_AGAIN = "evaluate the run again"
#: Maximum number of classes.
_MAX_CLASSES = 10_000


@dataclass(frozen=True)
class PatientRow:
    """Macro-F1 of one patient; None for values missing in the file.

    Attributes:
        client: id of the patient.
        beats: scored beats.
        classes: number of classes among them.
        personal_f1: of the personal model on them.
        global_f1: of the global model on them.
        generalisation_f1: of the personal model on all patients' beats.
        local_f1: of the global model after local training, on the patient's beats.
        site: of a joined cohort; else "".
    """

    client: str
    beats: int | None
    classes: int | None
    personal_f1: float
    global_f1: float
    generalisation_f1: float | None
    local_f1: float | None
    site: str = ""

    @property
    def gain(self) -> float:
        """Gain of the personal over the global model."""
        return self.personal_f1 - self.global_f1


@dataclass(frozen=True)
class StoredEvaluation:
    """One evaluation of a run.

    Attributes:
        folder: its folder's name, ``evaluation-test``.
        split: ``test`` or ``valid``.
        leave_out: beats excluded from scoring.
        personal: kind of personal models; ``""`` if unknown.
        protocol: global model of a method without one.
        round: the scored round.
        example_word: what an example of the cohort is called: beat, image or example.
        beats: number of scored beats; None if unknown.
        scores: by name, macro-F1 over classes in truth or prediction.
        scores_truth: the same over classes in truth.
        variants: T_p with alternative personal models of the method.
        local: T_p, T_r, T_l of the local models; empty if not scored.
        classes: scores of the global model per class.
        patients: in the order of the file.
        confusion: (classes, classes) int64, rows truth: the global model on the pool.
        confusion_personal: likewise, personal models on each patient's beats.
        sites: of a joined cohort, in order.
    """

    folder: str
    split: str
    leave_out: str
    personal: str
    protocol: str
    round: int
    example_word: str
    beats: int | None
    scores: dict[str, float]
    scores_truth: dict[str, float]
    variants: dict[str, float]
    local: dict[str, float]
    classes: tuple[ClassScores, ...]
    patients: tuple[PatientRow, ...]
    confusion: NDArray[np.int64] | None
    confusion_personal: NDArray[np.int64] | None
    sites: tuple[SiteScores, ...] = ()

    @property
    def command(self) -> str:
        """The options of ``ecgfed evaluate`` that reproduce it, without the run."""
        out = "" if self.leave_out == "nothing" else f" --leave-out {self.leave_out}"
        return f"--split {self.split}{out}"

    def worst_tenth(self) -> tuple[PatientRow, ...]:
        """Return the tenth of patients, at least one, with the lowest personal scores, the lowest first."""
        served = sorted(self.patients, key=lambda patient: patient.personal_f1)
        return tuple(served[: -(-len(served) // 10)])


def read_evaluations(document: RunDocument) -> tuple[StoredEvaluation, ...]:
    """Read all evaluations of a run: test before valid, all beats before some, the method's models first.

    Raises:
        RunError: an evaluation is damaged, or of another cohort.
    """
    folders = [part for part in document.path.iterdir() if _NAME.fullmatch(part.name) and (part / FILE_NAME).is_file()]
    evaluations = [_read(folder, document) for folder in sorted(folders)]
    exclusions = list(LEFT_OUT)

    def order(evaluation: StoredEvaluation) -> tuple[int, int, int, str]:
        rank = exclusions.index(evaluation.leave_out) if evaluation.leave_out in exclusions else len(exclusions)
        return -SPLITS.index(evaluation.split), rank, len(evaluation.folder), evaluation.folder

    return tuple(sorted(evaluations, key=order))


def _read(folder: Path, document: RunDocument) -> StoredEvaluation:
    file = folder / FILE_NAME
    result = read_result(file, document, _AGAIN)
    entries = {
        "split": folder.name.split("-")[1],
        "leave_out": "nothing",
        "personal": "",
        "protocol": "",
        "modality": "ecg",
        "cohort_fingerprint": document.fingerprint,
        **result,
    }
    split, leave_out, personal, protocol, modality, fingerprint = (
        typed(entries, name, str, file, _AGAIN)
        for name in ("split", "leave_out", "personal", "protocol", "modality", "cohort_fingerprint")
    )
    if split not in SPLITS:
        raise RunError(file, f"split is {split!r:.40}", f"one of {', '.join(SPLITS)}", _AGAIN)
    if fingerprint != document.fingerprint:
        raise RunError(file, "is of another cohort than the run (fingerprints differ)", action=_AGAIN)
    patients = tuple(_patient(row, file) for row in rows_of(result, "per_patient", file, _AGAIN))
    if len({patient.client for patient in patients}) < len(patients):
        raise RunError(file, "per_patient names a client twice", "a row for each", _AGAIN)
    local = result.get("local_models")
    return StoredEvaluation(
        folder.name,
        split,
        leave_out,
        personal,
        protocol,
        typed(result, "round", int, file, _AGAIN),
        EXAMPLE_WORDS.get(modality, "beat"),
        None if result.get("beats") is None else typed(result, "beats", int, file, _AGAIN),
        _numbers(result, "scores", file),
        _numbers({"scores_truth": {}, **result}, "scores_truth", file),
        _numbers({"T_p_variants": {}, **result}, "T_p_variants", file),
        {name: _number(local, name, file) for name in ("T_p", "T_r", "T_l")} if isinstance(local, dict) else {},
        tuple(_class(row, file) for row in rows_of(result, "per_class", file, _AGAIN)),
        patients,
        _matrix(result, "confusion", len(document.classes), file),
        _matrix(result, "confusion_personal", len(document.classes), file),
        tuple(
            _site(row, document.classes, file) for row in rows_of({"per_site": [], **result}, "per_site", file, _AGAIN)
        ),
    )


def _numbers(result: dict[str, Any], name: str, file: Path) -> dict[str, float]:
    table = typed(result, name, dict, file, _AGAIN)
    return {key: _number(table, key, file) for key in table}


def _number(values: dict[str, Any], name: str, file: Path) -> float:
    number = typed(values, name, float, file, _AGAIN)
    if not math.isfinite(number):
        raise RunError(file, f"{name} is {number}", "a number", _AGAIN)
    return number


def _optional(row: dict[str, Any], name: str, file: Path) -> float | None:
    return None if row.get(name) is None else _number(row, name, file)


def _count(row: dict[str, Any], name: str, file: Path) -> int | None:
    return None if row.get(name) is None else typed(row, name, int, file, _AGAIN)


def _f1(row: dict[str, Any], name: str, file: Path) -> float:
    f1 = _number(row, name, file)
    if not 0 <= f1 <= 1:
        raise RunError(file, f"{name} is {f1:g}", "0 to 1", _AGAIN)
    return f1


def _class(row: dict[str, Any], file: Path) -> ClassScores:
    return ClassScores(
        typed(row, "class", str, file, _AGAIN),
        typed(row, "beats", int, file, _AGAIN),
        typed(row, "predicted", int, file, _AGAIN),
        _optional(row, "sensitivity", file),
        _optional(row, "positive_predictivity", file),
        _optional(row, "f1", file),
    )


def _patient(row: dict[str, Any], file: Path) -> PatientRow:
    return PatientRow(
        typed(row, "client", str, file, _AGAIN),
        _count(row, "beats", file),
        _count(row, "classes", file),
        _f1(row, "personal_f1", file),
        _f1(row, "global_f1", file),
        _optional(row, "generalisation_f1", file),
        _optional(row, "local_f1", file),
        typed({"site": "", **row}, "site", str, file, _AGAIN),
    )


def _site(row: dict[str, Any], classes: tuple[str, ...], file: Path) -> SiteScores:
    return SiteScores(
        typed(row, "site", str, file, _AGAIN),
        typed(row, "patients", int, file, _AGAIN),
        typed(row, "beats", int, file, _AGAIN),
        _optional(row, "global_f1", file),
        _optional(row, "personal_f1", file),
        "" if row.get("worst_patient") is None else typed(row, "worst_patient", str, file, _AGAIN),
        _optional(row, "worst_f1", file),
        {name: _optional(row, f"global_f1_{name}", file) for name in classes},
    )


def _matrix(result: dict[str, Any], name: str, classes: int, file: Path) -> NDArray[np.int64] | None:
    """Return a confusion matrix of the run's classes, or None if the file has none."""
    if result.get(name) is None:
        return None
    rows = typed(result, name, list, file, _AGAIN)
    square = len(rows) == classes <= _MAX_CLASSES and all(isinstance(row, list) and len(row) == classes for row in rows)
    if not square or not all(type(count) is int and 0 <= count < 1 << 53 for row in rows for count in row):
        raise RunError(file, f"{name} is no matrix of counts of {classes} classes", f"{classes} rows", _AGAIN)
    return np.array(rows, np.int64).reshape(classes, classes)
