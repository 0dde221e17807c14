"""The content of a recording's report before it is rendered: numbers and text, without file paths."""

from dataclasses import dataclass, field
from typing import Any

from ecgfed.domain.events.find import Events
from ecgfed.domain.events.kinds import Kind
from ecgfed.domain.events.rhythm import LeadSegment, RhythmEpisodes


@dataclass(frozen=True)
class ClassSummary:
    """One class of beats.

    Attributes:
        code: its WFDB symbol, as drawn on strips.
        name: its name.
        meaning: its description.
        kind: what it counts as.
        beats: number of its beats outside unusable stretches.
        uncertain: how many of them are uncertain; None where not assessed.
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
    """A strip drawn on ECG paper.

    Attributes:
        title: what it shows.
        caption: a line below the title.
        number: its index in the page's data.
        at_s: where it begins, in seconds; None for an average beat.
    """

    title: str
    caption: str
    number: int
    at_s: float | None = None


@dataclass(frozen=True)
class ReaderComparison:
    """Where two readers of the same beats disagree.

    Attributes:
        first: the reader that the report follows, ``the model of patient 208``.
        second: the second reader.
        beats: number of beats that both labelled.
        pairs: (first's class, second's class, beats), most frequent first.
        strips: examples of disagreement.
    """

    first: str
    second: str
    beats: int
    pairs: tuple[tuple[str, str, int], ...]
    strips: tuple[Drawn, ...]

    @property
    def disagreements(self) -> int:
        """Number of beats on which they disagree."""
        return sum(count for _, _, count in self.pairs)


@dataclass(frozen=True)
class RecordingParts:
    """The content of a recording's report.

    Attributes:
        record: the recording's name.
        header: names and values of the header.
        intended_use: what the report is for.
        labelled_by: who labelled the beats.
        provisional: whether the labels have not been reviewed by a person.
        warnings: (code, sentence), the most severe first.
        notes: (code, sentence), which change no figure of the headline.
        lead: the lead that was read.
        leads: quality of every lead.
        duration_s: length in seconds.
        events: all counts.
        classes: all classes.
        gallery: strips.
        averages: the average beat of each class.
        comparison: with a second reader, or None.
        rhythms: detected in the signal, marked in the file of labels, or by the heart rate.
        model: names and values of the model; empty without one.
        filter_name: the filter that the strips were passed through.
        bin_s: seconds in a bin of the timeline.
        data: the data of the page's scripts.
        lead_segments: which leads the beat detection used, from start to end; empty where not assessed.
    """

    record: str
    header: tuple[tuple[str, str], ...]
    intended_use: str
    labelled_by: str
    provisional: bool
    warnings: tuple[tuple[str, str], ...]
    notes: tuple[tuple[str, str], ...]
    lead: str
    leads: tuple[LeadRow, ...]
    duration_s: float
    events: Events
    classes: tuple[ClassSummary, ...]
    gallery: tuple[Drawn, ...]
    averages: tuple[Drawn, ...]
    comparison: ReaderComparison | None
    rhythms: tuple[RhythmEpisodes, ...]
    model: tuple[tuple[str, str], ...]
    filter_name: str
    bin_s: float
    data: dict[str, Any] = field(repr=False)
    lead_segments: tuple[LeadSegment, ...] = ()
