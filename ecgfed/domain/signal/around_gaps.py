"""R peaks of a recording with bad stretches: found on both sides of each, never across it."""

import numpy as np
from numpy.typing import NDArray

from ecgfed.base.errors import RecordError
from ecgfed.domain.signal.chunked_quality import lead_quality
from ecgfed.domain.signal.detectors import MIN_DURATION_S, OURS, Detector, detect_r_peaks, detector_by_name
from ecgfed.domain.signal.quality import NO_SIGNAL, LeadQuality, Reason, runs

#: A stretch without signal that lasts this long parts the lead in two; a shorter one is bridged, so that a detector
#: need not learn the beats anew after each spike.
SPLIT_S = 1.0


def usable_pieces(quality: LeadQuality) -> tuple[list[tuple[int, int]], NDArray[np.bool_]]:
    """Part a lead at its long stretches without signal.

    Returns:
        Start and stop of the pieces that are long enough to find beats in, and (samples,) bool, true where there is
        no signal, in the short stretches too.
    """
    lost = quality.bad(NO_SIGNAL)
    separating = np.zeros_like(lost)
    for start, stop in runs(lost):
        separating[start:stop] = stop - start >= SPLIT_S * quality.fs_hz
    pieces = [(a, b) for a, b in runs(~separating) if b - a >= MIN_DURATION_S * quality.fs_hz]
    return pieces, lost


def detect_around_gaps(
    signals_mv: NDArray[np.floating],
    fs_hz: float,
    quality: LeadQuality | None = None,
    *,
    lead: int = 0,
    detector: str | Detector = OURS,
    mains_hz: float | None = None,
    name: str = "signal",
) -> NDArray[np.int64]:
    """Find the R peaks of a recording, with detectors that do not know of gaps piece by piece.

    Args:
        signals_mv: (samples,) or (leads, samples) millivolt as recorded, NaN where there is no sample.
        fs_hz: sampling frequency in Hz.
        quality: bad stretches of the lead in use, where they are known already.
        lead: the lead in use.
        detector: a registered name, or a ``Detector``. Ours copes with gaps itself, and goes on with another lead
            where it has one; the others see pieces of the lead in use without gaps, rail or spikes.
        mains_hz: 50 or 60, as ``detect_r_peaks`` takes it.
        name: what to call the signal in an error.

    Returns:
        (peaks,) int64 sample numbers in increasing order; a spike of the lead in use is none.

    Raises:
        OptionError: unknown detector, other mains.
        RecordError: no beat in any piece, or no piece long enough.
    """
    chosen = detector_by_name(detector)
    signals = np.atleast_2d(np.asarray(signals_mv, dtype=np.float64))
    quality = quality or lead_quality(signals[lead], fs_hz)
    pieces, lost = usable_pieces(quality)
    if chosen.copes_with_gaps or not lost.any():
        try:
            peaks = detect_r_peaks(signals, fs_hz, lead=lead, detector=chosen, mains_hz=mains_hz, name=name)
            return peaks[~quality.bad([Reason.SPIKE])[peaks]]
        except RecordError:
            if pieces or len(signals) > 1 or not quality.stretches:
                raise
    signals = signals.copy()
    signals[lead, lost] = np.nan
    peaks_of_pieces, problem = [], None
    for start, stop in pieces:
        piece = signals[:, start:stop]
        try:
            peaks = detect_r_peaks(piece, fs_hz, lead=lead, detector=chosen, mains_hz=mains_hz, name=name)
            peaks_of_pieces.append(start + peaks)
        except RecordError as error:  # no beat in this piece; there may be some in another
            problem = error
    peaks = np.concatenate(peaks_of_pieces) if peaks_of_pieces else np.empty(0, np.int64)
    peaks = peaks[~lost[peaks]]
    if len(peaks):
        return peaks
    if problem is not None:
        raise problem
    raise nothing_usable(quality, name)


def nothing_usable(quality: LeadQuality, name: str) -> RecordError:
    """Return the error of a lead without three seconds at a stretch."""
    reasons = ", ".join(f"{reason} {total:.1f} s" for reason, total in quality.seconds().items())
    return RecordError(
        name,
        f"has no usable {MIN_DURATION_S:g} s at a stretch ({reasons} of {quality.samples / quality.fs_hz:.1f} s)",
        "an ECG",
        "check the electrode or the lead",
    )
