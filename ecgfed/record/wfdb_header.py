"""WFDB headers: what they say, by their grammar (``wfdb_grammar``) before the wfdb package reads them.

wfdb takes 250 Hz for a sampling frequency it cannot read and microvolt for volt; here each of these is right, or one
line that names the file. Format: header(5), https://physionet.org/physiotools/wag/.
"""

from pathlib import Path
from typing import Any

from ecgfed.errors import RecordError
from ecgfed.extras import require
from ecgfed.record.checks import MILLIVOLT, MIN_FS_HZ, check_fs
from ecgfed.record.wfdb_grammar import HeaderLines, content, header_text, read_lines
from ecgfed.record.wfdb_plain import plain_header


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
    return [line.split() for _, line in content(header_text(path))]


def segment_names(path: Path) -> tuple[str, ...]:
    """Return the segments that a header names; none for a record of one segment, or a header that is broken."""
    try:
        fields = header_fields(path)
    except (OSError, RecordError):
        return ()
    return tuple(line[0] for line in fields[1:]) if fields and "/" in fields[0][0] else ()


def _written_unit(fields: list[str]) -> str:
    """Return a signal's unit, the part after the slash of its third field; mV where there is none (header(5))."""
    return (fields[2].partition("/")[2] if len(fields) > 2 else "") or "mV"


def voltages(header: Any, base: Path) -> list[int]:
    """Return the channels whose units are voltages."""
    fields = header_fields(header_path(base))[1:]
    return [channel for channel in range(header.n_sig) if _written_unit(fields[channel]) in MILLIVOLT]


def units_of(header: Any, base: Path) -> list[str]:
    """Return the unit of each of a record's signals; of one of many segments as the first segment gives them."""
    path = header_path(base)
    if is_multi_segment(header):
        first = next(name for name in header.seg_name if name != "~")
        path = path.with_name(f"{first}.hea")
    return [_written_unit(fields) for fields in header_fields(path)[1:]]


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


def _what_to_do(said: HeaderLines) -> str:
    """Return what to do about a sampling frequency that is refused: a header of frames is right as it is."""
    frame = max((line.samples_per_frame for line in said.lines), default=1)
    if not (frame > 1 and said.fs_hz < MIN_FS_HZ <= said.fs_hz * frame):
        return "correct the header"
    finer = f"write it at {said.fs_hz * frame:g} Hz first, as WFDB's 'xform -H' does"
    return f"a frame of {frame} samples is read as one, their mean: {finer}"


def _parse(path: Path) -> Any:
    """Return what wfdb reads of a header, or would of a plain one; raises RecordError where it cannot."""
    if not path.is_file():
        raise _no_header(path)
    said = read_lines(path)
    check_fs(said.fs_hz, path, said.fs_written, _what_to_do(said))
    require("wfdb", "reading a WFDB record")
    if plain := plain_header(said):
        return plain
    import wfdb

    try:
        return _as_said(wfdb.rdheader(str(path.with_suffix(""))), said)
    except RecordError:
        raise
    except Exception as problem:  # wfdb raises IndexError, ValueError and its own kinds for a bad header
        raise RecordError(
            path,
            f"cannot be read as a WFDB header ({type(problem).__name__}: {problem})",
            "a record line and one line for each signal",
            "restore the header from its source",
        ) from problem


def _no_header(path: Path) -> RecordError:
    """Say what a person named where no header is: a folder, a file of another kind, or nothing."""
    named = path.with_suffix("")
    if named.is_dir():
        return RecordError(named, "is a folder", "one recording", "name a recording in it")
    if named.is_file():
        kinds = ".hea, .edf, .csv, .npy, .dcm, .xml, .scp or .ecg"
        return RecordError(
            named, "is no kind of recording that is read", f"a WFDB record or {kinds}", "convert it to one of them"
        )
    return RecordError(path, "does not exist", "a WFDB header beside the signal file", "check the path")


def _as_said(header: Any, said: HeaderLines) -> Any:
    """Return wfdb's header with numbers as the grammar reads them; raises RecordError where wfdb read other samples."""
    read: dict[str, Any] = {"n_sig": header.n_sig, "sig_len": header.sig_len}
    meant: dict[str, Any] = {"n_sig": said.signals, "sig_len": said.samples}
    if said.segments is not None:
        read |= {"seg_name": list(header.seg_name or []), "seg_len": list(header.seg_len or [])}
        meant |= {"seg_name": [name for name, _ in said.segments], "seg_len": [length for _, length in said.segments]}
    else:
        lines = said.lines
        read |= {"file_name": header.file_name, "fmt": [int(fmt) for fmt in header.fmt]}
        meant |= {"file_name": [line.file for line in lines], "fmt": [line.fmt for line in lines]}
        for name, values in (
            ("samps_per_frame", [line.samples_per_frame for line in lines]),
            ("skew", [line.skew for line in lines]),
            ("byte_offset", [line.offset for line in lines]),
        ):
            read[name] = [value or 0 for value in getattr(header, name)]
            meant[name] = [value if value or name != "samps_per_frame" else 1 for value in values]
        read["samps_per_frame"] = [value or 1 for value in header.samps_per_frame]
        header.adc_gain, header.baseline = [line.gain for line in lines], [line.baseline for line in lines]
        header.checksum = [line.checksum for line in lines]
        # where wfdb does not understand a field it takes it, and all behind it, for the description
        header.sig_name = [line.description or f"signal {number}" for number, line in enumerate(lines)]
    for name, value in meant.items():
        if read[name] != value:
            raise RecordError(
                said.path,
                f"says {name} {value!r:.80}, which the wfdb package reads as {read[name]!r:.80}",
                "a header that can be read in one way",
                "write the names in ASCII, numbers without exponents",
            )
    header.fs = int(said.fs_hz) if said.fs_hz == int(said.fs_hz) else said.fs_hz
    return header


def _segment_leads(header: Any, path: Path) -> list[str]:
    """Return the leads of a multi-segment record, its list of segments checked.

    The first segment names them, which in a variable layout holds no samples of its own (header(5)).
    """
    names = header.seg_name or []
    held = [name for name in names if name != "~"]
    if not held:
        raise RecordError(path, "holds gaps only", "at least one segment", "choose another file, or leave this one out")
    if path.stem in held:
        raise RecordError(path, "names itself as a segment", "other records", "restore the header from its source")
    first = _parse(path.with_name(f"{held[0]}.hea"))
    if getattr(first, "n_seg", None):
        raise RecordError(
            path,
            f"segment {held[0]} has segments itself",
            "records of one segment",
            "restore the header from its source",
        )
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
            raise RecordError(
                path, "holds no signal", "at least one lead", "choose another file, or leave this one out"
            )
    return header


def is_multi_segment(header: Any) -> bool:
    """Say whether wfdb's header object is of a record made of others."""
    return getattr(header, "n_seg", None) is not None
