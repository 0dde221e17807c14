"""RR features, version 4: those of version 2 from beats that are past, for devices that answer within seconds.

The references of version 2 (``patient_beat``) look 104 beats ahead and need 115 kB of memory. Here they are made of the
beats before a beat alone: quantiles of the last ``INTERVALS`` intervals, and mean shapes in which every further beat
counts ``DECAY`` times as much as the one after it, so only sums are stored (2.6 kB in C). Until there
are enough beats after sinus intervals, all beats after long intervals are the reference. An interval of more than
``LONGEST_S`` is void, so the one after a beat is known, or void, two seconds after its R peak. Names, units, limits and
masks are those of version 2. docs/decisions/0125 has the measurements.
"""

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from ecgfed.domain.beats import context
from ecgfed.domain.beats.patient_beat import (
    AT_LEAST,
    COLUMNS,
    FEWEST,
    LEAST_MV,
    MIN_CORRELATION,
    QRS_COLUMNS,
    SINUS,
    TYPICAL,
    Floats,
    Shapes,
    correlation,
    quantile,
)

#: Names in order: those of version 2, though some references are others.
FEATURES = context.FEATURES
#: Beats after a beat that decide its features.
LOOK_AHEAD = 1
#: A longer interval is void, in seconds.
LONGEST_S = 2.0
#: Quantiles are those of so many intervals before a beat.
INTERVALS = 128
#: Weight of a beat of a mean shape relative to the next beat of that mean.
DECAY = 0.9
#: Beats whose intervals the irregularity of a beat looks back to, its own apart.
_LOOK_BACK = context.CHANGES + 1
#: Beats that are put through at once.
_CHUNK = 1024


class _Mean:
    """Means of chosen rows, as they were before each row."""

    def __init__(self) -> None:
        self._total = np.zeros(COLUMNS + 1)  # the last column is the sum of the weights
        self._count = 0

    def before(self, rows: Floats, chosen: NDArray[np.bool_]) -> Floats:
        """Return the mean of the chosen rows before each row (beats, columns), NaN where too few; take the rows."""
        weighted = np.concatenate([rows, np.ones((len(rows), 1))], axis=1)[chosen]
        totals = np.concatenate([self._total[None], weighted])
        for number in range(len(weighted)):  # scipy's lfilter would take longer to import than this
            totals[number + 1] += DECAY * totals[number]
        earlier: NDArray[np.int64] = np.cumsum(chosen) - chosen
        mean = totals[earlier, :-1] / np.maximum(totals[earlier, -1:], 1.0)
        mean[self._count + earlier < FEWEST] = np.nan
        self._total, self._count = totals[-1], min(self._count + len(weighted), FEWEST)
        return np.asarray(mean)


class _Quantiles:
    """Quantiles of the last ``INTERVALS`` values before each, NaN not counted."""

    def __init__(self) -> None:
        self._last = np.full(INTERVALS, np.nan)

    def before(self, values: Floats, *shares: float) -> list[Floats]:
        """Return quantiles (beats,) of the values before each of ``values``; take them."""
        known = np.concatenate([self._last, values])
        self._last = known[-INTERVALS:]
        ordered = np.sort(sliding_window_view(known[:-1], INTERVALS), axis=1)
        return [quantile(ordered, share) for share in shares]


class _References:
    """What earlier beats say about the intervals and shapes of the beats that come."""

    def __init__(self) -> None:
        self._every, self._between = _Quantiles(), _Quantiles()
        self._draft, self._own = _Mean(), _Mean()
        self._was_similar = np.zeros(1, np.bool_)

    def push(self, before_s: Floats, window_mv: NDArray[np.float32], usable: NDArray[np.bool_]) -> dict[str, Floats]:
        """Return the columns that ``context.features`` takes, of one beat or more; take them."""
        shapes = Shapes(window_mv)
        rows, usable = shapes.rows(), usable & (shapes.measured_mv > LEAST_MV)
        (every,) = self._every.before(before_s, TYPICAL)
        draft = self._draft.before(rows, usable & (before_s >= every * AT_LEAST))
        is_similar = usable & (correlation(shapes.qrs, draft[:, QRS_COLUMNS]) > MIN_CORRELATION)
        between = is_similar & np.concatenate([self._was_similar, is_similar[:-1]])
        self._was_similar = is_similar[-1:]
        typical, sinus = self._between.before(np.where(between, before_s, np.nan), TYPICAL, SINUS)
        typical = np.where(np.isfinite(typical), typical, every)
        sinus = np.where(np.isfinite(sinus), sinus, typical)
        own = self._own.before(rows, between & (before_s >= sinus * AT_LEAST))
        own = np.where(np.isnan(own[:, :1]), draft, own)
        return {"before": before_s, "typical": typical, "sinus": sinus, **shapes.against(own)}


class PastStream:
    """Features of a recording that comes in pieces: the same bits as of the whole, one beat late."""

    def __init__(self) -> None:
        self._references = _References()
        self._rows: dict[str, Floats] = {}
        self._due = 0  # of the rows, the number of the first beat whose features are due

    def push(self, before_s: Floats, window_mv: NDArray[np.float32], usable: NDArray[np.bool_]) -> NDArray[np.float32]:
        """Take the next beats; return the features of those that are decided now, as ``ContextStream.push`` does."""
        before_s = np.asarray(before_s, np.float64)
        before_s = np.where(before_s <= LONGEST_S, before_s, np.nan)
        parts = [np.empty((0, len(FEATURES)), np.float32)]
        for start in range(0, len(before_s), _CHUNK):
            part = slice(start, start + _CHUNK)
            fresh = self._references.push(
                before_s[part], window_mv[part].reshape(-1, window_mv.shape[-1]), usable[part]
            )
            self._rows = {name: np.concatenate([self._rows.get(name, fresh[name][:0]), fresh[name]]) for name in fresh}
            parts.append(self._features(len(self._rows["before"]) - LOOK_AHEAD))
        return np.concatenate(parts)

    def finish(self) -> NDArray[np.float32]:
        """Return the features of the beat that is left; nothing follows it."""
        return self._features(len(self._rows["before"]) if self._rows else 0)

    def _features(self, stop: int) -> NDArray[np.float32]:
        if stop <= self._due:
            return np.empty((0, len(FEATURES)), np.float32)
        rows = dict(self._rows)
        computed = context.features(rows.pop("before"), rows.pop("typical"), rows.pop("sinus"), rows)[self._due : stop]
        drop = max(stop - _LOOK_BACK, 0)
        self._rows = {name: column[drop:] for name, column in self._rows.items()}
        self._due = stop - drop
        return computed
