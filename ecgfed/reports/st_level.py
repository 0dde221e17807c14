"""Measuring the ST level of a recording's normal beats, a few minutes at a time."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ecgfed.base.language import tr_later
from ecgfed.domain.events.figure import Measurement
from ecgfed.domain.waves.intervals import FIBRILLATION, NOISE, LabelledWaves, average_beats
from ecgfed.reports.drawing import Reading
from ecgfed.reports.st_trend import MOST_ERROR_MV, SEGMENT_S, StSegment, StTrend, standard_error

#: The class whose beats are averaged, and why a segment without any has no level.
NORMAL_CODE, NO_BEAT = "N", tr_later("no beat of class N")
#: Why nothing is measured of normal beats of which more than ``MOST_LOW`` are of low confidence.
LOW_CONFIDENCE, MOST_LOW = tr_later("most normal beats are of low confidence"), 0.5
_CLASSES = ("N", "N in fibrillation", "other")


def st_trend(reading: Reading, waves: LabelledWaves) -> StTrend:
    """Measure the ST level of the average beat of class N in each ``SEGMENT_S``, in the lead in use.

    It is the level ``ST_S`` behind the J point against the mean of ``LEVEL_S`` before the onset of the QRS complex.

    Args:
        reading: the recording, its labelled beats and their counts.
        waves: the waves of these beats, with their classes.

    Raises:
        RecordError: the file cannot be read any more.
    """
    recording, labelled = reading.recording, reading.labelled
    normal = np.array([code == NORMAL_CODE for code in labelled.codes])[labelled.label]
    label = np.where(normal, np.where(waves.fibrillation, 1, 0), 2).astype(np.int64)
    levels: dict[float, Measurement] = {}
    of_class = replace(waves, label=label, classes=_CLASSES)
    for average in average_beats(recording, recording.lead, of_class, bin_s=SEGMENT_S):
        if average.label == _CLASSES[0]:
            start, stop = (int(at * recording.fs_hz) for at in (average.start_s, average.start_s + SEGMENT_S))
            averaged = waves.usable & (label == 0) & (labelled.sample >= start) & (labelled.sample < stop)
            low = low_share(reading, averaged) > MOST_LOW
            levels[average.start_s] = _none(LOW_CONFIDENCE) if low else _certain(average.st_mv)
        elif average.label == _CLASSES[1]:
            levels.setdefault(average.start_s, _none(FIBRILLATION))
    starts = SEGMENT_S * np.arange(np.ceil(recording.duration_s / SEGMENT_S))
    return StTrend(
        recording.lead,
        tuple(
            StSegment(start, min(start + SEGMENT_S, recording.duration_s), levels.get(start, _none(NO_BEAT)))
            for start in starts.tolist()
        ),
    )


def low_share(reading: Reading, of: NDArray[np.bool_]) -> float:
    """Return the share of low confidence among some beats; 0 without any, or where confidence is not assessed."""
    uncertain = reading.labelled.uncertain
    return 0.0 if uncertain is None or not of.any() else float(uncertain[of].mean())


def _none(reason: str, beats: int = 0) -> Measurement:
    return Measurement(None, None, beats, reason)


def _certain(level: Measurement) -> Measurement:
    """Return a level, or that noise forbids it."""
    if level.value is None or standard_error(level) <= MOST_ERROR_MV:
        return level
    return _none(NOISE, level.beats)
