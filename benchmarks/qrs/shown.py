"""The candidates of the copies, what the networks are shown of them, and which are beats."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from copies import Copy
from physiology import Strip

from ecgfed.domain.signal import qrs_features, qrs_net, qrs_rhythm, qrs_signal
from ecgfed.domain.signal.qrs import detect_qrs
from ecgfed.domain.signal.qrs_flat import FlatLine
from ecgfed.domain.signal.qrs_rhythm import Likely, rhythm_features
from ecgfed.domain.signal.qrs_signal import RATE_HZ
from ecgfed.domain.signal.qrs_views import KEEP, View

#: A candidate this near a beat stands for it (s), and others this near teach less.
NEAR_S, BESIDE_S = 0.15, 0.125


@dataclass
class Example:
    """One strip: its candidates, and what the networks see of them."""

    record: str
    kind: str
    at: np.ndarray  # (candidates,) 200 Hz samples
    features: np.ndarray  # (leads, candidates, LEAD_FEATURES) int16
    counted: np.ndarray  # (leads, candidates)
    envelope: np.ndarray  # (leads, candidates)
    beat: np.ndarray  # (candidates,) 1 for a beat
    weight: np.ndarray  # (candidates,) 0 in flutter
    peaks: tuple[np.ndarray, np.ndarray, np.ndarray]  # of beats: extrema there, their features, the annotated one
    beats: int = 0
    lost: int = 0  # beats without a candidate

    def likely(self) -> tuple[Likely, np.ndarray]:
        """Run the first look of the weights in use; return what it keeps, and the indices of that."""
        features = self.features.astype(np.float32)
        score, mixed = qrs_net.first_look(features, self.counted)
        lead, form = np.zeros(len(self.at), np.int64), features[:, :, qrs_features.FORM]
        ratio = qrs_features.level_ratios(features, self.counted)
        every = Likely(self.at, score, mixed, self.envelope, self.counted, form, ratio, lead, self.envelope[0])
        kept = np.flatnonzero(score > KEEP)
        return every.some(kept), kept


class _Watching:
    """Stands in for the first look, and keeps what it would have seen."""

    def __init__(self) -> None:
        self.calls: list[tuple] = []

    def __call__(self, view: View, made, at, level):
        leads = len(view.rows)
        if leads == made.shape.shape[0]:  # all together
            self.calls.append((made, at, level))
        none = np.empty(0, np.float32)
        per_lead, counted = np.empty((leads, 0), np.float32), np.empty((leads, 0), np.bool_)
        form = np.empty((leads, 0, 21), np.float32)
        mixed, ratio = np.empty((0, qrs_rhythm.MIXED), np.float32), np.empty((0, qrs_rhythm.LEVELS), np.float32)
        nowhere = np.empty(0, np.int64)
        return Likely(nowhere, none, mixed, per_lead, counted, form, ratio, nowhere, none)


def watch(strip: Strip) -> list[tuple]:
    """Return (traces, candidates, levels) of every piece of a strip, all leads together; a flat line is no gap here."""
    watching, first, second, mask = _Watching(), View._first_look, View.second_look, FlatLine.mask
    View._first_look = lambda view, *seen: watching(view, *seen)  # type: ignore[method-assign]
    View.second_look = lambda view, *blocks: (view.likely, np.empty(0, np.float32))  # type: ignore[assignment, method-assign, return-value]
    FlatLine.mask = lambda line, chunk: np.zeros(chunk.shape[1], np.bool_)  # type: ignore[method-assign]
    try:
        detect_qrs(strip.signals_mv, strip.fs_hz)
    finally:
        View._first_look, View.second_look, FlatLine.mask = first, second, mask  # type: ignore[method-assign]
    return watching.calls


def labels(at_s: np.ndarray, beats_s: np.ndarray, flutter_s: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    """Label candidates: the nearest one to each annotated beat within 150 ms is a beat; its neighbours count less.

    Returns:
        Beat or not, weight, and how many beats have no candidate.
    """
    beat, weight = np.zeros(len(at_s)), np.ones(len(at_s))
    if len(at_s) < 2 or not len(beats_s):
        return beat, weight, len(beats_s)
    after = np.clip(np.searchsorted(at_s, beats_s), 1, len(at_s) - 1)
    before = after - 1
    nearest = np.where(np.abs(at_s[before] - beats_s) <= np.abs(at_s[after] - beats_s), before, after)
    for side in (before, after):
        weight[side[np.abs(at_s[side] - beats_s) <= BESIDE_S]] = 0.3
    found = nearest[np.abs(at_s[nearest] - beats_s) <= NEAR_S]
    beat[found] = weight[found] = 1
    for start, end in flutter_s:
        weight[(at_s >= start - 1) & (at_s <= end + 1)] = 0
    return beat, weight, len(beats_s) - len(np.unique(found))


def example(copy: Copy) -> Example | None:
    """Return what a copy teaches; None where it has no candidates."""
    parts, peaks, strip = [], [], copy.strip
    beats_s = (strip.beats + 0.5) / strip.fs_hz
    there = np.rint(beats_s * RATE_HZ).astype(np.int64)
    for made, at, level in watch(strip):
        weight = qrs_signal.lead_weights(level)
        rank = np.argsort(np.argsort(-weight, axis=0, kind="stable"), axis=0, kind="stable")
        counted = (weight > 0) & (rank < qrs_net.LEADS)
        own = qrs_features.beat_envelope(made, at, level)
        seen = qrs_features.lead_features(made, at, level, own).astype(np.int16)
        parts.append((at + made.start, seen, counted, own))
        if copy.placed and len(there):
            peaks.append(_peaks(made, at, own, weight, there - made.start))
    if not parts or not sum(len(part[0]) for part in parts):
        return None
    places, features, counted, own = zip(*parts, strict=True)
    at = np.concatenate(places)
    flutter_s = np.array(copy.flutter, np.float64).reshape(-1, 2) / strip.fs_hz
    beat, weight, lost = labels(at / RATE_HZ, beats_s, flutter_s)
    together = tuple(np.concatenate(part) for part in zip(*peaks, strict=True)) if peaks else ()
    whole = [np.concatenate(part, axis=1) for part in (features, counted, own)]
    return Example(strip.name, copy.kind, at, *whole, beat, weight, together, len(beats_s), lost)


def _peaks(made, at: np.ndarray, own: np.ndarray, weight: np.ndarray, beats: np.ndarray) -> tuple:
    """Return the extrema around the candidates that stand for beats, and which of them is the annotated one."""
    right = beats[np.clip(np.searchsorted(beats, at), 0, len(beats) - 1)]
    left = beats[np.clip(np.searchsorted(beats, at) - 1, 0, len(beats) - 1)]
    nearest = np.where(np.abs(left - at) <= np.abs(right - at), left, right)
    near = (np.abs(nearest - at) <= 26) & (weight[0] > 0)
    place, present, features = qrs_features.extrema(made, 0, at[near], own[0, near])
    distance = np.where(present, np.abs(place - nearest[near, None]), 10**6)
    clear = distance.min(axis=1) <= 5
    return present[clear], features[clear].astype(np.int16), distance.argmin(axis=1)[clear]


def examples(copies: Iterable[Copy]) -> list[Example]:
    """Return what some copies teach."""
    return [made for made in map(example, copies) if made is not None and np.isfinite(made.envelope).all()]


def rhythm_examples(made: Iterable[Example]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return what the second look is shown of all examples, which are beats, and their weights."""
    parts = []
    for one in made:
        likely, kept = one.likely()
        if len(kept):
            seen = rhythm_features(likely, np.arange(len(kept))).astype(np.int16)
            parts.append((seen, one.beat[kept], one.weight[kept]))
    return tuple(np.concatenate(part) for part in zip(*parts, strict=True))  # type: ignore[return-value]
