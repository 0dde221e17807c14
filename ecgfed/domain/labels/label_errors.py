"""How many propagated labels are expected to be wrong, with an interval, where the answers themselves may be.

A logistic regression gives each of the smallest groups the share of its beats whose label is of another kind than the
beat; the sum over the groups is the expectation. The interval is a beta-binomial distribution's around it. Both were
fitted to MIT-BIH's DS1 with simulated answers of which 0, 5 or 15% of the doubtful ones are wrong
(``label_errors.json``; ``benchmarks/clinical/errors.py``). ``web/choose.js`` computes the same.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from scipy.stats import betabinom

from ecgfed.domain.labels.choose import FEATURES, KIND_OF, NEAR, LabelledTree, differ_features
from ecgfed.domain.labels.groups import Groups
from ecgfed.domain.labels.likeness import Floats
from ecgfed.domain.labels.user_labels import CANNOT_TELL

#: Parts of a point whose distances count.
PARTS = ("shape", "rhythm", "context")
#: What the regression looks at, of each smallest group, in order: what the rule that chooses looks at, and these.
ERROR_FEATURES = (
    *FEATURES,
    "spread_shape",  # logarithms of the root mean square distance of its beats from the one that stands for them
    "spread_rhythm",
    "spread_context",
    "inside",  # 1: it holds an answered beat
    "margin",  # logarithm of the distance to the answer whose label it takes, over that to the nearest of another kind
    "no_rival",  # 1: no answer is of another kind
    "fusion",  # 1: the two answers are F and V
    "supra",  # 1: they are S and N
    "fusion_margin",  # products with the margin
    "supra_margin",
    "answers",  # logarithm of the number of answers
    "isolated",  # share of the answers whose nearest other answer is of another kind
)
#: Of more answers so many are compared with, evenly taken.
MOST_COMPARED = 1000
#: More answers count as so many: the regression has seen no more.
MOST_ANSWERS = 40
#: Distance to another kind where no answer is of one.
NO_RIVAL = 10.0
#: Share of the interval.
LEVEL = 0.9


@dataclass(frozen=True)
class ExpectedErrors:
    """Beats expected to have a wrong label.

    Attributes:
        beats: the expectation.
        low: lower end of the 90% interval, beats.
        high: its upper end.
        of: beats that have a label, answered ones among them.
    """

    beats: float
    low: int
    high: int
    of: int


@dataclass(frozen=True)
class ErrorModel:
    """The regression and its overdispersion.

    Attributes:
        weight: (features,) float64, of ``ERROR_FEATURES``.
        bias: the constant.
        correlation: the beta-binomial's correlation between two beats of a recording, above 0, below 1.
    """

    weight: Floats
    bias: float
    correlation: float

    def as_json(self) -> dict[str, Any]:
        """Return what the page's script needs."""
        named = dict(zip(ERROR_FEATURES, self.weight.tolist(), strict=True))
        fitted = {"weights": named, "bias": self.bias, "correlation": self.correlation}
        return {**fitted, "level": LEVEL, "most_answers": MOST_ANSWERS, "no_rival": NO_RIVAL}

    def share(self, features: Floats) -> Floats:
        """Return the expected share (groups,) of wrong labels, of features (groups, features)."""
        return np.asarray(1.0 / (1.0 + np.exp(-(features @ self.weight + self.bias))))

    def interval(self, expected: float, beats: int) -> tuple[int, int]:
        """Return the central 90% interval of the number of wrong labels among ``beats`` with this expectation."""
        share = expected / beats if beats else 0.0
        if not 0.0 < share < 1.0:
            return round(expected), round(expected)
        strength = 1.0 / self.correlation - 1.0
        chance = betabinom.pmf(np.arange(beats + 1), beats, share * strength, (1 - share) * strength)
        # sums by hand: scipy's own quantiles add the distribution up anew for each step of their search
        ends = np.searchsorted(np.cumsum(chance), ((1 - LEVEL) / 2, (1 + LEVEL) / 2))
        return int(ends[0]), min(int(ends[1]), beats)


@cache
def packaged_model() -> ErrorModel:
    """Return the model in the package."""
    stored = json.loads(Path(__file__).with_name("label_errors.json").read_text(encoding="utf-8"))
    weight = np.array([stored["weights"][name] for name in ERROR_FEATURES])
    return ErrorModel(weight, float(stored["bias"]), float(stored["correlation"]))


@dataclass(frozen=True, eq=False)
class LeafLabels:
    """The smallest groups that take a label, and what the regression looks at.

    Attributes:
        leaf: (groups,) int64 their numbers.
        unanswered: (groups,) int64 beats without an answer of their own.
        features: (groups, features) float64.
        labelled: beats that have a label, answered ones among them.
    """

    leaf: NDArray[np.int64]
    unanswered: NDArray[np.int64]
    features: Floats
    labelled: int


def expected_errors(groups: Groups, label: Mapping[int, str], *, model: ErrorModel | None = None) -> ExpectedErrors:
    """Return how many beats are expected to have a label of another kind than theirs.

    Beats that would take the label "cannot tell" are left out; answered beats count as right.

    Args:
        groups: of the recording.
        label: answered beat -> its label, one at least.
        model: default the one in the package.
    """
    model = model or packaged_model()
    leaves = leaf_labels(groups, label)
    expected = float(leaves.unanswered @ model.share(leaves.features))
    return ExpectedErrors(expected, *model.interval(expected, leaves.labelled), leaves.labelled)


def leaf_labels(groups: Groups, label: Mapping[int, str]) -> LeafLabels:
    """Describe the smallest groups whose label is not "cannot tell".

    Args:
        groups: of the recording.
        label: answered beat -> its label, one at least.
    """
    tree, at = LabelledTree.of(groups, label), groups.points.at
    labelled_beats = np.array(sorted(label), dtype=np.int64)
    labelled = sum(symbol != CANNOT_TELL for symbol in label.values())
    evenly = np.linspace(0, len(labelled_beats) - 1, min(len(labelled_beats), MOST_COMPARED))
    compared = labelled_beats[evenly.astype(np.int64)]
    kind = np.array([KIND_OF.get(label[beat], "") for beat in compared.tolist()])
    common = (np.log(min(len(labelled_beats), MOST_ANSWERS)), _isolated(at[compared], kind))
    spreads = leaf_spreads(groups)
    leaf, unanswered, rows = [], [], []
    for number in np.unique(groups.leaf).tolist():
        around, beat = tree.nearest(number)
        if label[beat] == CANNOT_TELL:
            continue
        central = groups.beat[number]
        distance = np.linalg.norm(at[compared] - at[central], axis=1)
        mine = KIND_OF.get(label[beat], "")
        leaf.append(number)
        unanswered.append(int(groups.size[number]) - len(tree.inside[number]))
        looks = differ_features(groups, number, around, beat, label[beat])
        rivalry = _rivalry(mine, float(np.linalg.norm(at[beat] - at[central])), kind, distance)
        rows.append([*looks, *np.log(spreads[number] + NEAR), float(around == number), *rivalry, *common])
    features = np.array(rows, dtype=np.float64).reshape(-1, len(ERROR_FEATURES))
    unlabelled = np.array(unanswered, dtype=np.int64)
    return LeafLabels(np.array(leaf, dtype=np.int64), unlabelled, features, int(unlabelled.sum()) + labelled)


def leaf_spreads(groups: Groups) -> dict[int, Floats]:
    """Return of each smallest group the root mean square distances of its beats from the one that stands for them, by
    ``PARTS``.
    """
    points = groups.points
    offset = points.at - points.at[groups.beat[groups.leaf]]
    square = np.stack([np.square(offset[:, points.parts[name]]).sum(1) for name in PARTS], axis=1)
    leaves, where = np.unique(groups.leaf, return_inverse=True)
    total = np.zeros((len(leaves), len(PARTS)))
    np.add.at(total, where, square)
    return {int(leaf): np.sqrt(total[i] / groups.size[leaf]) for i, leaf in enumerate(leaves.tolist())}


def _rivalry(mine: str, distance_of_label: float, kind: NDArray[np.str_], distance: Floats) -> tuple[float, ...]:
    """Return margin, no_rival, fusion, supra and their products, by distances of the label's answer and of all."""
    rivals = np.flatnonzero(kind != mine)
    if not len(rivals):
        margin, pair = float(np.log(distance_of_label + NEAR) - np.log(NO_RIVAL)), frozenset[str]()
    else:
        nearest = int(rivals[distance[rivals].argmin()])
        margin = float(np.log(distance_of_label + NEAR) - np.log(distance[nearest] + NEAR))
        pair = frozenset((mine, str(kind[nearest])))
    fusion, supra = float(pair == {"F", "V"}), float(pair == {"S", "N"})
    return margin, float(not len(rivals)), fusion, supra, fusion * margin, supra * margin


def _isolated(at: Floats, kind: NDArray[np.str_]) -> float:
    """Return the share of answers whose nearest other answer is of another kind; 0 of one answer alone."""
    if len(at) < 2:
        return 0.0
    distance = cdist(at, at)
    np.fill_diagonal(distance, np.inf)
    return float((kind[distance.argmin(1)] != kind).mean())
