"""The recordings that pacing is learned and tested on: the beats our detector finds, their features and labels."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.signal import resample_poly
from synthetic import Synthetic, synthesise

from ecgfed.base.errors import RecordError
from ecgfed.domain.beats.extract import match_peaks
from ecgfed.domain.record.leads import ecg_alone
from ecgfed.domain.record.reader import has_annotation, open_every_lead, read_annotation
from ecgfed.domain.record.recording import Annotation, Recording
from ecgfed.domain.signal.pacing_features import margins, resampling_matrix, window_features
from ecgfed.domain.signal.peaks import find_peaks

#: Samples up and down from 360 Hz.
RATES = {250: (25, 36), 128: (16, 45)}
#: One unit of MIT-BIH's converter in mV: what is resampled is rounded to it again.
UNIT_MV = 0.005
#: EC57's window for a beat that is detected.
MATCH_S = 0.15
#: Beats that are made synthetic of each recording, and of the short ones of CinC 2017.
SYNTHETIC, SYNTHETIC_SHORT = 60, 6
PACED = ("102", "104", "107", "217")


@dataclass(frozen=True)
class Source:
    """Recordings of a database at one sampling frequency, 0 for their own."""

    database: str
    fs_hz: int = 0

    @property
    def name(self) -> str:
        """``mitdb`` or ``mitdb at 250 Hz``."""
        return f"{self.database} at {self.fs_hz} Hz" if self.fs_hz else self.database


@dataclass(frozen=True)
class Beats:
    """The beats of a recording around some R peaks.

    Attributes:
        features: (leads, beats, features).
        symbol: (beats,) the reference annotation's symbols, ``""`` where none matches or there is none.
        time_s: (beats,) R peaks.
    """

    features: NDArray[np.float64]
    symbol: NDArray[np.str_]
    time_s: NDArray[np.float64]


@dataclass(frozen=True)
class Sample:
    """A recording: its beats at our detector's peaks and at the reference's, and synthetic ones."""

    source: Source
    record: str
    detected: Beats
    annotated: Beats | None
    synthetic: Synthetic | None

    @property
    def paced(self) -> bool:
        """Whether its patient is paced."""
        return self.source.database == "mitdb" and self.record in PACED

    @property
    def patient(self) -> str:
        """201 and 202 are one person."""
        return f"{self.source.database} {'201' if self.record == '202' else self.record}"


def samples(data: Path, source: Source, limit_hz: float) -> Iterator[Sample]:
    """Yield the recordings of a database, their windows low-passed at ``limit_hz``."""
    for number, header in enumerate(sorted((data / source.database).glob("*.hea"))):
        recording, annotation = _read(header.with_suffix(""), source.fs_hz)
        try:
            peaks = find_peaks(recording)
        except RecordError:  # no beat in it
            peaks = np.empty(0, np.int64)
        detected = _beats(recording, peaks, annotation, limit_hz)
        annotated = None if annotation is None else _beats(recording, annotation.sample, annotation, limit_hz)
        short = source.database == "cinc2017"
        rng = np.random.default_rng([number, len(source.name), int(limit_hz)])
        sample = Sample(source, header.stem, detected, annotated, None)
        if not sample.paced:
            made = _synthetic(rng, recording, peaks, annotation, SYNTHETIC_SHORT if short else SYNTHETIC, limit_hz)
            sample = replace(sample, synthetic=made)
        yield sample


def _read(path: Path, fs_hz: int) -> tuple[Recording, Annotation | None]:
    recording = ecg_alone(open_every_lead(path, ("MLII", "II")))
    assert isinstance(recording, Recording)
    annotation = None
    if has_annotation(recording):
        try:
            annotation = read_annotation(recording).beats()
        except RecordError:  # SVDB's 860 has a mark behind its end
            annotation = None
    if not fs_hz:
        return recording, annotation
    up, down = RATES[fs_hz]
    level = recording.signals_mv[:, :1]
    signals_mv = resample_poly(recording.signals_mv - level, up, down, axis=1) + level
    signals_mv = np.round(signals_mv / UNIT_MV) * UNIT_MV
    if annotation is not None:
        moved = np.rint(annotation.sample * up / down).astype(np.int64)
        annotation = Annotation(moved, annotation.symbol)
    return replace(recording, source=signals_mv, fs_hz=float(fs_hz), files=()), annotation


def _inside(recording: Recording, peaks: NDArray[np.int64]) -> NDArray[np.int64]:
    before, after = margins(recording.fs_hz)
    return peaks[(peaks >= before) & (peaks + after < recording.samples)]


def _beats(recording: Recording, peaks: NDArray[np.int64], annotation: Annotation | None, limit_hz: float) -> Beats:
    before, after = margins(recording.fs_hz)
    peaks = _inside(recording, peaks)
    resampling = resampling_matrix(recording.fs_hz, limit_hz)
    place = peaks[:, None] + np.arange(-before, after + 1)
    features = np.stack([window_features(lead[place] @ resampling) for lead in recording.signals_mv])
    return Beats(features, _symbols(peaks, annotation, recording.fs_hz), peaks / recording.fs_hz)


def _symbols(peaks: NDArray[np.int64], annotation: Annotation | None, fs_hz: float) -> NDArray[np.str_]:
    if annotation is None or not len(peaks) or not len(annotation.sample):
        return np.full(len(peaks), "", dtype="<U1")
    symbol = np.full(len(peaks), "", dtype="<U1")
    beat, mark = match_peaks(peaks, annotation.sample, round(MATCH_S * fs_hz))
    symbol[beat] = annotation.symbol[mark]
    return symbol


def _synthetic(
    rng: np.random.Generator,
    recording: Recording,
    peaks: NDArray[np.int64],
    annotation: Annotation | None,
    count: int,
    limit_hz: float,
) -> Synthetic | None:
    second = round(recording.fs_hz)
    peaks = peaks[(peaks > second) & (peaks < recording.samples - second)]
    if not len(peaks):
        return None
    signals_mv = np.nan_to_num(recording.signals_mv)
    symbol = _symbols(peaks, annotation, recording.fs_hz)
    return synthesise(rng, signals_mv, recording.fs_hz, peaks, symbol, count, limit_hz)
