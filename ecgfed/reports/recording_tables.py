"""The rows of the tables of rates and of hours in a recording's report."""

from collections.abc import Sequence

from markupsafe import Markup

from ecgfed.base.text import count_of
from ecgfed.domain.events.kinds import Kind
from ecgfed.domain.events.rhythm import REVIEWER, At, RhythmEpisodes
from ecgfed.reports.headline import pauses_text
from ecgfed.reports.markup import NOT_ASSESSED, Cell, PageTimes, clock, joined, per_cent
from ecgfed.reports.recording_parts import RecordingParts

#: Where rhythms come from.
_SOURCES = {
    "signal": "detected in the signal",
    "rates": "by the heart rate",
    "labels": "marked in the labels' file",
    REVIEWER: "accepted by the reviewer",
}
#: At most this many bad stretches and pauses are listed.
LISTED = 12


def _rate(times: PageTimes, at: At | None, possible: At | None = None, *, minute: bool = False) -> tuple[Cell, Cell]:
    """Return a rate and where it is, and the one that unconfirmed intervals would make of it."""
    text: Cell = None if at is None else f"{at.value:.0f}/min{_unconfirmed(at)}"
    where: Cell = "" if at is None else times.moment(at.start_s, digits=0 if minute else 1)
    if possible is None:
        return text, where
    text = f"{NOT_ASSESSED if text is None else text}; possibly {possible.value:.0f}/min"
    return text, joined(where, "; " if where else "", times.moment(possible.start_s, digits=1))


def _unconfirmed(at: At) -> str:
    return "" if at.confirmed else ", not confirmed"


def _positions(times: PageTimes, intervals: Sequence[At]) -> Markup:
    """Return where intervals begin, as links."""
    return joined(*(joined("; " if at else "", times.moment(gap.start_s)) for at, gap in enumerate(intervals)))


def rate_table(parts: RecordingParts) -> list[Sequence[Cell]]:
    """Return the rows of heart rates and pauses: figure, value, place, rule."""
    events, rules, times = parts.events, parts.events.rules, parts.times
    rates, pauses = events.rates, events.pauses
    row = f"mean over {count_of(rules.rate_intervals, 'gap')} in a row, each shorter than {2 * rules.pause_s:g} s"
    minute = f"whole minutes from the start with {rules.minute_usable_s:g} s of usable intervals or more"
    mean = None if rates.mean is None else f"{rates.mean:.0f}/min"
    longest = pauses.longest
    rr: tuple[Cell, Cell] = (None, "")
    if longest is not None:
        rr = f"{longest.value:.2f} s{_unconfirmed(longest)}", times.moment(longest.start_s)
    count = None if longest is None else pauses_text(pauses)
    first, long = pauses.intervals[:LISTED], f"{rules.pause_s:g} s or more"
    intervals = count_of(rates.intervals, "gap")
    more = f" and {len(pauses.intervals) - len(first):,} more" if len(pauses.intervals) > len(first) else ""
    rows: list[Sequence[Cell]] = [
        ("Mean heart rate", mean, "", f"{intervals} that touch no unusable stretch, over their time"),
        ("Lowest heart rate", *_rate(times, rates.lowest, rates.lowest_possible), row),
        ("Highest heart rate", *_rate(times, rates.highest, rates.highest_possible), row),
        ("Slowest minute", *_rate(times, rates.slowest_minute, minute=True), minute),
        ("Fastest minute", *_rate(times, rates.fastest_minute, minute=True), minute),
        (
            "Pauses",
            count,
            joined(_positions(times, first), more),
            f"intervals between two beats of {long}, none of it unusable",
        ),
        ("Longest interval", *rr, "between two beats, a pause or not, none of it unusable"),
    ]
    if pauses.not_confirmed:
        text = ", ".join(f"{gap.value:.2f} s" for gap in pauses.not_confirmed[:LISTED])
        remaining = len(pauses.not_confirmed) - LISTED
        text += f" and {remaining:,} more" if remaining > 0 else ""
        rule = "a second analysis of the signal did not confirm that no beat lies between"
        positions = _positions(times, pauses.not_confirmed[:LISTED])
        rows.append(("Not confirmed", text, positions, f"{rule}: in no rate and no pause above"))
    if pauses.ends:
        text = ", ".join(f"{gap.value:.1f} s" for gap in pauses.ends)
        rule = f"usable for {rules.pause_s:g} s or more, and no beat: in no rate"
        rows.append(("No beat at an end", text, _positions(times, pauses.ends), rule))
    return rows


def rhythm_table(parts: RecordingParts) -> list[Sequence[Cell]]:
    """Return the rows of rhythms: name, episodes, time, share of the recording, the longest, certainty, source."""
    return [
        (
            rhythm.rhythm,
            len(rhythm.episodes),
            clock(rhythm.seconds, 0),
            per_cent(100 * rhythm.seconds / parts.duration_s),
            longest_episode(parts.times, rhythm),
            certainty_text(rhythm) or "-",
            _SOURCES.get(rhythm.source, rhythm.source),
        )
        for rhythm in parts.named_rhythms
    ]


def longest_episode(times: PageTimes, rhythm: RhythmEpisodes) -> Markup:
    """Return the length of the longest episode and where it begins; empty without any."""
    if (longest := rhythm.longest) is None:
        return Markup()
    return joined(f"{clock(longest[1] - longest[0], 0)} from ", times.moment(longest[0], digits=0))


def certainty_text(rhythm: RhythmEpisodes) -> str:
    """Return the least and the highest certainty of the episodes; empty where it was not assessed."""
    if not rhythm.certainty:
        return ""
    low, high = f"{min(rhythm.certainty):.0%}", f"{max(rhythm.certainty):.0%}"
    return low if low == high else f"{low} to {high}"


def hours_table(parts: RecordingParts) -> tuple[list[str], list[Sequence[Cell]]]:
    """Return headings and rows of the counts of each hour."""
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
        beats = hour.beats
        share = {kind: per_cent(100 * count / beats) for kind, count in counts.items()} if beats else {}
        shares = [f"{counts[kind]:,} ({share[kind]})" if beats else "-" for _, kind in known]
        rate = "-" if hour.rate is None else f"{hour.rate:.0f}/min"
        first = joined(parts.times.moment(hour.start_s, digits=0), " to ", parts.times.text(hour.stop_s, 0))
        rows.append((first, clock(hour.usable_s, 0), beats, rate, *shares, *(hour.by_class[row] for row in columns)))
    head += [parts.classes[number].code for number in columns]
    return head, rows
