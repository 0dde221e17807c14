"""The one path from a recording to beats: read it, judge its quality, find its R peaks, cut its windows.

What trains and what predicts walk it alike, so a beat that is predicted is cut exactly as a beat that was trained on.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ecgfed.beats.exclusions import Exclusions
from ecgfed.beats.extract import (
    NOT_RECORDED,
    LabelledBeats,
    Labels,
    Windows,
    assign_labels,
    empty_windows,
    windows_around,
)
from ecgfed.beats.intervals import unmarked_spans
from ecgfed.beats.labels import LabelMap
from ecgfed.beats.long_windows import one_ahead, windows_by_blocks
from ecgfed.beats.rr import RR_LATEST, check_rr_version
from ecgfed.errors import OptionError, RecordError
from ecgfed.record.opening import open_recording
from ecgfed.record.reader import annotation_file, check_annotator, ecg_alone, read_annotation
from ecgfed.record.recording import BEAT_SYMBOLS, Annotation, AnyRecording, LongRecording, ReadOptions
from ecgfed.signal.detectors import OURS, Detector, check_mains, detector_by_name
from ecgfed.signal.flutter import flutter_spans
from ecgfed.signal.long_peaks import Told, find_peaks
from ecgfed.signal.long_quality import quality_of
from ecgfed.signal.pacing import Pacing, detect_pacing
from ecgfed.signal.quality import LeadQuality
from ecgfed.signal.size import Size, lead_size
from ecgfed.text import count_of

#: Says whom to tell how many samples of a recording have been looked at.
Watching = Callable[[AnyRecording], Told | None] | None
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
        rr_version: of the RR features (``ecgfed.beats.rr``).
    """

    leads: tuple[str, ...] = ()
    peaks: str = "detected"
    detector: str | Detector = OURS
    annotator: str = "atr"
    how: ReadOptions = field(default_factory=ReadOptions)
    mains_hz: float | None = None
    rr_version: int = RR_LATEST

    def __post_init__(self) -> None:
        if self.peaks not in PEAKS:
            raise OptionError("--peaks", f"{self.peaks!r}", " or ".join(PEAKS))
        check_annotator(self.annotator)
        check_mains(self.mains_hz)
        check_rr_version(self.rr_version)
        detector_by_name(self.detector)

    @property
    def found_by(self) -> Detector:
        """The detector, for detected peaks."""
        return detector_by_name(self.detector)

    @property
    def every_lead(self) -> bool:
        """Whether all leads of a recording are read, for a detector that looks at them."""
        return self.peaks == "detected" and self.found_by.every_lead


@dataclass(frozen=True, repr=False, eq=False)
class RecordingBeats:
    """All beats of one recording, labelled or not. Their windows are cut when they are asked for.

    Attributes:
        recording: the recording, in memory or on the disk.
        quality: of the lead in use.
        annotation: its annotation, where one was asked for.
        r_samples: (beats,) int64 increasing sample numbers of the R peaks.
        detected: whether the R peaks were detected, and not taken from the annotation.
        rr_version: of the RR features (``ecgfed.beats.rr``).
    """

    recording: AnyRecording
    quality: LeadQuality
    annotation: Annotation | None
    r_samples: NDArray[np.int64]
    detected: bool
    rr_version: int = RR_LATEST

    def __repr__(self) -> str:
        return (
            f"RecordingBeats({self.recording.name!r}: {count_of(len(self.r_samples), 'beat')} on {self.recording.lead})"
        )

    @cached_property
    def windows(self) -> Windows:
        """The windows, RR features and flags of all beats, kept: a kilobyte a beat."""
        recording = self.recording
        return windows_around(
            recording.signal_mv,
            recording.fs_hz,
            self.r_samples,
            self.quality,
            rr_version=self.rr_version,
            void=self._void,
        )

    @cached_property
    def pacing(self) -> Pacing:
        """Pacing detected in the signal, in every ECG lead that was read."""
        return detect_pacing(self.recording, self.r_samples)

    @cached_property
    def flutter(self) -> tuple[tuple[int, int], ...]:
        """(start, stop) in samples of what is like ventricular flutter or fibrillation in the lead in use."""
        return flutter_spans(self.recording)

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
        if isinstance(self.recording, LongRecording):
            yield from one_ahead(
                windows_by_blocks(
                    self.recording, self.quality, self.r_samples, keep, rr_version=self.rr_version, void=self._void
                )
            )
        else:
            yield self.windows if keep is None else self.windows.chosen(keep)

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
        found = self.labels(labels)
        windows, at = self.windows.chosen(found.keep), self.r_samples[found.keep]
        holds = ~self.empty(windows.window_mv, at)
        some = windows.chosen(np.flatnonzero(holds))
        empty = int((~holds).sum())
        return LabelledBeats(some, found.label[holds], at[holds], found.left_out, found.unmatched, empty)

    def empty(self, window_mv: NDArray[np.float32], r_samples: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which windows hold nothing (``empty_windows``), for some R peaks of the recording; (beats,) bool."""
        return empty_windows(window_mv, self.recording.fs_hz, r_samples, self.quality.spans(NOT_RECORDED))

    def exclusions(self, found: Labels | LabelledBeats, empty: int) -> list[Exclusions]:
        """Count what was read, used and excluded of the beats; of detected ones, of the annotated beats too.

        Args:
            found: how the beats were labelled.
            empty: how many labelled ones were left out because their window holds nothing.
        """
        beyond = 0 if self.annotation is None else sum(mark in BEAT_SYMBOLS for mark in self.annotation.beyond_end)
        read, (peaks, marks) = len(self.r_samples), found.unmatched
        excluded = {"other_class": sum(found.left_out.values()), "no_signal": empty}
        if not self.detected:
            return [Exclusions("beat", read + beyond, {**excluded, "beyond_end": beyond}, found.left_out)]
        annotated = Exclusions("annotation", read - peaks + marks + beyond, {"no_peak": marks, "beyond_end": beyond})
        return [Exclusions("beat", read, {**excluded, "no_annotation": peaks}, found.left_out), annotated]


def read_beats(
    path: Path | str, options: BeatOptions, *, annotated: bool = False, watching: Watching = None
) -> RecordingBeats:
    """Open a recording and find its beats.

    Args:
        path: of the recording, as ``open_recording`` takes it.
        options: how.
        annotated: read the annotation although the peaks are detected.
        watching: asked whom to tell how far a long recording is.

    Raises:
        RecordError: a file that cannot be used, no beat in it, or none of the leads.
    """
    recording = open_recording(path, options.leads, every_lead=options.every_lead, how=options.how)
    told = watching(recording) if watching else None
    return cut_beats(recording, options, annotated=annotated, told=told)


def cut_beats(
    recording: AnyRecording, options: BeatOptions, *, annotated: bool = False, told: Told | None = None
) -> RecordingBeats:
    """Find the beats of a recording that has been opened: ``read_beats`` from its second step on."""
    from_marks = options.peaks == "annotated"
    annotation = read_annotation(recording, options.annotator) if annotated or from_marks else None
    with ThreadPoolExecutor(1) as pool:  # while the peaks of a long recording are found
        quality = pool.submit(quality_of, recording, recording.lead)
        if from_marks and annotation is not None:
            r_samples = annotation.beats().sample
        else:
            known = None if isinstance(recording, LongRecording) else quality.result()
            r_samples = find_peaks(
                ecg_alone(recording),
                known,
                detector=options.detector,
                mains_hz=options.mains_hz,
                told=told,
                later=quality,
            )
        return RecordingBeats(
            recording, quality.result(), annotation, r_samples, detected=not from_marks, rr_version=options.rr_version
        )


def require_marks(beats: RecordingBeats, options: BeatOptions) -> None:
    """Raise RecordError where an annotation that was to give the R peaks marks no beat."""
    if not beats.detected and not len(beats.r_samples):
        marks = annotation_file(beats.recording.path, options.annotator)
        raise RecordError(marks, "marks no beat", "beat annotations", "or use --peaks detected")
