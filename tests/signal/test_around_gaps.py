"""Detection on both sides of what cannot be used."""

import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from conftest import synthetic_signal
from numpy.typing import NDArray

from ecgfed.base.errors import OptionError, RecordError
from ecgfed.domain.record.recording import LazySignals, Recording
from ecgfed.domain.signal import peaks as peaks_module
from ecgfed.domain.signal.chunked_quality import lead_quality
from ecgfed.domain.signal.detectors import detect_r_peaks
from ecgfed.domain.signal.peaks import detect_around_gaps, find_peaks, usable_pieces
from ecgfed.domain.signal.quality import LeadQuality

FS = 360.0
TOLERANCE = 15  # samples: 42 ms


def found_of(peaks: NDArray[np.int64], truth: NDArray[np.int64]) -> int:
    """True beats with a detected peak beside them."""
    return int((np.abs(peaks[:, None] - truth).min(axis=0) <= TOLERANCE).sum())


@pytest.fixture(params=["ecgfed", "xqrs"])
def detector(request: pytest.FixtureRequest) -> str:
    """One that copes with gaps itself, and one that has to be led around them."""
    return str(request.param)


def test_a_sound_lead_is_detected_as_one_piece(detector: str) -> None:
    signal, r = synthetic_signal("N" * 40)
    peaks = detect_around_gaps(signal, FS, detector=detector)
    np.testing.assert_array_equal(peaks, detect_r_peaks(signal, FS, detector=detector))
    assert found_of(peaks, r) >= len(r) - 1


@pytest.mark.parametrize("seconds", [0.2, 1.0, 5.0, 20.0])
def test_beats_are_found_on_both_sides_of_a_gap(seconds: float, detector: str) -> None:
    signal, r = synthetic_signal("N" * 75)
    start, stop = 25 * 360, round((25 + seconds) * 360)
    signal[start:stop] = np.nan
    outside = r[(r < start - 100) | (r >= stop + 100)]
    peaks = detect_around_gaps(signal, FS, detector=detector)
    assert (np.diff(peaks) > 0).all()
    assert not ((peaks >= start) & (peaks < stop)).any()
    assert found_of(peaks, outside) >= len(outside) - 3
    assert len(peaks[peaks > FS]) <= len(r)  # in a stream's first second levels are still being learned


@pytest.mark.parametrize("level", [5.115, 0.0])
def test_thirty_seconds_at_the_rail_or_flat_hold_no_beat(level: float, detector: str) -> None:
    signal, r = synthetic_signal("N" * 100)
    start, stop = 20 * 360, 50 * 360
    signal[start:stop] = level
    outside = r[(r < start - 100) | (r >= stop + 100)]
    peaks = detect_around_gaps(signal, FS, detector=detector)
    assert not ((peaks >= start) & (peaks < stop)).any()
    assert found_of(peaks, outside) >= len(outside) - 3


def test_one_huge_spike_costs_no_other_beat(detector: str) -> None:
    signal, r = synthetic_signal("N" * 75)
    at = (r[30] + r[31]) // 2
    signal[at] += 50.0
    peaks = detect_around_gaps(signal, FS, detector=detector)
    assert found_of(peaks, r) >= len(r) - 1
    assert np.abs(peaks - at).min() > 36


def test_pieces_are_parted_by_seconds_and_not_by_blinks() -> None:
    signal, _ = synthetic_signal("N" * 75)
    signal[1000:1100] = signal[5000:5500] = signal[5900:6300] = np.nan
    pieces, lost = usable_pieces(lead_quality(signal, FS))
    assert pieces == [(0, 5000), (6300, len(signal))]  # 5500 to 5900 is too short to find beats in
    np.testing.assert_array_equal(lost, np.isnan(signal))


def test_a_piece_without_beats_does_not_hide_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def one_fails(signal: NDArray[np.float64], fs_hz: float, **_: object) -> NDArray[np.int64]:
        calls.append(signal.shape[-1])
        if len(calls) == 1:
            raise RecordError("signal", "no beats found")
        return np.array([100, 500])

    monkeypatch.setattr(peaks_module, "detect_r_peaks", one_fails)
    signal, _ = synthetic_signal("N" * 75)
    signal[5000:5500] = np.nan
    assert detect_around_gaps(signal, FS, detector="xqrs").tolist() == [5600, 6000]
    assert calls == [5000, len(signal) - 5500]


@pytest.mark.parametrize(
    ("signal", "fragments"),
    [
        (np.full(3600, np.nan), ("no usable 3 s", "gap 10.0 s")),
        (np.zeros(3600), ("no usable 3 s", "flat 10.0 s")),
        (np.linspace(0, 1, 300), ("lasts 0.8 s", "at least 3 s")),
    ],
)
def test_nothing_to_find_beats_in(signal: NDArray[np.float64], fragments: tuple[str, ...]) -> None:
    with pytest.raises(RecordError) as error:
        detect_around_gaps(signal, FS, name="100 lead MLII")
    for fragment in ("100 lead MLII", *fragments):
        assert fragment in error.value.line


def test_another_lead_goes_on_where_one_is_off() -> None:
    signal, r = synthetic_signal("N" * 75)
    off = signal.copy()
    off[7200:14400] = np.nan
    peaks = detect_around_gaps(np.stack([off, 0.6 * signal]), FS, lead=0)
    assert found_of(peaks, r) >= len(r) - 1


@pytest.mark.parametrize("at_s", [10, 1500, 1990])
def test_an_error_while_reading_is_raised_and_leaves_no_thread(at_s: int) -> None:
    signal, before = np.resize(synthetic_signal("N" * 30, fs_hz=250.0)[0], 2000 * 250), threading.active_count()

    def read(start: int, stop: int, rows: Sequence[int]) -> NDArray[np.float64]:
        if start <= at_s * 250 < stop:
            raise RecordError("r.dat", f"unreadable at {at_s}")
        return signal[None, start:stop]

    recording = Recording("r", Path("r"), "a", ("a",), 250.0, LazySignals(len(signal), read, (0,)), ())
    quality = LeadQuality(len(signal), 250.0, ())
    with pytest.raises(RecordError, match=f"unreadable at {at_s}"):
        find_peaks(recording, quality)
    assert threading.active_count() == before


def test_an_unknown_detector_is_refused_around_gaps_too() -> None:
    signal, _ = synthetic_signal("N" * 30)
    signal[3000:4000] = np.nan
    with pytest.raises(OptionError, match="bogus"):
        detect_around_gaps(signal, FS, detector="bogus")
