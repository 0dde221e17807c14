"""The signals of a report: band-passed parts of the leads in compact form, and average beats."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecgfed.base.language import translated
from ecgfed.domain.events.beats import Beats
from ecgfed.domain.events.rhythm import At
from ecgfed.domain.record.recording import Recording
from ecgfed.domain.record.twelve_leads import STANDARD_LEADS, TwelveLeads, twelve_leads
from ecgfed.domain.signal.filters import Bridged, band_pass_taps
from ecgfed.domain.signal.quality import LeadQuality, Reason, Stretch
from ecgfed.reports.strip_selection import STRIP_S
from ecgfed.web.samples import packed

#: Leads on a strip at most.
MOST_LEADS = 3
#: After the band-pass, which ends at 40 Hz, samples are decimated to at least this rate.
_LEAST_HZ = 250.0
#: Beats averaged per class at most, spread over the recording.
AVERAGED = 150
BEFORE_S, AFTER_S = 0.3, 0.5
#: A lead moves in a long interval, after the T wave of the beat before, if its range is this share of a beat's range.
_MOVES, _AFTER_T_S, _BEFORE_QRS_S, _QRS_S, _NEIGHBOURS = 0.6, 0.45, 0.12, 0.1, 10
#: Averages of fewer beats have no band.
_BAND_FROM = 10

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class DrawnLeads:
    """The drawn leads of a recording, the lead in use first.

    Attributes:
        recording: the recording.
        names: the leads.
        quality: quality of each lead.
        step: decimation factor.
    """

    recording: Recording
    names: tuple[str, ...]
    quality: Mapping[str, LeadQuality]
    step: int

    @classmethod
    def of(cls, recording: Recording, quality: Mapping[str, LeadQuality]) -> "DrawnLeads":
        """Return the lead in use and as many others as fit on a strip."""
        remaining_leads = [name for name in recording.leads if name != recording.lead]
        names = (recording.lead, *remaining_leads)[:MOST_LEADS]
        return cls(recording, names, quality, max(1, int(recording.fs_hz // _LEAST_HZ)))

    @property
    def fs_hz(self) -> float:
        """Sampling frequency of the drawn samples."""
        return self.recording.fs_hz / self.step

    def read(self, name: str, start: int, stop: int) -> Floats:
        """Return band-passed samples ``start`` to ``stop`` of a lead in millivolt, NaN in gaps.

        The filter sees 2 s on both sides, so that values equal those of the filtered recording.
        """
        from scipy.signal import fftconvolve

        taps = band_pass_taps(self.recording.fs_hz)
        half, samples = len(taps) // 2, self.recording.samples
        start, stop = max(start, 0), min(stop, samples)
        if stop <= start:
            return np.empty(0)
        gaps = self.quality[name].spans([Reason.GAP])
        low, high = max(start - half, 0), min(stop + half, samples)
        part = Bridged(self.recording, name, gaps)[low:high]
        part = np.pad(part, (half - (start - low), half - (high - stop)), mode="edge")
        filtered: Floats = np.asarray(fftconvolve(part, taps, mode="valid"))
        filtered[gaps.mask(start, stop)] = np.nan
        return filtered

    def strip(self, start_s: float, seconds: float) -> list[dict[str, Any]]:
        """Return the leads from a moment on in the format of ``paper.js``, without their names."""
        first = round(start_s * self.recording.fs_hz)
        stop = first + round(seconds * self.recording.fs_hz)
        return [{"samples": packed(self.read(name, first, stop)[:: self.step])} for name in self.names]


@dataclass(frozen=True, eq=False)
class DrawnTwelve:
    """The twelve standard leads of a recording, as strips show them.

    Attributes:
        twelve: the leads.
        leads: the same, to be drawn.
    """

    twelve: TwelveLeads
    leads: DrawnLeads

    @classmethod
    def of(cls, recording: Recording, quality: Mapping[str, LeadQuality], step: int) -> "DrawnTwelve | None":
        """Return the twelve leads of a recording, or None; ``step`` is the decimation of the page's strips."""
        twelve = twelve_leads(recording)
        if twelve is None:
            return None
        each = {name: _joined(quality, twelve.sources(name)) for name in STANDARD_LEADS}
        return cls(twelve, DrawnLeads(twelve.recording, STANDARD_LEADS, each, step))

    def strip(self, start_s: float) -> list[dict[str, Any]]:
        """Return 10 s of the twelve leads in the format of ``paper.js``, each with its unusable stretches."""
        fs_hz, strip = self.twelve.recording.fs_hz, self.leads.strip(start_s, STRIP_S)
        first, last = round(start_s * fs_hz), round((start_s + STRIP_S) * fs_hz)
        return [
            {"name": name, **lead, "unusable": self._unusable(name, first, last)}
            for name, lead in zip(STANDARD_LEADS, strip, strict=True)
        ]

    def _unusable(self, name: str, first: int, last: int) -> list[dict[str, Any]]:
        step = self.leads.step
        return [
            {
                "start": (part.start - first) / step,
                "stop": (part.stop - first) / step,
                "text": translated(str(part.reason)),
            }
            for part in self.leads.quality[name].stretches
            if part.start < last and part.stop > first
        ]


def _joined(quality: Mapping[str, LeadQuality], names: Sequence[str]) -> LeadQuality:
    """Return the quality of a lead that is made of others."""
    parts = sorted({(part.start, part.stop, part.reason) for name in names for part in quality[name].stretches})
    return replace(quality[names[0]], stretches=tuple(Stretch(*part) for part in parts))


def average_beats(leads: DrawnLeads, beats: Beats) -> dict[int, tuple[list[dict[str, Any]], int]]:
    """Return for each class with beats the leads of its average beat, and the number of averaged beats.

    At most ``AVERAGED`` beats of a class are averaged, evenly spread, without those near an end or in unusable parts.
    """
    fs_hz = leads.recording.fs_hz
    before, after = round(BEFORE_S * fs_hz), round(AFTER_S * fs_hz)
    room = (beats.sample >= before) & (beats.sample + after < leads.recording.samples)
    clean = ~leads.quality[leads.names[0]].spans().overlap(beats.sample - before, beats.sample + after)
    averages = {}
    for number in range(len(beats.classes)):
        of_class = np.flatnonzero((beats.label == number) & room & clean & beats.assessed)
        if not len(of_class):
            continue
        spread = of_class[np.unique(np.linspace(0, len(of_class) - 1, min(len(of_class), AVERAGED)).astype(np.int64))]
        samples = beats.sample[spread]
        averages[number] = [mean_beat(leads, name, samples, before, after) for name in leads.names], len(spread)
    return averages


def mean_beat(leads: DrawnLeads, name: str, samples: NDArray[np.int64], before: int, after: int) -> dict[str, Any]:
    """Return the mean of a lead around some samples, and with enough of them the band of the middle 80%."""
    pieces = np.stack([leads.read(name, at - before, at + after + 1)[:: leads.step] for at in samples.tolist()])
    pieces = pieces[np.isfinite(pieces).all(axis=1)]
    if not len(pieces):
        return {"samples": packed(np.full(len(range(0, before + after + 1, leads.step)), np.nan))}
    lead: dict[str, Any] = {"samples": packed(pieces.mean(axis=0))}
    if len(pieces) >= _BAND_FROM:
        low, high = np.percentile(pieces, (10, 90), axis=0)
        lead |= {"low": packed(low), "high": packed(high)}
    return lead


def moving_leads(leads: DrawnLeads, r_samples: NDArray[np.int64], interval: At) -> list[str]:
    """Return the other leads whose signal moves in an interval as it does in the beats around it.

    A lead that came off looks like a pause; beats on other leads reveal it, though noise on them looks the same.

    Args:
        leads: the drawn leads, the lead in use first.
        r_samples: (beats,) int64 R peaks.
        interval: an interval between two beats.
    """
    fs_hz = leads.recording.fs_hz
    start, stop = round((interval.start_s + _AFTER_T_S) * fs_hz), round((interval.stop_s - _BEFORE_QRS_S) * fs_hz)
    at = int(np.searchsorted(r_samples, round(interval.start_s * fs_hz)))
    around = r_samples[max(0, at - _NEIGHBOURS) : at + _NEIGHBOURS].tolist()
    half = round(_QRS_S * fs_hz)
    moving = []
    for name in leads.names[1:]:
        heights = [_height(leads.read(name, r_sample - half, r_sample + half)) for r_sample in around]
        if stop > start and _height(leads.read(name, start, stop)) >= _MOVES * float(np.median(heights)) > 0:
            moving.append(name)
    return moving


def _height(signal_mv: Floats) -> float:
    """Return the range of the finite values, 0 without any."""
    finite = signal_mv[np.isfinite(signal_mv)]
    return float(np.ptp(finite)) if len(finite) else 0.0


def strip_bytes(leads: DrawnLeads, seconds: float) -> float:
    """Return the approximate size of a strip in the page."""
    return len(leads.names) * leads.fs_hz * seconds * 2 * 4 / 3 + 400


def bin_width(duration_s: float, widths: Sequence[float], max_bins: int) -> float:
    """Return the smallest width that gives at most ``max_bins`` bins, else the largest width."""
    return next((width for width in widths if duration_s / width <= max_bins), widths[-1])
