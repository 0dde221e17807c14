"""What the page of a report needs to be edited: the beats before editing, in compact form."""

import base64
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecgfed.base.language import translated
from ecgfed.domain.events.kinds import KIND_WORDS, RHYTHM_NAMES, Kind, kind_of, meaning_of
from ecgfed.domain.events.rhythm import SINUS_RHYTHMS
from ecgfed.domain.labels.edits import REFRACTORY_S
from ecgfed.domain.labels.user_labels import NO_BEAT, SYMBOLS
from ecgfed.reports.conclusion import CONCLUSION_NOTES, SENTENCES
from ecgfed.reports.drawing import Reading
from ecgfed.reports.labelled import Labelled

#: Bits of a beat's flags; from the fourth on they are of the interval after it, the last two ``Beats.undetected``.
_UNCERTAIN, _UNLIKE, _DOUBTED, _CONFIRMED, _UNDETECTED = 1, 2, 4, 8, 16


def editing_data(reading: Reading, recording: str, beats: str) -> dict[str, Any]:
    """Return the data of the page's editing scripts (``web/edits.js``), JSON-ready.

    Args:
        reading: the recording, its labelled beats and their counts.
        recording: id of the recording.
        beats: digest of the labels before editing.
    """
    base = reading.labelled if reading.edited is None else reading.edited.base
    fs_hz = float(reading.recording.fs_hz)
    return {
        "recording": recording,
        "beats": beats,
        "lead": reading.recording.lead,
        "fs": fs_hz,
        "samples": reading.recording.samples,
        "usable_percent": reading.events.usable_percent,
        "fibrillation_from_s": base.fibrillation_from_s,
        "unusable": reading.beats.unusable.tolist(),
        **_beats_before(base),
        "provisional": base.provisional,
        "paced": "paced" in dict(base.warnings),
        "withheld": {KIND_WORDS[kind]: reason for kind, reason in base.withheld.items()},
        "rhythms": _rhythms_before(base, fs_hz),
        "rhythm_names": list(RHYTHM_NAMES),
        "refractory_s": REFRACTORY_S,
        "rules": {**asdict(reading.events.rules), "sinus_rhythms": sorted(SINUS_RHYTHMS)},
        "symbols": {
            symbol: [int(kind_of([symbol])), translated(meaning_of(symbol))] for symbol in sorted(SYMBOLS - {NO_BEAT})
        },
        "patient_events": [[event.time_s, event.source, event.text] for event in reading.patient_events],
        "sentences": SENTENCES,
        "conclusion_notes": CONCLUSION_NOTES,
        "document": None if reading.edited is None else reading.edited.edits.document,
    }


def _beats_before(base: Labelled) -> dict[str, Any]:
    """Return classes and beats before editing: (beats,) samples, class numbers, flags and probabilities, as base64."""
    known = {
        "uncertain": base.uncertain,
        "unlike": base.out_of_distribution,
        "doubted": base.doubted,
        "confirmed": base.confirmed,
    }
    flags = np.zeros(len(base.sample), np.uint8)
    for mask, values in zip((_UNCERTAIN, _UNLIKE, _DOUBTED, _CONFIRMED), known.values(), strict=True):
        if values is not None:
            flags[: len(values)] |= values.astype(np.uint8) * np.uint8(mask)
    if base.undetected is not None:
        flags[: len(base.undetected)] |= base.undetected * np.uint8(_UNDETECTED)

    def of_kind(kind: Kind) -> str | None:
        if base.probability is None:
            return None
        columns = np.array([candidate is kind for candidate in base.kinds])[: base.probability.shape[1]]
        return _packed(np.asarray(base.probability[:, columns].sum(axis=1), "<f8"))

    return {
        "classes": list(base.classes),
        "codes": list(base.codes),
        "meanings": [translated(meaning) for meaning in base.meanings],
        "kinds": list(map(int, base.kinds)),
        "sample": _packed(base.sample.astype("<i4")),
        "label": _packed(base.label.astype(np.uint8)),
        "flags": _packed(flags),
        "known": {**{name: of is not None for name, of in known.items()}, "undetected": base.undetected is not None},
        "ventricular": of_kind(Kind.VENTRICULAR),
        "supra": of_kind(Kind.SUPRA),
    }


def _rhythms_before(base: Labelled, fs_hz: float) -> list[dict[str, Any]]:
    """Return the rhythms before editing, each episode in seconds and in samples."""
    return [
        {
            "rhythm": rhythm.rhythm,
            "source": rhythm.source,
            "episodes": [list(episode) for episode in rhythm.episodes],
            "samples": [[round(start * fs_hz), round(stop * fs_hz)] for start, stop in rhythm.episodes],
            "certainty": list(rhythm.certainty),
        }
        for rhythm in base.rhythms or ()
    ]


def _packed(values: NDArray[np.generic]) -> str:
    """Return values as base64."""
    return base64.b64encode(np.ascontiguousarray(values).tobytes()).decode("ascii")
