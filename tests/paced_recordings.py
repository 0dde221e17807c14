"""A recording of wide beats, some of them behind a synthetic pacing spike."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ecgfed.domain.record.recording import Recording
from ecgfed.testing.ecg import synthetic_ecg

Floats = NDArray[np.float64]
#: A beat of ``synthetic_ecg`` is widened so much; the spike precedes the R peak by so many seconds.
WIDENED, BEFORE_S = 1.8, 0.080


def spikes(at_s: Floats, fs_hz: float, samples: int, tail: float) -> Floats:
    """Pulses of 0.5 ms after a recorder's low-pass of 100 Hz, height 1; a unipolar one has a tail of 15 ms."""
    time_s = np.arange(samples) / fs_hz - at_s[:, None]
    pulse = np.exp(-0.5 * (time_s / 0.003) ** 2)
    discharge = np.where(time_s > 0.003, np.exp(-np.clip(time_s, 0, None) / 0.015), 0)
    return np.asarray((pulse + tail * discharge).sum(0))


def paced_recording(
    fs_hz: float, where: slice, *, height_mv: float = 0.8, tail: float = 0.0
) -> tuple[Recording, NDArray[np.int64]]:
    """Return a minute and a half of wide beats, some of them with a spike, and their R peaks."""
    ecg = synthetic_ecg(WIDENED * fs_hz, 90 / WIDENED, rr_s=0.5)
    r_s = ecg.r_s * WIDENED
    signals_mv = ecg.signals_mv.copy()
    signals_mv += np.array([[height_mv], [-0.7 * height_mv]]) * spikes(
        r_s[where] - BEFORE_S, fs_hz, signals_mv.shape[1], tail
    )
    recording = Recording("wide", Path("wide"), "MLII", ("MLII", "V5"), fs_hz, signals_mv, ())
    return recording, np.rint(r_s * fs_hz).astype(np.int64)
