"""RR features, version 3: the strip around the beat, and how it differs from the patient's running median beat.

Beside the 16 features of version 2 (``context``) a net sees 1.6 s of the lead around the R peak at 90 Hz, with the P, T
and QRS waves of the beats before and after, and the same stretch less the median strip of the last minute's beats, in
units of the median size of their QRS. The window of 256 samples is the middle of the strip, so the features hold what
lies beside it. docs/decisions/0089 has the measurements.
"""

import numpy as np
from numpy.typing import NDArray

from ecgfed.domain.beats import context
from ecgfed.domain.beats.context import LIMIT
from ecgfed.domain.beats.patient_beat import BLOCK, FEWEST, Beats, Floats, TypicalBeat
from ecgfed.domain.beats.windows import BESIDE, STRIP_STEP, WINDOW_SAMPLES

#: Beats before and after a beat that decide its features.
HISTORY, LOOK_AHEAD = context.HISTORY, context.LOOK_AHEAD
#: Blocks before and after a beat's own whose beats make the median strip: about a minute.
BACK, AHEAD = 4, 3
#: Numbers of the window in the strip, and of the whole strip.
WINDOW = WINDOW_SAMPLES // STRIP_STEP
SAMPLES = BESIDE[0] + WINDOW + BESIDE[1]
#: No number of a strip is beyond, in units of the QRS.
STRIP_LIMIT = 2 * LIMIT
#: Names in order: those of version 2, the median size of the QRS in mV, the strip beside the window in units of it, and
#: the strip less the median strip.
FEATURES = (
    *context.FEATURES,
    "typical_mv",
    *(f"beside_{number}" for number in range(sum(BESIDE))),
    *(f"difference_{number}" for number in range(SAMPLES)),
)


def values(beats: Beats, first: int = 0) -> NDArray[np.float32]:
    """Features of beats in a row, (beats, features); those near a cut are not to be used (``HISTORY``).

    Nor are those before beat ``first``, of which not all is made.
    """
    typical_beat = TypicalBeat(beats)
    own = context.values(beats, typical_beat)
    middle = beats.window_mv.reshape(len(own), WINDOW, STRIP_STEP).mean(axis=2)
    strip_mv = np.concatenate([beats.beside_mv[:, : BESIDE[0]], middle, beats.beside_mv[:, BESIDE[0] :]], axis=1)
    size_mv = typical_beat.size[:, None]
    typical_mv = running_median(size_mv, beats.usable, first)
    typical_mv = np.where(np.isfinite(typical_mv), typical_mv, size_mv)
    difference_mv = strip_mv - running_median(strip_mv.astype(np.float64), beats.usable, first)
    relative = np.concatenate([beats.beside_mv, difference_mv], axis=1) / typical_mv
    relative = np.clip(np.nan_to_num(relative), -STRIP_LIMIT, STRIP_LIMIT)
    return np.concatenate([own, typical_mv, relative], axis=1).astype(np.float32)


def running_median(rows: Floats, chosen: NDArray[np.bool_], first: int = 0) -> Floats:
    """Return the medians of the chosen rows of the last minute, (beats, columns); NaN where they are too few.

    Args:
        rows: (beats, columns).
        chosen: (beats,) bool.
        first: medians of earlier blocks than this row's are not made.
    """
    median = np.full((-(-len(rows) // BLOCK), rows.shape[1]), np.nan)
    for block in range(first // BLOCK, len(median)):  # all at once would hold 64 rows for each block
        near = slice(max(block - BACK, 0) * BLOCK, (block + AHEAD + 1) * BLOCK)
        ordered = np.sort(rows[near][chosen[near]], axis=0)
        if len(ordered) >= FEWEST:
            median[block] = (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2
    return np.repeat(median, BLOCK, axis=0)[: len(rows)]
