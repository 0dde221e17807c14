"""Windows around R peaks, cut from a recording a stretch after the other; where the stretches end changes no bit.

A window depends on the samples within a few seconds of it, apart from two things: a gap is bridged towards the next
valid sample, which is read for itself, and RR features look at the beats around: of version 1 at R peaks, which are all
known, of later versions at windows too, so they come through ``ContextStream``, and with some versions beats are given
some minutes late.
The filter's convolution begins its blocks where it would in the whole signal (``filters.convolved``), and the resampled
signal where one of its samples falls upon one of the recorder's.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecgfed.domain.beats.context_stream import ContextStream
from ecgfed.domain.beats.extract import NOT_RECORDED, Windows, beat_flags, hides_signal, no_windows, without_signal
from ecgfed.domain.beats.intervals import Edges, intervals_s
from ecgfed.domain.beats.rr import RR_DEFAULT
from ecgfed.domain.beats.windows import WINDOW_SAMPLES, rr_features, windows_of
from ecgfed.domain.record.checks import check_fs, check_millivolt
from ecgfed.domain.record.recording import Recording, prefetched, spans
from ecgfed.domain.signal.chunked_quality import gaps_of, lead_quality
from ecgfed.domain.signal.filters import BandPassed, Bridged
from ecgfed.domain.signal.quality import NO_SIGNAL, LeadQuality, Reason
from ecgfed.domain.signal.spans import Spans

#: How much is filtered at once, beside what the filters need around it.
CHUNK_S = 1200.0
#: Beats that their context is made for at once: as many again as a thousand are looked at around them.
_IN_CONTEXT = 4096


def windows_around(
    signal_mv: NDArray[np.floating],
    fs_hz: float,
    r_samples: NDArray[np.int64],
    quality: LeadQuality | None = None,
    *,
    rr_version: int = RR_DEFAULT,
    void: Edges = (),
) -> Windows:
    """Filter a signal and cut a window and RR features for each R peak.

    Args:
        signal_mv: (samples,) millivolt as recorded, NaN where there is no sample.
        fs_hz: its sampling frequency in Hz.
        r_samples: (beats,) int64 increasing positions of all R peaks in it.
        quality: the lead's bad stretches, where they are known already. They decide flags and which RR intervals are
            void, and change no window.
        rr_version: of the RR features (``ecgfed.domain.beats.rr``).
        void: stretches in samples across which no interval is known (``unmarked_spans``).

    Raises:
        RecordError: whole numbers, which are an amplifier's steps and not millivolt, or a frequency no ECG has.
    """
    if isinstance(signal_mv, np.ma.MaskedArray):  # what is masked was not recorded
        signal_mv = np.ma.filled(signal_mv.astype(np.float64), np.nan)
    check_millivolt(signal_mv, "signal")
    check_fs(fs_hz, "fs_hz", f"{fs_hz!r:.40}", "say the recording's own")
    signal = np.asarray(signal_mv, np.float64)
    recording = Recording("signal", Path("signal"), "signal", ("signal",), fs_hz, signal[None], ())
    quality = quality or lead_quality(signal, fs_hz)
    gaps = gaps_of(recording, "signal")
    blocks = windows_by_blocks(recording, quality, r_samples, rr_version=rr_version, void=void, gaps=gaps)
    return Windows.joined([no_windows(rr_version), *blocks])


def windows_by_blocks(
    recording: Recording,
    quality: LeadQuality,
    r_samples: NDArray[np.int64],
    keep: NDArray[np.int64] | None = None,
    *,
    rr_version: int = RR_DEFAULT,
    void: Edges = (),
    gaps: Spans | None = None,
    chunk_s: float = CHUNK_S,
) -> Iterator[Windows]:
    """Cut the windows of a recording's lead in use, a stretch of it after the other.

    Args:
        recording: the recording.
        quality: of the lead in use.
        r_samples: (beats,) int64 increasing positions of all R peaks.
        keep: numbers of the beats to cut, in order of time; all of them for None.
        rr_version: of the RR features (``ecgfed.domain.beats.rr``).
        void: stretches in samples across which no interval is known.
        gaps: where the lead has no valid sample, where ``quality`` does not say it.
        chunk_s: how much is filtered at once, in seconds.

    Yields:
        Windows of consecutive beats, in memory that does not grow with the recording; no empty ones.
    """
    keep = np.arange(len(r_samples)) if keep is None else keep
    bridged = Bridged(recording, recording.lead, quality.spans([Reason.GAP]) if gaps is None else gaps)
    lead = _Lead(BandPassed(bridged), recording.fs_hz, quality)
    if rr_version == 1:  # needs no window: what is not kept is not cut
        rr_s = rr_features(r_samples / recording.fs_hz)[keep]
        for part in _cut(lead, r_samples[keep], chunk_s, rr_version):
            rr = rr_s[part.first : part.first + len(part.flags)]
            yield Windows(part.window_mv, rr, part.flags, part.no_signal)
        return
    for first, windows in _in_context(lead, r_samples, void, chunk_s, rr_version):
        low, high = np.searchsorted(keep, [first, first + len(windows.flags)])
        if low < high:
            yield windows.chosen(keep[low:high] - first)


class _Lead(NamedTuple):
    """A recording's lead in use through the band-pass, and its quality."""

    filtered: BandPassed
    fs_hz: float
    quality: LeadQuality


class _Part(NamedTuple):
    """Windows of consecutive beats: number of the first, beside them, flags, which hide and which show no signal."""

    first: int
    window_mv: NDArray[np.float32]
    beside_mv: NDArray[np.float32]
    flags: NDArray[np.uint8]
    hides: NDArray[np.bool_]
    no_signal: NDArray[np.bool_]


def _cut(lead: _Lead, r_samples: NDArray[np.int64], chunk_s: float, rr_version: int) -> Iterator[_Part]:
    """Cut the windows of some beats, a stretch of the recording after the other; nothing where it has none."""
    fs_hz, quality = lead.fs_hz, lead.quality
    bad, lost = quality.spans(), quality.spans(NO_SIGNAL)
    unrecorded, rail = quality.spans(NOT_RECORDED), quality.spans([Reason.RAIL])
    inside = np.clip(r_samples, 0, len(lead.filtered) - 1)
    for start, stop in spans(len(lead.filtered), max(1, round(chunk_s * fs_hz))):
        first, last = np.searchsorted(inside, [start, stop]).tolist()
        if first < last:
            at = r_samples[first:last]
            window_mv, padded, beside_mv = windows_of(lead.filtered, fs_hz, at, strip=rr_version == 3)
            flags, hides = beat_flags(padded, fs_hz, at, bad), hides_signal(padded, fs_hz, at, lost)
            silent = without_signal(window_mv, fs_hz, at, unrecorded, rail=rail)
            yield _Part(first, window_mv, beside_mv, flags, hides, silent)


def _in_context(
    lead: _Lead, r_samples: NDArray[np.int64], void: Edges, chunk_s: float, rr_version: int
) -> Iterator[tuple[int, Windows]]:
    """Yield the number of the first of some consecutive beats and the beats, of all beats, once they are decided."""
    stream = ContextStream(rr_version)
    before_s = intervals_s(r_samples, lead.fs_hz, lead.quality.spans(NO_SIGNAL), void)[:-1]
    window_mv, flags = np.empty((0, 1, WINDOW_SAMPLES), np.float32), np.empty(0, np.uint8)
    no_signal = np.empty(0, np.bool_)
    next_beat = 0  # what is held begins with the beat of this number
    for parts in _gathered(prefetched(_cut(lead, r_samples, chunk_s, rr_version)), _IN_CONTEXT):
        fresh = np.concatenate([part.window_mv for part in parts])
        hides = np.concatenate([part.hides for part in parts])
        beside_mv = np.concatenate([part.beside_mv for part in parts])
        rr = stream.push(before_s[parts[0].first : parts[0].first + len(fresh)], fresh, ~hides, beside_mv)
        window_mv = np.concatenate([window_mv, fresh])
        flags = np.concatenate([flags, *(part.flags for part in parts)])
        no_signal = np.concatenate([no_signal, *(part.no_signal for part in parts)])
        if len(rr):
            yield next_beat, Windows(window_mv[: len(rr)], rr, flags[: len(rr)], no_signal[: len(rr)])
            window_mv, flags, next_beat = window_mv[len(rr) :].copy(), flags[len(rr) :], next_beat + len(rr)
            no_signal = no_signal[len(rr) :]
    if len(flags):
        yield next_beat, Windows(window_mv, stream.finish(), flags, no_signal)


def _gathered(parts: Iterator[_Part], beats: int) -> Iterator[list[_Part]]:
    """Yield consecutive parts together that hold so many beats or more; the last ones may hold fewer."""
    pending: list[_Part] = []
    for part in parts:
        pending.append(part)
        if sum(len(pending_part.flags) for pending_part in pending) >= beats:
            yield pending
            pending = []
    if pending:
        yield pending
