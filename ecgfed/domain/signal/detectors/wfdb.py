"""The two detectors of WFDB for Python: xqrs, and gqrs as in PhysioNet's toolkit."""

import numpy as np

from ecgfed.domain.signal.detectors.base import Detector, Peaks, Signal, as_peaks


def _xqrs(signals_mv: Signal, fs_hz: float, lead: int, mains_hz: float) -> Peaks:
    from wfdb import processing

    del mains_hz
    return as_peaks(processing.xqrs_detect(sig=signals_mv[lead], fs=fs_hz, verbose=False), signals_mv.shape[1])


def _gqrs(signals_mv: Signal, fs_hz: float, lead: int, mains_hz: float) -> Peaks:
    from wfdb import processing

    del mains_hz
    counts = np.rint(signals_mv[lead] * 200)  # it works on a recorder's whole numbers
    return as_peaks(processing.gqrs_detect(d_sig=counts, fs=fs_hz, adc_gain=200.0, adc_zero=0), len(counts))


#: xqrs learns with a wavelet of a width in samples: at 1000 Hz it finds no clean beat, at 100 Hz it misses slow ones.
XQRS_HZ = (125.0, 800.0)
DETECTORS = (
    Detector("xqrs", _xqrs, "wfdb", rates_hz=XQRS_HZ, modules=("wfdb",)),
    Detector("gqrs", _gqrs, "wfdb", modules=("wfdb",)),
)
