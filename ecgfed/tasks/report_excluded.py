"""What of a recording is in no count of its report, by reason."""

import numpy as np

from ecgfed.domain.beats.exclusions import Exclusions
from ecgfed.domain.record.recording import BEAT_SYMBOLS, Annotation
from ecgfed.domain.signal.spans import Spans
from ecgfed.tasks.excluded import annotations_excluded, channels_excluded
from ecgfed.tasks.report_parts import Reading


def report_exclusions_of(reading: Reading, marks: Annotation | None) -> list[Exclusions]:
    """Count the beats, annotations and channels of a report that were read, used and excluded.

    A beat is used when it is counted and has a class; each excluded one has one reason, the first that holds: its lead
    shows no signal, nobody marked beats around it, it lies in a stretch of poor quality.

    Args:
        reading: the recording and its labelled beats.
        marks: the annotation that the labels are of, None for a model's.
    """
    labelled, excluded = reading.labelled, {}
    left = np.ones(len(labelled.sample), np.bool_)
    reasons = {
        "no_signal": np.zeros(len(left), np.bool_) if labelled.no_signal is None else labelled.no_signal,
        "unmarked": Spans.merged(labelled.unmarked).inside(labelled.sample),
        "poor_quality": ~reading.beats.assessed,
    }
    for reason, holds in reasons.items():
        excluded[reason] = int((holds & left).sum())
        left &= ~holds
    beyond = 0 if marks is None else sum(symbol in BEAT_SYMBOLS for symbol in marks.beyond_end)
    excluded |= {"end_noise": labelled.end_noise, "beyond_end": beyond}
    beats = Exclusions("beat", len(left) + labelled.end_noise + beyond, excluded)
    return [beats, annotations_excluded([marks]), channels_excluded([reading.recording])]
