"""Walk two annotation files side by side and pair their beats, as WFDB's ``bxb`` does: the heart of ``ec57``.

Source: app/bxb.c of the WFDB software (last revised 27 April 2020), the reference implementation of ANSI/AAMI EC57's
beat-by-beat comparison; its functions are named where their rules are followed. Its habits are followed too, so that
the numbers are the same:

- time is counted in samples; seconds become samples by rounding to the nearest (``strtim``), the window included;
- each file shows its current beat and the next one; a pair needs both files' next beats to decide it;
- of each file only the last two flutters and shutdowns that were read are remembered;
- one without an end lasts to the end of the file if it is the first of its kind there, or a shutdown of the reference;
  any other keeps the end of the one before it, so that it holds nothing.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum

from ecgfed.record.recording import Annotation

#: Later than any beat: the time of the beat after a file's last.
NEVER = 2**62
#: A flutter wave. Between ``[`` and ``]`` it is passed over; elsewhere ``bxb`` takes it for a QRS complex of no class.
FLUTTER_WAVE = "!"
_NONE = -1


def in_samples(seconds: float, fs_hz: float) -> int:
    """Return a time in samples, rounded to the nearest, a half up (``strtim``): 0.150 s are 38 at 250 Hz."""
    return int(seconds * fs_hz + 0.5)


class Step(Enum):
    """What one step of the walk used up."""

    PAIR = "a beat of each file"
    MISSED = "a beat of the reference alone"
    EXTRA = "a beat of the test alone"


@dataclass
class Stretches:
    """The last two flutters, or shutdowns, that were read from a file; -1 where there was none."""

    begin: int = _NONE
    end: int = _NONE
    begin_before: int = _NONE
    end_before: int = _NONE

    def open(self, at: int) -> None:
        """Begin a new one."""
        self.begin_before, self.end_before, self.begin = self.begin, self.end, at

    def hold(self, at: int) -> bool:
        """Whether a time lies in one of them (``rpann``, ``tpann``)."""
        last = self.begin != _NONE and self.begin <= at and (at <= self.end or self.end == _NONE)
        return last or (self.begin_before != _NONE and self.begin_before <= at <= self.end_before)

    def part(self, before: int, at: int) -> bool:
        """Whether one of them begins between two beats, so that they make no RR interval."""
        return before <= self.begin < at or before <= self.begin_before < at


@dataclass
class Walker:
    """One annotation file while it is walked (``getref`` and ``gettest``).

    Attributes:
        marks: (sample, symbol, subtype) in order of time.
        labels: the label of each beat's symbol.
        window: half-width of a match in samples.
        is_reference: whether a shutdown without an end lasts to the end of the file.
        at: the current beat's sample; 0 before the first, ``NEVER`` after the last.
        label: its label, None where there is no beat.
        following: the next beat's sample.
        rr: the RR interval that ends at the current beat, in samples; 0 where it is none.
        flutter: ``[`` to ``]``.
        shutdown: ``~`` with bits 4 and 5 of its subtype set, to the ``~`` without.
        down: the lengths of all ended shutdowns read, in samples.
        down_since: when a shutdown began that the file does not end.
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
    flutter: Stretches = field(default_factory=Stretches)
    shutdown: Stretches = field(default_factory=Stretches)
    down: int = 0
    down_since: int | None = None
    position: int = 0

    @classmethod
    def over(
        cls, annotation: Annotation, labels: Mapping[str, int], window: int, *, is_reference: bool = False
    ) -> "Walker":
        """Return a walker before the first beat of a file."""
        columns = annotation.sample.tolist(), annotation.symbol.tolist(), annotation.subtypes.tolist()
        return cls(list(zip(*columns, strict=True)), labels, window, is_reference)

    def advance(self) -> None:
        """Go on to the next beat and look for the one after it."""
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
        """Read where a shutdown ends.

        The AHA database has one mark in the middle instead of two: it lasts from a window after the beat or flutter
        before it to a window before the mark after it.
        """
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
    """Walk both files; at each step the walkers stand at what it uses up.

    Args:
        theirs: the reference.
        ours: the annotator under test.
        start: samples that do not count.
        stop: the record's length; None ends with the reference's last beat.
        window: half-width of a match in samples.
    """
    if _to_the_start(theirs, ours, start, window):
        yield Step.PAIR
        theirs.advance()
        ours.advance()
    while theirs.at != NEVER if stop is None else theirs.at <= stop or ours.at <= stop:
        first, second = (ours, theirs) if ours.at < theirs.at else (theirs, ours)
        if _matched(first, second, window):
            yield Step.PAIR
            theirs.advance()
            ours.advance()
        else:
            yield Step.EXTRA if first is ours else Step.MISSED
            first.advance()


def _to_the_start(theirs: Walker, ours: Walker, start: int, window: int) -> bool:
    """Go to the first beats that count; say whether the first test beat is one just before the start.

    A test beat just before the start may belong to a reference beat just after it; one just after the start that
    belongs to nothing, the next one being nearer, does not count.
    """
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


def _matched(first: Walker, second: Walker, window: int) -> bool:
    """Whether the earlier of two current beats belongs to the later one (the criteria 1 and 3 of ``bxb``).

    It does within the window, unless the later one's other neighbour, the next beat of the first file, is as near; but
    that neighbour is no rival where the second file's next beat is nearer to it. The latter matters only where both
    files have beats within twice the window: above 200/min.
    """
    distance = second.at - first.at
    rival = abs(second.at - first.following)
    return distance <= window and (distance < rival or abs(second.following - first.following) < rival)
