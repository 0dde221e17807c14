"""R peaks of a recording, in memory or on the disk: ``around_gaps``, by blocks where the detector is a stream."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from ecgfed.base.errors import RecordError
from ecgfed.domain.record.recording import Recording, spans
from ecgfed.domain.signal.around_gaps import detect_around_gaps, nothing_usable, usable_pieces
from ecgfed.domain.signal.chunked_quality import quality_of, spikes_of
from ecgfed.domain.signal.detectors import (
    OURS,
    Detector,
    Stream,
    check_input,
    check_mains,
    check_peaks,
    detector_by_name,
)
from ecgfed.domain.signal.quality import LeadQuality, Reason
from ecgfed.domain.signal.spans import Spans
from ecgfed.domain.signal.two_streams import peaks_of_stream

#: How much a detector is given at once. Threads hand Python's lock over at every array operation: with a fifth of this
#: they wait for each other for a third of the time; with twice as much memory grows and little is won.
PUSH_S = 600.0
#: A progress callback, called with the number of samples read.
OnSamples = Callable[[int], None]


def find_peaks(
    recording: Recording,
    quality: LeadQuality | None = None,
    *,
    detector: str | Detector = OURS,
    mains_hz: float | None = None,
    on_samples: OnSamples | None = None,
    pending_quality: Future[LeadQuality] | None = None,
) -> NDArray[np.int64]:
    """Find the R peaks of a recording, as ``detect_around_gaps`` does.

    One on the disk goes through a detector that is a stream (``Detector.stream``) by blocks, in two threads where the
    detector can begin in the middle (``two_streams``), while another looks for its spikes; any other detector needs it
    whole.

    Args:
        recording: with the leads that the detector is to see.
        quality: bad stretches of the lead in use, where they are known already.
        detector: a registered name, or a ``Detector``.
        mains_hz: 50 or 60, the mains' frequency where it was recorded; None is 60.
        on_samples: called after each block.
        pending_quality: bad stretches of the lead in use, where somebody else is at work on them.

    Returns:
        (peaks,) int64 sample numbers in increasing order.

    Raises:
        OptionError: unknown detector, other mains.
        RecordError: no beat, or nothing that is long enough to find one in.
    """
    chosen, name = detector_by_name(detector), f"{recording.path} lead {recording.lead}"
    if not recording.is_lazy or chosen.stream is None or not chosen.copes_with_gaps:
        lead = recording.leads.index(recording.lead)
        return detect_around_gaps(
            recording.signals_mv, recording.fs_hz, quality, lead=lead, detector=chosen, mains_hz=mains_hz, name=name
        )
    check_mains(mains_hz)
    with ThreadPoolExecutor(1) as pool:

        def judged() -> LeadQuality:
            return quality or (pending_quality.result() if pending_quality else quality_of(recording, recording.lead))

        alone = quality is None and pending_quality is None  # nobody needs more of the quality than its spikes
        spikes = pool.submit(spikes_of, recording, recording.lead) if alone else None
        try:
            peaks = _streamed(recording, chosen, name, on_samples)
        except RecordError:
            quality_known = judged()
            if len(recording.leads) > 1 or not quality_known.stretches or usable_pieces(quality_known)[0]:
                raise
            raise nothing_usable(quality_known, name) from None
        spike_spans = Spans.merged(spikes.result()) if spikes else judged().spans([Reason.SPIKE])
        return peaks[~spike_spans.inside(peaks)]


def _streamed(recording: Recording, detector: Detector, name: str, on_samples: OnSamples | None) -> NDArray[np.int64]:
    check_input(detector, recording.samples, recording.fs_hz, name)
    lead = recording.leads.index(recording.lead)
    rows = range(len(recording.leads)) if detector.every_lead else [lead]
    changing = _Change(len(rows))

    def stream() -> Stream:
        return _stream(detector, recording.fs_hz, len(rows), lead if detector.every_lead else 0)

    def read(start: int, stop: int) -> NDArray[np.float64]:
        block = recording.read(start, stop, rows)
        changing.look_at(block)
        return block

    blocks = list(spans(recording.samples, round(PUSH_S * recording.fs_hz)))
    peaks = peaks_of_stream(stream, read, blocks, recording.fs_hz, on_samples or (lambda samples: None))
    return check_peaks(detector, np.concatenate(peaks), recording.samples, name, changes=changing.found)


def _stream(detector: Detector, fs_hz: float, leads: int, lead: int) -> Stream:
    if detector.stream is None:
        raise ValueError(f"{detector.name} is no stream")
    return detector.stream(fs_hz, leads, lead)


class _Change:
    """Whether any lead has valid samples that differ by a microvolt or more; several threads may look."""

    def __init__(self, leads: int) -> None:
        self.low, self.high, self.found = np.full(leads, np.inf), np.full(leads, -np.inf), False
        self.one_at_a_time = Lock()

    def look_at(self, block: NDArray[np.float64]) -> None:
        """Take (leads, samples) millivolt in, NaN where there is no sample."""
        if self.found:
            return
        valid = np.isfinite(block)
        low = np.min(block, axis=1, where=valid, initial=np.inf)
        high = np.max(block, axis=1, where=valid, initial=-np.inf)
        with self.one_at_a_time:
            self.low, self.high = np.minimum(self.low, low), np.maximum(self.high, high)
            known = self.high >= self.low
            self.found |= bool((self.high[known] - self.low[known] >= 1e-3).any())
