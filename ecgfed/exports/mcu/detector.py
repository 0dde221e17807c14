"""The detector's weights, its early thresholds and the band-pass filter's taps as C headers, as Python uses them."""

import math

import numpy as np

from ecgfed.domain.beats.extract import MATCH_S
from ecgfed.domain.beats.stream import PARTS, STEP_S
from ecgfed.domain.beats.windows import FS_HZ
from ecgfed.domain.signal.filters import band_pass_taps
from ecgfed.domain.signal.qrs import DELAY_S
from ecgfed.domain.signal.qrs_early import AT_MOST_S, HOPELESS, MARKS
from ecgfed.domain.signal.qrs_net import detector_weights
from ecgfed.domain.signal.qrs_signal import RATE_HZ
from ecgfed.exports.mcu.c_text import c_array

#: Log odds of 1 in C.
_ODDS = 1 << 15
#: Layers of the first, second and third network.
LAYERS = ("lead", "mix", "first", "around", "tie", "beat", "place", "near", "pick")
_HEAD = (
    "/* Written by ecgfed export --target mcu. {what} */\n#ifndef {guard}\n#define {guard}\n\n#include <stdint.h>\n\n"
)


def qrs_weights_header() -> str:
    """Return ``ecgfed_qrs_weights.h``: each layer's weights as [output][input], in units of 1/256, and biases.

    The second layer of the first network takes the mean and the maximum over the leads. For a single lead both are the
    same, so their weights are added.
    """
    stored = detector_weights()
    parts = [_HEAD.format(what="The R peak detector's networks.", guard="ECGFED_QRS_WEIGHTS_H")]
    for name in LAYERS:
        weight = stored[name].astype(np.int64)
        if name == "mix":
            half = len(weight) // 2
            weight = weight[:half] + weight[half:]
        if np.abs(weight).max() > np.iinfo(np.int16).max:
            raise ValueError(f"{name} does not fit int16")
        parts.append(c_array(f"ecgfed_qrs_{name}", np.ascontiguousarray(weight.T).astype(np.int16)))
        parts.append(c_array(f"ecgfed_qrs_{name}_bias", stored[f"{name}_bias"].astype(np.int32)))
    return "\n".join([*parts, "#endif\n"])


def early_header() -> str:
    """Return ``ecgfed_early_marks.h``: when R peaks are announced, and above which log odds."""
    ages = np.array([round(age_s * RATE_HZ) for age_s, _ in MARKS], np.int32)
    odds = np.array([math.floor(least * _ODDS) for _, least in MARKS], np.int32)
    numbers = {
        "MARKS": len(MARKS),
        "HOPELESS": f"({math.floor(HOPELESS * _ODDS)})",
        "AT_MOST": math.floor(AT_MOST_S * FS_HZ),
        "MATCH": round(MATCH_S * FS_HZ),
        "EXPIRES": math.ceil(round(DELAY_S * FS_HZ, 6)),
        "STEP": round(STEP_S * FS_HZ),
        "PARTS": PARTS,
    }
    lines = [f"#define ECGFED_EARLY_{name} {number}\n" for name, number in numbers.items()]
    arrays = [c_array("ecgfed_early_age", ages), c_array("ecgfed_early_odds", odds)]
    head = _HEAD.format(what="When R peaks are announced.", guard="ECGFED_EARLY_MARKS_H")
    return "\n".join([head + "".join(lines), *arrays, "#endif\n"])


def taps_header() -> str:
    """Return ``ecgfed_taps.h``: the symmetric taps from the central one on, for samples in half microvolts."""
    taps = band_pass_taps(FS_HZ)
    half = (taps[len(taps) // 2 :] / 2000).astype(np.float32)
    head = _HEAD.format(what="The band-pass, 0.5 to 40 Hz at 360 samples a second.", guard="ECGFED_TAPS_H")
    return head + c_array("ecgfed_taps", half) + "\n#endif\n"
