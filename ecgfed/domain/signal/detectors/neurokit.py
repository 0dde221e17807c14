"""NeuroKit2's detectors, each with the cleaning it is meant for (Makowski et al., Behav Res 53:1689-1696, 2021)."""

import math

from ecgfed.domain.signal.detectors.base import Detector, Find, Peaks, Signal, as_peaks
from ecgfed.domain.signal.qrs import MIN_FS_HZ

#: Method -> its cleaning; NeuroKit's own where it has none, which takes out the mains and assumes 50 Hz unless told.
_CLEANING = {
    "neurokit": "neurokit",
    "pantompkins1985": "pantompkins1985",
    "hamilton2002": "hamilton2002",
    "elgendi2010": "elgendi2010",
    "engzeemod2012": "engzeemod2012",
    "manikandan2012": "neurokit",
    "rodrigues2021": "neurokit",
    "nabian2018": "neurokit",
    "emrich2023": "emrich2023",
}
#: Method -> the packages it needs besides; their extra brings NeuroKit2 as well, so they are named first.
_ALSO = {"emrich2023": ("ts2vg",)}
#: Its own cleaning fails below twice the mains; engzeemod2012's has a band-stop at 48 to 52 Hz, whatever the mains,
#: and loses beats far above 1000 Hz.
_RATES_HZ = {
    **{method: (120.0, math.inf) for method, cleaning in _CLEANING.items() if cleaning == "neurokit"},
    "engzeemod2012": (105.0, 1000.0),
}


def _find(method: str, cleaning: str) -> Find:
    def find(signals_mv: Signal, fs_hz: float, lead: int, mains_hz: float) -> Peaks:
        import neurokit2

        options = {"powerline": mains_hz} if cleaning == "neurokit" else {}
        rate = int(fs_hz) if fs_hz == int(fs_hz) else fs_hz
        clean = neurokit2.ecg_clean(signals_mv[lead], sampling_rate=rate, method=cleaning, **options)
        peaks = neurokit2.ecg_findpeaks(clean, sampling_rate=rate, method=method)["ECG_R_Peaks"]
        return as_peaks(peaks, signals_mv.shape[1])

    return find


DETECTORS = tuple(
    Detector(
        method,
        _find(method, cleaning),
        "neurokit2",
        rates_hz=_RATES_HZ.get(method, (MIN_FS_HZ, math.inf)),
        modules=(*_ALSO.get(method, ()), "neurokit2"),
    )
    for method, cleaning in _CLEANING.items()
)
