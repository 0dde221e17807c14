"""How quiet a lead is within a long interval between two beats, beside the beats around it."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ecgfed.domain.record.recording import Recording
from ecgfed.domain.signal.filters import band_pass, bridge_samples, fill_gaps

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: The quiet part is after the T wave and before the next QRS; a beat reaches so far from its R peak; so many beats on
#: each side are those around (s).
AFTER_T_S, BEFORE_QRS_S, QRS_S, NEIGHBOURS = 0.45, 0.12, 0.1, 10
#: The median QRS complex of the beats around, so far from the R peak (s) and in this pass-band (Hz), is searched for.
TEMPLATE_S, TEMPLATE_HZ = 0.06, (5.0, 30.0)
#: A wave is a small QRS complex when it is as high as this share of the usual one and so many times the noise, and
#: correlates with the usual one so well.
SMALL, ABOVE_NOISE, ALIKE = 0.05, 2.0, 0.85
#: What the filters need on both sides.
_FILTER_S = 2.1


@dataclass(frozen=True)
class QuietPart:
    """What a lead shows within a long interval.

    Attributes:
        movement: from its lowest to its highest value, as a share of the usual beat's.
        small_qrs: a wave in it has the form of the QRS complexes around, at ``SMALL`` of their height or more.
        noise: root of its median energy over the length of a QRS complex, as a share of the usual QRS complex.
    """

    movement: float
    small_qrs: bool
    noise: float


def quiet_part(
    recording: Recording, row: int, peaks: Ints, interval: int, known: dict[tuple[int, int], tuple[float, Floats]]
) -> QuietPart:
    """Look at a lead within an interval.

    Args:
        recording: it.
        row: of the lead.
        peaks: (beats,) int64 increasing R peaks.
        interval: number of the beat that it follows.
        known: height and shape of beats by row and sample, which neighbouring intervals share; it is added to.
    """
    fs_hz = recording.fs_hz
    around = peaks[max(0, interval - NEIGHBOURS + 1) : interval + NEIGHBOURS + 1].tolist()
    start = int(peaks[interval]) + round(AFTER_T_S * fs_hz)
    stop = int(peaks[interval + 1]) - round(BEFORE_QRS_S * fs_hz)
    half, reach = round(QRS_S * fs_hz), round(TEMPLATE_S * fs_hz)
    heights, shapes = [], []
    for at in around:
        if (row, at) not in known:
            passed, sharp = _passed(recording, row, at - half, at + half + 1)
            shape = sharp[half - reach : half + reach + 1].copy() if len(sharp) == 2 * half + 1 else np.empty(0)
            known[row, at] = _height(passed), shape
        height, shape = known[row, at]
        heights.append(height)
        if len(shape):
            shapes.append(shape)
    passed, sharp = _passed(recording, row, start, stop)
    usual = float(np.median(heights))
    movement = _height(passed) / usual if usual > 0 else 0.0
    return QuietPart(movement, *_search(sharp, np.median(shapes, axis=0) if shapes else np.empty(0)))


def _search(signal: Floats, template: Floats) -> tuple[bool, float]:
    """Say whether a signal holds a small copy of a template, and how large its energy is beside the template's."""
    energy = float(np.square(template).sum())
    if energy <= 0 or len(signal) < len(template):
        return False, 0.0
    fit = np.correlate(signal, template, "valid") / energy
    local_energy = np.convolve(np.square(signal), np.ones(len(template)), "valid") / energy
    noise = float(np.sqrt(max(np.median(local_energy), 0.0)))
    small = (fit >= max(SMALL, ABOVE_NOISE * noise)) & (fit >= ALIKE * np.sqrt(np.maximum(local_energy, 0.0)))
    return bool(small.any()), noise


def _passed(recording: Recording, row: int, start: int, stop: int) -> tuple[Floats, Floats]:
    """Return a part of a lead through the band-pass, without what is missing, and through that of the template."""
    from scipy.signal import sosfiltfilt  # late: predict hardly ever needs it

    fs_hz = recording.fs_hz
    margin = round(_FILTER_S * fs_hz)
    first = max(start - margin, 0)
    signal: Floats = recording.read(first, min(stop + margin, recording.samples), [row])[0]
    missing = ~np.isfinite(signal)
    if missing.all():
        return np.empty(0), np.empty(0)
    filled = fill_gaps(signal, bridge_samples(fs_hz))[0]
    part = slice(max(start, 0) - first, max(stop - first, 0))
    passed = np.asarray(band_pass(filled, fs_hz)[part][~missing[part]])
    return passed, np.asarray(sosfiltfilt(_band(fs_hz), filled)[part], np.float64)


@lru_cache(maxsize=1)
def _band(fs_hz: float) -> Floats:
    """Return the band-pass of the template as second-order sections."""
    from scipy.signal import butter

    band = (TEMPLATE_HZ[0], min(TEMPLATE_HZ[1], 0.45 * fs_hz))
    return np.asarray(butter(2, band, "bandpass", fs=fs_hz, output="sos"))


def _height(signal_mv: Floats) -> float:
    """Return from the lowest to the highest value, 0 where there is none."""
    return float(np.ptp(signal_mv)) if len(signal_mv) else 0.0
