"""Which beat is asked for next, and what labels say of all: against formulas and trees worked by hand."""

import numpy as np
import pytest

from ecgfed.domain.labels.choose import (
    FEATURES,
    NEAR,
    LabelledTree,
    Rule,
    differ_features,
    group_errors,
    next_group,
    shipped_rule,
)
from ecgfed.domain.labels.groups import Groups, group_beats
from ecgfed.domain.labels.likeness import Points
from ecgfed.domain.labels.spread import spread

PARTS = {"answers": slice(0, 5), "shape": slice(5, 7), "rhythm": slice(7, 8), "context": slice(8, 9)}


def tree(rhythm: float = 3.0) -> Groups:
    """Six beats on a line: 0 1 2 | 3 4 | 5; the whole is 0, {0 to 4} is 1, {5} is 2, {0, 1, 2} is 3, {3, 4} is 4."""
    at = np.zeros((6, 9))
    at[:, 5] = [0.0, 1.0, 2.0, 10.0, 11.0, 50.0]
    at[5, 7] = rhythm
    prior = np.full((6, 5), 0.05)
    prior[:5, 0], prior[5, 2] = 0.8, 0.8
    points = Points(at, PARTS, prior)
    parent = np.array([-1, 0, 0, 1, 1])
    leaf = np.array([3, 3, 3, 4, 4, 2])
    means = np.stack([prior.mean(0), prior[:5].mean(0), prior[5], prior[0], prior[3]])
    return Groups(parent, np.array([6, 5, 1, 3, 2]), np.array([3, 2, 5, 1, 3]), means, leaf, points)


def test_features_by_hand() -> None:
    found = dict(zip(FEATURES, differ_features(tree(), 2, 0, 1, "N"), strict=True))
    expected = {
        "prior_same": np.log(0.05),
        "prior_other": np.log(0.8),
        "size": 0.0,
        "share": np.log(1 / 6),
        "shape": np.log(49.0 + NEAR),
        "rhythm": np.log(3.0 + NEAR),
        "context": np.log(NEAR),
        "is_N": 1.0,
        "is_S": 0.0,
        "is_V": 0.0,
        "is_F": 0.0,
        "is_other": 0.0,
        "prior_same_N": np.log(0.05),
        "shape_N": np.log(49.0 + NEAR),
        "context_N": np.log(NEAR),
    }
    assert list(found) == list(expected)
    np.testing.assert_allclose(list(found.values()), list(expected.values()))


@pytest.mark.parametrize(
    ("label", "name"), [("A", "is_S"), ("V", "is_V"), ("F", "is_F"), ("/", "is_other"), ("|", "is_other")]
)
def test_each_label_is_of_its_kind(label: str, name: str) -> None:
    found = dict(zip(FEATURES, differ_features(tree(), 2, 0, 1, label), strict=True))
    assert found[name] == 1.0
    assert found["is_N"] == found["shape_N"] == 0.0
    assert sum(found[one] for one in FEATURES if one.startswith("is_")) == 1.0


def test_a_label_of_no_kind_has_no_share() -> None:
    found = dict(zip(FEATURES, differ_features(tree(), 2, 0, 1, "?"), strict=True))
    assert found["prior_same"] == np.log(1e-3)
    assert found["prior_other"] == np.log(0.8)


def test_the_first_question_is_of_the_whole_and_the_next_where_most_are_expected_wrong() -> None:
    groups = tree()
    assert next_group(groups, {}) == 0
    rule = Rule(np.eye(len(FEATURES))[FEATURES.index("shape")], 0.0)  # only distance counts
    asked = LabelledTree.of(groups, {3: "N"})
    near, far = (size * 1 / (1 + np.exp(-np.log(distance + NEAR))) for size, distance in ((3, 9.0), (1, 47.0 - 7.0)))
    np.testing.assert_allclose(group_errors(asked, rule, np.array([3, 2])), [near, far])
    assert near > far
    assert next_group(groups, {3: "N"}, rule=rule) == 3  # 1, 0 and 4 hold the answered beat
    assert next_group(groups, {3: "N", 1: "N"}, rule=rule) == 2
    assert next_group(groups, {3: "N", 1: "N", 5: "V"}, rule=rule) is None


def test_passed_over_and_within() -> None:
    groups = tree()
    rule = Rule(np.eye(len(FEATURES))[FEATURES.index("shape")], 0.0)
    assert next_group(groups, {3: "N"}, rule=rule, passed={1}) == 2
    assert next_group(groups, {5: "V"}, rule=rule, within=1) in {1, 3, 4}
    assert next_group(groups, {}, passed={3}) == 1  # the next in order
    assert next_group(groups, {}, within=2) == 2
    assert next_group(groups, {}, passed={1, 2, 3, 5}) is None
    assert next_group(groups, {3: "N"}, rule=rule, within=2) == 2


def test_spreading_by_hand() -> None:
    label, origin = spread(tree(), {3: "N"})
    assert label.tolist() == ["N"] * 6
    assert origin.tolist() == [3] * 6
    label, origin = spread(tree(), {3: "N", 5: "V", 0: "A"})
    assert label.tolist() == ["A", "A", "A", "N", "N", "V"]
    assert origin.tolist() == [0, 0, 0, 3, 3, 5]
    label, _ = spread(tree(), {0: "A", 2: "V"})  # group 3 has both: its own beat 1 is nearest to the first of the two
    assert label.tolist() == ["A", "A", "V", "V", "V", "V"]  # beat 3, for the others, is nearer to 2


def test_every_answered_beat_keeps_its_label_and_every_other_takes_one_that_was_given() -> None:
    rng = np.random.default_rng(2)
    at = rng.normal(size=(400, 9))
    groups = group_beats(Points(at, PARTS, np.full((400, 5), 0.2)), 50)
    answered = {int(beat): str(rng.choice(list("NVA?|"))) for beat in rng.choice(400, 30, replace=False)}
    label, origin = spread(groups, answered)
    assert all(label[beat] == one for beat, one in answered.items())
    assert all(label[beat] == answered[int(origin[beat])] for beat in range(400))
    inside = LabelledTree.of(groups, answered).inside
    for beat in range(400):
        around = next(group for group in groups.path(int(groups.leaf[beat])) if inside[group])
        assert int(origin[beat]) in inside[around]


def test_the_rule_in_the_package_asks_for_what_is_far_and_unlike() -> None:
    rule = shipped_rule()
    assert rule.weight.shape == (len(FEATURES),)
    assert np.isfinite(rule.weight).all()
    groups = tree()
    answered = differ_features(groups, 2, 0, 3, "N")
    close = differ_features(groups, 3, 1, 3, "N")
    far, near = rule.differs(np.stack([answered, close]))
    assert far > 0.9 > 0.5 > near
