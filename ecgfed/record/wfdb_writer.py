"""Writing a recording as a WFDB record: 16 bits a sample, finely enough that nothing is lost and nothing clips."""

import contextlib
import math
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ecgfed.errors import RecordError, StorageError
from ecgfed.record.recording import Annotation, Recording
from ecgfed.record.wfdb_files import read_recording

#: The largest value of format 16 beside -32768, which stands for a gap (signal(5)).
_FULL_SCALE = 32767
#: Ten nanovolt a step: no amplifier resolves less.
_MAX_GAIN = 100_000.0
_GAP = -32768


@dataclass(frozen=True)
class WrittenLead:
    """How one lead was written.

    Attributes:
        name: its name.
        gain: steps a millivolt.
        zero: the step that stands for 0 mV.
        max_error_mv: the largest difference between a sample and what reads back.
        gaps: samples that were not recorded.
    """

    name: str
    gain: float
    zero: int
    max_error_mv: float
    gaps: int

    @property
    def step_uv(self) -> float:
        """The resolution in microvolt."""
        return 1000 / self.gain


def record_name(name: str) -> str:
    """Return a name as WFDB allows one: letters, digits, hyphens and underscores (header(5))."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", name) or "record"


def choose_gain(signal_mv: NDArray[np.float64]) -> tuple[float, int]:
    """Return the gain (steps a millivolt) and zero at which a lead fits into 16 bits.

    The gain is 1, 2 or 5 times a power of ten, so that what was recorded at 100, 200, 250, 500 or 1000 steps a
    millivolt is written exactly. The zero moves only where the lead lies on one side of 0 mV.

    Args:
        signal_mv: (samples,) millivolt, NaN for gaps.
    """
    held = signal_mv[~np.isnan(signal_mv)]
    low, high = (float(held.min()), float(held.max())) if len(held) else (0.0, 0.0)
    middle = (low + high) / 2 if low > 0 or high < 0 else 0.0
    reach = max(high - middle, middle - low)
    most = min(_FULL_SCALE / reach if reach else math.inf, _MAX_GAIN)
    power = 10.0 ** math.floor(math.log10(most))
    gain = max(step * power for step in (1, 2, 5) if step * power <= most * (1 + 1e-12))
    # A middle that is itself rounded may push the outermost sample over: one size smaller then.
    zero = -round(middle * gain)
    if len(held) and max(abs(round(low * gain) + zero), abs(round(high * gain) + zero)) > _FULL_SCALE:
        gain /= 10
        zero = -round(middle * gain)
    return gain, zero


def _lead_names(leads: tuple[str, ...]) -> list[str]:
    """Return names a header can hold: ASCII, no control characters, each once."""
    names: list[str] = []
    for lead in leads:
        name = " ".join(lead.encode("ascii", "replace").decode().split()) or "lead"
        name = "".join(letter if letter.isprintable() else "?" for letter in name)
        count = sum(name == other or other.startswith(f"{name} (") for other in names)
        names.append(f"{name} ({count + 1})" if count else name)
    return names


def _write(recording: Recording, name: str, folder: Path) -> list[WrittenLead]:
    """Write header and signal through wfdb, and compare what reads back with what was meant."""
    import wfdb

    signals, names = recording.signals_mv, _lead_names(recording.leads)
    scales = [choose_gain(signal) for signal in signals]
    digital = np.stack(
        [
            np.where(np.isnan(signal), _GAP, np.rint(np.nan_to_num(signal) * gain) + zero).astype(np.int64)
            for signal, (gain, zero) in zip(signals, scales, strict=True)
        ],
        axis=1,
    )
    comments = [re.sub(r"\s", " ", comment).strip() for comment in recording.comments]
    wfdb.wrsamp(
        name,
        fs=recording.fs_hz,
        units=["mV"] * len(names),
        sig_name=names,
        d_signal=digital,
        fmt=["16"] * len(names),
        adc_gain=[gain for gain, _ in scales],
        baseline=[zero for _, zero in scales],
        comments=[c.encode("ascii", "replace").decode() for c in comments if c],
        write_dir=str(folder),
    )
    try:
        back = read_recording(folder / name, (names[0],), every_lead=True)
    except RecordError as problem:  # a full disk cuts wfdb's files short without a word
        raise OSError(str(problem)) from problem
    written = []
    for lead, signal, read, (gain, zero) in zip(names, signals, back.signals_mv, scales, strict=True):
        gap = np.isnan(signal)
        error = float(np.abs(read[~gap] - signal[~gap]).max(initial=0.0))
        if not np.array_equal(gap, np.isnan(read)) or error > 0.5001 / gain or back.fs_hz != recording.fs_hz:
            raise RecordError(recording.path, f"lead {lead} does not read back as it was written", "the same samples")
        written.append(WrittenLead(lead, gain, zero, error, int(gap.sum())))
    return written


def record_bytes(
    recording: Recording, name: str, annotation: Annotation | None = None
) -> tuple[dict[str, bytes], list[WrittenLead]]:
    """Return a WFDB record as the bytes of its files, by suffix, each read back and compared first.

    Args:
        recording: any number of leads.
        name: the record's name, see ``record_name``.
        annotation: its marks, for an ``.atr``; None for none.

    Returns:
        ``hea``, ``dat`` and, with an annotation, ``atr``; and how each lead was written.

    Raises:
        RecordError: a recording that WFDB cannot hold.
        StorageError: no room for a temporary copy.
    """
    try:
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            written = _write(recording, name, folder)
            files = {suffix: (folder / f"{name}.{suffix}").read_bytes() for suffix in ("hea", "dat")}
    except (OSError, ValueError) as problem:
        raise StorageError(
            recording.path, f"no copy could be made ({problem})", action="free space in TMPDIR"
        ) from None
    if annotation is not None:
        files["atr"] = annotation_bytes(annotation, recording.fs_hz, recording.path)
    return files, written


def annotation_bytes(annotation: Annotation, fs_hz: float, target: Path) -> bytes:
    """Return a WFDB annotation file; raises StorageError, naming ``target``, where it cannot be made.

    Args:
        annotation: marks in order of time, with their notes.
        fs_hz: the recording's sampling frequency, which is written beside them.
        target: the file it shall become.
    """
    import wfdb

    if not len(annotation.sample):
        return b"\0\0"  # the end mark alone, which wfdb does not write
    notes = [_note_text(note) for note in annotation.note] or [""] * len(annotation.sample)
    try:
        with tempfile.TemporaryDirectory() as folder:
            written = Path(folder, "record")  # wfdb takes plain names only, and writes files only
            wfdb.wrann(
                written.name,
                "atr",
                annotation.sample,
                annotation.symbol.tolist(),
                aux_note=notes,
                fs=fs_hz,
                write_dir=folder,
            )
            data = written.with_suffix(".atr").read_bytes()
            with contextlib.suppress(Exception):  # a full disk cuts wfdb's file short without a word
                if np.array_equal(wfdb.rdann(str(written), "atr").sample, annotation.sample):
                    return data
    except OSError as problem:
        raise StorageError(target, f"could not be written ({problem})", action="free space in TMPDIR") from None
    raise StorageError(target, "could not be written (a temporary file was cut short)", action="free space in TMPDIR")


def _note_text(name: str) -> str:
    """Return a note as wfdb writes it byte for byte: UTF-8, at most the 255 bytes a note can have (annot(5))."""
    return " ".join(name.split()).encode()[:255].decode("latin-1")
