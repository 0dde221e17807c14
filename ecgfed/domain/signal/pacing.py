"""Pacing detected in the signal: which beats follow a pacing spike, in which episodes, and whether a record is paced.

A logistic regression scores each beat in each lead by the features of ``pacing_features``; the leads' log-odds are
averaged. A beat without a lasting wave behind its spike in any lead is not clearly paced. ``benchmarks/pacing`` trains
the regression and says how good it is; decision 0060 says why it is so. Pacing of the atria alone, whose spike lies
before the P wave, is not looked for.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecgfed.base.language import Message, message, messages
from ecgfed.domain.record.leads import ecg_alone
from ecgfed.domain.record.recording import Recording
from ecgfed.domain.signal.pacing_features import LEAST_MV, NAMES, captured, margins, resampling_matrix, window_features
from ecgfed.domain.signal.products import product

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

FILE = "pacing_weights.json"
#: A beat of a paced record or of an episode is paced above the first; one above the second is clearly paced.
PACED_SCORE, CLEAR_SCORE = 0.5, 0.9
#: A record is paced when more than this share of its assessed beats is clearly paced, and no fewer were assessed.
RECORD_SHARE, MIN_ASSESSED = 0.3, 10
#: In any other record so many consecutive beats, and the same share of all, have to be clearly paced for an episode.
EPISODE_CLEAR = 10
#: An episode bridges so many beats that are not paced, and in a paced record holds no fewer paced ones.
EPISODE_BRIDGED, EPISODE_LEAST = 3, 3
#: A rectangular pulse: so large a share of a window's samples lies within this share of its height from the lowest or
#: the highest, and at least so much at each.
LEVEL, AT_LEVELS, AT_EACH = 0.1, 0.93, 0.1
#: Fewer calibration pulses in a recording are none.
MIN_PULSES = 5
#: Beats read at once lie in one such stretch; a longer one is read in parts.
_STRETCH_S = 300.0


@dataclass(frozen=True)
class Band:
    """Weights for one range of sampling frequencies.

    Attributes:
        fs_hz: the lowest sampling frequency they serve.
        limit_hz: to which windows are low-passed.
        weights: (features,) of the logistic regression.
        intercept: its intercept.
    """

    fs_hz: float
    limit_hz: float
    weights: Floats
    intercept: float


@dataclass(frozen=True)
class PacingEpisode:
    """An episode of paced beats.

    Attributes:
        start_s: time of its first beat's R peak.
        stop_s: time of its last beat's R peak.
        beats: how many of its beats are paced.
    """

    start_s: float
    stop_s: float
    beats: int


@dataclass(frozen=True, eq=False)
class Pacing:
    """Pacing detected in the signal of a recording.

    Attributes:
        score: (beats,) float64, the probability that each beat follows a pacing spike; NaN where it was not assessed.
        beats: (beats,) bool, those that are called paced.
        episodes: of paced beats, in order of time.
        paced: the record as a whole is paced.
    """

    score: Floats
    beats: Mask
    episodes: tuple[PacingEpisode, ...]
    paced: bool

    def __bool__(self) -> bool:
        """Whether any pacing was detected."""
        return bool(self.episodes) or self.paced

    @property
    def assessed(self) -> int:
        """How many beats were assessed."""
        return int(np.isfinite(self.score).sum())

    @property
    def seconds(self) -> float:
        """How long the episodes last together."""
        return sum(episode.stop_s - episode.start_s for episode in self.episodes)

    def summary(self) -> dict[str, Any]:
        """Return the evidence, JSON-ready."""
        return {
            "paced": self.paced,
            "paced_beats": int(self.beats.sum()),
            "clearly_paced_beats": int((self.score > CLEAR_SCORE).sum()),
            "assessed_beats": self.assessed,
            "seconds": round(self.seconds, 3),
            "episodes": [
                {"start_s": round(episode.start_s, 3), "stop_s": round(episode.stop_s, 3), "beats": episode.beats}
                for episode in self.episodes
            ],
        }

    @property
    def text(self) -> Message:
        """The evidence in a sentence, without a full stop."""
        return messages(
            "{beats} of {n} assessed beat follow a pacing spike ({episodes}, {seconds:.0f} s in all)",
            "{beats} of {n} assessed beats follow a pacing spike ({episodes}, {seconds:.0f} s in all)",
            self.assessed,
            beats=int(self.beats.sum()),
            episodes=messages("{n} episode", "{n} episodes", len(self.episodes)),
            seconds=self.seconds,
        )


@lru_cache(maxsize=1)
def bands() -> tuple[Band, ...]:
    """Return the weights, for high sampling frequencies first."""
    stored = json.loads(files("ecgfed.domain.signal").joinpath(FILE).read_text(encoding="utf-8"))
    return tuple(
        Band(
            float(band["fs_hz"]),
            float(band["limit_hz"]),
            np.array([band["weights"][name] for name in NAMES], np.float64),
            float(band["intercept"]),
        )
        for band in stored["bands"]
    )


def band_of(fs_hz: float) -> Band | None:
    """Return the weights for a sampling frequency; None where it is too low to tell a spike."""
    return next((band for band in bands() if fs_hz >= band.fs_hz), None)


def detect_pacing(recording: Recording, r_samples: Ints) -> Pacing:
    """Score the beats of a recording and find its paced episodes.

    Every ECG lead of the recording takes part where it has all samples around a beat and changes by ``LEAST_MV``. The
    recording is read a few minutes at a time, and gives the same scores in memory and on the disk.

    Args:
        recording: with the ECG leads that were read.
        r_samples: (beats,) int64 increasing R peaks.
    """
    return pacing_of(beat_scores(ecg_alone(recording), r_samples), np.asarray(r_samples) / recording.fs_hz)


def beat_scores(recording: Recording, r_samples: Ints) -> Floats:
    """Return the probability that each beat follows a pacing spike, (beats,) float64; NaN where it was not assessed."""
    score = np.full(len(r_samples), np.nan)
    band = band_of(recording.fs_hz)
    if band is None:
        return score
    resampling = resampling_matrix(recording.fs_hz, band.limit_hz)
    for numbers, windows_mv in _windows(recording, np.asarray(r_samples, np.int64)):
        on_grid = [product(lead, resampling) for lead in windows_mv]
        odds = np.stack([window_features(lead) @ band.weights for lead in on_grid]) + band.intercept
        scored = mean_score(odds)
        clear = np.flatnonzero(scored > CLEAR_SCORE)
        if len(clear):
            scored[clear[~np.any([captured(lead[clear]) for lead in on_grid], axis=0)]] = CLEAR_SCORE
        score[numbers] = np.where(rectangular(windows_mv).any(axis=0), 0.0, scored)
    return score


def rectangular(windows_mv: Floats) -> Mask:
    """Return which windows hold a rectangular pulse, as of a calibration, and no heartbeat: (leads, windows) bool.

    Nearly all samples then lie at one of two levels, and a tenth or more at each; a spike or a QRS stays at none.

    Args:
        windows_mv: (leads, windows, samples) millivolt.
    """
    low, high = windows_mv.min(axis=2, keepdims=True), windows_mv.max(axis=2, keepdims=True)
    at_high = (windows_mv >= high - LEVEL * (high - low)).mean(axis=2)
    pulse: Mask = ((high - low)[:, :, 0] >= LEAST_MV) & (at_high >= AT_EACH)
    at_low = (windows_mv[pulse] <= (low + LEVEL * (high - low))[pulse]).mean(axis=1)
    pulse[pulse] = (at_low + at_high[pulse] >= AT_LEVELS) & (at_low >= AT_EACH)
    return pulse


def calibration_pulses(recording: Recording, r_samples: Ints) -> Mask:
    """Return which of the detected waves (waves,) are rectangular pulses in the lead in use.

    Fewer than ``MIN_PULSES`` are none: of 112,000 beats of MIT-BIH and SVDB one has that form.
    """
    pulses, row = np.zeros(len(r_samples), np.bool_), recording.leads.index(recording.lead)
    for numbers, windows_mv in _windows(recording.only([row]), np.asarray(r_samples, np.int64)):
        pulses[numbers] = rectangular(windows_mv)[0]
    return pulses if pulses.sum() >= MIN_PULSES else np.zeros_like(pulses)


def calibration_text(pulses: Mask) -> Message:
    """Return a sentence about calibration pulses among the detected waves (waves,)."""
    return message(
        "{n} of {total} detected waves are rectangular pulses, as of a calibration: no heartbeats, and in no count.",
        n=int(pulses.sum()),
        total=len(pulses),
    )


def mean_score(odds: Floats) -> Floats:
    """Return the probability of the mean log-odds of the leads that were assessed, (leads, beats) to (beats,)."""
    known = np.isfinite(odds)
    with np.errstate(invalid="ignore", over="ignore"):
        mean = np.where(known, odds, 0).sum(0) / known.sum(0)
        return np.asarray(1 / (1 + np.exp(-mean)))


def _windows(recording: Recording, r_samples: Ints) -> Iterator[tuple[Ints, Floats]]:
    """Yield beats' numbers and their (leads, beats, samples) millivolt, of a few minutes at once.

    Beats too near an end are left out.
    """
    before, after = margins(recording.fs_hz)
    complete = np.flatnonzero((r_samples >= before) & (r_samples + after < recording.samples))
    part = r_samples[complete] // max(1, round(_STRETCH_S * recording.fs_hz))
    for numbers in np.split(complete, np.flatnonzero(np.diff(part)) + 1):
        if not len(numbers):
            continue
        peaks = r_samples[numbers]
        first = int(peaks[0]) - before
        signals_mv = recording.read(first, int(peaks[-1]) + after + 1)
        windows = np.lib.stride_tricks.sliding_window_view(signals_mv, before + after + 1, axis=1)
        yield numbers, windows[:, peaks - before - first]


def pacing_of(score: Floats, time_s: Floats) -> Pacing:
    """Find the episodes in beats' scores, and whether the whole record is paced.

    Args:
        score: (beats,) float64, NaN where a beat was not assessed.
        time_s: (beats,) float64 times of the R peaks in s.
    """
    assessed = int(np.isfinite(score).sum())
    high, clear = score > PACED_SCORE, score > CLEAR_SCORE
    paced = assessed >= MIN_ASSESSED and int(clear.sum()) > RECORD_SHARE * assessed
    beats = high if paced else np.zeros(len(score), np.bool_)
    episodes = []
    for first, last in _episodes(np.flatnonzero(high)):
        inside = slice(first, last + 1)
        enough = clear[inside].sum() > RECORD_SHARE * (last + 1 - first)
        if (paced and high[inside].sum() >= EPISODE_LEAST) or (enough and _longest(clear[inside]) >= EPISODE_CLEAR):
            episodes.append(PacingEpisode(float(time_s[first]), float(time_s[last]), int(high[inside].sum())))
            beats = beats | (high & (np.arange(len(score)) >= first) & (np.arange(len(score)) <= last))
    return Pacing(score, np.asarray(beats), tuple(episodes), bool(paced))


def _episodes(high: Ints) -> list[tuple[int, int]]:
    """Return first and last beat of the episodes that beats of these numbers make up."""
    if not len(high):
        return []
    cuts = np.flatnonzero(np.diff(high) > EPISODE_BRIDGED + 1)
    firsts, lasts = high[np.append(0, cuts + 1)], high[np.append(cuts, len(high) - 1)]
    return list(zip(firsts.tolist(), lasts.tolist(), strict=True))


def _longest(mask: Mask) -> int:
    """Return the length of the longest run of true values."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], mask, [False]])))
    return int((edges[1::2] - edges[::2]).max(initial=0))
