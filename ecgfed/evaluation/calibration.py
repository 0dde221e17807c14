r"""What a probability is worth: one temperature, how far off it is, and from where on answers are right often enough.

A temperature divides the logits (Guo, Pleiss, Sun and Weinberger, "On Calibration of Modern Neural Networks", ICML
2017); the class that is answered stays. The expected calibration error is theirs too, over 15 bins of equal width:
:math:`\sum_b \frac{n_b}{n} |\mathrm{accuracy}_b - \mathrm{mean\ probability}_b|`, of the answered class.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

#: Bins of the expected calibration error, of equal width from 0 to 1.
ECE_BINS = 15
#: Temperatures are looked for between these.
TEMPERATURES = (0.1, 20.0)
#: How far a patient's temperature may stray from all patients', as the standard deviation of its logarithm; which of
#: them is chosen on halves of the beats. Without any, a patient without an error gets the lowest temperature there is,
#: and every later error costs dearly (docs/decisions/0039).
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
    """Return each beat's probability of the class that is answered, and whether that is right.

    Args:
        logits: (beats, classes).
        label: (beats,) the truth, as numbers of classes.
        temperature: above 0; it changes the probability and never the answer.

    Returns:
        (beats,) float64 from 0 to 1, and (beats,) bool.
    """
    log_probability = log_probabilities(logits, temperature)
    return np.exp(log_probability.max(axis=1)), np.asarray(log_probability.argmax(axis=1) == label)


def fit_temperature(
    logits: Logits, label: NDArray[np.integer], towards: float | None = None, spread: float = SPREADS[1]
) -> float:
    """Return the temperature of the highest likelihood, in ``TEMPERATURES``; 1 or ``towards`` where there is no beat.

    Args:
        logits: (beats, classes).
        label: (beats,) the truth.
        towards: another temperature that it keeps near to, or None.
        spread: how near, as the standard deviation of the logarithm.
    """
    if not len(label):
        return 1.0 if towards is None else towards
    rows = np.arange(len(label))

    def cost(logarithm: float) -> float:
        """Return the negative logarithm of the likelihood at a temperature, with the price of straying."""
        loss = -float(log_probabilities(logits, float(np.exp(logarithm)))[rows, label].sum())
        return loss if towards is None else loss + (logarithm - np.log(towards)) ** 2 / (2 * spread**2)

    edges = tuple(float(np.log(edge)) for edge in TEMPERATURES)
    return float(np.exp(minimize_scalar(cost, bounds=edges, method="bounded", options={"xatol": 1e-4}).x))


def fit_temperatures(patients: Sequence[tuple[Logits, NDArray[np.integer]]]) -> tuple[list[float], float]:
    """Return a temperature for each patient, all of them near to that of all together, and the spread they have.

    Each spread is tried on the odd beats of every patient with temperatures from the even ones, and the other way
    round; the one of the highest likelihood is taken.

    Args:
        patients: each patient's logits (beats, classes) and labels (beats,); of one patient at least.

    Returns:
        A temperature for each, in their order and in ``TEMPERATURES``, and the spread that was taken, of ``SPREADS``.
    """
    halves = [[(logits[half::2], label[half::2]) for logits, label in patients] for half in (0, 1)]
    shared = [fit_temperature(*_joined(half)) for half in halves]

    def cost(spread: float) -> float:
        """Return the negative logarithm of the likelihood of each half under what the other half gave."""
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
    """Return the expected calibration error over ``ECE_BINS`` bins, 0 to 1; NaN without a beat.

    Args:
        probability: (beats,) of the answered class, 0 to 1.
        right: (beats,) whether the answer is right.
    """
    if not len(right):
        return float("nan")
    bin_index = np.clip(np.ceil(probability * ECE_BINS).astype(np.int64) - 1, 0, ECE_BINS - 1)
    sums = [np.bincount(bin_index, weights, ECE_BINS) for weights in (right.astype(np.float64), probability)]
    return float(np.abs(sums[0] - sums[1]).sum() / len(right))


def threshold_for(probability: NDArray[np.floating], right: NDArray[np.bool_], accuracy: float) -> float:
    """Return the lowest of the probabilities such that, of the beats at it and above, so many are right.

    1, which no beat is at, where there is none: then all are uncertain.

    Args:
        probability: (beats,) of the answered class, 0 to 1.
        right: (beats,) whether the answer is right.
        accuracy: the share that shall be right, 0 to 1.
    """
    order = np.argsort(-probability, kind="stable")
    falling, hits = probability[order], right[order]
    accepted = np.arange(1, len(order) + 1)
    last_of_equals = np.append(falling[1:] < falling[:-1], True)[: len(order)]
    good = np.flatnonzero(last_of_equals & (np.cumsum(hits) >= accuracy * accepted - 1e-9))
    return float(falling[good[-1]]) if len(good) else 1.0
