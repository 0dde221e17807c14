"""Writing a recording as a WFDB record: 16 bits a sample, finely enough that nothing is lost and nothing clips."""

import math
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ecgfed.base.errors import RecordError, StorageError
from ecgfed.base.extras import require
from ecgfed.base.safe_io import is_device
from ecgfed.base.text import safe_text
from ecgfed.domain.record.recording import Annotation, Recording, spans
from ecgfed.domain.record.wfdb_files import read_annotation_file, read_recording
from ecgfed.domain.record.wfdb_marks import SYMBOLS

#: The largest value of format 16 beside -32768, which stands for a gap (signal(5)).
_FULL_SCALE = 32767
#: Ten nanovolt a step: no amplifier resolves less.
_MAX_GAIN = 100_000.0
_GAP = -32768
#: The code of each mark in an annotation file (annot(5)); those of what stands beside marks; the longest short wait.
_CODES = {symbol: code for code, symbol in SYMBOLS.items()}
_COMMENT = '"'
_SKIP, _SUBTYPE, _AUX = 59, 61, 63
_LONGEST = 1023
#: Marks that are turned into Python's numbers at once: a fortnight has more than a million.
_MARKS = 1 << 16


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
    """Return a name as WFDB allows one: letters, digits, hyphens and underscores (header(5)); no device of Windows."""
    safe = re.sub(r"[^A-Za-z0-9_-]", "_", name) or "record"
    return f"{safe}_" if is_device(safe) else safe


def choose_gain(signal_mv: NDArray[np.float64]) -> tuple[float, int]:
    """Return the gain (steps a millivolt) and zero at which a lead fits into 16 bits.

    The gain is 1, 2 or 5 times a power of ten, so that what was recorded at 100, 200, 250, 500 or 1000 steps a
    millivolt is written exactly. The zero moves only where the lead lies on one side of 0 mV.

    Args:
        signal_mv: (samples,) millivolt, NaN for gaps.
    """
    values = signal_mv[~np.isnan(signal_mv)]
    low, high = (float(values.min()), float(values.max())) if len(values) else (0.0, 0.0)
    middle = (low + high) / 2 if low > 0 or high < 0 else 0.0
    reach = max(high - middle, middle - low)
    highest = min(_FULL_SCALE / reach if reach else math.inf, _MAX_GAIN)
    power = 10.0 ** math.floor(math.log10(highest))
    gain = max(step * power for step in (1, 2, 5) if step * power <= highest * (1 + 1e-12))
    # A middle that is itself rounded may push the outermost sample over: one size smaller then.
    zero = -round(middle * gain)
    if len(values) and max(abs(round(low * gain) + zero), abs(round(high * gain) + zero)) > _FULL_SCALE:
        gain /= 10
        zero = -round(middle * gain)
    return gain, zero


def _lead_names(leads: tuple[str, ...]) -> list[str]:
    """Return names a header can hold: ASCII, no control characters, each once."""
    names: list[str] = []
    for lead in leads:
        name = " ".join(_ascii(lead).split()) or "lead"
        count = sum(name == existing or existing.startswith(f"{name} (") for existing in names)
        names.append(f"{name} ({count + 1})" if count else name)
    return names


def _ascii(text: str) -> str:
    """Return text as one line of a header: ASCII, and no character that ends the line or that a terminal obeys."""
    return safe_text(re.sub(r"\s", " ", text)).encode("ascii", "replace").decode()


def _write(recording: Recording, name: str, folder: Path) -> list[WrittenLead]:
    """Write header and signal through wfdb, and compare what reads back with what was meant."""
    require("wfdb", "writing a WFDB record")
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
    comments = [_ascii(comment).strip() for comment in recording.comments]
    wfdb.wrsamp(
        name,
        fs=recording.fs_hz,
        units=["mV"] * len(names),
        sig_name=names,
        d_signal=digital,
        fmt=["16"] * len(names),
        adc_gain=[gain for gain, _ in scales],
        baseline=[zero for _, zero in scales],
        comments=[comment for comment in comments if comment],
        write_dir=str(folder),
    )
    try:
        back = read_recording(folder / name, (names[0],), every_lead=True, include_non_ecg=True)
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
            files["hea"] = files["hea"].replace(b"\r\n", b"\n")  # the package ends lines as the system does
            if annotation is not None:
                files["atr"] = _annotation_read_back(annotation, recording, folder / f"{name}.atr")
    except (OSError, ValueError) as problem:
        action = "free space in TMPDIR"
        raise StorageError(recording.path, f"no copy could be made ({problem})", action=action) from None
    return files, written


def _annotation_read_back(annotation: Annotation, recording: Recording, file: Path) -> bytes:
    """Write an annotation file, and compare the marks that read back with what was meant; return its bytes."""
    written = annotation_bytes(annotation, recording.fs_hz)
    file.write_bytes(written)
    symbols = [symbol if symbol in _CODES else _COMMENT for symbol in annotation.symbol.tolist()]
    try:
        back = read_annotation_file(file, fs_hz=recording.fs_hz, samples=recording.samples)
        same = np.array_equal(back.sample, annotation.sample) and back.symbol.tolist() == symbols
    except RecordError:
        same = False
    if not same:  # the WFDB library takes such notes at sample 0 for its own
        problem, expected = (
            "its annotation does not read back as it was written",
            "no note at sample 0 that begins with ##",
        )
        raise RecordError(recording.path, problem, expected, "take the note out")
    return written


def annotation_bytes(annotation: Annotation, fs_hz: float) -> bytes:
    """Return a WFDB annotation file, in words of 16 bits (annot(5)), byte for byte as the wfdb package writes it.

    Written here because ``detect`` and ``predict`` need it where the wfdb package is not installed.

    Args:
        annotation: marks in order of time, with their notes and subtypes.
        fs_hz: the recording's sampling frequency, which is written beside them.
    """
    out = bytearray()
    if len(annotation.sample):
        rate = int(fs_hz) if round(fs_hz, 8) == int(fs_hz) else fs_hz
        out += _word(_CODES[_COMMENT], 0) + _text(f"## time resolution: {rate}".encode())
        out += _skip(-1) + _word(0, 1)  # ends what is said of the file: the marks' time begins anew
    since = np.diff(annotation.sample, prepend=0)
    for start, stop in spans(len(since), _MARKS):
        _add_marks(out, annotation, since, start, stop)
    return bytes(out) + b"\0\0"


def _add_marks(out: bytearray, annotation: Annotation, since: NDArray[np.int64], start: int, stop: int) -> None:
    """Append some marks, each with the samples since the one before it."""
    symbols, subtypes = annotation.symbol[start:stop].tolist(), annotation.subtypes[start:stop].tolist()
    notes = annotation.note[start:stop] or ("",) * (stop - start)
    for interval, symbol, subtype, note in zip(since[start:stop].tolist(), symbols, subtypes, notes, strict=True):
        while interval > _LONGEST:
            part = min(interval, 2**31 - 1)
            out += _skip(part)
            interval -= part
        if symbol not in _CODES:  # such as the J point's ' of a CSV file: a comment carries it
            symbol, note = _COMMENT, f"{symbol} {note}"
        out += _word(_CODES[symbol], interval)
        if subtype:
            out += _word(_SUBTYPE, subtype & 0xFF)
        if note:
            out += _text(_note_bytes(note))


def _word(code: int, number: int) -> bytes:
    """Six bits of code and ten of a number."""
    return (code << 10 | number).to_bytes(2, "little")


def _skip(samples: int) -> bytes:
    """A wait that ten bits cannot hold: 32 bits, the high half first."""
    high, low = divmod(samples & 0xFFFFFFFF, 2**16)
    return _word(_SKIP, 0) + high.to_bytes(2, "little") + low.to_bytes(2, "little")


def _text(data: bytes) -> bytes:
    """A text of at most 255 bytes beside the mark before it, padded to whole words."""
    return _word(_AUX, len(data)) + data + b"\0" * (len(data) % 2)


def _note_bytes(name: str) -> bytes:
    """Return a note as bytes: UTF-8, at most the 255 that one can have (annot(5))."""
    return safe_text(" ".join(name.split())).encode()[:255].decode(errors="ignore").encode()
