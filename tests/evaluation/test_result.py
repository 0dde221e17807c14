"""Scores as a thing to hold: every number by hand."""

import math
from typing import Any

import pytest

from ecgfed.core.evaluation.result import Scores, with_spread


def result(t_g: float, f1: float, own: tuple[float, float]) -> dict[str, Any]:
    scores = {"T_g": t_g, "T_p": 0.5, "T_r": 0.25, "T_l": 1 / 3, "T_p_global": 0.4, "T_l_clients": 0.3}
    return {
        "method": "fedavg",
        "split": "test",
        "round": 7,
        "beats": 1234,
        "patients": 2,
        "scores": scores,
        "scores_truth": {name: value / 2 for name, value in scores.items()},
        "per_class": [{"class": "N", "beats": 10, "f1": 0.9}, {"class": "<V>", "beats": 2, "f1": f1}],
        "per_patient": [{"client": "a", "personal_f1": own[0]}, {"client": "b", "personal_f1": own[1]}],
    }


def test_one_seed_is_itself() -> None:
    scores = Scores((result(0.8, 0.2, (0.4, 0.9)),))
    assert (scores.T_g, scores.std("T_g"), scores.written("T_g")) == (0.8, 0.0, "0.800")
    assert repr(scores) == "Scores(test: T_g 0.800, T_p 0.500, T_r 0.250, T_l 0.333)"
    assert scores.to_dict() == scores.results[0]


def test_two_seeds_have_a_mean_and_a_standard_deviation() -> None:
    """Of 0.8 and 0.9: mean 0.85, deviation sqrt(2 * 0.05^2 / 1) = 0.0707."""
    scores = Scores((result(0.8, 0.2, (0.4, 0.9)), result(0.9, 0.4, (0.6, 0.9))))
    assert scores.T_g == pytest.approx(0.85)
    assert scores.std("T_g") == pytest.approx(math.sqrt(0.005))
    assert scores.written("T_g") == "0.850 ± 0.071"
    assert scores.written("scores_truth", "T_g") == "0.425 ± 0.035"
    assert scores.to_dict()["scores"]["T_g"] == {"mean": pytest.approx(0.85), "std": pytest.approx(math.sqrt(0.005))}
    assert scores.rows("per_class", "class", "f1") == [("N", [[0.9, 0.9]]), ("<V>", [[0.2, 0.4]])]


def test_the_three_sentences() -> None:
    first, second, third = Scores((result(0.8, 0.2, (0.4, 0.9)), result(0.9, 0.4, (0.6, 0.9)))).sentences()
    assert "On 1,234 test beats of 2 clients" in first
    assert "0.85 (mean of 2 seeds); weak classes: <V> 0.30." in first
    assert second == (
        "Each client's own model reaches 0.50 on that client's beats (0.10 above the model for everybody) and 0.25 on "
        "everybody's."
    )
    assert third.startswith("Served worst is a, with 0.50; 0 of 2 clients are below 0.5")


def test_the_sentences_of_a_method_without_personal_models() -> None:
    alike = result(0.25, 0.9, (0.5, 0.5))
    alike["scores"]["T_p_global"] = 0.5
    _, second, third = Scores((alike,)).sentences()
    assert second == "On each client's own beats it reaches 0.50, mean over clients; their own answers are the same."
    assert third == "Every client is served alike, with 0.50."
    uneven = {**alike, "per_patient": [{"client": "a", "personal_f1": 0.4}, {"client": "b", "personal_f1": 0.6}]}
    assert Scores((uneven,)).sentences()[2] == "Served worst is a, with 0.40; 1 of 2 clients are below 0.5."


def test_what_is_missing_with_some_seeds() -> None:
    assert with_spread([None, None]) == "-"
    assert with_spread([0.5, None]) == "0.500 ± 0.000"
    assert with_spread([27.0, 27.0], 0) == "27"
    assert with_spread([27.0, 28.0], 0) == "28 ± 1"
    with pytest.raises(ValueError, match="at least one"):
        Scores(())
