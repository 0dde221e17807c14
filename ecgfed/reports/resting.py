"""The findings of a recording of at most a minute: those of a resting ECG, in its order."""

from ecgfed.base.language import tr, tr_later, translated
from ecgfed.domain.events.axis import AXES, axis_word
from ecgfed.domain.events.beats import Beats
from ecgfed.domain.events.kinds import Kind
from ecgfed.reports.headline import ectopy_headline, rates_text, with_counted_share
from ecgfed.reports.interval_table import TITLES, overall_text
from ecgfed.reports.markup import Cell, joined, not_assessed_text
from ecgfed.reports.recording_parts import LeadRow, RecordingParts, TwelveLeadPage

#: Intervals between normal beats that differ by more are irregular (sinus arrhythmia: more than 0.12 s).
REGULAR_S = 0.12
#: Fewer intervals show no regularity.
MIN_INTERVALS = 3


def resting_rows(parts: RecordingParts, lead: LeadRow, rhythms: Cell) -> list[tuple[str, Cell]]:
    """Return names and values of the findings.

    Args:
        parts: the content of the report.
        lead: the lead that was read.
        rhythms: the episodes of rhythms in words.
    """
    rows: list[tuple[str, Cell]] = [
        (tr("Heart rate"), rates_text(parts.events.rates)),
        (tr("Rhythm"), _rhythm(parts, rhythms)),
        *((tr(title), _interval(parts, name)) for name, title in TITLES.items()),
    ]
    if parts.twelve is not None:
        rows += axis_rows(parts.twelve)
    for kind, name in (
        (Kind.VENTRICULAR, tr("Ventricular ectopic beats")),
        (Kind.SUPRA, tr("Supraventricular ectopic beats")),
    ):
        rows.append((name, ectopy_headline(parts.events, kind, parts.times, burden=False)))
    usable = tr(
        "{seconds:.1f} of {total:.1f} s of {lead}", seconds=lead.usable_s, total=parts.duration_s, lead=lead.name
    )
    return [*rows, (tr("Usable"), with_counted_share(usable, lead, parts.events))]


def axis_rows(twelve: TwelveLeadPage) -> list[tuple[str, Cell]]:
    """Return the axes of P, QRS and T in words."""
    rows: list[tuple[str, Cell]] = []
    for name, title in AXES.items():
        axis = twelve.axes[name]
        if axis.value is None:
            rows.append((translated(title), not_assessed_text(axis.not_assessed)))
        else:
            word = f", {translated(axis_word(axis.value))}" if name == "qrs_axis_deg" else ""
            rows.append((translated(title), f"{round(axis.value)}°{word}".replace("-", "\N{MINUS SIGN}")))
    return rows


def _interval(parts: RecordingParts, name: str) -> Cell:
    if parts.intervals is None:
        return None
    overall = parts.intervals.overall(name)
    return overall_text(overall) if overall.value is None else tr("{value} ms", value=overall_text(overall))


def _rhythm(parts: RecordingParts, rhythms: Cell) -> Cell:
    """Return what is known of the rhythm: regular or not, a P wave or not, and the rhythms that were detected."""
    known = []
    if parts.rr_range_s is not None:
        low, high = parts.rr_range_s
        regular, irregular = (
            tr_later("regular ({low:.2f} to {high:.2f} s between normal beats)"),
            tr_later("irregular ({low:.2f} to {high:.2f} s between normal beats)"),
        )
        known.append(tr(regular if high - low <= REGULAR_S else irregular, low=low, high=high))
    if parts.intervals is not None:
        pr = parts.intervals.overall("pr_ms")
        known.append(
            tr("a P wave before the QRS complex")
            if pr.value is not None
            else tr("P wave not assessed: {reason}", reason=translated(pr.not_assessed))
        )
    if rhythms is None and known:
        rhythms = tr("other rhythms not assessed")
    return joined(tr("; ").join(known), tr("; ") if known else "", rhythms)


def rr_range_s(beats: Beats) -> tuple[float, float] | None:
    """Return the shortest and the longest interval between normal beats in seconds; None with few of them."""
    normal = beats.kind == Kind.NORMAL
    intervals = beats.rr_s[beats.measured & normal[:-1] & normal[1:]]
    return (float(intervals.min()), float(intervals.max())) if len(intervals) >= MIN_INTERVALS else None
