"""Temperatures and thresholds of a bundle, fitted on validation beats, per patient and for the global model.

A patient's temperature is regularised towards that of all patients pooled. Its threshold is the lowest probability at
which its validation beats reach the required accuracy, capped by a quantile over patients. The global model serves new
patients, whose threshold is unknown: its threshold is the 90th percentile over trained patients.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ecgfed.core.evaluation.calibration import (
    ECE_BINS,
    calibration_error,
    confidence_and_correctness,
    fit_temperature,
    fit_temperatures,
    threshold_for,
)
from ecgfed.core.federation.single_thread import single_torch_thread
from ecgfed.core.methods.models import Ensemble, Model
from ecgfed.core.nets.net import Inputs, Net
from ecgfed.domain.cohort.cohort import Client, Cohort
from ecgfed.domain.cohort.split import VALID
from ecgfed.exports.bundles.parity import model_logits

#: A patient with fewer validation beats gets the global threshold.
MIN_BEATS = 50
#: Maximum number of validation beats per patient, divided by the members of an ensemble; and the batch size.
MAX_BEATS, BATCH = 2000, 512
#: The global threshold is this quantile of the patients' thresholds; with fewer patients, it is fitted on all beats
#: pooled.
PATIENTS_SERVED, MIN_PATIENTS = 0.9, 5
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
    rows = cohort.usable(cohort.rows(client, VALID))
    limit = max(MIN_BEATS, MAX_BEATS // (len(model.members) if isinstance(model, Ensemble) else 1))
    return rows[np.linspace(0, len(rows) - 1, limit).astype(np.int64)] if len(rows) > limit else rows


@single_torch_thread()  # independent of the number of cores, bit by bit
def validation_logits(net: Net, cohort: Cohort, client: Client, model: Model) -> ValidationLogits:
    """Return a model's logits on a patient's validation beats (``validation_rows``)."""
    rows = validation_rows(cohort, client, model)
    parts = [np.empty((0, net.spec.classes), np.float32)]
    for start in range(0, len(rows), BATCH):
        some = rows[start : start + BATCH]
        rr = torch.from_numpy(cohort.rr[some]) if net.spec.rr else None
        parts.append(model_logits(net, model, Inputs(torch.from_numpy(np.take(cohort.examples, some, axis=0)), rr)))
    return ValidationLogits(np.concatenate(parts), cohort.label[rows].astype(np.int64))


@dataclass
class CalibrationFitter:
    """Collects validation logits and fits calibrations.

    Attributes:
        accuracy: required accuracy of beats that are not of low confidence.
        global_logits: of the global model, one entry per patient.
        personal_logits: of each patient's model, by id in the manifest.
        spread: regularisation of patients' temperatures, after fitting.
    """

    accuracy: float
    global_logits: list[ValidationLogits] = field(default_factory=list)
    personal_logits: dict[str, ValidationLogits] = field(default_factory=dict)
    spread: float | None = None

    def fit_global(self) -> dict[str, Any]:
        """Return the calibration entry of the global model for a manifest."""
        temperature = fit_temperature(*_concatenated(self.global_logits))
        confidences = [
            confidence_and_correctness(entry.logits, entry.label, temperature)
            for entry in self.global_logits
            if len(entry.label) >= MIN_BEATS
        ]
        thresholds = [threshold_for(probability, right, self.accuracy) for probability, right in confidences]
        if (reached := _quantile(thresholds, PATIENTS_SERVED)) is not None:
            threshold = reached
        else:
            logits, label = _concatenated(self.global_logits)
            threshold = (
                threshold_for(*confidence_and_correctness(logits, label, temperature), self.accuracy)
                if len(label)
                else 0.0
            )
        return _calibration_entry(self.global_logits, temperature, threshold)

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
        default = {**_calibration_entry([], global_entry["temperature"], global_entry["threshold"])}
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
