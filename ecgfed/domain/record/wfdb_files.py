"""Reading WFDB records by lead name, of one segment or many, and their annotations.

wfdb reads a corrupt signal silently, gives no signal for a missing lead and stops at the first half of a truncated
annotation without a word; here each of these is right, or one line that names the file.
Format: WFDB header(5), signal(5) and annot(5), https://physionet.org/physiotools/wag/.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecgfed.base.errors import RecordError, param
from ecgfed.base.safe_io import check_expansion, read_bounded
from ecgfed.base.text import count_of
from ecgfed.domain.record.annotations import make_annotation
from ecgfed.domain.record.checks import check_samples
from ecgfed.domain.record.leads import are_ecg, choose_lead, distinct, requested_alias
from ecgfed.domain.record.metadata import metadata_of
from ecgfed.domain.record.recording import Annotation, LazySignals, ReadOptions, Recording
from ecgfed.domain.record.wfdb_header import (
    frame_of,
    header_path,
    is_multi_segment,
    lead_fs,
    read_header,
    record_base,
    unit,
    voltages,
)
from ecgfed.domain.record.wfdb_marks import in_samples_of, read_marks
from ecgfed.domain.record.wfdb_signal import Channels, settle, signal_files

#: Four million marks: a month of beats.
MAX_ANNOTATION_BYTES = 16 << 20


class _Leads(NamedTuple):
    """Some leads of a record.

    Attributes:
        names: of the leads.
        source: as of a ``Recording``.
        files: the files they lie in.
        frame: their samples in a frame.
        skipped: channels left out and why.
        notes: as of a ``Recording``.
    """

    names: list[str]
    source: NDArray[np.float64] | LazySignals
    files: tuple[Path, ...]
    frame: int = 1
    skipped: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class _Extra(NamedTuple):
    """What is read beside the chosen lead: the other ECGs, and voltages that are none; what the files leave open."""

    every_lead: bool
    include_non_ecg: bool
    how: ReadOptions


def signal_names(header: Any) -> tuple[str, ...]:
    """Return the names of a header's signals, those that it gives twice told apart."""
    return distinct([str(name) for name in header.sig_name])


def _read_single_segment(header: Any, base: Path, chosen: int, extra: _Extra) -> _Leads:
    frame = frame_of(header, chosen)
    lead_fs(header, base, frame)  # refused before anything is read
    channels, skipped = _channels_to_read(header, base, chosen, extra)
    notes = settle(header, base, channels, extra.how)
    block = Channels.of(header, base, channels)
    rows = tuple(range(len(channels)))
    source = LazySignals(block.samples, block, rows) if block.is_lazy else block(0, block.samples, rows)
    names, files = signal_names(header), (header_path(base), *signal_files(header, base, channels))
    return _Leads([names[c] for c in channels], source, files, frame, skipped, notes)


def _channels_to_read(header: Any, base: Path, chosen: int, extra: _Extra) -> tuple[list[int], tuple[str, ...]]:
    """Return the channels of a record of one segment that are read, and what is left out beside the chosen lead.

    Raises:
        RecordError: the chosen one is no voltage.
    """
    unit(header, base, chosen)
    if not extra.every_lead:
        return [chosen], ()
    names, volts = signal_names(header), voltages(header)
    ecg = are_ecg(names)
    frame = frame_of(header, chosen)

    def reason(channel: int) -> str:
        if channel == chosen:
            return ""
        if channel not in volts:
            return "no voltage"
        if frame_of(header, channel) != frame:  # a recording has one sampling frequency
            return f"{header.fs * frame_of(header, channel):g} Hz"
        return "" if ecg[channel] or extra.include_non_ecg else "no ECG"

    reasons = {channel: reason(channel) for channel in range(header.n_sig)}
    skipped = tuple(f"{names[c]}: {why}" for c, why in reasons.items() if why)
    return [c for c, why in reasons.items() if not why], skipped


class _Selection(NamedTuple):
    """The leads that are read of a record's segments, the chosen one, and their samples in a frame."""

    leads: list[str]
    chosen: str
    frame: int


class _Segment(NamedTuple):
    """The leads of one segment, read: as of ``_Leads``."""

    names: list[str]
    signals_mv: NDArray[np.float64]
    files: tuple[Path, ...]
    notes: tuple[str, ...] = ()


def _segment(header: Any, base: Path, number: int, selection: _Selection, how: ReadOptions) -> _Segment:
    """Read the wanted leads of one segment, as far as it has them."""
    name, samples = header.seg_name[number], header.seg_len[number]
    path = base.parent / name
    segment = read_header(path)
    if is_multi_segment(segment):
        problem = "has segments itself"
        raise RecordError(header_path(path), problem, "a record of one segment", "restore the header from its source")
    if segment.fs != header.fs or segment.sig_len not in (0, samples):
        problem = f"{count_of(segment.sig_len, 'sample')} at {segment.fs:g} Hz"
        expected = f"{samples} at {header.fs:g} Hz, as {base.name}.hea says"
        raise RecordError(header_path(path), problem, expected, "restore the header from its source")
    present, volts = signal_names(segment), voltages(segment)
    present_rows = [present.index(lead) for lead in selection.leads if lead in present]
    channels = [at for at in present_rows if at in volts or present[at] == selection.chosen]
    for at in channels:
        if frame_of(segment, at) != selection.frame:
            problem = f"lead {present[at]} has {count_of(frame_of(segment, at), 'sample')} in a frame"
            expected = f"{selection.frame}, as in the first segment"
            raise RecordError(header_path(path), problem, expected, "restore the header from its source")
    if header.seg_len[0] and len(present_rows) < len(selection.leads):  # a fixed layout: every segment has every lead
        missing = next(lead for lead in selection.leads if lead not in present)
        problem = f"has no lead {missing}"
        raise RecordError(header_path(path), problem, f"the leads of {base.name}", "restore the header from its source")
    if not channels:
        return _Segment([], np.empty((0, samples * selection.frame)), (header_path(path),))
    segment.sig_len = segment.sig_len or samples
    notes = settle(segment, path, channels, how)
    block = Channels.of(segment, path, channels)
    files = (header_path(path), *signal_files(segment, path, channels))
    return _Segment([present[at] for at in channels], block(0, block.samples, range(len(channels))), files, notes)


def _bytes_beside(base: Path, segments: list[str]) -> int:
    """Return how many bytes lie in files that are named as a record's segments are: what its gaps are weighed by."""
    stems = {Path(name).name for name in segments}
    folders = {(base.parent / name).parent for name in segments}
    files = [file for folder in folders if folder.is_dir() for file in folder.iterdir()]
    # a segment's signals may lie in several files, S0001.dat or S0001e.dat
    return sum(file.stat().st_size for file in files if file.is_file() and _stem_of(file.stem, stems))


def _stem_of(stem: str, stems: set[str]) -> bool:
    return stem in stems or stem[:-1] in stems


def _read_segments(header: Any, base: Path, chosen: int, extra: _Extra) -> _Leads:
    """Read a multi-segment record: NaN where a segment is missing (``~``) or has not got the lead (header(5))."""
    total = sum(header.seg_len)
    check_samples(total, header_path(base))
    if header.sig_len not in (0, total):
        problem = f"its segments have {count_of(total, 'sample')}"
        raise RecordError(header_path(base), problem, f"{header.sig_len} as its first line says")
    names, frames = signal_names(header), header.samps_per_frame
    frame = frames[chosen]
    lead_fs(header, base, frame)
    check_samples(total * frame, header_path(base))
    requested = [names[chosen]]
    skipped: tuple[str, ...] = ()
    if extra.every_lead:
        ecg = are_ecg(names)
        rows = [
            at
            for at in range(len(names))
            if at == chosen or ((ecg[at] or extra.include_non_ecg) and frames[at] == frame)
        ]
        requested = [names[at] for at in rows]
        skipped = tuple(
            f"{names[at]}: {'no ECG' if frames[at] == frame else f'{header.fs * frames[at]:g} Hz'}"
            for at in range(len(names))
            if at not in rows
        )
    check_expansion(
        len(requested) * total * frame, _bytes_beside(base, header.seg_name), header_path(base), RecordError
    )
    signals_mv = np.full((len(requested), total * frame), np.nan)
    files, start, leads_present = [header_path(base)], 0, set()
    notes: list[str] = []
    for number, (name, length) in enumerate(zip(header.seg_name, header.seg_len, strict=True)):
        if name != "~" and length:
            read = _segment(header, base, number, _Selection(requested, names[chosen], frame), extra.how)
            leads_present.update(read.names)
            notes += read.notes
            for lead, signal in zip(read.names, read.signals_mv, strict=True):
                signals_mv[requested.index(lead), start : start + len(signal)] = signal  # shorter where it was repaired
            files += read.files
        start += length * frame
    if names[chosen] not in leads_present:
        problem = f"no segment has lead {names[chosen]}"
        raise RecordError(base, problem, action=f"name another with {param('leads')}", code="unknown-lead")
    keep = [row for row, lead in enumerate(requested) if lead in leads_present]
    skipped = (*(f"{lead}: in no segment" for lead in requested if lead not in leads_present), *skipped)
    unique_files = tuple(dict.fromkeys(files))
    return _Leads(
        [requested[row] for row in keep], signals_mv[keep], unique_files, frame, skipped, tuple(dict.fromkeys(notes))
    )


def read_recording(
    record: Path | str,
    leads: tuple[str, ...],
    *,
    every_lead: bool = False,
    include_non_ecg: bool = False,
    how: ReadOptions | None = None,
) -> Recording:
    """Read a WFDB record in millivolt, its skew removed, each lead at its own sampling frequency.

    One of one segment is lazy, but of format 8, which holds differences, or FLAC; its checksums have been compared.

    A lead with several samples in a frame has that many times the header's frequency (header(5)); leads of another
    frequency than the chosen one's are left out and named.

    Args:
        record: path of the record, with or without ``.hea``; one of many segments becomes one, gaps as NaN.
        leads: lead names in order of preference; the record's first ECG for none.
        every_lead: read the others too, as far as they are an ECG's and their units voltages, in the header's order.
        include_non_ecg: with every lead: also what is no ECG.
        how: ``repair`` and, for a signal without a gain, ``units``.

    Raises:
        RecordError: missing or unreadable header, missing lead, truncated or corrupt signal file, units of the chosen
            lead that are no voltage, an implausible sampling frequency, no samples.
    """
    base = record_base(record)
    header = read_header(base)
    names = signal_names(header)
    chosen = choose_lead(names, base, leads, header.units)
    extra = _Extra(every_lead, include_non_ecg, how or ReadOptions())
    read = (_read_segments if is_multi_segment(header) else _read_single_segment)(header, base, chosen, extra)
    return Recording(
        name=base.name,
        path=base,
        lead=names[chosen],
        leads=tuple(read.names),
        fs_hz=lead_fs(header, base, read.frame),
        source=read.source,
        comments=tuple(header.comments or ()),
        files=read.files,
        skipped=read.skipped,
        requested_as=requested_alias(leads, names[chosen]),
        notes=read.notes,
        metadata=replace(metadata_of(header.comments or ()), start=header.start),
    )


def read_annotation_file(
    path: Path,
    *,
    fs_hz: float | None = None,
    counted_hz: float | None = None,
    samples: int | None = None,
    named_by: str = param("annotator"),
) -> Annotation:
    """Read a WFDB annotation file; its name is a record's and the annotator's suffix.

    Args:
        path: ``208.atr``.
        fs_hz: the recording's sampling frequency: a file that says its own time resolution is turned into the
            recording's samples. None leaves the marks as they are counted in the file.
        counted_hz: what a file counts a second that does not say it: frames, where a lead has several samples in each.
        samples: length of the recording; an annotation past it is refused.
        named_by: the marked parameter with its suffix, for the error where there is no such file.

    Raises:
        RecordError: no such file, a file without its end mark (truncated), a time resolution that is no number, marks
            beyond the recording.
    """
    if not path.is_file():
        raise RecordError(path, "does not exist", "annotations, for the labels", f"name their suffix with {named_by}")
    raw = read_bounded(path, MAX_ANNOTATION_BYTES, RecordError)
    marks = read_marks(raw, path)
    at, resolution = np.asarray(marks.sample, dtype=np.int64), marks.resolution or counted_hz
    if resolution is not None and fs_hz is not None:
        at = in_samples_of(fs_hz, resolution, at, samples)
    return make_annotation(at, marks.symbol, marks.note, path, samples, subtype=marks.subtype, fs_hz=fs_hz)


def read_annotation(
    record: Path | str,
    extension: str = "atr",
    *,
    fs_hz: float | None = None,
    samples: int | None = None,
    named_by: str = param("annotator"),
) -> Annotation:
    """Read the annotation of a WFDB record, a path with or without ``.hea``; see ``read_annotation_file``.

    Without ``fs_hz`` the header beside it says the sampling frequency, where there is one.
    """
    base = record_base(record)
    if fs_hz is None and header_path(base).is_file():
        fs_hz = float(read_header(base).fs)
    file = base.with_name(f"{base.name}.{extension}")
    return read_annotation_file(file, fs_hz=fs_hz, samples=samples, named_by=named_by)
