"""What every detector promises, ours and those from outside (``ecgfed.signal.detectors.Detector``)."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ecgfed.errors import EcgfedError, RecordError
from ecgfed.signal.around_gaps import detect_around_gaps
from ecgfed.signal.detectors import Detector, Peaks, Signal, detect_r_peaks, detector_option
from ecgfed.signal.detectors.base import DEFAULT_MAINS_HZ, MAINS_HZ
from ecgfed.signal.detectors.detect import peaks_problem
from ecgfed.testing.ecg import SyntheticEcg, synthetic_ecg
from ecgfed.testing.promises import CheckReport, Promise, expect, try_promises
from ecgfed.text import count_of

#: How far a peak may lie from its beat (EC57's match window).
WITHIN_S = 0.150
#: A detector may learn for as long at a recording's start and after a gap, and need as much after a beat.
LEARNS_S, NEEDS_AFTER_S = 2.0, 1.0
#: Of the peaks of a clean ECG, one in this many may be no beat.
ONE_EXTRA_IN = 20
#: Sampling frequencies, with a mean interval between beats for each: 50, 75 and 120 beats a minute.
RATES = ((100.0, 0.8), (125.0, 1.2), (200.0, 0.8), (250.0, 0.5), (360.0, 0.8), (500.0, 1.2), (1000.0, 0.8))


def check_detector(detector: Detector | str) -> CheckReport:
    """Check that a detector keeps what ``ecgfed.signal.detectors.Detector`` asks of one.

    Args:
        detector: the detector; a registered name; or ``FILE.py:NAME`` or ``package.module:NAME``, which is loaded.

    Returns:
        What it keeps, to be printed.

    Raises:
        AssertionError: the first promise it breaks, in one sentence.
        OptionError: no such detector, or one that is not installed.
    """
    return try_promises((found := detector_option(detector)).name, PROMISES, found)


def _direct(detector: Detector, signals_mv: Signal, fs_hz: float) -> Peaks:
    """Ask the detector itself, showing it what it would be shown of a recording without gaps."""
    shown = signals_mv if detector.every_lead else signals_mv[:1]
    return detector.find(shown, fs_hz, 0, DEFAULT_MAINS_HZ)


def _usual(detector: Detector, **more: float) -> SyntheticEcg:
    """A recording at 360 samples a second, or at the nearest rate the detector is made for."""
    low, high = detector.rates_hz
    return synthetic_ecg(min(max(360.0, low), high), 30.0, noise_mv=0.005, **more)  # type: ignore[arg-type]


def _beats(
    peaks: Peaks, ecg: SyntheticEcg, what: str, *, silent_s: tuple[float, float] = (0.0, 0.0), extra: bool = True
) -> None:
    """Expect every beat to be found once, but in the first seconds and after a silence, and little else."""
    at_s, last_s = peaks / ecg.fs_hz, ecg.signals_mv.shape[1] / ecg.fs_hz
    due = (ecg.r_s >= LEARNS_S) & (ecg.r_s <= last_s - NEEDS_AFTER_S)
    if silent_s[1]:
        due &= (ecg.r_s < silent_s[0] - NEEDS_AFTER_S) | (ecg.r_s > silent_s[1] + LEARNS_S)
    distance = np.abs(at_s[:, None] - ecg.r_s)
    missed = ecg.r_s[due & ((distance > WITHIN_S).all(axis=0))] if len(at_s) else ecg.r_s[due]
    first = f", the first at {missed[0]:.1f} s" if len(missed) else ""
    expect(not len(missed), f"{what} it misses {len(missed)} of {count_of(int(due.sum()), 'beat')}{first}")
    if extra:
        settled = at_s >= LEARNS_S
        nearest, near = distance.argmin(axis=1)[settled], (distance.min(axis=1) <= WITHIN_S)[settled]
        more = int(settled.sum()) - len(np.unique(nearest[near]))  # one peak for each beat at most
        expect(more * ONE_EXTRA_IN <= settled.sum(), f"{what} {more} of its {len(at_s)} peaks are no beats")


def _keeps_the_form(detector: Detector) -> None:
    ecg = _usual(detector)
    peaks = _direct(detector, ecg.signals_mv.copy(), ecg.fs_hz)
    expect(isinstance(peaks, np.ndarray), f"find returns {type(peaks).__name__}, not a NumPy array")
    amiss = peaks_problem(peaks, ecg.signals_mv.shape[1])
    expect(not amiss, f"find returns {amiss}")


def _leaves_the_signal(detector: Detector) -> None:
    ecg = _usual(detector)
    given = ecg.signals_mv.copy()
    _direct(detector, given, ecg.fs_hz)
    expect(np.array_equal(given, ecg.signals_mv), "find changes the signal it is given")


def _answers_the_same(detector: Detector) -> None:
    ecg, other = _usual(detector), _usual(detector, rr_s=0.6, seed=1)
    once = _direct(detector, ecg.signals_mv.copy(), ecg.fs_hz)
    again = _direct(detector, ecg.signals_mv.copy(), ecg.fs_hz)
    expect(np.array_equal(once, again), "find gives another answer when it is asked the same again")
    _direct(detector, other.signals_mv, other.fs_hz)
    again = _direct(detector, ecg.signals_mv.copy(), ecg.fs_hz)
    expect(np.array_equal(once, again), "find gives another answer after another recording: it remembers something")


def _finds_the_beats(detector: Detector) -> None:
    low, high = detector.rates_hz
    rates = [(fs_hz, rr_s) for fs_hz, rr_s in RATES if low <= fs_hz <= high]
    expect(len(rates) >= 2, f"it is made for {low:g} to {high:g} Hz, which holds fewer than two usual rates")
    for fs_hz, rr_s in rates:
        ecg = synthetic_ecg(fs_hz, 30.0, rr_s=rr_s, noise_mv=0.005)
        peaks = detect_r_peaks(ecg.signals_mv, fs_hz, detector=detector)
        _beats(peaks, ecg, f"at {fs_hz:g} Hz and {60 / rr_s:.0f} beats a minute")


def _looks_at_the_lead_in_use(detector: Detector) -> None:
    ecg = _usual(detector)
    noise = np.random.default_rng(1).normal(size=ecg.signals_mv.shape[1])
    for lead in (0, 1):
        signals = np.stack([ecg.signals_mv[0], noise] if lead == 0 else [noise, ecg.signals_mv[0]])
        peaks = detect_r_peaks(signals, ecg.fs_hz, lead=lead, detector=detector)
        _beats(peaks, ecg, f"with lead {lead} in use and noise on the other")


def _marks_nothing_in_nothing(detector: Detector) -> None:
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
                found = len(detect(signal, ecg.fs_hz, detector=detector))
            except RecordError:
                continue
            expect(False, f"{what} gives {count_of(found, 'beat')} instead of a RecordError")
    half = np.where(np.arange(count) < count // 2, ecg.signals_mv[0], 0.5)
    peaks = detect_around_gaps(half, ecg.fs_hz, detector=detector)
    late = int((peaks > count // 2 + ecg.fs_hz).sum())
    expect(not late, f"it marks {count_of(late, 'beat')} after the electrode came off")


def _goes_on_after_a_gap(detector: Detector) -> None:
    ecg = _usual(detector)
    for first_s, last_s in ((10.0, 10.5), (12.0, 17.0)):
        signal = ecg.signals_mv[0].copy()
        start, stop = round(first_s * ecg.fs_hz), round(last_s * ecg.fs_hz)
        signal[start:stop] = np.nan
        peaks = detect_around_gaps(signal, ecg.fs_hz, detector=detector)
        inside = int(((peaks >= start) & (peaks < stop)).sum())
        what = f"with a gap of {last_s - first_s:g} s"
        expect(not inside, f"{what} it marks {count_of(inside, 'beat')} where no sample is")
        _beats(peaks, ecg, what, silent_s=(first_s, last_s), extra=False)


def _survives_whatever_comes(detector: Detector) -> None:
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
        except EcgfedError as problem:
            raise AssertionError(f"{what} ends in: {problem}") from problem
        amiss = peaks_problem(peaks, count)
        expect(not amiss, f"{what} gives {amiss}")


def _takes_either_mains(detector: Detector) -> None:
    ecg = _usual(detector)
    time_s = np.arange(ecg.signals_mv.shape[1]) / ecg.fs_hz
    for mains_hz in MAINS_HZ:
        hum = replace(ecg, signals_mv=ecg.signals_mv + 0.02 * np.sin(2 * np.pi * mains_hz * time_s))
        peaks = detect_r_peaks(hum.signals_mv, ecg.fs_hz, detector=detector, mains_hz=mains_hz)
        _beats(peaks, ecg, f"with a hum of 0.02 mV at {mains_hz:g} Hz")


PROMISES: tuple[Promise[Detector], ...] = (
    Promise("int64 sample numbers, increasing, in the signal", _keeps_the_form),
    Promise("the signal stays as it was", _leaves_the_signal),
    Promise("the same answer whenever it is asked the same", _answers_the_same),
    Promise("every beat of a clean ECG within 150 ms, at 100 to 1000 Hz", _finds_the_beats),
    Promise("the beats of the lead in use, whichever it is", _looks_at_the_lead_in_use),
    Promise("no beat in flat, empty, short or missing signals", _marks_nothing_in_nothing),
    Promise("beats on both sides of a gap, none in it", _goes_on_after_a_gap),
    Promise("peaks in order or one plain line, whatever the signal", _survives_whatever_comes),
    Promise("the beats at mains of 50 and 60 Hz", _takes_either_mains),
)
