"""What the labelling page shows of a group: its average beat, its least alike beats, how alike all are."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecgfed.domain.labels.groups import Groups
from ecgfed.domain.labels.likeness import Floats
from ecgfed.web.samples import packed

#: Windows of one lead, block by block in order of time: (some beats, 256) float32 mV.
Blocks = Callable[[], Iterable[NDArray[np.float32]]]
#: Of the windows, sampled at 360 Hz, every second sample is drawn: there is nothing above 40 Hz in them.
_STEP = 2
WINDOWS_HZ = 360.0 / _STEP
#: Beats of a group that are averaged, evenly spread over it, and least alike ones that are shown.
AVERAGED, ODD = 60, 4
#: Fewer beats have no band.
_BAND_FROM = 5
_BAND = (10, 90)


def group_pictures(groups: Groups, windows: Sequence[Blocks], interval_s: Floats) -> dict[int, dict[str, Any]]:
    """Return what is shown of every group of two beats or more, JSON-ready.

    The correlation is the median of those between the group's beat and its averaged ones, over all leads; the least
    alike are those whose shape lies farthest from the group's beat, which stands for the group by its intervals too.

    Args:
        groups: of the recording.
        windows: for each lead to show, the one in use first.
        interval_s: (beats,) seconds from the beat before, NaN where nobody knows it.

    Returns:
        group -> ``average`` (fs, leads of samples, low and high where there are enough beats), ``beat`` (the group's
        own, samples of each lead), ``odd`` (of each such beat the samples of each lead), ``correlation``, ``averaged``
        (beats), ``interval_ms`` (10%, median and 90% of the intervals before its beats; None unknown).
    """
    drawn = {group: members for group, members in _members(groups) if len(members) > 1}
    averaged = {
        group: members[np.unique(np.linspace(0, len(members) - 1, min(len(members), AVERAGED)).astype(np.int64))]
        for group, members in drawn.items()
    }
    odd = {group: _odd(groups, group, members) for group, members in drawn.items()}
    central = {group: int(groups.beat[group]) for group in drawn}
    needed = np.unique(np.concatenate([np.array(list(central.values()), np.int64), *averaged.values(), *odd.values()]))
    leads = [_taken(blocks, needed) for blocks in windows]
    out = {}
    for group, members in drawn.items():
        some, few, beat = (np.searchsorted(needed, rows) for rows in (averaged[group], odd[group], [central[group]]))
        out[group] = {
            "average": {"fs": WINDOWS_HZ, "leads": [_average(lead[some]) for lead in leads]},
            "beat": [packed(lead[beat[0]]) for lead in leads],
            "odd": [[packed(lead[rows]) for lead in leads] for rows in few.tolist()],
            "correlation": _correlation([lead[some] for lead in leads], [lead[beat[0]] for lead in leads]),
            "averaged": len(some),
            "interval_ms": _intervals(interval_s[members]),
        }
    return out


def _members(groups: Groups) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Yield each group with its beats in order of time."""
    inside: list[list[NDArray[np.int64]]] = [[] for _ in range(len(groups))]
    order = np.argsort(groups.leaf, kind="stable")
    leaves, first = np.unique(groups.leaf[order], return_index=True)
    for leaf, beats in zip(leaves.tolist(), np.split(order, first[1:]), strict=True):
        for group in groups.path(leaf):
            inside[group].append(beats)
    for group, parts in enumerate(inside):
        yield group, np.sort(np.concatenate(parts))


def _odd(groups: Groups, group: int, members: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the beats of a group whose shape is farthest from its own beat's, the farthest first."""
    shape = groups.points.at[:, groups.points.parts["shape"]]
    beat = groups.beat[group]
    rest = members[members != beat]
    distance = np.square(shape[rest] - shape[beat]).sum(1)
    farthest: NDArray[np.int64] = rest[np.argsort(-distance, kind="stable")[:ODD]]
    return farthest


def _taken(blocks: Blocks, needed: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return some beats' windows, (needed, 128), without keeping the others."""
    starts, start = [], 0
    for block in blocks():
        low, high = np.searchsorted(needed, [start, start + len(block)])
        starts.append(np.array(block[needed[low:high] - start, ::_STEP]))
        start += len(block)
    return np.concatenate(starts)


def _average(windows_mv: NDArray[np.float32]) -> dict[str, Any]:
    lead: dict[str, Any] = {"samples": packed(windows_mv.mean(axis=0))}
    if len(windows_mv) >= _BAND_FROM:
        low, high = np.percentile(windows_mv, _BAND, axis=0)
        lead |= {"low": packed(low), "high": packed(high)}
    return lead


def _correlation(windows: Sequence[NDArray[np.float32]], beat: Sequence[NDArray[np.float32]]) -> float:
    """Return the median correlation of some beats with one, all leads in a row, each around its own mean."""
    some = np.concatenate([lead - lead.mean(axis=1, keepdims=True) for lead in windows], axis=1).astype(np.float64)
    reference = np.concatenate([lead - lead.mean() for lead in beat]).astype(np.float64)
    lengths = np.sqrt(np.square(some).sum(1)) * np.sqrt(np.square(reference).sum())
    correlation = np.divide(some @ reference, lengths, out=np.zeros(len(some)), where=lengths > 0)
    return round(float(np.median(correlation)), 3)


def _intervals(interval_s: Floats) -> list[int] | None:
    known = interval_s[np.isfinite(interval_s)]
    percentiles = np.percentile(known, (_BAND[0], 50, _BAND[1])) if len(known) else ()
    return [round(1000 * float(interval)) for interval in percentiles] or None
