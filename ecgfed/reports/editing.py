"""What the page of a report needs to be edited: the beats before editing, in compact form."""

import base64
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecgfed.base.language import translated
from ecgfed.domain.events.kinds import KIND_WORDS, RHYTHM_NAMES, Kind, kind_of, meaning_of
from ecgfed.domain.events.rhythm import SINUS_RHYTHMS
from ecgfed.domain.labels.user_labels import NO_BEAT, SYMBOLS
from ecgfed.reports.drawing import Reading

#: Bits of a beat's flags; the last one is of the interval after it.
_UNCERTAIN, _UNLIKE, _DOUBTED, _CONFIRMED = 1, 2, 4, 8


def editing_data(reading: Reading, recording: str, beats: str) -> dict[str, Any]:
    """Return the data of the page's editing scripts (``web/edits.js``), JSON-ready.

    Args:
        reading: the recording, its labelled beats and their counts.
        recording: id of the recording.
        beats: digest of the labels before editing.
    """
    base = reading.labelled if reading.edited is None else reading.edited.base
    fs_hz, probability = float(reading.recording.fs_hz), base.probability
    quality = reading.quality[reading.recording.lead]
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

    def of_kind(kind: Kind) -> str | None:
        if probability is None:
            return None
        columns = np.array([candidate is kind for candidate in base.kinds])[: probability.shape[1]]
        return _packed(np.asarray(probability[:, columns].sum(axis=1), "<f8"))

    return {
        "recording": recording,
        "beats": beats,
        "lead": reading.recording.lead,
        "fs": fs_hz,
        "samples": reading.recording.samples,
        "usable_percent": 100 * quality.usable_s * quality.fs_hz / quality.samples,
        "unusable": reading.beats.unusable.tolist(),
        "classes": list(base.classes),
        "codes": list(base.codes),
        "meanings": [translated(meaning) for meaning in base.meanings],
        "kinds": list(map(int, base.kinds)),
        "sample": _packed(base.sample.astype("<i4")),
        "label": _packed(base.label.astype(np.uint8)),
        "flags": _packed(flags),
        "known": {name: values is not None for name, values in known.items()},
        "ventricular": of_kind(Kind.VENTRICULAR),
        "supra": of_kind(Kind.SUPRA),
        "provisional": base.provisional,
        "paced": "paced" in dict(base.warnings),
        "withheld": {KIND_WORDS[kind]: reason for kind, reason in base.withheld.items()},
        "rhythms": [
            {
                "rhythm": rhythm.rhythm,
                "source": rhythm.source,
                "episodes": [list(episode) for episode in rhythm.episodes],
                "samples": [[round(start * fs_hz), round(stop * fs_hz)] for start, stop in rhythm.episodes],
                "certainty": list(rhythm.certainty),
            }
            for rhythm in base.rhythms or ()
        ],
        "rhythm_names": list(RHYTHM_NAMES),
        "rules": {**asdict(reading.events.rules), "sinus_rhythms": sorted(SINUS_RHYTHMS)},
        "symbols": {
            symbol: [int(kind_of([symbol])), translated(meaning_of(symbol))] for symbol in sorted(SYMBOLS - {NO_BEAT})
        },
        "document": None if reading.edited is None else reading.edited.edits.document,
    }


def _packed(values: NDArray[np.generic]) -> str:
    """Return values as base64."""
    return base64.b64encode(np.ascontiguousarray(values).tobytes()).decode("ascii")
