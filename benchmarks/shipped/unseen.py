"""Patients whom a model has not seen: who is in which fold, and what each annotated beat was called, how surely."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from common import compared
from numpy.typing import NDArray

import ecgfed
from ecgfed.core.evaluation.ec57 import CLASSES
from ecgfed.domain.beats.labels import LabelMap
from ecgfed.domain.record.wfdb_files import read_annotation_file
from ecgfed.exports.bundles.calibration import ValidationLogits, left_out_calibration
from ecgfed.exports.device.calibration import calibration_in

#: Below a benchmark's folder: one file a record, a line a beat.
BEATS = "beats"
#: Equal-width bins of a calibration, and the shares of beats that risk is told for.
BINS, COVERAGES = 15, (1.0, 0.95, 0.9, 0.8, 0.5)
#: An interval that is a pause, seconds.
PAUSE_S = 2.0
#: Symbols of AAMI's supraventricular beats, and of paced ones.
ATRIAL, PACED_BEATS = ("A", "a", "J", "S"), ("/", "f")


def folds_of(cohort: ecgfed.Cohort, folds: int) -> list[tuple[str, ...]]:
    """Deal a cohort's patients into folds, in the order of their S, then of their V beats, back and forth.

    The rare beats are many in few patients; dealt so, each fold has its share of these patients.
    """
    names = list(cohort.classes)

    def rare(client: Any) -> tuple[int, int, str]:
        counts = sum(cohort.class_counts(client, split) for split in range(3))
        return -int(counts[names.index("S")]), -int(counts[names.index("V")]), client.id

    dealt: list[list[str]] = [[] for _ in range(folds)]
    for place, client in enumerate(sorted(cohort.federation, key=rare)):
        turn, at = divmod(place, folds)
        dealt[at if turn % 2 == 0 else folds - 1 - at].append(client.id)
    return [tuple(sorted(fold)) for fold in dealt]


def record_beats(bundle: ecgfed.Bundle, record: Path, folder: Path, **how: Any) -> Path:
    """Classify a record's annotated beats and keep, for each: what it is, what it was called, how surely, its RR.

    R peaks are the annotation's here, so that every beat has both labels; EC57's figures take detected ones.
    """
    found = ecgfed.predict(bundle, record, peaks="annotated", **how)
    marks = ecgfed.read_annotation(record).beats()
    labels: LabelMap = bundle.labels
    truth = labels.encode(marks.symbol)
    rr_s = np.diff(marks.sample) / found.fs_hz
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{record.name}.npz"
    np.savez(
        file,
        symbol=marks.symbol,
        truth=truth,
        label=found.label,
        confidence=found.confidence,
        before_s=np.concatenate([[np.nan], rr_s]),
        after_s=np.concatenate([rr_s, [np.nan]]),
        classes=np.array(bundle.classes),
    )
    return file


def unseen_logits(bundle: ecgfed.Bundle, records: Sequence[Path], **options: Any) -> ValidationLogits:
    """Return a bundle's global model's logits on the annotated beats of a patient's recordings, from ``predict``.

    They are the logarithms of its probabilities times the bundle's temperature, and so averaged over alike beats where
    ``predict`` does that. Without beats whose class is not the model's: unlabelled, without signal, paced, or in
    fibrillation, where a supraventricular class has probability 0.

    Args:
        bundle: it has not seen the patient.
        records: the patient's recordings, WFDB records with an annotation.
        options: of ``predict``, such as ``leads``.
    """
    temperature = calibration_in(bundle.manifest, None).temperature
    logits, label = [], []
    for record in records:
        predictions = ecgfed.predict(bundle, record, peaks="annotated", **options)
        truth = bundle.labels.encode(ecgfed.read_annotation(record).beats().symbol)
        known = (truth >= 0) & predictions.classified & (predictions.probability > 0).all(axis=1)
        if predictions.pacing:
            known &= ~predictions.pacing.beats
        logits.append(temperature * np.log(predictions.probability[known]))
        label.append(truth[known].astype(np.int64))
    return ValidationLogits(np.concatenate(logits).astype(np.float32), np.concatenate(label))


def certainty_of(patients: Sequence[ValidationLogits], accuracy: float) -> dict[str, Any]:
    """Return the manifest's calibration entry for ``renewed_bundle``, from patients read by models without them."""
    return left_out_calibration(list(patients), accuracy, "patients left out")


def measured(files: Sequence[Path]) -> dict[str, Any]:
    """Return what the beats of several records say together: kinds of beats, pauses, calibration, risk."""
    read = [dict(np.load(file, allow_pickle=False)) for file in files]
    beats = {name: np.concatenate([one[name] for one in read]) for name in read[0] if name != "classes"}
    beats["record"] = np.repeat([file.stem for file in files], [len(one["label"]) for one in read])
    known = beats["truth"] >= 0
    beats = {name: values[known] for name, values in beats.items()}
    classes, right = [str(name) for name in read[0]["classes"]], beats["label"] == beats["truth"]
    return {
        "beats": len(right),
        "accuracy": _rounded(right.mean()),
        "symbols": {
            str(one): _kind(beats, right, beats["symbol"] == one, classes) for one in np.unique(beats["symbol"])
        },
        "pauses": _pauses(beats, classes),
        "calibration": calibration(beats["confidence"], right),
        "risk": risk(beats["confidence"], right),
    }


def _kind(
    beats: dict[str, NDArray[Any]], right: NDArray[np.bool_], these: NDArray[np.bool_], classes: list[str]
) -> dict[str, Any]:
    called = np.bincount(beats["label"][these], minlength=len(classes))
    return {
        "class": classes[int(beats["truth"][these][0])],
        "beats": int(these.sum()),
        "records": len(np.unique(beats["record"][these])),
        "found": _rounded(right[these].mean()),
        "called": {name: int(number) for name, number in zip(classes, called, strict=True) if number},
    }


def _pauses(beats: dict[str, NDArray[Any]], classes: list[str]) -> dict[str, Any]:
    """Count the normal beats beside a pause that are called ectopic."""
    normal = beats["truth"] == classes.index("N")
    beside = normal & (np.fmax(beats["before_s"], beats["after_s"]) >= PAUSE_S)
    wrong = beats["label"] != classes.index("N")
    return {
        "longer_than_s": PAUSE_S,
        "normal_beats": int(beside.sum()),
        "called_otherwise": int((beside & wrong).sum()),
        "share": _rounded(wrong[beside].mean()) if beside.any() else None,
        "share_of_all_normal": _rounded(wrong[normal].mean()) if normal.any() else None,
    }


def false_ectopy(source: Path, folder: Path, names: Sequence[str]) -> dict[str, Any]:
    """Count the normal beats of annotated records that ``folder/NAME.ecgfed`` calls S or V, matched as in EC57."""
    compare = [compared(source / name, read_annotation_file(folder / f"{name}.ecgfed"), start_s=0.0) for name in names]
    of_normal = np.sum([one.counts[CLASSES.index("N")] for one in compare], axis=0)
    called = {name: int(of_normal[CLASSES.index(name)]) for name in ("S", "V")}
    normal = int(of_normal.sum())
    return {"records": list(names), "normal_beats": normal, "called": called, "share": sum(called.values()) / normal}


def calibration(confidence: NDArray[np.floating], right: NDArray[np.bool_]) -> dict[str, Any]:
    """Return the expected calibration error over equal-width bins, and each bin: beats, mean p, share right."""
    at = np.minimum((confidence * BINS).astype(np.int64), BINS - 1)
    rows, error = [], 0.0
    for number in range(BINS):
        here = at == number
        if here.any():
            p, share = float(confidence[here].mean(dtype=np.float64)), float(right[here].mean())
            error += abs(p - share) * float(here.mean())
            rows.append(
                {"from": round(number / BINS, 4), "beats": int(here.sum()), "p": _rounded(p), "right": _rounded(share)}
            )
    return {"bins": BINS, "ece": _rounded(error), "rows": rows, "wrong_above_0.9": _sure_and_wrong(confidence, right)}


def _sure_and_wrong(confidence: NDArray[np.floating], right: NDArray[np.bool_]) -> float | None:
    return _rounded((confidence[~right] > 0.9).mean()) if (~right).any() else None


def risk(confidence: NDArray[np.floating], right: NDArray[np.bool_]) -> list[dict[str, float | None]]:
    """Return, for shares of the beats, the most certain ones first: how certain the last is, and how many are wrong."""
    order = np.argsort(-confidence, kind="stable")
    rows: list[dict[str, float | None]] = []
    for share in COVERAGES:
        kept = order[: max(1, round(share * len(order)))]
        rows.append({"coverage": share, "p": _rounded(confidence[kept[-1]]), "wrong": _rounded((~right[kept]).mean())})
    return rows


def _rounded(value: Any) -> float:
    return round(float(value), 4)
