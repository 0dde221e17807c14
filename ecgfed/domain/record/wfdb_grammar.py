"""The grammar of a WFDB header, field by field; what it does not allow is refused with its line and value.

Format: header(5), https://physionet.org/physiotools/wag/header-5.htm. The wfdb package takes what it can of a field and
leaves the rest: a gain of ``2OO`` is 2 to it, ``200,5`` is 200 and ``0x10`` is 0; importing it takes a quarter of the
time of a prediction (docs/dependencies.md). What stands behind the number of samples, time and date, is no error where
it cannot be read: databases write it in many ways, and then the start is not known.
"""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from ecgfed.base.errors import RecordError
from ecgfed.base.safe_io import MAX_DIGITS, path_problem, read_bounded
from ecgfed.base.text import count_of, shortened
from ecgfed.domain.record.metadata import NOT_STATED, Start, start_of, time_of_day

#: The header of a record of 100,000 segments has 4 MB.
MAX_HEADER_BYTES = 16 << 20
#: The formats of signal(5), and 0 of a signal without samples (in a layout).
FORMATS = frozenset({0, 8, 16, 24, 32, 61, 80, 160, 212, 310, 311, 508, 516, 524})
#: A step of an amplifier is neither a gigavolt nor a thousandth of a picovolt, whatever the unit.
MIN_GAIN, MAX_GAIN = 1e-9, 1e12
#: Steps a physical unit that may be assumed of a signal without calibration (header(5), DEFGAIN).
DEFAULT_GAIN = 200.0
#: Bits of the samples are no more than those of the widest format; a block, a skew, an offset are of a real file.
_INT = r"[+-]?[0-9]{1,18}"
_FLOAT = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?"
_RECORD = re.compile(r"(?P<name>[^/]+)(?:/(?P<segments>[0-9]{1,9}))?")
_RATE = re.compile(rf"(?P<fs>[^/(]+)(?:/(?P<counter>{_FLOAT}))?(?:\((?P<base>{_FLOAT})\))?")
_FORMAT = re.compile(
    r"(?P<fmt>[0-9]{1,3})(?:x(?P<frame>[0-9]{1,6}))?(?::(?P<skew>[0-9]{1,9}))?(?:\+(?P<offset>[0-9]{1,15}))?"
)
_GAIN = re.compile(rf"(?P<gain>{_FLOAT})(?:\((?P<baseline>{_INT})\))?(?:/(?P<unit>\S+))?")
_COUNT = re.compile(r"[0-9]{1,15}")
_WHOLE = re.compile(_INT)
#: What stands behind the gain, in order.
_NUMBERS = ("ADC resolution", "ADC zero", "initial value", "checksum", "block size")


@dataclass(frozen=True)
class SignalLine:
    """A signal specification line, its defaults filled in.

    Attributes:
        line: its number in the file, from 1.
        file: name of the signal file, inside the header's folder.
        fmt: of signal(5).
        samples_per_frame: of this signal.
        skew: samples by which it lags.
        offset: where its samples begin in the file, in bytes.
        gain: steps a physical unit; 200 where the header says 0 or nothing, as header(5) allows.
        calibrated: the header says a gain.
        baseline: the step that stands for 0; the ADC's zero where it is not said.
        unit: as written, ``mV`` where it is not.
        initial: its first sample, None where it is not said; what format 8 counts from.
        checksum: of its samples, None where it is not said.
        description: the lead's name, ``""`` where it has none.
    """

    line: int
    file: str
    fmt: int
    samples_per_frame: int
    skew: int
    offset: int
    gain: float
    calibrated: bool
    baseline: int
    unit: str
    initial: int | None
    checksum: int | None
    description: str


@dataclass(frozen=True)
class HeaderLines:
    """A header as its grammar reads it.

    Attributes:
        path: the file.
        record: name in the record line.
        segments: (name, samples) of each segment; None for a record of one segment.
        signals: how many there are.
        fs_hz: as a number, NaN where it is none; 250 where it is not said.
        fs_written: as it is written.
        samples: of each signal, None where it is not said.
        lines: of the signals.
        comments: lines that begin with ``#``, without it.
        start: base time and base date.
    """

    path: Path
    record: str
    segments: tuple[tuple[str, int], ...] | None
    signals: int
    fs_hz: float
    fs_written: str
    samples: int | None
    lines: tuple[SignalLine, ...]
    comments: tuple[str, ...]
    start: Start = NOT_STATED


def header_text(path: Path) -> str:
    """Return a header as text, UTF-8 or Latin-1; raises RecordError where it is no regular file, or a huge one."""
    raw = read_bounded(path, MAX_HEADER_BYTES, RecordError)
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def content(text: str) -> Iterator[tuple[int, str]]:
    """Yield each line that is neither blank nor a comment, with its number."""
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.lstrip().startswith("#"):
            yield number, line.strip()


def _refuse(path: Path, line: int, what: str, value: str, expected: str) -> RecordError:
    problem = f"line {line}: {what} {shortened(value, 60)!r}"
    return RecordError(path, problem, expected, "restore the header from its source")


def read_lines(path: Path) -> HeaderLines:
    """Read a header by its grammar.

    Raises:
        RecordError: with line and value, a field that header(5) does not allow, a file name that leads out of the
            header's folder, fewer or more lines than the record line says.
    """
    text = header_text(path)
    lines = list(content(text))
    if not lines:
        expected = "a WFDB header: a record line and one for each signal"
        raise RecordError(path, "is empty", expected, "restore the header from its source")
    (number, first), rest = lines[0], lines[1:]
    fields = first.split()
    record = _RECORD.fullmatch(fields[0])
    if record is None:
        raise _refuse(path, number, "record name", fields[0], "NAME or NAME/SEGMENTS")
    if len(fields) < 2 or not _COUNT.fullmatch(fields[1]):
        raise _refuse(path, number, "number of signals", (fields[1:2] or [""])[0], "a whole number")
    fs_hz, written = _rate(path, number, fields[2] if len(fields) > 2 else "250")
    if len(fields) > 3 and not _COUNT.fullmatch(fields[3]):
        raise _refuse(path, number, "number of samples", fields[3], "a whole number")
    samples = int(fields[3]) if len(fields) > 3 else None
    signals, start = int(fields[1]), _start(fields[4:6])
    comments = tuple(line.strip().strip(" \t#") for line in text.splitlines() if line.lstrip().startswith("#"))
    if record["segments"] is not None:
        _check_count(path, len(rest), int(record["segments"]), "segment")
        segments = tuple(_segment(path, *line) for line in rest)
        return HeaderLines(path, record["name"], segments, signals, fs_hz, written, samples, (), comments, start)
    _check_count(path, len(rest), signals, "signal")
    of_signals = tuple(_signal(path, *line) for line in rest)
    return HeaderLines(path, record["name"], None, signals, fs_hz, written, samples, of_signals, comments, start)


def _start(fields: Sequence[str]) -> Start:
    """Return base time and base date (``9:15:00``, ``4/3/2026``: day, month, year), as far as they can be read."""
    clock, day = [*fields, "", ""][:2]
    try:
        stated = datetime.strptime(day, "%d/%m/%Y").date()
    except ValueError:
        stated = None
    return start_of(stated, time_of_day(clock))


def _check_count(path: Path, count: int, stated: int, what: str) -> None:
    if not stated:
        raise RecordError(path, "holds no signal", "at least one lead", "choose another file, or leave this one out")
    if count != stated:
        problem = f"has {count_of(count, f'{what} line')}"
        raise RecordError(path, problem, f"{stated} as its record line says", "restore the header from its source")


def _rate(path: Path, line: int, field: str) -> tuple[float, str]:
    """Return the sampling frequency, NaN where it is no number, and how it is written."""
    rate = _RATE.fullmatch(field)
    if rate is None:
        raise _refuse(path, line, "sampling frequency", field, "FREQUENCY/COUNTER(BASE), such as 360 or 360/24(0)")
    fs_hz = float(rate["fs"]) if re.fullmatch(_FLOAT, rate["fs"]) else math.nan
    return fs_hz, rate["fs"]


def _segment(path: Path, line: int, text: str) -> tuple[str, int]:
    fields = text.split()
    if len(fields) != 2 or not _COUNT.fullmatch(fields[1]):
        raise _refuse(path, line, "segment", text, "a segment's name and its length in samples")
    if fault := path_problem(fields[0]):
        raise _refuse(path, line, "segment", fields[0], f"a record in the header's folder; it {fault}")
    return fields[0], int(fields[1])


def _signal(path: Path, line: int, text: str) -> SignalLine:
    fields = text.split(maxsplit=8)
    if fault := path_problem(fields[0]):
        raise _refuse(path, line, "signal file", fields[0], f"a file in the header's folder; it {fault}")
    form = _FORMAT.fullmatch(fields[1]) if len(fields) > 1 else None
    if form is None or int(form["fmt"]) not in FORMATS or form["frame"] == "0":
        raise _refuse(path, line, "format", (fields[1:2] or [""])[0], "such as 212, 16+24 or 80x4:2")
    gain = _GAIN.fullmatch(fields[2]) if len(fields) > 2 else _GAIN.fullmatch("0")
    if gain is None:
        raise _refuse(path, line, "gain", fields[2], "GAIN(BASELINE)/UNITS, such as 200(1024)/mV")
    steps = float(gain["gain"])
    if steps and not MIN_GAIN <= abs(steps) <= MAX_GAIN:
        raise _refuse(path, line, "gain", fields[2], f"0, or {MIN_GAIN:g} to {MAX_GAIN:g}")
    numbers: list[int | None] = []
    for what, field in zip(_NUMBERS, fields[3:8], strict=False):
        if not _WHOLE.fullmatch(field) or len(field) > MAX_DIGITS:
            raise _refuse(path, line, what, field, "a whole number")
        numbers.append(int(field))
    _, zero, initial, checksum, _ = [*numbers, *[None] * 5][:5]
    baseline = int(gain["baseline"]) if gain["baseline"] is not None else zero or 0
    return SignalLine(
        line,
        fields[0],
        int(form["fmt"]),
        int(form["frame"] or 1),
        int(form["skew"] or 0),
        int(form["offset"] or 0),
        steps or DEFAULT_GAIN,
        steps != 0,
        baseline,
        gain["unit"] or "mV",
        initial,
        checksum,
        fields[8].strip() if len(fields) > 8 else "",
    )
