"""Filters and weights of the monitor in C (quality and pacing), from the arrays that Python uses."""

import numpy as np

from ecgfed.domain.beats.windows import FS_HZ
from ecgfed.domain.signal import fir, pacing, pacing_features
from ecgfed.domain.signal.quality import NOISE_BAND_HZ, NOISE_FILTER_S
from ecgfed.exports.mcu.c_text import c_array, c_float

#: Distances between samples at 250 and at 360 Hz are multiples of 1/9000 s.
_DISTANCES_HZ = 9000


def monitor_header() -> str:
    """Return ``ecgfed_monitor_taps.h``: symmetric taps from the central one on, and the regression's weights."""
    noise = fir.band_pass(int(NOISE_FILTER_S * FS_HZ) // 2 * 2 + 1, *NOISE_BAND_HZ, FS_HZ)
    band = pacing.band_of(FS_HZ)
    assert band is not None
    reach = round(pacing_features.REACH_S * _DISTANCES_HZ)
    kernel = pacing_features.low_pass_kernel(np.arange(reach) / _DISTANCES_HZ, band.limit_hz)
    high_pass = pacing_features.high_pass_taps()
    half = {"NOISE_HALF": len(noise) // 2, "PACING_HALF": len(high_pass) // 2}
    sizes = half | {"PACING_REACH": reach, "PACING_FEATURES": len(band.weights)}
    arrays = {
        "noise_taps": noise[half["NOISE_HALF"] :],
        "pacing_kernel": kernel,
        "pacing_taps": high_pass[half["PACING_HALF"] :],
        "pacing_weights": band.weights,
    }
    return (
        "/* Written by ecgfed export --target mcu. */\n"
        "#ifndef ECGFED_MONITOR_TAPS_H\n#define ECGFED_MONITOR_TAPS_H\n\n"
        + "".join(f"#define ECGFED_{name} {value}\n" for name, value in sizes.items())
        + f"#define ECGFED_PACING_INTERCEPT {c_float(band.intercept)}\n\n"
        + "\n".join(c_array(f"ecgfed_{name}", values.astype(np.float32)) for name, values in arrays.items())
        + "\n#endif\n"
    )
