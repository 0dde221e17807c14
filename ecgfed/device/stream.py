"""Beats classified while they are recorded: samples in as they come, answers out within seconds."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ecgfed.beats.context import LOOK_AHEAD
from ecgfed.beats.extract import Windows
from ecgfed.beats.stream import DETECTED_WITHIN_S, STEP_S, BeatStream, BeatUpdate, Cut
from ecgfed.device.classifier import Classifier
from ecgfed.device.drift import Drift
from ecgfed.errors import RecordError
from ecgfed.record.checks import check_fs, check_millivolt
from ecgfed.signal.qrs import DELAY_S, MIN_FS_HZ
from ecgfed.signal.stream_quality import DECIDED_S

#: The longest gap that a stream passes over, in seconds: a week. More is a wrong clock.
LONGEST_GAP_S = 7 * 86_400.0
#: How much of a gap is taken at once.
_AT_ONCE_S = 600.0
#: What a manifest says of how late a stream answers, in seconds after the R peak; docs/stream.md has what was measured.
LATENCY = {
    "step_s": STEP_S,
    "early_at_most_s": DELAY_S + STEP_S,
    "final_after_last_needed_beat_s": DECIDED_S + 1.0,
    "final_beats_ahead": {"1": 1, "2": LOOK_AHEAD},
}


@dataclass(frozen=True)
class StreamBeat:
    """One beat as a stream tells it.

    Attributes:
        sample: its R peak, in samples since the stream's start.
        time_s: the same in seconds.
        label: the model's class number; ``name`` is the class.
        name: its class; "" where a symbol overrides it (``override``).
        probability: of that class; NaN where a symbol overrides it.
        probabilities: (classes,) float32, of every class.
        flags: see ``ecgfed.beats.extract``.
        uncertain: whether its class is not to be relied on.
        far: whether it looks like none the model was trained on.
        stage: ``early``, with what was known so far; ``final``, what the whole recording gives; or ``withdrawn``: it
            was told early and is none.
        late_s: signal that had come since the R peak when this was said, in seconds.
        override: the WFDB symbol that stands in place of the class, as of ``Predictions``: ``UNCLASSIFIED`` where the
            window shows no signal; "" where the class stands.
    """

    sample: int
    time_s: float
    label: int
    name: str
    probability: float
    probabilities: NDArray[np.float32]
    flags: int
    uncertain: bool
    far: bool
    stage: Literal["early", "final", "withdrawn"]
    late_s: float
    override: str = ""


def _is_count(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and bool(value >= 0)


class StreamClassifier:
    """Classifies the beats of a recording that comes sample by sample.

    What it says in the end is what ``ecgfed predict`` says of the whole recording: the same beats, the same classes,
    and probabilities that differ by the rounding of float32 (docs/stream.md). It does not depend on how the samples
    come, and its memory does not grow.

    Args:
        classifier: of a bundle (``Bundle.classifier``).
        fs_hz: sampling frequency in Hz, 100 or more.
        leads: how many leads come; the QRS detector looks at all of them.
        lead: the lead in use, whose windows are classified.
        rails_mv: the values in millivolt at which the converter of the lead in use ends, where they are known: what
            stays there shows no heart. ``predict`` takes the recording's own extremes, which no stream can know.
        early: tell every beat early too, within some four seconds, with what is known by then: as if the recording
            ended with the next R peak, or here.
        drift: what to watch the answers with; None makes one with the usual bounds.

    Raises:
        RecordError: a sampling frequency below 100 Hz, or leads that are not there.
    """

    def __init__(
        self,
        classifier: Classifier,
        fs_hz: float,
        *,
        leads: int = 1,
        lead: int = 0,
        rails_mv: Sequence[float] = (),
        early: bool = False,
        drift: Drift | None = None,
    ) -> None:
        check_fs(fs_hz, "fs_hz", f"{fs_hz!r:.40}", "say the recorder's own")
        if not fs_hz >= MIN_FS_HZ:
            raise RecordError("fs_hz", f"is {fs_hz:g}", f"{MIN_FS_HZ:g} Hz or more, to find beats")
        if not (_is_count(leads) and _is_count(lead) and lead < leads):
            raise RecordError("lead", f"is {lead!r:.20} of {leads!r:.20}", "0 to one less than the number of leads")
        self.classifier, self.fs_hz, self.leads, self.lead = classifier, float(fs_hz), leads, lead
        self.rails_mv, self.early = tuple(map(float, rails_mv)), bool(early)
        self.drift = drift or Drift(len(classifier.classes))
        self._begin()

    def _begin(self) -> None:
        rr = self.classifier.rr or 1
        self._beats = BeatStream(self.fs_hz, self.leads, self.lead, rr, self.rails_mv, early=self.early)
        self._waiting = np.empty((self.leads, 0))
        self.seen = 0

    @property
    def time_s(self) -> float:
        """How much signal has come, gaps included, in seconds."""
        return self.seen / self.fs_hz

    def push(self, samples_mv: NDArray[np.floating], *, at_sample: int | None = None) -> list[StreamBeat]:
        """Take the next samples and return the beats there is something to say of.

        Args:
            samples_mv: (samples,) of one lead, or (leads, samples), in millivolt; NaN where there is no sample.
            at_sample: the recorder's number of the first of them, where it counts: what was left out is a gap.

        Raises:
            RecordError: another shape, whole numbers (an amplifier's steps), or a number that lies behind what has come
                already, or more than a week ahead. The stream stays as it was.
        """
        samples = self._checked(samples_mv)
        found = []
        if at_sample is not None and at_sample != self.seen:
            if not _is_count(at_sample) or at_sample < self.seen:
                raise RecordError(
                    "at_sample",
                    f"is {at_sample!r:.40}, and {self.seen:,} samples have come",
                    f"a whole number, {self.seen:,} or more",
                    "begin another stream where the recorder's clock was set back",
                )
            found = self.gap(at_sample - self.seen)
        self.seen += samples.shape[1]
        return found + self._take(samples)

    def gap(self, samples: int) -> list[StreamBeat]:
        """Say that so many samples were not recorded; returns what ``push`` does.

        Raises:
            RecordError: a negative number, or more than a week.
        """
        if not _is_count(samples) or samples > LONGEST_GAP_S * self.fs_hz:
            raise RecordError("gap", f"of {samples!r:.40} samples", f"0 to {LONGEST_GAP_S / 86_400:g} days")
        found, left = [], int(samples)
        while left:
            some = min(left, round(_AT_ONCE_S * self.fs_hz))
            self.seen += some
            found += self._take(np.full((self.leads, some), np.nan))
            left -= some
        return found

    def finish(self) -> list[StreamBeat]:
        """End the recording and return the last beats; the next ``push`` begins another one at sample 0."""
        found: list[StreamBeat] = []
        if self.seen:
            found += self._take(self._waiting[:, :0])  # whole steps that an error left
            found += self._said(self._beats.look(self._waiting, ended=True))
        self._begin()
        return found

    def _checked(self, samples_mv: NDArray[np.floating]) -> NDArray[np.float64]:
        if isinstance(samples_mv, np.ma.MaskedArray):  # what is masked was not recorded
            samples_mv = np.ma.filled(samples_mv.astype(np.float64), np.nan)
        samples_mv = np.asarray(samples_mv)
        if samples_mv.size:
            check_millivolt(samples_mv, "samples")
        samples = np.atleast_2d(np.asarray(samples_mv, dtype=np.float64))
        if samples.ndim != 2 or len(samples) != self.leads:
            wanted = f"({self.leads}, samples)" if self.leads > 1 else "(samples,) of one lead"
            raise RecordError("samples", f"shape {np.shape(samples_mv)}", wanted)
        return samples

    def _take(self, samples: NDArray[np.float64]) -> list[StreamBeat]:
        """Look at the stream at every whole step of it, however the samples come; a long gap passes in leaps."""
        found: list[StreamBeat] = []
        data = np.concatenate([self._waiting, samples], axis=1) if self._waiting.shape[1] else samples
        at, step = 0, self._beats.step
        try:
            while data.shape[1] - at >= step:
                some = step
                if self._beats.dead:
                    leap = self._beats.leap(data.shape[1] - at)
                    some = step if np.isfinite(data[:, at : at + leap]).any() else max(leap, step)
                part = data[:, at : at + some]
                at += some
                found += self._said(self._beats.look(part))
        finally:  # a model that failed costs these beats, and not the numbers of those that follow
            self._waiting = data[:, at:].copy()
        return found

    def _said(self, told: BeatUpdate) -> list[StreamBeat]:
        final = self._classified(told.final, told.at, "final")
        early = self._classified(told.early, told.at, "early")
        silent = max(told.at - self._beats.last_peak - round(DETECTED_WITHIN_S * self.fs_hz), 0)
        self.drift.quiet(told.at / self.fs_hz, silent / self.fs_hz)
        gone = [self._withdrawn(sample, told.at) for sample in told.withdrawn.tolist()]
        return [*gone, *final, *early]

    def _classified(self, cut: Cut, at: int, stage: Literal["early", "final"]) -> list[StreamBeat]:
        if not len(cut.sample):
            return []
        rr = cut.windows.rr_s if self.classifier.rr else cut.windows.rr_s[:, :0]
        windows = cut.windows
        found = self.classifier.classify(Windows(windows.window_mv, rr, windows.flags, windows.no_signal))
        beats = []
        for number, sample in enumerate(cut.sample.tolist()):
            label = int(found.label[number])
            beat = StreamBeat(
                sample,
                sample / self.fs_hz,
                label,
                self.classifier.classes[label] if found.classified[number] else "",
                float(found.probability[number, label]) if found.classified[number] else math.nan,
                found.probability[number],
                int(cut.windows.flags[number]),
                bool(found.uncertain[number]),
                bool(found.far[number]),
                stage,
                (at - sample) / self.fs_hz,
                str(found.override[number]),
            )
            beats.append(beat)
            if stage == "final":
                self.drift.add(
                    beat.time_s, label, beat.uncertain, beat.far, beat.flags, cut.windows.window_mv[number, 0]
                )
        return beats

    def _withdrawn(self, sample: int, at: int) -> StreamBeat:
        nothing = np.zeros(len(self.classifier.classes), np.float32)
        time_s, late_s = sample / self.fs_hz, (at - sample) / self.fs_hz
        return StreamBeat(sample, time_s, -1, "", math.nan, nothing, 0, True, False, "withdrawn", late_s)
