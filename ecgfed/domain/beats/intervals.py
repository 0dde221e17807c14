"""RR intervals that know where nothing can be said: across gaps, flutter, shutdown, and beyond the first and last beat.

An interval is void where a beat may lie hidden in it, so that it is not the time from one beat to the next. A void
interval has no length here (NaN); what a net sees of it is a stated value and a mask (``ecgfed.domain.beats.context``).
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from ecgfed.domain.record.recording import Annotation
from ecgfed.domain.signal.quality import runs

#: A stretch without signal that lasts this long may hide a QRS complex. Noise is left to the detector.
HIDES_S = 0.150
#: No interval is longer: a heart that rests for ten seconds is a lost signal, or no rhythm to compare with.
LONGEST_S = 10.0
#: Bits of the subtype of a ``~`` that says that both leads cannot be read, as bxb has it.
SHUTDOWN = 0x30

#: Stretches in samples, start and stop (not included) of each.
Edges = Iterable[tuple[int, int]]


def intervals_s(
    r_samples: NDArray[np.int64], fs_hz: float, lost: NDArray[np.bool_] | Edges | None = None, void: Edges = ()
) -> NDArray[np.float64]:
    """Return the interval before each beat, and after the last.

    Args:
        r_samples: (beats,) int64 increasing sample numbers of all R peaks.
        fs_hz: sampling frequency in Hz.
        lost: where the lead shows nothing: (samples,) bool (``quality.bad(NO_SIGNAL)``), or stretches that do not touch
            one another (``quality.spans(NO_SIGNAL)``); None where it is whole.
        void: start and stop (not included), in samples, of stretches whose beats nobody marked.

    Returns:
        (beats + 1,) float64 seconds, NaN where the interval is void: entry i is the interval before beat i, entry
        i + 1 the one after it.
    """
    intervals = np.full(len(r_samples) + 1, np.nan)
    if len(r_samples) < 2:
        return intervals
    start, stop = r_samples[:-1], r_samples[1:]
    length = (stop - start) / fs_hz
    hidden = length > LONGEST_S
    edges = runs(lost) if isinstance(lost, np.ndarray) else lost or ()
    hidden |= _longest_run(edges, start, stop) >= HIDES_S * fs_hz
    for begin, end in void:
        hidden |= (start < end) & (stop > begin)
    intervals[1:-1] = np.where(hidden, np.nan, length)
    return intervals


def _longest_run(edges: Edges, start: NDArray[np.int64], stop: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how many samples of the longest of some stretches lie between each start and stop."""
    longest = np.zeros(len(start), dtype=np.int64)
    for begin, end in edges:
        first, last = np.searchsorted(stop, begin, side="right"), np.searchsorted(start, end, side="left")
        run = slice(first, last)
        inside = np.minimum(stop[run], end) - np.maximum(start[run], begin)
        longest[run] = np.maximum(longest[run], inside)
    return longest


def unmarked_spans(annotation: Annotation, samples: int) -> list[tuple[int, int]]:
    """Return the stretches of a recording in which an annotator marked no beats.

    They are ventricular flutter (``[`` to ``]``) and shutdown (from a ``~`` that says that both leads cannot be read to
    the next ``~``); one that does not end goes on to the recording's last sample.

    Args:
        annotation: the recording's annotation, marks that are no beats included.
        samples: length of the recording.
    """
    spans: list[tuple[int, int]] = []
    flutter: int | None = None
    shutdown: int | None = None
    for at, symbol, subtype in zip(annotation.sample, annotation.symbol, annotation.subtypes, strict=True):
        if symbol == "[" and flutter is None:
            flutter = int(at)
        elif symbol == "]" and flutter is not None:
            spans.append((flutter, int(at) + 1))
            flutter = None
        elif symbol == "~":
            if shutdown is not None:
                spans.append((shutdown, int(at) + 1))
            shutdown = int(at) if int(subtype) & SHUTDOWN == SHUTDOWN else None
    return spans + [(start, samples) for start in (flutter, shutdown) if start is not None]
