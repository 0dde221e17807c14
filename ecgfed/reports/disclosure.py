"""Full disclosure: every minute of a recording as one row, an hour a sheet, in compact form for ``disclosure.js``."""

import base64

import numpy as np
from numpy.typing import NDArray

from ecgfed.base.errors import OptionError
from ecgfed.reports.recording_parts import Disclosure
from ecgfed.reports.signals import DrawnLeads

ROW_S, ROWS = 60.0, 60
#: Columns of a row: the most whose bytes in the page do not exceed the limit.
COLUMNS, MOST_BYTES = (1200, 600, 300), 6_000_000
#: Integers per millivolt, and the code of a column without signal; larger values are clipped.
_PER_MV, _NONE, _LIMIT = 20, -128, 127
#: Rows that are read at a time.
_AT_ONCE = 10


def check_length(duration_s: float) -> int:
    """Return the columns of a row for a recording of this length.

    Raises:
        OptionError: it is too long for a page.
    """
    rows = np.ceil(duration_s / ROW_S)
    for columns in COLUMNS:
        if rows * columns * 2 * 4 / 3 <= MOST_BYTES:
            return columns
    most_h = MOST_BYTES * 3 / 4 / 2 / COLUMNS[-1] * ROW_S / 3600
    problem = f"this recording has {duration_s / 3600:.1f} h"
    raise OptionError("full_disclosure", problem, f"at most {most_h:.0f} h")


def full_disclosure(leads: DrawnLeads) -> Disclosure:
    """Return the lead in use as the lowest and the highest value of each column, so that no R wave is lost.

    Raises:
        OptionError: the recording is too long for a page.
        RecordError: the file cannot be read any more.
    """
    recording, lead = leads.recording, leads.names[0]
    columns = check_length(recording.duration_s)
    rows, fs_hz = int(np.ceil(recording.duration_s / ROW_S)), recording.fs_hz
    edges = np.rint(np.arange(rows * columns + 1) * (ROW_S / columns) * fs_hz).astype(np.int64)
    low, high = (np.full(rows * columns, _NONE, np.int8) for _ in range(2))
    for first in range(0, rows * columns, _AT_ONCE * columns):
        of = edges[first : first + _AT_ONCE * columns + 1]
        signal_mv = leads.read(lead, int(of[0]), int(of[-1]))
        starts = of[:-1] - of[0]
        starts = starts[starts < len(signal_mv)]
        if not len(starts):
            break
        part = slice(first, first + len(starts))
        low[part] = _coded(np.minimum.reduceat(signal_mv, starts))
        high[part] = _coded(np.maximum.reduceat(signal_mv, starts))
    text = base64.b64encode(np.stack([low, high], axis=1).tobytes()).decode("ascii")
    data = {"rows": rows, "columns": columns, "row_s": ROW_S, "per_mv": _PER_MV, "int8": text}
    return Disclosure(lead, int(np.ceil(rows / ROWS)), ROW_S / columns, len(text) / 1e6, data)


def _coded(value_mv: NDArray[np.float64]) -> NDArray[np.int8]:
    """Return millivolts as integers; a column with a missing sample is missing."""
    coded = np.clip(np.rint(value_mv * _PER_MV), -_LIMIT, _LIMIT)
    return np.where(np.isfinite(coded), coded, _NONE).astype(np.int8)
