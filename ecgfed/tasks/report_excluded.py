"""What a report excludes from its counts, by reason."""

import numpy as np

from ecgfed.domain.beats.exclusions import Exclusions
from ecgfed.domain.record.recording import BEAT_SYMBOLS, Annotation
from ecgfed.domain.signal.spans import Spans
from ecgfed.reports.drawing import Reading
from ecgfed.tasks.excluded import annotations_excluded, channels_excluded


def report_exclusions_of(reading: Reading, marks: Annotation | None) -> list[Exclusions]:
    """Count the beats, annotations and channels of a report that were read, used and excluded.

    A beat is used when it is counted and has a class. Each excluded beat has one reason, the first that applies: it is
    a calibration pulse, its lead has no signal, it lies in a stretch without labels, it lies in a stretch of poor
    quality.

    Args:
        reading: the recording and its labelled beats.
        marks: the annotation of the labels, None for a model's.
    """
    labelled, removed = reading.labelled, 0 if reading.edited is None else len(reading.edited.removed)
    excluded = {"removed": removed} if removed else {}
    remaining = np.ones(len(labelled.sample), np.bool_)
    nothing = np.zeros(len(remaining), np.bool_)
    reasons = {
        "calibration": nothing if labelled.pulses is None else labelled.pulses,
        "no_signal": nothing if labelled.no_signal is None else labelled.no_signal,
        "unmarked": Spans.merged(labelled.unmarked).inside(labelled.sample),
        "poor_quality": ~reading.beats.assessed,
    }
    for reason, holds in reasons.items():
        excluded[reason] = int((holds & remaining).sum())
        remaining &= ~holds
    beyond = 0 if marks is None else sum(symbol in BEAT_SYMBOLS for symbol in marks.beyond_end)
    excluded |= {"end_noise": labelled.end_noise, "beyond_end": beyond}
    beats = Exclusions("beat", len(remaining) + removed + labelled.end_noise + beyond, excluded)
    return [beats, annotations_excluded([marks]), channels_excluded([reading.recording])]
