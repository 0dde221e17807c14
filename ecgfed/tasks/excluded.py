"""Count the parts of recordings and annotations that a command did not use, by reason."""

from collections.abc import Iterable

from ecgfed.domain.beats.exclusions import Counted, Exclusions
from ecgfed.domain.record.recording import Annotation, Recording
from ecgfed.tasks.records import NOT_ECG


def channels_excluded(recordings: Iterable[Recording]) -> Exclusions:
    """Count channels that are not ECG, and those that could not be read together with the chosen lead."""
    leads, reasons = 0, list[str]()
    for recording in recordings:
        leads += len(recording.leads)
        reasons += [entry.rpartition(": ")[2] for entry in recording.skipped]
    no_ecg = sum(reason in NOT_ECG for reason in reasons)
    return Exclusions("channel", leads + len(reasons), {"no_ecg": no_ecg, "not_read": len(reasons) - no_ecg})


def annotations_excluded(annotations: Iterable[Annotation | None]) -> Exclusions:
    """Count annotations, beats or not, at or beyond the end of their recording."""
    read = [
        (len(annotation.sample), len(annotation.beyond_end)) for annotation in annotations if annotation is not None
    ]
    beyond = sum(count for _, count in read)
    return Exclusions("annotation", sum(count for count, _ in read) + beyond, {"beyond_end": beyond})


def excluded_as_json(exclusions: Iterable[Exclusions]) -> dict[str, Counted]:
    """Return the counts by kind: ``beats``, ``annotations``, ``channels``, ``records``."""
    return {f"{entry.what}s": entry.as_json() for entry in exclusions}
