"""A recording's report: its content, its page, and its counts as JSON."""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from ecgfed.base.language import current_language, page_language, tr_later
from ecgfed.base.text import count_of, shortened
from ecgfed.domain.beats.exclusions import Exclusions
from ecgfed.domain.events.ectopy import Ectopy
from ecgfed.domain.events.kinds import KIND_WORDS, Kind
from ecgfed.domain.events.rate_episodes import rate_episodes
from ecgfed.domain.events.rhythm import At, Pauses
from ecgfed.domain.record.metadata import NOT_STATED, Start
from ecgfed.domain.record.recording import Annotation, Recording
from ecgfed.reports.conclusion import conclusion_draft
from ecgfed.reports.drawing import Drawing, Reading, class_rows, lead_rows
from ecgfed.reports.edited import EditedBeats
from ecgfed.reports.event_list import event_list
from ecgfed.reports.intervals import intervals_and_st
from ecgfed.reports.markup import PageTimes
from ecgfed.reports.recording_page import recording_page
from ecgfed.reports.recording_parts import SHORT_S, RecordingParts, Review
from ecgfed.reports.recording_warnings import recording_header, start_s, warnings_and_notes
from ecgfed.reports.resting import rr_range_s
from ecgfed.reports.similar_beats import similar_beats
from ecgfed.reports.twelve_leads import twelve_lead_sheet

#: The filter of the strips.
_FILTER = tr_later("band-pass 0.5 to 40 Hz")


@dataclass(frozen=True, repr=False, eq=False)
class RecordingReport:
    """A recording's report.

    Attributes:
        recording: the recording.
        parts: the content of the report; ``parts.events`` holds every count.
        files: the written files.
        excluded: the beats, annotations and channels that were read, used and excluded, by reason.
    """

    recording: Recording
    parts: RecordingParts
    files: tuple[Path, ...] = ()
    excluded: tuple[Exclusions, ...] = ()

    def __repr__(self) -> str:
        events = self.parts.events
        rate = "no heart rate" if events.rates.mean is None else f"{events.rates.mean:.0f}/min"
        warning_count = len(self.parts.warnings)
        what = f"{count_of(events.counted, 'beat')}, {rate}, {count_of(warning_count, 'warning')}"
        return f"RecordingReport({shortened(self.recording.name, 60)!r}: {what})"

    @cached_property
    def html(self) -> str:
        """The page: one self-contained HTML document."""
        return recording_page(self.parts)

    def to_dict(self) -> dict[str, Any]:
        """Return the counts, their rules and the warnings, JSON-ready; None where not assessed."""
        parts, events = self.parts, self.parts.events
        of_hour = {Kind.VENTRICULAR: "ventricular", Kind.SUPRA: "supra"}
        withheld = dict.fromkeys(of_hour[kind] for kind in events.withheld)
        values: dict[str, Any] = {
            "record": parts.record,
            "lead": parts.lead,
            "lead_segments": [asdict(segment) for segment in parts.lead_segments],
            "start": parts.start or None,
            "patient": dict(parts.patient),
            "duration_s": round(parts.duration_s, 3),
            "labelled_by": parts.labelled_by,
            "provisional": parts.provisional,
            "review": None if parts.review is None else parts.review.to_dict(),
            "usable_s": {row.name: round(row.usable_s, 3) for row in parts.leads},
            "conclusion": {
                "draft": parts.draft,
                "text": parts.conclusion or None,
                "older_than_figures": parts.conclusion_is_older,
            },
            "patient_events": [
                {"time_s": round(event.time_s, 3), "source": event.source, "text": event.text}
                for event in parts.patient_events
            ],
            "intended_use": parts.intended_use,
            "warnings": [{"code": code, "text": text} for code, text in parts.warnings],
            "notes": [{"code": code, "text": text} for code, text in parts.notes],
            "beats": events.total,
            "counted": events.counted,
            "excluded": {f"{exclusions.what}s": exclusions.as_json() for exclusions in self.excluded},
            "by_class": events.by_class,
            "uncertain_by_class": {row.name: row.uncertain for row in parts.classes},
            "rates": asdict(events.rates),
            "pauses": _pauses_dict(events.pauses),
            "variability": asdict(events.variability),
            "intervals": None if parts.intervals is None else parts.intervals.to_dict(),
            "twelve_leads": None if parts.twelve is None else parts.twelve.to_dict(),
            "st": None if parts.st is None else parts.st.to_dict(),
            "ventricular": _ectopy_dict(events.ventricular),
            "supraventricular": _ectopy_dict(events.supra),
            "to_review": {KIND_WORDS[kind]: _ectopy_dict(ectopy) for kind, ectopy in events.to_review.items()},
            "withheld": {KIND_WORDS[kind]: reason for kind, reason in events.withheld.items()},
            "rhythms": [rhythm.to_dict() for rhythm in parts.rhythms],
            "events": [event.to_dict() for event in parts.event_list],
            "header_lines": parts.header_lines,
            "hours": [{**asdict(hour), **withheld} for hour in events.hours],
            "rules": events.rules.to_dict(),
            "files": [str(file) for file in self.files],
        }
        return {name: _as_json(value) for name, value in values.items()}


def _as_json(value: Any) -> Any:
    """Return a value with lists in place of tuples, as JSON has them."""
    if isinstance(value, dict):
        return {name: _as_json(item) for name, item in value.items()}
    return [_as_json(item) for item in value] if isinstance(value, list | tuple) else value


def _ectopy_dict(ectopy: Ectopy | None) -> dict[str, Any] | None:
    if ectopy is None:
        return None
    review = sum(run.review for run in ectopy.runs)
    runs = {"certain_runs": len(ectopy.runs) - review, "runs_to_review": review}
    return {**asdict(ectopy), **runs, "kind": Kind(ectopy.kind).name.lower(), "percent": ectopy.percent}


def _pauses_dict(pauses: Pauses) -> dict[str, Any]:
    """Return the pauses; intervals that were not confirmed are to be reviewed."""

    def rows(intervals: Iterable[At], *, review: bool) -> list[dict[str, Any]]:
        return [{**asdict(interval), "review": review} for interval in intervals]

    return {
        "found": rows(pauses.intervals, review=False),
        "longest": None if pauses.longest is None else asdict(pauses.longest),
        "not_assessed": pauses.not_assessed,
        "ends": [asdict(end) for end in pauses.ends],
        "not_confirmed": rows(pauses.not_confirmed, review=True),
    }


def parts_of(
    reading: Reading,
    marks: Annotation | None,
    *,
    model: tuple[tuple[str, str], ...],
    intended_use: str,
    start: Start = NOT_STATED,
) -> RecordingParts:
    """Return the content of the page, in the current language.

    Args:
        reading: the recording, its labelled beats and their counts.
        marks: the annotation of the labels, None for a model's.
        model: names and values of the model; empty without one.
        intended_use: in one sentence.
        start: when the recording begins, as far as it may be shown.
    """
    recording, labelled = reading.recording, reading.labelled
    short_form = recording.duration_s <= SHORT_S
    times = PageTimes(start_s(start), linked=not short_form)
    rhythms = (*(labelled.rhythms or ()), *rate_episodes(reading.beats, reading.events.rules))
    with ThreadPoolExecutor(1) as pool:  # while the strips are drawn
        warnings = pool.submit(warnings_and_notes, reading, marks, times)
        measured = pool.submit(intervals_and_st, reading)
        drawing = Drawing(reading)
        gallery, averages, comparison = drawing.gallery(), drawing.averages(), drawing.comparison()
        timeline, width = (None, 0.0) if short_form else drawing.timeline()
        listed = event_list(reading.beats, reading.events, rhythms, gallery, reading.patient_events)
        base = labelled if reading.edited is None else reading.edited.base
        more = {"event_strips": drawing.of_events(listed), "groups": similar_beats(drawing.leads, base)}
        data = {**drawing.data(timeline, listed), **more, "short_form": short_form}
        intervals, st = measured.result()
        sheet, data["twelve"] = (None, None) if drawing.twelve is None else twelve_lead_sheet(drawing, intervals)
    leads = lead_rows(reading)
    from_s = labelled.fibrillation_from_s
    drafted = reading.events, rhythms, recording.duration_s, recording.lead, from_s
    with page_language("en"):
        english_draft = conclusion_draft(*drafted)
    return RecordingParts(
        recording.name,
        recording_header(reading, drawing.leads.names if sheet is None else recording.leads, start),
        intended_use,
        labelled.by,
        labelled.provisional,
        *warnings.result(),
        recording.lead,
        leads,
        recording.duration_s,
        reading.events,
        class_rows(reading),
        gallery,
        averages,
        comparison,
        rhythms,
        model,
        _FILTER,
        width,
        {**data, "clock_s": times.start_s},
        labelled.lead_segments,
        listed,
        times=times,
        start=start.isoformat(),
        review=None if reading.edited is None else _review(reading.edited),
        draft=english_draft,
        draft_on_page=conclusion_draft(*drafted),
        patient_events=reading.patient_events,
        twelve=sheet,
        rr_range_s=rr_range_s(reading.beats),
        intervals=intervals,
        st=st,
        fibrillation_from_s=from_s,
        language=current_language(),
    )


def _review(edited: EditedBeats) -> Review:
    edits = edited.edits
    by, at = ("", "") if edits.reviewed is None else (edits.reviewed[0], _minute(edits.reviewed[1]))
    texts = edits.indication, edits.comments, edits.conclusion, edits.conclusion_draft
    counts = int(edited.by_person.sum()), len(edited.removed), int(edited.added.sum())
    return Review(edits.author, _minute(edits.saved_at), by, at, *texts, *counts, edits.document)


def _minute(moment: datetime) -> str:
    return moment.isoformat(" ", "minutes")
