"""The tables of a recording's report; each count beside its rule."""

from collections.abc import Sequence

from ecgfed.base.text import count_of
from ecgfed.domain.events.kinds import Kind
from ecgfed.domain.events.rhythm import At
from ecgfed.reports.headline import pauses_text
from ecgfed.reports.markup import NOT_ASSESSED, Cell, Markup, clock, joined, moment, paragraph, per_cent, table
from ecgfed.reports.recording_parts import ClassSummary, RecordingParts

#: At most this many bad stretches and pauses are listed.
LISTED = 12
#: Findings that this report does not assess.
NOT_ASSESSED_FINDINGS = (
    ("Atrial fibrillation and flutter", "no rhythm is classified, only beats"),
    ("Ventricular flutter and fibrillation", "typical waves raise a warning, others may be counted as beats"),
    ("AV block, P waves and the PR interval", "no P wave is measured"),
    ("ST segment and T wave", "kept by the filter, but not measured"),
    ("QRS duration and QT interval", "not measured"),
    ("Pacemaker function", "capture and sensing are not assessed"),
    ("Symptoms, activity and time of day", "not part of the recording"),
)


def quality_table(parts: RecordingParts) -> str:
    """Return the usable time of each lead, and the reasons for the rest."""
    rows = [
        (
            f"{lead.name} (read)" if lead.name == parts.lead else lead.name,
            clock(lead.usable_s),
            f"{lead.percent:.2f}%",
            ", ".join(f"{reason} {seconds:.1f} s" for reason, seconds in lead.seconds.items()) or "none",
        )
        for lead in parts.leads
    ]
    return table("Usable time of each lead", ("Lead", "Usable", "Share", "Not usable, and why"), rows)


def stretches_table(parts: RecordingParts) -> str:
    """Return the longest bad stretches of the lead that was read."""
    (lead,) = (item for item in parts.leads if item.name == parts.lead)
    if not lead.stretches:
        return ""
    longest = sorted(lead.stretches, key=lambda item: item[0] - item[1])[:LISTED]
    rows = [(moment(start), clock(stop), f"{stop - start:.1f} s", reason) for start, stop, reason in sorted(longest)]
    remaining = len(lead.stretches) - len(rows)
    more = f", the {len(rows)} longest of {len(lead.stretches):,}" if remaining else ""
    return table(f"Unusable stretches of {lead.name}{more}", ("From", "To", "Length", "Reason"), rows)


def _rate(at: At | None, possible: At | None = None, *, minute: bool = False) -> tuple[Cell, Cell]:
    """Return a rate and where it is, and the one that unconfirmed intervals would make of it."""
    text: Cell = None if at is None else f"{at.value:.0f}/min{_unconfirmed(at)}"
    where: Cell = "" if at is None else moment(at.start_s, digits=0 if minute else 1)
    if possible is None:
        return text, where
    text = f"{NOT_ASSESSED if text is None else text}; possibly {possible.value:.0f}/min"
    return text, joined(where, "; " if where else "", moment(possible.start_s, digits=1))


def _unconfirmed(at: At) -> str:
    return "" if at.confirmed else ", not confirmed"


def rate_table(parts: RecordingParts) -> str:
    """Return heart rates and pauses."""
    events, rules = parts.events, parts.events.rules
    rates, pauses = events.rates, events.pauses
    row = f"mean over {count_of(rules.rate_intervals, 'gap')} in a row"
    minute = f"whole minutes from the start with {rules.minute_usable_s:g} s of usable intervals or more"
    mean = None if rates.mean is None else f"{rates.mean:.0f}/min"
    longest = pauses.longest
    rr: tuple[Cell, Cell] = (None, "")
    if longest is not None:
        rr = f"{longest.value:.2f} s{_unconfirmed(longest)}", moment(longest.start_s)
    count = None if longest is None else pauses_text(pauses)
    first = pauses.intervals[:LISTED]
    positions = [joined("; " if number else "", moment(gap.start_s)) for number, gap in enumerate(first)]
    more = f" and {len(pauses.intervals) - len(first):,} more" if len(pauses.intervals) > len(first) else ""
    rows: list[Sequence[Cell]] = [
        (
            "Mean heart rate",
            mean,
            "",
            f"{count_of(rates.intervals, 'gap')} that touch no unusable stretch, over their time",
        ),
        ("Lowest heart rate", *_rate(rates.lowest, rates.lowest_possible), row),
        ("Highest heart rate", *_rate(rates.highest, rates.highest_possible), row),
        ("Slowest minute", *_rate(rates.slowest_minute, minute=True), minute),
        ("Fastest minute", *_rate(rates.fastest_minute, minute=True), minute),
        (
            "Pauses",
            count,
            joined(*positions, more),
            f"intervals between two beats of {rules.pause_s:g} s or more, none of it unusable",
        ),
        ("Longest interval", *rr, "between two beats, a pause or not, none of it unusable"),
    ]
    if pauses.not_confirmed:
        text = ", ".join(f"{gap.value:.2f} s" for gap in pauses.not_confirmed[:LISTED])
        remaining = len(pauses.not_confirmed) - LISTED
        text += f" and {remaining:,} more" if remaining > 0 else ""
        where = joined(
            *[joined("; " if at else "", moment(gap.start_s)) for at, gap in enumerate(pauses.not_confirmed[:LISTED])]
        )
        rule = (
            "a second analysis of the signal did not confirm that no beat lies between: in no rate and no pause above"
        )
        rows.append(("Not confirmed", text, where, rule))
    if pauses.ends:
        text = ", ".join(f"{gap.value:.1f} s" for gap in pauses.ends)
        where = joined(*[joined("; " if number else "", moment(gap.start_s)) for number, gap in enumerate(pauses.ends)])
        rows.append(
            ("No beat at an end", text, where, f"usable for {rules.pause_s:g} s or more, and no beat: in no rate")
        )
    return table("Heart rate and pauses", ("Figure", "Found", "Where", "Rule"), rows, kind="rules")


def rhythms_table(parts: RecordingParts) -> str:
    """Return the rhythms detected in the signal or marked in the file of labels."""
    source = {"signal": "detected in the signal", "labels": "marked in the labels' file"}
    rows = [
        (row.rhythm, len(row.episodes), clock(row.seconds, 0), source.get(row.source, row.source))
        for row in parts.rhythms
    ]
    return table("Rhythms", ("Rhythm", "Episodes", "Time", "Source"), rows) if rows else ""


def variability_table(parts: RecordingParts) -> str:
    """Return the variability of the heart rate."""
    hrv, rules = parts.events.variability, parts.events.rules
    normal = ", ".join(row.code for row in parts.classes if row.kind is Kind.NORMAL) or "no class is"
    nn = (
        f"{count_of(hrv.intervals, 'interval')} between two normal beats ({normal}), {clock(hrv.seconds, 0)} in "
        f"all, of {rules.nn_min_s:g} to {rules.nn_max_s:g} s, none of it unusable"
    )

    def ms(value: float | None) -> str | None:
        return None if value is None else f"{value:.0f} ms"

    few = f"; below {count_of(rules.hrv_intervals, 'interval')} it is not assessed" if hrv.mean_nn_ms is None else ""
    if parts.provisional and "paced" in dict(parts.warnings):
        few += "; the rhythm is paced, and a model calls paced beats normal: do not read it"
    rows = [
        ("Mean NN", ms(hrv.mean_nn_ms), nn + few),
        ("SDNN", ms(hrv.sdnn_ms), "sample standard deviation of these; it grows with the length of a recording"),
        ("RMSSD", ms(hrv.rmssd_ms), "root mean square of differences between intervals that follow one another"),
    ]
    return table("Heart rate variability", ("Figure", "Found", "Rule"), rows, kind="rules")


def classes_table(parts: RecordingParts) -> str:
    """Return every class with its meaning, as the legend of the codes."""
    counted = parts.events.counted
    has_confidence = any(item.uncertain is not None for item in parts.classes)

    def row(entry: ClassSummary) -> Sequence[Cell]:
        share = per_cent(100 * entry.beats / counted) if counted else "-"
        text = (
            entry.meaning
            if entry.name == entry.code
            else f"{entry.name}: {entry.meaning}"
            if entry.meaning
            else entry.name
        )
        beats: Cell = entry.beats
        if parts.events.rules.withholds(entry.uncertain or 0, entry.beats):
            beats, share = f"about {entry.beats:,}, to review", "-"
        if entry.kind in parts.events.withheld and entry.kind not in parts.events.to_review:
            beats, share = "withheld", "-"
        return (entry.code, text, beats, share, *([entry.uncertain] if has_confidence else []))

    head = ("Code", "Meaning", "Beats", "Share", *(["Low confidence"] if has_confidence else []))
    present = table(
        "Beats of each class", head, [row(item) for item in parts.classes if item.beats], kind="numbers-late"
    )
    rest = "; ".join(f"{item.code} {item.meaning or item.name}" for item in parts.classes if not item.beats)
    if not counted:
        return paragraph(f"No beat was counted: whether there is any of these is {NOT_ASSESSED}: {rest}.")
    return present + (paragraph(f"None detected of: {rest}.") if rest else "")


def hours_table(parts: RecordingParts) -> str:
    """Return the counts of each hour."""
    withheld = parts.events.withheld
    columns = [number for number, row in enumerate(parts.classes) if row.beats and row.kind not in withheld]
    known = [
        (name, kind)
        for name, kind in (("Ventricular", Kind.VENTRICULAR), ("Supraventricular", Kind.SUPRA))
        if kind not in withheld and any(row.kind is kind for row in parts.classes)
    ]
    head = ["Hour", "Usable", "Beats", "Mean rate", *(name for name, _ in known)]
    rows: list[Sequence[Cell]] = []
    for hour in parts.events.hours:
        counts = {Kind.VENTRICULAR: hour.ventricular, Kind.SUPRA: hour.supra}
        shares = [
            f"{counts[kind]:,} ({per_cent(100 * counts[kind] / hour.beats)})" if hour.beats else "-"
            for _, kind in known
        ]
        rate = "-" if hour.rate is None else f"{hour.rate:.0f}/min"
        first = joined(moment(hour.start_s, digits=0), " to ", clock(hour.stop_s, 0))
        rows.append(
            (first, clock(hour.usable_s, 0), hour.beats, rate, *shares, *(hour.by_class[row] for row in columns))
        )
    head += [parts.classes[number].code for number in columns]
    return table("Beats hour by hour, from the start of the recording", head, rows, kind="numbers")


def comparison_table(parts: RecordingParts) -> str:
    """Return the classes on which two readers disagree."""
    pair = parts.comparison
    if pair is None or not pair.pairs:
        return ""
    rows = [(first, second, count) for first, second, count in pair.pairs[:LISTED]]
    more = f", the {LISTED} most frequent of {len(pair.pairs)} pairs" if len(pair.pairs) > LISTED else ""
    head = (pair.first[0].upper() + pair.first[1:], pair.second[0].upper() + pair.second[1:], "Beats")
    return table(f"Where they disagree{more}", head, rows, kind="numbers-late")


def not_assessed_list(parts: RecordingParts) -> Markup:
    """Return the list of findings that were not assessed."""
    rows = list(NOT_ASSESSED_FINDINGS)
    if any(row.source == "labels" for row in parts.rhythms):
        rows[0] = (rows[0][0], "only as marked in the labels' file")
    why = "the labels know no such class" if parts.events.counted else "no beat was counted"
    if parts.events.supra is None:
        rows.insert(0, ("Supraventricular ectopy", parts.events.withheld.get(Kind.SUPRA, why)))
    if parts.events.ventricular is None:
        rows.insert(0, ("Ventricular ectopy", parts.events.withheld.get(Kind.VENTRICULAR, why)))
    return Markup(table("Not assessed", ("Finding", "Why"), rows))
