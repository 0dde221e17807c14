"""The findings of a recording of at most a minute: those of a resting ECG, in its order."""

from ecgfed.domain.events.axis import AXES, axis_word
from ecgfed.domain.events.beats import Beats
from ecgfed.domain.events.kinds import Kind
from ecgfed.reports.headline import ectopy_headline, rates_text
from ecgfed.reports.interval_table import TITLES, overall_text
from ecgfed.reports.markup import NOT_ASSESSED, Cell, joined
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
        ("Heart rate", rates_text(parts.events.rates)),
        ("Rhythm", _rhythm(parts, rhythms)),
        *((title, _interval(parts, name)) for name, title in TITLES.items()),
    ]
    if parts.twelve is not None:
        rows += axis_rows(parts.twelve)
    for kind, name in ((Kind.VENTRICULAR, "Ventricular"), (Kind.SUPRA, "Supraventricular")):
        rows.append((f"{name} ectopic beats", ectopy_headline(parts.events, kind, parts.times, burden=False)))
    return [*rows, ("Usable", f"{lead.usable_s:.1f} of {parts.duration_s:.1f} s of {lead.name}")]


def axis_rows(twelve: TwelveLeadPage) -> list[tuple[str, Cell]]:
    """Return the axes of P, QRS and T in words."""
    rows: list[tuple[str, Cell]] = []
    for name, title in AXES.items():
        axis = twelve.axes[name]
        if axis.value is None:
            rows.append((title, f"{NOT_ASSESSED}: {axis.not_assessed}"))
        else:
            word = f", {axis_word(axis.value)}" if name == "qrs_axis_deg" else ""
            rows.append((title, f"{round(axis.value)}°{word}".replace("-", "\N{MINUS SIGN}")))
    return rows


def _interval(parts: RecordingParts, name: str) -> Cell:
    if parts.intervals is None:
        return None
    text = overall_text(parts.intervals.overall(name))
    return text if text.startswith(NOT_ASSESSED) else f"{text} ms"


def _rhythm(parts: RecordingParts, rhythms: Cell) -> Cell:
    """Return what is known of the rhythm: regular or not, a P wave or not, and the rhythms that were detected."""
    known = []
    if parts.rr_range_s is not None:
        low, high = parts.rr_range_s
        word = "regular" if high - low <= REGULAR_S else "irregular"
        known.append(f"{word} ({low:.2f} to {high:.2f} s between normal beats)")
    if parts.intervals is not None:
        pr = parts.intervals.overall("pr_ms")
        known.append(
            "a P wave before the QRS complex" if pr.value is not None else f"P wave {NOT_ASSESSED}: {pr.not_assessed}"
        )
    if rhythms is None and known:
        rhythms = f"other rhythms {NOT_ASSESSED}"
    return joined("; ".join(known), "; " if known else "", rhythms)


def rr_range_s(beats: Beats) -> tuple[float, float] | None:
    """Return the shortest and the longest interval between normal beats in seconds; None with few of them."""
    normal = beats.kind == Kind.NORMAL
    intervals = beats.rr_s[beats.measured & normal[:-1] & normal[1:]]
    return (float(intervals.min()), float(intervals.max())) if len(intervals) >= MIN_INTERVALS else None
