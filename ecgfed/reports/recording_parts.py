"""The content of a recording's report before it is rendered: numbers and text, without file paths."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from ecgfed.base.language import tr, tr_later
from ecgfed.domain.events.certainty import by_certainty
from ecgfed.domain.events.figure import Measurement
from ecgfed.domain.events.find import Events
from ecgfed.domain.events.kinds import Kind
from ecgfed.domain.events.patient_event import PatientEvent
from ecgfed.domain.events.rhythm import LeadSegment
from ecgfed.domain.events.rhythm_episodes import RhythmEpisodes
from ecgfed.reports.interval_table import NormalIntervals
from ecgfed.reports.markup import ELAPSED, PageTimes, minute_text
from ecgfed.reports.st_trend import StTrend

NOT_REVIEWED = tr_later("not reviewed")
#: A recording of at most so many seconds has the short form of a resting ECG, without the tables of a Holter report.
SHORT_S = 60.0


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
        printed: whether it is printed too, not only shown on the screen.
    """

    title: str
    caption: str
    number: int
    at_s: float | None = None
    printed: bool = True


@dataclass(frozen=True)
class ListedEvent:
    """A run, a pause, an episode of a rhythm or a patient event in the list of events.

    Attributes:
        kind: ``ventricular run``, ``supraventricular run``, ``pause``, ``interval not confirmed``, ``no beat at an
            end``, ``rhythm`` or ``patient event``.
        name: its name: ``VT``, ``AF``, ``diary entry``.
        start_s: where it begins, in seconds; of a run its first beat.
        stop_s: where it ends; of a run its last beat.
        beats: number of its counted beats; None for intervals, and where no beat is counted.
        per_min: its rate in beats a minute; None where it has none.
        confidence: of a run the mean probability of its kind, of an episode its certainty; None where not assessed.
        review: it must be reviewed before it counts as a finding.
        uncertain: number of its beats of low confidence; None where not assessed.
        cut: it begins or ends at an unusable stretch, so that it may be longer.
        strip: the number of the first strip that shows where it begins; None where none does.
        text: of a patient event what the patient or the recorder states, where it may be shown.
        context: of a patient event the ectopic beats and rhythms around it.
        undetected: how many of a run's beats are waves that may be undetected beats.
    """

    kind: str
    name: str
    start_s: float
    stop_s: float
    beats: int | None = None
    per_min: float | None = None
    confidence: float | None = None
    review: bool = False
    uncertain: int | None = None
    cut: bool = False
    strip: int | None = None
    text: str = ""
    context: str = ""
    undetected: int = 0

    def to_dict(self) -> dict[str, object]:
        """Return a JSON-ready dictionary."""
        values = asdict(self)
        for name, digits in (("start_s", 3), ("stop_s", 3), ("per_min", 1), ("confidence", 3)):
            values[name] = None if values[name] is None else round(values[name], digits)
        return values


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
class Review:
    """What a physician edited and wrote.

    Attributes:
        author: who made the edits.
        saved_at: when they were saved, in ISO format with the offset from UTC.
        reviewed_by: who reviewed the report; ``""`` for nobody.
        reviewed_at: when, likewise.
        indication: text.
        comments: text.
        conclusion: text.
        conclusion_draft: the draft of the conclusion when it was accepted or last changed; ``""`` where not known.
        beats: number of remaining beats that a person labelled, or whose label a person accepted.
        removed: number of removed beats.
        added: number of added beats that remain, also in ``beats``.
        document: the edits as they are saved.
    """

    author: str
    saved_at: str
    reviewed_by: str
    reviewed_at: str
    indication: str
    comments: str
    conclusion: str
    conclusion_draft: str
    beats: int
    removed: int
    added: int
    document: Mapping[str, Any] = field(repr=False)

    @property
    def line(self) -> str:
        """Who reviewed the report and when, in the current language."""
        if not self.reviewed_by:
            return tr(NOT_REVIEWED)
        return tr("reviewed by {name} at {time}", name=self.reviewed_by, time=minute_text(self.reviewed_at))

    def to_dict(self) -> dict[str, object]:
        """Return a JSON-ready dictionary, without the edits themselves."""
        return {of.name: getattr(self, of.name) for of in fields(self) if of.name != "document"}


@dataclass(frozen=True)
class TwelveLeadPage:
    """The twelve leads of a recording on one sheet.

    Attributes:
        derived: leads that were computed from I and II.
        start_s: where the sheet begins, in seconds.
        seconds: how much of the recording it shows.
        axes: name among ``AXES`` -> the axis in degrees, or why it was not assessed.
        averaged: beats in the average beat of each lead; 0 without one.
        measured_in: the lead in which the onsets and ends drawn there were located.
    """

    derived: tuple[str, ...]
    start_s: float
    seconds: float
    axes: dict[str, Measurement]
    averaged: int
    measured_in: str

    def to_dict(self) -> dict[str, object]:
        """Return a JSON-ready dictionary."""
        axes = {name: axis.to_dict() for name, axis in self.axes.items()}
        return {"derived": self.derived, "start_s": round(self.start_s, 3), "averaged": self.averaged, **axes}


@dataclass(frozen=True)
class Disclosure:
    """What full disclosure adds to a page.

    Attributes:
        lead: the lead that is drawn.
        hours: number of sheets, the last one maybe not full.
        column_s: seconds whose lowest and highest value a column holds.
        size_mb: what it adds to the page, in megabytes.
        data: for the page's script.
    """

    lead: str
    hours: int
    column_s: float
    size_mb: float
    data: dict[str, Any]


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
        event_list: every run, pause and rhythm episode, in order of time.
        header_lines: the recording's header on patient and recording; None where it was not requested.
        review: what a physician edited and wrote; None without edits.
        times: how times are written.
        start: the start as far as it may be shown, ISO 8601; "" where it is not known.
        patient: names and values of patient and recording that were requested.
        intervals: of the average normal beat; None where they were not measured.
        draft: the lines of the conclusion, drafted from the figures, in English.
        draft_on_page: the same in the language of the page.
        patient_events: what the patient marked on the recorder or wrote in a diary.
        twelve: the twelve leads; None where the recording does not have them.
        rr_range_s: shortest and longest interval between two normal beats, in seconds; None with few of them.
        st: its ST level as a trend, experimental; None where it was not measured.
        disclosure: every minute of the recording; None where it was not requested.
        fibrillation_from_s: the shortest episode of atrial fibrillation that is detected in the signal, in seconds, the
            whole of a strip; None where it was not assessed there.
        language: of the page; warnings, notes and names are English texts that the page translates.
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
    event_list: tuple[ListedEvent, ...] = ()
    header_lines: tuple[str, ...] | None = None
    times: PageTimes = ELAPSED
    start: str = ""
    patient: tuple[tuple[str, str], ...] = ()
    intervals: NormalIntervals | None = None
    review: Review | None = None
    draft: tuple[str, ...] = ()
    draft_on_page: tuple[str, ...] = ()
    patient_events: tuple[PatientEvent, ...] = ()
    twelve: TwelveLeadPage | None = None
    rr_range_s: tuple[float, float] | None = None
    st: StTrend | None = None
    disclosure: Disclosure | None = None
    fibrillation_from_s: float | None = None
    language: str = "en"

    @property
    def conclusion(self) -> str:
        """The conclusion that a reader accepted or wrote; ``""`` for none, or for blanks alone."""
        return "" if self.review is None or not self.review.conclusion.strip() else self.review.conclusion

    @property
    def conclusion_is_older(self) -> bool:
        """Whether the figures have changed since the conclusion was accepted or written, as far as that is known."""
        drafted = "" if self.review is None else self.review.conclusion_draft
        return bool(self.conclusion and drafted) and drafted != "\n".join(self.draft)

    @property
    def named_rhythms(self) -> tuple[RhythmEpisodes, ...]:
        """The rhythms as the page names them: episodes with a certainty below 50% apart, as possible ones."""
        return tuple(part for rhythm in self.rhythms for part in by_certainty(rhythm))

    @property
    def short_form(self) -> bool:
        """Whether the report is that of a resting ECG."""
        return self.duration_s <= SHORT_S

    @property
    def review_line(self) -> str:
        """Who reviewed the report and when, in the current language."""
        return tr(NOT_REVIEWED) if self.review is None else self.review.line
