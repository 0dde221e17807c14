"""The surroundings of beats that somebody is asked to label: 6 s of every shown lead, the beat in the middle."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecgfed.tasks.report_signal import ShownLeads

#: How much is shown of a recording around a beat.
STRIP_S = 6.0


def label_strips(leads: ShownLeads, r_samples: NDArray[np.int64], beats: Iterable[int]) -> dict[int, dict[str, Any]]:
    """Return the surroundings of some beats, JSON-ready.

    Args:
        leads: what is shown, with the quality of each lead.
        r_samples: (beats,) int64 increasing R peaks of the recording.
        beats: numbers of those to show.

    Returns:
        beat -> ``fs``, ``start_s``, ``leads`` (samples of each), ``beats`` (R peaks in samples from the strip's first),
        ``asked`` (which of these it is), ``spans`` (unusable stretches of the lead in use).
    """
    return {int(beat): _strip(leads, r_samples, int(beat)) for beat in beats}


def _strip(leads: ShownLeads, r_samples: NDArray[np.int64], beat: int) -> dict[str, Any]:
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
