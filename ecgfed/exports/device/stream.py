"""Classify beats while they are recorded: samples in, predictions out within seconds."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ecgfed.base.deprecation import renamed_fields
from ecgfed.base.errors import OptionError, RecordError
from ecgfed.domain.beats.announced import CLASS_S, Change
from ecgfed.domain.beats.context_stream import LOOK_AHEAD
from ecgfed.domain.beats.extract import Windows
from ecgfed.domain.beats.stream import DETECTED_WITHIN_S, PARTS, STEP_S, BeatStream, BeatUpdate
from ecgfed.domain.beats.stream_features import Cut
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
#: So often a stream that announces looks for beats, in seconds of signal.
ANNOUNCE_STEP_S = STEP_S / PARTS
#: Latency of a stream for the manifest, in seconds after the R peak; docs/stream.md has measurements.
LATENCY = {
    "step_s": STEP_S,
    "announce_step_s": ANNOUNCE_STEP_S,
    "first_class_at_most_s": CLASS_S,
    "early_at_most_s": DELAY_S + STEP_S,
    "final_after_last_needed_beat_s": DECIDED_S + 1.0,
    "final_beats_ahead": {"1": 1, **{str(version): beats for version, beats in LOOK_AHEAD.items()}},
}


#: What a stream reports of a beat. Of an R peak, without a class: ``announced``, within a second; ``added``, it was not
#: announced; ``moved``, it is elsewhere; ``withdrawn``, it is none after all. Of a class: ``early``, from the signal so
#: far, again only where it changes; ``final``, as for the whole recording.
Stage = Literal["announced", "added", "moved", "withdrawn", "early", "final"]
#: Whether R peaks are announced and classes are early (True), or early answers wait until the detector has decided.
Early = bool | Literal["decided"]


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
        stage: what is reported, see ``Stage``.
        late_s: signal received since the R peak when this was reported, in seconds.
        override: the WFDB symbol that replaces the class, as in ``Predictions``: ``UNCLASSIFIED`` if the window has
            no signal; "" otherwise.
        beat: id of the beat: 0, 1, 2 and so on in the order in which beats became known; all that is reported of a beat
            has it, and of what is withdrawn it does not come back.
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
    stage: Stage
    late_s: float
    override: str = ""
    beat: int = -1


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
        early: True also announces R peaks, within a second and mostly in 0.35 s, and reports an early class when the
            next R peak is announced, ``CLASS_S`` after its own at the latest; then what changes, until the final class.
            "decided" reports nothing before the detector has decided on the R peak, and one early class then, within
            about four seconds.
        drift: drift detector; None creates one with default bounds.

    Raises:
        RecordError: a sampling frequency below 100 Hz, or missing leads.
        OptionError: another value of ``early``.
    """

    def __init__(
        self,
        classifier: Classifier,
        fs_hz: float,
        *,
        leads: int = 1,
        lead: int = 0,
        rails_mv: Sequence[float] = (),
        early: Early = False,
        drift: Drift | None = None,
    ) -> None:
        check_fs(fs_hz, "fs_hz", f"{fs_hz!r:.40}", "say the recorder's own")
        if not fs_hz >= MIN_FS_HZ:
            raise RecordError("fs_hz", f"is {fs_hz:g}", f"{MIN_FS_HZ:g} Hz or more, to find beats")
        if not (_is_count(leads) and _is_count(lead) and lead < leads):
            raise RecordError("lead", f"is {lead!r:.20} of {leads!r:.20}", "0 to one less than the number of leads")
        if early not in (True, False, "decided"):
            raise OptionError("early", f"{early!r:.20}", 'True, False or "decided"')
        self.classifier, self.fs_hz, self.leads, self.lead = classifier, float(fs_hz), leads, lead
        self.rails_mv, self.early = tuple(map(float, rails_mv)), early
        self.drift = drift or Drift(len(classifier.classes))
        self.rhythms = RhythmEpisodes(NAME, ())
        self._begin()

    def _begin(self) -> None:
        rr = self.classifier.rr or 1
        early, announce = bool(self.early), self.early is True
        self._beats = BeatStream(self.fs_hz, self.leads, self.lead, rr, self.rails_mv, early=early, announce=announce)
        self._taken: list[NDArray[np.float64]] = []  # of the step that is under way, in parts of which so many are over
        self._parts = 0
        self._reported: dict[int, tuple[int, str]] = {}  # id -> label and override of the early class of a beat
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
            beats += self._known(self._waiting, ended=True) + self._looked(ended=True)
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
        parts = PARTS if self.early is True else 1
        try:
            while True:
                if self._parts == parts:
                    beats += self._looked()
                some = step * (self._parts + 1) // parts - step * self._parts // parts
                if data.shape[1] - at < some:
                    break
                leap = 0
                if self._beats.dead and not self._parts:
                    leap = self._beats.leap(data.shape[1] - at)
                    leap = 0 if np.isfinite(data[:, at : at + leap]).any() else leap
                part = data[:, at : at + (leap or some)]
                at += part.shape[1]
                self._parts = parts if leap else self._parts + 1
                beats += self._known(part)
        finally:  # if the model fails, these beats are lost, but sample numbers stay correct
            self._waiting = data[:, at:].copy()
        return beats

    def _known(self, part: NDArray[np.float64], *, ended: bool = False) -> list[StreamBeat]:
        """Process a part of a step; return what becomes known of R peaks, and classes of beats that were announced."""
        self._taken.append(part)
        update = self._beats.take(part, ended=ended)
        beats = [self._peak(event.change, event.beat, event.sample, update.at) for event in update.events]
        return beats + self._first(self._classified(update.first, update.at, "early"))

    def _looked(self, *, ended: bool = False) -> list[StreamBeat]:
        part, self._taken, self._parts = np.concatenate(self._taken, axis=1), [], 0
        update = self._beats.look(ended=ended)
        self._rhythm.look(part, update.detected, ended=ended)
        self.rhythms = self._rhythm.episodes
        return self._stream_beats(update)

    def _stream_beats(self, update: BeatUpdate) -> list[StreamBeat]:
        final = self._classified(update.final, update.at, "final")
        early = self._first(self._classified(update.early, update.at, "early"))
        for beat in final:
            self._reported.pop(beat.beat, None)
        silent = max(update.at - self._beats.last_peak - round(DETECTED_WITHIN_S * self.fs_hz), 0)
        self.drift.quiet(update.at / self.fs_hz, silent / self.fs_hz)
        return [*[self._peak("withdrawn", beat, at, update.at) for beat, at in update.withdrawn], *final, *early]

    def _first(self, beats: list[StreamBeat]) -> list[StreamBeat]:
        """Return those whose early class has not been reported."""
        fresh = [beat for beat in beats if self._reported.get(beat.beat) != (beat.label, beat.override)]
        self._reported |= {beat.beat: (beat.label, beat.override) for beat in fresh}
        return fresh

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
                cut.beat[number],
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

    def _peak(self, stage: Change, beat: int, sample: int, at: int) -> StreamBeat:
        """Return what is reported of an R peak alone."""
        if stage == "withdrawn":
            self._reported.pop(beat, None)
        nothing = np.zeros(len(self.classifier.classes), np.float32)
        time_s, late_s = sample / self.fs_hz, (at - sample) / self.fs_hz
        return StreamBeat(sample, time_s, -1, "", math.nan, nothing, 0, True, False, stage, late_s, "", beat)
