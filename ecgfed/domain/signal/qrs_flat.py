"""Where no lead of a stream has changed for seconds: a disconnected electrode, a saturated amplifier, zeros.

The QRS detector takes such a line for a gap: it ends there and begins anew with the first sample that moves, so that
the levels of an empty line hide no beat behind it.
"""

import numpy as np
from numpy.typing import NDArray

#: A line is flat while it stays within so many microvolt for so many parts of so many seconds: what 5 microvolt of an
#: amplifier's own noise need, and less than R waves of 50 microvolt. Extremes are compared in whole microvolts, so that
#: the answer does not depend on how a difference of millivolts rounds.
FLAT_UV, PART_S, PARTS = 40, 0.5, 6
_LIMIT_MV = 1000.0


class FlatLine:
    """Marks the samples of a stream on which every lead is flat; the marks do not depend on how it is cut into chunks.

    Args:
        fs_hz: sampling frequency in Hz.
        leads: how many leads a chunk has.
    """

    def __init__(self, fs_hz: float, leads: int) -> None:
        self.width, self.at = max(1, round(PART_S * fs_hz)), 0
        # extremes of the last whole parts, and of the part that is under way; without any sample (inf, -inf)
        self.low, self.high = np.full((leads, PARTS), -np.inf), np.full((leads, PARTS), np.inf)
        self.part_low, self.part_high = np.full(leads, np.inf), np.full(leads, -np.inf)

    def mask(self, chunk_mv: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return which samples (samples,) of the next (leads, samples) millivolt lie on a flat line; NaN is none."""
        samples = chunk_mv.shape[1]
        flat = np.zeros(samples, np.bool_)
        if not samples:
            return flat
        parts = np.arange(self.at // self.width, (self.at + samples - 1) // self.width + 1)
        starts = np.maximum(parts * self.width - self.at, 0)
        low = _microvolts(np.fmin.reduceat(chunk_mv, starts, axis=1))
        high = _microvolts(np.fmax.reduceat(chunk_mv, starts, axis=1))
        low[np.isnan(low)], high[np.isnan(high)] = np.inf, -np.inf
        low[:, 0], high[:, 0] = np.minimum(low[:, 0], self.part_low), np.maximum(high[:, 0], self.part_high)
        lows, highs = np.concatenate([self.low, low], axis=1), np.concatenate([self.high, high], axis=1)
        view = np.lib.stride_tricks.sliding_window_view
        if len(parts) == 1:  # a short piece of a stream
            before_low, before_high = self.low.min(axis=1, keepdims=True), self.high.max(axis=1, keepdims=True)
        else:
            before_low, before_high = view(lows, PARTS, axis=1).min(axis=2), view(highs, PARTS, axis=1).max(axis=2)
        stops = np.append(starts[1:], samples)
        still = (before_high - before_low <= FLAT_UV).all(axis=0) & (before_high >= before_low).any(axis=0)
        for part in np.flatnonzero(still[: len(parts)]):
            inside = slice(starts[part], stops[part])
            lowest, highest = before_low[:, part], before_high[:, part]
            if part == 0:
                lowest, highest = np.minimum(lowest, self.part_low), np.maximum(highest, self.part_high)
            values = _microvolts(chunk_mv[:, inside])
            down = np.fmin.accumulate(np.column_stack([lowest, values]), axis=1)[:, 1:]
            up = np.fmax.accumulate(np.column_stack([highest, values]), axis=1)[:, 1:]
            flat[inside] = (up - down <= FLAT_UV).all(axis=0)
        self.at += samples
        rounded = self.at % self.width == 0
        complete = lows.shape[1] - (0 if rounded else 1)
        self.low, self.high = lows[:, complete - PARTS : complete].copy(), highs[:, complete - PARTS : complete].copy()
        leads = len(chunk_mv)
        self.part_low = np.full(leads, np.inf) if rounded else low[:, -1].copy()
        self.part_high = np.full(leads, -np.inf) if rounded else high[:, -1].copy()
        return flat


def _microvolts(mv: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return whole microvolts, as the detector takes them; NaN stays."""
    return np.asarray(np.rint(np.clip(mv, -_LIMIT_MV, _LIMIT_MV) * 1000))
