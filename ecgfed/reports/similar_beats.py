"""Groups of similar beats of a report, by the shape of the lead in use: edited at once, as Holter analysers' templates.

The groups do not depend on edits. They are coarser than those of ``ecgfed label`` (``domain/labels/groups.py``), which
choose beats to ask for; these are to be looked at and relabelled as a whole.
"""

import base64
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import cdist

from ecgfed.reports.labelled import Labelled
from ecgfed.reports.signals import DrawnLeads
from ecgfed.web.samples import packed

#: Groups at most, and the number of a beat without one.
MOST_GROUPS, NO_GROUP = 16, 255
#: A beat's window around its R peak, seconds, and its sampling frequency at least.
BEFORE_S, AFTER_S, _LEAST_HZ = 0.25, 0.35, 100.0
#: Beats of each class that are joined to groups; every other beat is in the group with the nearest mean.
_JOINED = 300
#: Beats that an average is drawn from; samples read at a time.
_DRAWN, _BLOCK_SAMPLES = 150, 1 << 18
#: Scale of a group's average beat.
_SCALE = {"mm_per_s": 50, "mm_per_unit": 20, "pulse": False, "intervals": False, "seconds": False}


def similar_beats(leads: DrawnLeads, labelled: Labelled) -> dict[str, Any]:
    """Return the group of each beat and each group's average beat, JSON-ready, the largest group first.

    Args:
        leads: the drawn leads, the lead in use first.
        labelled: the beats before editing.
    """
    windows, known = _windows(leads, labelled.sample)
    group = np.full(len(known), NO_GROUP, np.uint8)
    rows = np.flatnonzero(known)
    averages = list[dict[str, Any]]()
    if len(rows):
        number = _grouped(windows[rows], labelled.label[rows])
        group[rows] = number
        for at in range(int(number.max()) + 1):
            members = rows[number == at]
            drawn = windows[members[np.unique(np.linspace(0, len(members) - 1, _DRAWN).astype(np.int64))]]
            low, high = np.percentile(drawn, (10, 90), axis=0)
            averages.append({"samples": packed(drawn.mean(axis=0)), "low": packed(low), "high": packed(high)})
    fs_hz = leads.recording.fs_hz / _step(leads)
    of = base64.b64encode(group.tobytes()).decode("ascii")
    return {"of": of, "averages": averages, "fs": fs_hz, "options": _SCALE}


def _step(leads: DrawnLeads) -> int:
    return max(1, int(leads.recording.fs_hz // _LEAST_HZ))


def _windows(leads: DrawnLeads, sample: NDArray[np.int64]) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """Return the windows (beats, samples) of the lead in use in millivolt, and which are whole and finite."""
    fs_hz, step = leads.recording.fs_hz, _step(leads)
    offset = np.arange(-round(BEFORE_S * fs_hz), round(AFTER_S * fs_hz) + 1, step)
    windows = np.full((len(sample), len(offset)), np.nan, np.float32)
    inside = (sample + offset[0] >= 0) & (sample + offset[-1] < leads.recording.samples)
    for start in range(0, leads.recording.samples, _BLOCK_SAMPLES):
        first, last = np.searchsorted(sample, [start, start + _BLOCK_SAMPLES])
        rows = first + np.flatnonzero(inside[first:last])
        if len(rows):
            low, high = int(sample[rows[0]] + offset[0]), int(sample[rows[-1]] + offset[-1]) + 1
            windows[rows] = leads.read(leads.names[0], low, high)[sample[rows, None] + offset - low]
    return windows, np.asarray(np.isfinite(windows).all(axis=1))


def _grouped(windows: NDArray[np.float32], label: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Return the group of each window (beats,) by its shape and size, the largest group first."""
    points = windows - np.median(windows, axis=1, keepdims=True)
    spread = np.median(points.std(axis=1)) or 1.0
    points = np.clip(points / spread, -20, 20)
    chosen = np.concatenate([_spread(np.flatnonzero(label == of)) for of in np.unique(label)])
    of_chosen = np.ones(1, np.int64)
    if len(chosen) > 1:
        of_chosen = fcluster(linkage(points[chosen], "ward"), MOST_GROUPS, "maxclust")
    means = np.stack([points[chosen[of_chosen == of]].mean(axis=0) for of in np.unique(of_chosen)])
    nearest = np.concatenate(
        [cdist(points[start : start + 4096], means).argmin(axis=1) for start in range(0, len(points), 4096)]
    )
    numbers, counts = np.unique(nearest, return_counts=True)
    order = np.empty(len(means), np.uint8)
    order[numbers[np.argsort(-counts, kind="stable")]] = np.arange(len(numbers))
    return np.asarray(order[nearest], np.uint8)


def _spread(beats: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return at most ``_JOINED`` of the beats, evenly spread."""
    return beats[np.unique(np.linspace(0, len(beats) - 1, min(len(beats), _JOINED)).astype(np.int64))]
