"""What the QRS detector makes of one lead or of several at once, and which of these views decides about a beat.

A recording of several leads is looked at in several views: all leads together, as ever, and up to ``MOST_ALONE`` leads
each by itself. Where they agree there is nothing to decide. Where they do not, each view votes with its log odds,
weighted by how clear-cut its answers of the last ten seconds were: a lead that movement ruins for a moment gives
answers near 0 and is outvoted, whether it would add a beat or hide one. A view of a lead on which nothing is to be
seen has no vote. One lead alone is one view, and there is no vote.

The rule and its constants were chosen on the DS1 records of MIT-BIH, on SVDB and on QTDB; figures in
benchmarks/qrs/README.md and docs/decisions/0057.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ecgfed.domain.signal import qrs_features, qrs_net, qrs_rhythm, qrs_signal
from ecgfed.domain.signal.qrs_rhythm import MEMORY, Likely
from ecgfed.domain.signal.qrs_signal import BLOCK, RATE_HZ, Floats, Ints, Traces
from ecgfed.domain.signal.qrs_state import digest_of

#: Log odds of the first look below which a candidate is dropped, and of the second from which it is a beat; chosen on
#: DS1 by cross-validation (benchmarks/qrs/train.py).
KEEP = -5.0
THRESHOLD = 0.0
#: Leads that are looked at alone beside all together: the lead in use and the first others.
MOST_ALONE = 3
#: Two views mean the same beat when their candidates are this near, and the same wave when they are that near.
APART, NEAR = round(0.15 * RATE_HZ), round(0.1 * RATE_HZ)
#: A view is trusted by its scores from so long ago up to so shortly before, none of them counted beyond the limit.
TRUST_FROM, TRUST_TO, TRUST_LIMIT = 10 * RATE_HZ, round(0.35 * RATE_HZ), 4.0
#: Log odds of a view that has no candidate at all where another one has a beat.
NOTHING = -8.0
#: A beat is due when this share of the usual interval has passed since the last one; then the sum of log odds is raised
#: by so much; of a beat that one lead alone has, if that lead is as sure as this: of P waves in a pause it is not.
DUE_SHARE, DUE_ODDS, DUE_LEAST = 0.85, 3.0, 2.0
#: The usual interval is the median of so many, from so few on.
USUAL_OF, USUAL_FROM = 8, 3
#: A wave is weak when its envelope on every lead is below this share of the last beats' (lower quartile of so many),
#: but at least and at most so many microvolt. A weak wave is a beat only if it stands this many octaves above the
#: envelope's median: white noise of 5 to 20 microvolt reaches 1.5, R waves of 50 microvolt stay above 1.9.
WEAK_LEAST_UV, WEAK_MOST_UV, WEAK_SHARE, WEAK_OF, WEAK_OCTAVES = 30.0, 60.0, 0.12, 16, 1.5
_WEAK_RATIO = WEAK_OCTAVES / 2 * qrs_features.UNIT
_MEDIAN = 1  # of the levels: the median of the envelope


@dataclass(frozen=True)
class ViewBeat:
    """A beat of one view.

    Attributes:
        at: 200 Hz sample of the segment, the centre of the envelope.
        view: number of the view.
        score: log odds of the second look.
        peak: sample of the segment at which the R peak stands.
    """

    at: int
    view: int
    score: float
    peak: int


class View:
    """One lead, or all of them, as the detector's networks see it.

    Args:
        rows: numbers of the leads.
        wanted: the lead on which R peaks are put.
    """

    def __init__(self, rows: Sequence[int], lead_in_use: int) -> None:
        self.rows, self.wanted = np.array(rows, np.int64), lead_in_use
        self.likely: Likely | None = None
        self.at, self.score = np.empty(0, np.int64), np.empty(0, np.float32)  # of all candidates decided on
        self.sizes = np.empty((len(self.rows), 0), np.float32)  # own envelopes of the last beats

    def state(self) -> bytes:
        """Return a hash of all that later answers depend on."""
        return digest_of(vars(self))

    def take(self, traces: Traces, level: Floats, back: int, stop: int) -> None:
        """Look for candidates in some blocks.

        Args:
            traces: traces of every lead.
            level: (6, leads, blocks) of the blocks to search and of one more on each side.
            back: samples of the traces before the first block to search.
            stop: samples of the traces that there are.
        """
        envelope = traces.envelope[self.rows]
        at = qrs_signal.candidates(envelope, level[:, self.rows], back)
        at = at[at < stop]
        fresh = self._first_look(traces, at, level[:, :, (at - back) // BLOCK + 1])
        self.likely = self.likely.joined(fresh) if self.likely else fresh

    def _first_look(self, traces: Traces, at: Ints, level: Floats) -> Likely:
        """Return the candidates that the first network does not rule out."""
        every = qrs_signal.lead_weights(level)
        weight = every[self.rows]
        rank = np.argsort(np.argsort(-weight, axis=0, kind="stable"), axis=0, kind="stable")
        counted = (weight > 0) & (rank < qrs_net.LEADS)
        sizes = qrs_features.beat_envelope(traces, at, level)
        envelope, view_traces = sizes[self.rows], traces.some(self.rows)
        features = qrs_features.lead_features(view_traces, at, level[:, self.rows], envelope)
        score, mixed = qrs_net.first_look(features, counted)
        lead = np.where(every[self.wanted] > 0, self.wanted, every.argmax(axis=0)).astype(np.int64)
        size = np.take_along_axis(sizes, lead[None], axis=0)[0]
        ratio = qrs_features.level_ratios(features, counted)
        form = features[:, :, qrs_features.FORM]
        likely = Likely(at + traces.start, score, mixed, envelope, counted, form, ratio, lead, size)
        return likely.some(np.flatnonzero(score > KEEP))

    def second_look(self, first: int, stop: int) -> tuple[Likely, Floats]:
        """Return the beats of the blocks ``first`` to ``stop`` (not included), and their scores."""
        assert self.likely is not None
        block = self.likely.at // BLOCK
        which = np.flatnonzero((block >= first) & (block < stop))
        score = qrs_net.second_look(qrs_rhythm.rhythm_features(self.likely, which))
        beat = np.flatnonzero(score > THRESHOLD)
        strong = beat[self._strong(self.likely.some(which[beat]))]
        weak = np.setdiff1d(beat, strong)
        score[weak] = NOTHING
        self.at, self.score = np.append(self.at, self.likely.at[which]), np.append(self.score, score)
        return self.likely.some(which[strong]), score[strong]

    def _strong(self, beats: Likely) -> Ints:
        """Return which beats are more than noise in a lead whose heart has stopped, or that has come off."""
        doubtful = beats.ratio[:, _MEDIAN] < _WEAK_RATIO
        size = np.where(beats.counted, beats.envelope, 0).astype(np.float32)
        if not doubtful.any():
            self.sizes = np.concatenate([self.sizes, size], axis=1)[:, -WEAK_OF:]
            return np.arange(len(beats.at))
        strong = []
        for number in range(len(beats.at)):
            mine = size[:, number]
            if doubtful[number]:
                known = self.sizes.shape[1]
                usual = np.sort(self.sizes, axis=1)[:, known // 4] if known else np.zeros_like(mine)
                minimum = np.clip(np.float32(WEAK_SHARE) * usual, np.float32(WEAK_LEAST_UV), np.float32(WEAK_MOST_UV))
                if (mine < minimum).all():
                    continue
            strong.append(number)
            self.sizes = np.append(self.sizes, mine[:, None], axis=1)[:, -WEAK_OF:]
        return np.array(strong, np.int64)

    def trust(self, at: int) -> float:
        """Return from 0 to 1 how clear-cut the answers before a 200 Hz sample were; 1 where there were none."""
        low, high = np.searchsorted(self.at, [at - TRUST_FROM, at - TRUST_TO])
        if high == low:
            return 1.0
        # scores are whole multiples of 2^-15, so this sum has no rounding
        clear = float(np.minimum(np.abs(self.score[low:high]), TRUST_LIMIT).sum(dtype=np.float64))
        share = clear / (TRUST_LIMIT * (high - low))
        share *= share
        share *= share
        return float(share * share)

    def odds(self, at: int) -> float:
        """Return the highest log odds of the candidates near a 200 Hz sample."""
        low, high = np.searchsorted(self.at, [at - NEAR, at + NEAR + 1])
        return float(self.score[low:high].max()) if high > low else NOTHING

    def forget(self, decided: int) -> None:
        """Drop what no decision from a block on looks at."""
        assert self.likely is not None
        self.likely = self.likely.since(max(decided * BLOCK - MEMORY, 0))
        first = int(np.searchsorted(self.at, decided * BLOCK - TRUST_FROM - 2 * APART))
        self.at, self.score = self.at[first:].copy(), self.score[first:].copy()


def views_of(leads: int, lead_in_use: int) -> tuple[View, ...]:
    """Return all leads together, and of several the lead in use and the first others each alone."""
    together = View(range(leads), lead_in_use)
    if leads == 1:
        return (together,)
    alone = [lead_in_use, *(lead for lead in range(leads) if lead != lead_in_use)][:MOST_ALONE]
    return (together, *(View([lead], lead_in_use) for lead in alone))


#: A 200 Hz sample before any recording.
_NEVER = -(10**9)


@dataclass
class LeadVote:
    """Decides between views.

    Attributes:
        waiting: beats of any view that have not been decided on, in order of time.
        together: 200 Hz samples of the last beats of all leads together, decided on or not.
        alone: the same of each lead alone.
        added: those that a lead alone had and that were decided on, whatever became of them.
        accepted: the last beats that were accepted.
    """

    waiting: list[ViewBeat] = field(default_factory=list)
    together: list[int] = field(default_factory=list)
    alone: list[list[int]] = field(default_factory=list)
    added: int = _NEVER
    accepted: list[int] = field(default_factory=list)

    def state(self) -> bytes:
        """Return a hash of all that later answers depend on."""
        return digest_of({name: (repr(value),) for name, value in vars(self).items()})

    def take(self, fresh: list[ViewBeat], views: Sequence[View]) -> None:
        """Take what the views have decided on."""
        if not self.alone:
            self.alone = [[] for _ in views[1:]]
        self.waiting = sorted([*self.waiting, *fresh], key=lambda beat: (beat.at, beat.view))
        for beat in fresh:
            (self.alone[beat.view - 1] if beat.view else self.together).append(beat.at)

    def decide(self, views: Sequence[View], limit: int, active: "ActiveBlocks") -> list[ViewBeat]:
        """Return the beats before a 200 Hz sample that are accepted, in order of time."""
        chosen = []
        for number, beat in enumerate(self.waiting):
            if beat.at >= limit:
                self.waiting = self.waiting[number:]
                break
            if self._is_beat(beat, views, active):
                self.accepted = [*self.accepted, beat.at][-USUAL_OF - 1 :]
                chosen.append(beat)
        else:
            self.waiting = []
        oldest = limit - 2 * APART
        self.together = [at for at in self.together if at >= oldest]
        self.alone = [[at for at in candidates if at >= oldest] for candidates in self.alone]
        if self.added < oldest:  # of no consequence any more, and so no part of the state
            self.added = _NEVER
        return chosen

    def _is_beat(self, beat: ViewBeat, views: Sequence[View], active: "ActiveBlocks") -> bool:
        voters = [view for view in views[1:] if active.on(int(view.rows[0]), beat.at)]
        if beat.view == 0:
            agreed = all(
                _has_near(self.alone[number], beat.at) for number, view in enumerate(views[1:]) if view in voters
            )
            if agreed:
                return True
        elif _has_near(self.together, beat.at) or beat.at - self.added <= APART:
            return False
        else:
            self.added = beat.at
        votes = 0.0
        for view in (views[0], *voters):  # not sum(), which rounds otherwise from Python 3.12 on
            votes += view.odds(beat.at) * view.trust(beat.at)
        return votes + self._due(beat) > 0

    def _due(self, beat: ViewBeat) -> float:
        """Return what is added to the log odds of a beat that comes when one is due."""
        intervals = np.diff(self.accepted)
        if len(intervals) < USUAL_FROM or (beat.view and beat.score < DUE_LEAST):
            return 0.0
        usual = float(np.sort(intervals)[len(intervals) // 2])
        return DUE_ODDS if beat.at - self.accepted[-1] > DUE_SHARE * usual else 0.0


@dataclass(frozen=True)
class ActiveBlocks:
    """On which leads anything was to be seen, block by block.

    Attributes:
        first: the first block.
        leads: (leads, blocks) bool.
    """

    first: int
    leads: NDArray[np.bool_]

    def on(self, lead: int, at: int) -> bool:
        """Say whether anything was to be seen on a lead around a 200 Hz sample."""
        return bool(self.leads[lead, at // BLOCK - self.first])

    def joined(self, start: int, more: NDArray[np.bool_]) -> "ActiveBlocks":
        """Return it with the blocks from ``start`` on."""
        return ActiveBlocks(self.first, np.concatenate([self.leads[:, : start - self.first], more], axis=1))

    def since(self, block: int) -> "ActiveBlocks":
        """Return it from a block on."""
        return ActiveBlocks(block, self.leads[:, block - self.first :].copy()) if block > self.first else self


def _has_near(ordered: Sequence[int], at: int) -> bool:
    """Say whether one of some numbers in order is no more than ``APART`` away."""
    position = bisect_left(ordered, at - APART)
    return position < len(ordered) and ordered[position] <= at + APART
