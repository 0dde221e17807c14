"""Ventricular and atrial fibrillation by episode, by ANSI/AAMI EC57, compatible with WFDB's ``epicmp -V`` and ``-A``.

An episode of ventricular flutter or fibrillation lasts from ``[`` to the next ``]``, one of atrial fibrillation from a
rhythm change ``+`` with the note ``(AFIB`` to the next with another note, both at most to the end of the record. Only
the part after the learning period counts. A reference episode is detected if any test episode overlaps it; a test
episode is correct if any reference episode overlaps it. For the positive predictivity of atrial fibrillation the
reference's atrial flutter, ``(AFL``, is left out: neither right nor wrong. Source: app/epicmp.c of the WFDB software.
"""

from dataclasses import astuple, dataclass
from typing import ClassVar, Self

from ecgfed.core.evaluation.fraction import Fraction
from ecgfed.domain.record.recording import Annotation

_Spans = list[tuple[int, int]]


@dataclass(frozen=True)
class FlutterScores:
    """Episodes of flutter or fibrillation of one record, or summed over several.

    Attributes:
        episodes: number of reference episodes.
        detected: reference episodes that a test episode overlaps.
        called: number of test episodes.
        right: test episodes that a reference episode overlaps.
        duration_s: total duration of reference episodes, seconds.
        called_s: total duration of test episodes, seconds.
        shared_s: total overlap, seconds.
    """

    KIND: ClassVar[str] = "vf"

    episodes: int = 0
    detected: int = 0
    called: int = 0
    right: int = 0
    duration_s: float = 0.0
    called_s: float = 0.0
    shared_s: float = 0.0

    def __add__(self, addend: Self) -> Self:
        return type(self)(*(a + b for a, b in zip(astuple(self), astuple(addend), strict=True)))

    @property
    def scores(self) -> dict[str, Fraction]:
        """Sensitivity and positive predictivity by episodes and by duration."""
        return {
            f"{self.KIND}_episode_se": Fraction(self.detected, self.episodes),
            f"{self.KIND}_episode_ppv": Fraction(self.right, self.called),
            f"{self.KIND}_duration_se": Fraction(self.shared_s, self.duration_s),
            f"{self.KIND}_duration_ppv": Fraction(self.shared_s, self.called_s),
        }

    def as_json(self) -> dict[str, dict[str, float | None]]:
        """Return the scores with numerator and denominator, JSON-ready."""
        return {name: share.as_json() for name, share in self.scores.items()}


class FibrillationScores(FlutterScores):
    """Episodes of atrial fibrillation, likewise; test episodes are measured without the reference's atrial flutter."""

    KIND = "af"


def compare_flutter(reference: Annotation, test: Annotation, start: int, stop: int, fs_hz: float) -> FlutterScores:
    """Compare the flutter of two annotation files from sample ``start`` to sample ``stop``, the record's end."""
    theirs, ours = (_clipped(*_marked(file), start, stop) for file in (reference, test))
    return FlutterScores(*_compared(theirs, ours, [], fs_hz))


def compare_fibrillation(
    reference: Annotation, test: Annotation, start: int, stop: int, fs_hz: float
) -> FibrillationScores:
    """Compare the atrial fibrillation of two annotation files, likewise."""
    theirs, ours = (_clipped(*_in_rhythm(file, "(AFIB"), start, stop) for file in (reference, test))
    flutter = _clipped(*_in_rhythm(reference, "(AFL"), start, stop)
    ours = [(begin, end) for begin, end in ours if not any(a <= begin and end <= b for a, b in flutter)]
    return FibrillationScores(*_compared(theirs, ours, flutter, fs_hz))


def _compared(
    theirs: _Spans, ours: _Spans, excluded: _Spans, fs_hz: float
) -> tuple[int, int, int, int, float, float, float]:
    """Return the fields of ``FlutterScores``; test episodes are measured without what is excluded."""
    return (
        len(theirs),
        sum(_overlap(episode, ours) > 0 for episode in theirs),
        len(ours),
        sum(_overlap(episode, theirs) > 0 for episode in ours),
        sum(end - begin for begin, end in theirs) / fs_hz,
        sum(end - begin - _overlap((begin, end), excluded) for begin, end in ours) / fs_hz,
        sum(_overlap(episode, ours) for episode in theirs) / fs_hz,
    )


def excludes_nothing(reference: Annotation) -> bool:
    """Return whether a file's last flutter has no end but an earlier one does: ``bxb`` counts test beats in it."""
    spans, since = _marked(reference)
    return bool(spans) and since is not None


def _clipped(spans: _Spans, since: int | None, start: int, stop: int) -> _Spans:
    """Return episodes, of which one may have no end, clipped to an interval."""
    every = spans if since is None else [*spans, (since, stop)]
    return [(max(begin, start), min(end, stop)) for begin, end in every if end >= start and begin < stop]


def _marked(annotation: Annotation) -> tuple[_Spans, int | None]:
    """Return the complete episodes of a file, and the start of an incomplete one, or None."""
    spans: _Spans = []
    since: int | None = None
    for at, symbol in zip(annotation.sample.tolist(), annotation.symbol.tolist(), strict=True):
        if symbol == "[" and since is None:
            since = at
        elif symbol == "]" and since is not None:
            spans.append((since, at))
            since = None
    return spans, since


def _in_rhythm(annotation: Annotation, note: str) -> tuple[_Spans, int | None]:
    """Return the complete episodes of a rhythm, and the start of an incomplete one, or None."""
    spans: _Spans = []
    since: int | None = None
    notes = annotation.note or ("",) * len(annotation.sample)
    for at, symbol, of_mark in zip(annotation.sample.tolist(), annotation.symbol.tolist(), notes, strict=True):
        if symbol != "+":
            continue
        if of_mark.startswith(note):
            since = at if since is None else since
        elif since is not None:
            spans.append((since, at))
            since = None
    return spans, since


def _overlap(episode: tuple[int, int], episodes: _Spans) -> int:
    return sum(max(0, min(episode[1], end) - max(episode[0], begin)) for begin, end in episodes)
