"""Ectopic beats of one kind: single ones, couplets, runs, bigeminy and trigeminy.

Runs claim their beats first, then bigeminy, then trigeminy; couplets and single beats are what is left.
"""

from dataclasses import dataclass

import numpy as np

from ecgfed.domain.events.beats import Beats, Ints
from ecgfed.domain.events.kinds import Kind
from ecgfed.domain.events.rules import EventRules
from ecgfed.domain.events.series import Series, SeriesMaker, in_a_row


@dataclass(frozen=True)
class Ectopy:
    """The ectopic beats of one kind.

    Attributes:
        kind: which.
        total: all of them that lie in no unusable stretch.
        counted: all beats that lie in no unusable stretch.
        singles: those with no neighbour of their kind, outside bigeminy, trigeminy and runs.
        couplets: two in a row.
        short: three in a row and more that are too few for a run; none by the usual rules.
        runs: ``run_beats`` in a row and more.
        bigeminy: one in every two beats, ``cycles`` times and more.
        trigeminy: one in every three.
        fast: how many of the runs are faster than ``fast_run_per_min``.
        uncertain: how many of ``total`` are of low confidence; None where confidence was not assessed.
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
        return max(self.runs, key=lambda run: run.beats, default=None)

    @property
    def fastest(self) -> Series | None:
        """The fastest run."""
        return max(self.runs, key=lambda run: run.per_min, default=None)

    @property
    def tachycardias(self) -> tuple[Series, ...]:
        """The runs that are tachycardias by rate and length: VT, SVT."""
        return tuple(run for run in self.runs if run.name in ("VT", "SVT"))


def ectopy(beats: Beats, kind: Kind, rules: EventRules) -> Ectopy | None:
    """Return the ectopic beats of a kind; None where nothing was looked at: no class is of it, or no beat counts."""
    if not beats.has(kind) or not beats.assessed.any():
        return None
    member = (beats.kind == kind) & beats.assessed
    maker = SeriesMaker(beats, kind, rules, member)
    first, last = in_a_row(member | maker.bridges(), beats)
    count = last - first + 1
    singles = first[count == 1]
    bigeminy, singles = _every(maker, singles, 2)
    trigeminy, singles = _every(maker, singles, 3)

    def series(rows: Ints, *, run: bool = False) -> tuple[Series, ...]:
        return tuple(maker.series(int(first[at]), int(last[at]), int(count[at]), run=run) for at in rows)

    runs = series(np.flatnonzero(count >= rules.run_beats), run=True)
    return Ectopy(
        kind,
        int(member.sum()),
        int(beats.assessed.sum()),
        len(singles),
        series(np.flatnonzero(count == 2)),
        series(np.flatnonzero((count > 2) & (count < rules.run_beats))),
        runs,
        bigeminy,
        trigeminy,
        sum(item.per_min > rules.fast_run_per_min for item in runs),
        None if beats.uncertain is None else int((member & beats.uncertain).sum()),
    )


def _every(maker: SeriesMaker, singles: Ints, period: int) -> tuple[tuple[Series, ...], Ints]:
    """Return the series in which every ``period``-th beat is one of these singles, and the singles that are left.

    The beats between are ectopic of neither kind, and no interval touches an unusable stretch.
    """
    beats, cycles = maker.beats, maker.rules.cycles
    if len(singles) < cycles:
        return (), singles
    ectopic = np.isin(beats.kind, (Kind.SUPRA, Kind.VENTRICULAR)).astype(np.int64)
    before = np.concatenate([[0], np.cumsum(ectopic)])
    lost = np.concatenate([[0], np.cumsum(~beats.known)])
    current, then = singles[:-1], singles[1:]
    linked = (then - current == period) & (before[then] - before[current + 1] == 0) & (lost[then] == lost[current])
    starts = np.flatnonzero(~np.append(False, linked))
    stops = np.append(starts[1:], len(singles))
    claimed = [(a, b) for a, b in zip(starts.tolist(), stops.tolist(), strict=True) if b - a >= cycles]
    remaining = np.ones(len(singles), np.bool_)
    for start, stop in claimed:
        remaining[start:stop] = False
    episodes = tuple(maker.series(int(singles[a]), int(singles[b - 1]), b - a) for a, b in claimed)
    return episodes, singles[remaining]
