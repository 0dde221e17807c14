"""Temperatures and thresholds of a bundle, fitted on validation beats, per patient and for the global model.

A patient's temperature is regularised towards that of all patients pooled. Its threshold is the lowest probability at
which its validation beats reach the required accuracy, capped by a quantile over patients. The global model serves new
patients, whose threshold is unknown: its threshold is the 90th percentile over trained patients, of whom those who
never reach the accuracy count as 1, but no higher than any other patient's; or, fitted on patients who were not trained
on (``left_out_calibration``), the 75th percentile over those who reach it, or that of all their beats if it is higher.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ecgfed.base.errors import OptionError
from ecgfed.core.config import HELD_OUT
from ecgfed.core.evaluation.calibration import (
    ECE_BINS,
    calibration_error,
    confidence_and_correctness,
    fit_temperature,
    fit_temperatures,
    log_probabilities,
    threshold_for,
)
from ecgfed.core.federation.single_thread import single_torch_thread
from ecgfed.core.methods.models import Ensemble, Model
from ecgfed.core.nets.net import Inputs, Net
from ecgfed.domain.beats import alike
from ecgfed.domain.cohort.cohort import Client, Cohort
from ecgfed.domain.cohort.split import TEST, TRAIN, VALID
from ecgfed.exports.bundles.parity import model_logits

#: A patient with fewer validation beats gets the global threshold.
MIN_BEATS = 50
#: Maximum number of validation beats per patient, divided by the members of an ensemble; and the batch size.
MAX_BEATS, BATCH = 2000, 512
#: The global threshold is this quantile of the patients' thresholds; with fewer patients who have one, it is fitted on
#: all beats pooled.
PATIENTS_SERVED, MIN_PATIENTS = 0.9, 5
#: The global threshold fitted on patients left out is at least this quantile of theirs: of 0.5, 0.75 and 0.9 the one
#: that reached the accuracy on other patients left out, with most beats above it (docs/decisions/0086).
LEFT_OUT_SERVED = 0.75
#: Parts of the patients left out: what an entry states of a part is measured with the fit on the others.
PARTS = 5
#: Patients' thresholds are capped at this quantile over patients: on halves of MIT-BIH's validation beats, one
#: confident error could leave a patient a fifth of its beats, without higher accuracy (docs/decisions/0039).
CAP = 0.75


@dataclass(frozen=True)
class ValidationLogits:
    """Logits of a model on one patient's validation beats.

    Attributes:
        logits: (beats, classes).
        label: (beats,) int64, true classes.
    """

    logits: NDArray[np.float32]
    label: NDArray[np.int64]


def validation_rows(cohort: Cohort, client: Client, model: Model) -> NDArray[np.int64]:
    """Return a patient's validation beats for a model: all, or an evenly spaced subset within ``MAX_BEATS``."""
    return _spaced(cohort.usable(cohort.rows(client, VALID)), model)


def _spaced(rows: NDArray[np.int64], model: Model) -> NDArray[np.int64]:
    limit = max(MIN_BEATS, MAX_BEATS // (len(model.members) if isinstance(model, Ensemble) else 1))
    return rows[np.linspace(0, len(rows) - 1, limit).astype(np.int64)] if len(rows) > limit else rows


def validation_logits(net: Net, cohort: Cohort, client: Client, model: Model) -> ValidationLogits:
    """Return a model's logits on a patient's validation beats (``validation_rows``)."""
    rows = validation_rows(cohort, client, model)
    return ValidationLogits(_logits(net, cohort, rows, model), cohort.label[rows].astype(np.int64))


def held_out_logits(net: Net, cohort: Cohort, model: Model) -> list[ValidationLogits]:
    """Return the global model's logits on each held-out patient's labelled beats, within ``MAX_BEATS`` each.

    With RR features of version 3 they are averaged over the alike beats of a recording, as ``predict`` does.

    Raises:
        OptionError: fewer than ``MIN_PATIENTS`` held-out patients have ``MIN_BEATS`` labelled beats.
    """
    patients = []
    for client in cohort.clients:
        rows = cohort.usable(np.sort(np.concatenate([cohort.rows(client, part) for part in (TRAIN, VALID, TEST)])))
        if client.holdout and len(rows) >= MIN_BEATS:
            patients.append(rows)
    if len(patients) < MIN_PATIENTS:
        problem = f"{HELD_OUT}, and {len(patients)} held-out patients have {MIN_BEATS} labelled beats"
        remedy = "hold out more patients where the cohort is prepared, or leave the option out"
        raise OptionError("certainty", problem, f"at least {MIN_PATIENTS}", remedy)
    entries = []
    for rows in patients:
        chosen = _spaced(rows, model)
        if net.spec.rr and net.spec.rr_version == 3:
            logits = _averaged(cohort, rows, _logits(net, cohort, rows, model))[np.searchsorted(rows, chosen)]
        else:
            logits = _logits(net, cohort, chosen, model)
        entries.append(ValidationLogits(logits, cohort.label[chosen].astype(np.int64)))
    return entries


def _averaged(cohort: Cohort, rows: NDArray[np.int64], logits: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return logits (beats, classes) averaged over the alike beats of each recording."""
    averaged = np.exp(log_probabilities(logits)).astype(np.float32)
    for record in np.unique(cohort.record[rows]):
        of_record = cohort.record[rows] == record
        points = alike.points(cohort.rr[rows[of_record]])
        averaged[of_record] = alike.averaged(averaged[of_record], points, np.ones(len(points), np.bool_))
    return np.log(np.maximum(averaged, np.finfo(np.float32).tiny))


@single_torch_thread()  # independent of the number of cores, bit by bit
def _logits(net: Net, cohort: Cohort, rows: NDArray[np.int64], model: Model) -> NDArray[np.float32]:
    parts = [np.empty((0, net.spec.classes), np.float32)]
    for start in range(0, len(rows), BATCH):
        some = rows[start : start + BATCH]
        rr = torch.from_numpy(cohort.rr[some]) if net.spec.rr else None
        parts.append(model_logits(net, model, Inputs(torch.from_numpy(np.take(cohort.examples, some, axis=0)), rr)))
    return np.concatenate(parts)


def left_out_calibration(
    logits_by_patient: list[ValidationLogits], accuracy: float, fitted_on: str = HELD_OUT
) -> dict[str, Any]:
    """Return the calibration entry of a global model, fitted on patients whom it, or a model like it, has not seen.

    ``ece_after``, ``kept`` and ``kept_accuracy`` are cross-fitted: each of ``PARTS`` parts of the patients is measured
    with temperature and threshold of the others. With too few patients who have a threshold (``MIN_PATIENTS``), the
    threshold is that of all beats pooled.

    Args:
        logits_by_patient: at least two patients, of one model, or of models trained in the same way without them.
        accuracy: required accuracy of beats that are not of low confidence.
        fitted_on: what the manifest says they are.
    """
    temperature, threshold = _fit_left_out(logits_by_patient, accuracy)
    entry = {**_calibration_entry(logits_by_patient, temperature, threshold), "fitted_on": fitted_on}
    measured = []
    for part in range(min(PARTS, len(logits_by_patient))):
        others = [patient for i, patient in enumerate(logits_by_patient) if i % PARTS != part]
        temperature, threshold = _fit_left_out(others, accuracy)
        for patient in logits_by_patient[part::PARTS]:
            probability, right = confidence_and_correctness(patient.logits, patient.label, temperature)
            measured.append((probability, right, _accepted(probability, threshold)))
    probability, right, accepted = (np.concatenate(values) for values in zip(*measured, strict=True))
    kept_accuracy = float(right[accepted].mean()) if accepted.any() else None
    after = {"ece_after": calibration_error(probability, right), "kept": float(accepted.mean())}
    return {**entry, **after, "kept_accuracy": kept_accuracy, "patients": len(logits_by_patient)}


def _fit_left_out(logits_by_patient: list[ValidationLogits], accuracy: float) -> tuple[float, float]:
    """Return the temperature, and the threshold that serves patients and reaches the accuracy over all their beats.

    A patient with few errors has a low threshold, and one whose beats never reach the accuracy has none: a quantile of
    thresholds alone could promise more than all beats together keep.
    """
    temperature, thresholds = _thresholds(logits_by_patient, accuracy)
    threshold = _quantile(thresholds, LEFT_OUT_SERVED) or 0.0
    pooled = confidence_and_correctness(*_concatenated(logits_by_patient), temperature)
    return temperature, max(threshold, threshold_for(*pooled, accuracy))


def _fit_trained(logits_by_patient: list[ValidationLogits], accuracy: float) -> tuple[float, float]:
    """Return the temperature, and the threshold that serves ``PATIENTS_SERVED`` of the patients who were trained on.

    One whose beats never reach the accuracy is served by none below 1, and counts as that. Where these are too many,
    the threshold is that of all who can be served: one of 1 would leave every beat uncertain for everybody.
    """
    temperature, thresholds = _thresholds(logits_by_patient, accuracy)
    if (highest := _quantile(thresholds, 1.0)) is not None:
        return temperature, min(float(np.quantile(thresholds, PATIENTS_SERVED, method="higher")), highest)
    logits, label = _concatenated(logits_by_patient)
    pooled = confidence_and_correctness(logits, label, temperature) if len(label) else None
    return temperature, 0.0 if pooled is None else threshold_for(*pooled, accuracy)


def _thresholds(logits_by_patient: list[ValidationLogits], accuracy: float) -> tuple[float, list[float]]:
    """Return the temperature of all beats pooled, and the threshold of each patient with ``MIN_BEATS``."""
    temperature = fit_temperature(*_concatenated(logits_by_patient))
    return temperature, [
        threshold_for(*confidence_and_correctness(entry.logits, entry.label, temperature), accuracy)
        for entry in logits_by_patient
        if len(entry.label) >= MIN_BEATS
    ]


def _accepted(probability: NDArray[np.floating], threshold: float) -> NDArray[np.bool_]:
    """Return which beats are not of low confidence, of which every beat is at a threshold of 1 (``Calibration``)."""
    return np.asarray((probability >= threshold) & (threshold < 1.0))


@dataclass
class CalibrationFitter:
    """Collects validation logits and fits calibrations.

    Attributes:
        accuracy: required accuracy of beats that are not of low confidence.
        global_logits: of the global model, one entry per patient.
        personal_logits: of each patient's model, by id in the manifest.
        held_out_logits: of the global model on held-out patients, on which it is fitted in place of ``global_logits``.
        spread: regularisation of patients' temperatures, after fitting.
    """

    accuracy: float
    global_logits: list[ValidationLogits] = field(default_factory=list)
    personal_logits: dict[str, ValidationLogits] = field(default_factory=dict)
    held_out_logits: list[ValidationLogits] = field(default_factory=list)
    spread: float | None = None

    def fit_global(self) -> dict[str, Any]:
        """Return the calibration entry of the global model for a manifest."""
        if self.held_out_logits:
            return left_out_calibration(self.held_out_logits, self.accuracy)
        return _calibration_entry(self.global_logits, *_fit_trained(self.global_logits, self.accuracy))

    def fit_patients(self, global_entry: dict[str, Any]) -> dict[str, dict[str, Any]]:
        """Return the calibration entry of each patient's model for a manifest.

        Args:
            global_entry: entry of the global model; its threshold serves patients with few validation beats.
        """
        if not self.personal_logits:
            return {}
        fitted, self.spread = fit_temperatures([(entry.logits, entry.label) for entry in self.personal_logits.values()])
        temperatures = dict(zip(self.personal_logits, fitted, strict=True))
        thresholds = {
            name: threshold_for(
                *confidence_and_correctness(entry.logits, entry.label, temperatures[name]), self.accuracy
            )
            for name, entry in self.personal_logits.items()
            if len(entry.label) >= MIN_BEATS
        }
        cap = _quantile(list(thresholds.values()), CAP)
        entries = {}
        for name, entry in self.personal_logits.items():
            threshold = thresholds.get(name, float(global_entry["threshold"]))
            threshold = threshold if cap is None else min(threshold, cap)
            entries[name] = _calibration_entry([entry], temperatures[name], threshold)
        return entries

    def fitted(self, patients: list[str]) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
        """Return the entries of the global model and of patients; those without validation get the global one."""
        global_entry = self.fit_global()
        fitted_entries = self.fit_patients(global_entry)
        default = stand_in(global_entry)
        return global_entry, {name: fitted_entries.get(name, default) for name in patients}

    def overview(self, patients: dict[str, dict[str, Any]]) -> dict[str, Any]:
        """Return the summary for a manifest: the rule, and calibration errors over patients."""
        errors = [(entry["ece_before"], entry["ece_after"]) for entry in patients.values() if entry["beats"]]
        summary: dict[str, Any] = {
            "accuracy": self.accuracy,
            "ece_bins": ECE_BINS,
            "fitted_on": "valid",
            "spread": self.spread,
        }
        for name, of_patients in (("before", 0), ("after", 1)):
            some = [entry[of_patients] for entry in errors]
            summary[f"ece_{name}"] = {"mean": float(np.mean(some)), "worst": float(np.max(some))} if some else None
        return summary


def stand_in(entry: dict[str, Any]) -> dict[str, Any]:
    """Return the entry of a model without beats of its own to fit on, from that of another."""
    fitted_on = {name: entry[name] for name in ("fitted_on",) if name in entry}
    return {**_calibration_entry([], entry["temperature"], entry["threshold"]), **fitted_on}


def _quantile(thresholds: list[float], share: float) -> float | None:
    """Return a quantile of thresholds below 1 (1: accuracy never reached); None if too few patients have one."""
    reached = [threshold for threshold in thresholds if threshold < 1.0]
    return float(np.quantile(reached, share, method="higher")) if len(reached) >= MIN_PATIENTS else None


def _concatenated(logits_by_patient: list[ValidationLogits]) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    if not logits_by_patient:
        return np.empty((0, 1), np.float32), np.empty(0, np.int64)
    return np.concatenate([entry.logits for entry in logits_by_patient]), np.concatenate(
        [entry.label for entry in logits_by_patient]
    )


def _calibration_entry(
    logits_by_patient: list[ValidationLogits], temperature: float, threshold: float
) -> dict[str, Any]:
    """Return a model's entry: temperature, threshold, and their effect on the beats they were fitted on."""
    logits, label = _concatenated(logits_by_patient)
    entry: dict[str, Any] = {"temperature": temperature, "threshold": threshold, "beats": len(label)}
    if not len(label):
        return {**entry, "ece_before": None, "ece_after": None, "kept": None, "kept_accuracy": None}
    before, after = (confidence_and_correctness(logits, label, value) for value in (1.0, temperature))
    accepted = after[0] >= threshold
    right = float(after[1][accepted].mean()) if accepted.any() else None
    errors = {"ece_before": calibration_error(*before), "ece_after": calibration_error(*after)}
    return {**entry, **errors, "kept": float(accepted.mean()), "kept_accuracy": right}
