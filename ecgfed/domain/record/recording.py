"""What a recording is once it has been read: its leads in millivolt, one of them chosen, and its annotation."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from ecgfed.base.deprecation import renamed_fields
from ecgfed.base.text import count_of, shortened
from ecgfed.domain.record.read_options import ReadOptions as ReadOptions
from ecgfed.domain.record.read_options import read_options as read_options

#: How the comments of a recording begin that nobody's heart made (``prepare demo``).
MADE_UP = "synthetic, made by ecgfed"
#: WFDB annotation symbols that mark a beat (WFDB Applications Guide, annotation codes 1-13, 25, 30, 34, 35, 38, 41).
BEAT_SYMBOLS = frozenset("NLRBAaJSVrFejnE/fQ?")


@renamed_fields("0.3", "0.5", left_out="skipped", stands_for="requested_as")
@dataclass(frozen=True, repr=False, eq=False)
class Recording:
    """The leads of one recording.

    Attributes:
        name: record name, ``208``.
        path: where it lies: a WFDB record without suffix, a file of another format with it.
        lead: the lead whose beats are cut, as the header names it.
        leads: the leads that were read.
        fs_hz: sampling frequency in Hz.
        signals_mv: (leads, samples) float64 in millivolt; NaN where the recorder had no valid sample.
        comments: the header's comment lines, without the ``#``.
        files: the files it was read from.
        skipped: channels that were not read, each with the reason.
        requested_as: the name by which the chosen lead was requested, if its own differs: II for MLII.
        beat_leads: the leads in which a detector may look for beats; () is every ECG.
        notes: what a reader has to know of how the file was read: a lead without calibration, a truncated file, leads
            that were derived; one sentence each, without a full stop.
    """

    name: str
    path: Path
    lead: str
    leads: tuple[str, ...]
    fs_hz: float
    signals_mv: NDArray[np.float64]
    comments: tuple[str, ...]
    files: tuple[Path, ...] = ()
    skipped: tuple[str, ...] = ()
    requested_as: str = ""
    notes: tuple[str, ...] = ()
    beat_leads: tuple[str, ...] = ()

    def __repr__(self) -> str:
        length = f"{self.duration_s:.1f} s at {self.fs_hz:g} Hz"
        leads = f"lead {shortened(self.lead, 20)} of {shortened(', '.join(self.leads), 60)}"
        return f"Recording({shortened(self.name, 60)!r}: {leads}; {length})"

    @property
    def signal_mv(self) -> NDArray[np.float64]:
        """The chosen lead (samples,) float64 in millivolt."""
        signal: NDArray[np.float64] = self.signals_mv[self.leads.index(self.lead)]
        return signal

    @property
    def samples(self) -> int:
        """Length of the recording in samples."""
        return int(self.signals_mv.shape[1])

    @property
    def duration_s(self) -> float:
        """Length of the recording in seconds."""
        return self.samples / self.fs_hz

    def read(self, start: int, stop: int, rows: Sequence[int] | None = None) -> NDArray[np.float64]:
        """Return samples ``start`` to ``stop`` (not included) of some leads, by default of all: (leads, samples)."""
        signals: NDArray[np.float64] = self.signals_mv[:, start:stop]
        return signals if rows is None else signals[list(rows)]

    def only(self, rows: Sequence[int]) -> Self:
        """Return it with some of its leads, the lead in use among them."""
        return replace(self, leads=tuple(self.leads[row] for row in rows), signals_mv=self.signals_mv[list(rows)])


class ReadBlock(Protocol):
    """Reads samples ``start`` to ``stop`` (not included) of the leads ``rows``: (rows, samples) float64 millivolt."""

    def __call__(self, start: int, stop: int, rows: Sequence[int]) -> NDArray[np.float64]:
        """Return it; raises RecordError where the file cannot be read any more."""
        ...


@renamed_fields("0.3", "0.5", left_out="skipped", stands_for="requested_as")
@dataclass(frozen=True, repr=False, eq=False)
class LongRecording:
    """A recording that stays on the disk: its samples are read a block at a time, when they are asked for.

    Attributes:
        name: as of a ``Recording``; so are all that have the same name.
        path: see there.
        lead: see there.
        leads: see there.
        fs_hz: see there.
        samples: length of the recording in samples.
        block: reads a block; several threads may call it at once.
        comments: see there.
        files: see there.
        skipped: see there.
        requested_as: see there.
        beat_leads: see there.
        notes: see there.
    """

    name: str
    path: Path
    lead: str
    leads: tuple[str, ...]
    fs_hz: float
    samples: int
    block: ReadBlock
    comments: tuple[str, ...]
    files: tuple[Path, ...] = ()
    skipped: tuple[str, ...] = ()
    requested_as: str = ""
    notes: tuple[str, ...] = ()
    beat_leads: tuple[str, ...] = ()

    def __repr__(self) -> str:
        length = f"{self.duration_s:.1f} s at {self.fs_hz:g} Hz, on the disk"
        leads = f"lead {shortened(self.lead, 20)} of {shortened(', '.join(self.leads), 50)}"
        return f"LongRecording({shortened(self.name, 60)!r}: {leads}; {length})"

    @property
    def duration_s(self) -> float:
        """Length of the recording in seconds."""
        return self.samples / self.fs_hz

    @property
    def signals_mv(self) -> NDArray[np.float64]:
        """All of it, (leads, samples) float64 in millivolt: read anew each time, 8 bytes a sample."""
        return self.read(0, self.samples)

    @property
    def signal_mv(self) -> NDArray[np.float64]:
        """All of the chosen lead (samples,) float64 in millivolt, read anew each time."""
        signal: NDArray[np.float64] = self.read(0, self.samples, [self.leads.index(self.lead)])[0]
        return signal

    def read(self, start: int, stop: int, rows: Sequence[int] | None = None) -> NDArray[np.float64]:
        """Return samples ``start`` to ``stop`` (not included) of some leads, by default of all: (leads, samples).

        Raises:
            RecordError: the file has changed since the recording was opened, or cannot be read any more.
        """
        start, stop = max(start, 0), min(stop, self.samples)
        return self.block(start, max(start, stop), range(len(self.leads)) if rows is None else rows)

    def only(self, rows: Sequence[int]) -> Self:
        """Return it with some of its leads, the lead in use among them."""
        return replace(self, leads=tuple(self.leads[row] for row in rows), block=_Some(self.block, tuple(rows)))


@dataclass(frozen=True)
class _Some:
    """Some leads of a recording on the disk: ``rows`` are their numbers in what ``block`` reads."""

    block: ReadBlock
    rows: tuple[int, ...]

    def __call__(self, start: int, stop: int, rows: Sequence[int]) -> NDArray[np.float64]:
        """Read a block, as ``ReadBlock``."""
        return self.block(start, stop, [self.rows[row] for row in rows])


#: A recording, in memory or on the disk.
AnyRecording = Recording | LongRecording


def is_synthetic(recording: AnyRecording) -> bool:
    """Whether a recording says of itself that it is of no person."""
    return any(comment.strip().startswith(MADE_UP) for comment in recording.comments)


def spans(samples: int, size: int) -> Iterator[tuple[int, int]]:
    """Yield start and stop (not included) of consecutive blocks of ``size`` samples, the last one maybe shorter."""
    for start in range(0, samples, size):
        yield start, min(start + size, samples)


@dataclass(frozen=True, repr=False, eq=False)
class Annotation:
    """Annotations of one recording, in order of time.

    Attributes:
        sample: (marks,) int64, sample number in the recording.
        symbol: (marks,) one-letter WFDB symbols.
        note: the text beside each mark (WFDB's aux), ``""`` where there is none; empty where no mark has any.
        subtype: (marks,) int64 WFDB subtypes, where they were read: a ``~`` says by them which leads are bad.
        beyond_end: symbols of marks that the file has at or shortly after the recording's end, and that were left out.
    """

    sample: NDArray[np.int64]
    symbol: NDArray[np.str_]
    note: tuple[str, ...] = ()
    subtype: NDArray[np.int64] | None = None
    beyond_end: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Annotation({count_of(len(self.sample), 'mark')}, {len(self.beats().sample):,} of them beats)"

    @property
    def subtypes(self) -> NDArray[np.int64]:
        """The subtypes, 0 where none were read."""
        return np.zeros(len(self.sample), np.int64) if self.subtype is None else self.subtype

    def beats(self) -> "Annotation":
        """Return the marks that are beats, leaving out rhythm, noise and waveform marks, and the texts."""
        keep = np.isin(self.symbol, sorted(BEAT_SYMBOLS))
        return Annotation(self.sample[keep], self.symbol[keep], subtype=self.subtypes[keep])
