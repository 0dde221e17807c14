"""Whether labels are enough: the expectation and its share, and where to label next."""

import numpy as np
import pytest

from ecgfed.domain.labels.choose import Rule, next_group
from ecgfed.domain.labels.enough import ENOUGH, judge
from ecgfed.domain.labels.groups import Groups, group_beats
from ecgfed.domain.labels.label_errors import ERROR_FEATURES, ErrorModel, expected_errors
from ecgfed.domain.labels.likeness import Points


def groups_of(beats: int, leaves: int, seed: int = 0, apart: float = 1.0) -> Groups:
    """Three clouds of beats, the third a tenth of them."""
    rng = np.random.default_rng(seed)
    kind = np.minimum(np.arange(beats) * 20 // beats // 9, 2)
    at = rng.normal(0, 0.3, (beats, 6)) + apart * np.array([[0] * 6, [3] * 6, [-3] * 6])[kind]
    prior = np.full((beats, 5), 0.02)
    prior[np.arange(beats), kind] = 0.92
    parts = {"answers": slice(0, 1), "shape": slice(1, 3), "rhythm": slice(3, 4), "context": slice(4, 6)}
    return group_beats(Points(at, parts, prior), leaves)


@pytest.mark.parametrize("answers", [1, 3, 8])
def test_it_is_the_expectation_and_its_share(answers: int) -> None:
    groups, label = groups_of(400, 30), dict[int, str]()
    for _ in range(answers):
        group = next_group(groups, label)
        assert group is not None
        label[int(groups.beat[group])] = "NSV?"[len(label) % 4]
    found = judge(groups, label)
    assert found.expected == expected_errors(groups, label)
    assert (found.beats, found.unsaid) == (400, 400 - found.expected.of)
    assert found.share == found.expected.beats / 400
    assert found.enough == (found.share <= ENOUGH)
    assert bool(found.suggestions) != found.enough


def test_places_are_those_asked_next_each_once() -> None:
    groups = groups_of(500, 60)
    label = {int(groups.beat[0]): "N"}
    errors = ErrorModel(np.zeros(len(ERROR_FEATURES)), -3.0, 0.02)  # a twentieth of every group
    found = judge(groups, label, rule=Rule(np.zeros(15), -3.0), errors=errors)
    assert len(found.suggestions) == 5
    group = next_group(groups, label, rule=Rule(np.zeros(15), -3.0))
    assert group is not None
    assert (found.suggestions[0].beat, found.suggestions[0].beats) == (int(groups.beat[group]), int(groups.size[group]))
    assert len({one.beat for one in found.suggestions}) == 5
    assert all(0 < one.wrong <= one.beats for one in found.suggestions)


def test_labels_of_all_are_enough() -> None:
    groups = groups_of(120, 10)
    found = judge(groups, dict.fromkeys(range(120), "N"))
    assert (found.expected.beats, found.enough, found.suggestions, found.unsaid) == (0.0, True, (), 0)


def test_beats_that_nobody_could_tell_are_not_guessed_at() -> None:
    groups = groups_of(300, 20)
    found = judge(groups, {int(groups.beat[0]): "?"})
    assert (found.expected.beats, found.unsaid) == (0.0, 300)
