"""What of a recording and its annotations a command did not use, counted by reason."""

from collections.abc import Iterable

from ecgfed.domain.beats.exclusions import Counted, Exclusions
from ecgfed.domain.record.recording import Annotation, AnyRecording
from ecgfed.tasks.records import NOT_ECG


def channels_excluded(recordings: Iterable[AnyRecording]) -> Exclusions:
    """Count the channels of recordings that are no ECG, and those that could not be read beside the chosen lead."""
    read = [(len(one.leads), [entry.rpartition(": ")[2] for entry in one.skipped]) for one in recordings]
    skipped = sum(len(reasons) for _, reasons in read)
    no_ecg = sum(reason in NOT_ECG for _, reasons in read for reason in reasons)
    excluded = {"no_ecg": no_ecg, "not_read": skipped - no_ecg}
    return Exclusions("channel", sum(count for count, _ in read) + skipped, excluded)


def annotations_excluded(annotations: Iterable[Annotation | None]) -> Exclusions:
    """Count the annotations, beats or not, that lie at or after their recording's end."""
    read = [(len(one.sample), len(one.beyond_end)) for one in annotations if one is not None]
    beyond = sum(count for _, count in read)
    return Exclusions("annotation", sum(count for count, _ in read) + beyond, {"beyond_end": beyond})


def excluded_as_json(counted: Iterable[Exclusions]) -> dict[str, Counted]:
    """Return what was counted by kind: ``beats``, ``annotations``, ``channels``, ``records``."""
    return {f"{one.what}s": one.as_json() for one in counted}
