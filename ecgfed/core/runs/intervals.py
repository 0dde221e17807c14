"""95% confidence intervals of scores: patients, and seeds, are drawn with replacement (percentile bootstrap).

A patient is the unit: beats of one patient are not independent of one another. A drawn patient brings both its model
and its beats, so the pool that T_g and T_r are scored on is the drawn patients' beats. Without torch.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

#: How often patients are drawn, and what share of what comes out an interval holds.
DRAWS, LEVEL = 2000, 0.95
#: Signs of paired differences that are tried for a p value.
_FLIPS = 1 << 14
#: Where a score is in a result, such as ``("scores", "T_g")`` -> one value for each draw, float64.
Draws = dict[tuple[str, ...], NDArray[np.float64]]
Interval = tuple[float, float]


def drawn(count: int, draws: int = DRAWS) -> NDArray[np.int64]:
    """Return (draws, count) numbers below ``count``, the same each time, so that scores of two models are paired."""
    return np.random.default_rng(0).integers(0, count, (draws, count))


def interval(values: NDArray[np.floating], level: float = LEVEL) -> Interval | None:
    """Return the interval of a score's draws; None where there are none, or one is not defined."""
    if not len(values) or not np.isfinite(values).all():
        return None
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def interval_text(score: str, ends: Interval | None) -> str:
    """Return a score with its interval, or without where there is none."""
    return score if ends is None else f"{score} ({ends[0]:.3f} to {ends[1]:.3f})"


def over_seeds(each: Sequence[NDArray[np.floating]], splits: Sequence[str] = ()) -> NDArray[np.float64]:
    """Return a score's draws when seeds are drawn too.

    Args:
        each: (draws,) of each seed, of the same patients in each draw.
        splits: the split of the beats that each was trained on; () is one split.

    Returns:
        (draws,) means over as many splits as there are, drawn with replacement, and of each over as many of its seeds.
    """
    rng, of_split = np.random.default_rng(1), splits or [""] * len(each)
    means = []
    for split in dict.fromkeys(of_split):
        table = np.stack([values for values, name in zip(each, of_split, strict=True) if name == split])
        means.append(_drawn_mean(table, rng))
    return _drawn_mean(np.stack(means), rng) if len(means) > 1 else means[0]


def _drawn_mean(table: NDArray[np.floating], rng: np.random.Generator) -> NDArray[np.float64]:
    """Return means over rows of (rows, draws), drawn with replacement in each draw."""
    rows = rng.integers(0, len(table), (table.shape[1], len(table)))
    return np.asarray(table[rows, np.arange(table.shape[1])[:, None]].mean(1), np.float64)


class Resampled:
    """Patients drawn with replacement, and what scores are then.

    Args:
        patients: how many there are; with fewer than two there are no draws.
    """

    def __init__(self, patients: int) -> None:
        self.rows = drawn(patients) if patients > 1 else np.empty((0, patients), np.int64)
        self.counts = np.zeros((len(self.rows), patients))
        np.add.at(self.counts, (np.arange(len(self.rows))[:, None], self.rows), 1.0)

    def mean(self, values: Sequence[float]) -> NDArray[np.float64]:
        """Return the mean over patients of (patients,) values; NaN is not counted."""
        return self._mean(np.asarray(values, np.float64)[self.rows])

    def own(self, values: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
        """Return each drawn patient's value in its draw, (draws, patients), of (draws,) for each patient."""
        return np.stack(values)[self.rows, np.arange(len(self.rows))[:, None]]

    @staticmethod
    def _mean(values: NDArray[np.float64]) -> NDArray[np.float64]:
        there = np.isfinite(values)
        count = there.sum(1)
        total = np.where(there, values, 0.0).sum(1)
        means: NDArray[np.float64] = np.divide(total, count, out=np.full(len(values), np.nan), where=count > 0)
        return means

    def worst_tenth(self, values: Sequence[float]) -> NDArray[np.float64]:
        """Return the mean of the lowest tenth of the patients, one at least."""
        lowest = np.sort(np.asarray(values, np.float64)[self.rows], axis=1)[:, : -(-len(values) // 10)]
        return np.asarray(lowest.mean(1), np.float64)

    def by_class(self, matrices: Sequence[NDArray[np.int64]]) -> Mapping[str, NDArray[np.float64]]:
        """Return scores of the patients' beats together, of (classes, classes) counts for each, rows truth.

        Returns:
            ``macro_f1``, ``macro_f1_truth``, ``accuracy`` and ``even_accuracy`` (draws,); ``f1``, ``sensitivity`` and
            ``positive_predictivity`` (draws, classes), NaN where a draw has no such beat.
        """
        of = np.stack(matrices)
        return self.by_class_of(np.stack([np.diagonal(of, axis1=1, axis2=2), of.sum(2), of.sum(1)]))

    def by_class_of(self, counts: NDArray[np.int64]) -> Mapping[str, NDArray[np.float64]]:
        """Return what ``by_class`` does, of (3, patients, classes) beats: right, in truth, predicted."""
        hit, truth, predicted = self.counts @ counts.astype(np.float64)
        f1 = _ratio(2 * hit, truth + predicted)
        every = self._mean(f1)
        return {
            "macro_f1": every,
            "macro_f1_truth": self._mean(np.where(truth > 0, f1, np.nan)),
            "accuracy": _ratio(hit.sum(1), truth.sum(1)),
            "even_accuracy": self._mean(_ratio(hit, truth)),
            "f1": f1,
            "sensitivity": _ratio(hit, truth),
            "positive_predictivity": _ratio(hit, predicted),
        }


def _ratio(part: NDArray[np.float64], whole: NDArray[np.float64]) -> NDArray[np.float64]:
    shares: NDArray[np.float64] = np.divide(part, whole, out=np.full(part.shape, np.nan), where=whole > 0)
    return shares


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p values corrected for as many comparisons (Holm, Scand J Statist 6:65-70, 1979).

    The smallest is multiplied by the number of comparisons, the next by one less, and so on; none is below the one
    before it, and none above 1.
    """
    order = np.argsort(p_values, kind="stable")
    scaled = np.asarray(p_values, np.float64)[order] * np.arange(len(order), 0, -1)
    corrected = np.empty(len(order))
    corrected[order] = np.minimum(1.0, np.maximum.accumulate(scaled)) if len(order) else []
    return [float(p) for p in corrected]


def paired_p(differences: NDArray[np.float64]) -> float:
    """Return the p value, two-sided, of paired differences (n,) having mean 0: signs are turned at random.

    All 2^n signs are taken where these are no more than ``_FLIPS``, else as many drawn ones
    (Edgington and Onghena, Randomization Tests, 4th edition, 2007).
    """
    count = len(differences)
    if 2**count <= _FLIPS:
        signs = 1.0 - 2.0 * (np.arange(2**count)[:, None] >> np.arange(count) & 1)
    else:
        signs = np.random.default_rng(0).choice([-1.0, 1.0], (_FLIPS, count))
    observed, flipped = abs(float(differences.mean())), np.abs(signs @ differences) / count
    at_least = int((flipped >= observed * (1 - 1e-12)).sum())
    return at_least / len(signs) if 2**count <= _FLIPS else (at_least + 1) / (_FLIPS + 1)
