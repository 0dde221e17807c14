"""Which beat to ask for next: of the group that most beats are expected to have another label in than they would get.

The estimate is a logistic regression on how a group differs from the answered beat that it would take its label of
(``differ.json``; learned on MIT-BIH's DS1, ``benchmarks/clinical/learn.py``). ``web/choose.js`` is the same rule for a
page without a server.
"""

import json
from collections.abc import Mapping, Set
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecgfed.domain.labels.groups import Groups
from ecgfed.domain.labels.likeness import KINDS, Floats

#: label -> the kind that a model's answer is compared with; others have none.
KIND_OF = {
    **dict.fromkeys("NLRBejn", "N"),
    **dict.fromkeys("AaJS", "S"),
    **dict.fromkeys("VEr", "V"),
    "F": "F",
    **dict.fromkeys("/fQ", "Q"),
}
#: Added to a distance before its logarithm, and the share of a kind that a label without one has.
NEAR, NO_SHARE = 0.05, 1e-3
#: What the regression looks at, in order.
FEATURES = (
    "prior_same",  # logarithm of the mean prior of the label's kind in the group
    "prior_other",  # of the likeliest other kind
    "size",  # logarithm of the group's beats
    "share",  # logarithm of its share of the group that holds it and the answered beat
    "shape",  # logarithms of the distance between its beat and the answered one, by parts of a point
    "rhythm",
    "context",
    "is_N",  # the kind of the label it would get
    "is_S",
    "is_V",
    "is_F",
    "is_other",
    "prior_same_N",  # products with is_N
    "shape_N",
    "context_N",
)


@dataclass(frozen=True)
class Rule:
    """The regression.

    Attributes:
        weight: (features,) float64, of ``FEATURES``.
        bias: the constant.
    """

    weight: Floats
    bias: float

    def differs(self, features: Floats) -> Floats:
        """Return how likely labels differ, (groups,) of features (groups, features)."""
        return np.asarray(1.0 / (1.0 + np.exp(-(features @ self.weight + self.bias))))

    def as_json(self) -> dict[str, Any]:
        """Return what the page's script needs."""
        named = dict(zip(FEATURES, self.weight.tolist(), strict=True))
        return {"weights": named, "bias": self.bias, "near": NEAR, "no_share": NO_SHARE, "kind_of": KIND_OF}


@cache
def shipped_rule() -> Rule:
    """Return the rule in the package."""
    stored = json.loads(Path(__file__).with_name("differ.json").read_text(encoding="utf-8"))
    return Rule(np.array([stored["weights"][name] for name in FEATURES]), float(stored["bias"]))


def differ_features(groups: Groups, group: int, around: int, beat: int, label: str) -> Floats:
    """Return what the rule looks at, (features,).

    Args:
        groups: of the recording.
        group: the group that may have another label.
        around: the smallest group that holds it and the answered beat.
        beat: the answered beat that it would take its label of.
        label: that label, a symbol.
    """
    points, prior = groups.points, groups.prior[group]
    kind = KIND_OF.get(label, "")
    known = KINDS.index(kind) if kind else -1
    same = float(prior[known]) if kind else NO_SHARE
    rival = max(float(prior[i]) for i in range(len(KINDS)) if i != known)
    offset = points.at[groups.beat[group]] - points.at[beat]
    parts = {name: offset[points.parts[name]] for name in ("shape", "rhythm", "context")}
    log_distance = {name: float(np.log(np.linalg.norm(part) + NEAR)) for name, part in parts.items()}
    size, normal = float(groups.size[group]), float(kind == "N")
    of_kind = [float(kind == item) for item in ("N", "S", "V", "F")]
    logs = [np.log(same), np.log(rival), np.log(size), np.log(size / float(groups.size[around]))]
    products = [normal * value for value in (np.log(same), log_distance["shape"], log_distance["context"])]
    return np.array([*logs, *log_distance.values(), *of_kind, 1.0 - sum(of_kind), *products])


@dataclass(frozen=True)
class LabelledTree:
    """What the answers so far say of the tree.

    Attributes:
        groups: of the recording.
        label: answered beat -> its label.
        inside: for each group the answered beats it holds.
    """

    groups: Groups
    label: Mapping[int, str]
    inside: tuple[tuple[int, ...], ...]

    @staticmethod
    def of(groups: Groups, label: Mapping[int, str]) -> "LabelledTree":
        """Sort the answered beats into the groups."""
        inside: list[list[int]] = [[] for _ in range(len(groups))]
        for beat in sorted(label):
            for group in groups.path(int(groups.leaf[beat])):
                inside[group].append(beat)
        return LabelledTree(groups, label, tuple(map(tuple, inside)))

    def nearest(self, group: int) -> tuple[int, int]:
        """Return the smallest group around one that holds an answered beat, and the one of these nearest its beat."""
        around = next(ancestor for ancestor in self.groups.path(group) if self.inside[ancestor])
        at = self.groups.points.at
        labelled = np.array(self.inside[around])
        return around, int(labelled[np.square(at[labelled] - at[self.groups.beat[group]]).sum(1).argmin()])


def group_errors(tree: LabelledTree, rule: Rule, candidates: NDArray[np.int64]) -> Floats:
    """Return for groups without an answered beat how many of their beats would get a label that is not theirs."""
    rows = []
    for group in candidates.tolist():
        around, beat = tree.nearest(group)
        rows.append(differ_features(tree.groups, group, around, beat, tree.label[beat]))
    features = np.array(rows).reshape(-1, len(FEATURES))
    return tree.groups.size[candidates] * rule.differs(features)


def next_group(
    groups: Groups,
    label: Mapping[int, str],
    *,
    passed: Set[int] = frozenset(),
    within: int | None = None,
    rule: Rule | None = None,
) -> int | None:
    """Return the group whose beat to ask for next, None where every group's beat is answered or passed over.

    Args:
        groups: of the recording.
        label: answered beat -> its label; ``?`` and ``|`` are answers too.
        passed: beats not to be asked for now.
        within: only parts of this group, and itself.
        rule: that estimates; default the one in the package.
    """
    if not label:  # nothing to compare with: the largest first
        inside = (candidate for candidate in range(len(groups)) if within is None or within in groups.path(candidate))
        return next((candidate for candidate in inside if int(groups.beat[candidate]) not in passed), None)
    tree = LabelledTree.of(groups, label)
    candidates = np.array(
        [
            group
            for group in range(len(groups))
            if not tree.inside[group]
            and int(groups.beat[group]) not in passed
            and (within is None or within in groups.path(group))
        ],
        dtype=np.int64,
    )
    if not len(candidates):
        return None
    return int(candidates[group_errors(tree, rule or shipped_rule(), candidates).argmax()])
