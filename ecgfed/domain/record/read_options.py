"""How a recording is read, declared once (``ecgfed.base.options``). Needs no numpy, since the command line reads it."""

import math
from dataclasses import dataclass

from ecgfed.base.errors import OptionError
from ecgfed.base.options import Options, Range, option


class _CheckedByReaders(Range):
    """Any number, NaN too: readers check it, and name the range in the error."""

    def __contains__(self, value: float) -> bool:
        """Return True."""
        return True


@dataclass(frozen=True)
class ReadOptions(Options):
    """What a CSV or NumPy file may leave open; a file that says it itself is believed.

    The units may be steps as WFDB writes them, ``200(1024)/mV``. Readers check the frequency and the units, as they
    check those of files.
    """

    fs_hz: float | None = option(
        None,
        "Sampling frequency in Hz, where a CSV or NumPy file does not say it.",
        _CheckedByReaders(-math.inf, math.inf),
        flag="fs",
        unit="Hz",
    )
    units: str | None = option(None, "mV, uV, V, or steps and zero as in '200(1024)/mV', where the file does not say.")
    columns: tuple[str, ...] = option(
        (), "Names of the columns in order, such as time,MLII,V1; an empty one is passed over."
    )
    repair: bool = option(
        False, "Read what is there of a file cut short or never closed (EDF, BDF, WFDB); say what is missing."
    )


def read_options(how: ReadOptions | None) -> ReadOptions:
    """Return how a recording is read, the defaults for None; raises OptionError for any other type."""
    if how is None:
        return ReadOptions()
    if not isinstance(how, ReadOptions):
        raise OptionError("how", f"{how!r:.100}", "ReadOptions, such as ReadOptions(fs_hz=360, units='mV')")
    return how
