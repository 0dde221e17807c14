"""The self-test of the C sources: a synthetic recording with the output of Python's detector and int8 graphs."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ecgfed.domain.beats.blocks import windows_around
from ecgfed.domain.beats.windows import FS_HZ
from ecgfed.domain.signal.qrs import detect_qrs
from ecgfed.exports.device.classifier import Classifier
from ecgfed.exports.mcu.c_text import c_array

#: Time (s) and kind of each beat: N normal, A early without a P wave, V ventricular.
BEATS = (
    *((0.45, "N"), (1.27, "N"), (2.10, "N"), (2.92, "N"), (3.50, "A"), (4.47, "N"), (5.29, "N"), (5.84, "V")),
    *((6.96, "N"), (7.77, "N"), (8.60, "N"), (9.42, "V"), (10.62, "N"), (11.44, "N")),
)
LENGTH_S = 12.0
#: Offset from the R peak (ms), width (ms) and height (mV) of each wave; the P wave first.
_WAVES = {
    "N": ((-170, 22, 0.13), (-22, 8, -0.12), (0, 10, 1.15), (22, 9, -0.25), (250, 45, 0.28)),
    "V": ((0, 42, 1.45), (95, 35, -0.55), (310, 60, -0.40)),
}
_NOISE_UV, _WANDER_MV, _WANDER_HZ = 8, 0.10, 0.3
#: Labels are compared only if their probability exceeds the second highest by this margin.
MARGIN = 0.05


@dataclass(frozen=True, eq=False)
class Golden:
    """The synthetic recording and its beats.

    Attributes:
        signal_uv: (samples,) int16 microvolts at 360 Hz.
        sample: (beats,) int64 R peaks.
        label: (beats,) int64 class indices, -1 if the two most likely classes are within ``MARGIN``.
        probability: (beats,) float32 probability of the most likely class.
    """

    signal_uv: NDArray[np.int16]
    sample: NDArray[np.int64]
    label: NDArray[np.int64]
    probability: NDArray[np.float32]


def golden_signal_uv(fs_hz: float = FS_HZ) -> NDArray[np.int16]:
    """Return twelve seconds of a synthetic lead, (samples,) int16 microvolts; the same on every machine."""
    time_s = np.arange(round(LENGTH_S * fs_hz)) / fs_hz
    signal_mv = _WANDER_MV * np.sin(2 * np.pi * _WANDER_HZ * time_s)
    for at_s, kind in BEATS:
        for offset_ms, width_ms, height_mv in _WAVES["V"] if kind == "V" else _WAVES["N"][kind == "A" :]:
            signal_mv += height_mv * np.exp(-0.5 * ((time_s - at_s - offset_ms / 1e3) / (width_ms / 1e3)) ** 2)
    noise = np.random.default_rng(17).integers(-_NOISE_UV, _NOISE_UV + 1, len(time_s))
    return (np.rint(signal_mv * 1000).astype(np.int64) + noise).astype(np.int16)


def make_golden(classifier: Classifier) -> Golden:
    """Run the recording through Python's pipeline: detector, windows, RR features, int8 graphs."""
    signal_uv = golden_signal_uv()
    signal_mv = signal_uv.astype(np.float64) / 1000
    peaks = detect_qrs(signal_mv, FS_HZ)
    predictions = classifier.classify(windows_around(signal_mv, FS_HZ, peaks, rr_version=classifier.rr or 1))
    ordered = np.sort(predictions.probability, axis=1)
    clear = ordered[:, -1] - ordered[:, -2] > MARGIN if ordered.shape[1] > 1 else np.ones(len(peaks), np.bool_)
    return Golden(signal_uv, peaks, np.where(clear, predictions.label, -1), ordered[:, -1].astype(np.float32))


def example_lines(fs_hz: float) -> str:
    """Return ``example.txt``: the recording at a device's rate in millivolts, one sample per line."""
    return "".join(f"{value / 1000:.3f}\n" for value in golden_signal_uv(fs_hz).tolist())


def golden_header(golden: Golden) -> str:
    """Return ``golden.h``."""
    return "\n".join(
        [
            "/* Written by ecgfed export --target mcu: a made-up recording, and its beats as Python has them. */",
            "#ifndef ECGFED_GOLDEN_VECTORS_H\n#define ECGFED_GOLDEN_VECTORS_H\n\n#include <stdint.h>\n",
            f"#define ECGFED_GOLDEN_SAMPLES {len(golden.signal_uv)}",
            f"#define ECGFED_GOLDEN_BEATS {len(golden.sample)}\n",
            c_array("ecgfed_golden_uv", golden.signal_uv, "whole microvolts at 360 samples a second"),
            c_array("ecgfed_golden_sample", golden.sample.astype(np.int32), "R peaks"),
            c_array("ecgfed_golden_label", golden.label.astype(np.int16), "classes; -1 where two are nearly as likely"),
            c_array("ecgfed_golden_probability", golden.probability, "of the likeliest class"),
            "#endif\n",
        ]
    )
