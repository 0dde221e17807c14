"""R peaks of a recording with bad stretches: found on both sides of each, never across it."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ecgfed.errors import RecordError
from ecgfed.signal.detectors import MIN_DURATION_S, OURS, Detector, detect_r_peaks, detector_by_name
from ecgfed.signal.quality import FLAT_MV, NO_SIGNAL, LeadQuality, Reason, lead_quality, runs

#: A stretch without signal that lasts this long parts the lead in two; a shorter one is bridged, so that a detector
#: need not learn the beats anew after each spike.
SPLIT_S = 1.0
#: A step is looked for so near the edge of a flat line or a rail (s), against the levels within so long on both sides;
#: the two differ by at least this share of its height.
STEP_NEAR_S, STEP_LEVEL_S, STEP_SHARE = 0.1, 0.3, 0.5
_STILL = frozenset({Reason.FLAT, Reason.RAIL})
#: (start, stop) -> (leads, samples) millivolt.
Read = Callable[[int, int], NDArray[np.float64]]


def usable_pieces(quality: LeadQuality) -> tuple[list[tuple[int, int]], NDArray[np.bool_]]:
    """Part a lead at its long stretches without signal.

    Returns:
        Start and stop of the pieces that are long enough to find beats in, and (samples,) bool, true where there is
        no signal, in the short stretches too.
    """
    lost = quality.bad(NO_SIGNAL)
    apart = np.zeros_like(lost)
    for start, stop in runs(lost):
        apart[start:stop] = stop - start >= SPLIT_S * quality.fs_hz
    pieces = [(a, b) for a, b in runs(~apart) if b - a >= MIN_DURATION_S * quality.fs_hz]
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
        (peaks,) int64 sample numbers in increasing order; a spike of the lead in use is none, nor a step into or out of
        a flat line or a rail.

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
            return plausible(lambda start, stop: signals[:, start:stop], peaks, quality, lead=lead)
        except RecordError:
            if pieces or len(signals) > 1 or not quality.stretches:
                raise
    signals = signals.copy()
    signals[lead, lost] = np.nan
    found, problem = [], None
    for start, stop in pieces:
        piece = signals[:, start:stop]
        try:
            peaks = detect_r_peaks(piece, fs_hz, lead=lead, detector=chosen, mains_hz=mains_hz, name=name)
            found.append(start + peaks)
        except RecordError as error:  # no beat in this piece; there may be some in another
            problem = error
    peaks = np.concatenate(found) if found else np.empty(0, np.int64)
    peaks = peaks[~lost[peaks]]
    if len(peaks):
        return peaks
    if problem is not None:
        raise problem
    raise nothing_usable(quality, name)


def plausible(read: Read, peaks: NDArray[np.int64], quality: LeadQuality, *, lead: int) -> NDArray[np.int64]:
    """Return the peaks that lie in no spike and on no step into or out of a flat line or a rail.

    A beat returns to where it came from; a step ends at another level, and no lead moves behind it.

    Args:
        read: returns (leads, samples) millivolt from one sample to another.
        peaks: (peaks,) int64 increasing.
        quality: of the lead in use.
        lead: the lead in use.
    """
    peaks = peaks[~quality.spans([Reason.SPIKE]).inside(peaks)]
    still = [part for part in quality.stretches if part.reason in _STILL]
    keep = np.ones(len(peaks), np.bool_)
    near, around = round(STEP_NEAR_S * quality.fs_hz), round(STEP_LEVEL_S * quality.fs_hz)
    for part in still:
        if part.stop - part.start < around:
            continue
        for edge, moving in ((part.start, slice(0, around - near)), (part.stop, slice(around + near, None))):
            low, high = np.searchsorted(peaks, [edge - near, edge + near + 1])
            if low == high or not around <= edge <= quality.samples - around:
                continue
            signals = read(edge - around, edge + around)
            quiet = signals[:, around + near :] if edge == part.start else signals[:, : around - near]
            if (np.nanmax(quiet, axis=1, initial=-np.inf) - np.nanmin(quiet, axis=1, initial=np.inf) > FLAT_MV).any():
                continue  # another lead goes on
            rest, level = np.nanmedian(signals[lead, moving]), np.nanmedian(quiet[lead])
            for number in range(int(low), int(high)):
                top = signals[lead, int(peaks[number]) - edge + around]
                keep[number] &= not abs(level - rest) >= STEP_SHARE * abs(top - rest)
    return peaks[keep]


def nothing_usable(quality: LeadQuality, name: str) -> RecordError:
    """Return the error of a lead without three seconds at a stretch."""
    amiss = ", ".join(f"{reason} {total:.1f} s" for reason, total in quality.seconds().items())
    return RecordError(
        name,
        f"has no usable {MIN_DURATION_S:g} s at a stretch ({amiss} of {quality.samples / quality.fs_hz:.1f} s)",
        "an ECG",
        "check the electrode or the lead",
    )
