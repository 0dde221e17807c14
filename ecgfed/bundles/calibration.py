"""Temperatures and thresholds of a bundle, fitted on validation beats: each patient's own, and the global model's.

A patient's temperature keeps near to that of all patients together. Its threshold is the probability from which on its
own validation beats are right as often as asked, but no higher than most patients'. The global model answers for new
patients, whose own threshold nobody knows: it has one that is as high as those of nine of ten trained patients.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ecgfed.bundles.parity import answer_logits
from ecgfed.cohort.cohort import Client, Cohort
from ecgfed.cohort.split import VALID
from ecgfed.evaluation.calibration import (
    ECE_BINS,
    calibration_error,
    confidence_and_correctness,
    fit_temperature,
    fit_temperatures,
    threshold_for,
)
from ecgfed.federation.single_thread import single_torch_thread
from ecgfed.methods.answers import Answer, Ensemble
from ecgfed.nets.net import Inputs, Net

#: How often answers that are not uncertain shall be right.
ACCURACY = 0.99
#: A patient with fewer validation beats than this has the global threshold.
LEAST_BEATS = 50
#: More of a patient's validation beats are not asked; of an ensemble each member's answer counts as one.
MOST_BEATS, BATCH = 2000, 512
#: The global threshold is as high as this share of the patients' own; fewer than so many patients stand for nobody,
#: and then it is that of all beats together.
PATIENTS_SERVED, LEAST_PATIENTS = 0.9, 5
#: No patient's threshold is higher than that of this share of the patients: on halves of MIT-BIH's validation beats one
#: sure error more or less left a patient a fifth of its beats, and those kept were no better (docs/decisions/0039).
CAP = 0.75


@dataclass(frozen=True)
class Answers:
    """What a model said of one patient's validation beats.

    Attributes:
        logits: (beats, classes).
        label: (beats,) int64, the truth.
    """

    logits: NDArray[np.float32]
    label: NDArray[np.int64]


def validation_rows(cohort: Cohort, client: Client, answer: Answer) -> NDArray[np.int64]:
    """Return the validation beats of a patient that an answer is asked: all, or as many as ``MOST_BEATS`` allows."""
    rows = cohort.usable(cohort.rows(client, VALID))
    most = max(LEAST_BEATS, MOST_BEATS // (len(answer.members) if isinstance(answer, Ensemble) else 1))
    return rows[np.linspace(0, len(rows) - 1, most).astype(np.int64)] if len(rows) > most else rows


@single_torch_thread()  # so that its bits do not depend on the machine's cores
def validation_answers(net: Net, cohort: Cohort, client: Client, answer: Answer) -> Answers:
    """Return what an answer says of a patient's validation beats: all of them, of an ensemble some, evenly taken."""
    rows = validation_rows(cohort, client, answer)
    parts = [np.empty((0, net.spec.classes), np.float32)]
    for start in range(0, len(rows), BATCH):
        some = rows[start : start + BATCH]
        rr = torch.from_numpy(cohort.rr[some]) if net.spec.rr else None
        parts.append(answer_logits(net, answer, Inputs(torch.from_numpy(np.take(cohort.examples, some, axis=0)), rr)))
    return Answers(np.concatenate(parts), cohort.label[rows].astype(np.int64))


@dataclass
class Calibration:
    """Collects answers, and then says what they are worth.

    Attributes:
        accuracy: how often answers that are not uncertain shall be right.
        everyone: the global model's, a patient after the other.
        own: each patient's own model's, by the id in the manifest.
        spread: how near patients' temperatures keep to that of all, once they are fitted.
    """

    accuracy: float
    everyone: list[Answers] = field(default_factory=list)
    own: dict[str, Answers] = field(default_factory=dict)
    spread: float | None = None

    def of_everyone(self) -> dict[str, Any]:
        """Return the certainty of the global model for a manifest."""
        temperature = fit_temperature(*_together(self.everyone))
        told = [
            confidence_and_correctness(one.logits, one.label, temperature)
            for one in self.everyone
            if len(one.label) >= LEAST_BEATS
        ]
        own = [threshold_for(probability, right, self.accuracy) for probability, right in told]
        if (reached := _quantile(own, PATIENTS_SERVED)) is not None:
            threshold = reached
        else:
            logits, label = _together(self.everyone)
            threshold = (
                threshold_for(*confidence_and_correctness(logits, label, temperature), self.accuracy)
                if len(label)
                else 0.0
            )
        return _said(self.everyone, temperature, threshold)

    def of_patients(self, everyone: dict[str, Any]) -> dict[str, dict[str, Any]]:
        """Return the certainty of each patient's own model for a manifest.

        Args:
            everyone: the global model's; its threshold serves patients with few validation beats.
        """
        if not self.own:
            return {}
        fitted, self.spread = fit_temperatures([(one.logits, one.label) for one in self.own.values()])
        temperatures = dict(zip(self.own, fitted, strict=True))
        own = {
            name: threshold_for(*confidence_and_correctness(one.logits, one.label, temperatures[name]), self.accuracy)
            for name, one in self.own.items()
            if len(one.label) >= LEAST_BEATS
        }
        most = _quantile(list(own.values()), CAP)
        found = {}
        for name, one in self.own.items():
            threshold = own.get(name, float(everyone["threshold"]))
            threshold = threshold if most is None else min(threshold, most)
            found[name] = _said([one], temperatures[name], threshold)
        return found

    def fitted(self, patients: list[str]) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
        """Return the certainty of the global model and of some patients; of those nobody judged, the global one's."""
        everyone = self.of_everyone()
        own = self.of_patients(everyone)
        stands_in = {**_said([], everyone["temperature"], everyone["threshold"])}
        return everyone, {name: own.get(name, stands_in) for name in patients}

    def overview(self, patients: dict[str, dict[str, Any]]) -> dict[str, Any]:
        """Return what a manifest says of all of them: the rule, and calibration errors over patients."""
        errors = [(one["ece_before"], one["ece_after"]) for one in patients.values() if one["beats"]]
        told: dict[str, Any] = {
            "accuracy": self.accuracy,
            "ece_bins": ECE_BINS,
            "fitted_on": "valid",
            "spread": self.spread,
        }
        for name, of_patients in (("before", 0), ("after", 1)):
            some = [one[of_patients] for one in errors]
            told[f"ece_{name}"] = {"mean": float(np.mean(some)), "worst": float(np.max(some))} if some else None
        return told


def _quantile(thresholds: list[float], share: float) -> float | None:
    """Return the threshold that is as high as a share of the others; None where too few patients have one.

    At 1 a patient's beats are never right often enough, whatever is left out: that is no threshold for others.
    """
    reached = [one for one in thresholds if one < 1.0]
    return float(np.quantile(reached, share, method="higher")) if len(reached) >= LEAST_PATIENTS else None


def _together(answers: list[Answers]) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    if not answers:
        return np.empty((0, 1), np.float32), np.empty(0, np.int64)
    return np.concatenate([one.logits for one in answers]), np.concatenate([one.label for one in answers])


def _said(answers: list[Answers], temperature: float, threshold: float) -> dict[str, Any]:
    """Return a model's entry: temperature and threshold, and what they do on the beats they were fitted on."""
    logits, label = _together(answers)
    said: dict[str, Any] = {"temperature": temperature, "threshold": threshold, "beats": len(label)}
    if not len(label):
        return {**said, "ece_before": None, "ece_after": None, "kept": None, "kept_accuracy": None}
    before, after = (confidence_and_correctness(logits, label, one) for one in (1.0, temperature))
    kept = after[0] >= threshold
    right = float(after[1][kept].mean()) if kept.any() else None
    errors = {"ece_before": calibration_error(*before), "ece_after": calibration_error(*after)}
    return {**said, **errors, "kept": float(kept.mean()), "kept_accuracy": right}
