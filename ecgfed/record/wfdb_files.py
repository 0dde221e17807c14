"""Reading WFDB records by lead name, with the checks the wfdb package leaves to its caller.

wfdb reads a corrupt signal silently, gives no signal for a missing lead and stops at the first half of a
truncated annotation without a word, takes 250 Hz for a sampling frequency it cannot read and microvolt for
volt; here each of these is right, or one line that names the file.
Format: WFDB header(5), signal(5) and annot(5), https://physionet.org/physiotools/wag/.
"""

import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecgfed.errors import RecordError
from ecgfed.record.recording import Annotation, Recording

#: Millivolt per unit, by the unit's spelling in a header.
_MILLIVOLT = {"mV": 1.0, "uV": 1e-3, "\u00b5V": 1e-3, "\u03bcV": 1e-3, "V": 1e3, "nV": 1e-6}
#: Bytes a sample takes in each uncompressed WFDB format.
_SAMPLE_BYTES = {
    "8": 1.0, "16": 2.0, "24": 3.0, "32": 4.0, "61": 2.0, "80": 1.0, "160": 2.0, "212": 1.5, "310": 4 / 3, "311": 4 / 3,
}  # fmt: skip
#: The value that stands for "no sample" in each format that has one (signal(5)).
_INVALID = {
    "16": -(2**15), "61": -(2**15), "160": -(2**15), "24": -(2**23), "32": -(2**31), "80": -(2**7), "212": -(2**11),
    "310": -(2**9), "311": -(2**9), "508": -(2**7), "516": -(2**15), "524": -(2**23),
}  # fmt: skip
#: The band-pass ends at 40 Hz, so a record must hold frequencies past that; above, nothing records an ECG.
MIN_FS_HZ, MAX_FS_HZ = 100.0, 20_000.0


def _base(record: Path | str) -> Path:
    path = Path(record)
    return path.with_suffix("") if path.suffix in {".hea", ".dat"} else path


def _header_fields(header_path: Path) -> list[list[str]]:
    """Return the fields of the record line and of each signal line, as written (wfdb drops what is not ASCII)."""
    raw = header_path.read_bytes()
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        text = raw.decode("latin-1")
    return [line.split() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]


def _check_sampling_frequency(header: Any, header_path: Path) -> None:
    """Refuse a frequency outside the bounds, and one that wfdb could not read and took to be 250 Hz."""
    fields = _header_fields(header_path)[0]
    written = fields[2].split("/")[0].split("(")[0] if len(fields) > 2 else "250"  # header(5): 250 where it is omitted
    try:
        fs_hz = float(written)
    except ValueError:
        fs_hz = math.nan
    if fs_hz != header.fs or not MIN_FS_HZ <= fs_hz <= MAX_FS_HZ:
        raise RecordError(
            header_path, f"sampling frequency {written} Hz", f"{MIN_FS_HZ:g} to {MAX_FS_HZ:g} Hz", "correct the header"
        )


def _written_unit(fields: list[str]) -> str:
    """Return a signal's unit, the part after the slash of its third field; mV where there is none (header(5))."""
    return (fields[2].partition("/")[2] if len(fields) > 2 else "") or "mV"


def _voltages(header: Any, base: Path) -> list[int]:
    """Return the channels whose units are voltages."""
    fields = _header_fields(base.with_name(base.name + ".hea"))[1:]
    return [channel for channel in range(header.n_sig) if _written_unit(fields[channel]) in _MILLIVOLT]


def _unit(header: Any, header_path: Path, channel: int) -> str:
    """Return a signal's unit; raises RecordError where it is no voltage."""
    unit = _written_unit(_header_fields(header_path)[1 + channel])
    if unit not in _MILLIVOLT:
        raise RecordError(
            header_path,
            f"lead {header.sig_name[channel]} is in {unit!r}",
            "one of mV, uV, µV, V, nV",
            "correct the header's units",
        )
    return unit


def read_header(record: Path | str) -> Any:
    """Return wfdb's header object of ``record`` (a path with or without ``.hea``); raises RecordError."""
    import wfdb

    header_path = _base(record).with_name(_base(record).name + ".hea")
    if not header_path.is_file():
        raise RecordError(header_path, "does not exist", "a WFDB header beside the signal file", "check the path")
    try:
        header = wfdb.rdheader(str(_base(record)))
    except Exception as problem:  # wfdb raises IndexError, ValueError and its own kinds for a bad header
        raise RecordError(
            header_path,
            f"cannot be read as a WFDB header ({type(problem).__name__}: {problem})",
            "a record line and one line for each signal",
            "restore the header from its source",
        ) from problem
    if isinstance(header, wfdb.MultiRecord):
        raise RecordError(header_path, "is a multi-segment record", "one segment", "export its segments one by one")
    names = header.sig_name or []
    if not header.n_sig:
        raise RecordError(header_path, "holds no signal", "at least one lead", "leave the record out")
    if len(names) != header.n_sig or not header.file_name:
        raise RecordError(
            header_path, f"{len(names)} signal lines", f"{header.n_sig} as its record line says", "restore the header"
        )
    _check_sampling_frequency(header, header_path)
    return header


def choose_lead(header: Any, record: Path | str, leads: tuple[str, ...]) -> int:
    """Return the channel of the first of ``leads`` (names, in order of preference) that the record has.

    Raises:
        RecordError: when it has none; the line lists the leads present.
    """
    present = [str(name) for name in header.sig_name]
    for lead in leads:
        if lead in present:
            return present.index(lead)
    raise RecordError(
        _base(record), f"has no lead {' or '.join(leads)}; it has {', '.join(present)}", action="name one with --lead"
    )


def _check_length(header: Any, base: Path, channel: int) -> None:
    """Compare a signal file's size with what the header promises, before wfdb reads it."""
    path = base.with_name(header.file_name[channel])
    if not path.is_file():
        raise RecordError(path, "does not exist", f"the signal file that {base.name}.hea names", "restore it")
    width = _SAMPLE_BYTES.get(str(header.fmt[channel]))
    if width is None or not header.sig_len:
        return
    same_file = [i for i, name in enumerate(header.file_name) if name == header.file_name[channel]]
    per_frame = sum(header.samps_per_frame[i] for i in same_file)
    offset = header.byte_offset[channel] or 0
    found = int((path.stat().st_size - offset) / (per_frame * width))
    if found < header.sig_len:
        raise RecordError(
            path, f"is cut short at {found} of {header.sig_len} samples", action="fetch or copy the record again"
        )


def _check_sum(header: Any, base: Path, channel: int, digital: Any) -> None:
    """Verify the header's 16-bit checksum, which may be written signed or unsigned (header(5))."""
    stated = header.checksum[channel]
    if stated is None:
        return
    found = int(digital.sum(dtype=np.int64)) % 65536
    if found != int(stated) % 65536:
        raise RecordError(
            base.with_name(header.file_name[channel]),
            f"checksum of lead {header.sig_name[channel]} is {found}",
            f"{int(stated) % 65536} from {base.name}.hea",
            "the file is corrupt: fetch or copy it again",
        )


def _millivolt(header: Any, base: Path, channel: int, digital: Any) -> NDArray[np.float64]:
    """Return one lead in millivolt, one sample (the mean) for each frame, its skew removed."""
    unit = _unit(header, base.with_name(base.name + ".hea"), channel)
    gain, baseline = float(header.adc_gain[channel] or 200.0), float(header.baseline[channel])
    signal_mv: NDArray[np.float64] = (digital - baseline) / gain * _MILLIVOLT[unit]
    signal_mv[digital == _INVALID.get(str(header.fmt[channel]))] = np.nan
    signal_mv = signal_mv.reshape(-1, header.samps_per_frame[channel] or 1).mean(axis=1)
    if skew := int(header.skew[channel] or 0):
        signal_mv = np.concatenate([signal_mv[skew:], np.full(min(skew, len(signal_mv)), np.nan)])
    return signal_mv


def _digital(header: Any, base: Path, channels: list[int]) -> list[Any]:
    """Return the samples of some leads as they are stored, each of the length and checksum its header states."""
    import wfdb

    for channel in channels:
        _check_length(header, base, channel)
    try:
        # The samples as they are stored, because the header's checksum is the sum of those.
        read = wfdb.rdrecord(
            str(base), channels=channels, physical=False, smooth_frames=False, ignore_skew=True
        )  # fmt: skip
    except Exception as problem:  # wfdb raises ValueError, IndexError and others for broken files
        raise RecordError(
            base, f"cannot be read ({type(problem).__name__}: {problem})", "a WFDB record", "fetch or copy it again"
        ) from problem
    for channel, digital in zip(channels, read.e_d_signal, strict=True):
        if not len(digital):
            raise RecordError(base, "holds no samples", action="leave the record out")
        _check_sum(header, base, channel, digital)
    return list(read.e_d_signal)


def read_recording(record: Path | str, leads: tuple[str, ...], *, every_lead: bool = False) -> Recording:
    """Read a WFDB record in millivolt, its skew removed, one sample (their mean) for each frame.

    Args:
        record: path of the record, with or without ``.hea``.
        leads: lead names in order of preference; the first that the record has is the chosen one.
        every_lead: read the others too, as far as their units are voltages, in the header's order.

    Raises:
        RecordError: missing or unreadable header, missing lead, truncated or corrupt signal file, units of the chosen
            lead that are no voltage, an implausible sampling frequency, no samples.
    """
    base = _base(record)
    header = read_header(base)
    chosen = choose_lead(header, base, leads)
    _unit(header, base.with_name(base.name + ".hea"), chosen)
    if header.sig_len == 0:
        raise RecordError(base, "holds no samples", action="leave the record out")
    channels = _voltages(header, base) if every_lead else [chosen]
    digital = _digital(header, base, channels)
    return Recording(
        name=base.name,
        path=base,
        lead=str(header.sig_name[chosen]),
        leads=tuple(str(header.sig_name[channel]) for channel in channels),
        fs_hz=float(header.fs),
        signals_mv=np.stack([_millivolt(header, base, c, d) for c, d in zip(channels, digital, strict=True)]),
        comments=tuple(header.comments or ()),
    )


def _walk_annotation(raw: bytes) -> tuple[bool, int | None]:
    """Say whether an annotation file has its end mark, and at which sample the last whole mark stands (annot(5)).

    The end mark is a 16-bit zero where a mark could begin; zeros also occur inside text and long intervals.
    """
    at, time, last = 0, 0, None
    while at + 2 <= len(raw):
        word = int.from_bytes(raw[at : at + 2], "little")
        code, number = word >> 10, word & 0x3FF
        at += 2
        if word == 0:
            return True, last
        if code == 59:  # SKIP: a 32-bit interval follows, high half first
            high, low = raw[at : at + 2], raw[at + 2 : at + 4]
            time += int.from_bytes(high, "little", signed=True) * 65536 + int.from_bytes(low, "little")
            at += 4
        elif code == 63:  # AUX: text follows, padded to an even length
            at += number + number % 2
        elif code < 59:  # 60 to 62 qualify the mark before
            time += number
            last = time
    return False, last


def read_annotation(record: Path | str, extension: str = "atr", *, samples: int | None = None) -> Annotation:
    """Read a WFDB annotation file.

    Args:
        record: path of the record, with or without ``.hea``.
        extension: the annotator, ``atr`` for reference annotations.
        samples: length of the recording; an annotation past it is refused.

    Raises:
        RecordError: no such file, a file without its end mark (truncated), marks beyond the recording.
    """
    import wfdb

    base = _base(record)
    path = base.with_name(f"{base.name}.{extension}")
    if not path.is_file():
        raise RecordError(path, "does not exist", "annotations, for the labels", "name their suffix with --annotator")
    try:
        complete, last = _walk_annotation(path.read_bytes())
        if not complete:
            where = "no mark can be read" if last is None else f"its last whole mark is at sample {last}"
            raise RecordError(path, f"is cut short: {where}, and no end mark follows", action="fetch or copy it again")
        marks = wfdb.rdann(str(base), extension)
        sample = np.asarray(marks.sample, dtype=np.int64)
        symbol = np.asarray(marks.symbol, dtype=np.str_)
        subtype = np.asarray(marks.subtype, dtype=np.int64)
    except RecordError:
        raise
    except Exception as problem:  # wfdb raises IndexError, ValueError and others for a broken file
        raise RecordError(
            path, f"cannot be read ({type(problem).__name__}: {problem})", "WFDB annotations", "fetch it again"
        ) from problem
    order = np.argsort(sample, kind="stable")
    sample, symbol = sample[order], symbol[order]
    if samples is not None and len(sample) and (sample[0] < 0 or sample[-1] >= samples):
        outside = sample[0] if sample[0] < 0 else sample[-1]
        raise RecordError(
            path,
            f"has a mark at sample {outside}",
            f"0 to {samples - 1}, the recording's length",
            "check that the annotation belongs to this record",
        )
    return Annotation(sample, symbol, subtype[order])
