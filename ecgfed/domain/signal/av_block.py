"""Possible second-degree atrioventricular block: P waves in their regular place that no QRS complex follows.

If every second beat, or an occasional beat, is not conducted, the interval spans two atrial cycles, and a P wave lies
half-way. It is searched for in the lead in use: half an interval before the next P wave, with the shape and height of
the P waves before QRS complexes, and later than the T wave of the preceding beat. A single match is often chance;
``MIN_BLOCKED`` of them close together are an episode. The block is only possible: the P wave of a blocked premature
beat is early and does not match, but an atrial rhythm with two P waves per QRS complex looks the same.
docs/decisions/0098 has the measurements.
"""

import itertools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ecgfed.base.language import tr_later
from ecgfed.domain.events.rhythm_episodes import RhythmEpisodes
from ecgfed.domain.record.recording import Recording
from ecgfed.domain.signal.filters import bridge_samples, fill_gaps
from ecgfed.domain.signal.rhythm_features import GRID_HZ, REACH_S, beat_waves, on_grid

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

#: Name of such an episode.
AV_BLOCK = tr_later("possible AV block")
#: Shortest and longest interval in seconds: two atrial cycles of a sinus rhythm of 35 to 105 a minute.
INTERVAL_S = (1.15, 3.5)
#: Atrial cycles tried, relative to half the interval: the cycle varies, most of all across a blocked beat.
SHIFTS = np.linspace(-0.07, 0.07, 15)
#: Of a blocked P wave: least correlation with the median P wave, and range of its height relative to it. Of the P wave
#: that ends the interval: its least correlation, which a least share of all beats must reach too.
LIKE, HEIGHT, OWN_LIKE, OWN_SHARE = 0.85, (0.6, 1.6), 0.8, 0.6
#: Seconds from the middle of the P wave to the R peak. End of the T wave after the preceding R peak: a multiple of the
#: square root of the interval in seconds (Bazett), and a margin in seconds.
P_MIDDLE_S, T_END, T_MARGIN_S = 0.18, 0.40, 0.04
#: Least number of blocked beats in an episode, and the longest time between two of them in seconds.
MIN_BLOCKED, APART_S = 3, 30.0
#: Seconds read at once, with a median P wave of their own; least number of beats for it; least sampling frequency.
_PART_S, _MIN_BEATS, _MIN_FS_HZ = 600.0, 20, 50.0


def av_block(recording: Recording, r_samples: Ints, without_s: Sequence[tuple[float, float]] = ()) -> RhythmEpisodes:
    """Return the episodes in which beats are possibly blocked.

    Args:
        recording: the lead in use is read, some minutes at a time.
        r_samples: (beats,) int64 increasing R peaks.
        without_s: (start, stop) in seconds in which P waves say nothing: fibrillation, poor quality, flutter.
    """
    blocked = [np.empty((0, 2))]
    if recording.fs_hz >= _MIN_FS_HZ:
        parts = max(1, round(recording.duration_s / _PART_S))
        edges_s = np.linspace(0, recording.duration_s, parts + 1)
        blocked += [_of_part(recording, r_samples, *edges) for edges in itertools.pairwise(edges_s)]
    spans = np.concatenate(blocked)
    for start, stop in without_s:
        spans = spans[(spans[:, 1] <= start) | (spans[:, 0] >= stop)]
    rows = np.split(spans, np.flatnonzero(np.diff(spans[:, 0]) > APART_S) + 1)
    episodes = tuple((float(row[0, 0]), float(row[-1, 1])) for row in rows if len(row) >= MIN_BLOCKED)
    return RhythmEpisodes(AV_BLOCK, episodes)


def _of_part(recording: Recording, r_samples: Ints, start_s: float, stop_s: float) -> Floats:
    """Return the intervals (blocked, 2), start and stop in seconds, that end in a part and have a blocked P wave."""
    fs_hz = recording.fs_hz
    first = max(round((start_s - INTERVAL_S[1] - REACH_S) * fs_hz), 0)
    last = min(round((stop_s + REACH_S) * fs_hz), recording.samples)
    inside = r_samples[slice(*np.searchsorted(r_samples, [first, last]).tolist())]
    if len(inside) < _MIN_BEATS or last - first < 2 * fs_hz / GRID_HZ:
        return np.empty((0, 2))
    row = [recording.leads.index(recording.lead)]
    signal, _ = fill_gaps(recording.read(first, last, row)[0], bridge_samples(fs_hz))
    r_s = (inside - first) / fs_hz
    here = blocked_beats(on_grid(signal, fs_hz), r_s)
    spans = np.stack([inside[:-1][here], inside[1:][here]], axis=1) / fs_hz
    return spans[(spans[:, 1] >= start_s) & (spans[:, 1] < stop_s)]


def blocked_beats(grid_mv: Floats, r_s: Floats) -> Mask:
    """Return which intervals (beats - 1,) have a P wave half-way that no QRS complex follows.

    Args:
        grid_mv: (grid,) mV of one lead as of ``rhythm_features.on_grid``.
        r_s: (beats,) increasing R peaks in seconds from the start of the grid, two or more.
    """
    rr_s = np.diff(r_s)
    p_mv = beat_waves(grid_mv, r_s)[1]
    p_mv -= p_mv.mean(axis=1, keepdims=True)
    usual = np.median(p_mv, axis=0)
    own = _correlation(p_mv, usual)
    blocked = np.zeros(len(rr_s), np.bool_)
    if (own >= OWN_LIKE).mean() < OWN_SHARE:
        return blocked
    cycles_s = rr_s[:, None] / 2 * (1 + SHIFTS)
    late = rr_s[:, None] - cycles_s - P_MIDDLE_S >= T_END * np.sqrt(rr_s)[:, None] + T_MARGIN_S
    possible = (rr_s >= INTERVAL_S[0]) & (rr_s <= INTERVAL_S[1]) & (own[1:] >= OWN_LIKE)
    for number in np.flatnonzero(possible & late.any(axis=1)).tolist():
        waves = beat_waves(grid_mv, r_s[number + 1] - cycles_s[number][late[number]])[1]
        waves -= waves.mean(axis=1, keepdims=True)
        like = _correlation(waves, usual)
        best = int(like.argmax())
        height = float(waves[best] @ usual / (usual @ usual))
        blocked[number] = like[best] >= LIKE and HEIGHT[0] <= height <= HEIGHT[1]
    return blocked


def _correlation(waves_mv: Floats, usual_mv: Floats) -> Floats:
    """Return the correlation of waves (waves, samples) with another one (samples,), all of mean 0."""
    size = np.linalg.norm(waves_mv, axis=1) * np.linalg.norm(usual_mv)
    return np.asarray(waves_mv @ usual_mv / np.maximum(size, 1e-12))
