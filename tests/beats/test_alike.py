"""Answers averaged over alike beats: against the mean worked by hand, and scattered mistakes corrected."""

import numpy as np

from ecgfed.domain.beats import alike
from ecgfed.domain.beats.strip import FEATURES


def test_the_log_probabilities_of_two_groups_are_averaged() -> None:
    at = np.repeat(np.array([[0.0] * 68, [50.0] * 68], np.float32), 2, axis=0)
    probability = np.array([[0.9, 0.1], [0.5, 0.5], [0.2, 0.8], [0.2, 0.8]], np.float32)
    found = alike.averaged(probability, at, np.ones(4, bool))
    odds = np.log([9.0, 1.0])  # of the first group's beats
    expected = 1 / (1 + np.exp(-(0.3 * odds + 0.7 * odds.mean())))
    np.testing.assert_allclose(found[:2, 0], expected, atol=1e-6)
    np.testing.assert_allclose(found[2:], probability[2:], atol=1e-6)


def test_a_point_is_what_the_page_says() -> None:
    """Half the difference within the window, which counts as 6 at most, and four features."""
    rr = np.random.default_rng(3).normal(0, 4, (5, len(FEATURES))).astype(np.float32)
    within = rr[:, FEATURES.index("difference_47") : FEATURES.index("difference_111")]
    assert np.abs(within).max() > 6
    names = ("previous_over_typical", "next_over_sinus", "qrs_unlike", "p_lost")
    columns = rr[:, [FEATURES.index(name) for name in names]] * [1, 1, 2, 2]
    expected = np.concatenate([0.5 * np.minimum(np.maximum(within, -6), 6), columns], axis=1)
    found = alike.points(rr)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, expected.astype(np.float32))


def test_beats_without_signal_stay_out_and_the_same_beats_give_the_same_bits() -> None:
    rng = np.random.default_rng(1)
    at, probability = rng.standard_normal((9000, 68)).astype(np.float32), rng.dirichlet([1, 1], 9000).astype(np.float32)
    usable = rng.random(9000) < 0.9
    found = alike.averaged(probability, at, usable)
    np.testing.assert_array_equal(found[~usable], probability[~usable])
    np.testing.assert_allclose(found.sum(1), 1, atol=1e-6)
    np.testing.assert_array_equal(found, alike.averaged(probability, at, usable))
    first = alike.averaged(probability[: alike.STRETCH], at[: alike.STRETCH], usable[: alike.STRETCH])
    np.testing.assert_array_equal(found[: alike.STRETCH], first)  # stretches do not look at one another
    assert alike.averaged(probability[:0], at[:0], usable[:0]).shape == (0, 2)


def test_scattered_mistakes_are_corrected() -> None:
    rng = np.random.default_rng(2)
    kind = rng.random(600) < 0.1
    rr = np.zeros((600, len(FEATURES)), np.float32)
    rr[kind, FEATURES.index("previous_over_typical")] = -2
    rr[:, FEATURES.index("difference_0") :] = 0.05 * rng.standard_normal((600, 144))
    rr[kind, FEATURES.index("difference_70") : FEATURES.index("difference_75")] += 1
    score = np.where(kind, 0.8, 0.2) + 0.25 * rng.standard_normal(600)
    probability = np.stack([1 - np.clip(score, 0.01, 0.99), np.clip(score, 0.01, 0.99)], axis=1).astype(np.float32)
    found = alike.averaged(probability, alike.points(rr), np.ones(600, bool))
    assert (probability.argmax(1) != kind).sum() > 30
    assert (found.argmax(1) != kind).sum() <= 3
