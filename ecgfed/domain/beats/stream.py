"""Beats of a recording that comes sample by sample: R peaks, windows and RR features, as ``path`` makes them of a file.

A beat is cut twice. Early, some four seconds after its R peak, with what is known so far, as if the recording ended
here; and finally, once nothing that may still come can change it: then it is what ``read_beats`` finds in the whole,
but for the rounding of the filter's sums. All is done at every quarter of a second of the stream, so that nothing
depends on how the samples came. Where beats are announced (``qrs_early``), five times as often is looked whether there
is one, and each is cut once more when the next one is announced.
"""

import math
from collections import deque
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ecgfed.domain.beats.announced import Announcements, PeakEvent
from ecgfed.domain.beats.extract import NOT_RECORDED, beat_flags, hides_signal, window_spans, without_signal
from ecgfed.domain.beats.intervals import intervals_s
from ecgfed.domain.beats.stream_features import Beat, Cut, RrInContext, RrVersion1, joined
from ecgfed.domain.beats.windows import BESIDE, FS_HZ, STRIP_STEP, resampling, resampling_reach, windows_of
from ecgfed.domain.signal.filters import band_pass_taps, bridge_samples
from ecgfed.domain.signal.qrs import QrsDetector
from ecgfed.domain.signal.qrs_early import EarlyPeaks
from ecgfed.domain.signal.quality import NO_SIGNAL, Reason
from ecgfed.domain.signal.spans import Spans
from ecgfed.domain.signal.stream_quality import QualityStream, Samples

Ints = NDArray[np.int64]

#: Everything is looked at so often; quality every so many times.
STEP_S, QUALITY_STEPS = 0.25, 4
#: In so many parts of a step beats are announced: every 0.05 s.
PARTS = 5
#: An early answer waits for the next beat so long after its own.
EARLY_S = 4.0
#: Beats that early features look back to.
EARLY_HISTORY = 256
#: No peak is found later than this after it (``qrs.DELAY_S``, and a step of the stream).
DETECTED_WITHIN_S = 6.0
#: How much is kept to tell whether an interval hides a beat, and of what quality a window of the rhythm is, and for how
#: long a gap has to last to be passed over.
_KEPT_S, _DEAD_S, _LEAP_S = 60.0, 90.0, 600.0


@dataclass(frozen=True)
class PeakUpdate:
    """What has become known with the next samples, where beats are announced.

    Attributes:
        at: samples that had come.
        events: of R peaks.
        first: beats whose first class is due.
    """

    at: int
    events: tuple[PeakEvent, ...]
    first: Cut


@dataclass(frozen=True)
class BeatUpdate:
    """What one look gave.

    Attributes:
        at: samples that had come.
        early: beats with what is known so far.
        final: beats as the whole recording gives them.
        withdrawn: ids and R peaks that were reported and are no beats.
        detected: (beats,) int64 R peaks that were detected now, among them what may prove to be none.
    """

    at: int
    early: Cut
    final: Cut
    withdrawn: tuple[tuple[int, int], ...]
    detected: Ints


class _Filtered:
    """The lead in use through the band-pass, as far as it has come."""

    def __init__(self, samples: Samples, fs_hz: float, *, strip: bool) -> None:
        self.samples, self.fs_hz, self.strip = samples, fs_hz, strip
        self.taps, self.longest = band_pass_taps(fs_hz), bridge_samples(fs_hz)
        before, after = window_spans(fs_hz, np.zeros(1, np.int64))
        half = len(self.taps) // 2
        reach = half + math.ceil(resampling_reach(fs_hz)) + 2
        beside = [math.ceil(STRIP_STEP * numbers * fs_hz / FS_HZ) for numbers in BESIDE] if strip else [0, 0]
        #: A window, with what lies beside it, needs so many samples before and after its R peak.
        self.back = int(-before[0]) + beside[0] + reach + resampling(fs_hz).denominator
        self.ahead = int(after[0]) + beside[1] + reach
        #: ... after it where the filter may hold the last value.
        self.least_ahead = self.ahead - half

    def __len__(self) -> int:
        return self.samples.stop

    def __getitem__(self, stretch: slice) -> NDArray[np.float64]:
        low, high, _ = stretch.indices(len(self))
        half, total = len(self.taps) // 2, len(self)
        start, stop = max(low - half, 0), min(high + half, total)
        part = self.samples.without_gaps(start, stop, self.longest)
        part = np.pad(part, (start - (low - half), high + half - stop), mode="edge")
        return np.convolve(part, self.taps, "valid")


class BeatStream:
    """Takes samples as they come; says beats early and finally.

    Args:
        fs_hz: sampling frequency in Hz, 100 or more.
        leads: how many leads there are.
        lead: the one in use.
        rr_version: of the RR features; 0 where none are wanted (those of version 1 are made).
        rails_mv: the values at which the converter of the lead in use ends.
        early: tell every beat early too, once the next one is known, or ``EARLY_S`` after it.
        announce: report R peaks before the detector has decided on them, and a first class of each (``take``).

    Raises:
        ValueError: as ``QrsDetector``.
    """

    def __init__(
        self,
        fs_hz: float,
        leads: int,
        lead: int,
        rr_version: int,
        rails_mv: tuple[float, ...],
        *,
        early: bool,
        announce: bool = False,
    ) -> None:
        self.fs_hz, self.lead, self.early = float(fs_hz), lead, early
        self.step = max(1, round(STEP_S * fs_hz))
        self._detector = QrsDetector(fs_hz, leads, lead=lead)
        self._early_peaks = EarlyPeaks(self._detector) if announce else None
        self._known = Announcements(fs_hz)
        self._detected: list[int] = []  # since the last look
        self._first: dict[int, Beat] = {}  # announced beats as they were cut for their first class, by their R peak
        self._samples = Samples()
        self.quality = QualityStream(self._samples, fs_hz, rails_mv)
        self._filtered = _Filtered(self._samples, fs_hz, strip=rr_version == 3)
        self._rr: RrVersion1 | RrInContext = RrInContext(rr_version) if rr_version >= 2 else RrVersion1(fs_hz)
        self._nothing = joined([], np.empty((0, self._rr.features), np.float32), [])
        self._valid_until = 0
        self.last_peak = 0  #: the last R peak that was found, 0 before the first one
        self._peaks: deque[int] = deque()  # found, not yet final
        self._waiting: deque[int] = deque()  # found, not yet told early
        self._early: set[int] = set()  # told early, not yet final
        self._recent: deque[Beat] = deque(maxlen=EARLY_HISTORY)
        self._last_final: int | None = None

    @property
    def dead(self) -> bool:
        """Whether nothing has been recorded for so long that nothing is left to say: then a gap may pass in leaps."""
        silent = self._samples.stop - self._valid_until > _DEAD_S * self.fs_hz
        return silent and not self._peaks and self._quality_is_due

    @property
    def _quality_is_due(self) -> bool:
        return self._samples.stop % (QUALITY_STEPS * self.step) == 0

    def leap(self, missing: int) -> int:
        """How many of so many missing samples may be taken at once where the stream is dead: whole looks at quality."""
        unit = QUALITY_STEPS * self.step
        return min(missing, round(_LEAP_S * self.fs_hz)) // unit * unit

    def take(self, signals_mv: NDArray[np.float64], *, ended: bool = False) -> PeakUpdate:
        """Take the next samples (leads, samples), as a rule a part of a step; ``ended`` says that none follow."""
        peaks = self._detector.push(signals_mv).tolist() + (self._detector.finish().tolist() if ended else [])
        self._samples.append(signals_mv[self.lead])
        now = self._samples.stop
        if np.isfinite(signals_mv).any():
            self._valid_until = now
        self._detected += peaks
        events = [event for peak in peaks for event in self._known.decide(peak)]
        if not self._early_peaks:
            return PeakUpdate(now, (), self._nothing)
        events += self._known.expire(now, ended=ended)
        events += [event for peak in self._early_peaks.look() for event in self._known.announce(peak)]
        return PeakUpdate(now, tuple(events), self._nothing if ended else self._first_classes(now))

    def look(self, signals_mv: NDArray[np.float64] | None = None, *, ended: bool = False) -> BeatUpdate:
        """Say what is known of the beats, early and finally.

        Args:
            signals_mv: (leads, samples) the next samples, as a rule ``step`` of them; None where they were taken.
            ended: says that none follow.
        """
        if signals_mv is not None:
            self.take(signals_mv, ended=ended)
        peaks, self._detected = self._detected, []
        self._peaks.extend(peaks)
        self.last_peak = peaks[-1] if peaks else self.last_peak
        if self.early:
            self._waiting.extend(peaks)
        if (self._quality_is_due or ended) and self._samples.stop:
            self.quality.look(ended=ended)
        final, withdrawn = self._final(ended=ended)
        early = self._report_early(ended=ended)
        self._forget()
        return BeatUpdate(self._samples.stop, early, final, withdrawn, np.array(peaks, np.int64))

    def _final(self, *, ended: bool) -> tuple[Cut, tuple[tuple[int, int], ...]]:
        """Return the beats that are decided now, and ids and R peaks of those reported that are none."""
        after = int(window_spans(self.fs_hz, np.zeros(1, np.int64))[1][0])
        withdrawn = []
        spikes = self.quality.spans([Reason.SPIKE]) if self._peaks else None
        while self._peaks and (ended or self.quality.decided >= self._peaks[0] + after + 1):
            peak = self._peaks.popleft()
            is_reported = peak in self._early or self._early_peaks is not None
            self._early.discard(peak)
            if spikes is not None and spikes.inside(np.array([peak]))[0]:
                beat = self._known.remove(peak)
                withdrawn += [(beat, peak)] if is_reported else []
                continue
            self._rr.add(self._cut(peak, self._last_final))
            self._last_final = peak
        beats, rr = self._rr.decided(ended=ended)
        return joined(beats, rr, [self._known.remove(beat.sample) for beat in beats]), tuple(withdrawn)

    def _cut(self, peak: int, previous: int | None) -> Beat:
        at, lost = np.array([peak]), self.quality.spans(NO_SIGNAL)
        window_mv, padded, beside_mv = windows_of(self._filtered, self.fs_hz, at, strip=self._filtered.strip)
        usable = not hides_signal(padded, self.fs_hz, at, lost)[0]
        flags = int(beat_flags(padded, self.fs_hz, at, self.quality.spans(Reason))[0])
        unrecorded, rail = self.quality.spans(NOT_RECORDED), self.quality.spans([Reason.RAIL])
        silent = bool(without_signal(window_mv, self.fs_hz, at, unrecorded, rail=rail)[0])
        before_s = self._interval(previous, peak, lost)
        return Beat(peak, before_s, window_mv[0], beside_mv[0], usable, flags, silent)

    def _interval(self, previous: int | None, peak: int, lost: Spans) -> float:
        if previous is None:
            return math.nan
        return float(intervals_s(np.array([previous, peak]), self.fs_hz, lost)[1])

    def _report_early(self, *, ended: bool) -> Cut:
        """Return the beats whose time has come, as if the recording ended here."""
        now, reported = self._samples.stop, []
        while self._waiting and not ended:
            peak, following = self._waiting[0], self._waiting[1] if len(self._waiting) > 1 else None
            late = now >= peak + max(EARLY_S * self.fs_hz, self._filtered.ahead)
            if now < peak + self._filtered.ahead or not (late or following is not None):
                break
            self._waiting.popleft()
            if self.quality.spans([Reason.SPIKE]).inside(np.array([peak]))[0]:
                continue  # final answers say so where it is none after all
            previous = self._recent[-1].sample if self._recent else None
            self._recent.append(self._cut(peak, previous))
            self._early.add(peak)
            reported.append(self._recent[-1])
        if not reported:
            return self._nothing
        # announced or decided: without the interval that follows, many a class is another one
        following = next(iter(self._known.between(reported[-1].sample, now)), None)
        lost = self.quality.spans(NO_SIGNAL)
        after_s = math.nan if following is None else self._interval(reported[-1].sample, following, lost)
        rr = self._rr.provisional(list(self._recent), following, after_s, len(reported))
        return joined(reported, rr, [self._known.id_of(beat.sample) for beat in reported])

    def _first_classes(self, now: int) -> Cut:
        """Return the beats whose first class is due, as if the recording ended here with the next R peak that is known.

        Beats before them that have not been told early yet (``_report_early``) are cut likewise.
        """
        due = self._known.due(now, self._filtered.least_ahead, math.ceil(self.step / PARTS))
        if not due:
            return self._nothing
        settled = self._recent[-1].sample if self._recent else -1
        self._first = {sample: beat for sample, beat in self._first.items() if sample > settled}
        reported, features, ids = [], [self._nothing.windows.rr_s], []
        lost = self.quality.spans(NO_SIGNAL)
        for announced, following in due:
            announced.classified = True
            samples = self._known.between(settled, announced.sample)
            if not samples:  # told early already
                continue
            for sample in samples:
                self._first[sample] = self._first.get(sample) or self._cut(sample, None)
            at = [*([settled] if self._recent else []), *samples, *([] if following is None else [following])]
            before_s = intervals_s(np.array(at), self.fs_hz, lost)[bool(self._recent) :]
            beats = [
                replace(self._first[sample], before_s=float(s)) for sample, s in zip(samples, before_s, strict=False)
            ]
            after_s = float(before_s[len(samples)])
            features.append(self._rr.provisional([*self._recent, *beats][-EARLY_HISTORY:], following, after_s, 1))
            reported.append(beats[-1])
            ids.append(announced.beat)
        return joined(reported, np.concatenate(features), ids)

    def _forget(self) -> None:
        """Drop what nothing that is still to be said depends on."""
        oldest = min(self._peaks, default=self._samples.stop - round(DETECTED_WITHIN_S * self.fs_hz))
        self._samples.forget(max(min(self.quality.needed, oldest - self._filtered.back), 0))
        self.quality.forget(min(oldest, self.quality.decided) - round(_KEPT_S * self.fs_hz))
