"""The waves of every beat of a recording's lead, some hundred beats at a time."""

from collections.abc import Iterator

import numpy as np

from ecgfed.domain.record.recording import Recording
from ecgfed.domain.signal.filters import bridge_samples, fill_gaps
from ecgfed.domain.signal.spans import Spans
from ecgfed.domain.waves.delineate import AFTER_S, BEFORE_S, BeatWindows, beat_windows, delineate_windows
from ecgfed.domain.waves.points import SETTINGS, Floats, Ints, Mask, WavePoints, WaveSettings

#: What has to be readable of a beat, in seconds from its R peak.
READABLE_S = (-0.3, 0.5)
#: Beats that are delineated at once.
_AT_ONCE = 512
#: The interval that is assumed where there is only one beat.
_LONE_RR_S = 1.0


def rr_intervals(r_samples: Ints, fs_hz: float) -> Floats:
    """Return the intervals before each R peak and behind the last, (beats + 1,) s; at both ends the one beside it."""
    if len(r_samples) < 2:
        return np.full(len(r_samples) + 1, _LONE_RR_S)
    return np.pad(np.diff(r_samples) / fs_hz, 1, mode="edge")


def readable(recording: Recording, r_samples: Ints, poor: Spans) -> Mask:
    """Return which beats lie within the recording and in none of its stretches of poor quality, (beats,) bool."""
    first, last = (r_samples + round(edge * recording.fs_hz) for edge in READABLE_S)
    return np.asarray((first >= 0) & (last <= recording.samples) & ~poor.overlap(first, last))


def lead_windows(recording: Recording, lead: str, r_samples: Ints, rr_s: Floats, first: int, stop: int) -> BeatWindows:
    """Return the windows of beats ``first`` to ``stop`` (not included) of a lead; missing samples are bridged.

    Args:
        recording: the recording.
        lead: one of its leads.
        r_samples: (all beats,) int64 increasing R peaks.
        rr_s: (all beats + 1,) as ``rr_intervals`` returns them.
        first: number of the first beat.
        stop: number of the beat behind the last one.

    Raises:
        RecordError: the file cannot be read any more.
    """
    fs_hz = recording.fs_hz
    start = max(int(r_samples[first]) - round(BEFORE_S * fs_hz), 0)
    end = min(int(r_samples[stop - 1]) + round(AFTER_S * fs_hz), recording.samples)
    signal, _ = fill_gaps(recording.lead_mv(lead, start, end), bridge_samples(fs_hz))
    return beat_windows(signal, fs_hz, r_samples[first:stop] - start, rr_s[first : stop + 1])


def delineate_lead(
    recording: Recording, lead: str, r_samples: Ints, usable: Mask, *, settings: WaveSettings = SETTINGS
) -> WavePoints:
    """Locate the waves of every beat of a lead.

    Args:
        recording: the recording.
        lead: one of its leads.
        r_samples: (beats,) int64 increasing R peaks in that lead.
        usable: (beats,) bool, as ``readable`` returns it; the points of other beats are NaN.
        settings: the delineator's constants.

    Returns:
        The points as sample numbers of the recording.

    Raises:
        RecordError: the file cannot be read any more.
    """
    rr_s, parts = rr_intervals(r_samples, recording.fs_hz), [np.empty((0, 7))]
    for start, stop, first, last in _blocks(len(r_samples), settings.neighbours + 1):
        windows = lead_windows(recording, lead, r_samples, rr_s, first, last)
        points = delineate_windows(windows, usable[first:last], settings=settings).array()
        parts.append(points[start - first : stop - first] + r_samples[start:stop, None])
    return WavePoints.from_array(np.concatenate(parts))


def _blocks(beats: int, margin: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield start and stop of blocks of beats, and of these with the beats that their points depend on."""
    for start in range(0, beats, _AT_ONCE):
        stop = min(start + _AT_ONCE, beats)
        yield start, stop, max(start - margin, 0), min(stop + margin, beats)
