"""The one path from a recording to beats: read it, judge its quality, find its R peaks, cut its windows.

What trains and what predicts walk it alike, so a beat that is predicted is cut exactly as a beat that was trained on.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ecgfed.base.errors import OptionError, RecordError, param
from ecgfed.base.text import count_of
from ecgfed.domain.beats.blocks import windows_by_blocks
from ecgfed.domain.beats.exclusions import Exclusions
from ecgfed.domain.beats.extract import (
    NOT_RECORDED,
    LabelledBeats,
    Labels,
    Windows,
    assign_labels,
    empty_windows,
    no_windows,
    without_qrs,
)
from ecgfed.domain.beats.intervals import intervals_s, unmarked_spans
from ecgfed.domain.beats.labels import LabelMap
from ecgfed.domain.beats.rr import RR_DEFAULT, check_rr_version
from ecgfed.domain.events.rhythm_episodes import RhythmEpisodes
from ecgfed.domain.record.leads import ecg_alone
from ecgfed.domain.record.read_options import ReadOptions
from ecgfed.domain.record.reader import annotation_file, check_annotator, open_recording, read_annotation
from ecgfed.domain.record.recording import BEAT_SYMBOLS, Annotation, ReadingPool, Recording, prefetched
from ecgfed.domain.signal.av_block import AV_BLOCK, av_block
from ecgfed.domain.signal.chunked_quality import quality_of
from ecgfed.domain.signal.detectors import OURS, Detector, check_mains, detector_by_name
from ecgfed.domain.signal.flutter import flutter_spans
from ecgfed.domain.signal.heartbeats import NO_BEATS_S, end_noise, no_beats
from ecgfed.domain.signal.pacing import Pacing, calibration_pulses, detect_pacing
from ecgfed.domain.signal.peaks import OnSamples, find_peaks
from ecgfed.domain.signal.quality import NO_SIGNAL, LeadQuality
from ecgfed.domain.signal.rhythm import assessed_features, episodes, log_odds, shortest_episode_s
from ecgfed.domain.signal.size import Size, lead_size, min_qrs_mv
from ecgfed.domain.signal.spans import Spans

#: Returns a recording's progress callback, or None for none.
OnSamplesFactory = Callable[[Recording], OnSamples | None] | None
#: Where R peaks come from.
PEAKS = ("annotated", "detected")


@dataclass(frozen=True)
class BeatOptions:
    """How a recording's beats are found.

    Attributes:
        leads: lead names in order of preference; the recording's first lead for none.
        peaks: ``annotated`` or ``detected`` R peaks.
        detector: for detected peaks, a registered name or a ``Detector``.
        annotator: suffix of the annotation file.
        how: what CSV and NumPy recordings leave open.
        mains_hz: 50 or 60, the mains' frequency where it was recorded, for detectors that ask; None is 60.
        rr_version: of the RR features (``ecgfed.domain.beats.rr``).
    """

    leads: tuple[str, ...] = ()
    peaks: str = "detected"
    detector: str | Detector = OURS
    annotator: str = "atr"
    how: ReadOptions = field(default_factory=ReadOptions)
    mains_hz: float | None = None
    rr_version: int = RR_DEFAULT

    def __post_init__(self) -> None:
        if self.peaks not in PEAKS:
            raise OptionError("peaks", f"{self.peaks!r}", " or ".join(PEAKS), code="unknown-choice")
        check_annotator(self.annotator)
        check_mains(self.mains_hz)
        check_rr_version(self.rr_version)
        detector_by_name(self.detector)

    @property
    def qrs_detector(self) -> Detector:
        """The detector, for detected peaks."""
        return detector_by_name(self.detector)

    @property
    def every_lead(self) -> bool:
        """Whether all leads of a recording are read, for a detector that looks at them."""
        return self.peaks == "detected" and self.qrs_detector.every_lead


@dataclass(frozen=True, repr=False, eq=False)
class RecordingBeats:
    """All beats of one recording, labelled or not. Their windows are cut when they are asked for.

    Attributes:
        recording: the recording, in memory or on the disk.
        quality: of the lead in use.
        annotation: its annotation, where one was asked for.
        r_samples: (beats,) int64 increasing sample numbers of the R peaks.
        detected: whether the R peaks were detected, and not taken from the annotation.
        rr_version: of the RR features (``ecgfed.domain.beats.rr``).
        every_r_sample: the R peaks of all beats, where these are some of them (``chosen``); else None.
        end_noise: how many detected peaks are none of these, since they are noise at an end (``heartbeats.end_noise``).
    """

    recording: Recording
    quality: LeadQuality
    annotation: Annotation | None
    r_samples: NDArray[np.int64]
    detected: bool
    rr_version: int = RR_DEFAULT
    every_r_sample: NDArray[np.int64] | None = None
    end_noise: int = 0

    def __repr__(self) -> str:
        return (
            f"RecordingBeats({self.recording.name!r}: {count_of(len(self.r_samples), 'beat')} on {self.recording.lead})"
        )

    def chosen(self, keep: NDArray[np.int64]) -> "RecordingBeats":
        """Return some of the beats, by their numbers in order of time, cut as among all of them."""
        return replace(self, r_samples=self.r_samples[keep], every_r_sample=self._every)

    @cached_property
    def windows(self) -> Windows:
        """The windows, RR features and flags of all beats, kept: a kilobyte a beat."""
        return Windows.joined([no_windows(self.rr_version), *self._blocks(None)])

    @cached_property
    def min_qrs_mv(self) -> float:
        """Below which height a beat has no QRS complex in the lead in use (``size.least_qrs_mv``), in mV."""
        return min_qrs_mv(self.recording, self.recording.lead, self._every, self.quality.spans())

    @property
    def intervals_s(self) -> NDArray[np.float64]:
        """(beats,) float64 the interval before each beat in seconds, NaN where it is void."""
        lost = self.quality.spans(NO_SIGNAL)
        return intervals_s(self._every, self.recording.fs_hz, lost)[self._rows()]

    @property
    def _every(self) -> NDArray[np.int64]:
        return self.r_samples if self.every_r_sample is None else self.every_r_sample

    def _rows(self, keep: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
        """Return the numbers of these beats, or of some of them, among all of the recording's."""
        return np.searchsorted(self._every, self.r_samples if keep is None else self.r_samples[keep])

    def _with_qrs_checked(self, blocks: Iterator[Windows], pulses: NDArray[np.bool_]) -> Iterator[Windows]:
        first = 0
        for windows in blocks:
            silent = windows.no_signal | without_qrs(windows.window_mv, self.min_qrs_mv)
            yield replace(windows, no_signal=silent | pulses[first : first + len(silent)])
            first += len(silent)

    @cached_property
    def pulses(self) -> NDArray[np.bool_]:
        """(beats,) bool, those that are calibration pulses in the lead in use; they count as without signal."""
        return calibration_pulses(self.recording, self._every)[self._rows()]

    @cached_property
    def pacing(self) -> Pacing:
        """Pacing detected in the signal, in every ECG lead that was read."""
        return detect_pacing(self.recording, self.r_samples)

    @cached_property
    def flutter(self) -> tuple[tuple[int, int], ...]:
        """(start, stop) in samples of what is like ventricular flutter or fibrillation in the lead in use."""
        return flutter_spans(self.recording)

    @cached_property
    def fibrillation(self) -> RhythmEpisodes:
        """Episodes of atrial fibrillation or flutter, in the lead in use and another one that was read.

        Stretches of ``NO_BEATS_S`` and more that are ``without_rhythm`` are no part of an episode, and none begins or
        ends where the signal is ``unreadable_s``.
        """
        found = episodes(log_odds(self.rhythm_features), self.recording.duration_s)
        if not found.episodes:
            return found
        return found.without(self.without_rhythm, NO_BEATS_S).trimmed(self.unreadable_s, NO_BEATS_S)

    @property
    def fibrillation_from_s(self) -> float | None:
        """The shortest episode of atrial fibrillation that is detected, in seconds; None where it is not assessed."""
        return shortest_episode_s(log_odds(self.rhythm_features), self.recording.duration_s)

    @cached_property
    def av_block(self) -> RhythmEpisodes:
        """Episodes of possible AV block in the lead in use; none is looked for where the rhythm is paced."""
        if self.pacing:
            return RhythmEpisodes(AV_BLOCK, ())
        return av_block(self.recording, self.r_samples, [*self.unreadable_s, *self.fibrillation.episodes])

    @cached_property
    def rhythm_features(self) -> NDArray[np.float64]:
        """(leads, windows, features) of fibrillation; NaN where mostly paced, of poor quality or possible flutter."""
        paced = self.pacing.beats if self.pacing else None
        return assessed_features(ecg_alone(self.recording), self.r_samples, paced, tuple(self._unreadable))

    @property
    def _unreadable(self) -> Spans:
        """Samples of poor quality, or in possible ventricular flutter."""
        return Spans.merged([*self.quality.spans(), *self.flutter])

    @property
    def unreadable_s(self) -> list[tuple[float, float]]:
        """(start, stop) in seconds of poor quality, or in possible ventricular flutter."""
        return [(start / self.recording.fs_hz, stop / self.recording.fs_hz) for start, stop in self._unreadable]

    @property
    def without_rhythm(self) -> list[tuple[float, float]]:
        """(start, stop) in seconds without a beat, without signal or in possible ventricular flutter."""
        lost, fs_hz = Spans.merged([*self.quality.spans(NO_SIGNAL), *self.flutter]), self.recording.fs_hz
        return [*((start / fs_hz, stop / fs_hz) for start, stop in lost), *self.no_beats.episodes]

    @cached_property
    def no_beats(self) -> RhythmEpisodes:
        """Stretches of recorded signal without a beat."""
        lost = Spans.merged([*self.quality.spans(NO_SIGNAL), *self.flutter])
        return no_beats(self.recording, self._every, lost)

    @property
    def size(self) -> Size | None:
        """How high the QRS of the lead in use is."""
        return lead_size(self.recording, self.recording.lead, self.r_samples, self.quality.spans())

    @property
    def _void(self) -> list[tuple[int, int]]:
        """Stretches whose beats nobody marked, where the beats are those of the annotation."""
        if self.detected or self.annotation is None:
            return []
        return unmarked_spans(self.annotation, self.recording.samples)

    def blocks(self, keep: NDArray[np.int64] | None = None) -> Iterator[Windows]:
        """Yield the windows of consecutive beats, of a long recording a stretch after the other, and keep none.

        Args:
            keep: numbers of the beats to cut, in order of time; all of them for None.
        """
        if self.recording.is_lazy:
            yield from self._blocks(keep)
        else:
            yield self.windows if keep is None else self.windows.chosen(keep)

    def _blocks(self, keep: NDArray[np.int64] | None) -> Iterator[Windows]:
        rows = None if keep is None and self.every_r_sample is None else self._rows(keep)
        blocks = windows_by_blocks(
            self.recording, self.quality, self._every, rows, rr_version=self.rr_version, void=self._void
        )
        return prefetched(self._with_qrs_checked(blocks, self.pulses if keep is None else self.chosen(keep).pulses))

    def labels(self, labels: LabelMap) -> Labels:
        """Label the beats by the annotation, without cutting a window."""
        if self.annotation is None:
            raise ValueError("the recording was read without its annotation")
        fs_hz = self.recording.fs_hz
        return assign_labels(self.r_samples, fs_hz, self.annotation, labels, detected=self.detected)

    def labelled(self, labels: LabelMap) -> LabelledBeats:
        """Label the beats by the annotation.

        Those that no class claims, that no mark matches, or whose window holds nothing are left out (``exclusions``).
        """
        labelled = self.labels(labels)
        windows, at = self.windows.chosen(labelled.keep), self.r_samples[labelled.keep]
        holds = ~self.empty(windows.window_mv, at)
        some = windows.chosen(np.flatnonzero(holds))
        empty = int((~holds).sum())
        return LabelledBeats(some, labelled.label[holds], at[holds], labelled.unclassified, labelled.unmatched, empty)

    def empty(self, window_mv: NDArray[np.float32], r_samples: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which windows hold nothing (``empty_windows``), for some R peaks of the recording; (beats,) bool."""
        return empty_windows(window_mv, self.recording.fs_hz, r_samples, self.quality.spans(NOT_RECORDED))

    def exclusions(self, labelled: Labels | LabelledBeats, empty: int) -> list[Exclusions]:
        """Count what was read, used and excluded of the beats; of detected ones, of the annotated beats too.

        Args:
            labelled: how the beats were labelled.
            empty: how many labelled ones were left out because their window holds nothing.
        """
        beyond = 0 if self.annotation is None else sum(mark in BEAT_SYMBOLS for mark in self.annotation.beyond_end)
        read, (peaks, marks) = len(self.r_samples) + self.end_noise, labelled.unmatched
        excluded = {"other_class": sum(labelled.unclassified.values()), "no_signal": empty, "end_noise": self.end_noise}
        if not self.detected:
            return [Exclusions("beat", read + beyond, {**excluded, "beyond_end": beyond}, labelled.unclassified)]
        annotated = Exclusions(
            "annotation", len(self.r_samples) - peaks + marks + beyond, {"no_peak": marks, "beyond_end": beyond}
        )
        return [Exclusions("beat", read, {**excluded, "no_annotation": peaks}, labelled.unclassified), annotated]


def read_beats(
    path: Path | str, options: BeatOptions, *, annotated: bool = False, on_samples_for: OnSamplesFactory = None
) -> RecordingBeats:
    """Open a recording and find its beats.

    Args:
        path: of the recording, as ``open_recording`` takes it.
        options: how.
        annotated: read the annotation although the peaks are detected.
        on_samples_for: returns the progress callback of a recording.

    Raises:
        RecordError: a file that cannot be used, no beat in it, or none of the leads.
    """
    recording = open_recording(path, options.leads, every_lead=options.every_lead, how=options.how)
    on_samples = on_samples_for(recording) if on_samples_for else None
    return cut_beats(recording, options, annotated=annotated, on_samples=on_samples)


def cut_beats(
    recording: Recording, options: BeatOptions, *, annotated: bool = False, on_samples: OnSamples | None = None
) -> RecordingBeats:
    """Find the beats of a recording that has been opened: ``read_beats`` from its second step on."""
    from_marks, noise = options.peaks == "annotated", 0
    annotation = read_annotation(recording, options.annotator) if annotated or from_marks else None
    with ReadingPool(1) as pool:  # while the peaks of a long recording are found
        quality = pool.submit(quality_of, recording, recording.lead)
        if from_marks and annotation is not None:
            r_samples = annotation.beats().sample
        else:
            r_samples = find_peaks(
                ecg_alone(recording),
                quality,
                detector=options.detector,
                mains_hz=options.mains_hz,
                on_samples=on_samples,
            )
            at_an_end = end_noise(recording, r_samples, options.qrs_detector)
            r_samples, noise = r_samples[~at_an_end], int(at_an_end.sum())
        return RecordingBeats(
            recording,
            quality.result(),
            annotation,
            r_samples,
            detected=not from_marks,
            rr_version=options.rr_version,
            end_noise=noise,
        )


def require_marks(beats: RecordingBeats, options: BeatOptions) -> None:
    """Raise RecordError where an annotation that was to give the R peaks marks no beat."""
    if not beats.detected and not len(beats.r_samples):
        marks = annotation_file(beats.recording.path, options.annotator)
        raise RecordError(
            marks, "marks no beat", "beat annotations", f"or use {param('peaks')} detected", code="no-beats"
        )
