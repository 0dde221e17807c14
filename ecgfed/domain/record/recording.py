"""What a recording is once it has been read: its leads in millivolt, one of them chosen, and its annotation."""

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from ecgfed.base.deprecation import renamed_fields, renamed_imports
from ecgfed.base.text import count_of, shortened
from ecgfed.domain.record.metadata import NO_METADATA, RecordingMetadata
from ecgfed.domain.record.read_options import ReadOptions as ReadOptions
from ecgfed.domain.record.read_options import read_options as read_options

_Block = TypeVar("_Block")
#: How the comments of a recording begin that nobody's heart made (``prepare demo``).
MADE_UP = "synthetic, made by ecgfed"
#: WFDB annotation symbols that mark a beat (WFDB Applications Guide, annotation codes 1-13, 25, 30, 34, 35, 38, 41).
BEAT_SYMBOLS = frozenset("NLRBAaJSVrFejnE/fQ?")


class _Thread(threading.local):
    """State of each thread: ``ended`` is set when the pool that it belongs to was left by an exception."""

    ended = threading.Event()


class ReadingPool(ThreadPoolExecutor):
    """Threads that read recordings. When its block ends by an exception (Ctrl-C), their next ``read`` ends them."""

    def __init__(self, workers: int) -> None:
        self._ended = threading.Event()
        super().__init__(workers, initializer=setattr, initargs=(_THREAD, "ended", self._ended))

    def __exit__(self, kind: type[BaseException] | None, *args: object) -> None:
        if kind is not None:
            self._ended.set()
        self.shutdown(cancel_futures=kind is not None)


_THREAD = _Thread()


class ReadBlock(Protocol):
    """Reads samples ``start`` to ``stop`` (not included) of the leads ``rows``: (rows, samples) float64 millivolt."""

    def __call__(self, start: int, stop: int, rows: Sequence[int]) -> NDArray[np.float64]:
        """Return it; raises RecordError where the file cannot be read any more."""
        ...


@dataclass(frozen=True)
class LazySignals:
    """Leads that are read from their file when they are asked for.

    Attributes:
        samples: length of the leads in samples.
        block: reads a block; several threads may call it at once.
        rows: the leads, numbers among those that ``block`` reads.
    """

    samples: int
    block: ReadBlock
    rows: tuple[int, ...]

    def read(self, start: int, stop: int, rows: Sequence[int]) -> NDArray[np.float64]:
        """Return samples ``start`` to ``stop`` (not included) of some of the leads."""
        return self.block(start, stop, [self.rows[row] for row in rows])


@renamed_fields("0.3", "0.5", left_out="skipped", stands_for="requested_as", signals_mv="source")
@dataclass(frozen=True, repr=False, eq=False)
class Recording:
    """The leads of one recording, in memory or, as ``open_recording`` leaves a long one, read when they are asked for.

    Attributes:
        name: record name, ``208``.
        path: where it lies: a WFDB record without suffix, a file of another format with it.
        lead: the lead whose beats are cut, as the header names it.
        leads: the leads that were read.
        fs_hz: sampling frequency in Hz.
        source: (leads, samples) float64 in millivolt, NaN where the recorder had no valid sample; or what reads them.
        comments: the header's comment lines, without the ``#``.
        files: the files it was read from.
        skipped: channels that were not read, each with the reason.
        requested_as: the name by which the chosen lead was requested, if its own differs: II for MLII.
        beat_leads: the leads in which a detector may look for beats; () is every ECG.
        notes: what a reader has to know of how the file was read: a lead without calibration, a truncated file, leads
            that were derived; one sentence each, without a full stop.
        metadata: what the file states of start, age, sex and recorder.
    """

    name: str
    path: Path
    lead: str
    leads: tuple[str, ...]
    fs_hz: float
    source: NDArray[np.float64] | LazySignals
    comments: tuple[str, ...]
    files: tuple[Path, ...] = ()
    skipped: tuple[str, ...] = ()
    requested_as: str = ""
    notes: tuple[str, ...] = ()
    beat_leads: tuple[str, ...] = ()
    metadata: RecordingMetadata = NO_METADATA

    def __repr__(self) -> str:
        length = f"{self.duration_s:.1f} s at {self.fs_hz:g} Hz{', on disk' * self.is_lazy}"
        leads = f"lead {shortened(self.lead, 20)} of {shortened(', '.join(self.leads), 60 - 10 * self.is_lazy)}"
        return f"Recording({shortened(self.name, 60)!r}: {leads}; {length})"

    @property
    def is_lazy(self) -> bool:
        """Whether the samples are read from disk when they are asked for."""
        return isinstance(self.source, LazySignals)

    @property
    def signals_mv(self) -> NDArray[np.float64]:
        """All of it, (leads, samples) float64 in millivolt; of a lazy recording read anew each time."""
        return self.read(0, self.samples)

    @property
    def signal_mv(self) -> NDArray[np.float64]:
        """The chosen lead (samples,) float64 in millivolt; of a lazy recording read anew each time."""
        return self.lead_mv(self.lead, 0, self.samples)

    @property
    def samples(self) -> int:
        """Length of the recording in samples."""
        return self.source.samples if isinstance(self.source, LazySignals) else int(self.source.shape[1])

    @property
    def duration_s(self) -> float:
        """Length of the recording in seconds."""
        return self.samples / self.fs_hz

    def read(self, start: int, stop: int, rows: Sequence[int] | None = None) -> NDArray[np.float64]:
        """Return samples ``start`` to ``stop`` (not included) of some leads, by default of all: (leads, samples).

        Raises:
            RecordError: the file has changed since the recording was opened, or cannot be read any more.
            CancelledError: in a thread of a ``ReadingPool`` that was left by an exception.
        """
        if _THREAD.ended.is_set():
            raise CancelledError
        if isinstance(self.source, LazySignals):
            start, stop = max(start, 0), min(stop, self.samples)
            return self.source.read(start, max(start, stop), range(len(self.leads)) if rows is None else rows)
        signals: NDArray[np.float64] = self.source[:, start:stop]
        return signals if rows is None else signals[list(rows)]

    def lead_mv(self, lead: str, start: int, stop: int) -> NDArray[np.float64]:
        """Return samples ``start`` to ``stop`` (not included) of one lead (samples,); raises ValueError for no lead."""
        row = self.leads.index(lead)
        lazy = isinstance(self.source, LazySignals)
        signal: NDArray[np.float64] = self.read(start, stop, [row])[0] if lazy else self.read(start, stop)[row]
        return signal

    def only(self, rows: Sequence[int]) -> Self:
        """Return it with some of its leads, the lead in use among them."""
        leads = tuple(self.leads[row] for row in rows)
        if isinstance(self.source, LazySignals):
            source = replace(self.source, rows=tuple(self.source.rows[row] for row in rows))
            return replace(self, leads=leads, source=source)
        return replace(self, leads=leads, source=self.source[list(rows)])

    def in_memory(self) -> Self:
        """Return it with all its samples in memory; raises RecordError."""
        return replace(self, source=self.signals_mv) if self.is_lazy else self


__getattr__ = renamed_imports(
    __name__,
    "0.3",
    "0.5",
    LongRecording="ecgfed.domain.record.recording:Recording",
    AnyRecording="ecgfed.domain.record.recording:Recording",
)


def is_synthetic(recording: Recording) -> bool:
    """Whether a recording says of itself that it is of no person."""
    return any(comment.strip().startswith(MADE_UP) for comment in recording.comments)


def spans(samples: int, size: int) -> Iterator[tuple[int, int]]:
    """Yield start and stop (not included) of consecutive blocks of ``size`` samples, the last one maybe shorter."""
    for start in range(0, samples, size):
        yield start, min(start + size, samples)


def prefetched(blocks: Iterator[_Block]) -> Iterator[_Block]:
    """Yield blocks while another thread makes the next one."""
    with ReadingPool(1) as pool:
        coming = pool.submit(next, blocks, None)
        while (block := coming.result()) is not None:
            coming = pool.submit(next, blocks, None)
            yield block


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
