"""How high the QRS of a lead is: what says that a file's units are wrong, a thousandfold as a rule.

Nothing is refused for it: who reads a file of another amplifier knows better. docs/quality.md says what is measured.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ecgfed.base.language import Message, joined_message, message
from ecgfed.domain.record.recording import Recording
from ecgfed.domain.signal.spans import Spans

#: No electrode gives a QRS so high: the highest of MIT-BIH's 96 leads is 4.0 mV (116's MLII).
LARGEST_MV = 20.0
#: The QRS is measured this far around an R peak; where there are no beats, stretches of so many seconds.
QRS_S, STRETCH_S = 0.06, 2.0
#: Fewer beats say nothing; more than so many are not looked at, spread over the recording.
MIN_BEATS, LOOKED_AT = 5, 200
#: A beat without a QRS complex in a lead is lower than this share of the lead's own, and than so many mV. White noise
#: of 30 microvolt reaches 0.05 mV within a QRS complex, after the band-pass. Chosen on MIT-BIH and SVDB, decision 0067.
QRS_SHARE, MOST_NOISE_MV = 0.10, 0.100
#: Leads that a sentence names.
_NAMED = 3


@dataclass(frozen=True)
class Size:
    """How far a lead goes, from its lowest to its highest value.

    Attributes:
        lead: its name.
        mv: the median, in millivolt.
        of_beats: it is of QRS complexes; otherwise of stretches of ``STRETCH_S``.
    """

    lead: str
    mv: float
    of_beats: bool


def lead_size(recording: Recording, lead: str, peaks: NDArray[np.int64], bad: Spans) -> Size | None:
    """Measure a lead as it was recorded, of a long recording some blocks of it.

    Args:
        recording: in memory or on the disk.
        lead: one of its leads.
        peaks: (beats,) int64 R peaks.
        bad: where the lead is bad: beats there are left out.

    Returns:
        The size, or None where no sample is a number.
    """
    peaks = peaks[~bad.inside(peaks)]
    if len(peaks) >= MIN_BEATS:
        heights, of_beats = _heights(recording, lead, peaks, QRS_S), True
    else:
        half = max(1, round(STRETCH_S / 2 * recording.fs_hz))
        middles = np.arange(half, max(recording.samples, half + 1), 2 * half)
        heights, of_beats = _heights(recording, lead, middles, STRETCH_S / 2), False
    return Size(lead, float(np.median(heights)), of_beats) if heights else None


def min_qrs_mv(recording: Recording, lead: str, peaks: NDArray[np.int64], bad: Spans) -> float:
    """Return below which height, in millivolt, a beat of a lead has no QRS complex in it.

    It is ``QRS_SHARE`` of the upper quartile of the QRS complexes, so that the lead may be off for most of a recording,
    and at most ``MOST_NOISE_MV``; 0 where fewer than ``MIN_BEATS`` beats say nothing of the lead. Args: ``lead_size``.
    """
    peaks = peaks[~bad.inside(peaks)]
    heights = _heights(recording, lead, peaks, QRS_S) if len(peaks) >= MIN_BEATS else []
    return min(QRS_SHARE * float(np.quantile(heights, 0.75)), MOST_NOISE_MV) if heights else 0.0


def _heights(recording: Recording, lead: str, at: NDArray[np.int64], half_s: float) -> list[float]:
    """Return how far a lead goes within so many seconds of some samples, ``LOOKED_AT`` at most, spread evenly."""
    row, half = recording.leads.index(lead), max(1, round(half_s * recording.fs_hz))
    some = np.unique(np.linspace(0, len(at) - 1, min(len(at), LOOKED_AT)).round().astype(np.int64))
    heights = []
    for middle in at[some].tolist():
        signal = recording.read(max(middle - half, 0), min(middle + half + 1, recording.samples), [row])[0]
        valid = signal[np.isfinite(signal)]
        if len(valid):
            heights.append(float(np.ptp(valid)))
    return heights


def too_large(sizes: list[Size | None]) -> list[Size]:
    """Return the leads that are larger than any electrode's, the largest first."""
    return sorted((size for size in sizes if size is not None and size.mv > LARGEST_MV), key=lambda size: -size.mv)


def size_text(large: list[Size]) -> Message:
    """Return one sentence about leads that are too large."""
    first, names = large[0], [size.lead for size in large[1 : 1 + _NAMED]]
    more: list[str] = [message("{n} more", n=len(large) - 1 - _NAMED)] * (len(large) - 1 > _NAMED)
    values = {
        "lead": first.lead,
        "mv": first.mv,
        "more": message(" (and too high in {leads})", leads=joined_message([*names, *more], ", ")) if names else "",
        "largest": LARGEST_MV,
    }
    if first.of_beats:
        return message(
            "the QRS of {lead} is {mv:,.0f} mV{more}, and no electrode gives {largest:g}: are the units right?",
            **values,
        )
    return message(
        "the usual excursion of {lead} is {mv:,.0f} mV{more}, and no electrode gives {largest:g}: are the units right?",
        **values,
    )
