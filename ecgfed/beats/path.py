"""The one path from a recording to beats: read it, judge its quality, find its R peaks, cut its windows.

What trains and what predicts walk it alike, so a beat that is predicted is cut exactly as a beat that was trained on.
"""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ecgfed.beats.extract import LabelledBeats, Windows, label_beats, windows_around
from ecgfed.beats.intervals import unmarked_spans
from ecgfed.beats.labels import LabelMap
from ecgfed.beats.rr import RR_LATEST, check_rr_version
from ecgfed.errors import OptionError, RecordError
from ecgfed.record.reader import annotation_file, check_annotator, read_annotation, read_recording
from ecgfed.record.recording import Annotation, ReadOptions, Recording
from ecgfed.signal.around_gaps import detect_around_gaps
from ecgfed.signal.detectors import OURS, Detector, check_mains, detector_by_name
from ecgfed.signal.quality import LeadQuality, lead_quality

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
    """All beats of one recording, labelled or not.

    Attributes:
        recording: the recording.
        quality: of the lead in use.
        annotation: its annotation, where one was asked for.
        r_samples: (beats,) int64 increasing sample numbers of the R peaks.
        windows: the beats' windows, RR features and flags.
        detected: whether the R peaks were detected, and not taken from the annotation.
    """

    recording: Recording
    quality: LeadQuality
    annotation: Annotation | None
    r_samples: NDArray[np.int64]
    windows: Windows
    detected: bool

    def __repr__(self) -> str:
        return f"RecordingBeats({self.recording.name!r}: {len(self.r_samples):,} beats on {self.recording.lead})"

    def labelled(self, labels: LabelMap) -> LabelledBeats:
        """Label the beats by the annotation; those that no class claims, or that no mark matches, are left out."""
        if self.annotation is None:
            raise ValueError("the recording was read without its annotation")
        return label_beats(
            self.windows, self.r_samples, self.recording.fs_hz, self.annotation, labels, detected=self.detected
        )


def read_beats(path: Path | str, options: BeatOptions, *, annotated: bool = False) -> RecordingBeats:
    """Read a recording and cut its beats.

    Args:
        path: of the recording, as ``read_recording`` takes it.
        options: how.
        annotated: read the annotation although the peaks are detected.

    Raises:
        RecordError: a file that cannot be used, no beat in it, or none of the leads.
    """
    recording = read_recording(path, options.leads, every_lead=options.every_lead, how=options.how)
    return cut_beats(recording, options, annotated=annotated)


def cut_beats(recording: Recording, options: BeatOptions, *, annotated: bool = False) -> RecordingBeats:
    """Cut the beats of a recording that has been read: ``read_beats`` from its second step on."""
    from_marks = options.peaks == "annotated"
    annotation = read_annotation(recording, options.annotator) if annotated or from_marks else None
    quality = lead_quality(recording.signal_mv, recording.fs_hz)
    if from_marks and annotation is not None:
        r_samples = annotation.beats().sample
    else:
        r_samples = detect_around_gaps(
            recording.signals_mv,
            recording.fs_hz,
            quality,
            lead=recording.leads.index(recording.lead),
            detector=options.detector,
            mains_hz=options.mains_hz,
            name=f"{recording.path} lead {recording.lead}",
        )
    void = unmarked_spans(annotation, len(recording.signal_mv)) if from_marks and annotation is not None else ()
    windows = windows_around(
        recording.signal_mv, recording.fs_hz, r_samples, quality, rr_version=options.rr_version, void=void
    )
    return RecordingBeats(recording, quality, annotation, r_samples, windows, detected=not from_marks)


def require_marks(beats: RecordingBeats, options: BeatOptions) -> None:
    """Raise RecordError where an annotation that was to give the R peaks marks no beat."""
    if not beats.detected and not len(beats.r_samples):
        marks = annotation_file(beats.recording.path, options.annotator)
        raise RecordError(marks, "marks no beat", "beat annotations", "use --peaks detected")
