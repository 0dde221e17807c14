"""The filter that resamples a device's sampling rate to 360 Hz, for C."""

from math import gcd

import numpy as np

from ecgfed.base.errors import OptionError
from ecgfed.domain.beats.windows import FS_HZ
from ecgfed.domain.signal.fir import REACH, low_pass
from ecgfed.exports.mcu.c_text import c_array

#: Sampling rates that are sufficient to detect QRS complexes, Hz; and the maximum number of taps (8 kB).
MIN_HZ, MAX_HZ, MAX_TAPS = 100, 2000, 2048


def check_rate(fs_hz: int) -> tuple[int, int]:
    """Return the ratio 360 / rate in lowest terms as (up, down).

    Raises:
        OptionError: the rate is out of range, or its ratio to 360 needs too long a filter.
    """
    expected = f"whole samples a second, {MIN_HZ} to {MAX_HZ}"
    if isinstance(fs_hz, bool) or not isinstance(fs_hz, int) or not MIN_HZ <= fs_hz <= MAX_HZ:
        raise OptionError("fs_hz", f"{fs_hz!r:.40}", expected)
    common = gcd(round(FS_HZ), fs_hz)
    up, down = round(FS_HZ) // common, fs_hz // common
    taps = 2 * REACH * max(up, down) + 1
    if taps > MAX_TAPS:
        actual = f"{fs_hz}, whose filter has {taps:,} taps"
        raise OptionError("fs_hz", actual, f"at most {MAX_TAPS:,}", "use 125, 250 or 500")
    return up, down


def rate_header(fs_hz: int) -> str:
    """Return ``ecgfed_rate_taps.h``: the taps of ``ecgfed.domain.signal.fir.resampled`` for all phases."""
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
