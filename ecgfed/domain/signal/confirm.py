"""A second look at the intervals between R peaks, before a pause or an extreme rate is reported.

The detector decides for each wave whether it is a beat; how sure it was is looked at here. An interval is confirmed
when both its beats are sure, and, where it is longer than those around it, no lead shows a wave inside it that may be a
beat. One as long as a pause is confirmed by how little the leads move in it. Leads that took no part in finding the
beats (``--lead``) are asked too, as long as they are clear-cut: they add and remove no beat.

The rules and what they leave unconfirmed on MIT-BIH and SVDB: docs/decisions/0058.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ecgfed.base.language import Message, messages
from ecgfed.domain.events.beats import SOON_AFTER, SOON_BEFORE
from ecgfed.domain.events.rhythm import LeadSegment
from ecgfed.domain.record.leads import are_ecg, ecg_alone
from ecgfed.domain.record.recording import ReadingPool, Recording, spans
from ecgfed.domain.signal.qrs import MIN_FS_HZ, qrs_odds
from ecgfed.domain.signal.qrs_views import MOST_ALONE
from ecgfed.domain.signal.quiet import quiet_part

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

#: A wave is inside an interval when it is so far from both its beats (s), and doubtful above these log odds. It counts
#: in intervals longer than this share of the median of so many around: in others it is a T wave.
INSIDE_S, INSIDE_ODDS, LONGER, USUAL_OF = 0.25, -1.0, 1.25, 8
#: A beat's own waves are so near (s); of a paced beat, whose R peak may lie on the spike, another lead's QRS is up to
#: so much later. It is sure when a lead has these log odds, and, where leads disagree, when their sum, weighted by how
#: clear-cut each lead's answers around it are (to this power), is above that. It is doubted where that sum is below the
#: last odds.
NEAR_S, LATER_PACED_S, SURE_ODDS, SUM_ODDS, TRUST_POWER, DOUBT_ODDS = 0.1, 0.18, 1.5, 1.0, 4, -0.5
#: Another lead's wave counts where the lead's answers within so many seconds are so clear-cut; the log odds of one
#: answer beyond the limit count no more, those within the last span are the wave itself.
TRUST, TRUST_S, TRUST_LIMIT, TRUST_APART_S = 0.7, 10.0, 4.0, 0.35
#: A beat between two others whose intervals together are the usual one, to this share, leaves the rhythm as it is: an
#: interpolated beat or an artefact. It is sure only when every lead has these log odds.
INTERPOLATED, INTERPOLATED_OF, INTERPOLATED_ODDS = 0.15, 16, 2.0
#: Log odds where a lead shows nothing: an answer as clear as counts.
NOTHING = -TRUST_LIMIT
#: An interval as long as a pause, from so many seconds on; a lead moves in it when its band-passed signal goes so far
#: of the way it goes in the beats around; where it stirs by less than that share, no wave in it is a beat, whatever its
#: odds: noise of a stopped heart. Noise above the last share of a QRS complex would hide one of a tenth of its height.
#: Where the lead in use does not stir, another one moves only when it goes as far as a whole beat.
LONG_S, MOVES, STIRS, HIDES, WHOLE = 2.0, 0.6, 0.3, 0.05, 1.0
#: A wave above these log odds is left open. A shorter interval, from so many times the median around it and so many
#: seconds on, must not move either where some lead leaves a wave open: a missed beat of another shape.
OPEN_ODDS, GAP_LONGER, GAP_S = -2.0, 1.5, 1.0
#: A wave that the lead in use leaves open, so far from the beats (s), may be an undetected beat where the log odds of
#: all leads, weighted by how clear-cut each is, add up to more than 0, unless the beats were found in all of them. It
#: is soon after a beat, or before one, at less than this share of the usual interval.
APART_S, SOON = 0.2, 0.8
#: Small waves in the middle of each interval, between these shares of it, may be every second QRS complex (electrical
#: alternans): where the median of the highest log odds there, over ``USUAL_OF`` intervals around, is above this. So it
#: is in 35 of 110,000 intervals of MIT-BIH and in none of twelve SVDB records.
MIDDLE, MIDDLE_ODDS = (0.4, 0.6), -3.25
#: How much of a recording is read at once.
_BLOCK_S = 600.0


@dataclass(frozen=True)
class _Odds:
    """What one lead shows: (waves,) samples, increasing, and (waves,) log odds that each is a QRS complex."""

    at: Ints
    odds: NDArray[np.float32]
    fs_hz: float

    def highest(self, start: Ints, stop: Ints) -> tuple[Floats, Ints]:
        """Return the highest log odds between samples (n,) and (n,), not included, and where they are; -1 nowhere."""
        low, high = np.searchsorted(self.at, start), np.searchsorted(self.at, stop)
        best, where = np.full(len(start), NOTHING), np.full(len(start), -1, np.int64)
        for number in np.flatnonzero(high > low):
            position = low[number] + int(self.odds[low[number] : high[number]].argmax())
            best[number], where[number] = self.odds[position], self.at[position]
        return best, where

    def trust(self, at: int) -> float:
        """Return from 0 to 1 how clear-cut the answers around a sample are; 0 where the lead shows nothing."""
        low, high = np.searchsorted(self.at, [at - TRUST_S * self.fs_hz, at + TRUST_S * self.fs_hz])
        clear = np.minimum(np.abs(self.odds[low:high]), TRUST_LIMIT)
        clear = clear[np.abs(self.at[low:high] - at) > TRUST_APART_S * self.fs_hz]
        return float(clear.mean(dtype=np.float64) / TRUST_LIMIT) if len(clear) else 0.0


@dataclass(frozen=True)
class SecondLook:
    """What a second look at a recording gives.

    Attributes:
        confirmed: (beats - 1,) bool, the intervals that it confirms; all below 100 Hz, where nothing is detected.
        doubted: (beats,) bool, the beats that it takes for none.
        undetected: (beats - 1,) uint8, where a wave may be an undetected beat, as ``Beats`` has it.
        segments: the leads in which beats were looked for, as far as they had a say, from start to end.
    """

    confirmed: Mask
    doubted: Mask
    undetected: NDArray[np.uint8]
    segments: tuple[LeadSegment, ...] = ()


def second_look(recording: Recording, peaks: Ints, paced: Mask | None = None) -> SecondLook:
    """Confirm the intervals between R peaks, and say which leads had a say where.

    Args:
        recording: with every lead; those that are no ECG are not asked, and of the others the lead in use and the first
            two.
        peaks: (beats,) int64 increasing sample numbers.
        paced: (beats,) bool, those that follow a pacing spike; None for none.
    """
    paced = np.zeros(len(peaks), np.bool_) if paced is None else paced
    if len(peaks) < 2 or recording.fs_hz < MIN_FS_HZ:
        between = max(len(peaks) - 1, 0)
        nothing = np.zeros(len(peaks), np.bool_), np.zeros(between, np.uint8)
        return SecondLook(np.ones(between, np.bool_), *nothing)
    candidates = zip(recording.leads, are_ecg(recording.leads), strict=True)
    names = [recording.lead, *(name for name, ecg in candidates if ecg and name != recording.lead)][:MOST_ALONE]
    rows = [recording.leads.index(name) for name in names]
    with ReadingPool(2) as pool:
        leads = list(pool.map(lambda row: _odds_of(recording, row), rows))
    sure, clear, doubted = _sure(peaks, leads, paced)
    confirmed = ~_waves_inside(peaks, leads) & ~_waves_in_the_middle(peaks, leads[0]) & sure[:-1] & sure[1:]
    rr = np.diff(peaks)
    long = clear[:-1] & clear[1:] & (rr >= LONG_S * recording.fs_hz)
    known: dict[tuple[int, int], tuple[float, Floats]] = {}
    for number in np.flatnonzero(long | (confirmed & _gaps(peaks, leads))).tolist():
        pause = bool(rr[number] >= LONG_S * recording.fs_hz)
        confirmed[number] = _is_quiet(recording, rows, leads, peaks, number, known, pause=pause)
    took_part = set(ecg_alone(recording).leads)
    used = [(name, lead) for name, lead in zip(names, leads, strict=True) if name in took_part]
    left_out = not took_part.issuperset(names)  # else the detector has seen what the leads show together
    undetected = _undetected(peaks, leads) if left_out else np.zeros(len(rr), np.uint8)
    return SecondLook(np.asarray(confirmed), doubted, undetected, _segments(used, recording.samples))


def not_confirmed_text(unconfirmed: int, intervals: int) -> Message:
    """Return a sentence about intervals most of which are unconfirmed."""
    return messages(
        "{unconfirmed} of {n} interval could not be confirmed: beats between them may be missing, every second one of "
        "a small QRS among them, or waves that are no beats.",
        "{unconfirmed} of {n} intervals could not be confirmed: beats between them may be missing, every second one of "
        "a small QRS among them, or waves that are no beats.",
        intervals,
        unconfirmed=unconfirmed,
    )


def _segments(leads: list[tuple[str, _Odds]], samples: int) -> tuple[LeadSegment, ...]:
    """Return consecutive parts of a recording with the leads whose waves are clear-cut there."""
    fs_hz = leads[0][1].fs_hz
    edges = np.arange(0, samples, round(TRUST_S * fs_hz))
    clear = []
    for _, lead in leads:
        strength = np.minimum(np.abs(lead.odds), TRUST_LIMIT).astype(np.float64)
        sums = np.concatenate([[0.0], np.cumsum(strength)])
        first, last = np.searchsorted(lead.at, edges), np.searchsorted(lead.at, np.append(edges[1:], samples))
        mean = (sums[last] - sums[first]) / np.maximum(last - first, 1) / TRUST_LIMIT
        clear.append((last > first) & (mean > TRUST))
    parts = [
        tuple(name for (name, _), has_part in zip(leads, column, strict=True) if has_part)
        for column in np.transpose(clear)
    ]
    starts = [at for at in range(len(parts)) if not at or parts[at] != parts[at - 1]]
    stops = [*(edges[at] / fs_hz for at in starts[1:]), samples / fs_hz]
    return tuple(
        LeadSegment(round(float(edges[at] / fs_hz), 3), round(float(stop), 3), parts[at])
        for at, stop in zip(starts, stops, strict=True)
    )


def _odds_of(recording: Recording, row: int) -> _Odds:
    def blocks() -> Iterator[Floats]:
        for start, stop in spans(recording.samples, round(_BLOCK_S * recording.fs_hz)):
            yield recording.read(start, stop, [row])[0]

    return _Odds(*qrs_odds(blocks(), recording.fs_hz), recording.fs_hz)


def _waves_inside(peaks: Ints, leads: list[_Odds]) -> Mask:
    """Say in which long intervals a lead shows a wave that may be a beat; the first lead is the one in use."""
    doubtful = np.zeros(len(peaks) - 1, np.bool_)
    margin, rr = round(INSIDE_S * leads[0].fs_hz), np.diff(peaks)
    long = rr > LONGER * _usual(rr, USUAL_OF)
    for number, lead in enumerate(leads):
        best, where = lead.highest(peaks[:-1] + margin, peaks[1:] - margin)
        for interval in np.flatnonzero((best > INSIDE_ODDS) & long & ~doubtful).tolist():
            doubtful[interval] = number == 0 or lead.trust(int(where[interval])) > TRUST
    return doubtful


def _waves_in_the_middle(peaks: Ints, lead: _Odds) -> Mask:
    """Say in which intervals every second QRS complex may be missing: all around hold a small wave in their middle."""
    rr = np.diff(peaks)
    start, stop = (peaks[:-1] + np.rint(share * rr).astype(np.int64) for share in MIDDLE)
    odds = np.maximum(lead.highest(start, stop)[0], NOTHING)
    return np.asarray(_usual(odds, USUAL_OF) > MIDDLE_ODDS)


def _gaps(peaks: Ints, leads: list[_Odds]) -> Mask:
    """Say in which intervals, longer than those around them, a lead shows a wave that it leaves open."""
    rr, fs_hz = np.diff(peaks), leads[0].fs_hz
    margin = round(INSIDE_S * fs_hz)
    gaps = np.asarray((rr > GAP_LONGER * _usual(rr, USUAL_OF)) & (rr >= GAP_S * fs_hz))
    at = np.flatnonzero(gaps)
    odds = [lead.highest(peaks[at] + margin, peaks[at + 1] - margin)[0] for lead in leads]
    gaps[at] = np.max(odds, axis=0) > OPEN_ODDS
    return gaps


def _undetected(peaks: Ints, leads: list[_Odds]) -> NDArray[np.uint8]:
    """Say where a wave that the lead in use leaves open is a beat by all leads together; that lead is the first one."""
    rr, fs_hz = np.diff(peaks), leads[0].fs_hz
    apart, near = round(APART_S * fs_hz), round(NEAR_S * fs_hz)
    best, where = leads[0].highest(peaks[:-1] + apart, peaks[1:] - apart)
    soon, undetected = SOON * _usual(rr, INTERPOLATED_OF), np.zeros(len(rr), np.uint8)
    for number in np.flatnonzero(best > OPEN_ODDS).tolist():
        at = int(where[number])
        span = np.array([at - near]), np.array([at + near + 1])
        odds = [best[number], *(lead.highest(*span)[0][0] for lead in leads[1:])]
        if np.dot(odds, [lead.trust(at) ** TRUST_POWER for lead in leads]) > 0:
            after, before = at - peaks[number] < soon[number], peaks[number + 1] - at < soon[number]
            undetected[number] = SOON_AFTER * after + SOON_BEFORE * before
    return undetected


def _sure(peaks: Ints, leads: list[_Odds], paced: Mask) -> tuple[Mask, Mask, Mask]:
    """Say which beats are sure, which are so at either end of a pause, and which are doubted.

    A pause is confirmed by the signal in it. So at its ends a lead that is not clear-cut has no say.
    """
    fs_hz = leads[0].fs_hz
    near, delay = round(NEAR_S * fs_hz), round(LATER_PACED_S * fs_hz)
    after = np.where(paced, delay, near)
    odds = np.stack(
        [lead.highest(peaks - near, peaks + (after if number else near) + 1)[0] for number, lead in enumerate(leads)]
    )
    odds = np.maximum(odds, NOTHING)
    sure = odds.max(axis=0) >= SURE_ODDS
    sure &= ~_interpolated(peaks) | (odds.min(axis=0) >= INTERPOLATED_ODDS)
    clear, doubted = sure.copy(), np.zeros(len(peaks), np.bool_)
    for beat in np.flatnonzero((odds < 0).any(axis=0)).tolist():
        trust = np.array([lead.trust(int(peaks[beat])) for lead in leads])
        total = float(np.dot(odds[:, beat], trust**TRUST_POWER))
        sure[beat] &= total >= SUM_ODDS
        say = odds[trust > TRUST, beat]
        clear[beat] = sure[beat] or bool(clear[beat] and len(say) and say.min() >= 0 and say.max() >= SURE_ODDS)
        doubted[beat] = total < DOUBT_ODDS
    return np.asarray(sure), np.asarray(clear), doubted


def _interpolated(peaks: Ints) -> Mask:
    """Say which beats lie between two others that are a usual interval apart."""
    between = np.zeros(len(peaks), np.bool_)
    usual = _usual(np.diff(peaks), INTERPOLATED_OF)
    both = peaks[2:] - peaks[:-2]
    between[1:-1] = np.abs(both / np.maximum(usual[:-1], usual[1:]) - 1) <= INTERPOLATED
    return between


def _usual(rr: Ints | Floats, of: int) -> Floats:
    """Return the median of each interval and of so many around it."""
    around = np.lib.stride_tricks.sliding_window_view(np.pad(rr, of // 2, mode="edge"), of + 1)
    return np.asarray(np.median(around, axis=1))


def _is_quiet(
    recording: Recording,
    rows: list[int],
    leads: list[_Odds],
    peaks: Ints,
    interval: int,
    known: dict[tuple[int, int], tuple[float, Floats]],
    *,
    pause: bool,
) -> bool:
    """Say whether no lead moves within a long interval as in a beat, and none that moves at all shows a likely wave.

    Another lead than the one in use is asked only where it is clear-cut around the interval, noise left out. Where the
    lead in use does not stir, what stirs another one is noise of its own, unless it is likely a wave or as high as a
    beat. Nor may in a ``pause`` a lead that moves show a QRS complex of a fraction of its height, or the lead in use so
    much noise that one would be hidden.
    """
    still = False
    start, stop = int(peaks[interval]), int(peaks[interval + 1])
    margin = round(INSIDE_S * recording.fs_hz)
    for number, (row, lead) in enumerate(zip(rows, leads, strict=True)):
        if number and min(lead.trust(start), lead.trust(stop)) <= TRUST:
            continue
        quiet = quiet_part(recording, row, peaks, interval, known)
        share = quiet.movement
        odds = lead.highest(np.array([start + margin]), np.array([stop - margin]))[0][0]
        if number and still and odds <= INSIDE_ODDS and share < WHOLE:
            continue
        if share >= MOVES or (pause and ((share >= STIRS and odds > INSIDE_ODDS) or quiet.small_qrs)):
            return False
        if pause and not number and quiet.noise > HIDES:
            return False
        still = still or (not number and share < STIRS)
    return True
