"""Strips around the beats to label: 6 s of every displayed lead, centred on the beat."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecgfed.reports.signals import DrawnLeads

#: Length of a strip in seconds.
STRIP_S = 6.0


def label_strips(leads: DrawnLeads, r_samples: NDArray[np.int64], beats: Iterable[int]) -> dict[int, dict[str, Any]]:
    """Return a strip for each of the beats, JSON-ready.

    Args:
        leads: the displayed leads, with their quality.
        r_samples: (beats,) int64 increasing R peaks of the recording.
        beats: numbers of the beats.

    Returns:
        beat -> ``fs``, ``start_s``, ``leads`` (samples of each), ``beats`` (R peaks in samples from the strip's first),
        ``asked`` (index of the beat among these), ``spans`` (unusable segments of the lead in use).
    """
    return {int(beat): _strip(leads, r_samples, int(beat)) for beat in beats}


def _strip(leads: DrawnLeads, r_samples: NDArray[np.int64], beat: int) -> dict[str, Any]:
    fs_hz, at = leads.recording.fs_hz, int(r_samples[beat])
    latest = max(leads.recording.samples - round(STRIP_S * fs_hz), 0)
    first = min(max(at - round(STRIP_S / 2 * fs_hz), 0), latest)
    last = first + round(STRIP_S * fs_hz)
    low, high = np.searchsorted(r_samples, [first, last])
    bad = leads.quality[leads.names[0]].stretches
    return {
        "fs": leads.fs_hz,
        "start_s": first / fs_hz,
        "leads": leads.strip(first / fs_hz, STRIP_S),
        "beats": [round((r_sample - first) / leads.step, 1) for r_sample in r_samples[low:high].tolist()],
        "asked": beat - int(low),
        "spans": [
            {"start": (segment.start - first) / leads.step, "stop": (segment.stop - first) / leads.step}
            | {"kind": "unusable", "text": str(segment.reason)}
            for segment in bad
            if segment.start < last and segment.stop > first
        ],
    }
