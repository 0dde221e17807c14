"""R peaks a third of a second after the beat: the QRS detector's networks, evaluated before it decides.

The detector decides 3.5 to 4.7 s after a beat, although its networks recognise nearly every beat at once. So each
candidate is evaluated 0.3 s after it, as if the recording ended here: the last sample stands for what is missing ahead,
and no candidate follows. A candidate whose log odds are high enough is announced; any other one is evaluated again
later, against a lower threshold (``MARKS``). The detector's own decision stands, whatever was announced.

Between two evaluations only the envelope of the new samples is computed, to find candidates.
"""

from dataclasses import dataclass, replace

import numpy as np

from ecgfed.domain.signal import qrs_signal
from ecgfed.domain.signal.qrs import QrsDetector
from ecgfed.domain.signal.qrs_rhythm import Likely
from ecgfed.domain.signal.qrs_segment import REFRACTORY_S, RELATIVE_REFRACTORY_S, SAME_PEAK_S, WEAK_SCORE, Segment
from ecgfed.domain.signal.qrs_signal import (
    BLOCK,
    ENVELOPE_AHEAD,
    ENVELOPE_BACK,
    FLOOR_UV,
    LOOK_AHEAD,
    LOOK_BACK,
    LOWEST,
    RATE_HZ,
    Floats,
)
from ecgfed.domain.signal.qrs_views import (
    APART,
    DUE_LEAST,
    DUE_ODDS,
    DUE_SHARE,
    NEAR,
    NOTHING,
    THRESHOLD,
    USUAL_FROM,
    USUAL_OF,
)

#: Ages of a candidate in seconds at which it is evaluated, and the log odds above which it is then announced, chosen on
#: parts of DS1 and SVDB records (docs/decisions/0122; ``benchmarks/stream/early.py`` measures them on DS2).
MARKS = ((0.3, 2.0), (0.4, 1.0), (0.55, 0.0), (0.8, 0.0))
#: Log odds of all leads together at which a candidate is dropped; a vote of single leads may still rise.
HOPELESS = -3.0
#: An R peak that lies further back, in seconds, is left to the detector.
AT_MOST_S = 1.0
_AGES = tuple(round(age_s * RATE_HZ) for age_s, _ in MARKS)
_ABSOLUTE, _RELATIVE = round(REFRACTORY_S * RATE_HZ), round(RELATIVE_REFRACTORY_S * RATE_HZ)
#: Neighbours of a candidate on each side whose joint envelope is lower (``qrs_signal.candidates``).
_BESIDE = qrs_signal.APART


@dataclass(frozen=True)
class _Wave:
    """What may be a beat and has not been announced: the 200 Hz sample of its candidate, and how often it was judged.

    A candidate that one lead alone has is a wave of its own where all leads together have none near it. It is judged
    once, when it is old enough for the last time.
    """

    at: int
    together: bool
    looks: int = 0


@dataclass(frozen=True)
class _Announced:
    """A beat that was announced: its candidate's 200 Hz sample, log odds, and R peak in samples of the segment."""

    at: int
    odds: float
    peak: int


class _Scores:
    """What each view says of the candidates that no look of the detector has reached, as if the signal ended here."""

    def __init__(self, segment: Segment, candidates: list[list[int]], count: int) -> None:
        first, known = segment.blocks, segment.statistics_start + segment.statistics.shape[2]
        low, high = min(first * BLOCK - LOOK_BACK, known * BLOCK - LOOK_BACK), count + LOOK_AHEAD
        self.segment, self.traces = segment, qrs_signal.traces(segment.stretch(low, high), low)
        statistics, start = segment.statistics, self.traces.start
        fresh = self.traces.envelope[:, known * BLOCK - start : count - ENVELOPE_AHEAD - start]
        if fresh.shape[1]:
            statistics = np.concatenate([statistics, qrs_signal.block_statistics(fresh)], axis=2)
        stop = segment.statistics_start + statistics.shape[2]
        level = qrs_signal.levels(statistics, segment.statistics_start, first, stop)
        self.active = qrs_signal.lead_weights(level) > 0
        self._level, self._candidates, self._last = level, candidates, stop - 1 - first
        self._known: dict[int, tuple[Likely, Floats]] = {}

    def of(self, view: int) -> tuple[Likely, Floats]:
        """Return the candidates that a view does not rule out, and their scores, computed when first needed."""
        if view not in self._known:
            at, one = np.array(self._candidates[view], np.int64), self.segment.views[view]
            block = np.minimum(at // BLOCK - self.segment.blocks, self._last)
            likely = one.first_look(self.traces, at - self.traces.start, self._level[:, :, block])
            self._known[view] = likely, one.provisional(likely) if len(likely.at) else likely.score
        return self._known[view]

    def near(self, view: int, at: int, reach: int) -> Floats:
        """Return a view's scores within some samples of one."""
        likely, score = self.of(view)
        return score[np.abs(likely.at - at) <= reach]

    def best(self, view: int, at: int, reach: int) -> tuple[float, Likely] | None:
        """Return a view's surest candidate within some samples of one, and its score; None where it has none."""
        likely, score = self.of(view)
        inside = np.flatnonzero(np.abs(likely.at - at) <= reach)
        if not len(inside):
            return None
        surest = inside[score[inside].argmax()]
        return float(score[surest]), likely.some(np.array([surest]))

    def voters(self, at: int) -> list[int]:
        """Return the views that have a vote at a sample: all leads together, and each lead that shows anything."""
        block = min(at // BLOCK - self.segment.blocks, self.active.shape[1] - 1)
        views = self.segment.views
        return [0, *(number for number in range(1, len(views)) if self.active[int(views[number].rows[0]), block])]

    def vote(self, at: int, voters: list[int]) -> float:
        """Return the sum of the views' log odds, each times how far it is trusted."""
        total, where = 0.0, np.array([at])
        for number in voters:
            odds = float(self.near(number, at, NEAR).max(initial=-np.inf))
            total += (odds if np.isfinite(odds) else NOTHING) * float(self.segment.views[number].trust(where)[0])
        return total


class EarlyPeaks:
    """Announces R peaks of a detector's stream before the detector has decided on them.

    Args:
        detector: the detector; samples are pushed to it from outside, and after each push ``look`` is called.
    """

    def __init__(self, detector: QrsDetector) -> None:
        self._detector = detector
        self._begin(None)

    def _begin(self, segment: Segment | None) -> None:
        self._segment = segment
        self._blocks, self._searched = 0, 0
        self._candidates: list[list[int]] = [[] for _ in segment.views] if segment else []
        self._waves: list[_Wave] = []
        self._announced: list[_Announced] = []

    def look(self) -> list[int]:
        """Return the R peaks that are announced now, sample numbers since the stream's start."""
        segment = self._detector.segment
        if segment is not self._segment:
            self._begin(segment)
        if segment is None or not segment.blocks:
            return []
        if segment.blocks != self._blocks:
            self._settle(segment)
        count = segment.count
        self._search(segment, count - _AGES[0] + 1)
        due = [wave for wave in self._waves if count - wave.at >= _AGES[wave.looks]]
        if not due:
            return []
        scores, peaks = _Scores(segment, self._candidates, count), []
        for wave in due:
            self._waves.remove(wave)
            passed = sum(count - wave.at >= age for age in _AGES)
            judged = self._judged(scores, wave, is_last=passed == len(MARKS))
            if judged is None:
                continue
            odds, beat = judged
            if odds > MARKS[passed - 1][1]:
                peaks += self._announce(scores, odds, beat)
            elif passed < len(MARKS):
                self._waves.append(replace(wave, looks=passed))
        return [peak + segment.start for peak in peaks]

    def _settle(self, segment: Segment) -> None:
        """Take the levels of the last block that has any; drop what the detector has looked at itself."""
        self._blocks, first = segment.blocks, segment.blocks * BLOCK
        self._searched = max(self._searched, first)
        self._candidates = [[at for at in some if at >= first] for some in self._candidates]
        self._waves = [wave for wave in self._waves if wave.at >= first]
        self._announced = [one for one in self._announced if one.at >= (segment.decided - 2) * BLOCK]
        known = segment.statistics_start + segment.statistics.shape[2]
        level = qrs_signal.levels(segment.statistics, segment.statistics_start, known - 1, known)
        weight, high = qrs_signal.lead_weights(level)[:, 0], np.maximum(level[0, :, 0], np.float32(FLOOR_UV))
        self._scale = np.zeros((len(segment.views), len(weight)), np.float32)
        for number, view in enumerate(segment.views):
            total = np.maximum(np.cumsum(weight[view.rows], dtype=np.float32)[-1], np.float32(0.05))  # in one order
            self._scale[number, view.rows] = weight[view.rows] / high[view.rows] / total

    def _search(self, segment: Segment, stop: int) -> None:
        """Look for candidates up to a 200 Hz sample: peaks of the views' joint envelopes."""
        first, self._searched = self._searched, max(stop, self._searched)
        if stop <= first:
            return
        low, high = first - _BESIDE - ENVELOPE_BACK, stop + _BESIDE + ENVELOPE_AHEAD
        envelope = qrs_signal.envelope_of(segment.stretch(low, high))
        joint = np.zeros((len(self._scale), envelope.shape[1]), np.float32)
        for lead, row in enumerate(envelope):  # one after the other, so that the sum has one order
            joint += self._scale[:, lead, None] * row
        center = joint[:, _BESIDE:-_BESIDE]
        highest = np.lib.stride_tricks.sliding_window_view(joint, _BESIDE, axis=1).max(axis=2)
        before, after = highest[:, : stop - first], highest[:, _BESIDE + 1 :]
        view, at = np.nonzero((center > before) & (center >= after) & (center > LOWEST))
        for number, position in zip(view.tolist(), (at + first).tolist(), strict=True):
            self._candidates[number].append(position)
            if number and any(abs(wave.at - position) <= APART for wave in self._waves):
                continue
            if not number:  # takes the place of what one lead alone has shown of it
                self._waves = [wave for wave in self._waves if wave.together or abs(wave.at - position) > APART]
            self._waves.append(_Wave(position, together=not number, looks=len(MARKS) - 1 if number else 0))

    def _judged(self, scores: _Scores, wave: _Wave, *, is_last: bool) -> tuple[float, Likely] | None:
        """Return a wave's log odds of a beat and the candidate whose R peak it has, None where no view has one.

        Where all leads together see no beat, single leads are evaluated only when the wave is judged for the last time.
        """
        together = scores.best(0, wave.at, 0 if wave.together else APART)
        if wave.together and (together is None or together[0] <= HOPELESS):
            return None
        if together and together[0] <= THRESHOLD and not is_last:
            return together
        voters = scores.voters(wave.at)
        if together and together[0] > THRESHOLD:
            if all((scores.near(view, wave.at, APART) > THRESHOLD).any() for view in voters[1:]):
                return together
            vote = scores.vote(wave.at, voters)
            return vote + (DUE_ODDS if self._is_due(wave.at) else 0.0), together[1]
        alone = [best for view in voters[1:] if (best := scores.best(view, wave.at, APART))]
        if not alone:
            return together
        score, beat = max(alone, key=lambda best: best[0])
        if score <= THRESHOLD:
            return together or (score, beat)
        at = int(beat.at[0])
        due = score >= DUE_LEAST and self._is_due(at)
        return scores.vote(at, voters) + (DUE_ODDS if due else 0.0), beat

    def _is_due(self, at: int) -> bool:
        """Return whether a beat is due at a 200 Hz sample, by the detector's last beats and those announced since."""
        assert self._segment is not None
        known = self._segment.vote.accepted
        last = int(known[-1]) if len(known) else -1
        since = sorted(one.at for one in self._announced if last + APART < one.at < at)
        intervals = np.sort(np.diff(np.append(known, since))[-USUAL_OF:])
        if len(intervals) < USUAL_FROM:
            return False
        return bool(at - (since[-1] if since else last) > DUE_SHARE * intervals[len(intervals) // 2])

    def _announce(self, scores: _Scores, odds: float, beat: Likely) -> list[int]:
        """Return the R peak of a beat, nothing where another one that was announced is too near, or it is too late."""
        at, segment = int(beat.at[0]), scores.segment
        for one in self._announced:
            weak = min(odds, one.odds) < WEAK_SCORE
            if abs(at - one.at) < (_RELATIVE if weak else _ABSOLUTE):
                return []
        peak = int(segment.locate(scores.traces, beat)[0])
        if segment.samples - peak > AT_MOST_S * segment.fs_hz:
            return []
        if any(abs(peak - one.peak) < SAME_PEAK_S * segment.fs_hz for one in self._announced):
            return []
        self._announced.append(_Announced(at, odds, peak))
        return [peak]
