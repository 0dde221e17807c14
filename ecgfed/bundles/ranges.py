"""What an activation is quantised between: three rules over the values it takes on training beats."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ecgfed.bundles.quantise import Range, quantised

#: The share of the values that ``percentile`` leaves out at either end.
LEFT_OUT = 1e-4
#: The shares of the whole range that ``least_squares`` tries, and at how many values it looks.
SHARES, LOOKED_AT = np.linspace(1.0, 0.4, 31), 1 << 17


def whole(values: NDArray[np.float32]) -> Range:
    """From the least to the largest value."""
    return _with_zero(float(values.min()), float(values.max()))


def percentile(values: NDArray[np.float32]) -> Range:
    """Without the ten-thousandth of the values that lies lowest and that which lies highest."""
    low, high = np.quantile(values, (LEFT_OUT, 1 - LEFT_OUT))
    return _with_zero(float(low), float(high))


def least_squares(values: NDArray[np.float32]) -> Range:
    """The share of the whole range at which int8 is nearest to the values, by the mean square."""
    every = -(-values.size // LOOKED_AT)
    some, full = values.ravel()[::every], whole(values)
    tried = [Range(full.low * share, full.high * share) for share in SHARES.tolist()]
    return min(tried, key=lambda one: _mean_square(some, one))


#: Every rule by its name.
RULES: dict[str, Callable[[NDArray[np.float32]], Range]] = {
    "whole": whole,
    "percentile": percentile,
    "least-squares": least_squares,
}


def _with_zero(low: float, high: float) -> Range:
    return Range(min(low, 0.0), max(high, 0.0))


def _mean_square(values: NDArray[np.float32], between: Range) -> float:
    steps = quantised(values, between.scale, between.zero_point).astype(np.float32)
    back = (steps - np.float32(between.zero_point)) * between.scale
    return float(np.square(back - values, dtype=np.float64).mean())
