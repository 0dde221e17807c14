"""Beats that are announced at once and corrected later, each with an id that does not change."""

from bisect import insort
from dataclasses import dataclass
from operator import attrgetter
from typing import Literal

from ecgfed.domain.beats.extract import MATCH_S
from ecgfed.domain.signal.qrs import DELAY_S

#: Seconds after its R peak at which a beat has its first class, whether the next one is known or not.
CLASS_S = 2.5
#: After so many seconds the detector has decided on a beat, and its first class was due.
OPEN_S = 6.0

Change = Literal["announced", "added", "moved", "withdrawn"]


@dataclass(frozen=True)
class PeakEvent:
    """What has become known of one R peak.

    Attributes:
        change: ``announced``: a beat, before the detector has decided; ``added``: a beat that was not announced and
            that the detector has; ``moved``: its R peak is elsewhere; ``withdrawn``: it is none after all.
        beat: its id: 0, 1, 2 and so on in the order in which beats became known.
        sample: its R peak.
    """

    change: Change
    beat: int
    sample: int


@dataclass
class Announced:
    """A beat that is known and not final.

    Attributes:
        beat: its id.
        sample: its R peak.
        decided: whether the detector has it.
        classified: whether its first class was due.
    """

    beat: int
    sample: int
    decided: bool
    classified: bool = False


class Announcements:
    """All beats of a stream that are known and not final, in order of time.

    Args:
        fs_hz: sampling frequency in Hz.
    """

    def __init__(self, fs_hz: float) -> None:
        self._match, self._expires = round(MATCH_S * fs_hz), DELAY_S * fs_hz
        self._class_after, self._open = CLASS_S * fs_hz, OPEN_S * fs_hz
        self._beats: list[Announced] = []
        self._next = 0

    def _add(self, sample: int, *, decided: bool) -> Announced:
        beat = Announced(self._next, sample, decided)
        self._next += 1
        insort(self._beats, beat, key=attrgetter("sample"))
        return beat

    def announce(self, sample: int) -> list[PeakEvent]:
        """Take an R peak that the detector has not decided on; one beside a known one is that one."""
        if any(abs(beat.sample - sample) < self._match for beat in reversed(self._beats[-8:])):
            return []
        return [PeakEvent("announced", self._add(sample, decided=False).beat, sample)]

    def decide(self, sample: int) -> list[PeakEvent]:
        """Take an R peak that the detector has decided on: the nearest one announced, if any is within 150 ms."""
        near = [beat for beat in self._beats if not beat.decided and abs(beat.sample - sample) <= self._match]
        if not near:
            return [PeakEvent("added", self._add(sample, decided=True).beat, sample)]
        beat = min(near, key=lambda beat: abs(beat.sample - sample))
        beat.decided, has_moved, beat.sample = True, beat.sample != sample, sample
        self._beats.sort(key=attrgetter("sample"))
        return [PeakEvent("moved", beat.beat, sample)] if has_moved else []

    def expire(self, now: int, *, ended: bool = False) -> list[PeakEvent]:
        """Withdraw what the detector would have decided on by now."""
        some = self._beats if ended else self._last(now)
        gone = [beat for beat in some if not beat.decided and (ended or now >= beat.sample + self._expires)]
        for beat in gone:
            self._beats.remove(beat)
        return [PeakEvent("withdrawn", beat.beat, beat.sample) for beat in gone]

    def remove(self, sample: int) -> int:
        """Forget the beat at an R peak that the detector has decided on, and return its id."""
        (beat,) = (beat for beat in self._beats if beat.decided and beat.sample == sample)
        self._beats.remove(beat)
        return beat.beat

    def id_of(self, sample: int) -> int:
        """Return the id of the beat at an R peak that the detector has decided on."""
        (beat,) = (beat.beat for beat in self._beats if beat.decided and beat.sample == sample)
        return beat

    def due(self, now: int, ahead: int, step: int) -> list[tuple[Announced, int | None]]:
        """Return the beats whose first class is due, and the R peak that follows each, None where none is known.

        Args:
            now: samples that have come.
            ahead: samples after an R peak that its window needs.
            step: samples until the next call, at most.
        """
        due = []
        following: int | None = None
        for beat in reversed(self._last(now)):
            late = now + step > beat.sample + self._class_after
            if not beat.classified and now >= beat.sample + ahead and (following is not None or late):
                due.append((beat, following))
            following = beat.sample
        return due[::-1]

    def _last(self, now: int) -> list[Announced]:
        """Return the beats of the last seconds; of those before, all is decided that is decided of them here."""
        number = len(self._beats)
        while number and now < self._beats[number - 1].sample + self._open:
            number -= 1
        return self._beats[number:]

    def between(self, after: int, upto: int) -> list[int]:
        """Return the R peaks after one sample up to another."""
        return [beat.sample for beat in self._beats if after < beat.sample <= upto]
