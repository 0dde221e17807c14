"""Every registered detector passes the checks of ``ecgfed.testing``, and each check can fail."""

from dataclasses import replace
from itertools import count

import numpy as np
import pytest

from ecgfed.base.errors import MissingExtraError, OptionError
from ecgfed.domain.signal.detectors import Detector, Find, Peaks, Signal, detector_by_name, detectors
from ecgfed.domain.signal.qrs import detect_qrs
from ecgfed.testing import check_detector, synthetic_ecg


def installed() -> list[str]:
    found = []
    for name in detectors():
        try:
            found.append(detector_by_name(name).name)
        except MissingExtraError:  # its package is not here; its name is known all the same
            continue
    return found


@pytest.mark.parametrize("name", installed())
def test_a_registered_detector_keeps_every_promise(name: str) -> None:
    report = check_detector(name)
    assert len(report.passed) == 9
    assert not report.skipped
    assert str(report).startswith(f"{name} passes 9 checks:\n")


def test_ours_and_those_of_packages_that_come_along_are_among_them() -> None:
    assert {"ecgfed", "xqrs", "gqrs", "neurokit"} <= set(installed())


def find(signals_mv: Signal, fs_hz: float, lead: int, mains_hz: float) -> Peaks:
    return detect_qrs(signals_mv, fs_hz, lead=lead)


def made(how: Find, **more: object) -> Detector:
    return Detector("broken", how, "a test", **more)  # type: ignore[arg-type]


def changed(change: object) -> Find:
    """Ours, and then something done to its peaks: a function of (peaks, signals_mv, fs_hz, mains_hz)."""
    return lambda signals_mv, fs_hz, lead, mains_hz: change(  # type: ignore[operator, no-any-return]
        find(signals_mv, fs_hz, lead, mains_hz), signals_mv, fs_hz, mains_hz
    )


def changing_the_signal(signals_mv: Signal, fs_hz: float, lead: int, mains_hz: float) -> Peaks:
    signals_mv -= signals_mv.mean(axis=1, keepdims=True)
    return find(signals_mv, fs_hz, lead, mains_hz)


def counting() -> Find:
    calls = count()
    return changed(lambda peaks, *_: peaks[next(calls) :])


def remembering() -> Find:
    """The level of the recording before decides what the first beat is."""
    seen: list[int] = []

    def how(signals_mv: Signal, fs_hz: float, lead: int, mains_hz: float) -> Peaks:
        peaks = find(signals_mv, fs_hz, lead, mains_hz)
        known = not seen or seen[-1] == len(peaks)
        seen.append(len(peaks))
        return peaks if known else peaks[1:]

    return how


def failing_at(hz: float) -> Find:
    def how(signals_mv: Signal, fs_hz: float, lead: int, mains_hz: float) -> Peaks:
        if mains_hz == hz:
            raise KeyError("no notch for that")
        return find(signals_mv, fs_hz, lead, mains_hz)

    return how


def in_constant_stretches(peaks: Peaks, signals_mv: Signal, fs_hz: float, _: float) -> Peaks:
    still = np.flatnonzero(np.diff(signals_mv[0], prepend=0.0) == 0.0)
    return np.union1d(peaks, still[:: round(fs_hz)])


def where_no_sample_is(peaks: Peaks, signals_mv: Signal, fs_hz: float, _: float) -> Peaks:
    return np.union1d(peaks, np.flatnonzero(np.isnan(signals_mv[0]))[:1])


BROKEN = {
    "a list": (made(changed(lambda peaks, *_: peaks.tolist())), "find returns list, not a NumPy array"),
    "floats": (made(changed(lambda peaks, *_: peaks.astype(float))), "find returns float64 of shape"),
    "twice": (made(changed(lambda peaks, *_: np.repeat(peaks, 2))), "sample numbers that do not increase"),
    "outside": (made(changed(lambda peaks, s, *_: np.append(peaks, s.shape[1]))), "sample 10800 of a signal of 10800"),
    "negative": (made(changed(lambda peaks, *_: np.append([-1], peaks))), "sample -1 of a signal"),
    "an error": (made(changed(lambda *_: 1 // 0)), "fails with ZeroDivisionError"),
    "in place": (made(changing_the_signal), "find changes its input signal"),
    "counting": (made(counting()), "other peaks when called again with the same signal"),
    "remembering": (made(remembering()), "it has hidden state"),
    "missing": (
        made(changed(lambda peaks, *_: np.delete(peaks, 20))),
        "at 100 Hz and 75 beats a minute it misses 1 of",
    ),
    "late": (made(changed(lambda p, s, fs, _: p[p < s.shape[1] - fs] + round(0.17 * fs))), "beats a minute it misses"),
    "fast only": (
        made(changed(lambda peaks, s, fs, _: peaks if fs < 1000 else peaks[::2])),
        "at 1000 Hz and 75 beats a minute it misses",
    ),
    "T waves": (
        made(changed(lambda p, s, fs, _: np.union1d(p, p[:-3] + round(0.3 * fs)))),
        "at 100 Hz and 75 beats a minute 3",
    ),
    "no rates": (made(find, rates_hz=(250.0, 300.0)), "it supports 250 to 300 Hz"),
    "first lead": (
        made(
            lambda s, fs, lead, mains: find(s, fs, 0, mains) if len(s) == 1 else find(s[:1], fs, 0, mains),
            every_lead=True,
        ),
        "with lead 1 in use and noise on the other it misses",
    ),
    "still": (made(changed(in_constant_stretches), copes_with_gaps=True), "beats after the electrode came off"),
    "in gaps": (made(changed(where_no_sample_is), copes_with_gaps=True), "it marks 1 beat where there are no samples"),
    "disorder": (
        made(changed(lambda peaks, s, *_: peaks if np.abs(s).max() < 100 else np.array([7, 5]))),
        "one huge spike ends in: detector: broken returned",
    ),
    "no notch": (made(failing_at(50.0)), "KeyError: 'no notch for that'"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_detector_is_told_what_it_breaks(what: str) -> None:
    detector, sentence = BROKEN[what]
    with pytest.raises(AssertionError) as caught:
        check_detector(detector)
    assert str(caught.value).startswith("broken: ")
    assert sentence in str(caught.value)


def test_what_the_broken_ones_are_made_of_is_sound() -> None:
    check_detector(made(find))
    check_detector(replace(made(find, every_lead=True), copes_with_gaps=True))


def test_the_synthetic_beats_lie_where_they_are_said_to() -> None:
    """Tops of the signal by hand: the largest sample within 50 ms of each time is at it, at any rate."""
    for fs_hz in (100.0, 360.0, 1000.0):
        ecg = synthetic_ecg(fs_hz, 20.0, noise_mv=0.0)
        assert ecg.signals_mv.shape == (2, 20 * fs_hz)
        assert len(ecg.r_s) == pytest.approx(20 / 0.8, abs=2)
        for at_s in ecg.r_s:
            start = round((at_s - 0.05) * fs_hz)
            top = start + ecg.signals_mv[0, start : round((at_s + 0.05) * fs_hz)].argmax()
            assert abs(top / fs_hz - at_s) <= 0.5 / fs_hz + 0.002  # S pulls the top a little
        assert ecg.signals_mv[0].max() == pytest.approx(1.15 - 0.22 * np.exp(-0.5 * (25 / 9) ** 2), abs=0.06)
    np.testing.assert_array_equal(synthetic_ecg(100.0).r_s, synthetic_ecg(1000.0).r_s)


def test_a_function_is_no_detector() -> None:
    with pytest.raises(OptionError, match="expected a Detector, or the name of one; wrap a function in a Detector"):
        check_detector(len)  # type: ignore[arg-type]
