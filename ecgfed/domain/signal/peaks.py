"""R peaks of a recording: by blocks where the detector is a stream, else of the whole, on both sides of each gap."""

from collections.abc import Callable
from concurrent.futures import Future
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ecgfed.base.errors import RecordError
from ecgfed.domain.record.recording import ReadingPool, Recording, prefetched, spans
from ecgfed.domain.signal.chunked_quality import quality_of, spikes_of
from ecgfed.domain.signal.detectors import (
    MIN_DURATION_S,
    OURS,
    Detector,
    check_input,
    check_mains,
    check_peaks,
    detect_r_peaks,
    detector_by_name,
)
from ecgfed.domain.signal.quality import NO_SIGNAL, LeadQuality, Reason, runs
from ecgfed.domain.signal.spans import Spans

#: A stretch without signal that lasts this long parts the lead in two; a shorter one is bridged, so that a detector
#: need not learn the beats anew after each spike.
SPLIT_S = 1.0
#: How much a detector is given at once. Threads hand Python's lock over at every array operation: with a fifth of this
#: they wait for each other for a third of the time; with twice as much memory grows and little is won.
PUSH_S = 600.0
#: A progress callback, called with the number of samples read.
OnSamples = Callable[[int], None]


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
    """Find the R peaks of signals, as ``find_peaks`` does.

    Args:
        signals_mv: (samples,) or (leads, samples) millivolt as recorded, NaN where there is no sample.
        fs_hz: sampling frequency in Hz.
        quality: bad stretches of the lead in use, where they are known already.
        lead: the lead in use.
        detector: a registered name, or a ``Detector``.
        mains_hz: 50 or 60, as ``detect_r_peaks`` takes it.
        name: what to call the signal in an error.

    Returns:
        (peaks,) int64 sample numbers in increasing order; a spike of the lead in use is none.

    Raises:
        OptionError: unknown detector, other mains.
        RecordError: no beat in any piece, or no piece long enough.
    """
    signals = np.atleast_2d(np.asarray(signals_mv, dtype=np.float64))
    leads = tuple(str(row) for row in range(len(signals)))
    recording = Recording(name, Path(name), leads[lead], leads, fs_hz, signals, ())
    return find_peaks(recording, quality, detector=detector, mains_hz=mains_hz, name=name)


def find_peaks(
    recording: Recording,
    quality: LeadQuality | Future[LeadQuality] | None = None,
    *,
    detector: str | Detector = OURS,
    mains_hz: float | None = None,
    on_samples: OnSamples | None = None,
    name: str = "",
) -> NDArray[np.int64]:
    """Find the R peaks of a recording.

    A detector that is a stream and copes with gaps (``Detector.stream``; ours, which goes on with another lead where it
    has one) takes it by blocks. Any other needs it whole, and sees pieces of the lead in use without gaps, rail or
    spikes unless it copes with gaps itself.

    Args:
        recording: with the leads that the detector is to see.
        quality: bad stretches of the lead in use, where they are known or somebody else is at work on them.
        detector: a registered name, or a ``Detector``.
        mains_hz: 50 or 60, the mains' frequency where it was recorded; None is 60.
        on_samples: called after each block.
        name: what to call the recording in an error; its path and lead by default.

    Returns:
        (peaks,) int64 sample numbers in increasing order; a spike of the lead in use is none.

    Raises:
        OptionError: unknown detector, other mains.
        RecordError: no beat, or nothing that is long enough to find one in.
    """
    chosen, name = detector_by_name(detector), name or f"{recording.path} lead {recording.lead}"
    check_mains(mains_hz)

    @cache
    def known() -> LeadQuality:
        return quality.result() if isinstance(quality, Future) else quality or quality_of(recording, recording.lead)

    def detect() -> NDArray[np.int64]:
        if chosen.stream is not None and chosen.copes_with_gaps:
            return _streamed(recording, chosen, name, on_samples)
        lead = recording.leads.index(recording.lead)
        signals = recording.signals_mv
        return detect_r_peaks(signals, recording.fs_hz, lead=lead, detector=chosen, mains_hz=mains_hz, name=name)

    if not chosen.copes_with_gaps and known().spans(NO_SIGNAL).total:
        return _by_pieces(recording, known(), chosen, mains_hz, name)
    with ReadingPool(1) as pool:
        # where nobody needs more of the quality than its spikes
        spikes = pool.submit(spikes_of, recording, recording.lead) if quality is None else None
        try:
            peaks = detect()
        except RecordError:
            if len(recording.leads) > 1 or not known().stretches or usable_pieces(known())[0]:
                raise
            raise _nothing_usable(known(), name) from None
        spike_spans = Spans.merged(spikes.result()) if spikes else known().spans([Reason.SPIKE])
        return peaks[~spike_spans.inside(peaks)]


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


def _by_pieces(
    recording: Recording, quality: LeadQuality, detector: Detector, mains_hz: float | None, name: str
) -> NDArray[np.int64]:
    """Return the peaks of each piece of a lead that has stretches without signal."""
    pieces, lost = usable_pieces(quality)
    lead = recording.leads.index(recording.lead)
    signals = recording.signals_mv.copy()
    signals[lead, lost] = np.nan
    peaks_of_pieces, problem = [np.empty(0, np.int64)], None
    for start, stop in pieces:
        piece = signals[:, start:stop]
        try:
            peaks = detect_r_peaks(piece, recording.fs_hz, lead=lead, detector=detector, mains_hz=mains_hz, name=name)
            peaks_of_pieces.append(start + peaks)
        except RecordError as error:  # no beat in this piece; there may be some in another
            problem = error
    peaks = np.concatenate(peaks_of_pieces)
    peaks = peaks[~lost[peaks]]
    if len(peaks):
        return peaks
    raise problem or _nothing_usable(quality, name)


def _nothing_usable(quality: LeadQuality, name: str) -> RecordError:
    """Return the error of a lead without three seconds at a stretch."""
    reasons = ", ".join(f"{reason} {total:.1f} s" for reason, total in quality.seconds().items())
    return RecordError(
        name,
        f"has no usable {MIN_DURATION_S:g} s at a stretch ({reasons} of {quality.samples / quality.fs_hz:.1f} s)",
        "an ECG",
        "check the electrode or the lead",
    )


def _streamed(recording: Recording, detector: Detector, name: str, on_samples: OnSamples | None) -> NDArray[np.int64]:
    """Return the peaks that a stream finds; another thread reads the next block meanwhile."""
    check_input(detector, recording.samples, recording.fs_hz, name)
    if detector.stream is None:
        raise ValueError(f"{detector.name} is no stream")
    lead = recording.leads.index(recording.lead)
    rows = range(len(recording.leads)) if detector.every_lead else [lead]
    stream = detector.stream(recording.fs_hz, len(rows), lead if detector.every_lead else 0)
    lows, highs, peaks = [], [], []
    edges = spans(recording.samples, round(PUSH_S * recording.fs_hz))
    for stop, block in prefetched((stop, recording.read(start, stop, rows)) for start, stop in edges):
        valid = np.isfinite(block)
        lows.append(np.min(block, axis=1, where=valid, initial=np.inf))
        highs.append(np.max(block, axis=1, where=valid, initial=-np.inf))
        peaks.append(stream.push(block))
        if on_samples:
            on_samples(stop)
    peaks.append(stream.finish())
    # by a microvolt or more, on any lead
    changes = bool((np.max(highs, axis=0) - np.min(lows, axis=0) >= 1e-3).any())
    return check_peaks(detector, np.concatenate(peaks), recording.samples, name, changes=changes)
