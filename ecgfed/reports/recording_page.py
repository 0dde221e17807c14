"""A recording's report as one self-contained page, in the order a Holter report is read."""

from ecgfed.base.language import number, page_language, tr, translated, trn
from ecgfed.domain.events.hours import busiest
from ecgfed.domain.events.kinds import Kind
from ecgfed.reports.conclusion import CONCLUSION_NOTES
from ecgfed.reports.event_list import EVENT_HEAD, event_rows, not_listed
from ecgfed.reports.figures import not_assessed
from ecgfed.reports.headline import (
    ectopy_headline,
    longest_text,
    none_detected,
    pauses_text,
    rates_text,
    with_counted_share,
)
from ecgfed.reports.interval_table import TITLES, error_text, interval_rows
from ecgfed.reports.markup import Cell, clock, day_text, joined, minute_text, per_cent, tr_markup
from ecgfed.reports.recording_parts import LeadRow, RecordingParts
from ecgfed.reports.recording_tables import (
    LISTED,
    RHYTHM_HEAD,
    certainty_text,
    hours_table,
    longest_episode,
    rate_table,
    rhythm_table,
    variability_table,
)
from ecgfed.reports.rendering import render
from ecgfed.reports.resting import axis_rows, resting_rows
from ecgfed.reports.st_trend import BEHIND_J_MS, LEVEL_MS, MOST_ERROR_MV, SEGMENT_S, st_chart, st_rows
from ecgfed.web.page import inline_page

STYLES = ("paper.css", "report.css", "editing.css")
SCRIPTS = (
    "language.js",
    "paper.js",
    "twelve.js",
    "beats.js",
    "counts.js",
    "words.js",
    "tables.js",
    "edits_file.js",
    "conclusion.js",
    "edits.js",
    "adding.js",
    "report.js",
    "edited_page.js",
    "editing_texts.js",
    "editing.js",
)
SCALE = "25 mm/s, 10 mm/mV"
#: Scale of an average beat: twice that of the strips.
LARGE = {"mm_per_s": 50, "mm_per_unit": 20}


def recording_page(parts: RecordingParts) -> str:
    """Return the whole page as HTML, in the report's language."""
    with page_language(parts.language):
        return _page(parts)


def _page(parts: RecordingParts) -> str:
    (lead,) = (row for row in parts.leads if row.name == parts.lead)
    hours_head, hours = hours_table(parts)
    short_form = parts.short_form
    body = render(
        "resting.html.j2" if short_form else "recording.html.j2",
        parts=parts,
        moment=parts.times.moment,
        time=parts.times.text,
        header=parts.header,
        saved_at=None if parts.review is None else minute_text(parts.review.saved_at),
        reviewed_at=None if parts.review is None else minute_text(parts.review.reviewed_at),
        patient=[(translated(name), _patient_value(name, value)) for name, value in parts.patient],
        filter_name=translated(parts.filter_name),
        events=parts.events,
        rules=parts.events.rules,
        lead=lead,
        short=resting_rows(parts, lead, _rhythms(parts)) if short_form else _short(parts, lead),
        axes=None if parts.twelve is None else axis_rows(parts.twelve),
        stretches=sorted(sorted(lead.stretches, key=lambda item: item[0] - item[1])[:LISTED]),
        rates=rate_table(parts),
        variability=variability_table(parts),
        rhythm_head=[tr(name) for name in RHYTHM_HEAD],
        rhythms=rhythm_table(parts),
        event_head=[tr(name) for name in EVENT_HEAD],
        event_rows=event_rows(parts),
        not_listed=not_listed(parts.events),
        hours_head=hours_head,
        hours=hours,
        interval_head=(tr("Hours"), tr("Beats averaged"), *(f"{title}, ms" for title in TITLES.values())),
        interval_rows=[] if parts.intervals is None else list(interval_rows(parts.intervals, parts.times)),
        error=error_text,
        st_chart=None if parts.st is None else st_chart(parts.st, parts.times),
        st_rows=[] if parts.st is None else list(st_rows(parts.st, parts.times)),
        level_ms=LEVEL_MS,
        behind_j_ms=BEHIND_J_MS,
        segment_s=SEGMENT_S,
        most_error_mv=MOST_ERROR_MV,
        max_rows=LISTED,
        scale=SCALE,
        large=LARGE,
        Kind=Kind,
        busiest=busiest,
        limits=not_assessed(parts),
        conclusion_notes=CONCLUSION_NOTES,
    )
    return inline_page(
        tr("ECG report: {record}", record=parts.record),
        body,
        styles=STYLES if parts.disclosure is None else (*STYLES, "disclosure.css"),
        scripts=SCRIPTS if parts.disclosure is None else (*SCRIPTS[:-1], "disclosure.js", SCRIPTS[-1]),
        data={
            **parts.data,
            "record": parts.record,
            "scale": f"{SCALE}, {translated(parts.filter_name)}",
            "footer": {"record": tr("Record {record}", record=parts.record), "use": translated(parts.intended_use)},
        },
        sheet=tr(
            "Record {record}, {reviewed}. {use}",
            record=parts.record,
            reviewed=parts.review_line,
            use=translated(parts.intended_use),
        ),
    )


def _patient_value(name: str, value: str) -> str:
    """Return what the page states of the patient: a date as its language writes it."""
    return day_text(value) if name == "Date" else translated(value)


def _short(parts: RecordingParts, lead: LeadRow) -> list[tuple[str, Cell]]:
    """Return the findings in a few lines."""
    events, times = parts.events, parts.times
    pauses: Cell = None
    if (longest := events.pauses.longest) is not None:
        text = tr("; ").join((pauses_text(events.pauses), longest_text(events.pauses)))
        pauses = tr_markup("{pauses} at {time}", pauses=text, time=times.moment(longest.start_s))
    for at in events.pauses.not_confirmed:
        text = tr_markup("{value:.2f} s at {time} not confirmed", value=at.value, time=times.moment(at.start_s))
        pauses = joined(pauses, tr("; "), text)
    for at in events.pauses.ends:
        text = tr_markup("no beat for {value:.1f} s from {time}", value=at.value, time=times.moment(at.start_s))
        pauses = joined(pauses, tr("; "), text)
    counted: Cell = number(events.counted)
    if events.counted != events.total:
        counted = tr("{n} counted of {total} found", n=events.counted, total=events.total)
    usable = tr(
        "{usable} of {duration} ({share:.2f}%) of {lead}",
        usable=clock(lead.usable_s),
        duration=clock(parts.duration_s),
        share=lead.percent,
        lead=lead.name,
    )
    return [
        (tr("Beats"), counted),
        (tr("Heart rate"), rates_text(events.rates)),
        (tr("Pauses"), pauses),
        (tr("Rhythm"), _rhythms(parts)),
        (tr("Ventricular ectopic beats"), ectopy_headline(events, Kind.VENTRICULAR, times)),
        (tr("Supraventricular ectopic beats"), ectopy_headline(events, Kind.SUPRA, times)),
        (tr("Usable"), with_counted_share(usable, lead, events)),
    ]


def _rhythms(parts: RecordingParts) -> Cell:
    """Return the share of each rhythm but sinus rhythm, its longest episode and its certainty."""
    rhythms: Cell = None
    for rhythm in parts.named_rhythms:
        text = tr_markup(
            "{rhythm} {share} in {episodes}, longest {longest}",
            rhythm=translated(rhythm.rhythm),
            share=per_cent(100 * rhythm.seconds / parts.duration_s),
            episodes=trn("{n} episode", "{n} episodes", len(rhythm.episodes)),
            longest=longest_episode(parts.times, rhythm),
        )
        if certainty := certainty_text(rhythm):
            text = tr_markup("{rhythm}, certainty {certainty}: to be reviewed", rhythm=text, certainty=certainty)
        rhythms = text if rhythms is None else joined(rhythms, tr("; "), text)
    if rhythms is None:
        rhythms = none_detected(parts.events, parts.duration_s, parts.fibrillation_from_s)
    if rhythms is None:
        return None
    if any(rhythm.rhythm == "paced" and rhythm.source == "signal" for rhythm in parts.rhythms):
        rhythms = tr_markup("{rhythms}; atrial fibrillation is not assessed where the rhythm is paced", rhythms=rhythms)
    return tr_markup("{rhythms}; flutter with regular intervals is not assessed", rhythms=rhythms)
