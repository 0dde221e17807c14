"""Reading EDF and EDF+ through edfio, with the checks it leaves to its caller.

edfio takes a file cut short for a shorter one, a discontinuous file (EDF+D) for a continuous one and a lead whose
range is empty for one without a scale; here the first and last are refused and the second has its gaps as NaN.
Format: Kemp et al., Electroencephalogr Clin Neurophysiol 82:391-393, 1992; Kemp and Olivan, Clin Neurophysiol
114:1755-1761, 2003; https://www.edfplus.info/specs/.
"""

import contextlib
import math
import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecgfed.errors import RecordError
from ecgfed.extras import require
from ecgfed.gate import check_expansion
from ecgfed.record.annotations import OTHER_SYMBOLS, make_annotation
from ecgfed.record.checks import MILLIVOLT, check_fs, check_samples, parse_units
from ecgfed.record.leads import are_ecg, choose_lead, distinct, other_name
from ecgfed.record.recording import BEAT_SYMBOLS, Annotation, ReadOptions, Recording
from ecgfed.text import count_of

#: The label of a channel of annotations.
ANNOTATIONS = "EDF Annotations"
#: An EDF+ label is the kind of signal, then which: ``ECG II``; the lead is what follows.
_KIND = re.compile(r"(?:ECG|EKG)[ :_-]+(?=\S)", re.IGNORECASE)
#: What to do about a file that is not whole, and about a header that cannot be right.
_FETCH, _RESTORE = "fetch or copy it again", "restore the header from its source"
_ONSET = re.compile(rb"([+-]\d{1,15}(?:\.\d{0,15})?)[\x14\x15]")


@dataclass(frozen=True)
class _Layout:
    """Where the samples lie, from the fixed fields of the header.

    Attributes:
        header_bytes: where the data records begin.
        records: how many there are.
        duration_s: the length of one.
        labels: the channels' labels, annotation channels among them.
        samples: samples of each channel in a data record.
        gaps: the file is EDF+D, whose data records need not follow one another.
    """

    header_bytes: int
    records: int
    duration_s: float
    labels: tuple[str, ...]
    samples: tuple[int, ...]
    gaps: bool


class _Extra(NamedTuple):
    """What is read beside the chosen lead: the other ECGs, and voltages that are none."""

    every_lead: bool
    others: bool


def _text(raw: bytes) -> str:
    try:
        return raw.decode("utf-8").strip(" \0")
    except UnicodeDecodeError:
        return raw.decode("latin-1").strip(" \0")


def _number(raw: bytes, path: Path, field: str, low: float) -> float:
    """Read a field of digits; raises RecordError where it is no number, or below ``low``."""
    text = _text(raw)
    try:
        value = float(text) if re.fullmatch(r"[0-9eE.+-]+", text) else math.nan
    except ValueError:
        value = math.nan
    if not low <= value < math.inf:
        raise RecordError(path, f"{field} {text!r}", "a valid number", _RESTORE)
    return value


def _layout(path: Path) -> _Layout:
    """Read the fixed fields of the header and weigh them against the file's size; raises RecordError."""
    if not path.is_file():
        raise RecordError(path, "does not exist", "an EDF file", "check the path")
    size = path.stat().st_size
    with path.open("rb") as stream:
        main = stream.read(256)
        if len(main) < 256 or main[:8] != b"0       ":
            raise RecordError(path, "is not EDF", "a header that begins with 0", "check that it is the right file")
        channels = int(_number(main[252:256], path, "number of signals", 1))
        header_bytes = int(_number(main[184:192], path, "size of the header", 256))
        if header_bytes != 256 * (channels + 1):
            raise RecordError(
                path, f"a header of {header_bytes} bytes", f"{256 * (channels + 1)} for {channels} signals", _RESTORE
            )
        rest = stream.read(256 * channels)
    if len(rest) < 256 * channels:
        raise RecordError(path, "is cut short inside its header", f"{header_bytes} bytes", _FETCH)
    labels = tuple(_text(rest[16 * i : 16 * i + 16]) for i in range(channels))
    at = 216 * channels  # samples a data record: behind labels, transducers, units, four ranges and filters
    samples = tuple(
        int(_number(rest[at + 8 * i : at + 8 * i + 8], path, f"samples a data record of {labels[i]}", 1))
        for i in range(channels)
    )
    if _text(main[236:244]) == "-1":
        raise RecordError(
            path, "was never closed (-1 data records)", "their number", "finish it with the recorder's own software"
        )
    records = int(_number(main[236:244], path, "number of data records", 0))
    if not records:
        raise RecordError(path, "holds no samples", action="choose another file, or leave this one out")
    whole, left = divmod(size - header_bytes, 2 * sum(samples))
    if whole < records:
        raise RecordError(path, f"is cut short at {whole} of {count_of(records, 'data record')}", action=_FETCH)
    if (whole, left) != (records, 0):
        found = f"holds {count_of(whole, 'data record')} and {left} bytes"
        raise RecordError(path, found, f"{records} as its header says", _RESTORE)
    duration_s = _number(main[244:252], path, "length of a data record", 0)
    gaps = _text(main[192:236]).startswith("EDF+D")
    return _Layout(header_bytes, records, duration_s, labels, samples, gaps)


def _open(path: Path) -> Any:
    import edfio

    with warnings.catch_warnings():
        warnings.simplefilter("error")  # it warns where it repairs; nothing is repaired here
        return edfio.read_edf(path, header_encoding="latin-1")


def _onsets_s(path: Path, layout: _Layout) -> NDArray[np.float64]:
    """Return when each data record begins, in seconds after the first (EDF+, "Time keeping of data records").

    The first annotation of a data record's first annotation channel is empty and says it; edfio reads past it.
    """
    if ANNOTATIONS not in layout.labels:
        raise RecordError(path, "is EDF+D without an annotation channel", "the times of its data records", _FETCH)
    channel = layout.labels.index(ANNOTATIONS)
    data = np.memmap(path, np.uint8, "r", offset=layout.header_bytes).reshape(layout.records, -1)
    first = 2 * sum(layout.samples[:channel])
    onsets = np.empty(layout.records)
    for number, record in enumerate(data[:, first : first + 2 * layout.samples[channel]]):
        match = _ONSET.match(record[:40].tobytes())
        if match is None:
            raise RecordError(path, f"data record {number + 1} does not say when it begins", "its time", _FETCH)
        onsets[number] = float(match[1])
    after_first: NDArray[np.float64] = onsets - onsets[0]
    return after_first


def _starts(path: Path, layout: _Layout, fs_hz: float, samples: int) -> NDArray[np.int64]:
    """Return the sample at which each data record begins; later than the one before ends where there is a gap.

    A beginning within one sample of that end is no gap: recorders round their times.
    """
    if not layout.gaps:
        return np.arange(layout.records, dtype=np.int64) * samples
    at_s = _onsets_s(path, layout)
    if not (np.abs(at_s) * fs_hz < 2**53).all():
        raise RecordError(
            path, f"claims {np.abs(at_s).max():.3g} s", "a recording of days at most", "cut it into parts"
        )
    starts = np.rint(at_s * fs_hz).astype(np.int64)
    end = 0
    for number, start in enumerate(starts):
        if start < end - 1:
            raise RecordError(path, f"data record {number + 1} begins before the last one ends", "an order", _FETCH)
        starts[number] = end if abs(start - end) <= 1 else start
        end = int(starts[number]) + samples
    return starts


def to_mv(rows: NDArray[np.int16], scale: float, low: int, least: float, per_mv: float) -> NDArray[np.float64]:
    """Return steps in millivolt: a line from (``low``, ``least``), ``scale`` units a step, ``per_mv`` mV a unit."""
    physical: NDArray[np.float64] = ((rows.astype(np.float64) - low) * scale + least) * per_mv
    return physical


def _scale(signal: Any, per_mv: float) -> tuple[float, int, float, float]:
    """Return what ``to_mv`` takes beside the steps."""
    low, high = signal.digital_range
    least, most = signal.physical_range
    return (most - least) / (high - low), low, least, per_mv


def _signal_mv(signal: Any, starts: NDArray[np.int64], scale: tuple[float, int, float, float]) -> NDArray[np.float64]:
    """Return one lead (samples,) in millivolt, NaN between data records that do not follow one another."""
    rows = signal.digital.reshape(len(starts), -1)
    physical = to_mv(rows, *scale)
    total = int(starts[-1]) + rows.shape[1]
    if total == physical.size:
        flat: NDArray[np.float64] = physical.ravel()
        return flat
    out = np.full(total, np.nan)
    for start, row in zip(starts, physical, strict=True):
        out[start : start + len(row)] = row
    return out


def _unit(signal: Any) -> str:
    return _text(signal.physical_dimension.encode("latin-1"))


def _per_mv(signal: Any, path: Path, how: ReadOptions) -> float:
    """Return the millivolt of a lead's unit, its ranges checked; raises RecordError."""
    unit, name = _unit(signal), signal.label
    (low, high), (least, most) = signal.digital_range, signal.physical_range
    if not (low < high and math.isfinite(most - least) and least != most):
        found = f"lead {name} maps {low}..{high} to {least:g}..{most:g}"
        raise RecordError(path, found, "two ranges, neither of them empty", _RESTORE)
    if unit in MILLIVOLT:
        return MILLIVOLT[unit]
    if not unit and how.units in MILLIVOLT:
        return parse_units(how.units, "--units").mv
    action = "correct the header's units" if unit else "say them with --units mV, uV or V"
    raise RecordError(path, f"lead {name} is in {unit!r}", "one of mV, uV, µV, V, nV", action)


def lead_name(label: str) -> str:
    """Return the lead of an EDF label: ``ECG II`` is II, ``ECG`` alone stays."""
    text = _text(label.encode("latin-1", errors="replace"))
    return _KIND.sub("", text, count=1) if _KIND.match(text) else text


@dataclass(frozen=True)
class EdfLeads:
    """What the header of a file says of the leads that are wanted.

    Attributes:
        layout: where the samples lie.
        names: of all signals that are no annotations.
        chosen: the lead in use, a number among ``names``.
        rows: the leads to read, numbers among ``names``.
        scales: what ``to_mv`` takes for each of them.
        fs_hz: sampling frequency in Hz.
        per_record: samples of a lead in a data record.
        starts: the sample at which each data record begins.
        left_out: channels that are not read beside the chosen lead, each with the reason.
        signals: edfio's signals, of ``rows``.
        stands_for: the name that the chosen lead was asked for by, where its own is another one.
    """

    layout: _Layout
    names: tuple[str, ...]
    chosen: int
    rows: tuple[int, ...]
    scales: tuple[tuple[float, int, float, float], ...]
    fs_hz: float
    per_record: int
    starts: NDArray[np.int64]
    left_out: tuple[str, ...]
    signals: tuple[Any, ...]
    stands_for: str = ""

    @property
    def samples(self) -> int:
        """Length of a lead, gaps included."""
        return int(self.starts[-1]) + self.per_record


def open_edf(
    path: Path, leads: tuple[str, ...], *, every_lead: bool = False, others: bool = False, how: ReadOptions
) -> EdfLeads:
    """Read the header of an EDF or EDF+ file; arguments and errors as of ``read_edf``."""
    layout = _layout(path)
    if all(label == ANNOTATIONS for label in layout.labels):
        raise RecordError(
            path, "holds annotations only", "at least one lead", "choose another file, or leave this one out"
        )
    if not layout.duration_s:
        raise RecordError(path, "data records of 0 s", "their length", _RESTORE)
    require("edfio", "reading an EDF file")
    with _edfio_errors(path):
        edf = _open(path)
        names = distinct([lead_name(signal.label) for signal in edf.signals])
        chosen = choose_lead(names, path, leads, [_unit(signal) for signal in edf.signals])
        read = _leads(edf, layout, path, names, chosen, _Extra(every_lead, others), how)
        return replace(read, stands_for=other_name(leads, names[chosen]))


@contextlib.contextmanager
def _edfio_errors(path: Path) -> Iterator[None]:
    """Turn what edfio raises, ValueError, UnicodeError and others, its warnings among them, into one line."""
    try:
        yield
    except RecordError:
        raise
    except Exception as problem:
        found = f"cannot be read as EDF ({type(problem).__name__}: {problem})"
        raise RecordError(path, found, "EDF or EDF+", _FETCH) from problem


def read_edf(
    path: Path, leads: tuple[str, ...], *, every_lead: bool = False, others: bool = False, how: ReadOptions
) -> Recording:
    """Read a recording from EDF or EDF+, the gaps of EDF+D as NaN.

    Args:
        path: the file.
        leads: lead names in order of preference; a label ``ECG II`` is lead II.
        every_lead: read the others too, as far as their units are voltages and their sampling frequency is the chosen
            lead's, since a recording has one, and they are an ECG's.
        others: with every lead: also what is no ECG.
        how: units, for a file that states none.

    Raises:
        RecordError: another format, a file longer or shorter than its header says, data records of no length or out
            of order, a missing lead, units that are no voltage, ranges that give no scale.
    """
    edf = open_edf(path, leads, every_lead=every_lead, others=others, how=how)
    with _edfio_errors(path):
        signals = [_signal_mv(one, edf.starts, scale) for one, scale in zip(edf.signals, edf.scales, strict=True)]
    return Recording(
        path.stem,
        path,
        edf.names[edf.chosen],
        tuple(edf.names[row] for row in edf.rows),
        edf.fs_hz,
        np.stack(signals),
        edf_comments(path),
        files=(path,),
        left_out=edf.left_out,
        stands_for=edf.stands_for,
    )


def _leads(
    edf: Any, layout: _Layout, path: Path, names: Sequence[str], chosen: int, extra: _Extra, how: ReadOptions
) -> EdfLeads:
    samples = edf.signals[chosen].samples_per_data_record
    fs_hz = samples / layout.duration_s
    fs_hz = float(round(fs_hz)) if math.isclose(fs_hz, round(fs_hz), rel_tol=1e-9) else fs_hz
    check_fs(fs_hz, path, f"{fs_hz:g}", "check the header")
    starts = _starts(path, layout, fs_hz, samples)
    check_samples(int(starts[-1]) + samples, path)
    read, left_out = {chosen: _per_mv(edf.signals[chosen], path, how)}, []
    ecg = are_ecg(names)
    for number, signal in enumerate(edf.signals if extra.every_lead else ()):
        if signal.samples_per_data_record != samples:
            left_out.append(f"{names[number]}: {signal.samples_per_data_record / layout.duration_s:g} Hz")
        elif _unit(signal) not in {*MILLIVOLT, ""}:
            left_out.append(f"{names[number]}: no voltage")
        elif not (ecg[number] or extra.others or number == chosen):
            left_out.append(f"{names[number]}: no ECG")
        else:
            read[number] = _per_mv(signal, path, how)
    rows = tuple(sorted(read))
    total = len(rows) * (int(starts[-1]) + samples)  # EDF+D: its gaps are no longer than its header says
    check_expansion(total, path.stat().st_size, path, RecordError)
    signals = tuple(edf.signals[row] for row in rows)
    scales = tuple(_scale(signal, read[row]) for signal, row in zip(signals, rows, strict=True))
    return EdfLeads(layout, tuple(names), chosen, rows, scales, fs_hz, samples, starts, tuple(left_out), signals)


def edf_comments(path: Path) -> tuple[str, ...]:
    """Return what the header says of patient and recording, as comment lines; raises RecordError."""
    _layout(path)
    with path.open("rb") as stream:
        main = stream.read(256)
    said = {"patient": _text(main[8:88]), "recording": _text(main[88:168])}
    return tuple(f"{name}: {' '.join(text.split())}" for name, text in said.items() if text)


def _annotations(path: Path) -> list[Any]:
    """Return edfio's annotations, onsets in seconds after the first data record's; raises RecordError."""
    _layout(path)
    require("edfio", "reading an EDF file")
    try:
        return list(_open(path).annotations)
    except Exception as problem:  # what edfio and Python's decoders raise
        found = f"its annotations cannot be read ({type(problem).__name__}: {problem})"
        raise RecordError(path, found, "EDF+ annotations", _FETCH) from problem


def has_edf_annotations(path: Path) -> bool:
    """Say whether an EDF+ file holds any annotation beside its data records' times; raises RecordError."""
    return bool(_annotations(path))


def read_edf_annotation(path: Path, fs_hz: float, *, samples: int | None = None) -> Annotation:
    """Read the annotations inside an EDF+ file.

    A text that is a WFDB symbol (``N``, ``V``) is that mark; any other text is a note (``"``) that carries it.

    Args:
        path: the file.
        fs_hz: the recording's sampling frequency.
        samples: length of the recording, the gaps of EDF+D included; a mark past it is refused.

    Raises:
        RecordError: annotations that cannot be read, or none; a mark outside the recording.
    """
    marks = [(round(mark.onset * fs_hz), mark.text.strip()) for mark in _annotations(path)]
    if not marks:
        raise RecordError(path, "holds no annotations", "EDF+ annotations, or a file beside it", "see --annotator")
    symbols = [text if text in BEAT_SYMBOLS | OTHER_SYMBOLS else '"' for _, text in marks]
    notes = ["" if symbol == text else text for symbol, (_, text) in zip(symbols, marks, strict=True)]
    return make_annotation([at for at, _ in marks], symbols, notes, path, samples, fs_hz=fs_hz)
