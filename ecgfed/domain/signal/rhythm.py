"""Atrial fibrillation and flutter as episodes with a start, an end and a certainty.

A logistic regression scores windows of 30 s, one for every 10 s, in up to two leads by the features of
``rhythm_features``; the lower score counts, since a P wave may be seen in one lead alone. Sinus rhythm with premature
beats scores low by a rule of its own (``STEADY``). Scores are averaged over neighbouring windows. An episode lasts
while the probability stays above ``LOW`` and exceeds ``HIGH`` in between. A recording of up to ``STRIP_S`` is judged as
a whole. Windows that are mostly paced, in possible ventricular flutter or without samples are not assessed.
Fibrillation and flutter are not told apart. ``benchmarks/rhythm`` trains the weights and measures them; decisions 0077
and 0087 say why it is so.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

from ecgfed.base.language import tr_later
from ecgfed.domain.events.certainty import SHORTEST_S
from ecgfed.domain.events.rhythm_episodes import RhythmEpisodes
from ecgfed.domain.record.recording import Recording
from ecgfed.domain.signal.filters import bridge_samples, fill_gaps
from ecgfed.domain.signal.rhythm_features import GRID_HZ, NAMES, beat_waves, on_grid, window_features

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

FILE = "rhythm_weights.json"
#: What such an episode is called, and the note of its annotation.
NAME, NOTE = tr_later("AF or flutter"), "(AFIB"
#: A window of so many seconds around each cell of so many; windows at an end are moved inwards.
WINDOW_S, CELL_S = 30.0, 10.0
#: Weights of neighbouring windows, and the least sum of those that are assessed.
AVERAGED, LEAST_WEIGHT = np.array([1.0, 2.0, 3.0, 2.0, 1.0]), 3.0
#: An episode exceeds the first probability, and lasts for so long while the second is exceeded.
HIGH, LOW, EPISODE_S = 0.87, 0.5, 30.0
#: A recording of up to so many seconds is judged as a whole, by this probability.
STRIP_S, STRIP = 61.0, 0.5
#: Sinus rhythm with premature beats: a larger share than the first of the intervals without these is alike, and of the
#: P waves one larger than the second; the log-odds of such a window are the third at most.
STEADY, P_WAVES, STEADY_ODDS = 0.8, 0.4, -1.0
#: Leads that are looked at; a window is not assessed with a larger share of missing samples, paced beats, or flutter.
LEADS, MISSING, PACED, FLUTTER_SHARE = 2, 1 / 3, 0.2, 0.5
#: Waves lower than this in mV are no QRS complexes, and a lower sampling frequency shows no P waves.
LEAST_MV, MIN_FS_HZ = 0.05, 50.0
#: Cells that are read at once, and cells read around them for the filter.
_AT_ONCE, _MARGIN = 60, 1


@dataclass(frozen=True)
class Weights:
    """A logistic regression, and the calibration of its averaged log-odds.

    Attributes:
        weights: (features,) of the logistic regression.
        intercept: its intercept.
        strip: slope and intercept of the log-odds that a whole strip is fibrillation.
        cell: slope and intercept of the log-odds that an episode in a longer recording is, by its mean log-odds.
    """

    weights: Floats
    intercept: float
    strip: tuple[float, float]
    cell: tuple[float, float]


@lru_cache(maxsize=1)
def packaged_weights() -> Weights:
    """Return the weights in the package."""
    stored = json.loads(files("ecgfed.domain.signal").joinpath(FILE).read_text(encoding="utf-8"))
    weights = np.array([stored["weights"][name] for name in NAMES], np.float64)
    return Weights(weights, float(stored["intercept"]), tuple(stored["strip"]), tuple(stored["cell"]))


def fibrillation(
    recording: Recording, r_samples: Ints, paced: Mask | None = None, flutter: Sequence[tuple[int, int]] = ()
) -> RhythmEpisodes:
    """Return the episodes of atrial fibrillation or flutter in a recording.

    Args:
        recording: with ECG leads alone; the lead in use and one other are looked at, a few minutes at a time.
        r_samples: (beats,) int64 increasing R peaks.
        paced: (beats,) bool, beats that follow a pacing spike.
        flutter: (start, stop) in samples of possible ventricular flutter, or in which no beat can be told otherwise.
    """
    return episodes(log_odds(assessed_features(recording, r_samples, paced, flutter)), recording.duration_s)


def assessed_features(
    recording: Recording, r_samples: Ints, paced: Mask | None, flutter: Sequence[tuple[int, int]]
) -> Floats:
    """Return the features of each cell's window, (leads, cells, features); NaN where not assessed.

    The arguments are those of ``fibrillation``.
    """
    windows_s = cell_windows(recording.duration_s)
    if recording.fs_hz < MIN_FS_HZ or not len(r_samples):
        return np.full((1, len(windows_s), len(NAMES)), np.nan)
    features = recording_features(recording, r_samples, windows_s)
    spans_s = np.array(flutter) / recording.fs_hz
    features[:, excluded_windows(windows_s, r_samples / recording.fs_hz, paced, spans_s)] = np.nan
    return features


def cell_windows(duration_s: float) -> Floats:
    """Return start and stop of the window of each cell in seconds, (cells, 2)."""
    cells = np.arange(max(1, round(duration_s / CELL_S)))
    start = np.clip((cells - 1) * CELL_S, 0, max(duration_s - WINDOW_S, 0))
    return np.stack([start, np.minimum(start + WINDOW_S, duration_s)], axis=1)


def recording_features(recording: Recording, r_samples: Ints, windows_s: Floats) -> Floats:
    """Return the features of each lead's windows, (leads, windows, features); NaN where not assessed."""
    fs_hz, used, parts = recording.fs_hz, recording.leads.index(recording.lead), []
    rows = [used, *(row for row in range(len(recording.leads)) if row != used)][:LEADS]
    for windows in np.split(windows_s, range(_AT_ONCE, len(windows_s), _AT_ONCE)):
        first = max(round((windows[0, 0] - _MARGIN * CELL_S) * fs_hz), 0)
        last = min(round((windows[-1, 1] + _MARGIN * CELL_S) * fs_hz), recording.samples)
        inside = slice(*np.searchsorted(r_samples, [first, last]).tolist())
        signals = recording.read(first, last, rows)
        parts.append(signal_features(signals, fs_hz, r_samples[inside] - first, windows - first / fs_hz))
    return np.concatenate(parts, axis=1)


def signal_features(signals_mv: NDArray[np.floating], fs_hz: float, r_samples: Ints, windows_s: Floats) -> Floats:
    """Return the features of windows of signals in memory, (leads, windows, features); NaN where not assessed.

    Args:
        signals_mv: (leads, samples) millivolt, NaN where a sample is missing.
        fs_hz: sampling frequency in Hz.
        r_samples: (beats,) int64 R peaks in these signals.
        windows_s: (windows, 2) start and stop in seconds from the first sample.
    """
    r_s, features = r_samples / fs_hz, np.full((len(signals_mv), len(windows_s), len(NAMES)), np.nan)
    if signals_mv.shape[1] < 2 * fs_hz / GRID_HZ or not len(r_s):
        return features
    edges = np.clip(np.round(windows_s * fs_hz).astype(np.int64), 0, signals_mv.shape[1])
    for number, lead in enumerate(signals_mv):
        signal, missing = fill_gaps(lead, bridge_samples(fs_hz))
        lost = np.concatenate([[0], np.cumsum(missing)])[edges]
        qrs_mv, p_mv = beat_waves(on_grid(signal, fs_hz), r_s)
        high = np.ptp(qrs_mv, axis=1) >= LEAST_MV
        of_lead = window_features(r_s[high], qrs_mv[high], p_mv[high], windows_s)
        known = lost[:, 1] - lost[:, 0] <= MISSING * (edges[:, 1] - edges[:, 0])
        features[number] = np.where(known[:, None], of_lead, np.nan)
    return features


def log_odds(features: Floats, weights: Weights | None = None) -> Floats:
    """Return the log-odds of each window by its features (leads, windows, features): the lead with the lowest."""
    of = packaged_weights() if weights is None else weights
    odds = features @ of.weights + of.intercept
    steady = features[..., NAMES.index("steady_mode")] > STEADY
    steady &= features[..., NAMES.index("p_mode")] > P_WAVES
    odds = np.where(steady, np.minimum(odds, STEADY_ODDS), odds)
    lowest = np.fmin.reduce(odds, axis=0)  # of the leads that are assessed
    return np.asarray(lowest, np.float64)


def excluded_windows(windows_s: Floats, r_s: Floats, paced: Mask | None, flutter_s: Floats) -> Mask:
    """Return which windows are mostly in spans (disjoint), or hold many paced beats, (windows,) bool."""
    edges = np.searchsorted(r_s, windows_s)
    excluded = np.zeros(len(windows_s), np.bool_)
    if paced is not None:
        count = np.concatenate([[0], np.cumsum(paced)])[edges]
        excluded = count[:, 1] - count[:, 0] > PACED * np.maximum(edges[:, 1] - edges[:, 0], 1)
    shared = np.zeros(len(windows_s))
    for start, stop in flutter_s.reshape(-1, 2):
        shared += np.maximum(np.minimum(windows_s[:, 1], stop) - np.maximum(windows_s[:, 0], start), 0)
    return np.asarray(excluded | (shared > FLUTTER_SHARE * (windows_s[:, 1] - windows_s[:, 0])))


def paced_seconds(duration_s: float, r_s: Floats, paced: Mask) -> float:
    """Return for how many seconds of a recording fibrillation is not assessed because beats (beats,) are paced."""
    excluded = excluded_windows(cell_windows(duration_s), r_s, paced, np.empty((0, 2)))
    return min(CELL_S * int(excluded.sum()), duration_s)


def averaged(odds: Floats) -> Floats:
    """Return the log-odds (cells,) averaged over neighbouring windows; NaN where too few of these are assessed."""
    reach, known = len(AVERAGED) // 2, np.isfinite(odds)
    weight = np.convolve(np.pad(known.astype(np.float64), reach), AVERAGED, "valid")
    total = np.convolve(np.pad(np.where(known, odds, 0.0), reach), AVERAGED, "valid")
    return np.where(weight >= LEAST_WEIGHT, total / np.maximum(weight, 1), np.nan)


def shortest_episode_s(odds: Floats, duration_s: float) -> float | None:
    """Return the length of the shortest episode that is detected by the log-odds (cells,), in seconds.

    That is the whole of a strip. None where no window is assessed.
    """
    if duration_s <= STRIP_S:
        return duration_s if duration_s >= SHORTEST_S and bool(np.isfinite(odds).any()) else None
    return EPISODE_S if bool(np.isfinite(averaged(odds)).any()) else None


def episodes(odds: Floats, duration_s: float, weights: Weights | None = None) -> RhythmEpisodes:
    """Return the episodes by the log-odds (cells,) of the windows, NaN where not assessed."""
    of = packaged_weights() if weights is None else weights
    if shortest_episode_s(odds, duration_s) is None:
        return RhythmEpisodes(NAME, ())
    if duration_s <= STRIP_S:
        known = odds[np.isfinite(odds)]
        if _probability(known.mean()) <= STRIP:
            return RhythmEpisodes(NAME, ())
        certainty = _probability(of.strip[0] * known.mean() + of.strip[1])
        return RhythmEpisodes(NAME, ((0.0, duration_s),), certainty=(float(certainty),))
    return cell_episodes(averaged(odds), duration_s, of)


def cell_episodes(smooth: Floats, duration_s: float, weights: Weights, high: float = HIGH) -> RhythmEpisodes:
    """Return the episodes by the averaged log-odds (cells,), the last cell ending with the recording."""
    probability = _probability(np.where(np.isnan(smooth), -np.inf, smooth))
    edges = np.flatnonzero(np.diff(np.concatenate([[False], probability > LOW, [False]])))
    spans, certainties = [], []
    for first, stop in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        start_s, stop_s = first * CELL_S, duration_s if stop == len(smooth) else stop * CELL_S
        if probability[first:stop].max() > high and stop_s - start_s >= EPISODE_S:
            spans.append((start_s, stop_s))
            certainties.append(float(_probability(weights.cell[0] * smooth[first:stop].mean() + weights.cell[1])))
    return RhythmEpisodes(NAME, tuple(spans), certainty=tuple(certainties))


def _probability(odds: Floats) -> Floats:
    with np.errstate(over="ignore"):
        return np.asarray(1 / (1 + np.exp(-odds)))
