"""Expected wrong labels: features by hand, scipy's intervals, and simulated labels whose error rate is known."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import betabinom
from test_choose import tree

from ecgfed.domain.labels.choose import FEATURES, NEAR
from ecgfed.domain.labels.label_errors import (
    ERROR_FEATURES,
    NO_RIVAL,
    ErrorModel,
    expected_errors,
    leaf_labels,
    packaged_model,
)


def test_features_by_hand() -> None:
    leaves = leaf_labels(tree(0.0), {1: "V", 3: "F"})
    assert leaves.leaf.tolist() == [2, 3, 4]
    assert leaves.unanswered.tolist() == [1, 2, 1]
    assert leaves.labelled == 6
    rows = [dict(zip(ERROR_FEATURES[len(FEATURES) :], row[len(FEATURES) :], strict=True)) for row in leaves.features]
    margin = np.log(40.0 + NEAR) - np.log(49.0 + NEAR)  # beat 5 takes 3's label, and is 49 from 1
    assert rows[0] == pytest.approx(
        {
            "spread_shape": np.log(NEAR),
            "spread_rhythm": np.log(NEAR),
            "spread_context": np.log(NEAR),
            "inside": 0.0,
            "margin": margin,
            "no_rival": 0.0,
            "fusion": 1.0,
            "supra": 0.0,
            "fusion_margin": margin,
            "supra_margin": 0.0,
            "answers": np.log(2),
            "isolated": 1.0,
        }
    )
    assert rows[1]["inside"] == 1.0
    assert rows[1]["spread_shape"] == pytest.approx(np.log(np.sqrt(2 / 3) + NEAR))  # 0 and 2 are 1 from beat 1
    assert rows[1]["margin"] == pytest.approx(np.log(NEAR) - np.log(9.0 + NEAR))


def test_one_answer_has_no_rival_and_more_answers_than_were_seen_count_as_those() -> None:
    (row,) = leaf_labels(tree(0.0), {1: "N"}).features[:1]
    found = dict(zip(ERROR_FEATURES, row, strict=True))
    assert (found["no_rival"], found["isolated"], found["answers"]) == (1.0, 0.0, 0.0)
    assert found["margin"] == pytest.approx(np.log(49.0 + NEAR) - np.log(NO_RIVAL))


def test_the_expectation_is_the_sum_over_beats_without_an_answer() -> None:
    share = 0.25
    model = ErrorModel(np.zeros(len(ERROR_FEATURES)), float(np.log(share / (1 - share))), 0.02)
    found = expected_errors(tree(0.0), {1: "V", 3: "F"}, model=model)
    assert found.beats == pytest.approx(4 * share)
    assert found.of == 6
    assert (found.low, found.high) == model.interval(1.0, 6)
    whole = expected_errors(tree(0.0), dict.fromkeys(range(6), "N"), model=model)
    assert (whole.beats, whole.low, whole.high, whole.of) == (0.0, 0, 0, 6)
    nobody = expected_errors(tree(0.0), {1: "?"}, model=model)
    assert (nobody.beats, nobody.of) == (0.0, 0)


@pytest.mark.parametrize("correlation", [0.005, 0.02, 0.2])
@pytest.mark.parametrize(("expected", "beats"), [(0.4, 300), (5.0, 2000), (60.0, 3251), (900.0, 1000)])
def test_the_interval_is_scipys(correlation: float, expected: float, beats: int) -> None:
    strength, share = 1 / correlation - 1, expected / beats
    ours = ErrorModel(np.zeros(1), 0.0, correlation).interval(expected, beats)
    theirs = betabinom.ppf((0.05, 0.95), beats, share * strength, (1 - share) * strength)
    assert ours == tuple(theirs.tolist())


def test_nine_in_ten_recordings_with_a_known_error_rate_lie_in_the_interval() -> None:
    """Recordings of 2,000 beats whose error rates vary as the model assumes; each beat is drawn."""
    rng, share, correlation = np.random.default_rng(5), 0.03, 0.02
    low, high = ErrorModel(np.zeros(1), 0.0, correlation).interval(share * 2000, 2000)
    strength = 1 / correlation - 1
    rates = rng.beta(share * strength, (1 - share) * strength, 4000)
    wrong = rng.binomial(2000, rates)
    assert 0.88 < ((low <= wrong) & (wrong <= high)).mean() < 0.93


def test_the_model_in_the_package_is_the_one_that_was_fitted() -> None:
    stored = json.loads((Path(__file__).parents[2] / "benchmarks" / "clinical" / "errors.json").read_text())
    model, fitted = packaged_model(), stored["model"]
    np.testing.assert_array_equal(model.weight, [fitted["weights"][name] for name in ERROR_FEATURES])
    assert (model.bias, model.correlation) == (fitted["bias"], fitted["correlation"])
    for part in (*stored["ds1"]["by_rate"].values(), *stored["ds1"]["by_answers"].values()):
        assert part["covered"] >= 0.9
