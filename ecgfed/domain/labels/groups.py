"""Groups of alike beats, one inside the other: a tree by Ward's method, with a beat that stands for each group."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import linkage
from scipy.spatial.distance import cdist

from ecgfed.domain.labels.likeness import Floats, Points

#: Smallest groups of a tree.
LEAVES = 100
#: Beats that are joined one by one; of more, so many far from one another stand for the rest (each beat is with the
#: nearest). They are drawn in this many turns, each time in proportion to the squared distance from those drawn.
MOST_JOINED, TURNS = 4000, 10
_AT_ONCE = 4096
#: Squared distances from a middle that differ by less are the same.
EQUALLY_NEAR = 1e-12


@dataclass(frozen=True)
class Groups:
    """A binary tree of groups, the whole recording first, parts after what they are part of.

    Attributes:
        parent: (groups,) int64 the group each is part of, -1 for the first.
        size: (groups,) int64 beats.
        beat: (groups,) int64 the beat that stands for it: the one nearest the middle of its points.
        prior: (groups, 5) float64 mean prior of its beats.
        leaf: (beats,) int64 the smallest group of each beat.
        points: the beats.
    """

    parent: NDArray[np.int64]
    size: NDArray[np.int64]
    beat: NDArray[np.int64]
    prior: Floats
    leaf: NDArray[np.int64]
    points: Points

    def __len__(self) -> int:
        return len(self.parent)

    @property
    def children(self) -> list[list[int]]:
        """The two parts of each group, none of a smallest one."""
        children: list[list[int]] = [[] for _ in range(len(self))]
        for group, parent in enumerate(self.parent.tolist()):
            if parent >= 0:
                children[parent].append(group)
        return children

    def path(self, group: int) -> list[int]:
        """Return the group and all it is part of, the whole last."""
        path = [group]
        while (group := int(self.parent[group])) >= 0:
            path.append(group)
        return path


def group_beats(points: Points, leaves: int = LEAVES, *, seed: int = 0) -> Groups:
    """Join alike beats to groups (Ward, J Am Stat Assoc 58:236-244, 1963).

    Args:
        points: the beats, one at least.
        leaves: how many smallest groups there are, at most.
        seed: for the choice among more than ``MOST_JOINED`` beats.
    """
    chosen, nearest = _joined(points.at, seed)
    merges = linkage(points.at[chosen], "ward") if len(chosen) > 1 else np.empty((0, 4))
    beats = len(chosen)
    root = beats + len(merges) - 1
    lowest = max(len(merges) - (leaves - 1), 0)  # merges from here on are groups with parts
    number, parents = {root: 0}, [-1]
    for number_of_merge in range(len(merges) - 1, lowest - 1, -1):
        for part in sorted(int(child) for child in merges[number_of_merge, :2]):
            number[part] = len(parents)
            parents.append(number[beats + number_of_merge])
    leaf_of_node = np.zeros(beats + len(merges), np.int64)
    for node in range(root, -1, -1):
        if node >= beats:
            for part in merges[node - beats, :2].astype(int):
                leaf_of_node[part] = number.get(int(part), leaf_of_node[node])
    parent, leaf_of_chosen = np.array(parents), leaf_of_node[:beats]
    leaf = leaf_of_chosen[nearest]
    members = [np.flatnonzero(leaf == group) for group in range(len(parent))]
    for group in range(len(parent) - 1, 0, -1):
        members[parent[group]] = np.concatenate([members[parent[group]], members[group]])
    beat = [_central(points.at, np.sort(beats_of_group)) for beats_of_group in members]
    prior = np.stack([points.prior[beats_of_group].mean(0) for beats_of_group in members])
    size = np.array([len(beats_of_group) for beats_of_group in members])
    return Groups(parent, size, np.array(beat), prior, leaf, points)


def _joined(at: Floats, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return which beats are joined one by one, and for every beat the number of the nearest among them."""
    beats = len(at)
    if beats <= MOST_JOINED:
        return np.arange(beats), np.arange(beats)
    rng = np.random.default_rng(seed)
    square, nearest = np.full(beats, np.inf), np.zeros(beats, np.int64)
    chosen = np.empty(0, np.int64)
    for _ in range(TURNS):
        share = None if not len(chosen) else square / square.sum()
        some = min(MOST_JOINED // TURNS, beats if share is None else int(np.count_nonzero(share)))
        new = np.sort(rng.choice(beats, some, replace=False, p=share))
        for start in range(0, beats, _AT_ONCE):
            part = slice(start, start + _AT_ONCE)
            distances = cdist(at[part], at[new], "sqeuclidean")
            closer = distances.min(1) < square[part]
            nearest[part] = np.where(closer, len(chosen) + distances.argmin(1), nearest[part])
            square[part] = np.minimum(square[part], distances.min(1))
        chosen = np.concatenate([chosen, new])
        if not square.any():
            break
    used = np.unique(nearest, return_inverse=True)
    return chosen[used[0]], used[1].astype(np.int64)


def _central(at: Floats, members: NDArray[np.int64]) -> int:
    """Return the beat nearest the middle, the first of several: of two alone both are equally near."""
    square = np.square(at[members] - at[members].mean(0)).sum(1)
    return int(members[(square < square.min() + EQUALLY_NEAR).argmax()])
