"""Match the beats of two annotation files as WFDB's ``bxb`` does, for ``ec57``.

Source: app/bxb.c of the WFDB software (last revised 27 April 2020), the reference implementation of ANSI/AAMI EC57's
beat-by-beat comparison; the functions it is based on are named below. Its peculiarities are reproduced, so that results
are identical:

- time is in samples; seconds are rounded to the nearest sample (``strtim``), including the match window;
- each file has a current and a next beat; a match depends on the next beats of both files;
- only the last two flutters and shutdowns read from each file are kept;
- one without an end lasts to the end of the file if it is the first of its kind, or a shutdown of the reference; any
  other keeps the end of the previous one and is empty.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum

from ecgfed.domain.record.recording import Annotation

#: Time of the beat after a file's last, later than any beat.
NEVER = 2**62
#: A flutter wave. Ignored between ``[`` and ``]``; elsewhere, ``bxb`` treats it as a QRS complex without class.
FLUTTER_WAVE = "!"
_NONE = -1


def in_samples(seconds: float, fs_hz: float) -> int:
    """Return a time in samples, rounded half up (``strtim``): 0.150 s are 38 samples at 250 Hz."""
    return int(seconds * fs_hz + 0.5)


class Step(Enum):
    """Beats consumed by one step."""

    PAIR = "a beat of each file"
    MISSED = "a beat of the reference alone"
    EXTRA = "a beat of the test alone"


@dataclass
class LastIntervals:
    """The last two flutters, or shutdowns, read from a file; -1 for none."""

    begin: int = _NONE
    end: int = _NONE
    begin_before: int = _NONE
    end_before: int = _NONE

    def open(self, at: int) -> None:
        """Start a new interval."""
        self.begin_before, self.end_before, self.begin = self.begin, self.end, at

    def hold(self, at: int) -> bool:
        """Return whether a time is inside one of them (``rpann``, ``tpann``)."""
        last = self.begin != _NONE and self.begin <= at and (at <= self.end or self.end == _NONE)
        return last or (self.begin_before != _NONE and self.begin_before <= at <= self.end_before)

    def part(self, before: int, at: int) -> bool:
        """Return whether one of them starts between two beats, so that their RR interval is undefined."""
        return before <= self.begin < at or before <= self.begin_before < at


@dataclass
class Walker:
    """Cursor in an annotation file (``getref`` and ``gettest``).

    Attributes:
        marks: (sample, symbol, subtype) in temporal order.
        labels: label of each beat symbol.
        window: half-width of a match in samples.
        is_reference: whether a shutdown without an end lasts to the end of the file.
        at: sample of the current beat; 0 before the first, ``NEVER`` after the last.
        label: its label, or None without a beat.
        following: sample of the next beat.
        rr: RR interval that ends at the current beat, in samples; 0 if undefined.
        flutter: ``[`` to ``]``.
        shutdown: ``~`` with bits 4 and 5 of its subtype set, to the ``~`` without.
        down: total length of completed shutdowns, in samples.
        down_since: start of an incomplete shutdown, or None.
    """

    marks: list[tuple[int, str, int]]
    labels: Mapping[str, int]
    window: int
    is_reference: bool = False
    at: int = 0
    label: int | None = None
    following: int = 0
    following_label: int | None = None
    rr: int = 0
    flutter: LastIntervals = field(default_factory=LastIntervals)
    shutdown: LastIntervals = field(default_factory=LastIntervals)
    down: int = 0
    down_since: int | None = None
    position: int = 0

    @classmethod
    def over(
        cls, annotation: Annotation, labels: Mapping[str, int], window: int, *, is_reference: bool = False
    ) -> "Walker":
        """Return a cursor before the first beat of a file."""
        columns = annotation.sample.tolist(), annotation.symbol.tolist(), annotation.subtypes.tolist()
        return cls(list(zip(*columns, strict=True)), labels, window, is_reference)

    def advance(self) -> None:
        """Advance to the next beat."""
        before, self.at, self.label = self.at, self.following, self.following_label
        parted = self.flutter.part(before, self.at) or self.shutdown.part(before, self.at)
        self.rr = 0 if before == 0 or self.at == NEVER or parted else self.at - before
        self.following, self.following_label = self._next_beat()

    def _next_beat(self) -> tuple[int, int | None]:
        while self.position < len(self.marks):
            at, symbol, subtype = self.marks[self.position]
            self.position += 1
            if symbol in self.labels:
                return at, self.labels[symbol]
            if symbol == "[":
                self._pass_flutter(at)
            elif symbol == "~" and _unreadable(subtype):
                self._pass_shutdown(at)
        return NEVER, None

    def _pass_flutter(self, at: int) -> None:
        self.flutter.open(at)
        while self.position < len(self.marks):
            end, symbol, _ = self.marks[self.position]
            self.position += 1
            if symbol == "]":
                self.flutter.end = end
                return

    def _pass_shutdown(self, at: int) -> None:
        """Find the end of a shutdown; of AHA's single mark, a window from the beats at either side."""
        self.shutdown.open(at)
        if self.position == len(self.marks):
            self.down_since = at
            if self.is_reference:
                self.shutdown.end = NEVER
            return
        after, symbol, subtype = self.marks[self.position]
        if symbol == "~" and not _unreadable(subtype):
            self.position += 1
            self.shutdown.end = after
        else:
            self.shutdown.end = after - self.window
            self.shutdown.begin = min(max(self.at, self.flutter.end) + self.window, self.shutdown.end)
        self.down += self.shutdown.end - self.shutdown.begin


def _unreadable(subtype: int) -> bool:
    return subtype & 0x30 == 0x30


def pairs(theirs: Walker, ours: Walker, start: int, stop: int | None, window: int) -> Iterator[Step]:
    """Match both files; at each step, the cursors are at the beats it consumes.

    Args:
        theirs: the reference.
        ours: the annotator under test.
        start: length of the learning period in samples.
        stop: length of the record; None: up to the reference's last beat.
        window: half-width of a match in samples.
    """
    if _to_the_start(theirs, ours, start, window):
        yield Step.PAIR
        theirs.advance()
        ours.advance()
    while theirs.at != NEVER if stop is None else theirs.at <= stop or ours.at <= stop:
        first, second = (ours, theirs) if ours.at < theirs.at else (theirs, ours)
        distance = second.at - first.at
        rival = abs(second.at - first.following)
        if distance <= window and (distance < rival or abs(second.following - first.following) < rival):
            yield Step.PAIR
            theirs.advance()
            ours.advance()
        else:
            yield Step.EXTRA if first is ours else Step.MISSED
            first.advance()


def _to_the_start(theirs: Walker, ours: Walker, start: int, window: int) -> bool:
    """Advance to the first scored beats; return whether a test beat just before the start matches one after it."""
    theirs.advance()
    while theirs.at < start:
        theirs.advance()
    ours.advance()
    while ours.following < start:
        ours.advance()
    early = theirs.at - ours.at
    if early < abs(theirs.at - ours.following) and early <= window:
        return True
    ours.advance()
    if ours.at - start <= window and abs(theirs.at - ours.following) < abs(theirs.at - ours.at):
        ours.advance()
    return False
