"""Reading WFDB records by lead name, with the checks the wfdb package leaves to its caller.

wfdb reads a corrupt signal silently, gives no signal for a missing lead and stops at the first half of a
truncated annotation without a word; here each of these is one line that names the file.
Format: WFDB header(5), signal(5) and annot(5), https://physionet.org/physiotools/wag/.
"""

import math
from pathlib import Path
from typing import Any

import numpy as np

from ecgfed.errors import RecordError
from ecgfed.record.recording import Annotation, Recording

#: Millivolt per unit, by the unit's spelling in a header.
_MILLIVOLT = {"mV": 1.0, "uV": 1e-3, "µV": 1e-3, "V": 1e3, "nV": 1e-6}
#: Bytes a sample takes in each uncompressed WFDB format.
_SAMPLE_BYTES = {"8": 1.0, "16": 2.0, "24": 3.0, "32": 4.0, "61": 2.0, "80": 1.0, "160": 2.0, "212": 1.5}
#: The band-pass ends at 40 Hz, so a record must hold frequencies past that; above, nothing records an ECG.
MIN_FS_HZ, MAX_FS_HZ = 100.0, 20_000.0


def _base(record: Path | str) -> Path:
    path = Path(record)
    return path.with_suffix("") if path.suffix in {".hea", ".dat"} else path


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
            header_path, f"cannot be read as a WFDB header ({type(problem).__name__}: {problem})",
            "a record line and one line for each signal", "restore the header from its source",
        ) from problem
    if isinstance(header, wfdb.MultiRecord):
        raise RecordError(header_path, "is a multi-segment record", "one segment", "export its segments one by one")
    names = header.sig_name or []
    if not header.n_sig or len(names) != header.n_sig or not header.file_name:
        raise RecordError(
            header_path, f"{len(names)} signal lines", f"{header.n_sig} as its record line says", "restore the header"
        )
    if not (math.isfinite(header.fs or 0.0) and MIN_FS_HZ <= (header.fs or 0.0) <= MAX_FS_HZ):
        raise RecordError(
            header_path, f"sampling frequency {header.fs} Hz", f"{MIN_FS_HZ:g} to {MAX_FS_HZ:g} Hz", "correct the header"
        )
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
            f"checksum of lead {header.sig_name[channel]} is {found}", f"{int(stated) % 65536} from {base.name}.hea",
            "the file is corrupt: fetch or copy it again",
        )


def read_recording(record: Path | str, leads: tuple[str, ...]) -> Recording:
    """Read one lead of a WFDB record in millivolt.

    Args:
        record: path of the record, with or without ``.hea``.
        leads: lead names in order of preference; the first that the record has is read.

    Raises:
        RecordError: missing or unreadable header, missing lead, truncated or corrupt signal file, units that are
            no voltage, an implausible sampling frequency, no samples.
    """
    import wfdb

    base = _base(record)
    header = read_header(base)
    channel = choose_lead(header, base, leads)
    _check_length(header, base, channel)
    unit = str(header.units[channel])
    if unit not in _MILLIVOLT:
        raise RecordError(
            base.with_name(base.name + ".hea"), f"lead {header.sig_name[channel]} is in {unit!r}",
            f"one of {', '.join(_MILLIVOLT)}", "correct the header's units",
        )
    try:
        read = wfdb.rdrecord(str(base), channels=[channel], physical=False)
    except Exception as problem:  # wfdb raises ValueError, IndexError and others for broken files
        raise RecordError(
            base, f"cannot be read ({type(problem).__name__}: {problem})", "a WFDB record", "fetch or copy it again"
        ) from problem
    digital = read.d_signal[:, 0]
    if not len(digital):
        raise RecordError(base, "holds no samples", action="leave the record out")
    _check_sum(header, base, channel, digital)
    gain, baseline = float(header.adc_gain[channel] or 200.0), float(header.baseline[channel])
    signal_mv = (digital - baseline) / gain * _MILLIVOLT[unit]
    invalid = {"212": -2048, "16": -32768, "80": -128, "24": -(2**23), "32": -(2**31)}.get(str(header.fmt[channel]))
    if invalid is not None:
        signal_mv[digital == invalid] = np.nan
    return Recording(
        name=base.name, path=base, lead=str(header.sig_name[channel]), leads=tuple(map(str, header.sig_name)),
        fs_hz=float(header.fs), signal_mv=signal_mv, comments=tuple(header.comments or ()),
    )


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
    raw = path.read_bytes()
    # annot(5): the file ends with a 16-bit zero; wfdb reads on silently where it is missing.
    complete = len(raw) >= 2 and len(raw) % 2 == 0 and raw[-2:] == b"\0\0"
    try:
        marks = wfdb.rdann(str(base), extension)
        sample = np.asarray(marks.sample, dtype=np.int64)
        symbol = np.asarray(marks.symbol, dtype=np.str_)
    except Exception as problem:
        if complete:
            raise RecordError(
                path, f"cannot be read ({type(problem).__name__}: {problem})", "WFDB annotations", "fetch it again"
            ) from problem
        sample, symbol = np.empty(0, np.int64), np.empty(0, np.str_)
    if not complete:
        last = f"its last whole mark is at sample {sample[-1]}" if len(sample) else "no mark can be read"
        raise RecordError(path, f"is cut short: {last}, with no end mark after it", action="fetch or copy it again")
    order = np.argsort(sample, kind="stable")
    sample, symbol = sample[order], symbol[order]
    if samples is not None and len(sample) and (sample[0] < 0 or sample[-1] >= samples):
        outside = sample[0] if sample[0] < 0 else sample[-1]
        raise RecordError(
            path, f"has a mark at sample {outside}", f"0 to {samples - 1}, the recording's length",
            "check that the annotation belongs to this record",
        )
    return Annotation(sample, symbol)
