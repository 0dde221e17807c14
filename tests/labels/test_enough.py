"""Whether labels are enough: the rule's own estimate summed by hand, and where to label next."""

import numpy as np
import pytest

from ecgfed.labels.choose import Asked, Rule, differ_features, next_group, shipped_rule
from ecgfed.labels.enough import ENOUGH, judge
from ecgfed.labels.groups import Groups, group_beats
from ecgfed.labels.likeness import Points


def groups_of(beats: int, leaves: int, seed: int = 0, apart: float = 1.0) -> Groups:
    """Three clouds of beats, the third a tenth of them."""
    rng = np.random.default_rng(seed)
    kind = np.minimum(np.arange(beats) * 20 // beats // 9, 2)
    at = rng.normal(0, 0.3, (beats, 6)) + apart * np.array([[0] * 6, [3] * 6, [-3] * 6])[kind]
    prior = np.full((beats, 5), 0.02)
    prior[np.arange(beats), kind] = 0.92
    parts = {"answers": slice(0, 1), "shape": slice(1, 3), "rhythm": slice(3, 4), "context": slice(4, 6)}
    return group_beats(Points(at, parts, prior), leaves)


def by_hand(groups: Groups, label: dict[int, str], rule: Rule) -> float:
    """Beats expected to be wrong, group by group."""
    asked, total = Asked.of(groups, label), 0.0
    for leaf in sorted(set(groups.leaf.tolist())):
        members = np.flatnonzero(groups.leaf == leaf)
        if any(int(beat) in label for beat in members):
            continue
        around, beat = asked.nearest(leaf)
        if label[beat] == "?":
            continue
        features = differ_features(groups, leaf, around, beat, label[beat])
        total += len(members) / (1 + np.exp(-(features @ rule.weight + rule.bias)))
    return float(total)


@pytest.mark.parametrize("answers", [1, 3, 8])
def test_the_sum_is_the_rules_over_groups_without_an_answer(answers: int) -> None:
    groups, label = groups_of(400, 30), dict[int, str]()
    for _ in range(answers):
        group = next_group(groups, label)
        assert group is not None
        label[int(groups.beat[group])] = "NSV?"[len(label) % 4]
    found = judge(groups, label)
    assert found.wrong == pytest.approx(by_hand(groups, label, shipped_rule()))
    assert found.beats == 400
    assert found.share == found.wrong / 400
    assert found.enough == (found.share <= ENOUGH)
    assert bool(found.places) != found.enough


def test_places_are_those_asked_next_each_once() -> None:
    groups = groups_of(500, 60)
    label = {int(groups.beat[0]): "N"}
    found = judge(groups, label, rule=Rule(np.zeros(15), -3.0))  # a twentieth of every group
    assert found.wrong == pytest.approx(by_hand(groups, label, Rule(np.zeros(15), -3.0)))
    assert len(found.places) == 5
    group = next_group(groups, label, rule=Rule(np.zeros(15), -3.0))
    assert group is not None
    assert (found.places[0].beat, found.places[0].beats) == (int(groups.beat[group]), int(groups.size[group]))
    assert len({one.beat for one in found.places}) == 5
    assert all(0 < one.wrong <= one.beats for one in found.places)


def test_labels_of_all_are_enough() -> None:
    groups = groups_of(120, 10)
    found = judge(groups, dict.fromkeys(range(120), "N"))
    assert (found.wrong, found.enough, found.places, found.unsaid) == (0.0, True, (), 0)


def test_beats_that_nobody_could_tell_are_not_guessed_at() -> None:
    groups = groups_of(300, 20)
    found = judge(groups, {int(groups.beat[0]): "?"})
    leaf = int(groups.leaf[int(groups.beat[0])])
    assert (found.wrong, found.unsaid) == (0.0, 300 - int((groups.leaf == leaf).sum()))
