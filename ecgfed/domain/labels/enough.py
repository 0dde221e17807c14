"""Whether labels are enough (``ecgfed.domain.labels.label_errors``), and where to label next
(``ecgfed.domain.labels.choose``)."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from ecgfed.domain.labels.choose import LabelledTree, Rule, group_errors, next_group, shipped_rule
from ecgfed.domain.labels.groups import Groups
from ecgfed.domain.labels.label_errors import ErrorModel, ExpectedErrors, expected_errors

#: Where no more than this share of the beats is expected to get a label that is not theirs, labels are enough.
ENOUGH, MAX_SUGGESTIONS = 0.01, 5


@dataclass(frozen=True)
class LabelSuggestion:
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
    """Whether some labels are enough.

    Attributes:
        expected: how many beats are expected to have a label that is not theirs, with an interval.
        beats: all beats of the groups.
        unsaid: beats that take no label at all, since the beat that stands for them could not be told.
        suggestions: where to label next, what is worth most first; none where the labels are enough.
    """

    expected: ExpectedErrors
    beats: int
    unsaid: int
    suggestions: tuple[LabelSuggestion, ...]

    @property
    def share(self) -> float:
        """The expected share of beats with a label that is not theirs, 0 to 1."""
        return self.expected.beats / self.beats

    @property
    def enough(self) -> bool:
        """Whether that is at most ``ENOUGH``."""
        return self.share <= ENOUGH


def judge(
    groups: Groups, label: Mapping[int, str], *, rule: Rule | None = None, errors: ErrorModel | None = None
) -> Enough:
    """Say how many beats are expected to get a wrong label, and where to label next.

    Args:
        groups: of a recording.
        label: answered beat -> its label, one at least.
        rule: that chooses where to label next; default the one in the package.
        errors: that estimates; default the one in the package.
    """
    expected, beats = expected_errors(groups, label, model=errors), len(groups.leaf)
    result = Enough(expected, beats, beats - expected.of, ())
    rule, labels, suggestions = rule or shipped_rule(), dict(label), list[LabelSuggestion]()
    while not result.enough and len(suggestions) < MAX_SUGGESTIONS:
        group = next_group(groups, labels, rule=rule)
        if group is None:
            break
        tree = LabelledTree.of(groups, labels)
        wrong = float(group_errors(tree, rule, np.array([group]))[0])
        beat = int(groups.beat[group])
        suggestions.append(LabelSuggestion(beat, int(groups.size[group]), wrong))
        labels[beat] = labels[tree.nearest(group)[1]]  # as though it had confirmed what is expected
    return replace(result, suggestions=tuple(suggestions))
