"""What every format's reader asks of a file before it believes it: units, sampling frequency, size."""

import math
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecgfed.base.errors import OptionError, RecordError, param
from ecgfed.base.language import messages
from ecgfed.base.text import shortened

#: Millivolt per unit, by the unit's spelling in a file.
MILLIVOLT = {"mV": 1.0, "uV": 1e-3, "\u00b5V": 1e-3, "\u03bcV": 1e-3, "V": 1e3, "nV": 1e-6}
#: The band-pass ends at 40 Hz, so a record must hold frequencies past that; above, nothing records an ECG.
MIN_FS_HZ, MAX_FS_HZ = 100.0, 20_000.0
#: Samples of one lead that are ever made room for: 24 days at 250 Hz, 4 GB. A header can claim more than it has.
MAX_SAMPLES = 2**29
#: An ECG moves by millivolts; half of a lead's samples further than this from its median mean wrong units.
MAX_SPREAD_MV = 1000.0
#: No sample of an ECG is a million volts: such numbers are damage, and sums of their squares overflow.
MAX_MV = 1e9
#: The rates a heart can beat at, in beats a minute: wide of every published record.
MIN_RATE, MAX_RATE = 15.0, 350.0
#: Whole millivolts over so wide a range are no ECG, which is of fractions of a millivolt; a few samples say nothing.
STEPS_MV, _FEW = 20.0, 100
#: Numbers, of either sign, by which files say that a sample is missing: rows of nines, ends of whole numbers' ranges.
SENTINELS = (999.0, 9999.0, 99999.0, 999999.0, 32767.0, 32768.0, 65535.0, 8388607.0, 8388608.0, 2147483647.0, 2**31)
#: Such a number is missing samples when it is so many times as far from the lead's median as any other value; any other
#: number when it repeats and is so many times as far.
_SENTINEL_AWAY, _CONSTANT_AWAY = 3.0, 20.0
_STEPS = re.compile(r"([0-9.eE+-]+)(?:\(([0-9+-]+)\))?/(\S+)")


class NotStatedError(RecordError):
    """A file leaves open what is needed to read it; the message names all of it.

    Attributes:
        missing: an error for each single thing.
    """

    default_code = "not-stated"
    missing: tuple[RecordError, ...] = ()


def check_stated(missing: Sequence[RecordError]) -> None:
    """Raise NotStatedError for all that a file leaves open, if anything."""
    if not missing:
        return
    where, reasons, expected, actions = zip(*(problem.parts for problem in missing), strict=True)
    joined = [", and ".join(dict.fromkeys(filter(None, texts))) for texts in (reasons, expected, actions)]
    error = NotStatedError(where[0], *joined, parameter=missing[0].parameter)
    error.missing = tuple(missing)
    raise error


class Scale(NamedTuple):
    """How a number in a file becomes millivolt: (number - zero) * mv."""

    mv: float
    zero: float = 0.0

    def to_mv(self, numbers: NDArray[Any]) -> NDArray[np.float64]:
        """Return numbers in millivolt; those out of range become infinite."""
        with np.errstate(over="ignore", invalid="ignore"):
            signals: NDArray[np.float64] = (numbers.astype(np.float64) - self.zero) * self.mv
        return signals


def is_number(value: object) -> bool:
    """Return whether a value is a number, of Python or of numpy; a truth value is none."""
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def check_fs(fs_hz: float, where: object, written: str, action: str) -> None:
    """Refuse a sampling frequency that no ECG is recorded at; raises RecordError."""
    if not is_number(fs_hz) or not (math.isfinite(fs_hz) and MIN_FS_HZ <= fs_hz <= MAX_FS_HZ):
        raise RecordError(where, f"sampling frequency {written} Hz", f"{MIN_FS_HZ:g} to {MAX_FS_HZ:g} Hz", action)


def contradiction(path: Path, stated: str, option: str, value: str) -> RecordError:
    """Return the error for an option whose value is not what the file states."""
    expected, action = f"{value} as {param(option)} says", f"leave {param(option)} out"
    return RecordError(path, stated, expected, action, code="contradiction")


def check_millivolt(signal_mv: NDArray[np.generic], where: object) -> None:
    """Refuse whole numbers, which are an amplifier's steps, where millivolts are meant; raises RecordError."""
    if not np.issubdtype(signal_mv.dtype, np.floating):
        action = "convert the amplifier's steps to millivolts first: (steps - zero) / gain"
        raise RecordError(where, f"values of type {signal_mv.dtype}", "millivolts in floating point", action)


def check_samples(samples: int, where: object) -> None:
    """Refuse an empty record, and a length past ``MAX_SAMPLES`` before room is made for it; raises RecordError."""
    if samples <= 0:
        raise RecordError(where, "holds no samples", action="choose another file, or leave this one out")
    if samples > MAX_SAMPLES:
        raise RecordError(where, f"claims {samples} samples a lead", f"at most {MAX_SAMPLES}", "cut it into parts")


def parse_units(text: str, where: object) -> Scale:
    """Read ``uV`` or steps as a WFDB header writes them, ``200(1024)/mV``; raises OptionError."""
    if text in MILLIVOLT:
        return Scale(MILLIVOLT[text])
    match = _STEPS.fullmatch(text)
    try:
        if match and match[3] in MILLIVOLT and math.isfinite(gain := float(match[1])) and gain > 0:
            return Scale(MILLIVOLT[match[3]] / gain, float(match[2] or 0))
    except ValueError:
        pass
    raise OptionError(where, f"{text!r}", "mV, uV, V, nV or steps and zero as in 200(1024)/mV")


def sentinels_to_nan(numbers: NDArray[np.float64], leads: Iterable[str]) -> tuple[str, ...]:
    """Replace numbers that stand for missing samples by NaN, in place, and return a note for each.

    Args:
        numbers: (leads, samples) as the file has them, before any scale.
        leads: their names.
    """
    notes = []
    for lead, row in zip(leads, numbers, strict=True):
        known = row[np.isfinite(row)]
        rest = known[~np.isin(np.abs(known), SENTINELS)]
        for value in (float(known.min()), float(known.max())) if len(rest) >= _FEW else ():
            listed = abs(value) in SENTINELS
            others = rest[rest != value]
            count = int((row == value).sum())
            if not len(others) or count < (1 if listed else 2):
                continue
            centre = float(np.median(others))
            reach = float(np.abs(others - centre).max())
            if abs(value - centre) <= (_SENTINEL_AWAY if listed else _CONSTANT_AWAY) * reach or not (listed or reach):
                continue
            row[row == value] = np.nan
            notes.append(
                messages(
                    "{n} sample of {lead} with the value {value:g}, far from all others: read as missing",
                    "{n} samples of {lead} with the value {value:g}, far from all others: read as missing",
                    count,
                    lead=lead,
                    value=value,
                )
            )
    return tuple(notes)


def may_hold_sentinels(values_mv: NDArray[np.float64], numbers: NDArray[np.float64]) -> bool:
    """Return whether a lead with these extremes may hold what ``sentinels_to_nan`` replaces.

    Args:
        values_mv: increasing: among them the two lowest and the two highest different values of the lead.
        numbers: the same as the file has them.
    """
    if len(values_mv) < 3:
        return False
    step = np.diff(values_mv)
    others = values_mv[-2] - values_mv[1]
    far = max(step[0], step[-1]) > (_CONSTANT_AWAY - 1) / 2 * others
    return bool(np.isin(np.abs(numbers[[0, -1]]), SENTINELS).any() or far)


def check_size(signals_mv: NDArray[np.float64], leads: Iterable[str], path: Path) -> None:
    """Refuse values above ``MAX_MV``, and leads whose size says that the units are wrong; raises RecordError.

    Args:
        signals_mv: (leads, samples) in millivolt, NaN allowed.
        leads: their names.
        path: the file, for the error.
    """
    for lead, signal in zip(leads, signals_mv, strict=True):
        if (beyond := np.abs(signal) > MAX_MV).any():
            at = int(np.argmax(beyond))
            size = "infinite" if np.isinf(signal[at]) else f"{signal[at]:.3g} mV"
            raise RecordError(path, f"lead {shortened(lead)} is {size} at sample {at}", "millivolts, or NaN for a gap")
        values = signal[~np.isnan(signal)]
        spread = float(np.median(np.abs(values - np.median(values)))) if len(values) else 0.0
        if spread > MAX_SPREAD_MV:
            problem = f"half of lead {lead} is more than {spread:.3g} mV from its median"
            raise RecordError(path, problem, "millivolts", f"check {param('units')}")
        if len(values) >= _FEW and np.ptp(values) >= STEPS_MV and (values == np.rint(values)).all():
            problem = f"lead {lead} holds whole numbers from {values.min():g} to {values.max():g}"
            action = f"they look like an amplifier's steps: say gain and zero as in {param('units')} '200(1024)/mV'"
            raise RecordError(path, problem, "millivolts", action)


def check_heart_rate(r_samples: NDArray[np.int64], fs_hz: float, path: object) -> None:
    """Refuse annotated beats at a rate no heart has, as a wrong sampling frequency gives; raises RecordError.

    Args:
        r_samples: (beats,) increasing sample numbers; fewer than five say nothing.
        fs_hz: the recording's sampling frequency in Hz.
        path: the annotation file, for the error.
    """
    if len(r_samples) < 5:
        return
    interval_s = float(np.median(np.diff(r_samples))) / fs_hz
    rate = 60 / interval_s if interval_s else math.inf
    if not MIN_RATE <= rate <= MAX_RATE:
        problem = f"median heart rate {rate:.3g} a minute at {fs_hz:g} Hz"
        raise RecordError(path, problem, f"{MIN_RATE:g} to {MAX_RATE:g}", "check the sampling frequency")
