"""Encode samples for ``paper.js``: base64 of 16-bit integers."""

import base64
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Integers per millivolt, i.e. microvolts; the code of a missing sample; larger values are clipped.
_PER_MV, _NONE, _LIMIT = 1000, -32768, 32767


def packed(signal_mv: NDArray[np.floating]) -> dict[str, Any]:
    """Return samples (n,) in millivolts as base64 of little-endian int16 microvolts, with NaN as -32768."""
    microvolts = np.clip(np.rint(signal_mv * _PER_MV), -_LIMIT, _LIMIT)
    microvolts[~np.isfinite(microvolts)] = _NONE
    return {"int16": base64.b64encode(microvolts.astype("<i2").tobytes()).decode("ascii"), "per_unit": _PER_MV}
