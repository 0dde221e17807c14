"""Selection of the 10 s strips that a report shows."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

import numpy as np
from numpy.typing import NDArray

from ecgfed.base.language import number, tr, tr_later, translated, trn, uncapitalized
from ecgfed.domain.events.beats import Beats
from ecgfed.domain.events.find import Events
from ecgfed.domain.events.kinds import Kind
from ecgfed.domain.events.patient_event import DIARY, RECORDER, PatientEvent
from ecgfed.domain.events.rhythm import At
from ecgfed.domain.events.series import Series

STRIP_S = 10.0


@dataclass(frozen=True)
class _Titles:
    """The titles of the strips of a kind of ectopic beats."""

    longest_run: str
    fastest_run: str
    longest_review: str
    fastest_review: str
    bigeminy: str
    couplet: str
    couplet_review: str
    most_certain: str
    least_certain: str


_TITLES = {
    Kind.VENTRICULAR: _Titles(
        tr_later("Longest ventricular run"),
        tr_later("Fastest ventricular run"),
        tr_later("Longest ventricular run to review"),
        tr_later("Fastest ventricular run to review"),
        tr_later("Longest ventricular bigeminy"),
        tr_later("First ventricular couplet"),
        tr_later("First ventricular couplet to review"),
        tr_later("Most certain ventricular beat"),
        tr_later("Least certain ventricular beat"),
    ),
    Kind.SUPRA: _Titles(
        tr_later("Longest supraventricular run"),
        tr_later("Fastest supraventricular run"),
        tr_later("Longest supraventricular run to review"),
        tr_later("Fastest supraventricular run to review"),
        tr_later("Longest supraventricular bigeminy"),
        tr_later("First supraventricular couplet"),
        tr_later("First supraventricular couplet to review"),
        tr_later("Most certain supraventricular beat"),
        tr_later("Least certain supraventricular beat"),
    ),
}
#: Whether the longest interval is a pause, and whether it is confirmed -> the title of its strip.
_LONGEST = {
    (True, True): tr_later("Longest pause"),
    (True, False): tr_later("Longest confirmed pause"),
    (False, True): tr_later("Longest interval between two beats"),
    (False, False): tr_later("Longest confirmed interval between two beats"),
}
#: Strips that begin closer than this are joined.
_SAME_S = 2.0
#: Strips that are printed at most: two sheets of three.
MAX_PRINTED = 6
#: Strips of patient events at most, and how many of them are printed beside the others.
MAX_PATIENT_EVENTS, PRINTED_PATIENT_EVENTS = 12, 3
_PATIENT_EVENTS = {RECORDER: tr_later("Patient event {n}"), DIARY: tr_later("Diary entry {n}")}


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
            titles = _TITLES[kind]
            certain = [run for run in ectopy.runs if not run.review]
            review = [run for run in ectopy.runs if run.review]
            first = min(ectopy.couplets, key=lambda series: (series.review, series.start_s), default=None)
            bigeminy = tr(titles.bigeminy)
            candidates: list[tuple[str, Series | None]] = [
                (tr(titles.longest_run), max(certain, key=lambda series: series.beats, default=None)),
                (tr(titles.fastest_run), max(certain, key=lambda series: series.per_min, default=None)),
                (tr(titles.longest_review), max(review, key=lambda series: series.beats, default=None)),
                (tr(titles.fastest_review), max(review, key=lambda series: series.per_min, default=None)),
                (bigeminy, max(ectopy.bigeminy, key=lambda series: series.beats, default=None)),
                (tr(titles.couplet_review if first is not None and first.review else titles.couplet), first),
            ]
            selected: dict[int, tuple[str, Series]] = {}
            for title, series in candidates:
                if series is not None:
                    selected.setdefault(series.first, (title, series))
            findings.append(
                [_series(beats, title, series, cyclic=title == bigeminy) for title, series in selected.values()]
            )
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
    for at, event in enumerate(patient_events[:MAX_PATIENT_EVENTS]):
        span = Span(event.time_s - 0.1, event.time_s + 0.1, "event", translated(event.source))
        title = tr(_PATIENT_EVENTS[event.source], n=at + 1)
        start = around(event.time_s, beats.duration_s)
        strips.append(SelectedStrip(title, event.text, start, (span,), at < PRINTED_PATIENT_EVENTS))
    if not strips and len(beats):
        strips.append(SelectedStrip(tr("The first beats"), "", max(0.0, float(beats.time_s[0]) - 1.0)))
    return _joined(strips)


def _series(beats: Beats, title: str, series: Series, *, cyclic: bool) -> SelectedStrip:
    if cyclic:
        text, caption = tr("bigeminy"), tr("{n} ectopic beats, one in every two", n=series.beats)
    elif series.beats == 2:
        text, caption = tr("couplet"), tr("{rate:.0f}/min between the two", rate=series.per_min)
    else:
        text = tr("run of {n}, {rate:.0f}/min", n=series.beats, rate=series.per_min)
        caption = tr(
            "{n} beats at {rate:.0f}/min, {seconds:.1f} s from first to last",
            n=series.beats,
            rate=series.per_min,
            seconds=series.stop_s - series.start_s,
        )
        caption = f"{translated(series.name)}: {caption}" if series.name else caption
        if series.bridged:
            caption += trn(", across {n} beat of another class", ", across {n} beats of another class", series.bridged)
        if series.undetected:
            caption += tr(", one of them a wave that may be an undetected beat")
    if series.review:
        text, caption = tr("{text} (review)", text=text), tr("to be reviewed; {text}", text=caption)
    long = series.stop_s - series.start_s > STRIP_S - 2
    last = max(0.0, beats.duration_s - STRIP_S)
    middle = (series.start_s + series.stop_s) / 2
    start = min(max(0.0, series.start_s - 1.0), last) if long else around(middle, beats.duration_s)
    return SelectedStrip(title, caption, start, (Span(series.start_s - 0.15, series.stop_s + 0.15, "event", text),))


def _of_pauses(beats: Beats, events: Events) -> Iterator[SelectedStrip]:
    if (longest := events.pauses.longest) is not None:
        what = _LONGEST[longest.value >= events.rules.pause_s, longest.confirmed]
        yield _interval(beats, longest, tr(what), tr("{seconds:.2f} s", seconds=longest.value))
    if doubtful := max(events.pauses.not_confirmed, key=lambda interval: interval.value, default=None):
        text = tr("{seconds:.2f} s, not confirmed", seconds=doubtful.value)
        yield _interval(beats, doubtful, tr("Interval that is not confirmed"), text)


def _interval(beats: Beats, interval: At, what: str, text: str) -> SelectedStrip:
    start = around((interval.start_s + interval.stop_s) / 2, beats.duration_s)
    return SelectedStrip(what, text, start, (Span(interval.start_s, interval.stop_s, "pause", text),))


def _of_rates(beats: Beats, events: Events) -> list[SelectedStrip]:
    strips = []
    for name, minute, sign in (
        (tr("Fastest minute"), events.rates.fastest_minute, 1),
        (tr("Slowest minute"), events.rates.slowest_minute, -1),
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
        fastest = tr_later("{rate:.0f}/min over the minute; its fastest 10 s")
        slowest = tr_later("{rate:.0f}/min over the minute; its slowest 10 s")
        strips.append(SelectedStrip(name, tr(fastest if sign > 0 else slowest, rate=minute.value), start))
    return strips


def _of_certainty(beats: Beats, kind: Kind, confidence: NDArray[np.floating]) -> list[SelectedStrip]:
    of_kind = np.flatnonzero((beats.kind == kind) & beats.assessed)
    if not len(of_kind):
        return []
    values = confidence[of_kind]
    highest, lowest = int(of_kind[values.argmax()]), int(of_kind[values.argmin()])
    titles = _TITLES[kind]
    pairs = [(titles.most_certain, highest)] + ([(titles.least_certain, lowest)] if lowest != highest else [])
    strips = []
    for title, at in pairs:
        middle, text = float(beats.time_s[at]), f"p {number(float(confidence[at]), '.2f')}"
        span = Span(middle - 0.25, middle + 0.25, "event", text)
        caption = tr("the model's probability {probability:.3f}", probability=float(confidence[at]))
        strips.append(SelectedStrip(tr(title), caption, around(middle, beats.duration_s), (span,)))
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
        text = tr("Comment: {comment}", comment=comment)
        place = next((at for at, strip in enumerate(strips) if round(strip.start_s * fs_hz) == sample), None)
        if place is None:
            commented.append(SelectedStrip(tr("With a comment"), text, sample / fs_hz))
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
        title = tr("; ").join((earlier.title, uncapitalized(strip.title)))
        caption = tr("; ").join(dict.fromkeys(part for part in (earlier.caption, strip.caption) if part))
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
    for column in range(max(1, int(np.ceil(beats.duration_s / width_s - 1e-9)))):
        start, stop = column * width_s, min((column + 1) * width_s, beats.duration_s)
        last = max(start, stop - STRIP_S)
        first, behind = np.searchsorted(time, [start, stop])
        if width_s <= STRIP_S or first == behind:
            starts.append(start if width_s <= STRIP_S else max(start, min(last, (start + stop - STRIP_S) / 2)))
            continue
        begins = np.clip(time[first:behind] - 0.5, start, last)
        beat_counts = np.searchsorted(time, begins + STRIP_S) - np.searchsorted(time, begins)
        starts.append(float(begins[beat_counts.argmax()]))
    return starts
