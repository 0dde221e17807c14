"""Groups of alike beats of a whole recording: a model's answers are averaged over beats that look the same.

A net answers each beat by itself, and its mistakes are scattered over beats that are one kind to the eye. Averaging the
log probabilities over some thirty groups of a recording's beats corrects them without a label (docs/decisions/0078).
It needs the whole recording, so a stream goes without.
"""

import numpy as np
from numpy.typing import NDArray

from ecgfed.domain.beats.strip import FEATURES, WINDOW
from ecgfed.domain.beats.windows import BESIDE
from ecgfed.domain.signal.products import product

#: Groups of a stretch of so many beats; how much the mean of its group counts in a beat's answer.
GROUPS, STRETCH, SHARE = 30, 4096, 0.7
#: At most so many rounds of Lloyd's algorithm.
ROUNDS = 15
#: Weights of a point's parts: difference to the median beat, interval before, interval after, correlation of the QRS, P
#: wave.
_SHAPE, _COLUMNS = 0.5, {"previous_over_typical": 1.0, "next_over_sinus": 1.0, "qrs_unlike": 2.0, "p_lost": 2.0}
#: A difference to the median beat counts as no more, in units of its QRS.
_LIMIT = 6.0
#: No probability counts as less.
_LEAST = 1e-12


def points(rr: NDArray[np.float32]) -> NDArray[np.float32]:
    """Describe beats by what makes them alike.

    Args:
        rr: (beats, features) RR features of version 3.

    Returns:
        (beats, 68) float32.
    """
    first = FEATURES.index("difference_0") + BESIDE[0]
    shape = _SHAPE * np.clip(rr[:, first : first + WINDOW], -_LIMIT, _LIMIT)
    columns = [weight * rr[:, FEATURES.index(name)] for name, weight in _COLUMNS.items()]
    return np.concatenate([shape, np.stack(columns, axis=1)], axis=1).astype(np.float32)


def averaged(
    probability: NDArray[np.float32], at: NDArray[np.float32], usable: NDArray[np.bool_]
) -> NDArray[np.float32]:
    """Average the log probabilities over groups of alike beats.

    Args:
        probability: (beats, classes) of consecutive beats of one recording.
        at: (beats, 68) their ``points``.
        usable: (beats,) bool, false where a beat shows no signal: it belongs to no group and its answer stays.

    Returns:
        (beats, classes) float32, each row summing to 1.
    """
    result = probability.copy()
    for start in range(0, len(probability), STRETCH):
        rows = start + np.flatnonzero(usable[start : start + STRETCH])
        if not len(rows):
            continue
        group = _groups(at[rows].astype(np.float64))
        logs = np.log(np.maximum(probability[rows], _LEAST).astype(np.float64))
        count = np.bincount(group)[:, None]
        means = np.stack([np.bincount(group, column) for column in logs.T], axis=1) / np.maximum(count, 1)
        logs = (1 - SHARE) * logs + SHARE * means[group]
        odds = np.exp(logs - logs.max(axis=1, keepdims=True))
        result[rows] = odds / odds.sum(axis=1, keepdims=True)
    return result


def _groups(at: NDArray[np.float64]) -> NDArray[np.int64]:
    """Number the group of each point, by k-means from k-means++ (Arthur and Vassilvitskii 2007) with a fixed seed."""
    rng, square = np.random.default_rng(0), (at**2).sum(axis=1)
    chosen = [int(rng.integers(len(at)))]
    distance = np.maximum(square - 2 * at @ at[chosen[0]] + square[chosen[0]], 0)
    while len(chosen) < min(GROUPS, len(at)) and distance.sum() > 0:
        drawn = np.searchsorted(np.cumsum(distance), rng.random() * distance.sum())
        chosen.append(min(int(drawn), len(at) - 1))
        new = np.maximum(square - 2 * at @ at[chosen[-1]] + square[chosen[-1]], 0)
        distance = np.minimum(distance, new)
    centres, group = at[chosen], np.full(len(at), -1)
    for _ in range(ROUNDS):
        nearest = ((centres**2).sum(axis=1) - product(2 * at, centres.T)).argmin(axis=1)
        if (nearest == group).all():
            break
        group = nearest
        order = np.argsort(group, kind="stable")
        for members in np.split(order, np.flatnonzero(np.diff(group[order])) + 1):
            centres[group[members[0]]] = at[members].mean(axis=0)
    return group
