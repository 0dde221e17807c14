"""The samples a report shows: stretches of the leads through the band-pass, in short form; average beats."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecgfed.domain.events.beats import Beats
from ecgfed.domain.events.rhythm import At
from ecgfed.domain.record.recording import AnyRecording
from ecgfed.domain.signal.filters import band_pass_taps
from ecgfed.domain.signal.long_filter import Bridged
from ecgfed.domain.signal.quality import LeadQuality, Reason
from ecgfed.web.samples import packed

#: Leads on a strip.
MOST_LEADS = 3
#: After the band-pass, which ends at 40 Hz, samples are thinned to no fewer than this.
_LEAST_HZ = 250.0
#: Beats that are averaged of each class, spread over the recording.
AVERAGED = 150
BEFORE_S, AFTER_S = 0.3, 0.5
#: A lead moves in a long interval when it goes so far of the way it goes in a beat, past the T wave of the beat before.
_MOVES, _AFTER_T_S, _BEFORE_QRS_S, _QRS_S, _NEIGHBOURS = 0.6, 0.45, 0.12, 0.1, 10
#: Fewer beats have no band.
_BAND_FROM = 10

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ShownLeads:
    """The leads of a recording that are shown, the one in use first.

    Attributes:
        recording: it.
        names: the leads.
        quality: of each.
        step: every so many samples one is kept.
    """

    recording: AnyRecording
    names: tuple[str, ...]
    quality: Mapping[str, LeadQuality]
    step: int

    @classmethod
    def of(cls, recording: AnyRecording, quality: Mapping[str, LeadQuality]) -> "ShownLeads":
        """Return the lead in use and as many others as a strip has room for."""
        others = [name for name in recording.leads if name != recording.lead]
        names = (recording.lead, *others)[:MOST_LEADS]
        return cls(recording, names, quality, max(1, int(recording.fs_hz // _LEAST_HZ)))

    @property
    def fs_hz(self) -> float:
        """Sampling frequency of what is shown."""
        return self.recording.fs_hz / self.step

    def read(self, name: str, start: int, stop: int) -> Floats:
        """Return samples ``start`` to ``stop`` of a lead through the band-pass, millivolt, NaN where none was recorded.

        Each value is what the filter makes of the 2 s on both sides, as in the whole recording.
        """
        from scipy.signal import fftconvolve

        taps = band_pass_taps(self.recording.fs_hz)
        half, samples = len(taps) // 2, self.recording.samples
        start, stop = max(start, 0), min(stop, samples)
        if stop <= start:
            return np.empty(0)
        gaps = self.quality[name].spans([Reason.GAP])
        low, high = max(start - half, 0), min(stop + half, samples)
        part = Bridged(self.recording, name, gaps).read(low, high)
        part = np.pad(part, (half - (start - low), half - (high - stop)), mode="edge")
        filtered: Floats = np.asarray(fftconvolve(part, taps, mode="valid"))
        filtered[gaps.mask(start, stop)] = np.nan
        return filtered

    def strip(self, start_s: float, seconds: float) -> list[dict[str, Any]]:
        """Return the leads from a moment on, as ``paper.js`` takes them, their names left out."""
        first = round(start_s * self.recording.fs_hz)
        stop = first + round(seconds * self.recording.fs_hz)
        return [{"samples": packed(self.read(name, first, stop)[:: self.step])} for name in self.names]


def average_beats(leads: ShownLeads, beats: Beats) -> dict[int, tuple[list[dict[str, Any]], int]]:
    """Return for each class with beats the leads of its average beat, and how many beats were averaged.

    At most ``AVERAGED`` beats of a class, evenly spread, none within 0.5 s of an end, none whose stretch is unusable.
    """
    fs_hz = leads.recording.fs_hz
    before, after = round(BEFORE_S * fs_hz), round(AFTER_S * fs_hz)
    room = (beats.sample >= before) & (beats.sample + after < leads.recording.samples)
    clean = ~leads.quality[leads.names[0]].spans().overlap(beats.sample - before, beats.sample + after)
    found = {}
    for number in range(len(beats.classes)):
        of_class = np.flatnonzero((beats.label == number) & room & clean & beats.assessed)
        if not len(of_class):
            continue
        spread = of_class[np.unique(np.linspace(0, len(of_class) - 1, min(len(of_class), AVERAGED)).astype(np.int64))]
        found[number] = (
            [_averaged(leads, name, beats.sample[spread], before, after) for name in leads.names],
            len(spread),
        )
    return found


def _averaged(leads: ShownLeads, name: str, samples: NDArray[np.int64], before: int, after: int) -> dict[str, Any]:
    """Return the mean of a lead around some samples, and the band of its middle 80% where there are enough of them."""
    pieces = np.stack([leads.read(name, at - before, at + after + 1)[:: leads.step] for at in samples.tolist()])
    pieces = pieces[np.isfinite(pieces).all(axis=1)]
    if not len(pieces):
        return {"samples": packed(np.full(len(range(0, before + after + 1, leads.step)), np.nan))}
    lead: dict[str, Any] = {"samples": packed(pieces.mean(axis=0))}
    if len(pieces) >= _BAND_FROM:
        low, high = np.percentile(pieces, (10, 90), axis=0)
        lead |= {"low": packed(low), "high": packed(high)}
    return lead


def moving_leads(leads: ShownLeads, r_samples: NDArray[np.int64], interval: At) -> list[str]:
    """Name the other leads that move within an interval between two beats as they do in the beats around it.

    A lead that falls off looks like a pause; what another one shows meanwhile tells. Its own noise does too.

    Args:
        leads: those that are shown, the one that was read first.
        r_samples: (beats,) int64 R peaks.
        interval: from one beat to the next.
    """
    fs_hz = leads.recording.fs_hz
    start, stop = round((interval.start_s + _AFTER_T_S) * fs_hz), round((interval.stop_s - _BEFORE_QRS_S) * fs_hz)
    at = int(np.searchsorted(r_samples, round(interval.start_s * fs_hz)))
    around = r_samples[max(0, at - _NEIGHBOURS) : at + _NEIGHBOURS].tolist()
    half = round(_QRS_S * fs_hz)
    found = []
    for name in leads.names[1:]:
        heights = [_height(leads.read(name, one - half, one + half)) for one in around]
        if stop > start and _height(leads.read(name, start, stop)) >= _MOVES * float(np.median(heights)) > 0:
            found.append(name)
    return found


def _height(signal_mv: Floats) -> float:
    """Return from the lowest to the highest value, 0 where there is none."""
    there = signal_mv[np.isfinite(signal_mv)]
    return float(np.ptp(there)) if len(there) else 0.0


def strip_bytes(leads: ShownLeads, seconds: float) -> float:
    """Return about how many bytes a strip takes in the page."""
    return len(leads.names) * leads.fs_hz * seconds * 2 * 4 / 3 + 400


def bin_width(duration_s: float, widths: Sequence[float], most: int) -> float:
    """Return the smallest width by which a recording has at most so many stretches, the largest where none does."""
    return next((width for width in widths if duration_s / width <= most), widths[-1])
