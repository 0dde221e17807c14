"""A recording's report as one self-contained page, in the order a Holter report is read."""

from collections.abc import Sequence

from ecgfed.base.text import count_of
from ecgfed.domain.events.find import Events
from ecgfed.domain.events.kinds import Kind
from ecgfed.reports.headline import ectopy_headline, longest_text, pauses_text, rates_text
from ecgfed.reports.markup import (
    NOT_ASSESSED,
    Cell,
    clock,
    joined,
    key_values,
    moment,
    paragraph,
    per_cent,
    section,
    table,
)
from ecgfed.reports.recording_ectopy import ectopy_table, review_rule
from ecgfed.reports.recording_parts import Drawn, ReaderComparison, RecordingParts
from ecgfed.reports.recording_tables import (
    classes_table,
    comparison_table,
    hours_table,
    not_assessed_list,
    quality_table,
    rate_table,
    rhythms_table,
    stretches_table,
    variability_table,
)
from ecgfed.web.page import escaped, inline_page

STYLES = ("paper.css", "report.css")
SCRIPTS = ("paper.js", "report.js")
SCALE = "25 mm/s, 10 mm/mV"
#: Scale of an average beat: twice that of the strips.
LARGE = {"mm_per_s": 50, "mm_per_unit": 20}


def recording_page(parts: RecordingParts) -> str:
    """Return the whole page as HTML."""
    body = "\n".join(
        [
            '<a class="skip" href="#warnings">To the findings</a>',
            _header(parts),
            "<main>",
            _warnings(parts),
            _short(parts),
            _quality(parts),
            section(
                "rhythm",
                "Heart rate, pauses and variability",
                rate_table(parts),
                variability_table(parts),
                rhythms_table(parts),
            ),
            _timeline(parts),
            section(
                "ectopy",
                "Ectopic beats",
                _counted(parts),
                ectopy_table(parts),
                classes_table(parts),
                hours_table(parts),
            ),
            _gallery(parts),
            _averages(parts),
            _comparison(parts),
            _model(parts),
            _notes(parts),
            _reading(parts),
            "</main>",
            "<noscript><p>A script inside this page draws strips and timeline; here it is switched off.</p></noscript>",
        ]
    )
    data = {**parts.data, "scale": f"{SCALE}, {parts.filter_name}"}
    return inline_page(
        f"ECG report: {parts.record}",
        body,
        styles=STYLES,
        scripts=SCRIPTS,
        data=data,
        sheet=f"Record {parts.record}. {parts.intended_use}",
    )


def _header(parts: RecordingParts) -> str:
    return (
        f"<header>\n<h1>ECG report: record {escaped(parts.record)}</h1>\n"
        f'<p class="use"><strong>{escaped(parts.intended_use)}</strong></p>\n{key_values(parts.header)}\n</header>'
    )


def _warnings(parts: RecordingParts) -> str:
    if not parts.warnings:
        text = "None. Counts that are withheld or to be reviewed are marked as such."
        return section("warnings", "Warnings", paragraph(text))
    items = _listed(parts.warnings, sign=True)
    return section("warnings", f"Warnings ({len(parts.warnings)})", items, kind="warned")


def _notes(parts: RecordingParts) -> str:
    return section("notes", "Notes", _listed(parts.notes)) if parts.notes else ""


def _listed(items: Sequence[tuple[str, str]], *, sign: bool = False) -> str:
    mark = '<span class="sign" aria-hidden="true">!</span> ' if sign else ""
    return (
        "<ul>"
        + "".join(f'<li data-code="{escaped(code)}">{mark}{escaped(text)}</li>' for code, text in items)
        + "</ul>"
    )


def _short(parts: RecordingParts) -> str:
    """Return the findings in a few lines."""
    events = parts.events
    longest = events.pauses.longest
    pauses: Cell = (
        None
        if longest is None
        else joined(f"{pauses_text(events.pauses)}; {longest_text(events.pauses)} at ", moment(longest.start_s))
    )
    for rate_at in events.pauses.not_confirmed:
        pauses = joined(pauses, f"; {rate_at.value:.2f} s at ", moment(rate_at.start_s), " not confirmed")
    for rate_at in events.pauses.ends:
        pauses = joined(pauses, f"; no beat for {rate_at.value:.1f} s from ", moment(rate_at.start_s))
    (lead,) = (rate_at for rate_at in parts.leads if rate_at.name == parts.lead)
    rows = key_values(
        [
            ("Beats", _beats(events)),
            ("Heart rate", rates_text(events.rates)),
            ("Pauses", pauses),
            ("Ventricular ectopic beats", ectopy_headline(events, Kind.VENTRICULAR)),
            ("Supraventricular ectopic beats", ectopy_headline(events, Kind.SUPRA)),
            ("Usable", f"{clock(lead.usable_s)} of {clock(parts.duration_s)} ({lead.percent:.2f}%) of {lead.name}"),
        ]
    )
    description = f"Beat labels: {parts.labelled_by}"
    return section(
        "short",
        "In short",
        rows,
        paragraph(f"{description}{'; provisional, not reviewed by a person.' if parts.provisional else '.'}"),
    )


def _quality(parts: RecordingParts) -> str:
    rest = parts.events.total - parts.events.counted
    text = f"No beat lies in an unusable stretch of {parts.lead}."
    if rest:
        lie = count_of(rest, "beat lies", "beats lie")
        text = f"{lie} in unusable stretches of {parts.lead} and {'is' if rest == 1 else 'are'} in no count below."
    text += " No interval is measured across one."
    return section("quality", "Signal quality", quality_table(parts), paragraph(text), stretches_table(parts))


def _timeline(parts: RecordingParts) -> str:
    button = '<button type="button" id="timeline-{}">{}</button>'
    buttons = [
        ("before", "Previous ectopic beat"),
        ("earlier", "Earlier"),
        ("later", "Later"),
        ("after", "Next ectopic beat"),
    ]
    what = (
        f"Each column is {_duration(parts.bin_s)}: the mean heart rate as a line, the rates of its longest and its "
        "shortest interval as a band; beats of each class but the most frequent one; the share that is not usable."
    )
    how = "Choose a column to see 10 s of it: click, or use the arrow keys, Page Up, Page Down, Home and End."
    if parts.bin_s > 10:
        how += " The 10 s are those with most ectopic beats in the column, else its middle."
    slider = (
        '<div id="timeline-slider" role="slider" tabindex="0" aria-label="Place in the recording" aria-valuemin="0" '
        'aria-valuemax="0" aria-valuenow="0" aria-valuetext=""></div>'
    )
    chosen = (
        f'<div class="chosen"><p class="steps">{"".join(button.format(*step) for step in buttons)}</p>'
        '<p id="timeline-said"></p><figure class="strip">'
        '<div id="timeline-strip" class="paper" role="group" aria-label="Chosen strip"></div>'
        '<figcaption id="timeline-caption"></figcaption></figure></div>'
    )
    lines = f'<div class="line-host">{slider}</div>'
    return section("timeline", "The whole recording", paragraph(what), paragraph(how, kind="screen"), lines, chosen)


def _duration(seconds: float) -> str:
    return count_of(round(seconds / 60), "minute") if seconds >= 60 else f"{seconds:g} s"


def _beats(events: Events) -> str:
    every = f"{events.total:,}"
    return every if events.counted == events.total else f"{events.counted:,} counted of {every} found"


def _counted(parts: RecordingParts) -> str:
    text = "Beats are assigned to runs first, then to bigeminy and trigeminy; the rest are couplets and single beats."
    if parts.provisional:
        text += f" All counts rest on labels that no person has reviewed. {review_rule(parts.events.rules)}"
    return paragraph(text)


def _strip(strip: Drawn, level: int = 3) -> str:
    position = "" if strip.at_s is None else joined("from ", moment(strip.at_s), ", ")
    return (
        f'<figure class="strip"><figcaption><h{level}>{escaped(strip.title)}</h{level}>{position}'
        f'{escaped(strip.caption)}</figcaption><div class="paper" role="group" aria-label="{escaped(strip.title)}" '
        f'data-strip="{strip.number}"></div></figure>'
    )


def _gallery(parts: RecordingParts) -> str:
    if not parts.gallery:
        return section("strips", "Strips", paragraph("There is no beat to draw a strip of."))
    codes = "; ".join(f"{row.code} {row.meaning or row.name}" for row in parts.classes if row.beats)
    how = (
        f"10 s each on ECG paper, {SCALE}, {parts.filter_name}, a pulse of 1 mV in front. Above each beat its code, "
        "between beats the interval in ms. A question mark in a dashed box: low confidence. Hatched: unusable."
    )
    legend = "" if not codes else f'<p class="legend"><strong>Codes:</strong> {escaped(codes)}.</p>'
    return section("strips", "Strips", paragraph(how), legend, *map(_strip, parts.gallery))


def _averages(parts: RecordingParts) -> str:
    if not parts.averages:
        return ""
    scale = f"{LARGE['mm_per_s']} mm/s and {LARGE['mm_per_unit']} mm/mV"
    text = f"From 0.3 s before the R peak to 0.5 s after it, at {scale}, {parts.filter_name}."
    text += " The band holds the middle 80% of the beats."
    strips = "".join(map(_strip, parts.averages))
    return section("averages", "Average beat of each class", paragraph(text), f'<div class="averages">{strips}</div>')


def _comparison(parts: RecordingParts) -> str:
    pair = parts.comparison
    if pair is None:
        return ""
    share = f" ({per_cent(100 * pair.disagreements / pair.beats)})" if pair.beats else ""
    text = (
        f"Of {count_of(pair.beats, 'beat')}, {pair.first} and {pair.second} call {pair.disagreements:,}{share} by "
        f"different names. This report follows {pair.first}."
    )
    return section(
        "apart", _disagreement_title(pair), paragraph(text), comparison_table(parts), *map(_strip, pair.strips)
    )


def _disagreement_title(pair: ReaderComparison) -> str:
    return f"{pair.first[0].upper()}{pair.first[1:]} beside {pair.second}"


def _model(parts: RecordingParts) -> str:
    if not parts.model:
        return section(
            "model", "The model", paragraph("No model was used: the labels are those of the file named above.")
        )
    rows: Sequence[Sequence[Cell]] = parts.model
    return section("model", "The model", table("The model and its scores", ("Name", "Value"), rows))


def _reading(parts: RecordingParts) -> str:
    text = f'Every count above is listed with its rule. What was not assessed reads "{NOT_ASSESSED}", never 0.'
    return section("limits", "What this report does not assess", paragraph(text), not_assessed_list(parts))
