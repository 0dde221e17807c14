"""WFDB headers: what they say, by their grammar (``wfdb_grammar``) before the wfdb package reads them.

wfdb takes 250 Hz for a sampling frequency it cannot read and microvolt for volt; here each of these is right, or one
line that names the file. Format: header(5), https://physionet.org/physiotools/wag/.
"""

from pathlib import Path
from typing import Any

from ecgfed.base.errors import RecordError
from ecgfed.base.extras import require
from ecgfed.domain.record.checks import MAX_FS_HZ, MILLIVOLT, MIN_FS_HZ, check_fs
from ecgfed.domain.record.kinds import kind_of_content
from ecgfed.domain.record.wfdb_grammar import HeaderLines, content, header_text, read_lines
from ecgfed.domain.record.wfdb_plain import plain_header


def record_base(record: Path | str) -> Path:
    """Return a record's path without the suffix of its header or signal file."""
    path = Path(record)
    suffix, bare = path.suffix.casefold(), path.with_suffix("")
    if suffix == ".hea":
        return bare
    # PhysioNet's challenges keep signals in .mat files that a header names; a .dat may be another format's
    if suffix in (".dat", ".mat") and beside(bare.parent, f"{bare.name}.hea").is_file():
        return bare
    return bare if suffix == ".dat" and kind_of_content(path) is None else path


def header_path(record: Path | str) -> Path:
    """Return the path of a record's header."""
    base = record_base(record)
    return beside(base.parent, f"{base.name}.hea")


def beside(folder: Path, name: str) -> Path:
    """Return a file that a record names, as the disk writes its suffix: ``UP.HEA`` for ``UP.hea`` where that is there.

    Old media and other systems change the case of names; the name itself must be the same.
    """
    path = folder / name
    if path.exists():
        return path
    candidates = (path.with_suffix(path.suffix.upper()), path.with_suffix(path.suffix.lower()))
    return next((candidate for candidate in candidates if candidate != path and candidate.exists()), path)


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
        path = beside(path.parent, f"{first}.hea")
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


def frame_of(header: Any, channel: int) -> int:
    """Return the samples that a signal of a record of one segment has in a frame."""
    return int(header.samps_per_frame[channel] or 1)


def lead_fs(header: Any, base: Path, frame: int) -> float:
    """Return the sampling frequency of a lead with ``frame`` samples in a frame; raises RecordError where none has it.

    A header states frames a second (header(5)), so a lead's own rate is that many times as high.
    """
    fs_hz = float(header.fs) * frame
    written = (
        f"{header.fs:g}" if frame == 1 else f"{fs_hz:g} ({frame} samples in each of {header.fs:g} frames a second)"
    )
    check_fs(fs_hz, header_path(base), written, "correct the header")
    return fs_hz


def _check_rates(header: HeaderLines) -> None:
    """Refuse a header none of whose signals has a sampling frequency that an ECG is recorded at; raises RecordError."""
    frames = {line.samples_per_frame for line in header.lines} or {1}
    rates = [header.fs_hz * frame for frame in frames]
    if header.segments is not None and 0 < header.fs_hz <= MAX_FS_HZ:
        return  # only the segments' headers say how many samples a frame has
    if not any(MIN_FS_HZ <= rate <= MAX_FS_HZ for rate in rates):
        check_fs(max(rates), header.path, header.fs_written, "correct the header")


def _parse(path: Path) -> Any:
    """Return what wfdb reads of a header, or would of a plain one; raises RecordError where it cannot."""
    if not path.is_file():
        raise _no_header(path)
    parsed = read_lines(path)
    _check_rates(parsed)
    require("wfdb", "reading a WFDB record")
    if plain := plain_header(parsed):
        return plain
    import wfdb

    try:
        return _as_parsed(wfdb.rdheader(str(path.with_suffix(""))), parsed)
    except RecordError:
        raise
    except Exception as problem:  # wfdb raises IndexError, ValueError and its own kinds for a bad header
        raise RecordError(
            path,
            f"cannot be read as a WFDB header ({problem!s:.160})",
            "a record line and one line for each signal",
            "restore the header from its source",
        ) from problem


def _no_header(path: Path) -> RecordError:
    """Say what a person named where no header is: a folder, a file of another kind, or nothing."""
    named = path.with_suffix("")
    if named.is_dir():
        return RecordError(named, "is a folder", "one recording", "name a recording in it")
    if named.is_file():
        if (header := header_path(named.with_suffix(""))).is_file():
            problem = f"is a file of the WFDB record {header.stem}"
            return RecordError(named, problem, "the record", f"name {named.with_suffix('')}")
        kinds = ".hea, .edf, .bdf, .csv, .npy, .dcm, .xml, .scp or .ecg"
        return RecordError(
            named, "is no kind of recording that is read", f"a WFDB record or {kinds}", "convert it to one of them"
        )
    return RecordError(path, "does not exist", "a WFDB header beside the signal file", "check the path")


def _as_parsed(header: Any, parsed: HeaderLines) -> Any:
    """Return wfdb's header with numbers as the grammar reads them; raises RecordError where wfdb read other samples."""
    read: dict[str, Any] = {"n_sig": header.n_sig, "sig_len": header.sig_len}
    meant: dict[str, Any] = {"n_sig": parsed.signals, "sig_len": parsed.samples}
    if parsed.segments is not None:
        read |= {"seg_name": list(header.seg_name or []), "seg_len": list(header.seg_len or [])}
        meant |= {
            "seg_name": [name for name, _ in parsed.segments],
            "seg_len": [length for _, length in parsed.segments],
        }
    else:
        lines = parsed.lines
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
        header.calibrated, header.init_value = [line.calibrated for line in lines], [line.initial for line in lines]
        header.checksum = [line.checksum for line in lines]
        # where wfdb does not understand a field it takes it, and all behind it, for the description
        header.sig_name = [line.description or f"signal {number}" for number, line in enumerate(lines)]
    for name, value in meant.items():
        if read[name] != value:
            raise RecordError(
                parsed.path,
                f"says {name} {value!r:.80}, which the wfdb package reads as {read[name]!r:.80}",
                "a header that can be read in one way",
                "write the names in ASCII, numbers without exponents",
            )
    header.fs = int(parsed.fs_hz) if parsed.fs_hz == int(parsed.fs_hz) else parsed.fs_hz
    return header


def _segment_leads(header: Any, path: Path) -> tuple[list[str], list[int]]:
    """Return the leads of a multi-segment record and their samples in a frame, its list of segments checked.

    The first segment names them, which in a variable layout holds no samples of its own (header(5)).
    """
    names = header.seg_name or []
    segments = [name for name in names if name != "~"]
    if not segments:
        raise RecordError(path, "holds gaps only", "at least one segment", "choose another file, or leave this one out")
    if path.stem in segments:
        raise RecordError(path, "names itself as a segment", "other records", "restore the header from its source")
    first = _parse(beside(path.parent, f"{segments[0]}.hea"))
    if getattr(first, "n_seg", None):
        raise RecordError(
            path,
            f"segment {segments[0]} has segments itself",
            "records of one segment",
            "restore the header from its source",
        )
    return list(first.sig_name or []), [frame_of(first, channel) for channel in range(first.n_sig)]


def read_header(record: Path | str) -> Any:
    """Return wfdb's header object of ``record`` (a path with or without ``.hea``); raises RecordError.

    For a multi-segment record it is wfdb's MultiRecord, its ``sig_name`` and ``samps_per_frame`` filled in.
    """
    path = header_path(record)
    header = _parse(path)
    if is_multi_segment(header):
        header.sig_name, header.samps_per_frame = _segment_leads(header, path)
        if not header.sig_name:
            raise RecordError(
                path, "holds no signal", "at least one lead", "choose another file, or leave this one out"
            )
    return header


def is_multi_segment(header: Any) -> bool:
    """Say whether wfdb's header object is of a record made of others."""
    return getattr(header, "n_seg", None) is not None
