"""The filter that brings a device's own rate to 360 samples a second, for C."""

from math import gcd

import numpy as np

from ecgfed.beats.windows import FS_HZ
from ecgfed.errors import OptionError
from ecgfed.mcu.c_text import c_array
from ecgfed.signal.fir import REACH, low_pass

#: Rates that a QRS complex can be found at, and the most taps that a rate may need (8 kB).
LEAST_HZ, MOST_HZ, MOST_TAPS = 100, 2000, 2048


def check_rate(fs_hz: int) -> tuple[int, int]:
    """Return (up, down) in lowest terms: 360 over the rate.

    Raises:
        OptionError: a rate out of bounds, or one that has so little in common with 360 that its filter is too long.
    """
    wanted = f"whole samples a second, {LEAST_HZ} to {MOST_HZ}"
    if isinstance(fs_hz, bool) or not isinstance(fs_hz, int) or not LEAST_HZ <= fs_hz <= MOST_HZ:
        raise OptionError("--fs", f"{fs_hz!r:.40}", wanted)
    common = gcd(round(FS_HZ), fs_hz)
    up, down = round(FS_HZ) // common, fs_hz // common
    taps = 2 * REACH * max(up, down) + 1
    if taps > MOST_TAPS:
        raise OptionError(
            "--fs", f"{fs_hz}, whose filter has {taps:,} taps", f"at most {MOST_TAPS:,}", "use 125, 250 or 500"
        )
    return up, down


def rate_header(fs_hz: int) -> str:
    """Return ``ecgfed_rate_taps.h``: the taps of ``ecgfed.signal.fir.resampled``, for every phase together."""
    up, down = check_rate(fs_hz)
    half = 0 if up == down else REACH * max(up, down)
    taps = np.ones(1) if up == down else low_pass(2 * half + 1, 1.0 / max(up, down)) * up
    sizes = {
        "DEVICE_HZ": fs_hz,
        "RATE_UP": up,
        "RATE_DOWN": down,
        "RATE_HALF": half,
        "RATE_HISTORY": 2 * half // up + 1,
    }
    defines = "".join(f"#define ECGFED_{name} {value}\n" for name, value in sizes.items())
    return (
        f"/* Written by ecgfed export --target mcu: from {fs_hz} samples a second to 360. */\n"
        "#ifndef ECGFED_RATE_TAPS_H\n#define ECGFED_RATE_TAPS_H\n\n"
        f"{defines}\n{c_array('ecgfed_rate_taps', taps.astype(np.float32))}\n#endif\n"
    )
