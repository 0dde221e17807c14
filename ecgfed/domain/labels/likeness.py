"""How alike the beats of one recording are: a point for each beat, so that beats worth the same label lie together.

A point has four parts: what a model answers (as kinds of AAMI), the beat's shape on up to two leads, its intervals, and
the context features of ``ecgfed.domain.beats.context``. Each part has its weight, chosen on MIT-BIH's DS1
(``benchmarks/clinical``). Nothing here knows a label.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import median_filter

Floats = NDArray[np.float64]

#: AAMI's kinds, in the order of a prior's columns.
KINDS = ("N", "S", "V", "F", "Q")
#: Components of a lead's windows that are kept, and leads that are looked at.
COMPONENTS, MOST_LEADS = 16, 2
#: Weights of the parts: what a model answers, a lead's shape (root mean square over the window), the logarithms of
#: intervals, the context features.
ANSWER, SHAPE, RHYTHM, CONTEXT = 0.2, 1.0, 0.5, 0.3
#: Decimals of a point. Sums of many windows have other last bits with another number of threads, and of two groups that
#: are equally far another one would come first; so much less than the noise of any recorder tells nothing.
DECIMALS = 7
#: A kind is never less likely than this, and no window has less spread (mV) where it is divided by it.
LEAST_SHARE, LEAST_MV = 0.02, 1e-3
#: Beats before and after one whose median interval it is compared with; intervals outside these limits (s) are clipped.
NEIGHBOURS, LEAST_S, MOST_S = 40, 0.15, 3.0


@dataclass(frozen=True)
class Points:
    """The beats of one recording as points.

    Attributes:
        at: (beats, D) float64.
        parts: name -> the columns of ``answers``, ``shape``, ``rhythm`` and ``context``.
        prior: (beats, 5) float64, how likely a model finds each of ``KINDS``, at least ``LEAST_SHARE``.
    """

    at: Floats
    parts: dict[str, slice]
    prior: Floats

    def __len__(self) -> int:
        return len(self.at)


def points_of(
    windows: Iterable[Callable[[], Iterable[NDArray[np.float32]]]],
    interval_s: Floats,
    context: NDArray[np.floating],
    prior: NDArray[np.floating],
) -> Points:
    """Describe the beats of a recording.

    Args:
        windows: for each lead, the one in use first, what gives its windows (some beats, 256) in millivolt, block by
            block in order of time; each is called twice, so that no more than a block need be kept.
        interval_s: (beats,) seconds from the beat before, NaN where nobody knows it.
        context: (beats, 16) features of ``ecgfed.domain.beats.context``.
        prior: (beats, 5) probabilities of ``KINDS``.
    """
    likely = np.maximum(np.asarray(prior, np.float64), LEAST_SHARE)
    parts = {
        "answers": ANSWER * np.log(likely),
        "shape": SHAPE * np.concatenate([_components(lead) for lead in list(windows)[:MOST_LEADS]], axis=1),
        "rhythm": RHYTHM * _rhythm(interval_s),
        "context": CONTEXT * np.asarray(context, np.float64),
    }
    columns, start = {}, 0
    for name, part in parts.items():
        columns[name] = slice(start, start + part.shape[1])
        start += part.shape[1]
    return Points(np.concatenate(list(parts.values()), axis=1).round(DECIMALS), columns, likely)


def _normal(window_mv: NDArray[np.float32]) -> Floats:
    """Windows (beats, 256) without their level and size, divided so that one has a length of 1."""
    centred = window_mv - window_mv.mean(axis=1, keepdims=True, dtype=np.float64)
    spread = np.maximum(centred.std(axis=1, keepdims=True), LEAST_MV)
    return np.asarray(centred / (spread * window_mv.shape[1] ** 0.5), np.float64)


def _components(blocks: Callable[[], Iterable[NDArray[np.float32]]]) -> Floats:
    """Return the principal components (beats, at most 16) of a lead's windows, the same signs on every machine."""
    count, total, products = 0, np.zeros(()), np.zeros(())
    for block in blocks():
        windows = _normal(block)
        count, total, products = count + len(windows), total + windows.sum(0), products + windows.T @ windows
    mean = total / max(count, 1)
    _, axes = np.linalg.eigh(products / max(count, 1) - np.outer(mean, mean))
    axes = axes[:, ::-1][:, :COMPONENTS]
    axes = axes * np.sign(axes[np.abs(axes).argmax(0), np.arange(axes.shape[1])])
    return np.concatenate([(_normal(block) - mean) @ axes for block in blocks()])


def _rhythm(interval_s: Floats) -> Floats:
    """Logarithms (beats, 3): the interval before, and after, over the usual one; after over before; 0 where void."""
    known = np.isfinite(interval_s)
    usual = float(np.median(interval_s[known])) if known.any() else 1.0
    before = np.clip(np.where(known, interval_s, usual), LEAST_S, MOST_S)
    typical = median_filter(before, size=2 * NEIGHBOURS + 1, mode="nearest")
    after, known_after = np.append(before[1:], usual), np.append(known[1:], False)
    ratios = np.stack([np.log(before / typical), np.log(after / typical), np.log(after / before)], axis=1)
    is_known = np.stack([known, known_after, known & known_after], axis=1)
    return np.where(is_known, ratios, 0.0)
