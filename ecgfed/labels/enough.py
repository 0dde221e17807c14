"""Whether labels are enough, and where to label next, by the rule that chooses beats (``ecgfed.labels.choose``)."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ecgfed.labels.answers import CANNOT_TELL
from ecgfed.labels.choose import Asked, Rule, expected_wrong, next_group, shipped_rule
from ecgfed.labels.groups import Groups

#: Where no more than this share of the beats is expected to get a label that is not theirs, labels are enough.
ENOUGH, MOST_PLACES = 0.01, 5


@dataclass(frozen=True)
class Place:
    """A beat that is worth a label.

    Attributes:
        beat: its number.
        beats: how many beats it stands for.
        wrong: how many of these are expected to have another label than the one they would get.
    """

    beat: int
    beats: int
    wrong: float


@dataclass(frozen=True)
class Enough:
    """What the rule says of some labels.

    Attributes:
        wrong: beats that are expected to get a label that is not theirs, over the smallest groups without an answer.
        beats: all beats of the groups.
        unsaid: beats that take no label at all, since the beat that stands for them could not be told.
        places: where to label next, what is worth most first; none where the labels are enough.
    """

    wrong: float
    beats: int
    unsaid: int
    places: tuple[Place, ...]

    @property
    def share(self) -> float:
        """The expected share of beats with a label that is not theirs, 0 to 1."""
        return self.wrong / self.beats

    @property
    def enough(self) -> bool:
        """Whether that is at most ``ENOUGH``."""
        return self.share <= ENOUGH


def judge(groups: Groups, label: Mapping[int, str], *, rule: Rule | None = None) -> Enough:
    """Say how many beats are expected to get a wrong label, and where to label next.

    Only the smallest groups without an answer count: beats beside an answered one in its smallest group are taken to
    be like it.

    Args:
        groups: of a recording.
        label: answered beat -> its label, one at least.
        rule: that estimates; default the one in the package.
    """
    rule = rule or shipped_rule()
    asked = Asked.of(groups, label)
    open_leaves = [group for group in np.unique(groups.leaf).tolist() if not asked.inside[group]]
    told = np.array([group for group in open_leaves if label[asked.nearest(group)[1]] != CANNOT_TELL], dtype=np.int64)
    unsaid = sum(int(groups.size[group]) for group in open_leaves) - int(groups.size[told].sum())
    found = Enough(float(expected_wrong(asked, rule, told).sum()), len(groups.leaf), unsaid, ())
    if found.enough:
        return found
    return Enough(found.wrong, found.beats, found.unsaid, _places(groups, label, rule))


def _places(groups: Groups, label: Mapping[int, str], rule: Rule) -> tuple[Place, ...]:
    """Return the beats that would be asked next, each as though those before it had confirmed what is expected."""
    answers, found = dict(label), list[Place]()
    while len(found) < MOST_PLACES:
        group = next_group(groups, answers, rule=rule)
        if group is None:
            break
        asked = Asked.of(groups, answers)
        wrong = float(expected_wrong(asked, rule, np.array([group]))[0])
        beat = int(groups.beat[group])
        found.append(Place(beat, int(groups.size[group]), wrong))
        answers[beat] = answers[asked.nearest(group)[1]]
    return tuple(found)
