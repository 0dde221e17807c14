"""Selection of the 10 s strips that a report shows."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

import numpy as np
from numpy.typing import NDArray

from ecgfed.base.text import count_of
from ecgfed.domain.events.beats import Beats
from ecgfed.domain.events.find import Events
from ecgfed.domain.events.kinds import KIND_WORDS, Kind
from ecgfed.domain.events.patient_event import PatientEvent
from ecgfed.domain.events.rhythm import At
from ecgfed.domain.events.series import Series

STRIP_S = 10.0
#: Strips that begin closer than this are joined.
_SAME_S = 2.0
#: Strips that are printed at most: two sheets of three.
MAX_PRINTED = 6
#: Strips of patient events at most, and how many of them are printed beside the others.
MAX_PATIENT_EVENTS, PRINTED_PATIENT_EVENTS = 12, 3


@dataclass(frozen=True)
class Span:
    """A marked part of a strip: ``start_s`` to ``stop_s``, its kind (``event`` or ``pause``) and its text."""

    start_s: float
    stop_s: float
    kind: str
    text: str


@dataclass(frozen=True)
class SelectedStrip:
    """A strip of 10 s from ``start_s`` on: its title, a line below it, the marked parts, and whether it is printed."""

    title: str
    caption: str
    start_s: float
    spans: tuple[Span, ...] = ()
    printed: bool = True


def around(middle_s: float, duration_s: float) -> float:
    """Return the start of the 10 s around a moment, moved to lie within the recording."""
    return float(np.clip(middle_s - STRIP_S / 2, 0.0, max(0.0, duration_s - STRIP_S)))


def select_strips(
    beats: Beats, events: Events, confidence: NDArray[np.floating] | None, patient_events: Sequence[PatientEvent] = ()
) -> tuple[SelectedStrip, ...]:
    """Return the strips of the gallery, in page order.

    Args:
        beats: all beats.
        events: their counts.
        confidence: (beats,) the probability of each beat's class; None without one.
        patient_events: in order of time; the first ``MAX_PATIENT_EVENTS`` have strips.
    """
    findings: list[list[SelectedStrip]] = []
    ectopic = {kind: counts or events.to_review.get(kind) for kind, counts in events.ectopic.items()}
    for kind, ectopy in ectopic.items():
        if ectopy is not None:
            word = KIND_WORDS[kind]
            certain = [run for run in ectopy.runs if not run.review]
            review = [run for run in ectopy.runs if run.review]
            first = min(ectopy.couplets, key=lambda series: (series.review, series.start_s), default=None)
            candidates: list[tuple[str, Series | None]] = [
                (f"Longest {word} run", max(certain, key=lambda series: series.beats, default=None)),
                (f"Fastest {word} run", max(certain, key=lambda series: series.per_min, default=None)),
                (f"Longest {word} run to review", max(review, key=lambda series: series.beats, default=None)),
                (f"Fastest {word} run to review", max(review, key=lambda series: series.per_min, default=None)),
                (f"Longest {word} bigeminy", max(ectopy.bigeminy, key=lambda series: series.beats, default=None)),
                (f"First {word} couplet{' to review' if first is not None and first.review else ''}", first),
            ]
            selected: dict[int, tuple[str, Series]] = {}
            for title, series in candidates:
                if series is not None:
                    selected.setdefault(series.first, (title, series))
            findings.append([_series(beats, title, series) for title, series in selected.values()])
    findings += [list(_of_pauses(beats, events)), _of_rates(beats, events)]
    examples = [
        _of_certainty(beats, kind, confidence)
        for kind, ectopy in ectopic.items()
        if ectopy is not None and confidence is not None
    ]
    # printed: the first of each finding, then the second of each, and so on; examples of single beats last
    in_turn = [strip for group in (findings, examples) for rank in zip_longest(*group) for strip in rank if strip]
    printed = set(in_turn[:MAX_PRINTED])
    strips = [replace(strip, printed=strip in printed) for group in (*findings, *examples) for strip in group]
    for number, event in enumerate(patient_events[:MAX_PATIENT_EVENTS]):
        span = Span(event.time_s - 0.1, event.time_s + 0.1, "event", event.source)
        title = f"{event.source[0].upper()}{event.source[1:]} {number + 1}"
        start = around(event.time_s, beats.duration_s)
        strips.append(SelectedStrip(title, event.text, start, (span,), number < PRINTED_PATIENT_EVENTS))
    if not strips and len(beats):
        strips.append(SelectedStrip("The first beats", "", max(0.0, float(beats.time_s[0]) - 1.0)))
    return _joined(strips)


def _series(beats: Beats, title: str, series: Series) -> SelectedStrip:
    if "bigeminy" in title:
        text, caption = "bigeminy", f"{series.beats:,} ectopic beats, one in every two"
    elif series.beats == 2:
        text, caption = "couplet", f"{series.per_min:.0f}/min between the two"
    else:
        text = f"run of {series.beats:,}, {series.per_min:.0f}/min"
        length_s = series.stop_s - series.start_s
        caption = f"{series.beats:,} beats at {series.per_min:.0f}/min, {length_s:.1f} s from first to last"
        caption = f"{series.name}: {caption}" if series.name else caption
        caption += f", across {count_of(series.bridged, 'beat')} of another class" if series.bridged else ""
        caption += ", one of them a wave that may be an undetected beat" if series.undetected else ""
    if series.review:
        text, caption = f"{text} (review)", f"to be reviewed; {caption}"
    long = series.stop_s - series.start_s > STRIP_S - 2
    last = max(0.0, beats.duration_s - STRIP_S)
    middle = (series.start_s + series.stop_s) / 2
    start = min(max(0.0, series.start_s - 1.0), last) if long else around(middle, beats.duration_s)
    return SelectedStrip(title, caption, start, (Span(series.start_s - 0.15, series.stop_s + 0.15, "event", text),))


def _of_pauses(beats: Beats, events: Events) -> Iterator[SelectedStrip]:
    if (longest := events.pauses.longest) is not None:
        kind = "pause" if longest.value >= events.rules.pause_s else "interval between two beats"
        what = f"Longest{'' if longest.confirmed else ' confirmed'} {kind}"
        yield _interval(beats, longest, what, f"{longest.value:.2f} s")
    if doubtful := max(events.pauses.not_confirmed, key=lambda interval: interval.value, default=None):
        yield _interval(beats, doubtful, "Interval that is not confirmed", f"{doubtful.value:.2f} s, not confirmed")


def _interval(beats: Beats, interval: At, what: str, text: str) -> SelectedStrip:
    start = around((interval.start_s + interval.stop_s) / 2, beats.duration_s)
    return SelectedStrip(what, text, start, (Span(interval.start_s, interval.stop_s, "pause", text),))


def _of_rates(beats: Beats, events: Events) -> list[SelectedStrip]:
    strips = []
    for name, minute, sign in (
        ("Fastest minute", events.rates.fastest_minute, 1),
        ("Slowest minute", events.rates.slowest_minute, -1),
    ):
        if minute is None:
            continue
        time, ends = beats.time_s, beats.time_s[1:]
        first, stop = np.searchsorted(time, [minute.start_s, minute.stop_s])
        best, start = -np.inf, minute.start_s
        for at in time[first:stop].tolist():
            begin = min(max(0.0, at - 0.25), max(0.0, beats.duration_s - STRIP_S))
            low, high = np.searchsorted(ends, [at + 1e-6, begin + STRIP_S])
            known = beats.measured[low:high]
            seconds = float(beats.rr_s[low:high][known].sum())
            if seconds < STRIP_S / 2:
                continue
            rate = sign * 60 * int(known.sum()) / seconds
            if rate > best:
                best, start = rate, begin
        what = "fastest" if sign > 0 else "slowest"
        strips.append(SelectedStrip(name, f"{minute.value:.0f}/min over the minute; its {what} 10 s", start))
    return strips


def _of_certainty(beats: Beats, kind: Kind, confidence: NDArray[np.floating]) -> list[SelectedStrip]:
    of_kind = np.flatnonzero((beats.kind == kind) & beats.assessed)
    if not len(of_kind):
        return []
    values = confidence[of_kind]
    highest, lowest = int(of_kind[values.argmax()]), int(of_kind[values.argmin()])
    pairs = [("Most", highest)] + ([("Least", lowest)] if lowest != highest else [])
    strips = []
    for name, at in pairs:
        middle, text = float(beats.time_s[at]), f"p {confidence[at]:.2f}"
        span = Span(middle - 0.25, middle + 0.25, "event", text)
        title, caption = f"{name} certain {KIND_WORDS[kind]} beat", f"the model's probability {confidence[at]:.3f}"
        strips.append(SelectedStrip(title, caption, around(middle, beats.duration_s), (span,)))
    return strips


def with_comments(
    strips: Sequence[SelectedStrip], comments: Mapping[int, str], fs_hz: float
) -> tuple[SelectedStrip, ...]:
    """Return the strips with the comments on them in their captions, and strips of other places with comments.

    Args:
        strips: the strips of the gallery.
        comments: sample at which a strip begins -> the comment.
        fs_hz: sampling frequency of the recording.
    """
    commented = list(strips)
    for sample, comment in sorted(comments.items()):
        text = f"Comment: {comment}"
        place = next((at for at, strip in enumerate(strips) if round(strip.start_s * fs_hz) == sample), None)
        if place is None:
            commented.append(SelectedStrip("With a comment", text, sample / fs_hz))
        else:
            strip = commented[place]
            commented[place] = replace(strip, caption=f"{strip.caption}; {text}" if strip.caption else text)
    return tuple(commented)


def _joined(strips: Sequence[SelectedStrip]) -> tuple[SelectedStrip, ...]:
    """Join strips that begin at about the same time."""
    joined: list[SelectedStrip] = []
    for strip in strips:
        index = next((at for at, earlier in enumerate(joined) if abs(earlier.start_s - strip.start_s) < _SAME_S), None)
        if index is None:
            joined.append(strip)
            continue
        earlier = joined[index]
        title = f"{earlier.title}; {strip.title[0].lower()}{strip.title[1:]}"
        caption = "; ".join(dict.fromkeys(part for part in (earlier.caption, strip.caption) if part))
        spans = tuple(dict.fromkeys([*earlier.spans, *strip.spans]))
        printed = earlier.printed or strip.printed
        joined[index] = replace(earlier, title=title, caption=caption, spans=spans, printed=printed)
    return tuple(joined)


def rate_in(beats: Beats, start_s: float) -> float | None:
    """Return the mean heart rate in the 10 s from ``start_s`` on; None without a usable interval in them."""
    first, stop = np.searchsorted(beats.time_s, [start_s, start_s + STRIP_S])
    known = beats.measured[first : max(first, stop - 1)]
    seconds = float(beats.rr_s[first : max(first, stop - 1)][known].sum())
    return 60 * int(known.sum()) / seconds if seconds else None


def busiest_starts(beats: Beats, width_s: float) -> list[float]:
    """Return for each ``width_s`` the start of its 10 s with the most ectopic beats, without any of its middle 10 s."""
    ectopic = np.isin(beats.kind, (Kind.SUPRA, Kind.VENTRICULAR)) & beats.assessed
    time = beats.time_s[ectopic]
    starts = []
    for number in range(max(1, int(np.ceil(beats.duration_s / width_s - 1e-9)))):
        start, stop = number * width_s, min((number + 1) * width_s, beats.duration_s)
        last = max(start, stop - STRIP_S)
        first, behind = np.searchsorted(time, [start, stop])
        if width_s <= STRIP_S or first == behind:
            starts.append(start if width_s <= STRIP_S else max(start, min(last, (start + stop - STRIP_S) / 2)))
            continue
        begins = np.clip(time[first:behind] - 0.5, start, last)
        beat_counts = np.searchsorted(time, begins + STRIP_S) - np.searchsorted(time, begins)
        starts.append(float(begins[beat_counts.argmax()]))
    return starts
