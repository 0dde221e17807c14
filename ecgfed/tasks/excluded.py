"""What of a recording and its annotations a command did not use, counted by reason."""

from collections.abc import Iterable

from ecgfed.beats.exclusions import Counted, Exclusions
from ecgfed.record.recording import Annotation, AnyRecording


def channels_excluded(recordings: Iterable[AnyRecording]) -> Exclusions:
    """Count the channels of recordings that could not be read beside the chosen lead."""
    read = [(len(one.leads), len(one.skipped)) for one in recordings]
    left_out = sum(count for _, count in read)
    return Exclusions("channel", sum(count for count, _ in read) + left_out, {"not_read": left_out})


def annotations_excluded(annotations: Iterable[Annotation | None]) -> Exclusions:
    """Count the annotations, beats or not, that lie at or after their recording's end."""
    read = [(len(one.sample), len(one.beyond_end)) for one in annotations if one is not None]
    beyond = sum(count for _, count in read)
    return Exclusions("annotation", sum(count for count, _ in read) + beyond, {"beyond_end": beyond})


def excluded_as_json(counted: Iterable[Exclusions]) -> dict[str, Counted]:
    """Return what was counted by kind: ``beats``, ``annotations``, ``channels``, ``records``."""
    return {f"{one.what}s": one.as_json() for one in counted}
