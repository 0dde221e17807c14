"""Which 10 s of a recording a report shows."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ecgfed.base.text import count_of
from ecgfed.domain.events.beats import Beats
from ecgfed.domain.events.ectopy import Ectopy
from ecgfed.domain.events.find import Events
from ecgfed.domain.events.kinds import KIND_WORDS, Kind
from ecgfed.domain.events.rhythm import At
from ecgfed.domain.events.series import Series

STRIP_S = 10.0
#: Strips that begin closer than this show the same, and become one.
_SAME_S = 2.0


@dataclass(frozen=True)
class Span:
    """Something to point at on a strip: ``start_s`` to ``stop_s``, ``event`` or ``pause``, and what it is."""

    start_s: float
    stop_s: float
    kind: str
    text: str


@dataclass(frozen=True)
class Choice:
    """10 s that are shown, from ``start_s`` on: why, one line more, and what is pointed at."""

    title: str
    about: str
    start_s: float
    spans: tuple[Span, ...] = ()


def around(middle_s: float, duration_s: float) -> float:
    """Return where 10 s begin that have a moment in their middle, as far as the recording allows."""
    return float(np.clip(middle_s - STRIP_S / 2, 0.0, max(0.0, duration_s - STRIP_S)))


def chosen_strips(beats: Beats, events: Events, confidence: NDArray[np.floating] | None) -> tuple[Choice, ...]:
    """Return the strips of the gallery, in the order they are shown.

    Args:
        beats: all beats.
        events: what they add up to.
        confidence: (beats,) the probability of each beat's class; None where nobody knows.
    """
    found: list[Choice] = []
    ectopic = {kind: counts or events.to_review.get(kind) for kind, counts in events.ectopic.items()}
    for kind, one in ectopic.items():
        if one is not None:
            found += _of_series(beats, one, KIND_WORDS[kind])
    found += _of_pauses(beats, events)
    found += _of_rates(beats, events)
    for kind, one in ectopic.items():
        if one is not None and confidence is not None:
            found += _of_certainty(beats, kind, confidence)
    if not found and len(beats):
        found.append(Choice("The first beats", "", max(0.0, float(beats.time_s[0]) - 1.0)))
    return _joined(found)


def _of_series(beats: Beats, found: Ectopy, word: str) -> list[Choice]:
    """Return runs, certain ones first, and an example of bigeminy and of a couplet."""
    certain = [run for run in found.runs if not run.review]
    review = [run for run in found.runs if run.review]
    first = min(found.couplets, key=lambda one: (one.review, one.start_s), default=None)
    chosen: list[tuple[str, Series | None]] = [
        (f"Longest {word} run", max(certain, key=lambda one: one.beats, default=None)),
        (f"Fastest {word} run", max(certain, key=lambda one: one.per_min, default=None)),
        (f"Longest {word} run to review", max(review, key=lambda one: one.beats, default=None)),
        (f"Fastest {word} run to review", max(review, key=lambda one: one.per_min, default=None)),
        (f"Longest {word} bigeminy", max(found.bigeminy, key=lambda one: one.beats, default=None)),
        (f"First {word} couplet{' to review' if first is not None and first.review else ''}", first),
    ]
    shown: dict[int, tuple[str, Series]] = {}
    for title, one in chosen:
        if one is not None:
            shown.setdefault(one.first, (title, one))
    return [_series(beats, title, one) for title, one in shown.values()]


def _series(beats: Beats, title: str, one: Series) -> Choice:
    if "bigeminy" in title:
        text, about = "bigeminy", f"{one.beats:,} ectopic beats, one in every two"
    elif one.beats == 2:
        text, about = "couplet", f"{one.per_min:.0f}/min between the two"
    else:
        text = f"run of {one.beats:,}, {one.per_min:.0f}/min"
        about = f"{one.beats:,} beats at {one.per_min:.0f}/min, {one.stop_s - one.start_s:.1f} s from first to last"
        about = f"{one.name}: {about}" if one.name else about
        about += f", across {count_of(one.bridged, 'beat')} of another class" if one.bridged else ""
    if one.review:
        text, about = f"{text} (review)", f"to be reviewed; {about}"
    long = one.stop_s - one.start_s > STRIP_S - 2
    last = max(0.0, beats.duration_s - STRIP_S)
    start = min(max(0.0, one.start_s - 1.0), last) if long else around((one.start_s + one.stop_s) / 2, beats.duration_s)
    return Choice(title, about, start, (Span(one.start_s - 0.15, one.stop_s + 0.15, "event", text),))


def _of_pauses(beats: Beats, events: Events) -> list[Choice]:
    choices = [
        _interval(beats, one, "Interval that is not confirmed", f"{one.value:.2f} s, not confirmed")
        for one in sorted(events.pauses.not_confirmed, key=lambda one: -one.value)[:1]
    ]
    longest = events.pauses.longest
    if longest is None:
        return choices
    pause = longest.value >= events.rules.pause_s
    what = f"Longest{'' if longest.confirmed else ' confirmed'} {'pause' if pause else 'interval between two beats'}"
    return [_interval(beats, longest, what, f"{longest.value:.2f} s"), *choices]


def _interval(beats: Beats, one: At, what: str, text: str) -> Choice:
    start = around((one.start_s + one.stop_s) / 2, beats.duration_s)
    return Choice(what, text, start, (Span(one.start_s, one.stop_s, "pause", text),))


def _of_rates(beats: Beats, events: Events) -> list[Choice]:
    found = []
    for name, minute, sign in (
        ("Fastest minute", events.rates.fastest_minute, 1),
        ("Slowest minute", events.rates.slowest_minute, -1),
    ):
        if minute is None:
            continue
        start = _extreme_start(beats, minute, sign)
        what = "fastest" if sign > 0 else "slowest"
        found.append(Choice(name, f"{minute.value:.0f}/min over the minute; its {what} 10 s", start))
    return found


def _extreme_start(beats: Beats, minute: At, sign: int) -> float:
    """Return where the fastest (slowest) 10 s of a minute begin: a quarter of a second before one of its beats."""
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
    return start


def _of_certainty(beats: Beats, kind: Kind, confidence: NDArray[np.floating]) -> list[Choice]:
    of_kind = np.flatnonzero((beats.kind == kind) & beats.assessed)
    if not len(of_kind):
        return []
    values = confidence[of_kind]
    most, least = int(of_kind[values.argmax()]), int(of_kind[values.argmin()])
    pairs = [("Most", most)] + ([("Least", least)] if least != most else [])
    found = []
    for name, at in pairs:
        middle = float(beats.time_s[at])
        text = f"p {confidence[at]:.2f}"
        span = Span(middle - 0.25, middle + 0.25, "event", text)
        about = f"the model's probability {confidence[at]:.3f}"
        found.append(
            Choice(f"{name} certain {KIND_WORDS[kind]} beat", about, around(middle, beats.duration_s), (span,))
        )
    return found


def _joined(found: Sequence[Choice]) -> tuple[Choice, ...]:
    """Join strips that show the same."""
    kept: list[Choice] = []
    for one in found:
        same = next((at for at, other in enumerate(kept) if abs(other.start_s - one.start_s) < _SAME_S), None)
        if same is None:
            kept.append(one)
            continue
        other = kept[same]
        title = f"{other.title}; {one.title[0].lower()}{one.title[1:]}"
        about = "; ".join(dict.fromkeys(part for part in (other.about, one.about) if part))
        kept[same] = replace(other, title=title, about=about, spans=tuple(dict.fromkeys([*other.spans, *one.spans])))
    return tuple(kept)


def rate_in(beats: Beats, start_s: float) -> float | None:
    """Return the mean heart rate in the 10 s from a moment on; None without a usable interval in them."""
    first, stop = np.searchsorted(beats.time_s, [start_s, start_s + STRIP_S])
    known = beats.measured[first : max(first, stop - 1)]
    seconds = float(beats.rr_s[first : max(first, stop - 1)][known].sum())
    return 60 * int(known.sum()) / seconds if seconds else None


def busiest_starts(beats: Beats, width_s: float) -> list[float]:
    """Return for each stretch of ``width_s`` where its 10 s begin: most ectopic beats, else the stretch's middle."""
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
        held = np.searchsorted(time, begins + STRIP_S) - np.searchsorted(time, begins)
        starts.append(float(begins[held.argmax()]))
    return starts
