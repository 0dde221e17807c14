"""Answers averaged over alike beats: against the mean worked by hand, and scattered mistakes corrected."""

import numpy as np

from ecgfed.domain.beats import alike
from ecgfed.domain.beats.neighbours import FEATURES


def test_the_log_probabilities_of_two_groups_are_averaged() -> None:
    at = np.repeat(np.array([[0.0] * 68, [50.0] * 68], np.float32), 2, axis=0)
    probability = np.array([[0.9, 0.1], [0.5, 0.5], [0.2, 0.8], [0.2, 0.8]], np.float32)
    found = alike.averaged(probability, at, np.ones(4, bool))
    odds = np.log([9.0, 1.0])  # of the first group's beats
    expected = 1 / (1 + np.exp(-(0.3 * odds + 0.7 * odds.mean())))
    np.testing.assert_allclose(found[:2, 0], expected, atol=1e-6)
    np.testing.assert_allclose(found[2:], probability[2:], atol=1e-6)


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
    rr[:, FEATURES.index("reference_mv")] = 1
    rr[kind, FEATURES.index("interval_+0")] = -2
    window_mv = 0.05 * rng.standard_normal((600, 1, 256)).astype(np.float32)
    window_mv[kind, :, 90:110] += 1
    score = np.where(kind, 0.8, 0.2) + 0.25 * rng.standard_normal(600)
    probability = np.stack([1 - np.clip(score, 0.01, 0.99), np.clip(score, 0.01, 0.99)], axis=1).astype(np.float32)
    found = alike.averaged(probability, alike.points(window_mv, rr), np.ones(600, bool))
    assert (probability.argmax(1) != kind).sum() > 30
    assert (found.argmax(1) != kind).sum() <= 3
