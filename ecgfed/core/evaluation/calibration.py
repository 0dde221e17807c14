r"""Temperature scaling, expected calibration error, and confidence thresholds.

A temperature divides the logits (Guo, Pleiss, Sun and Weinberger, "On Calibration of Modern Neural Networks", ICML
2017) and does not change the predicted class. The expected calibration error is from the same paper, with 15 bins of
equal width: :math:`\sum_b \frac{n_b}{n} |\mathrm{accuracy}_b - \mathrm{mean\ probability}_b|`, of the predicted class.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

#: Bins of the expected calibration error, of equal width from 0 to 1.
ECE_BINS = 15
#: Search interval of temperatures.
TEMPERATURES = (0.1, 20.0)
#: Candidates for the standard deviation of the logarithm of patients' temperatures around the pooled one, chosen by
#: two-fold cross-validation. Without this prior, a patient without errors would get the lowest temperature, and later
#: errors would be overconfident (docs/decisions/0039).
SPREADS = (0.1, 0.2, 0.4, 0.8)

Logits = NDArray[np.floating]


def log_probabilities(logits: Logits, temperature: float = 1.0) -> NDArray[np.float64]:
    """Return the logarithms of the probabilities of logits divided by a temperature.

    Args:
        logits: (beats, classes).
        temperature: above 0.

    Returns:
        (beats, classes) float64, natural logarithms.
    """
    scaled = logits.astype(np.float64) / temperature
    shifted = scaled - scaled.max(axis=1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True)))


def confidence_and_correctness(
    logits: Logits, label: NDArray[np.integer], temperature: float
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return the probability of each beat's predicted class, and whether the prediction is correct.

    Args:
        logits: (beats, classes).
        label: (beats,) true class numbers.
        temperature: above 0; it does not affect the predicted class.

    Returns:
        (beats,) float64 from 0 to 1, and (beats,) bool.
    """
    log_probability = log_probabilities(logits, temperature)
    return np.exp(log_probability.max(axis=1)), np.asarray(log_probability.argmax(axis=1) == label)


def fit_temperature(
    logits: Logits, label: NDArray[np.integer], towards: float | None = None, spread: float = SPREADS[1]
) -> float:
    """Return the maximum-likelihood temperature in ``TEMPERATURES``; without beats 1, or ``towards``.

    Args:
        logits: (beats, classes).
        label: (beats,) true classes.
        towards: mean of a log-normal prior, or None for no prior.
        spread: standard deviation of the logarithm in the prior.
    """
    if not len(label):
        return 1.0 if towards is None else towards
    rows = np.arange(len(label))

    def cost(logarithm: float) -> float:
        """Return the negative log-likelihood at a temperature, plus the prior."""
        loss = -float(log_probabilities(logits, float(np.exp(logarithm)))[rows, label].sum())
        return loss if towards is None else loss + (logarithm - np.log(towards)) ** 2 / (2 * spread**2)

    edges = tuple(float(np.log(edge)) for edge in TEMPERATURES)
    return float(np.exp(minimize_scalar(cost, bounds=edges, method="bounded", options={"xatol": 1e-4}).x))


def fit_temperatures(patients: Sequence[tuple[Logits, NDArray[np.integer]]]) -> tuple[list[float], float]:
    """Return a temperature for each patient, regularised towards the pooled one, and the spread of the prior.

    The spread is chosen by two-fold cross-validation on the even and odd beats of every patient.

    Args:
        patients: each patient's logits (beats, classes) and labels (beats,); at least one patient.

    Returns:
        A temperature in ``TEMPERATURES`` for each patient, in order, and the chosen spread of ``SPREADS``.
    """
    halves = [[(logits[half::2], label[half::2]) for logits, label in patients] for half in (0, 1)]
    shared = [fit_temperature(*_joined(half)) for half in halves]

    def cost(spread: float) -> float:
        """Return the cross-validated negative log-likelihood of a spread."""
        lost = 0.0
        for fitted_on, at, judged_on in ((halves[0], shared[0], halves[1]), (halves[1], shared[1], halves[0])):
            for fitted, (logits, label) in zip(fitted_on, judged_on, strict=True):
                log_probability = log_probabilities(logits, fit_temperature(*fitted, at, spread))
                lost -= float(log_probability[np.arange(len(label)), label].sum())
        return lost

    spread = min(SPREADS, key=cost)
    everyone = fit_temperature(*_joined(patients))
    return [fit_temperature(*patient, everyone, spread) for patient in patients], spread


def _joined(patients: Sequence[tuple[Logits, NDArray[np.integer]]]) -> tuple[Logits, NDArray[np.integer]]:
    return np.concatenate([logits for logits, _ in patients]), np.concatenate([label for _, label in patients])


def calibration_error(probability: NDArray[np.floating], right: NDArray[np.bool_]) -> float:
    """Return the expected calibration error over ``ECE_BINS`` bins, 0 to 1; NaN without beats.

    Args:
        probability: (beats,) of the predicted class, 0 to 1.
        right: (beats,) whether the prediction is correct.
    """
    if not len(right):
        return float("nan")
    bin_index = np.clip(np.ceil(probability * ECE_BINS).astype(np.int64) - 1, 0, ECE_BINS - 1)
    sums = [np.bincount(bin_index, weights, ECE_BINS) for weights in (right.astype(np.float64), probability)]
    return float(np.abs(sums[0] - sums[1]).sum() / len(right))


def threshold_for(probability: NDArray[np.floating], right: NDArray[np.bool_], accuracy: float) -> float:
    """Return the lowest probability such that beats at or above it reach an accuracy.

    1 if there is none: then all beats have low confidence.

    Args:
        probability: (beats,) of the predicted class, 0 to 1.
        right: (beats,) whether the prediction is correct.
        accuracy: required accuracy, 0 to 1.
    """
    order = np.argsort(-probability, kind="stable")
    falling, hits = probability[order], right[order]
    accepted = np.arange(1, len(order) + 1)
    last_of_equals = np.append(falling[1:] < falling[:-1], True)[: len(order)]
    good = np.flatnonzero(last_of_equals & (np.cumsum(hits) >= accuracy * accepted - 1e-9))
    return float(falling[good[-1]]) if len(good) else 1.0
