"""What a recording's report holds, before it is a page: plain numbers and words, nothing of the folders behind it."""

from dataclasses import dataclass, field
from typing import Any

from ecgfed.domain.events.find import Events
from ecgfed.domain.events.kinds import Kind
from ecgfed.domain.events.rhythm import LeadSegment, RhythmEpisodes


@dataclass(frozen=True)
class ClassRow:
    """One class of beats.

    Attributes:
        code: what is written on a strip, a WFDB symbol.
        name: the class's name.
        meaning: in words.
        kind: what it counts as.
        beats: beats of it in no unusable stretch.
        uncertain: how many of them are uncertain; None where nobody looked.
    """

    code: str
    name: str
    meaning: str
    kind: Kind
    beats: int
    uncertain: int | None = None


@dataclass(frozen=True)
class LeadRow:
    """One lead: its name, usable seconds, share of the recording in percent, seconds by reason, and bad stretches.

    A stretch is (start in seconds, stop in seconds, reason).
    """

    name: str
    usable_s: float
    percent: float
    seconds: dict[str, float]
    stretches: tuple[tuple[float, float, str], ...]


@dataclass(frozen=True)
class Drawn:
    """Something drawn on ECG paper.

    Attributes:
        title: what it shows.
        about: one line more.
        number: of the strip in the page's data.
        at_s: where it begins, in seconds; None where it is an average.
    """

    title: str
    about: str
    number: int
    at_s: float | None = None


@dataclass(frozen=True)
class Comparison:
    """Where two readers of the same beats disagree.

    Attributes:
        first: who the report follows, ``the model of patient 208``.
        second: the other one.
        beats: how many beats both read.
        pairs: (first's class, second's class, beats), most first.
        strips: where they disagree.
    """

    first: str
    second: str
    beats: int
    pairs: tuple[tuple[str, str, int], ...]
    strips: tuple[Drawn, ...]

    @property
    def apart(self) -> int:
        """On how many beats they disagree."""
        return sum(count for _, _, count in self.pairs)


@dataclass(frozen=True)
class RecordingParts:
    """What a recording's report holds.

    Attributes:
        record: the recording's name.
        about: names and values of the header.
        intended_use: what the report is for.
        labelled_by: who says what each beat is.
        provisional: whether nobody has read the labels over.
        warnings: (code, sentence), the gravest first.
        notes: (code, sentence), what changes no figure of the headline.
        lead: the lead that was read.
        leads: every lead's quality.
        duration_s: length in seconds.
        events: what was counted.
        classes: all classes.
        gallery: strips.
        averages: the average beat of each class.
        comparison: with another reader, or None.
        rhythms: detected in the signal, or marked in the labels' file.
        model: names and values about the model; empty where none was used.
        filter_name: through which the strips went.
        bin_s: seconds of a stretch of the timeline.
        data: what the page's scripts read.
        lead_segments: which leads had a say in what is a beat, from start to end; none where nobody looked.
    """

    record: str
    about: tuple[tuple[str, str], ...]
    intended_use: str
    labelled_by: str
    provisional: bool
    warnings: tuple[tuple[str, str], ...]
    notes: tuple[tuple[str, str], ...]
    lead: str
    leads: tuple[LeadRow, ...]
    duration_s: float
    events: Events
    classes: tuple[ClassRow, ...]
    gallery: tuple[Drawn, ...]
    averages: tuple[Drawn, ...]
    comparison: Comparison | None
    rhythms: tuple[RhythmEpisodes, ...]
    model: tuple[tuple[str, str], ...]
    filter_name: str
    bin_s: float
    data: dict[str, Any] = field(repr=False)
    lead_segments: tuple[LeadSegment, ...] = ()
