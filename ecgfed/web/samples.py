"""Samples as ``paper.js`` reads them: base64 of 16-bit numbers."""

import base64
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: What a 16-bit number counts: microvolt; what is beyond cannot be drawn on paper either.
_PER_MV, _NONE, _LIMIT = 1000, -32768, 32767


def packed(signal_mv: NDArray[np.floating]) -> dict[str, Any]:
    """Return samples (any number,) in millivolt as base64 of 16-bit numbers of microvolts, NaN as -32768."""
    whole = np.clip(np.rint(signal_mv * _PER_MV), -_LIMIT, _LIMIT)
    whole[~np.isfinite(whole)] = _NONE
    return {"int16": base64.b64encode(whole.astype("<i2").tobytes()).decode("ascii"), "per_unit": _PER_MV}
