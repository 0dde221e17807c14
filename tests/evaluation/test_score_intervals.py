"""Confidence intervals over patients and seeds, and corrected p values: by hand, by scipy, by an older definition."""

from itertools import product

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import accuracy_score, confusion_matrix, f1_score

from ecgfed.core.runs.intervals import Resampled, drawn, holm, interval, over_seeds, paired_p

RNG = np.random.default_rng(5)


def test_a_mean_has_the_interval_of_scipy() -> None:
    values = RNG.beta(8, 2, 45)
    of_scipy = stats.bootstrap((values,), np.mean, method="percentile", n_resamples=20_000, random_state=3)
    ends = interval(Resampled(45).mean(values.tolist()))
    assert ends == pytest.approx(tuple(of_scipy.confidence_interval), abs=0.005)


def test_each_draw_is_the_score_of_the_drawn_patients_beats() -> None:
    """Against scikit-learn on the beats of the drawn patients, laid end to end."""
    truth = [RNG.integers(0, 4, 30) for _ in range(5)]
    guess = [np.where(RNG.random(30) < 0.7, of, RNG.integers(0, 4, 30)) for of in truth]
    matrices = [confusion_matrix(a, b, labels=range(4)) for a, b in zip(truth, guess, strict=True)]
    found = Resampled(5).by_class(matrices)
    for draw, rows in list(enumerate(drawn(5)))[:20]:
        y, z = (np.concatenate([of[i] for i in rows]) for of in (truth, guess))
        assert found["macro_f1"][draw] == pytest.approx(f1_score(y, z, average="macro"))
        assert found["accuracy"][draw] == pytest.approx(accuracy_score(y, z))
        assert found["f1"][draw] == pytest.approx(f1_score(y, z, average=None, labels=range(4)))


def test_a_class_that_is_predicted_and_not_there_counts_by_convention() -> None:
    """Two patients alike: one beat of class 0, right; one of class 0 taken for class 1."""
    found = Resampled(2).by_class([np.array([[1, 1], [0, 0]])] * 2)
    assert set(found["macro_f1"].round(9)) == {round((2 / 3 + 0) / 2, 9)}
    assert set(found["macro_f1_truth"].round(9)) == {round(2 / 3, 9)}


def test_the_worst_tenth_of_eleven_is_two() -> None:
    values = np.arange(11.0)
    expected = [np.sort(values[rows])[:2].mean() for rows in drawn(11)]
    np.testing.assert_allclose(Resampled(11).worst_tenth(values.tolist()), expected)


def test_one_patient_and_undefined_scores_have_no_interval() -> None:
    assert interval(Resampled(1).mean([0.5])) is None
    assert interval(np.array([0.5, np.nan])) is None
    assert len(Resampled(1).by_class([np.eye(2, dtype=np.int64)])["macro_f1"]) == 0


def test_seeds_are_drawn_beside_patients() -> None:
    """Of two seeds that differ by 1 and patients that do not, a quarter of the means is 0, a half 0.5, a quarter 1."""
    values, counts = np.unique(over_seeds([np.zeros(2000), np.ones(2000)]), return_counts=True)
    assert values.tolist() == [0.0, 0.5, 1.0]
    np.testing.assert_allclose(counts / 2000, [0.25, 0.5, 0.25], atol=0.04)
    one = RNG.random(2000)
    np.testing.assert_array_equal(over_seeds([one]), one)


def test_holm_by_hand() -> None:
    """0.01 * 4, then the larger of that and 0.02 * 3, of 0.03 * 2, of 0.9 * 1."""
    assert holm([0.03, 0.01, 0.9, 0.02]) == pytest.approx([0.06, 0.04, 0.9, 0.06])
    assert holm([0.5, 0.6]) == [1.0, 1.0]
    assert holm([]) == []


def test_holm_rejects_what_stepping_down_rejects() -> None:
    """The procedure of Holm's paper: the i-th smallest of m is compared with 0.05 / (m - i + 1) until one fails."""
    for _ in range(50):
        p = RNG.random(6) ** 3
        rejected = np.zeros(6, bool)
        for step, at in enumerate(np.argsort(p)):
            if p[at] > 0.05 / (6 - step):
                break
            rejected[at] = True
        assert ((np.array(holm(p.tolist())) <= 0.05) == rejected).all()


def test_the_p_value_of_scipy() -> None:
    few = np.array([0.1, 0.3, -0.05, 0.2, 0.15, 0.0, 0.02])
    exact = np.mean([abs(np.mean(few * signs)) >= abs(few.mean()) - 1e-12 for signs in product([1, -1], repeat=7)])
    assert paired_p(few) == pytest.approx(exact)
    many = RNG.normal(0.3, 1, 45)
    of_scipy = stats.permutation_test(
        (many,), np.mean, permutation_type="samples", n_resamples=20_000, random_state=np.random.default_rng(1)
    )
    assert paired_p(many) == pytest.approx(of_scipy.pvalue, abs=0.015)
