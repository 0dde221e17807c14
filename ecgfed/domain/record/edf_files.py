"""Reading EDF, EDF+, BDF and BDF+ recordings, by blocks of data records, and through edfio their annotations.

What else reads them takes a file cut short for a shorter one, a discontinuous file (EDF+D) for a continuous one and a
lead whose range is empty for one without a scale; here the first and last are refused and the second has its gaps as
NaN. The header and its sources: ``edf_header``.
"""

import math
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecgfed.base.errors import RecordError, param
from ecgfed.base.extras import require
from ecgfed.base.safe_io import check_expansion
from ecgfed.domain.record.annotations import OTHER_SYMBOLS, make_annotation
from ecgfed.domain.record.checks import MILLIVOLT, check_fs, check_samples, parse_units
from ecgfed.domain.record.edf_header import (
    ANNOTATIONS,
    FETCH,
    RESTORE,
    EdfLayout,
    layout_of,
    number_of,
    starts_of,
    text_of,
)
from ecgfed.domain.record.groups import age
from ecgfed.domain.record.kinds import name_without_suffix
from ecgfed.domain.record.leads import are_ecg, choose_lead, distinct, requested_alias
from ecgfed.domain.record.metadata import RecordingMetadata, start_of, time_of_day
from ecgfed.domain.record.recording import BEAT_SYMBOLS, Annotation, LazySignals, ReadOptions, Recording

#: An EDF+ label is the kind of signal, then which: ``ECG II``; the lead is what follows.
_KIND = re.compile(r"(?:ECG|EKG)[ :_-]+(?=\S)", re.IGNORECASE)
#: Bytes of data records that are taken apart at once.
_READ_BYTES = 16 << 20
#: What writers leave who know no date; two digits of a year from 85 on are of the last century (EDF+, 2.1.3.2).
_NO_DATE = date(1985, 1, 1)
_RANGES = ("physical minimum", "physical maximum", "digital minimum", "digital maximum")


class _Extra(NamedTuple):
    """What is read beside the chosen lead: the other ECGs, and voltages that are none."""

    every_lead: bool
    include_non_ecg: bool


class EdfScale(NamedTuple):
    """How the steps of a lead become millivolt: a line from (``low``, ``physical_min``), ``step`` units a step."""

    step: float
    low: float
    physical_min: float
    per_mv: float

    def to_mv(self, rows: NDArray[Any]) -> NDArray[np.float64]:
        """Return steps in millivolt."""
        physical: NDArray[np.float64] = (
            (rows.astype(np.float64) - self.low) * self.step + self.physical_min
        ) * self.per_mv
        return physical


def lead_name(label: str) -> str:
    """Return the lead of an EDF label: ``ECG II`` is II, ``ECG`` alone stays."""
    return _KIND.sub("", label, count=1) if _KIND.match(label) else label


@dataclass(frozen=True)
class EdfLeads:
    """What the header of a file says of the leads that are wanted.

    Attributes:
        path: the file.
        layout: where the samples lie.
        names: of all channels that are no annotations.
        chosen: the lead in use, a number among ``names``.
        rows: the leads to read, numbers among ``names``.
        columns: where in a data record the samples of each of them begin.
        scales: how the steps of each of them become millivolt.
        fs_hz: sampling frequency in Hz.
        per_record: samples of a lead in a data record.
        starts: the sample at which each data record begins.
        skipped: channels that are not read beside the chosen lead, each with the reason.
        requested_as: the name that the chosen lead was asked for by, where its own is another one.
    """

    path: Path
    layout: EdfLayout
    names: tuple[str, ...]
    chosen: int
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    scales: tuple[EdfScale, ...]
    fs_hz: float
    per_record: int
    starts: NDArray[np.int64]
    skipped: tuple[str, ...]
    requested_as: str

    @property
    def samples(self) -> int:
        """Length of a lead, gaps included."""
        return int(self.starts[-1]) + self.per_record

    def __call__(self, start: int, stop: int, rows: Sequence[int]) -> NDArray[np.float64]:
        """Read a block, as ``ReadBlock``; NaN between data records that do not follow one another."""
        starts, per_record = self.starts, self.per_record
        out = np.full((len(rows), stop - start), np.nan)
        first = max(int(np.searchsorted(starts, start, side="right")) - 1, 0)
        last = int(np.searchsorted(starts, stop, side="left"))
        if stop <= start or last <= first:
            return out
        at_once = max(1, _READ_BYTES // self.layout.record_bytes)  # a file may hold hundreds of other channels
        for begin in range(first, last, at_once):
            end = min(begin + at_once, last)
            data = self._stored(begin, end)
            for line, row in zip(out, rows, strict=True):
                column = self.columns[row]
                _lay(line, self.scales[row].to_mv(data[:, column : column + per_record]), starts[begin:end] - start)
        return out

    def _stored(self, first: int, last: int) -> NDArray[Any]:
        """Return some data records as they are stored, (records, samples of all channels); raises RecordError."""
        size = (last - first) * self.layout.record_bytes
        raw = np.fromfile(self.path, np.uint8, size, offset=self.layout.header_bytes + first * self.layout.record_bytes)
        if len(raw) != size:
            raise RecordError(self.path, "has become shorter", "the file as it was opened", "copy it again")
        if self.layout.sample_bytes == 2:
            return raw.view("<i2").reshape(last - first, -1)
        wide = np.zeros((size // 3, 4), np.uint8)  # 24 bits in the upper three bytes: the sign lies where it has to
        wide[:, 1:] = raw.reshape(-1, 3)
        steps: NDArray[Any] = wide.view("<i4").reshape(last - first, -1) >> 8
        return steps


def _lay(line: NDArray[np.float64], records: NDArray[np.float64], starts: NDArray[np.int64]) -> None:
    """Lay data records into a line, each from its start on, which may lie before the line's."""
    per_record = records.shape[1]
    if len(starts) == 1 or (np.diff(starts) == per_record).all():
        records, starts, per_record = records.reshape(1, -1), starts[:1], records.size
    for start, samples in zip(starts.tolist(), records, strict=True):
        low, high = max(start, 0), min(start + per_record, len(line))
        if low < high:
            line[low:high] = samples[low - start : high - start]


def open_edf(
    path: Path, leads: tuple[str, ...], *, every_lead: bool = False, include_non_ecg: bool = False, how: ReadOptions
) -> EdfLeads:
    """Read the header of a file; arguments and errors as of ``read_edf``."""
    layout = layout_of(path, repair=how.repair)
    channels = [i for i, label in enumerate(layout.labels) if label not in ANNOTATIONS]
    if not channels:
        problem = "holds annotations only"
        raise RecordError(path, problem, "at least one lead", "choose another file, or leave this one out")
    if not layout.duration_s:
        raise RecordError(path, "data records of 0 s", "their length", RESTORE)
    names = distinct([lead_name(layout.labels[channel]) for channel in channels])
    units = [layout.units[channel] for channel in channels]
    chosen = choose_lead(names, path, leads, units)
    samples = layout.samples[channels[chosen]]
    fs_hz = samples / layout.duration_s
    fs_hz = float(round(fs_hz)) if math.isclose(fs_hz, round(fs_hz), rel_tol=1e-9) else fs_hz
    check_fs(fs_hz, path, f"{fs_hz:g}", "check the header")
    starts = starts_of(path, layout, fs_hz, samples)
    check_samples(int(starts[-1]) + samples, path)
    rows, skipped = _rows(layout, names, channels, chosen, _Extra(every_lead, include_non_ecg))
    total = len(rows) * (int(starts[-1]) + samples)  # EDF+D: its gaps are no longer than its header says
    check_expansion(total, path.stat().st_size, path, RecordError)
    before = np.concatenate([[0], np.cumsum(layout.samples)])
    return EdfLeads(
        path,
        layout,
        tuple(names),
        chosen,
        rows,
        tuple(int(before[channels[row]]) for row in rows),
        tuple(_scale(layout, channels[row], names[row], path, how) for row in rows),
        fs_hz,
        samples,
        starts,
        skipped,
        requested_alias(leads, names[chosen]),
    )


def _rows(
    layout: EdfLayout, names: Sequence[str], channels: Sequence[int], chosen: int, extra: _Extra
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Return the leads to read, numbers among ``names``, and the channels left out, each with the reason."""
    if not extra.every_lead:
        return (chosen,), ()
    rows, skipped, ecg = [], [], are_ecg(names)
    for row, channel in enumerate(channels):
        if row == chosen:
            rows.append(row)
        elif layout.samples[channel] != layout.samples[channels[chosen]]:
            skipped.append(f"{names[row]}: {layout.samples[channel] / layout.duration_s:g} Hz")
        elif layout.units[channel] not in {*MILLIVOLT, ""}:
            skipped.append(f"{names[row]}: no voltage")
        elif not (ecg[row] or extra.include_non_ecg):
            skipped.append(f"{names[row]}: no ECG")
        else:
            rows.append(row)
    return tuple(rows), tuple(skipped)


def _scale(layout: EdfLayout, channel: int, name: str, path: Path, how: ReadOptions) -> EdfScale:
    """Return how the steps of a lead become millivolt; raises RecordError where its ranges or unit do not say it."""
    physical_min, physical_max, digital_min, digital_max = (
        number_of(text, path, f"{field} of lead {name}", -math.inf, integer=field.startswith("digital"))
        for field, text in zip(_RANGES, layout.ranges[channel], strict=True)
    )
    if not (digital_min < digital_max and math.isfinite(physical_max - physical_min) and physical_min != physical_max):
        problem = f"lead {name} maps {digital_min:g}..{digital_max:g} to {physical_min:g}..{physical_max:g}"
        raise RecordError(path, problem, "two ranges, neither of them empty", RESTORE)
    unit = layout.units[channel]
    if unit in MILLIVOLT:
        per_mv = MILLIVOLT[unit]
    elif not unit and how.units in MILLIVOLT:
        per_mv = parse_units(how.units, "units").mv
    else:
        action = "correct the header's units" if unit else f"say them with {param('units')} mV, uV or V"
        raise RecordError(path, f"lead {name} is in {unit!r}", "one of mV, uV, µV, V, nV", action)
    return EdfScale((physical_max - physical_min) / (digital_max - digital_min), digital_min, physical_min, per_mv)


def read_edf(
    path: Path, leads: tuple[str, ...], *, every_lead: bool = False, include_non_ecg: bool = False, how: ReadOptions
) -> Recording:
    """Open a recording of EDF, EDF+, BDF or BDF+, the gaps of EDF+D as NaN; it is lazy.

    Args:
        path: the file.
        leads: lead names in order of preference; a label ``ECG II`` is lead II.
        every_lead: read the others too, as far as their units are voltages and their sampling frequency is the chosen
            lead's, since a recording has one, and they are an ECG's.
        include_non_ecg: with every lead: also what is no ECG.
        how: units, for a file that states none; ``repair``, for one that was cut short or never closed.

    Raises:
        RecordError: another format, a file longer or shorter than its header says, data records of no length or out
            of order, a missing lead, units that are no voltage, ranges that give no scale.
    """
    edf = open_edf(path, leads, every_lead=every_lead, include_non_ecg=include_non_ecg, how=how)
    return Recording(
        name_without_suffix(path),
        path,
        edf.names[edf.chosen],
        tuple(edf.names[row] for row in edf.rows),
        edf.fs_hz,
        LazySignals(edf.samples, edf, tuple(range(len(edf.rows)))),
        edf_comments(path),
        files=(path,),
        skipped=edf.skipped,
        requested_as=edf.requested_as,
        notes=edf.layout.notes,
        metadata=edf_metadata(path),
    )


def edf_metadata(path: Path) -> RecordingMetadata:
    """Return what a checked header states of start, age, sex and recorder; age and recorder are EDF+'s alone.

    01.01.85 and 00.00.00 are what writers leave who know no date and no time. EDF+ has the year in full.
    """
    with path.open("rb") as stream:
        main = stream.read(256).decode("latin-1")
    patient, recording, day, clock = (main[a:b].strip(" \0") for a, b in ((8, 88), (88, 168), (168, 176), (176, 184)))
    born, began, sex, recorder = None, _day(day, "%d.%m.%y"), "", ""
    if main[192:196] in ("EDF+", "BDF+"):
        who, how = [*patient.split(), "", "", ""], [*recording.split(), "", "", "", "", ""]
        began = _day(how[1].title(), "%d-%b-%Y") if how[0] == "Startdate" else began
        born = _day(who[2].title(), "%d-%b-%Y")
        sex = who[1] if who[1] in ("M", "F") else ""
        recorder = "" if how[4] == "X" else how[4].replace("_", " ")
    began = None if began == _NO_DATE else began
    years = age(born, began)
    at = time_of_day(clock.replace(".", ":"))
    return RecordingMetadata(start_of(began, at), int(years) if years else None, sex, recorder)


def _day(text: str, form: str) -> date | None:
    try:
        day = datetime.strptime(text, form).date()
    except ValueError:
        return None
    return day.replace(year=day.year + 100) if day.year < _NO_DATE.year and form.endswith("y") else day


def edf_comments(path: Path) -> tuple[str, ...]:
    """Return what the header says of patient and recording, as comment lines; raises RecordError."""
    layout_of(path, repair=True)
    with path.open("rb") as stream:
        main = stream.read(256)
    fields = {"patient": text_of(main[8:88]), "recording": text_of(main[88:168])}
    return tuple(f"{name}: {' '.join(text.split())}" for name, text in fields.items() if text)


def _annotations(path: Path) -> list[Any]:
    """Return edfio's annotations, onsets in seconds after the first data record's; raises RecordError."""
    layout = layout_of(path, repair=True)
    require("edfio", "reading annotations inside EDF+")
    import edfio

    try:
        with warnings.catch_warnings():
            # it warns where it repairs: of a file that is not whole the recording's reader has decided
            warnings.simplefilter("ignore" if layout.notes else "error")
            read = edfio.read_bdf if layout.sample_bytes == 3 else edfio.read_edf
            return list(read(path, header_encoding="latin-1").annotations)
    except Exception as error:  # what edfio and Python's decoders raise
        problem = f"its annotations cannot be read ({error!s:.160})"
        raise RecordError(path, problem, "EDF+ annotations", FETCH) from error


def has_edf_annotations(path: Path) -> bool:
    """Say whether an EDF+ file holds any annotation beside its data records' times; raises RecordError."""
    return bool(_annotations(path))


def edf_texts(path: Path) -> list[tuple[float, str]]:
    """Return seconds from the start and text of each annotation of an EDF+ file; raises RecordError."""
    return [(float(annotation.onset), str(annotation.text)) for annotation in _annotations(path)]


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
    annotations = _annotations(path)
    if not annotations:
        problem = "holds no annotations"
        raise RecordError(path, problem, "EDF+ annotations, or a file beside it", f"see {param('annotator')}")
    for annotation in annotations:
        if not abs(annotation.onset) * fs_hz < 2**53:  # NaN too
            problem = f"has an annotation at {annotation.onset:.3g} s"
            raise RecordError(path, problem, "a time in the recording", "check that it is the right file")
    marks = [(round(annotation.onset * fs_hz), annotation.text.strip()) for annotation in annotations]
    symbols = [text if text in BEAT_SYMBOLS | OTHER_SYMBOLS else '"' for _, text in marks]
    notes = ["" if symbol == text else text for symbol, (_, text) in zip(symbols, marks, strict=True)]
    return make_annotation([at for at, _ in marks], symbols, notes, path, samples, fs_hz=fs_hz)
