"""A map of clients: principal components of their class distributions.

The components are of square roots of class shares, so that distances are Hellinger's: 1% of a class separates a client
from one without it, which the shares themselves would hide behind the most frequent class.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

#: Classes whose corner is drawn at most: those with most weight in the two components.
_CORNERS = 6
#: Distributions that vary less than this count as equal.
_NONE = 1e-9


@dataclass(frozen=True)
class ClassMap:
    """A map of clients by their class mixes.

    Attributes:
        points: of each client, its first two principal components.
        corners: class -> where a client of that class alone would lie.
        shares: parts of the mixes' variance that lie along x and along y.
    """

    points: tuple[tuple[float, float], ...]
    corners: dict[str, tuple[float, float]]
    shares: tuple[float, float]


def class_map(counts: NDArray[np.int64], classes: Sequence[str]) -> ClassMap | None:
    """Return the map of clients; None for fewer than three, or if all have the same class distribution.

    Args:
        counts: (clients, classes) beats, each client with one or more.
        classes: names of the columns.
    """
    if len(counts) < 3:
        return None
    mixes = np.sqrt(counts / counts.sum(1, keepdims=True))
    middle = mixes.mean(0)
    _, size, axes = np.linalg.svd(mixes - middle, full_matrices=False)
    if size[0] < _NONE:
        return None
    axes = axes[:2] if len(axes) > 1 else np.vstack([axes, np.zeros_like(axes)])
    axes = axes * np.where(axes[np.arange(2), np.abs(axes).argmax(1)] < 0, -1.0, 1.0)[:, None]  # a sign that stays
    power = np.zeros(2)
    power[: len(size[:2])] = size[:2] ** 2 / (size**2).sum()
    points = (mixes - middle) @ axes.T
    corners = (np.eye(len(middle)) - middle) @ axes.T
    weight = (np.abs(axes) * np.sqrt(power)[:, None]).max(0) * (middle > 0)
    displayed = [i for i in np.argsort(-weight, kind="stable")[:_CORNERS].tolist() if weight[i] > 0.05 * weight.max()]
    return ClassMap(
        tuple((float(x), float(y)) for x, y in points),
        {classes[i]: (float(corners[i, 0]), float(corners[i, 1])) for i in displayed},
        (float(power[0]), float(power[1])),
    )
