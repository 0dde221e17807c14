"""What an R-peak detector is: one function under a name, and what it asks to be given."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ecgfed.base.errors import OptionError
from ecgfed.domain.signal.qrs import MIN_FS_HZ

#: Our detector, and the default.
OURS = "ecgfed"
#: Frequencies of the mains, and the one that counts where nobody says (MIT-BIH was recorded at 60 Hz).
MAINS_HZ = (50.0, 60.0)
DEFAULT_MAINS_HZ = 60.0

Signal = NDArray[np.float64]
Peaks = NDArray[np.int64]
#: (signals_mv, fs_hz, lead, mains_hz) -> peaks; see ``Detector.find``.
Find = Callable[[Signal, float, int, float], Peaks]


class Stream(Protocol):
    """A detector at work on one recording, which gets it chunk by chunk."""

    def push(self, chunk_mv: Signal) -> Peaks:
        """Take the next (leads, samples) millivolt, NaN where there is no sample; return what has become certain."""
        ...

    def finish(self) -> Peaks:
        """End the recording; return the rest."""
        ...


@dataclass(frozen=True)
class Detector:
    """A detector under its name: a value, with no state between two recordings.

    ``find(signals_mv, fs_hz, lead, mains_hz)`` receives (leads, samples) float64 millivolt, at least 3 s, not flat; the
    sampling frequency in Hz; the row of the lead in use; and the frequency of the mains in Hz. It returns (peaks,)
    int64 sample numbers, increasing, of the R peaks on the lead in use; none where it finds none. It leaves the signal
    as it was, and answers the same whenever it is asked the same. ``ecgfed.testing.check_detector`` tells whether a
    detector keeps all that.

    Attributes:
        name: what ``--detector`` calls it; one from outside gets the name it is found by.
        find: as above.
        source: who wrote it, or the package it comes from.
        every_lead: it is shown all leads; otherwise the lead in use alone.
        copes_with_gaps: it is shown samples that are not there as NaN; otherwise they are bridged by straight lines,
            and a lead is parted at its long gaps.
        rates_hz: lowest and highest sampling frequency it is made for; recordings of others are refused.
        modules: the packages it imports that a light installation does not have.
        origin: where the registry finds it again, "" for one made in place. Set by the registry.
        stream: ``stream(fs_hz, leads, lead)`` returns a ``Stream`` that finds, however it is cut into chunks, what
            ``find`` finds in the whole. A long recording is read by blocks where there is one, and else whole.
    """

    name: str
    find: Find
    source: str
    every_lead: bool = False
    copes_with_gaps: bool = False
    rates_hz: tuple[float, float] = (MIN_FS_HZ, math.inf)
    modules: tuple[str, ...] = ()
    origin: str = field(default="", compare=False, repr=False)
    stream: Callable[[float, int, int], Stream] | None = field(default=None, compare=False, repr=False)


def as_peaks(raw: object, samples: int) -> Peaks:
    """Return what a package found as the contract wants it: (peaks,) int64, increasing, in the signal, each once.

    Args:
        raw: sample numbers, of any type; NaN where there is none.
        samples: length of the signal.
    """
    values = np.asarray(raw, dtype=np.float64).ravel()
    values = values[np.isfinite(values)]
    return np.unique(values[(values >= 0) & (values < samples)].astype(np.int64))


def check_mains(mains_hz: float | None, where: str = "mains_hz") -> float | None:
    """Return the frequency of the mains in Hz, None where nobody says; raises OptionError unless it is 50 or 60."""
    if mains_hz is None:
        return None
    if isinstance(mains_hz, bool) or not isinstance(mains_hz, int | float) or mains_hz not in MAINS_HZ:
        raise OptionError(where, f"{mains_hz!r}", "50 or 60, the mains' frequency in Hz where it was recorded")
    return float(mains_hz)
