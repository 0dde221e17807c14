"""Classify beats while they are recorded: samples in, predictions out within seconds."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ecgfed.base.deprecation import renamed_fields
from ecgfed.base.errors import RecordError
from ecgfed.domain.beats.context_stream import LOOK_AHEAD
from ecgfed.domain.beats.extract import Windows
from ecgfed.domain.beats.stream import DETECTED_WITHIN_S, STEP_S, BeatStream, BeatUpdate, Cut
from ecgfed.domain.events.rhythm_episodes import RhythmEpisodes
from ecgfed.domain.record.checks import check_fs, check_millivolt
from ecgfed.domain.signal.qrs import DELAY_S, MIN_FS_HZ
from ecgfed.domain.signal.rhythm import NAME
from ecgfed.domain.signal.rhythm_stream import DECIDED_WITHIN_S, RhythmStream
from ecgfed.domain.signal.stream_quality import DECIDED_S
from ecgfed.exports.device.classifier import Classifier
from ecgfed.exports.device.drift import Drift

#: Longest accepted gap in a stream, in seconds: one week. A longer one indicates a wrong clock.
LONGEST_GAP_S = 7 * 86_400.0
#: Seconds from the start of 10 s of signal until their rhythm is decided, at most; it takes 30 s to be an episode.
RHYTHM_LATENCY_S = DECIDED_WITHIN_S
#: Length of the parts in which a gap is processed.
_AT_ONCE_S = 600.0
#: Latency of a stream for the manifest, in seconds after the R peak; docs/stream.md has measurements.
LATENCY = {
    "step_s": STEP_S,
    "early_at_most_s": DELAY_S + STEP_S,
    "final_after_last_needed_beat_s": DECIDED_S + 1.0,
    "final_beats_ahead": {"1": 1, **{str(version): beats for version, beats in LOOK_AHEAD.items()}},
}


@renamed_fields("0.3", "0.5", far="out_of_distribution", uncertain="low_confidence")
@dataclass(frozen=True)
class StreamBeat:
    """Prediction of one beat of a stream.

    Attributes:
        sample: sample number of its R peak since the start of the stream.
        time_s: the same in seconds.
        label: the model's class number; ``name`` is the class.
        name: its class; "" if overridden (``override``).
        probability: of that class; NaN if overridden.
        probabilities: (classes,) float32, of all classes.
        flags: see ``ecgfed.domain.beats.extract``.
        low_confidence: whether its class is unreliable.
        out_of_distribution: whether it is unlike any training beat.
        stage: ``early``, from the signal so far; ``final``, as for the whole recording; or ``withdrawn``: reported
            early, but not a beat after all.
        late_s: signal received since the R peak when this was reported, in seconds.
        override: the WFDB symbol that replaces the class, as in ``Predictions``: ``UNCLASSIFIED`` if the window has
            no signal; "" otherwise.
    """

    sample: int
    time_s: float
    label: int
    name: str
    probability: float
    probabilities: NDArray[np.float32]
    flags: int
    low_confidence: bool
    out_of_distribution: bool
    stage: Literal["early", "final", "withdrawn"]
    late_s: float
    override: str = ""


def _is_count(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and bool(value >= 0)


@renamed_fields("0.3", "0.5", seen="sample_count")
class StreamClassifier:
    """Classifies the beats of a recording that arrives in parts.

    Its final predictions equal those of ``Classifier.classify`` for the whole recording: the same beats, the same
    classes, and probabilities up to float32 rounding. Noise at the ends, calibration pulses, and beats without a QRS
    complex in the lead are told by comparison with all beats, and not in a stream (docs/stream.md). ``ecgfed predict``
    averages those of a global model with RR features of version 3 over alike beats, which a stream cannot. They do not
    depend on how the samples are split, and memory is bounded.

    ``rhythms`` holds the episodes of atrial fibrillation or flutter that are decided, after ``finish`` those of the
    whole recording: decided within ``RHYTHM_LATENCY_S`` of signal. A beat's class does not depend on them.

    Args:
        classifier: of a bundle (``Bundle.classifier``).
        fs_hz: sampling frequency in Hz, 100 or more.
        leads: number of leads; the QRS detector uses all of them.
        lead: index of the lead whose windows are classified.
        rails_mv: limits of the converter of that lead in millivolt, if known: a signal that stays there is saturated.
            ``predict`` uses the extremes of the recording, which a stream cannot know.
        early: also report every beat early, within about four seconds, from the signal so far.
        drift: drift detector; None creates one with default bounds.

    Raises:
        RecordError: a sampling frequency below 100 Hz, or missing leads.
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
        self.rhythms = RhythmEpisodes(NAME, ())
        self._begin()

    def _begin(self) -> None:
        rr = self.classifier.rr or 1
        self._beats = BeatStream(self.fs_hz, self.leads, self.lead, rr, self.rails_mv, early=self.early)
        self._rhythm = RhythmStream(self.fs_hz, self.lead, self._beats.quality)
        self._waiting = np.empty((self.leads, 0))
        self.sample_count = 0

    @property
    def time_s(self) -> float:
        """Duration of the signal received, including gaps, in seconds."""
        return self.sample_count / self.fs_hz

    def push(self, samples_mv: NDArray[np.floating], *, at_sample: int | None = None) -> list[StreamBeat]:
        """Process the next samples and return new predictions.

        Args:
            samples_mv: (samples,) of one lead, or (leads, samples), in millivolt; NaN for missing samples.
            at_sample: sample number of the first of them, if the recorder counts; skipped numbers are a gap.

        Raises:
            RecordError: unexpected shape, integers (raw units of an amplifier), or a sample number that was already
                received or is more than a week ahead. The stream is unchanged.
        """
        samples = self._checked(samples_mv)
        beats = []
        if at_sample is not None and at_sample != self.sample_count:
            if not _is_count(at_sample) or at_sample < self.sample_count:
                actual = f"is {at_sample!r:.40}, and {self.sample_count:,} samples have come"
                action = "begin another stream where the recorder's clock was set back"
                raise RecordError("at_sample", actual, f"a whole number, {self.sample_count:,} or more", action)
            beats = self.gap(at_sample - self.sample_count)
        self.sample_count += samples.shape[1]
        return beats + self._take(samples)

    def gap(self, samples: int) -> list[StreamBeat]:
        """Report missing samples; returns predictions as ``push`` does.

        Args:
            samples: number of samples that were not recorded.

        Raises:
            RecordError: a negative number, or more than a week.
        """
        if not _is_count(samples) or samples > LONGEST_GAP_S * self.fs_hz:
            raise RecordError("gap", f"of {samples!r:.40} samples", f"0 to {LONGEST_GAP_S / 86_400:g} days")
        beats, remaining = [], int(samples)
        while remaining:
            some = min(remaining, round(_AT_ONCE_S * self.fs_hz))
            self.sample_count += some
            beats += self._take(np.full((self.leads, some), np.nan))
            remaining -= some
        return beats

    def finish(self) -> list[StreamBeat]:
        """End the recording and return the last beats; the next ``push`` starts a new one at sample 0."""
        beats: list[StreamBeat] = []
        if self.sample_count:
            beats += self._take(self._waiting[:, :0])  # steps left over after an error
            beats += self._looked(self._waiting, ended=True)
        self._begin()
        return beats

    def _checked(self, samples_mv: NDArray[np.floating]) -> NDArray[np.float64]:
        if isinstance(samples_mv, np.ma.MaskedArray):  # masked samples were not recorded
            samples_mv = np.ma.filled(samples_mv.astype(np.float64), np.nan)
        samples_mv = np.asarray(samples_mv)
        if samples_mv.size:
            check_millivolt(samples_mv, "samples")
        samples = np.atleast_2d(np.asarray(samples_mv, dtype=np.float64))
        if samples.ndim != 2 or len(samples) != self.leads:
            expected = f"({self.leads}, samples)" if self.leads > 1 else "(samples,) of one lead"
            raise RecordError("samples", f"shape {np.shape(samples_mv)}", expected)
        return samples

    def _take(self, samples: NDArray[np.float64]) -> list[StreamBeat]:
        """Process the stream in fixed steps, however samples arrive; long gaps are skipped in larger ones."""
        beats: list[StreamBeat] = []
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
                beats += self._looked(part)
        finally:  # if the model fails, these beats are lost, but sample numbers stay correct
            self._waiting = data[:, at:].copy()
        return beats

    def _looked(self, part: NDArray[np.float64], *, ended: bool = False) -> list[StreamBeat]:
        update = self._beats.look(part, ended=ended)
        self._rhythm.look(part, update.detected, ended=ended)
        self.rhythms = self._rhythm.episodes
        return self._stream_beats(update)

    def _stream_beats(self, update: BeatUpdate) -> list[StreamBeat]:
        final = self._classified(update.final, update.at, "final")
        early = self._classified(update.early, update.at, "early")
        silent = max(update.at - self._beats.last_peak - round(DETECTED_WITHIN_S * self.fs_hz), 0)
        self.drift.quiet(update.at / self.fs_hz, silent / self.fs_hz)
        return [*[self._withdrawn(sample, update.at) for sample in update.withdrawn.tolist()], *final, *early]

    def _classified(self, cut: Cut, at: int, stage: Literal["early", "final"]) -> list[StreamBeat]:
        if not len(cut.sample):
            return []
        rr = cut.windows.rr_s if self.classifier.rr else cut.windows.rr_s[:, :0]
        windows = cut.windows
        predictions = self.classifier.classify(Windows(windows.window_mv, rr, windows.flags, windows.no_signal))
        beats = []
        for number, sample in enumerate(cut.sample.tolist()):
            label = int(predictions.label[number])
            beat = StreamBeat(
                sample,
                sample / self.fs_hz,
                label,
                self.classifier.classes[label] if predictions.classified[number] else "",
                float(predictions.probability[number, label]) if predictions.classified[number] else math.nan,
                predictions.probability[number],
                int(cut.windows.flags[number]),
                bool(predictions.low_confidence[number]),
                bool(predictions.out_of_distribution[number]),
                stage,
                (at - sample) / self.fs_hz,
                str(predictions.override[number]),
            )
            beats.append(beat)
            if stage == "final":
                self.drift.add(
                    beat.time_s,
                    label,
                    beat.low_confidence,
                    beat.out_of_distribution,
                    beat.flags,
                    cut.windows.window_mv[number, 0],
                )
        return beats

    def _withdrawn(self, sample: int, at: int) -> StreamBeat:
        nothing = np.zeros(len(self.classifier.classes), np.float32)
        time_s, late_s = sample / self.fs_hz, (at - sample) / self.fs_hz
        return StreamBeat(sample, time_s, -1, "", math.nan, nothing, 0, True, False, "withdrawn", late_s)
