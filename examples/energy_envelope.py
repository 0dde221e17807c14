"""A detector of one's own: the energy of the slope, after Pan and Tompkins (IEEE Trans Biomed Eng 32:230, 1985).

    ecgfed detect records/demo01 --detector examples/energy_envelope.py:ENVELOPE --out peaks

The signal is band-passed to where QRS complexes are (5 to 15 Hz, which leaves out the mains at 50 and 60 Hz alike); the
squared slope, averaged over 120 ms, has one hump a beat. A hump counts when it reaches a quarter of the usual largest
of the seconds around it, as theirs does. There is no search-back, so a beat much smaller than its neighbours is missed.
"""

import numpy as np
from scipy.ndimage import median_filter, uniform_filter1d
from scipy.signal import butter, find_peaks, sosfiltfilt

from ecgfed.domain.signal.detectors import Detector, Peaks, Signal

BAND_HZ = (5.0, 15.0)
WINDOW_S, REFRACTORY_S, NEAR_S = 0.12, 0.25, 0.08
AROUND = 11  # seconds


def find(signals_mv: Signal, fs_hz: float, lead: int, mains_hz: float) -> Peaks:
    """Find the R peaks on one lead; arguments and result as ``ecgfed.domain.signal.detectors.Detector`` says."""
    band = sosfiltfilt(butter(2, BAND_HZ, "bandpass", fs=fs_hz, output="sos"), signals_mv[lead])
    energy = uniform_filter1d(np.gradient(band) ** 2, round(WINDOW_S * fs_hz))
    humps, _ = find_peaks(energy, distance=round(REFRACTORY_S * fs_hz))
    second = round(fs_hz)
    largest = [energy[start : start + 2 * second].max() for start in range(0, len(energy), second)]
    usual = median_filter(largest, size=AROUND, mode="nearest")[humps // second]
    reach = round(NEAR_S * fs_hz)
    peaks = []
    for hump in humps[energy[humps] > usual / 4]:
        start = max(0, hump - reach)
        peaks.append(start + int(np.abs(band[start : hump + reach + 1]).argmax()))
    return np.unique(np.array(peaks, dtype=np.int64))


ENVELOPE = Detector("envelope", find, "after Pan and Tompkins, 1985")
