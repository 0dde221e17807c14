"""Scores against scikit-learn, and the harmonic mean by hand."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.metrics import confusion_matrix, f1_score, precision_recall_fscore_support

from ecgfed.core.evaluation.scores import class_table, confusion, harmonic_mean, macro_f1

CLASSES = 6
#: Labels from a few of the classes only, so that some are missing from truth, from prediction or from both.
LABEL = st.integers(0, CLASSES - 1)
PAIRS = st.lists(st.tuples(LABEL, LABEL), min_size=1, max_size=60)


def _labels(pairs: list[tuple[int, int]], dtype: type = np.int64) -> tuple[NDArray[np.integer], NDArray[np.integer]]:
    both = np.array(pairs, dtype=dtype)
    return both[:, 0], both[:, 1]


@given(PAIRS)
def test_confusion_is_scikit_learns(pairs: list[tuple[int, int]]) -> None:
    truth, predicted = _labels(pairs)
    expected = confusion_matrix(truth, predicted, labels=range(CLASSES))
    np.testing.assert_array_equal(confusion(truth, predicted, CLASSES), expected)


@given(PAIRS)
def test_macro_f1_is_scikit_learns_default(pairs: list[tuple[int, int]]) -> None:
    truth, predicted = _labels(pairs)
    expected = f1_score(truth, predicted, average="macro", zero_division=0)
    for convention in ((), ("any",)):
        assert macro_f1(confusion(truth, predicted, CLASSES), *convention) == pytest.approx(expected, abs=1e-12)


@given(PAIRS)
def test_macro_f1_over_the_classes_in_truth(pairs: list[tuple[int, int]]) -> None:
    truth, predicted = _labels(pairs)
    expected = f1_score(truth, predicted, labels=np.unique(truth), average="macro", zero_division=0)
    assert macro_f1(confusion(truth, predicted, CLASSES), "truth") == pytest.approx(expected, abs=1e-12)


def test_no_beats_have_no_score() -> None:
    empty = confusion(np.empty(0, np.int64), np.empty(0, np.int64), 3)
    assert empty.shape == (3, 3)
    assert math.isnan(macro_f1(empty, "any"))
    assert math.isnan(macro_f1(empty, "truth"))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.int64])
def test_confusion_does_not_overflow_in_the_labels_own_type(dtype: type) -> None:
    truth, predicted = _labels([(19, 19), (19, 18), (0, 19)], dtype)  # 19 * 20 + 19 is past 255
    matrix = confusion(truth, predicted, 20)
    assert matrix.sum() == 3
    assert (matrix[19, 19], matrix[19, 18], matrix[0, 19]) == (1, 1, 1)


@given(PAIRS)
def test_class_table_is_scikit_learns(pairs: list[tuple[int, int]]) -> None:
    truth, predicted = _labels(pairs)
    names = tuple("abcdef")
    precision, recall, f1, support = precision_recall_fscore_support(
        truth, predicted, labels=range(CLASSES), zero_division=0
    )
    for i, row in enumerate(class_table(confusion(truth, predicted, CLASSES), names)):
        told = int((predicted == i).sum())
        assert (row["class"], row["beats"], row["predicted"]) == (names[i], support[i], told)
        assert row["sensitivity"] == (None if not support[i] else pytest.approx(recall[i]))
        assert row["positive_predictivity"] == (None if not told else pytest.approx(precision[i]))
        assert row["f1"] == (None if not support[i] and not told else pytest.approx(f1[i]))


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (0.684, 0.334, 0.449),  # FedAvg in the GRP-FED paper: eq. 6 of its printed T_p and T_r
        (0.864, 0.424, 0.569),  # GRP-FED
        (0.602, 0.551, 0.575),  # q-FFL
        (1.0, 1.0, 1.0),
        (0.5, 1.0, 2 / 3),
        (0.0, 0.9, 0.0),
        (0.9, 0.0, 0.0),
        (0.0, 0.0, 0.0),
    ],
)
def test_harmonic_mean_by_hand(a: float, b: float, expected: float) -> None:
    assert harmonic_mean(a, b) == pytest.approx(expected, abs=5e-4)
