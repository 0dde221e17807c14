"""The rows of the tables of rates and of hours in a recording's report."""

from collections.abc import Sequence

from markupsafe import Markup

from ecgfed.base.language import number, tr, tr_later, translated, trn
from ecgfed.domain.events.kinds import Kind
from ecgfed.domain.events.rhythm import At
from ecgfed.domain.events.rhythm_episodes import REVIEWER, RhythmEpisodes
from ecgfed.reports.headline import pauses_text
from ecgfed.reports.markup import NOT_ASSESSED, Cell, PageTimes, clock, joined, per_cent, tr_markup
from ecgfed.reports.recording_parts import RecordingParts

#: Where rhythms come from.
_SOURCES = {
    "signal": tr_later("detected in the signal"),
    "rates": tr_later("by the heart rate"),
    "labels": tr_later("marked in the labels' file"),
    REVIEWER: tr_later("accepted by the reviewer"),
}
#: The head of the table of rhythms.
RHYTHM_HEAD = (
    *(tr_later("Rhythm"), tr_later("Episodes"), tr_later("Time"), tr_later("Share"), tr_later("Longest")),
    *(tr_later("Certainty"), tr_later("Source")),
)
#: At most this many bad stretches and pauses are listed.
LISTED = 12


def _rate(times: PageTimes, at: At | None, possible: At | None = None, *, minute: bool = False) -> tuple[Cell, Cell]:
    """Return a rate and where it is, and the one that unconfirmed intervals would make of it."""
    text: Cell = None if at is None else _confirmed(tr("{rate:.0f}/min", rate=at.value), at)
    where: Cell = "" if at is None else times.moment(at.start_s, digits=0 if minute else 1)
    if possible is None:
        return text, where
    of = translated(NOT_ASSESSED) if text is None else text
    text = tr("{rate}; possibly {possible:.0f}/min", rate=of, possible=possible.value)
    return text, joined(where, tr("; ") if where else "", times.moment(possible.start_s, digits=1))


def _confirmed(text: str, at: At) -> str:
    return text if at.confirmed else tr("{value}, not confirmed", value=text)


def _positions(times: PageTimes, intervals: Sequence[At]) -> Markup:
    """Return where intervals begin, as links."""
    return joined(*(joined(tr("; ") if at else "", times.moment(gap.start_s)) for at, gap in enumerate(intervals)))


def rate_table(parts: RecordingParts) -> list[Sequence[Cell]]:
    """Return the rows of heart rates and pauses: figure, value, place, rule."""
    events, rules, times = parts.events, parts.events.rules, parts.times
    rates, pauses = events.rates, events.pauses
    row = tr(
        "mean over {gaps} in a row, each shorter than {seconds:g} s",
        gaps=trn("{n} gap", "{n} gaps", rules.rate_intervals),
        seconds=2 * rules.pause_s,
    )
    minute = tr(
        "whole minutes from the start with {seconds:g} s of usable intervals or more", seconds=rules.minute_usable_s
    )
    longest = pauses.longest
    rr: tuple[Cell, Cell] = (None, "")
    if longest is not None:
        rr = _confirmed(tr("{seconds:.2f} s", seconds=longest.value), longest), times.moment(longest.start_s)
    first = pauses.intervals[:LISTED]
    rows: list[Sequence[Cell]] = [
        (
            tr("Mean heart rate"),
            None if rates.mean is None else tr("{rate:.0f}/min", rate=rates.mean),
            "",
            trn(
                "{n} gap that touches no unusable stretch, over its time",
                "{n} gaps that touch no unusable stretch, over their time",
                rates.intervals,
            ),
        ),
        (tr("Lowest heart rate"), *_rate(times, rates.lowest, rates.lowest_possible), row),
        (tr("Highest heart rate"), *_rate(times, rates.highest, rates.highest_possible), row),
        (tr("Slowest minute"), *_rate(times, rates.slowest_minute, minute=True), minute),
        (tr("Fastest minute"), *_rate(times, rates.fastest_minute, minute=True), minute),
        (
            tr("Pauses"),
            None if longest is None else pauses_text(pauses),
            _and_more(_positions(times, first), len(pauses.intervals) - len(first)),
            tr("intervals between two beats of {seconds:g} s or more, none of it unusable", seconds=rules.pause_s),
        ),
        (tr("Longest interval"), *rr, tr("between two beats, a pause or not, none of it unusable")),
    ]
    if pauses.not_confirmed:
        first = pauses.not_confirmed[:LISTED]
        text = _and_more(_lengths(first, ".2f"), len(pauses.not_confirmed) - len(first))
        rule = tr(
            "a second analysis of the signal did not confirm that no beat lies between: in no rate and no pause above"
        )
        rows.append((tr("Not confirmed"), text, _positions(times, first), rule))
    if pauses.ends:
        rule = tr("usable for {seconds:g} s or more, and no beat: in no rate", seconds=rules.pause_s)
        rows.append((tr("No beat at an end"), _lengths(pauses.ends, ".1f"), _positions(times, pauses.ends), rule))
    return rows


def _lengths(intervals: Sequence[At], spec: str) -> str:
    return ", ".join(f"{number(gap.value, spec)} s" for gap in intervals)


def _and_more(listed: str, more: int) -> Cell:
    return tr_markup("{listed} and {n} more", listed=listed, n=more) if more > 0 else listed


def variability_table(parts: RecordingParts) -> list[Sequence[Cell]]:
    """Return the rows of heart rate variability: figure, value, rule."""
    rules, hrv = parts.events.rules, parts.events.variability
    normal = ", ".join(row.code for row in parts.classes if row.kind is Kind.NORMAL)
    nn = trn(
        "{n} interval between two normal beats ({classes}), {time} in all, of {low:g} to {high:g} s, none of it "
        "unusable",
        "{n} intervals between two normal beats ({classes}), {time} in all, of {low:g} to {high:g} s, none of it "
        "unusable",
        hrv.intervals,
        classes=normal or tr("no class is"),
        time=clock(hrv.seconds, 0),
        low=rules.nn_min_s,
        high=rules.nn_max_s,
    )
    if hrv.other_rhythm:
        nn += trn(
            "; {n} more is left out: not in sinus rhythm",
            "; {n} more are left out: not in sinus rhythm",
            hrv.other_rhythm,
        )
    if hrv.low_confidence:
        nn += tr("; most of their beats are of low confidence: not assessed")
    elif hrv.mean_nn_ms is None:
        nn += trn(
            "; below {n} interval it is not assessed", "; below {n} intervals it is not assessed", rules.hrv_intervals
        )
    if parts.provisional and "paced" in dict(parts.warnings):
        nn += tr("; the rhythm is paced, and a model calls paced beats normal: do not read it")

    def ms(value: float | None) -> Cell:
        return None if value is None else tr("{value:.0f} ms", value=value)

    sdnn = tr("sample standard deviation of these; it grows with the length of a recording")
    rmssd = tr("root mean square of differences between intervals that follow one another")
    return [
        (tr("Mean NN"), ms(hrv.mean_nn_ms), nn),
        ("SDNN", ms(hrv.sdnn_ms), sdnn),
        ("RMSSD", ms(hrv.rmssd_ms), rmssd),
    ]


def rhythm_table(parts: RecordingParts) -> list[Sequence[Cell]]:
    """Return the rows of rhythms: name, episodes, time, share of the recording, the longest, certainty, source."""
    return [
        (
            translated(rhythm.rhythm),
            len(rhythm.episodes),
            clock(rhythm.seconds, 0),
            per_cent(100 * rhythm.seconds / parts.duration_s),
            longest_episode(parts.times, rhythm),
            certainty_text(rhythm) or "-",
            translated(_SOURCES.get(rhythm.source, rhythm.source)),
        )
        for rhythm in parts.named_rhythms
    ]


def longest_episode(times: PageTimes, rhythm: RhythmEpisodes) -> Markup:
    """Return the length of the longest episode and where it begins; empty without any."""
    if (longest := rhythm.longest) is None:
        return Markup()
    length = clock(longest[1] - longest[0], 0)
    return tr_markup("{length} from {time}", length=length, time=times.moment(longest[0], digits=0))


def certainty_text(rhythm: RhythmEpisodes) -> str:
    """Return the least and the highest certainty of the episodes; empty where it was not assessed."""
    if not rhythm.certainty:
        return ""
    low, high = number(min(rhythm.certainty), ".0%"), number(max(rhythm.certainty), ".0%")
    return low if low == high else tr("{low} to {high}", low=low, high=high)


def hours_table(parts: RecordingParts) -> tuple[list[str], list[Sequence[Cell]]]:
    """Return headings and rows of the counts of each hour."""
    rules, withheld = parts.events.rules, parts.events.withheld
    columns = [
        (at, row.code, rules.withholds(row.uncertain or 0, row.beats))
        for at, row in enumerate(parts.classes)
        if row.beats and row.kind not in withheld
    ]
    known = [
        (name, kind)
        for name, kind in ((tr("Ventricular"), Kind.VENTRICULAR), (tr("Supraventricular"), Kind.SUPRA))
        if kind not in withheld and any(row.kind is kind for row in parts.classes)
    ]
    head = [tr("Hour"), tr("Usable"), tr("Beats"), tr("Mean rate"), *(name for name, _ in known)]
    rows: list[Sequence[Cell]] = []
    for hour in parts.events.hours:
        counts = {Kind.VENTRICULAR: hour.ventricular, Kind.SUPRA: hour.supra}
        beats = hour.beats
        share = {kind: per_cent(100 * count / beats) for kind, count in counts.items()} if beats else {}
        shares = [f"{number(counts[kind])} ({share[kind]})" if beats else "-" for _, kind in known]
        rate = "-" if hour.rate is None else tr("{rate:.0f}/min", rate=hour.rate)
        start, stop = parts.times.moment(hour.start_s, digits=0), parts.times.text(hour.stop_s, 0)
        first = tr_markup("{start} to {stop}", start=start, stop=stop)
        by_class = [
            tr("about {text}", text=number(hour.by_class[at])) if review else hour.by_class[at]
            for at, _, review in columns
        ]
        rows.append((first, clock(hour.usable_s, 0), beats, rate, *shares, *by_class))
    head += [tr("{code} (to review)", code=code) if review else code for _, code, review in columns]
    return head, rows
