"""Accuracies and spreads against scikit-learn and numbers worked by hand."""

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, balanced_accuracy_score

from ecgfed.core.evaluation.accuracies import accuracy, even_accuracy, expected_accuracy, reweighted_accuracy, spread
from ecgfed.core.evaluation.scores import confusion

TRUTH = np.array([0] * 6 + [1] * 3 + [2])
GUESS = np.array([0, 0, 0, 1, 2, 0, 1, 1, 0, 2])
MATRIX = confusion(TRUTH, GUESS, 4)


def test_accuracy_and_even_accuracy_are_scikit_learns() -> None:
    assert accuracy(MATRIX) == pytest.approx(accuracy_score(TRUTH, GUESS))
    assert even_accuracy(MATRIX) == pytest.approx(balanced_accuracy_score(TRUTH, GUESS))


def test_the_reweighted_accuracy_is_a_weighted_accuracy() -> None:
    mix = np.array([0.5, 0.3, 0.0, 0.2])
    expected = accuracy_score(TRUTH, GUESS, sample_weight=mix[TRUTH])
    assert reweighted_accuracy(MATRIX, mix) == pytest.approx(expected)
    # recalls 4/6, 2/3, 1; class 3 has no beats here, so its share is left out
    assert expected_accuracy(MATRIX, mix) == pytest.approx((0.5 * 4 / 6 + 0.3 * 2 / 3) / 0.8)


def test_a_client_of_classes_the_pool_lacks_has_no_accuracy() -> None:
    mix = np.array([0.0, 0.0, 0.0, 1.0])
    assert np.isnan(reweighted_accuracy(MATRIX, mix))
    assert np.isnan(expected_accuracy(MATRIX, mix))


def test_spread_names_the_worst_and_averages_the_lowest_tenth() -> None:
    values = [0.9, 0.2, 0.8, 0.7, 0.6, 0.5, 0.95, 0.4, 0.3, 0.85, 1.0]  # eleven patients: a tenth is two
    found = spread([f"p{i}" for i in range(11)], values)
    assert found["worst_client"] == "p1"
    assert found["worst"] == 0.2
    assert found["worst_decile"] == pytest.approx(0.25)
    assert found["mean"] == pytest.approx(np.mean(values))
    assert found["std"] == pytest.approx(np.sqrt(np.mean((np.array(values) - np.mean(values)) ** 2)))
