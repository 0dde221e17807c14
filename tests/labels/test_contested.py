"""Which answers are asked again: those most like an answer of the kind that they are easily taken for."""

import numpy as np
import pytest

from ecgfed.domain.labels.contested import Contested, contested
from ecgfed.domain.labels.groups import Groups, group_beats
from ecgfed.domain.labels.likeness import Points


def line() -> Groups:
    """Four clouds of 20 beats along a line, at 0, 1, 10 and 30; every cloud is a smallest group."""
    rng = np.random.default_rng(2)
    at = np.zeros((80, 2))
    at[:, 0] = np.repeat([0.0, 1.0, 10.0, 30.0], 20) + rng.normal(0, 0.01, 80)
    return group_beats(Points(at, {"shape": slice(0, 2)}, np.full((80, 5), 0.2)), 4)


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ("FVNN", [(0, 20, 20), (20, 0, 20)]),  # the first two clouds are each other's nearest
        ("AN", [(0, 20, 40), (20, 0, 40)]),  # as is whatever takes their label
        ("VVFN", [(40, 20, 20)]),
        ("NNVV", []),
        ("VNVN", []),  # N and V are not confused
    ],
)
def test_the_nearest_other_answer_is_of_the_rival_kind(labels: str, expected: list[tuple[int, int, int]]) -> None:
    groups = line()
    label = {20 * place: symbol for place, symbol in enumerate(labels)}
    found = contested(groups, label)
    if labels == "AN":
        assert {(one.beat, one.rival) for one in found} == {(0, 20), (20, 0)}
        assert sum(one.beats for one in found) == 80
    else:
        assert found == [Contested(*one) for one in expected]


def test_confirmed_answers_are_not_asked_again() -> None:
    label = {0: "F", 20: "V", 40: "N", 60: "N"}
    assert contested(line(), label, frozenset({0})) == [Contested(20, 0, 20)]
    assert contested(line(), label, frozenset({0, 20})) == []


def test_one_answer_and_a_whole_annotation_are_left_alone() -> None:
    groups = line()
    assert contested(groups, {0: "F"}) == []
    rng = np.random.default_rng(0)
    points = Points(rng.normal(0, 1, (600, 2)), {"shape": slice(0, 2)}, np.full((600, 5), 0.2))
    everything = {beat: "FV"[beat % 2] for beat in range(600)}
    assert contested(group_beats(points, 100), everything) == []
