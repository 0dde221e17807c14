"""RR features, version 3, and alike beats of the second runtime: from manifest and docs/bundle-format.md alone.

As ``reimplemented``, it imports nothing of ecgfed.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from reimplemented import VOID, Context, Floats


class Strip(Context):
    """RR features, version 3, of all beats of a recording, in the order of the page."""

    def __init__(self, *about: Any, beside_mv: NDArray[np.float32]) -> None:
        super().__init__(*about)
        self.window_mv, self.beside_mv = about[3], beside_mv

    def median(self, values: Floats) -> Floats:
        """The running medians of columns."""
        p, made = self.p, np.full(values.shape, VOID)
        for i in range(self.count):
            block = i // p["block_beats"]
            first = max(0, (block - p["median_blocks_back"]) * p["block_beats"])
            stop = min(self.count, (block + p["median_blocks_ahead"] + 1) * p["block_beats"])
            some = [k for k in range(first, stop) if self.usable[k]]
            if len(some) >= p["fewest"]:
                made[i] = np.median(values[some], axis=0)
        return made

    def features(self) -> NDArray[np.float32]:
        if not self.count:
            return np.empty((0, len(self.names)), np.float32)
        p = self.p
        own = super().features().astype(np.float64)  # sets size
        means = self.window_mv.reshape(self.count, -1, p["strip_step_samples"]).mean(axis=2)
        before = p["strip_before"]
        assert self.beside_mv.shape[1] == before + p["strip_after"]
        parts = (self.beside_mv[:, :before], means, self.beside_mv[:, before:])
        strip = np.concatenate(parts, axis=1).astype(np.float64)
        typical = self.median(self.size[:, None])
        typical = np.where(np.isnan(typical), self.size[:, None], typical)
        beside = self.beside_mv / typical
        difference = (strip - self.median(strip)) / typical
        relative = np.concatenate([beside, np.where(np.isnan(difference), 0, difference)], axis=1)
        made = np.concatenate([own, typical, np.clip(relative, *p["strip_clip"])], axis=1).astype(np.float32)
        assert made.shape[1] == len(self.names)
        return made


def averaged(
    names: list[str],
    probability: NDArray[np.float32],
    rr: NDArray[np.float32],
    silent: NDArray[np.bool_],
    draws: tuple[int, list[float]],
) -> NDArray[np.float32]:
    """The section "Alike beats"; the beats without signal are given."""
    first = names.index("difference_47")
    shape = np.float32(0.5) * np.clip(rr[:, first : first + 64], -6, 6)
    weights = {"previous_over_typical": 1, "next_over_sinus": 1, "qrs_unlike": 2, "p_lost": 2}
    columns = [np.float32(weight) * rr[:, names.index(name)] for name, weight in weights.items()]
    points = np.concatenate([shape, np.stack(columns, axis=1)], axis=1).astype(np.float64)
    result = probability.copy()
    for start in range(0, len(rr), 4096):
        rows = [i for i in range(start, min(start + 4096, len(rr))) if not silent[i]]
        if not rows:
            continue
        group = np.array(groups(points[rows], *draws))
        logs = np.log(np.maximum(probability[rows].astype(np.float64), 1e-12))
        means = {number: logs[group == number].mean(axis=0) for number in set(group.tolist())}
        mixed = 0.3 * logs + 0.7 * np.array([means[number] for number in group.tolist()])
        power = np.exp(mixed)
        result[rows] = power / power.sum(axis=1, keepdims=True)
    return result


def groups(points: Floats, first: int, draws: list[float]) -> list[int]:
    """The group of each point, from the numbers drawn."""

    def apart(centre: Floats) -> Floats:
        return np.asarray(((points - centre) ** 2).sum(axis=1))

    count = len(points)
    centres = [points[first * count >> 32]]
    nearest = apart(centres[0])
    while len(centres) < min(30, count) and nearest.sum() > 0:
        target, total = draws[len(centres) - 1] * nearest.sum(), 0.0
        for i in range(count):
            total += nearest[i]
            if total >= target:
                break
        centres.append(points[i])
        nearest = np.minimum(nearest, apart(centres[-1]))
    group: list[int] = []
    for _ in range(15):
        closest: Any = np.stack([apart(centre) for centre in centres]).argmin(axis=0).tolist()
        if closest == group:
            break
        group = closest
        for number in set(group):
            centres[number] = points[np.array(group) == number].mean(axis=0)
    return group
