"""Ectopic beats of one kind: single ones, couplets, runs, bigeminy and trigeminy.

Beats are assigned to runs first, then to bigeminy and trigeminy; the rest are couplets and single beats.
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
        kind: the kind.
        total: number of its beats outside unusable stretches.
        counted: number of all beats outside unusable stretches.
        singles: number of beats without a neighbour of their kind, outside bigeminy, trigeminy and runs.
        couplets: two consecutive beats.
        short: three or more consecutive beats that are too few for a run; none by the default rules.
        runs: ``run_beats`` or more consecutive beats.
        bigeminy: every second beat, ``cycles`` times or more.
        trigeminy: every third beat, likewise.
        fast: number of runs faster than ``fast_run_per_min``.
        uncertain: number of beats of ``total`` of low confidence; None where confidence was not assessed.
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
        """Burden: share of all counted beats in percent."""
        return 100 * self.total / self.counted

    @property
    def longest(self) -> Series | None:
        """The run with the most beats, the first of several; None without runs."""
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
    """Return the ectopic beats of a kind; None where not assessed: no class is of the kind, or no beat is counted."""
    if not beats.has(kind) or not beats.assessed.any():
        return None
    member = (beats.kind == kind) & beats.assessed
    maker = SeriesMaker(beats, kind, rules, member)
    first, last = in_a_row(member | maker.bridges(), beats)
    count = last - first + 1
    completed = maker.completed(first, last)
    singles = first[count == 1]
    bigeminy, singles = _every(maker, singles, 2)
    trigeminy, singles = _every(maker, singles, 3)

    def series(rows: Ints, *, run: bool = False) -> tuple[Series, ...]:
        spans = ((int(first[at]), int(last[at]), int(count[at]), int(completed[at])) for at in rows)
        return tuple(maker.series(a, b, beats, run=run, undetected=more) for a, b, beats, more in spans)

    runs = series(np.flatnonzero((count >= rules.run_beats) | completed), run=True)
    return Ectopy(
        kind,
        int(member.sum()),
        int(beats.assessed.sum()),
        len(singles),
        series(np.flatnonzero((count == 2) & ~completed)),
        series(np.flatnonzero((count > 2) & (count < rules.run_beats) & ~completed)),
        runs,
        bigeminy,
        trigeminy,
        sum(item.per_min > rules.fast_run_per_min for item in runs),
        None if beats.uncertain is None else int((member & beats.uncertain).sum()),
    )


def _every(maker: SeriesMaker, singles: Ints, period: int) -> tuple[tuple[Series, ...], Ints]:
    """Return the series in which every ``period``-th beat is one of these singles, and the remaining singles.

    The beats in between are not ectopic, and no interval touches an unusable stretch.
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
