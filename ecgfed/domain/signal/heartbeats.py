"""Where no heart beats: noise at the ends of a recording, and stretches in which the heart stands still.

The detector processes a recording as a stream, so at the beginning it does not know the amplitude of QRS complexes yet:
what it takes for them may be noise from an electrode that is not attached yet. A stretch of recorded signal without a
QRS complex in any lead is one without beats, and no noise.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ecgfed.base.language import tr_later
from ecgfed.domain.events.rhythm_episodes import RhythmEpisodes
from ecgfed.domain.record.leads import ecg_alone
from ecgfed.domain.record.recording import Recording
from ecgfed.domain.signal.detectors import OURS, Detector
from ecgfed.domain.signal.spans import Spans

#: Peaks at an end are noise if, in every lead, their amplitude is below this share of the upper quartile of QRS
#: amplitudes and below a limit in mV, and if there are at least so many in a row; fewer may be small beats. No beat is
#: removed from any single lead of MIT-BIH, SVDB and QTDB (decision 0067).
END_SHARE, MAX_MV, MIN_RUN = 0.20, 0.150, 3
#: Half width of the window around the R peak, and width of the moving average applied before measuring (s).
QRS_S, SMOOTH_S = 0.06, 0.02
#: Number of complexes for the upper quartile, spread over the recording; minimum number of beats to remove any.
MAX_MEASURED, MIN_BEATS = 200, 10
#: What a stretch without beats is called, how long it lasts at least (twice a pause), how far from the beats at its
#: ends its amplitude is measured, behind their T waves, and how far apart: windows of ``QRS_S`` overlap (s).
NO_BEATS, NO_BEATS_S, _BEAT_S, _LOOK_S = tr_later("no beats"), 6.0, 0.8, 0.1


def end_noise(recording: Recording, peaks: NDArray[np.int64], detector: Detector | None = None) -> NDArray[np.bool_]:
    """Return which peaks at the ends of a recording are noise, (peaks,) bool.

    Args:
        recording: the recording with the leads used for detection; leads that are not ECG are ignored.
        peaks: (peaks,) int64 increasing sample numbers of R peaks.
        detector: the detector, None for the default one; peaks of other detectors are never noise.
    """
    noise = np.zeros(len(peaks), np.bool_)
    if detector is not None and detector.name != OURS:
        return noise
    if (is_low := _low_amplitude_test(recording, peaks)) is None:
        return noise

    def leading_noise(samples: list[int]) -> int:
        """Return the number of noise peaks before the first other peak."""
        return next((number for number, sample in enumerate(samples) if not is_low(sample)), len(samples))

    first, last = leading_noise(peaks.tolist()), leading_noise(peaks[::-1].tolist())
    if first >= MIN_RUN:
        noise[:first] = True
    if last >= MIN_RUN:
        noise[len(peaks) - last :] = True
    return noise


def without_heartbeat(recording: Recording, peaks: NDArray[np.int64], at: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return where every lead is low compared with its QRS complexes, as in ``end_noise``, (samples,) bool.

    Args:
        recording: as in ``end_noise``.
        peaks: (peaks,) int64 increasing, samples of the QRS complexes.
        at: (samples,) int64, the samples to check.
    """
    is_low = _low_amplitude_test(recording, peaks)
    return np.array([is_low is not None and is_low(sample) for sample in at.tolist()], np.bool_)


def no_beats(recording: Recording, peaks: NDArray[np.int64], lost: Spans) -> RhythmEpisodes:
    """Return where a lead was recorded, no beat was detected, and every lead is low compared with its QRS complexes.

    Args:
        recording: as in ``end_noise``.
        peaks: (peaks,) int64 increasing, samples of the QRS complexes.
        lost: where the lead in use has no signal, or waves in which no beat can be told.
    """
    is_low = _low_amplitude_test(recording, peaks)
    if is_low is None:
        return RhythmEpisodes(NO_BEATS, ())
    least, step = round(NO_BEATS_S * recording.fs_hz), max(1, round(_LOOK_S * recording.fs_hz))
    edges = np.concatenate([[0], peaks, [recording.samples]])
    parts = []
    for number in np.flatnonzero(np.diff(edges) >= least).tolist():
        start, stop = int(edges[number]), int(edges[number + 1])
        inside = [(max(a, start), min(b, stop)) for a, b in lost if a < stop and b > start]
        bounds = [start, *(edge for part in inside for edge in part), stop]
        parts += [(a, b) for a, b in zip(bounds[::2], bounds[1::2], strict=True) if b - a >= least]
    margin = round(_BEAT_S * recording.fs_hz)
    found = [
        (start / recording.fs_hz, stop / recording.fs_hz)
        for start, stop in parts
        if all(is_low(at) for at in range(start + margin, stop - margin, step))
    ]
    return RhythmEpisodes(NO_BEATS, tuple(found))


def _low_amplitude_test(recording: Recording, peaks: NDArray[np.int64]) -> Callable[[int], bool] | None:
    """Return a test for low amplitude in every lead at a sample; None with too few QRS complexes to compare with."""
    if len(peaks) < MIN_BEATS:
        return None
    rows = [recording.leads.index(name) for name in ecg_alone(recording).leads]
    some = np.unique(np.linspace(0, len(peaks) - 1, min(len(peaks), MAX_MEASURED)).round().astype(np.int64))
    heights = np.array([_heights(recording, rows, at) for at in peaks[some].tolist()])
    threshold_mv = np.minimum(END_SHARE * np.quantile(heights, 0.75, axis=0), MAX_MV)
    return lambda at: bool((_heights(recording, rows, at) < threshold_mv).all())


def _heights(recording: Recording, rows: list[int], at: int) -> NDArray[np.float64]:
    """Return the peak-to-peak amplitude of each lead around an R peak, (leads,) mV; 0 if samples are missing."""
    half, width = max(1, round(QRS_S * recording.fs_hz)), max(1, round(SMOOTH_S * recording.fs_hz))
    signal = recording.read(max(at - half, 0), min(at + half + 1, recording.samples), rows).astype(np.float64)
    finite = np.isfinite(signal)
    signal = np.where(finite, signal, 0.0)
    if signal.shape[1] <= width:
        return np.zeros(len(rows))
    sums = np.cumsum(np.pad(signal, ((0, 0), (1, 0))), axis=1)
    smooth = (sums[:, width:] - sums[:, :-width]) / width
    return np.asarray(np.where(finite.all(axis=1), np.ptp(smooth, axis=1), 0.0))
