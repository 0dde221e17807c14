"""Series of consecutive ectopic beats, and which of them are certain."""

from dataclasses import dataclass, replace

import numpy as np

from ecgfed.base.language import tr_later
from ecgfed.domain.events.beats import SOON_AFTER, SOON_BEFORE, Beats, Ints, Mask
from ecgfed.domain.events.kinds import Kind
from ecgfed.domain.events.rules import EventRules

#: Consecutive beats whose mean probability decides whether a run is certain.
_CORE = 3
#: An interval so many times as long as the median of its run may hide a beat.
_MAY_HIDE = 1.25
#: Intervals inside two series needed to estimate their rhythm.
_OWN_RHYTHM = 2


@dataclass(frozen=True)
class Series:
    """A series of ectopic beats.

    Attributes:
        first: index of its first ectopic beat among all beats.
        last: index of its last.
        beats: number of its ectopic beats; for a run of all its beats, bridged and undetected ones included.
        start_s: time of its first ectopic beat in seconds.
        stop_s: time of its last.
        per_min: 60 times the intervals from first to last over the seconds between them.
        uncertain: number of its ectopic beats of low confidence; None where confidence was not assessed.
        cut: it begins or ends at an unusable stretch, so that it may be longer.
        review: it must be reviewed before it counts as a finding.
        bridged: number of low-confidence beats of another class inside a run.
        undetected: number of waves inside or beside a run that may be beats that the detector did not find.
        name: of a run, ``VT``, ``slow ventricular run``, ``SVT``, ``supraventricular run``; else ``""``.
    """

    first: int
    last: int
    beats: int
    start_s: float
    stop_s: float
    per_min: float
    uncertain: int | None = None
    cut: bool = False
    review: bool = False
    bridged: int = 0
    undetected: int = 0
    name: str = ""


@dataclass(frozen=True)
class SeriesMaker:
    """Makes series of the ectopic beats of one kind.

    Attributes:
        beats: all beats.
        kind: the kind of ectopic beats.
        rules: the rules of counting.
        member: (beats,) bool, the ectopic beats outside unusable stretches.
    """

    beats: Beats
    kind: Kind
    rules: EventRules
    member: Mask

    def series(self, first: int, last: int, count: int, *, run: bool = False, undetected: int = 0) -> Series:
        """Return the series from one ectopic beat to another, of ``count`` beats, ``undetected`` ones not included."""
        beats, part = self.beats, slice(first, last + 1)
        start, stop = float(beats.time_s[first]), float(beats.time_s[last])
        low = None if beats.uncertain is None else int((self.member[part] & beats.uncertain[part]).sum())
        cut = bool(first and not beats.known[first - 1]) or bool(last < len(beats) - 1 and not beats.known[last])
        span = int(beats.sample[last] - beats.sample[first])
        intervals = last - first + (undetected and self.hidden_inside(first, last))
        per_min = 60 * intervals * beats.fs_hz / span  # of samples: 100 a minute is then no more than 100
        bridged = int((~self.member[part]).sum()) if run else 0
        review = undetected > 0 or not self.certain(first, last, per_min)
        of_all = count + undetected
        name = self.name(of_all, per_min) if run else ""
        return Series(first, last, of_all, start, stop, per_min, low, cut, review, bridged, undetected, name)

    def completed(self, first: Ints, last: Ints) -> Mask:
        """Return which rows (rows,) of ventricular beats, one short of a run, an undetected beat may make one.

        A wave inside such a row is near the beats on both sides of it, one beside it near its first or last beat.
        """
        beats = self.beats
        if self.kind is not Kind.VENTRICULAR or beats.undetected is None or not len(first):
            return np.zeros(len(first), np.bool_)
        beside = np.concatenate([[0], np.where(beats.known, beats.undetected, 0), [0]])
        inside = np.array([self.hidden_inside(a, b) for a, b in zip(first.tolist(), last.tolist(), strict=True)])
        near = (beside[first] & SOON_BEFORE > 0) | (beside[last + 1] & SOON_AFTER > 0) | (inside > 0)
        return np.asarray(near & (last - first + 1 == self.rules.run_beats - 1))

    def hidden_inside(self, first: int, last: int) -> int:
        """Return 1 where a wave between two beats of a row may be an undetected beat of it, else 0."""
        undetected = self.beats.undetected
        return 0 if undetected is None else int((undetected[first:last] == SOON_AFTER + SOON_BEFORE).any())

    def certain(self, first: int, last: int, per_min: float) -> bool:
        """Return whether a series counts as a finding without a review.

        Series that a person labelled do. With a model's labels a series is certain if none of its beats is of low
        confidence. A ventricular one is also certain if it is fast, few of its beats are unlike those of training, and
        three consecutive beats (both of a couplet) have a high mean probability. See docs/decisions/0059.
        """
        beats, span, rules = self.beats, slice(first, last + 1), self.rules
        if beats.uncertain is None:
            return not beats.provisional
        if not beats.uncertain[span].any():
            return True
        if self.kind is not Kind.VENTRICULAR or beats.probability is None or per_min <= rules.fast_run_per_min:
            return False
        unlike = 0.0 if beats.out_of_distribution is None else 100 * float(beats.out_of_distribution[span].mean())
        probability = beats.kind_probability(self.kind)[span]
        core = np.convolve(probability, np.ones(width := min(_CORE, len(probability))) / width, "valid")
        return unlike <= rules.certain_unlike_percent and float(core.max()) >= rules.certain_probability

    def name(self, count: int, per_min: float) -> str:
        """Return the name of a run by its rate and length."""
        fast = per_min > self.rules.fast_run_per_min
        if self.kind is Kind.VENTRICULAR:
            return tr_later("VT") if fast else tr_later("slow ventricular run")
        return tr_later("SVT") if fast and count >= self.rules.svt_beats else tr_later("supraventricular run")

    def bridges(self) -> Mask:
        """Return which beats (beats,) of another class a run may bridge.

        Such a beat is of low confidence, not paced, and between two ectopic beats with known intervals. Either its
        probability of being ectopic is at least ``bridge_probability``, or both its intervals are near the median
        interval of the two adjacent series. At most one in three beats of a run is bridged. A ventricular series that
        is one beat short of a run is one with such a probable beat at its start or end: docs/decisions/0059.
        """
        beats, member = self.beats, self.member
        across = np.zeros(len(beats), np.bool_)
        if beats.uncertain is None or len(beats) < _CORE:
            return across
        inside = ~member & beats.assessed & beats.uncertain & (beats.kind != Kind.PACED)
        between = inside[1:-1] & member[:-2] & member[2:] & beats.known[:-1] & beats.known[1:]
        at = np.flatnonzero(between) + 1
        may_be = np.zeros(len(beats), np.bool_)
        if beats.probability is not None:
            may_be = beats.kind_probability(self.kind) >= self.rules.bridge_probability
        if len(at):
            across[at] = may_be[at] | self._in_rhythm(at)
            across = self._few(across)
        return across | self._beside(across, inside & may_be) if self.kind is Kind.VENTRICULAR else across

    def _beside(self, across: Mask, may_be: Mask) -> Mask:
        """Return the beats (beats,) that make runs of the series that are one beat short, the more probable of two."""
        beats, short = self.beats, self.rules.run_beats - 1
        beside = np.zeros(len(beats), np.bool_)
        if not may_be.any():
            return beside
        probability = beats.kind_probability(self.kind)
        first, last = in_a_row(self.member | across, beats)
        for start, stop in zip(first.tolist(), last.tolist(), strict=True):
            if stop - start + 1 != short or across[start : stop + 1].any():
                continue
            sides = [
                at for at, known in ((start - 1, start - 1), (stop + 1, stop)) if self._is_beside(at, known, may_be)
            ]
            if sides:
                beside[max(sides, key=lambda at: float(probability[at]))] = True
        return beside

    def _is_beside(self, at: int, interval: int, may_be: Mask) -> bool:
        """Return whether a beat next to a series may be of it, and is next to no other one."""
        if not 0 <= at < len(may_be) or not may_be[at] or not self.beats.known[interval]:
            return False
        return int(self.member[max(at - 1, 0) : at + 2].sum()) == 1

    def _in_rhythm(self, at: Ints) -> Mask:
        """Return which beats between two series keep their rhythm."""
        first, last = in_a_row(self.member, self.beats)
        rr, tolerance = self.beats.rr_s, self.rules.bridge_percent / 100
        in_rhythm = np.zeros(len(at), np.bool_)
        for number, beat in enumerate(at.tolist()):
            behind = int(np.searchsorted(first, beat))
            before, after = int(first[behind - 1]), int(last[behind])
            neighbour_rr = np.concatenate([rr[before : beat - 1], rr[beat + 1 : after]])
            if len(neighbour_rr) >= _OWN_RHYTHM:
                median = float(np.median(neighbour_rr))
                in_rhythm[number] = bool((np.abs(rr[beat - 1 : beat + 1] / median - 1) <= tolerance).all())
        return in_rhythm

    def _few(self, across: Mask) -> Mask:
        """Remove bridges in rows that are too short for a run, or where more than one in three beats is bridged."""
        first, last = in_a_row(self.member | across, self.beats)
        total = np.concatenate([[0], np.cumsum(across)])
        bridged, count = total[last + 1] - total[first], last - first + 1
        across_few = across.copy()
        for row in np.flatnonzero((bridged > 0) & ((count < self.rules.run_beats) | (3 * bridged > count))).tolist():
            across_few[first[row] : last[row] + 1] = False
        return across_few


def confirmed_by_runs(beats: Beats, rules: EventRules) -> Beats:
    """Return the beats, none doubted and each interval confirmed within runs that the model recognises surely.

    A second analysis that knows only where QRS complexes are doubts wide ones. Where each of ``run_beats`` and more
    consecutive beats is ventricular with ``certain_probability``, of no low confidence and like those of training, the
    model is a second analysis of its own. An interval 1.25 times as long as the run's median may hide a beat and stays
    as it is.
    """
    if beats.confirmed is None or beats.probability is None or beats.uncertain is None:
        return beats
    sure = (beats.kind == Kind.VENTRICULAR) & ~beats.uncertain & beats.assessed
    sure &= beats.kind_probability(Kind.VENTRICULAR) >= rules.certain_probability
    if beats.out_of_distribution is not None:
        sure &= ~beats.out_of_distribution
    confirmed = beats.confirmed.copy()
    doubted = None if beats.doubted is None else beats.doubted.copy()
    for first, last in zip(*in_a_row(sure, beats), strict=True):
        if last - first + 1 < rules.run_beats:
            continue
        rr = beats.rr_s[first:last]
        confirmed[first:last] |= rr <= _MAY_HIDE * np.median(rr)
        if doubted is not None:
            doubted[first : last + 1] = False
    return replace(beats, confirmed=confirmed, doubted=doubted)


def in_a_row(member: Mask, beats: Beats) -> tuple[Ints, Ints]:
    """Return first and last beat of each row of members; unusable stretches separate rows."""
    if not len(member):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    joined = member[:-1] & member[1:] & beats.known
    first = np.flatnonzero(member & ~np.append(False, joined))
    last = np.flatnonzero(member & ~np.append(joined, False))
    return first, last
