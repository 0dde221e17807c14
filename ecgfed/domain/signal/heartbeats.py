"""Beats before the first and after the last QRS complex of a recording: noise of an electrode that is not on yet, or is
off. The detector, which reads a recording as a stream, cannot know at its beginning how high the QRS complexes will be.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ecgfed.domain.record.reader import ecg_alone
from ecgfed.domain.record.recording import AnyRecording
from ecgfed.domain.signal.detectors import OURS, Detector

#: A beat at an end is noise when in every lead it is lower than this share of the upper quartile of the lead's QRS
#: complexes, and than so many mV; not one or two of them, which may be small beats. Of the leads of MIT-BIH, SVDB and
#: QTDB, each by itself, it removes no beat (decision 0067).
END_SHARE, MAX_MV, MIN_RUN = 0.20, 0.150, 3
#: A complex is measured this far around its R peak, after a moving average that takes out what is faster (s).
QRS_S, SMOOTH_S = 0.06, 0.02
#: Complexes that the upper quartile is of, spread over the recording; with fewer beats nothing is removed.
MAX_MEASURED, MIN_BEATS = 200, 10


def end_noise(recording: AnyRecording, peaks: NDArray[np.int64], detector: Detector | None = None) -> NDArray[np.bool_]:
    """Say which peaks at both ends of a recording are noise, (peaks,) bool.

    Args:
        recording: with the leads that beats were looked for in; those that are no ECG are not asked.
        peaks: (peaks,) int64 increasing sample numbers of R peaks.
        detector: who found them, None for ours: what another one finds is left as it is.
    """
    noise = np.zeros(len(peaks), np.bool_)
    if detector is not None and detector.name != OURS:
        return noise
    if (is_low := _low_amplitude_test(recording, peaks)) is None:
        return noise

    def leading_noise(samples: list[int]) -> int:
        """Return how many of the peaks are noise before the first that is none."""
        return next((number for number, sample in enumerate(samples) if not is_low(sample)), len(samples))

    first, last = leading_noise(peaks.tolist()), leading_noise(peaks[::-1].tolist())
    if first >= MIN_RUN:
        noise[:first] = True
    if last >= MIN_RUN:
        noise[len(peaks) - last :] = True
    return noise


def without_heartbeat(recording: AnyRecording, peaks: NDArray[np.int64], at: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Say at which samples no lead shows a wave as high as its QRS complexes, (samples,) bool, as ``end_noise`` does.

    Args:
        recording: as of ``end_noise``.
        peaks: see there: where the QRS complexes are.
        at: (samples,) int64 the samples to look at.
    """
    is_low = _low_amplitude_test(recording, peaks)
    return np.array([is_low is not None and is_low(sample) for sample in at.tolist()], np.bool_)


def _low_amplitude_test(recording: AnyRecording, peaks: NDArray[np.int64]) -> Callable[[int], bool] | None:
    """Return what says that every lead is low at a sample; None where there are too few QRS complexes to compare."""
    if len(peaks) < MIN_BEATS:
        return None
    rows = [recording.leads.index(name) for name in ecg_alone(recording).leads]
    some = np.unique(np.linspace(0, len(peaks) - 1, min(len(peaks), MAX_MEASURED)).round().astype(np.int64))
    heights = np.array([_heights(recording, rows, at) for at in peaks[some].tolist()])
    threshold_mv = np.minimum(END_SHARE * np.quantile(heights, 0.75, axis=0), MAX_MV)
    return lambda at: bool((_heights(recording, rows, at) < threshold_mv).all())


def _heights(recording: AnyRecording, rows: list[int], at: int) -> NDArray[np.float64]:
    """Return how far each lead goes around an R peak, (leads,) mV, 0 where it has no sample there."""
    half, width = max(1, round(QRS_S * recording.fs_hz)), max(1, round(SMOOTH_S * recording.fs_hz))
    signal = recording.read(max(at - half, 0), min(at + half + 1, recording.samples), rows).astype(np.float64)
    finite = np.isfinite(signal)
    signal = np.where(finite, signal, 0.0)
    if signal.shape[1] <= width:
        return np.zeros(len(rows))
    sums = np.cumsum(np.pad(signal, ((0, 0), (1, 0))), axis=1)
    smooth = (sums[:, width:] - sums[:, :-width]) / width
    return np.asarray(np.where(finite.all(axis=1), np.ptp(smooth, axis=1), 0.0))
