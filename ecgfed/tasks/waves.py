"""``delineate`` and ``wave_intervals``: the waves of each beat of a recording, and intervals by class and hour."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ecgfed.base.errors import OptionError, RecordError
from ecgfed.base.text import count_of, shortened
from ecgfed.domain.events.rhythm_episodes import RhythmEpisodes
from ecgfed.domain.record.leads import ecg_alone, lead_list
from ecgfed.domain.record.reader import open_every_lead, open_recording
from ecgfed.domain.record.recording import Annotation, ReadOptions, Recording, read_options
from ecgfed.domain.signal.chunked_quality import quality_of
from ecgfed.domain.signal.peaks import find_peaks
from ecgfed.domain.signal.qrs import MIN_FS_HZ
from ecgfed.domain.signal.rhythm import fibrillation
from ecgfed.domain.waves.intervals import AverageBeat, LabelledWaves, average_beats
from ecgfed.domain.waves.lead import delineate_lead, readable
from ecgfed.domain.waves.points import POINTS, Mask, WavePoints
from ecgfed.tasks.detect import DEFAULT_LEADS
from ecgfed.tasks.records import with_lead

#: What beats are called that nobody labelled.
UNLABELLED = "beat"


@dataclass(frozen=True, repr=False, eq=False)
class Delineation:
    """The waves of each beat of a recording, in one lead.

    Attributes:
        record: name of the record.
        lead: the lead in which the waves were located.
        fs_hz: sampling frequency in Hz.
        sample: (beats,) int64 increasing sample numbers of the R peaks.
        usable: (beats,) bool, False where noise, no signal or an end of the recording forbids it.
        points: onset, peak and end of the waves, (beats,) float64 sample numbers each, NaN where not located.
    """

    record: str
    lead: str
    fs_hz: float
    sample: NDArray[np.int64]
    usable: Mask
    points: WavePoints

    def __repr__(self) -> str:
        where = f"{shortened(self.record, 60)!r}: {count_of(len(self.sample), 'beat')} on {shortened(self.lead, 20)}"
        return f"Delineation({where}, {int(self.usable.sum()):,} usable)"

    def to_dict(self) -> dict[str, object]:
        """Return a JSON-ready summary: in how many of the beats each point was located."""
        located = np.isfinite(self.points.array()).sum(axis=0).tolist()
        about = {"record": self.record, "lead": self.lead, "fs_hz": self.fs_hz, "beats": len(self.sample)}
        return {**about, "usable": int(self.usable.sum()), "located": dict(zip(POINTS, located, strict=True))}


@dataclass(frozen=True, repr=False, eq=False)
class WaveIntervals:
    """The intervals of a recording by class and hour.

    Attributes:
        delineation: the waves of each beat.
        averages: the average beat of each class in each hour, with its intervals, in order of time.
    """

    delineation: Delineation
    averages: tuple[AverageBeat, ...]

    def __repr__(self) -> str:
        record = shortened(self.delineation.record, 60)
        return f"WaveIntervals({record!r}: {count_of(len(self.averages), 'average beat')})"

    def to_dict(self) -> dict[str, object]:
        """Return a JSON-ready dictionary without samples."""
        return {**self.delineation.to_dict(), "averages": [average.to_dict() for average in self.averages]}


def delineate(
    record: Recording | Path | str,
    peaks: NDArray[np.int64] | Annotation | None = None,
    *,
    leads: str | tuple[str, ...] | None = None,
    how: ReadOptions | None = None,
) -> Delineation:
    """Locate onset, peak and end of the P wave, the QRS complex and the T wave of each beat.

    Research use only. Measured on QTDB: ``benchmarks/delineation``.

    Args:
        record: a recording, or its file.
        peaks: (beats,) int64 increasing R peaks in the lead, or an annotation, whose beats are taken; None detects
            them.
        leads: the lead, in order of preference; default MLII, II, the first lead; for a ``Recording``, its lead in use.
        how: sampling frequency, units and columns of CSV and NumPy files.

    Raises:
        OptionError: peaks that are not increasing sample numbers of the recording.
        RecordError: an unreadable recording, none of the leads, no beats, or a sampling frequency below 100 Hz.

    Examples:
        >>> import ecgfed
        >>> ecgfed.delineate("cohort-records/demo01")
        Delineation('demo01': 71 beats on MLII, 70 usable)
    """
    recording = _opened(record, leads, how)
    sample = _peaks(recording, peaks)
    usable = readable(recording, sample, quality_of(recording, recording.lead).spans())
    points = delineate_lead(recording, recording.lead, sample, usable)
    return Delineation(recording.name, recording.lead, recording.fs_hz, sample, usable, points)


def wave_intervals(
    record: Recording | Path | str,
    beats: Annotation | None = None,
    *,
    leads: str | tuple[str, ...] | None = None,
    rhythm: RhythmEpisodes | None = None,
    how: ReadOptions | None = None,
) -> WaveIntervals:
    """Measure PR, QRS, QT and QTc of the average beat of each class and hour, and the ST level at J + 60 ms.

    An interval is not assessed, with the reason, where noise, fibrillation, too few beats or a missing wave forbids it.
    Research use only. The ST level is experimental.

    Args:
        record: a recording, or its file.
        beats: the beats and their classes, by the symbols of an annotation; None detects them, as one class.
        leads: the lead, in order of preference; default MLII, II, the first lead; for a ``Recording``, its lead in use.
        rhythm: episodes of atrial fibrillation or flutter; None finds them.
        how: sampling frequency, units and columns of CSV and NumPy files.

    Raises:
        OptionError: beats that are not increasing sample numbers of the recording.
        RecordError: as ``delineate``.

    Examples:
        >>> import ecgfed
        >>> ecgfed.wave_intervals("cohort-records/demo01")
        WaveIntervals('demo01': 1 average beat)
    """
    recording = _opened(record, leads, how)
    waves = delineate(recording, beats)
    if rhythm is None:
        rhythm = fibrillation(ecg_alone(recording), waves.sample)
    symbols = np.full(len(waves.sample), UNLABELLED) if beats is None else beats.beats().symbol
    classes, label = np.unique(symbols, return_inverse=True)
    labelled = LabelledWaves(
        waves.sample,
        label.astype(np.int64),
        [str(name) for name in classes],
        waves.points,
        waves.usable,
        rhythm.inside(waves.sample / recording.fs_hz),
    )
    return WaveIntervals(waves, tuple(average_beats(recording, recording.lead, labelled)))


def _opened(record: Recording | Path | str, leads: str | tuple[str, ...] | None, how: ReadOptions | None) -> Recording:
    selection = None if leads is None else lead_list(leads)
    if isinstance(record, Recording):
        return record if selection is None else with_lead(record, selection)
    if selection is None:
        return open_every_lead(record, DEFAULT_LEADS, how=read_options(how))
    return open_recording(record, selection, every_lead=True, how=read_options(how))


def _peaks(recording: Recording, peaks: NDArray[np.int64] | Annotation | None) -> NDArray[np.int64]:
    """Return the R peaks of a recording, detected or as given."""
    if recording.fs_hz < MIN_FS_HZ:
        raise RecordError(recording.path, f"has {recording.fs_hz:g} samples a second", f"{MIN_FS_HZ:g} Hz or more")
    if peaks is None:
        return find_peaks(ecg_alone(recording))
    sample = np.asarray(peaks.beats().sample if isinstance(peaks, Annotation) else peaks)
    within = sample.ndim == 1 and np.issubdtype(sample.dtype, np.integer) and bool((np.diff(sample) > 0).all())
    if not within or (len(sample) and not 0 <= int(sample[0]) <= int(sample[-1]) < recording.samples):
        expected = f"increasing sample numbers from 0 to {recording.samples - 1}"
        raise OptionError("peaks", "are no R peaks of this recording", expected)
    return sample.astype(np.int64)
