"""Accuracies of federated and personal models, and the distribution of a score over patients.

Computed from confusion matrices (rows truth, columns prediction): the split form on each patient's test beats, the
re-weighted forms on the pool with the patient's class distribution.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.int64]


def accuracy(matrix: Matrix) -> float:
    """Return the fraction of correct beats; NaN for an empty matrix."""
    return float(np.trace(matrix) / matrix.sum()) if matrix.sum() else float("nan")


def recall(matrix: Matrix) -> NDArray[np.float64]:
    """Return the recall of each class (classes,); NaN for a class without beats."""
    beats = matrix.sum(1)
    recalls: NDArray[np.float64] = np.full(len(matrix), np.nan)
    np.divide(np.diag(matrix), beats, out=recalls, where=beats > 0)
    return recalls


def even_accuracy(matrix: Matrix) -> float:
    """Return the balanced accuracy over true classes: FedABC's measure of client drift (equation 8).

    Low means strong drift: local training has forgotten other classes.
    """
    return float(np.nanmean(recall(matrix)))


def reweighted_accuracy(matrix: Matrix, mix: NDArray[np.floating]) -> float:
    """Return Fed-RoD's personal accuracy on a common test set (section 5): sum_i P(y_i) right_i / sum_i P(y_i).

    Args:
        matrix: on the common test set.
        mix: (classes,) the client's class distribution P_m(y).

    Returns:
        The accuracy; NaN if the test set has none of the client's classes.
    """
    of_all = float((mix * matrix.sum(1)).sum())
    return float((mix * np.diag(matrix)).sum()) / of_all if of_all else float("nan")


def expected_accuracy(matrix: Matrix, mix: NDArray[np.floating]) -> float:
    """Return the mean recall weighted by the class distribution.

    Equal to ``reweighted_accuracy`` on a balanced test set, for which Fed-RoD defines it; on others, it is what that
    formula is meant to estimate.
    """
    present = matrix.sum(1) > 0
    total = float(mix[present].sum())
    return float((mix[present] * recall(matrix)[present]).sum()) / total if total else float("nan")


def spread(names: Sequence[str], values: Sequence[float]) -> dict[str, Any]:
    """Return statistics of a score over patients.

    Returns:
        ``mean``, ``std`` (population), ``worst_decile`` (mean of the lowest tenth of the patients, at least one),
        ``worst``, ``worst_client``.
    """
    scores = np.asarray(values, dtype=np.float64)
    lowest = np.sort(scores)[: max(1, -(-len(scores) // 10))]
    return {
        "mean": float(scores.mean()),
        "std": float(scores.std()),
        "worst_decile": float(lowest.mean()),
        "worst": float(lowest[0]),
        "worst_client": names[int(scores.argmin())],
    }
