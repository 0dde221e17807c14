"""Calibration of activation ranges: three rules over values on training beats."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ecgfed.exports.bundles.quantise import QuantRange, quantised

#: Fraction of values that ``percentile`` cuts off at either end.
TAIL = 1e-4
#: Fractions of the full range that ``min_squared_error`` tries, and the maximum number of values it uses.
SHARES, MAX_VALUES = np.linspace(1.0, 0.4, 31), 1 << 17


def full_range(values: NDArray[np.float32]) -> QuantRange:
    """Range from the minimum to the maximum."""
    return _with_zero(float(values.min()), float(values.max()))


def percentile(values: NDArray[np.float32]) -> QuantRange:
    """Range without the lowest and the highest 0.01% of values."""
    low, high = np.quantile(values, (TAIL, 1 - TAIL))
    return _with_zero(float(low), float(high))


def min_squared_error(values: NDArray[np.float32]) -> QuantRange:
    """Fraction of the full range with the smallest mean squared quantisation error."""
    every = -(-values.size // MAX_VALUES)
    some, full = values.ravel()[::every], full_range(values)
    tried = [QuantRange(full.low * share, full.high * share) for share in SHARES.tolist()]
    return min(tried, key=lambda candidate: _mean_square(some, candidate))


#: Rules by name.
RULES: dict[str, Callable[[NDArray[np.float32]], QuantRange]] = {
    "whole": full_range,
    "percentile": percentile,
    "least-squares": min_squared_error,
}


def _with_zero(low: float, high: float) -> QuantRange:
    return QuantRange(min(low, 0.0), max(high, 0.0))


def _mean_square(values: NDArray[np.float32], between: QuantRange) -> float:
    steps = quantised(values, between.scale, between.zero_point).astype(np.float32)
    back = (steps - np.float32(between.zero_point)) * between.scale
    return float(np.square(back - values, dtype=np.float64).mean())
