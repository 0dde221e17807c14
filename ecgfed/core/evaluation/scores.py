"""Scores from a confusion matrix, with two conventions of macro-F1 that are both reported.

``any``: mean over classes in truth or prediction (scikit-learn's default, our headline); ``truth``: mean over true
classes only. A predicted class without true beats counts as 0 in the first and is ignored in the second.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

CONVENTIONS = ("any", "truth")


def confusion(truth: NDArray[np.integer], predicted: NDArray[np.integer], classes: int) -> NDArray[np.int64]:
    """Count (classes, classes) int64: rows are truth, columns prediction."""
    flat = truth.astype(np.int64) * classes + predicted
    return np.bincount(flat, minlength=classes * classes).reshape(classes, classes)


def f1_per_class(matrix: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return F1 = 2 TP / (2 TP + FP + FN) of each class; 0 if it is in neither truth nor prediction."""
    hit = np.diag(matrix).astype(np.float64)
    both = matrix.sum(0) + matrix.sum(1)
    f1: NDArray[np.float64] = np.divide(2 * hit, both, out=np.zeros_like(hit), where=both > 0)
    return f1


def macro_f1(matrix: NDArray[np.int64], convention: str = "any") -> float:
    """Mean F1 over the classes of a convention; NaN for an empty matrix."""
    included = matrix.sum(1) > 0
    if convention == "any":
        included |= matrix.sum(0) > 0
    return float(f1_per_class(matrix)[included].mean()) if included.any() else float("nan")


def harmonic_mean(a: float, b: float) -> float:
    """2ab / (a + b), 0 when both are 0 (GRP-FED paper, eq. 6)."""
    return 2 * a * b / (a + b) if a + b > 0 else 0.0


def class_table(matrix: NDArray[np.int64], classes: tuple[str, ...]) -> list[dict[str, Any]]:
    """Per class: beats, predicted, sensitivity (recall), positive predictivity (precision), F1."""
    f1 = f1_per_class(matrix)
    rows = []
    for i, name in enumerate(classes):
        beats, predicted, hit = int(matrix[i].sum()), int(matrix[:, i].sum()), int(matrix[i, i])
        rows.append(
            {
                "class": name,
                "beats": beats,
                "predicted": predicted,
                "sensitivity": hit / beats if beats else None,
                "positive_predictivity": hit / predicted if predicted else None,
                "f1": float(f1[i]) if beats or predicted else None,
            }
        )
    return rows
