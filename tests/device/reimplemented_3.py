"""RR features, version 3, and alike beats of the second runtime: from manifest and docs/bundle-format.md alone.

As ``reimplemented``, it imports nothing of ecgfed.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from reimplemented import VOID, Context, Floats


class Neighbours(Context):
    """RR features, version 3, of all beats of a recording, in the order of the page."""

    def near(self, values: Floats, i: int) -> Floats:
        """The known values near a beat."""
        size, block = self.p["block_beats"], i // self.p["block_beats"]
        first, last = block - self.p["rhythm_blocks_back"], block + self.p["rhythm_blocks_ahead"]
        part = values[max(0, first * size) : (last + 1) * size]
        return part[~np.isnan(part)]

    def mode(self, values: Floats) -> tuple[Floats, Floats]:
        modes, shares = np.full(self.count, VOID), np.zeros(self.count)
        for i in range(self.count):
            known = self.near(values, i)
            if len(known) >= self.p["fewest_intervals"]:
                count = np.array([(np.abs(known - one) <= self.p["alike"]).sum() for one in known])
                modes[i] = np.median(known[count == count.max()])
                shares[i] = count.max() / len(known)
        return modes, shares

    def d_of(self, values: Floats, share: float) -> Floats:
        quantiles = np.array([self.quantile(self.near(values, i), share) for i in range(self.count)])
        quantiles = np.where(np.isnan(quantiles), 0, quantiles)
        return np.asarray(np.log(np.maximum(quantiles, self.p["least_rhythm_change"]) / self.p["alike"]))

    def rhythm(self) -> list[Floats]:
        p, unit = self.p, self.p["log_unit"]
        logs = np.log(self.before)
        own = np.where(self.between, logs, VOID)
        back = [np.abs(logs - np.concatenate([np.full(k, VOID), logs])[: self.count]) for k in (1, 2, 3, 4)]
        before_own = np.concatenate([[VOID], own])[: self.count]
        change, own_change, late = back[0], np.abs(own - before_own), np.fmin.reduce(back[1:])
        m, agreeing = self.mode(own)
        every_mode, agreeing_all = self.mode(logs)
        m = np.where(np.isnan(m), every_mode, m)
        n = []
        for i in range(self.count):
            known = self.near(logs, i)
            n.append((np.abs(known - logs[i]) <= p["alike"]).sum() / max(len(known), 1))
        mean = self.m_of(self.wave, self.between)
        after = np.append(logs[1:], VOID)
        root = np.maximum(np.sqrt((self.wave**2).mean(axis=1)), p["least_qrs_mv"])
        return [
            *((one - m) / unit for one in (logs, after, np.log(self.sinus))),
            4 * agreeing - 2,
            4 * agreeing_all - 2,
            4 * np.array(n) - 1.2,
            *(self.d_of(change, share) for share in (0.20, 0.35, 0.50)),
            *(self.d_of(own_change, share) for share in (0.20, 0.35)),
            self.d_of(np.fmin(change, late), 0.50),
            self.d_of(late, 0.50),
            4 * self.common(self.chosen) - 2,
            4 * self.common(self.between) - 2,
            1 - self.alike(self.wave, mean),
            np.log(root / 0.1),
            (60 / self.sinus - 75) / 30,
        ]

    def common(self, y: NDArray[np.bool_]) -> Floats:
        power = self.m_of((self.wave**2).sum(axis=1), y)
        return np.asarray(np.clip((self.m_of(self.wave, y) ** 2).sum(axis=1) / power, 0, 1))

    def features(self) -> NDArray[np.float32]:
        if not self.count:
            return np.empty((0, len(self.names)), np.float32)
        p, (low, high) = self.p, self.about["clip"]
        own = super().features().astype(np.float64)  # sets what the rest is made of
        ratio = np.log(self.before / self.sinus) / p["log_unit"]
        ratio = np.clip(np.where(np.isnan(ratio), 0, ratio), low, high)
        void = np.isnan(self.before).astype(float)
        reach, long = p["neighbours"], p["intervals"]
        blocks = [own]
        rhythm = np.stack(self.rhythm(), axis=1)
        blocks.append(np.clip(np.where(np.isnan(rhythm), 0, rhythm), low, high))
        blocks += [self.shifted(own, k) for k in range(-reach, reach + 1) if k]
        for values in (ratio, void):
            blocks += [self.shifted(values[:, None], k) for k in range(-long, long + 1)]
        size = np.exp(self.m_of(np.log(self.size), self.chosen))
        blocks.append(np.where(np.isnan(size), self.size, size)[:, None])
        beat = self.m_of(self.x / self.size[:, None], self.chosen)
        means = beat.reshape(self.count, -1, p["reference_step_samples"]).mean(axis=2)
        blocks.append(np.clip(np.where(np.isnan(means), 0, means), *p["reference_clip"]))
        made = np.concatenate(blocks, axis=1).astype(np.float32)
        assert made.shape[1] == len(self.names)
        return made

    def shifted(self, rows: Floats, k: int) -> Floats:
        """The rows of the beats k later, 0 beyond the ends."""
        moved = np.zeros_like(rows)
        for i in range(self.count):
            if 0 <= i + k < self.count:
                moved[i] = rows[i + k]
        return moved


def averaged(
    names: list[str],
    probability: NDArray[np.float32],
    window_mv: NDArray[np.float32],
    rr: NDArray[np.float32],
    silent: NDArray[np.bool_],
    draws: tuple[int, list[float]],
) -> NDArray[np.float32]:
    """The section "Alike beats"; windows (beats, 256), and the beats without signal are given."""
    first = names.index("reference_mv")
    beat = window_mv.reshape(len(rr), -1, 4).mean(axis=2)
    beat = (beat - beat.mean(axis=1, keepdims=True)) / np.maximum(rr[:, [first]], np.float32(0.02))
    own = rr[:, first + 1 :]
    shape = np.float32(0.5) * np.clip(beat - (own - own.mean(axis=1, keepdims=True)), -6, 6)
    weights = {"interval_+0": 1, "next_over_sinus": 1, "qrs_unlike": 2, "p_lost": 2}
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
