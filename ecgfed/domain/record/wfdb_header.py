"""WFDB headers, read by their grammar (``wfdb_grammar``).

The wfdb package takes 250 Hz for a sampling frequency it cannot read and microvolt for volt; here each of these is
right, or one line that names the file. Format: header(5), https://physionet.org/physiotools/wag/.
"""

from dataclasses import dataclass
from pathlib import Path

from ecgfed.base.errors import RecordError
from ecgfed.domain.record.checks import MAX_FS_HZ, MILLIVOLT, MIN_FS_HZ, check_fs
from ecgfed.domain.record.kinds import kind_of_content
from ecgfed.domain.record.metadata import Start
from ecgfed.domain.record.wfdb_grammar import HeaderLines, content, header_text, read_lines


@dataclass
class WfdbHeader:
    """Header of a record, with the wfdb package's names for its fields.

    ``sig_len`` is 0 where it is not stated. Lists have an entry per signal. For a record of several segments,
    ``sig_name``, ``units`` and ``samps_per_frame`` are those of its first segment, and the other lists are empty.
    ``n_seg`` is None for a record of one segment.
    """

    n_sig: int
    sig_len: int
    fs: float
    file_name: list[str]
    fmt: list[str]
    samps_per_frame: list[int]
    skew: list[int]
    byte_offset: list[int]
    adc_gain: list[float]
    calibrated: list[bool]
    units: list[str]
    baseline: list[int]
    init_value: list[int | None]
    checksum: list[int | None]
    sig_name: list[str]
    comments: list[str]
    n_seg: int | None
    seg_name: list[str]
    seg_len: list[int]
    start: Start


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


def voltages(header: WfdbHeader) -> list[int]:
    """Return the channels whose units are voltages."""
    return [channel for channel, written in enumerate(header.units) if written in MILLIVOLT]


def unit(header: WfdbHeader, base: Path, channel: int) -> str:
    """Return a signal's unit; raises RecordError where it is no voltage."""
    written = header.units[channel]
    if written not in MILLIVOLT:
        problem = f"lead {header.sig_name[channel]} is in {written!r}"
        raise RecordError(header_path(base), problem, "one of mV, uV, µV, V, nV", "correct the header's units")
    return written


def frame_of(header: WfdbHeader, channel: int) -> int:
    """Return the samples that a signal of a record of one segment has in a frame."""
    return int(header.samps_per_frame[channel] or 1)


def lead_fs(header: WfdbHeader, base: Path, frame: int) -> float:
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


def _parse(path: Path) -> WfdbHeader:
    """Return the header in a file; raises RecordError."""
    if not path.is_file():
        raise _no_header(path)
    parsed = read_lines(path)
    _check_rates(parsed)
    lines, segments = parsed.lines, parsed.segments
    return WfdbHeader(
        n_sig=parsed.signals,
        sig_len=parsed.samples or 0,
        fs=int(parsed.fs_hz) if parsed.fs_hz == int(parsed.fs_hz) else parsed.fs_hz,
        file_name=[line.file for line in lines],
        fmt=[str(line.fmt) for line in lines],
        samps_per_frame=[line.samples_per_frame for line in lines],
        skew=[line.skew for line in lines],
        byte_offset=[line.offset for line in lines],
        adc_gain=[line.gain for line in lines],
        calibrated=[line.calibrated for line in lines],
        units=[line.unit for line in lines],
        baseline=[line.baseline for line in lines],
        init_value=[line.initial for line in lines],
        checksum=[line.checksum for line in lines],
        sig_name=[line.description or f"signal {number}" for number, line in enumerate(lines)],
        comments=list(parsed.comments),
        n_seg=None if segments is None else len(segments),
        seg_name=[name for name, _ in segments or ()],
        seg_len=[length for _, length in segments or ()],
        start=parsed.start,
    )


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


def _first_segment(header: WfdbHeader, path: Path) -> WfdbHeader:
    """Return the header of a record's first segment, the list of segments checked.

    It names the leads; in a variable layout it holds no samples of its own (header(5)).
    """
    segments = [name for name in header.seg_name if name != "~"]
    if not segments:
        raise RecordError(path, "holds gaps only", "at least one segment", "choose another file, or leave this one out")
    if path.stem in segments:
        raise RecordError(path, "names itself as a segment", "other records", "restore the header from its source")
    first = _parse(beside(path.parent, f"{segments[0]}.hea"))
    if is_multi_segment(first):
        problem = f"segment {segments[0]} has segments itself"
        raise RecordError(path, problem, "records of one segment", "restore the header from its source")
    return first


def read_header(record: Path | str) -> WfdbHeader:
    """Return the header of ``record`` (a path with or without ``.hea``); raises RecordError."""
    path = header_path(record)
    header = _parse(path)
    if is_multi_segment(header):
        first = _first_segment(header, path)
        header.sig_name, header.units, header.samps_per_frame = first.sig_name, first.units, first.samps_per_frame
    return header


def is_multi_segment(header: WfdbHeader) -> bool:
    """Return whether a header is of a record made of others."""
    return header.n_seg is not None
