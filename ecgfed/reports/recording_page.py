"""A recording's report as one self-contained page, in the order a Holter report is read."""

from ecgfed.base.text import count_of
from ecgfed.domain.events.hours import busiest
from ecgfed.domain.events.kinds import Kind
from ecgfed.reports.conclusion import CONCLUSION_NOTES
from ecgfed.reports.event_list import EVENT_HEAD, event_rows, not_listed
from ecgfed.reports.figures import not_assessed
from ecgfed.reports.headline import ectopy_headline, longest_text, none_detected, pauses_text, rates_text
from ecgfed.reports.interval_table import TITLES, error_text, interval_rows
from ecgfed.reports.markup import Cell, clock, joined, per_cent
from ecgfed.reports.recording_parts import LeadRow, RecordingParts
from ecgfed.reports.recording_tables import (
    LISTED,
    certainty_text,
    hours_table,
    longest_episode,
    rate_table,
    rhythm_table,
)
from ecgfed.reports.rendering import render
from ecgfed.reports.resting import axis_rows, resting_rows
from ecgfed.reports.st_trend import BEHIND_J_MS, LEVEL_MS, MOST_ERROR_MV, SEGMENT_S, st_chart, st_rows
from ecgfed.web.page import inline_page

STYLES = ("paper.css", "report.css", "editing.css")
SCRIPTS = (
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
    "editing.js",
)
SCALE = "25 mm/s, 10 mm/mV"
#: Scale of an average beat: twice that of the strips.
LARGE = {"mm_per_s": 50, "mm_per_unit": 20}


def recording_page(parts: RecordingParts) -> str:
    """Return the whole page as HTML."""
    (lead,) = (row for row in parts.leads if row.name == parts.lead)
    hours_head, hours = hours_table(parts)
    short_form = parts.short_form
    body = render(
        "resting.html.j2" if short_form else "recording.html.j2",
        parts=parts,
        moment=parts.times.moment,
        time=parts.times.text,
        header=parts.header,
        events=parts.events,
        rules=parts.events.rules,
        lead=lead,
        short=resting_rows(parts, lead, _rhythms(parts, lead)) if short_form else _short(parts, lead),
        axes=None if parts.twelve is None else axis_rows(parts.twelve),
        stretches=sorted(sorted(lead.stretches, key=lambda item: item[0] - item[1])[:LISTED]),
        rates=rate_table(parts),
        rhythms=rhythm_table(parts),
        event_head=EVENT_HEAD,
        event_rows=event_rows(parts),
        not_listed=not_listed(parts.events),
        hours_head=hours_head,
        hours=hours,
        interval_head=("Hours", "Beats averaged", *(f"{title}, ms" for title in TITLES.values())),
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
        f"ECG report: {parts.record}",
        body,
        styles=STYLES if parts.disclosure is None else (*STYLES, "disclosure.css"),
        scripts=SCRIPTS if parts.disclosure is None else (*SCRIPTS[:-1], "disclosure.js", SCRIPTS[-1]),
        data={
            **parts.data,
            "scale": f"{SCALE}, {parts.filter_name}",
            "footer": {"record": f"Record {parts.record}", "use": parts.intended_use},
        },
        sheet=f"Record {parts.record}, {parts.review_line}. {parts.intended_use}",
    )


def _short(parts: RecordingParts, lead: LeadRow) -> list[tuple[str, Cell]]:
    """Return the findings in a few lines."""
    events, counted = parts.events, f"{parts.events.counted:,}"
    pauses: Cell = None
    if (longest := events.pauses.longest) is not None:
        text = f"{pauses_text(events.pauses)}; {longest_text(events.pauses)} at "
        pauses = joined(text, parts.times.moment(longest.start_s))
    for rate_at in events.pauses.not_confirmed:
        pauses = joined(pauses, f"; {rate_at.value:.2f} s at ", parts.times.moment(rate_at.start_s), " not confirmed")
    for rate_at in events.pauses.ends:
        pauses = joined(pauses, f"; no beat for {rate_at.value:.1f} s from ", parts.times.moment(rate_at.start_s))
    return [
        ("Beats", counted if events.counted == events.total else f"{counted} counted of {events.total:,} found"),
        ("Heart rate", rates_text(events.rates)),
        ("Pauses", pauses),
        ("Rhythm", _rhythms(parts, lead)),
        ("Ventricular ectopic beats", ectopy_headline(events, Kind.VENTRICULAR, parts.times)),
        ("Supraventricular ectopic beats", ectopy_headline(events, Kind.SUPRA, parts.times)),
        ("Usable", f"{clock(lead.usable_s)} of {clock(parts.duration_s)} ({lead.percent:.2f}%) of {lead.name}"),
    ]


def _rhythms(parts: RecordingParts, lead: LeadRow) -> Cell:
    """Return the share of each rhythm but sinus rhythm, its longest episode and its certainty."""
    found: Cell = None
    for rhythm in parts.named_rhythms:
        share = f"{rhythm.rhythm} {per_cent(100 * rhythm.seconds / parts.duration_s)}"
        text = joined(
            share, f" in {count_of(len(rhythm.episodes), 'episode')}, longest ", longest_episode(parts.times, rhythm)
        )
        if certainty := certainty_text(rhythm):
            text = joined(text, f", certainty {certainty}: to be reviewed")
        found = text if found is None else joined(found, "; ", text)
    if found is None:
        found = none_detected(parts.events, parts.duration_s, lead.percent)
    if found is None:
        return None
    if any(rhythm.rhythm == "paced" and rhythm.source == "signal" for rhythm in parts.rhythms):
        found = joined(found, "; atrial fibrillation is not assessed where the rhythm is paced")
    return joined(found, "; flutter with regular intervals is not assessed")
