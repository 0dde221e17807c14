"""Checks of QRS detectors (``ecgfed.domain.signal.detectors.Detector``), built-in and external."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ecgfed.base.errors import EcgfedError, RecordError
from ecgfed.base.text import count_of
from ecgfed.domain.signal.detectors import Detector, Peaks, Signal, detect_r_peaks, detector_option
from ecgfed.domain.signal.detectors.base import DEFAULT_MAINS_HZ, MAINS_HZ
from ecgfed.domain.signal.detectors.detect import peaks_problem
from ecgfed.domain.signal.peaks import detect_around_gaps
from ecgfed.testing.checks import CheckReport, PluginCheck, expect, run_checks
from ecgfed.testing.ecg import SyntheticEcg, synthetic_ecg

#: Maximum distance of a peak from its beat (EC57's match window).
WITHIN_S = 0.150
#: Learning time at a recording's start and after a gap, and signal needed after a beat.
LEARNS_S, NEEDS_AFTER_S = 2.0, 1.0
#: In a clean ECG, at most 1 of this many peaks may be a false positive.
PEAKS_PER_FALSE_POSITIVE = 20
#: Sampling frequencies, with a mean interval between beats for each: 50, 75 and 120 beats a minute.
RATES = ((100.0, 0.8), (125.0, 1.2), (200.0, 0.8), (250.0, 0.5), (360.0, 0.8), (500.0, 1.2), (1000.0, 0.8))


def check_detector(detector: Detector | str) -> CheckReport:
    """Check that a detector meets the contract of ``ecgfed.domain.signal.detectors.Detector``.

    Args:
        detector: the detector; a registered name; or ``FILE.py:NAME`` or ``package.module:NAME``, which is loaded.

    Returns:
        A report, to be printed.

    Raises:
        AssertionError: the first failed check, in one sentence.
        OptionError: unknown detector, or one that is not installed.
    """
    loaded = detector_option(detector)
    return run_checks(loaded.name, CHECKS, loaded)


def _direct(detector: Detector, signals_mv: Signal, fs_hz: float) -> Peaks:
    """Call the detector itself, with the leads it would get from a recording without gaps."""
    leads_mv = signals_mv if detector.every_lead else signals_mv[:1]
    return detector.find(leads_mv, fs_hz, 0, DEFAULT_MAINS_HZ)


def _usual(detector: Detector, **more: float) -> SyntheticEcg:
    """Return a recording at 360 Hz, or at the nearest sampling frequency that the detector supports."""
    low, high = detector.rates_hz
    return synthetic_ecg(min(max(360.0, low), high), 30.0, noise_mv=0.005, **more)  # type: ignore[arg-type]


def _expect_beats(
    peaks: Peaks, ecg: SyntheticEcg, what: str, *, silent_s: tuple[float, float] = (0.0, 0.0), check_extra: bool = True
) -> None:
    """Expect every beat once, except in the first seconds and after a silence, and few false positives."""
    at_s, last_s = peaks / ecg.fs_hz, ecg.signals_mv.shape[1] / ecg.fs_hz
    due = (ecg.r_s >= LEARNS_S) & (ecg.r_s <= last_s - NEEDS_AFTER_S)
    if silent_s[1]:
        due &= (ecg.r_s < silent_s[0] - NEEDS_AFTER_S) | (ecg.r_s > silent_s[1] + LEARNS_S)
    distance = np.abs(at_s[:, None] - ecg.r_s)
    missed = ecg.r_s[due & ((distance > WITHIN_S).all(axis=0))] if len(at_s) else ecg.r_s[due]
    first = f", the first at {missed[0]:.1f} s" if len(missed) else ""
    expect(not len(missed), f"{what} it misses {len(missed)} of {count_of(int(due.sum()), 'beat')}{first}")
    if check_extra:
        settled = at_s >= LEARNS_S
        nearest, near = distance.argmin(axis=1)[settled], (distance.min(axis=1) <= WITHIN_S)[settled]
        extra = int(settled.sum()) - len(np.unique(nearest[near]))  # at most one peak per beat is correct
        expect(
            extra * PEAKS_PER_FALSE_POSITIVE <= settled.sum(), f"{what} {extra} of its {len(at_s)} peaks are no beats"
        )


def _returns_valid_peaks(detector: Detector) -> None:
    ecg = _usual(detector)
    peaks = _direct(detector, ecg.signals_mv.copy(), ecg.fs_hz)
    expect(isinstance(peaks, np.ndarray), f"find returns {type(peaks).__name__}, not a NumPy array")
    problem = peaks_problem(peaks, ecg.signals_mv.shape[1])
    expect(not problem, f"find returns {problem}")


def _leaves_signal_unchanged(detector: Detector) -> None:
    ecg = _usual(detector)
    signals_mv = ecg.signals_mv.copy()
    _direct(detector, signals_mv, ecg.fs_hz)
    expect(np.array_equal(signals_mv, ecg.signals_mv), "find changes its input signal")


def _is_deterministic(detector: Detector) -> None:
    ecg, second_ecg = _usual(detector), _usual(detector, rr_s=0.6, seed=1)
    first, again = (_direct(detector, ecg.signals_mv.copy(), ecg.fs_hz) for _ in range(2))
    expect(np.array_equal(first, again), "find returns other peaks when called again with the same signal")
    _direct(detector, second_ecg.signals_mv, second_ecg.fs_hz)
    again = _direct(detector, ecg.signals_mv.copy(), ecg.fs_hz)
    expect(np.array_equal(first, again), "find returns other peaks after another recording: it has hidden state")


def _detects_clean_beats(detector: Detector) -> None:
    low, high = detector.rates_hz
    rates = [(fs_hz, rr_s) for fs_hz, rr_s in RATES if low <= fs_hz <= high]
    expect(len(rates) >= 2, f"it supports {low:g} to {high:g} Hz, fewer than two of the tested sampling frequencies")
    for fs_hz, rr_s in rates:
        ecg = synthetic_ecg(fs_hz, 30.0, rr_s=rr_s, noise_mv=0.005)
        peaks = detect_r_peaks(ecg.signals_mv, fs_hz, detector=detector)
        _expect_beats(peaks, ecg, f"at {fs_hz:g} Hz and {60 / rr_s:.0f} beats a minute")


def _uses_selected_lead(detector: Detector) -> None:
    ecg = _usual(detector)
    noise = np.random.default_rng(1).normal(size=ecg.signals_mv.shape[1])
    for lead in (0, 1):
        signals = np.stack([ecg.signals_mv[0], noise] if lead == 0 else [noise, ecg.signals_mv[0]])
        peaks = detect_r_peaks(signals, ecg.fs_hz, lead=lead, detector=detector)
        _expect_beats(peaks, ecg, f"with lead {lead} in use and noise on the other")


def _rejects_signals_without_beats(detector: Detector) -> None:
    ecg = _usual(detector)
    count = ecg.signals_mv.shape[1]
    inputs: dict[str, NDArray[np.float64]] = {
        "an empty signal": np.empty(0),
        "one of 1 s": ecg.signals_mv[0, : round(ecg.fs_hz)],
        "a flat one": np.zeros(count),
        "a flat one off zero": np.full(count, 1.25),
        "one without a valid sample": np.full(count, np.nan),
    }
    for what, signal in inputs.items():
        for detect in (detect_r_peaks, detect_around_gaps):
            try:
                count_detected = len(detect(signal, ecg.fs_hz, detector=detector))
            except RecordError:
                continue
            expect(False, f"{what} gives {count_of(count_detected, 'beat')} instead of a RecordError")
    half = np.where(np.arange(count) < count // 2, ecg.signals_mv[0], 0.5)
    peaks = detect_around_gaps(half, ecg.fs_hz, detector=detector)
    late = int((peaks > count // 2 + ecg.fs_hz).sum())
    expect(not late, f"it marks {count_of(late, 'beat')} after the electrode came off")


def _continues_after_gap(detector: Detector) -> None:
    ecg = _usual(detector)
    for first_s, last_s in ((10.0, 10.5), (12.0, 17.0)):
        signal = ecg.signals_mv[0].copy()
        start, stop = round(first_s * ecg.fs_hz), round(last_s * ecg.fs_hz)
        signal[start:stop] = np.nan
        peaks = detect_around_gaps(signal, ecg.fs_hz, detector=detector)
        inside = int(((peaks >= start) & (peaks < stop)).sum())
        what = f"with a gap of {last_s - first_s:g} s"
        expect(not inside, f"{what} it marks {count_of(inside, 'beat')} where there are no samples")
        _expect_beats(peaks, ecg, what, silent_s=(first_s, last_s), check_extra=False)


def _handles_arbitrary_signals(detector: Detector) -> None:
    fs_hz, rng = min(max(360.0, detector.rates_hz[0]), detector.rates_hz[1]), np.random.default_rng(0)
    count = round(11 * fs_hz)
    inputs = {
        "noise": rng.normal(size=count),
        "steps": np.sign(np.sin(np.arange(count) / 700)),
        "a random walk": np.cumsum(rng.normal(size=count)),
        "one huge spike": 1e6 * (np.arange(count) == count // 2),
        "one step": np.where(np.arange(count) < 5, 0.0, 1.0),
        "a sine": np.sin(2 * np.pi * 60 * np.arange(count) / fs_hz),
    }
    for what, signal in inputs.items():
        try:
            peaks = detect_r_peaks(signal, fs_hz, detector=detector)
        except RecordError:
            continue
        except EcgfedError as error:
            raise AssertionError(f"{what} ends in: {error}") from error
        problem = peaks_problem(peaks, count)
        expect(not problem, f"{what} gives {problem}")


def _handles_both_mains(detector: Detector) -> None:
    ecg = _usual(detector)
    time_s = np.arange(ecg.signals_mv.shape[1]) / ecg.fs_hz
    for mains_hz in MAINS_HZ:
        hum = replace(ecg, signals_mv=ecg.signals_mv + 0.02 * np.sin(2 * np.pi * mains_hz * time_s))
        peaks = detect_r_peaks(hum.signals_mv, ecg.fs_hz, detector=detector, mains_hz=mains_hz)
        _expect_beats(peaks, ecg, f"with a hum of 0.02 mV at {mains_hz:g} Hz")


CHECKS: tuple[PluginCheck[Detector], ...] = (
    PluginCheck("int64 sample numbers, increasing, in the signal", _returns_valid_peaks),
    PluginCheck("the signal is not changed", _leaves_signal_unchanged),
    PluginCheck("the same signal gives the same peaks", _is_deterministic),
    PluginCheck("every beat of a clean ECG within 150 ms, at 100 to 1000 Hz", _detects_clean_beats),
    PluginCheck("the beats of the lead in use", _uses_selected_lead),
    PluginCheck("no beat in flat, empty, short or missing signals", _rejects_signals_without_beats),
    PluginCheck("beats on both sides of a gap, none in it", _continues_after_gap),
    PluginCheck("sorted peaks or an ecgfed error, for any signal", _handles_arbitrary_signals),
    PluginCheck("the beats with mains hum of 50 and 60 Hz", _handles_both_mains),
)
