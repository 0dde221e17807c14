"""WFDB headers: what they say, checked where the wfdb package believes anything.

wfdb takes 250 Hz for a sampling frequency it cannot read and microvolt for volt; here each of these is right, or one
line that names the file. Format: header(5), https://physionet.org/physiotools/wag/.
"""

import math
from pathlib import Path
from typing import Any

from ecgfed.errors import RecordError
from ecgfed.extras import require
from ecgfed.record.checks import MILLIVOLT, check_fs


def record_base(record: Path | str) -> Path:
    """Return a record's path without the suffix of its header or signal file."""
    path = Path(record)
    return path.with_suffix("") if path.suffix in {".hea", ".dat"} else path


def header_path(record: Path | str) -> Path:
    """Return the path of a record's header."""
    base = record_base(record)
    return base.with_name(base.name + ".hea")


def header_fields(path: Path) -> list[list[str]]:
    """Return the fields of the record line and of each signal line, as written (wfdb drops what is not ASCII)."""
    raw = path.read_bytes()
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        text = raw.decode("latin-1")
    return [line.split() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]


def segment_names(path: Path) -> tuple[str, ...]:
    """Return the segments that a header names; none for a record of one segment, or a header that is broken."""
    try:
        fields = header_fields(path)
    except OSError:
        return ()
    return tuple(line[0] for line in fields[1:]) if fields and "/" in fields[0][0] else ()


def _check_sampling_frequency(header: Any, path: Path) -> None:
    """Refuse a frequency outside the bounds, and one that wfdb could not read and took to be 250 Hz."""
    fields = header_fields(path)[0]
    written = fields[2].split("/")[0].split("(")[0] if len(fields) > 2 else "250"  # header(5): 250 where it is omitted
    try:
        fs_hz = float(written)
    except ValueError:
        fs_hz = math.nan
    check_fs(fs_hz if fs_hz == header.fs else math.nan, path, written, "correct the header")


def _written_unit(fields: list[str]) -> str:
    """Return a signal's unit, the part after the slash of its third field; mV where there is none (header(5))."""
    return (fields[2].partition("/")[2] if len(fields) > 2 else "") or "mV"


def voltages(header: Any, base: Path) -> list[int]:
    """Return the channels whose units are voltages."""
    fields = header_fields(header_path(base))[1:]
    return [channel for channel in range(header.n_sig) if _written_unit(fields[channel]) in MILLIVOLT]


def unit(header: Any, base: Path, channel: int) -> str:
    """Return a signal's unit; raises RecordError where it is no voltage."""
    written = _written_unit(header_fields(header_path(base))[1 + channel])
    if written not in MILLIVOLT:
        raise RecordError(
            header_path(base),
            f"lead {header.sig_name[channel]} is in {written!r}",
            "one of mV, uV, µV, V, nV",
            "correct the header's units",
        )
    return written


def _parse(path: Path) -> Any:
    """Return what wfdb reads of a header; raises RecordError where it cannot."""
    if not path.is_file():
        raise RecordError(path, "does not exist", "a WFDB header beside the signal file", "check the path")
    require("wfdb", "reading a WFDB record")
    import wfdb

    try:
        return wfdb.rdheader(str(path.with_suffix("")))
    except Exception as problem:  # wfdb raises IndexError, ValueError and its own kinds for a bad header
        raise RecordError(
            path,
            f"cannot be read as a WFDB header ({type(problem).__name__}: {problem})",
            "a record line and one line for each signal",
            "restore the header from its source",
        ) from problem


def _segment_leads(header: Any, path: Path) -> list[str]:
    """Return the leads of a multi-segment record, its list of segments checked.

    The first segment names them, which in a variable layout holds no samples of its own (header(5)).
    """
    names = header.seg_name or []
    if len(names) != header.n_seg or not names:
        raise RecordError(path, f"{len(names)} segment lines", f"{header.n_seg} as its record line says", "restore it")
    if any(length is None or length < 0 for length in header.seg_len):
        raise RecordError(path, "a segment without its length", "name and samples a line", "restore it")
    held = [name for name in names if name != "~"]
    if not held:
        raise RecordError(path, "holds gaps only", "at least one segment", "leave the record out")
    if path.stem in held:
        raise RecordError(path, "names itself as a segment", "other records", "restore it")
    first = _parse(path.with_name(f"{held[0]}.hea"))
    if getattr(first, "n_seg", None):
        raise RecordError(path, f"segment {held[0]} has segments itself", "records of one segment", "restore it")
    return list(first.sig_name or [])


def read_header(record: Path | str) -> Any:
    """Return wfdb's header object of ``record`` (a path with or without ``.hea``); raises RecordError.

    For a multi-segment record it is wfdb's MultiRecord, its ``sig_name`` filled in.
    """
    path = header_path(record)
    header = _parse(path)
    if is_multi_segment(header):
        header.sig_name = _segment_leads(header, path)
        if not header.sig_name:
            raise RecordError(path, "holds no signal", "at least one lead", "leave the record out")
    else:
        names = header.sig_name or []
        if not header.n_sig:
            raise RecordError(path, "holds no signal", "at least one lead", "leave the record out")
        if len(names) != header.n_sig or not header.file_name:
            raise RecordError(
                path, f"{len(names)} signal lines", f"{header.n_sig} as its record line says", "restore the header"
            )
    _check_sampling_frequency(header, path)
    return header


def is_multi_segment(header: Any) -> bool:
    """Say whether wfdb's header object is of a record made of others."""
    return getattr(header, "n_seg", None) is not None
