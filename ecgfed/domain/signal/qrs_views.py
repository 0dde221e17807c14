"""What the QRS detector makes of one lead or of several at once, and which of these views decides about a beat.

A recording of several leads is looked at in several views: all leads together, as ever, and up to ``MOST_ALONE`` leads
each by itself. Where they agree there is nothing to decide. Where they do not, each view votes with its log odds,
weighted by how clear-cut its answers of the last ten seconds were: a lead that movement ruins for a moment gives
answers near 0 and is outvoted, whether it would add a beat or hide one. A view of a lead on which nothing is to be
seen has no vote. One lead alone is one view, and there is no vote.

The rule and its constants were chosen on the DS1 records of MIT-BIH, on SVDB and on QTDB; figures in
benchmarks/qrs/README.md and docs/decisions/0057.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ecgfed.domain.signal import qrs_features, qrs_net, qrs_rhythm, qrs_signal
from ecgfed.domain.signal.qrs_rhythm import MEMORY, Likely
from ecgfed.domain.signal.qrs_signal import BLOCK, RATE_HZ, Floats, Ints, Traces

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
class ViewBeats:
    """Beats of one or more views.

    Attributes:
        at: (n,) 200 Hz samples of the segment, the centres of the envelope.
        view: (n,) numbers of the views.
        score: (n,) float32 log odds of the second look.
        peak: (n,) samples of the segment at which the R peaks stand.
    """

    at: Ints
    view: Ints
    score: Floats
    peak: Ints

    @classmethod
    def joined(cls, parts: Sequence["ViewBeats"]) -> "ViewBeats":
        """Return the beats of all parts, in order of time and view."""
        at, view = np.concatenate([part.at for part in parts]), np.concatenate([part.view for part in parts])
        score, peak = np.concatenate([part.score for part in parts]), np.concatenate([part.peak for part in parts])
        return cls(at, view, score, peak).some(np.lexsort((view, at)))

    def some(self, which: Ints | NDArray[np.bool_] | slice) -> "ViewBeats":
        """Return some of them."""
        return ViewBeats(self.at[which], self.view[which], self.score[which], self.peak[which])


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
        fresh = self.first_look(traces, at, level[:, :, (at - back) // BLOCK + 1])
        self.likely = self.likely.joined(fresh) if self.likely else fresh

    def first_look(self, traces: Traces, at: Ints, level: Floats) -> Likely:
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
        is_strong, self.sizes = self._strong(self.likely.some(which[beat]))
        strong = beat[is_strong]
        weak = np.setdiff1d(beat, strong)
        score[weak] = NOTHING
        self.at, self.score = np.append(self.at, self.likely.at[which]), np.append(self.score, score)
        return self.likely.some(which[strong]), score[strong]

    def provisional(self, fresh: Likely) -> Floats:
        """Return the scores of candidates that follow those looked at, as if the signal ended with the last of them."""
        assert self.likely is not None
        likely = self.likely.joined(fresh)
        score = qrs_net.second_look(qrs_rhythm.rhythm_features(likely, np.arange(len(self.likely.at), len(likely.at))))
        beat = score > THRESHOLD
        if beat.any():
            which = np.flatnonzero(beat)
            beat[which[self._strong(fresh.some(which))[0]]] = False
            score[beat] = NOTHING
        return score

    def _strong(self, beats: Likely) -> tuple[Ints, Floats]:
        """Return which beats are more than noise in a lead whose heart has stopped, or that has come off.

        And the own envelopes of the last beats with them.
        """
        size = beats.envelope * beats.counted
        doubtful = (beats.ratio[:, _MEDIAN] < _WEAK_RATIO) & (size < WEAK_MOST_UV).all(axis=0)
        strong, sizes, first = np.ones(len(beats.at), np.bool_), self.sizes, 0
        for number in np.flatnonzero(doubtful).tolist():
            sizes = np.concatenate([sizes, size[:, first:number][:, strong[first:number]]], axis=1)[:, -WEAK_OF:]
            first, mine, known = number, size[:, number], sizes.shape[1]
            usual = np.sort(sizes, axis=1)[:, known // 4] if known else np.zeros_like(mine)
            minimum = np.clip(np.float32(WEAK_SHARE) * usual, np.float32(WEAK_LEAST_UV), np.float32(WEAK_MOST_UV))
            strong[number] = (mine >= minimum).any()
        return np.flatnonzero(strong), np.concatenate([sizes, size[:, first:][:, strong[first:]]], axis=1)[:, -WEAK_OF:]

    def votes(self, at: Ints) -> NDArray[np.float64]:
        """Return the vote of this view on each 200 Hz sample, (n,): its log odds times how far it is trusted.

        The log odds are the highest of the candidates near the sample.
        """
        low, high = np.searchsorted(self.at, at - NEAR), np.searchsorted(self.at, at + NEAR + 1)
        odds = np.where(high > low, -np.inf, NOTHING)
        for number in range(int((high - low).max(initial=0))):
            inside = low + number < high
            odds[inside] = np.maximum(odds[inside], self.score[low[inside] + number])
        return np.asarray(odds * self.trust(at))

    def trust(self, at: Ints) -> NDArray[np.float64]:
        """Return from 0 to 1 how clear-cut the answers before each 200 Hz sample were; 1 where there were none."""
        low, high = np.searchsorted(self.at, at - TRUST_FROM), np.searchsorted(self.at, at - TRUST_TO)
        # scores are whole multiples of 2^-15, so these sums have no rounding
        clear = np.cumsum(np.minimum(np.abs(self.score), TRUST_LIMIT), dtype=np.float64)
        clear = np.concatenate([[0.0], clear])
        share = np.where(high > low, clear[high] - clear[low], TRUST_LIMIT) / (TRUST_LIMIT * np.maximum(high - low, 1))
        share *= share
        share *= share
        return np.asarray(share * share)

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


class LeadVote:
    """Decides between views.

    Args:
        views: how many there are.

    Attributes:
        waiting: beats of any view that have not been decided on, in order of time and view.
        recent: 200 Hz samples of the last beats of each view, decided on or not.
        added: the last beat that a lead alone had and that was decided on, whatever became of it.
        accepted: the last beats that were accepted.
    """

    def __init__(self, views: int) -> None:
        nothing = np.empty(0, np.int64)
        self.waiting = ViewBeats(nothing, nothing, np.empty(0, np.float32), nothing)
        self.recent = [nothing] * views
        self.added, self.accepted = _NEVER, nothing

    def take(self, fresh: Sequence[ViewBeats]) -> None:
        """Take what each view has decided on."""
        self.waiting = ViewBeats.joined([self.waiting, *fresh])
        self.recent = [np.concatenate([at, beats.at]) for at, beats in zip(self.recent, fresh, strict=True)]

    def decide(self, views: Sequence[View], limit: int, active: "ActiveBlocks") -> ViewBeats:
        """Return the beats before a 200 Hz sample that are accepted, in order of time."""
        count = int(np.searchsorted(self.waiting.at, limit))
        beats, self.waiting = self.waiting.some(slice(count)), self.waiting.some(slice(count, None))
        voting = np.stack([np.ones(count, np.bool_), *(active.on(int(view.rows[0]), beats.at) for view in views[1:])])
        near = np.stack([distance(beats.at, at) <= APART for at in self.recent])
        combined = beats.view == 0
        accept = combined & (near | ~voting).all(axis=0)
        contested = np.flatnonzero(~accept & (combined | ~near[0]))
        votes = np.zeros(len(contested))
        for view, has_vote in zip(views, voting[:, contested], strict=True):  # one after the other: one order of sums
            votes += np.where(has_vote, view.votes(beats.at[contested]), 0.0)
        first = 0
        for number, vote in zip(contested.tolist(), votes.tolist(), strict=True):
            at, alone = int(beats.at[number]), not combined[number]
            if alone and at - self.added <= APART:
                continue
            if alone:
                self.added = at
            self._accept(beats.at[first:number][accept[first:number]])
            first = number
            due = self._is_due(at) and (not alone or beats.score[number] >= DUE_LEAST)
            accept[number] = vote + (DUE_ODDS if due else 0.0) > 0
        self._accept(beats.at[first:][accept[first:]])
        oldest = limit - 2 * APART
        self.recent = [at[at >= oldest] for at in self.recent]
        if self.added < oldest:  # of no consequence any more, and so no part of the state
            self.added = _NEVER
        return beats.some(accept)

    def _accept(self, at: Ints) -> None:
        self.accepted = np.concatenate([self.accepted, at])[-USUAL_OF - 1 :]

    def _is_due(self, at: int) -> bool:
        """Return whether a beat is due at a 200 Hz sample."""
        intervals = np.sort(np.diff(self.accepted))
        if len(intervals) < USUAL_FROM:
            return False
        return bool(at - self.accepted[-1] > DUE_SHARE * intervals[len(intervals) // 2])


@dataclass(frozen=True)
class ActiveBlocks:
    """On which leads anything was to be seen, block by block.

    Attributes:
        first: the first block.
        leads: (leads, blocks) bool.
    """

    first: int
    leads: NDArray[np.bool_]

    def on(self, lead: int, at: Ints) -> NDArray[np.bool_]:
        """Return whether a lead shows anything around each 200 Hz sample."""
        return np.asarray(self.leads[lead, at // BLOCK - self.first])

    def joined(self, start: int, more: NDArray[np.bool_]) -> "ActiveBlocks":
        """Return it with the blocks from ``start`` on."""
        return ActiveBlocks(self.first, np.concatenate([self.leads[:, : start - self.first], more], axis=1))

    def since(self, block: int) -> "ActiveBlocks":
        """Return it from a block on."""
        return ActiveBlocks(block, self.leads[:, block - self.first :].copy()) if block > self.first else self


def distance(at: Ints, known: Ints) -> Ints:
    """Return how far each sample (n,) is from the nearest of some others, in order."""
    if not len(known):
        return np.full(len(at), np.iinfo(np.int64).max)
    after = np.searchsorted(known, at).clip(1, max(len(known) - 1, 1))
    following = known[after.clip(max=len(known) - 1)]
    return np.asarray(np.minimum(np.abs(at - known[after - 1]), np.abs(following - at)))
