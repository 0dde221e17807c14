"""Ectopic beats of one kind: single ones, couplets, runs, bigeminy and trigeminy.

Runs claim their beats first, then bigeminy, then trigeminy; couplets and single beats are what is left.
"""

from dataclasses import dataclass

import numpy as np

from ecgfed.events.beats import Beats, Ints, Mask
from ecgfed.events.kinds import Kind
from ecgfed.events.rules import EventRules


@dataclass(frozen=True)
class Series:
    """Ectopic beats that belong together.

    Attributes:
        first: number of its first ectopic beat among all beats.
        last: of its last.
        beats: how many of its beats are ectopic.
        start_s: time of its first ectopic beat in seconds.
        stop_s: of its last.
        per_min: 60 times the intervals from first to last over the seconds between them.
        uncertain: how many of its ectopic beats are uncertain; None where nobody looked.
        cut: it begins or ends at an unusable stretch, so that it may be longer.
    """

    first: int
    last: int
    beats: int
    start_s: float
    stop_s: float
    per_min: float
    uncertain: int | None = None
    cut: bool = False


@dataclass(frozen=True)
class Ectopy:
    """The ectopic beats of one kind.

    Attributes:
        kind: which.
        total: all of them that lie in no unusable stretch.
        counted: all beats that lie in no unusable stretch.
        singles: those with no neighbour of their kind, outside bigeminy and trigeminy.
        couplets: two in a row.
        short: three in a row and more that are too few for a run; none by the usual rules.
        runs: ``run_beats`` in a row and more.
        bigeminy: one in every two beats, ``cycles`` times and more.
        trigeminy: one in every three.
        fast: how many of the runs are faster than ``fast_run_per_min``.
        uncertain: how many of ``total`` are uncertain; None where nobody looked.
    """

    kind: Kind
    total: int
    counted: int
    singles: int
    couplets: tuple[Series, ...]
    short: tuple[Series, ...]
    runs: tuple[Series, ...]
    bigeminy: tuple[Series, ...]
    trigeminy: tuple[Series, ...]
    fast: int
    uncertain: int | None = None

    @property
    def percent(self) -> float:
        """Burden: their share of all counted beats in percent."""
        return 100 * self.total / self.counted

    @property
    def longest(self) -> Series | None:
        """The run of most beats, the first of several; None where there is no run."""
        return max(self.runs, key=lambda one: one.beats, default=None)

    @property
    def fastest(self) -> Series | None:
        """The fastest run."""
        return max(self.runs, key=lambda one: one.per_min, default=None)


def ectopy(beats: Beats, kind: Kind, rules: EventRules) -> Ectopy | None:
    """Return the ectopic beats of a kind; None where nothing was looked at: no class is of it, or no beat counts."""
    if not beats.has(kind) or not beats.assessed.any():
        return None
    member = (beats.kind == kind) & beats.assessed
    first, last = _in_a_row(member, beats)
    many = last - first + 1
    singles = first[many == 1]
    bigeminy, singles = _every(beats, singles, member, 2, rules.cycles)
    trigeminy, singles = _every(beats, singles, member, 3, rules.cycles)

    def series(chosen: Ints) -> tuple[Series, ...]:
        return tuple(_series(beats, int(first[at]), int(last[at]), int(many[at]), member) for at in chosen)

    runs = series(np.flatnonzero(many >= rules.run_beats))
    return Ectopy(
        kind,
        int(member.sum()),
        int(beats.assessed.sum()),
        len(singles),
        series(np.flatnonzero(many == 2)),
        series(np.flatnonzero((many > 2) & (many < rules.run_beats))),
        runs,
        bigeminy,
        trigeminy,
        sum(one.per_min > rules.fast_run_per_min for one in runs),
        None if beats.uncertain is None else int((member & beats.uncertain).sum()),
    )


def _in_a_row(member: Mask, beats: Beats) -> tuple[Ints, Ints]:
    """Return first and last beat of each row of members; an unusable stretch between two parts them."""
    if not len(member):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    joined = member[:-1] & member[1:] & beats.known
    first = np.flatnonzero(member & ~np.append(False, joined))
    last = np.flatnonzero(member & ~np.append(joined, False))
    return first, last


def _every(beats: Beats, singles: Ints, member: Mask, period: int, cycles: int) -> tuple[tuple[Series, ...], Ints]:
    """Return the series in which every ``period``-th beat is one of these singles, and the singles that are left.

    The beats between are ectopic of neither kind, and no interval touches an unusable stretch.
    """
    if len(singles) < cycles:
        return (), singles
    ectopic = np.isin(beats.kind, (Kind.SUPRA, Kind.VENTRICULAR)).astype(np.int64)
    others = np.concatenate([[0], np.cumsum(ectopic)])
    lost = np.concatenate([[0], np.cumsum(~beats.known)])
    here, then = singles[:-1], singles[1:]
    linked = (then - here == period) & (others[then] - others[here + 1] == 0) & (lost[then] == lost[here])
    starts = np.flatnonzero(~np.append(False, linked))
    stops = np.append(starts[1:], len(singles))
    claimed = [(a, b) for a, b in zip(starts.tolist(), stops.tolist(), strict=True) if b - a >= cycles]
    left = np.ones(len(singles), np.bool_)
    for start, stop in claimed:
        left[start:stop] = False
    found = tuple(_series(beats, int(singles[a]), int(singles[b - 1]), b - a, member) for a, b in claimed)
    return found, singles[left]


def _series(beats: Beats, first: int, last: int, many: int, member: Mask) -> Series:
    start, stop = float(beats.time_s[first]), float(beats.time_s[last])
    here = slice(first, last + 1)
    doubtful = None if beats.uncertain is None else int((member[here] & beats.uncertain[here]).sum())
    cut = bool(first and not beats.known[first - 1]) or bool(last < len(beats) - 1 and not beats.known[last])
    return Series(first, last, many, start, stop, 60 * (last - first) / (stop - start), doubtful, cut)
