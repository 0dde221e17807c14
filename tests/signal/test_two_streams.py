"""A recording by two threads: whatever is amiss in it, the peaks are those of one stream, and errors end both."""

import threading
from collections.abc import Callable

import numpy as np
import pytest
from record_files import r_waves

from ecgfed.device import QrsDetector
from ecgfed.domain.record.recording import spans
from ecgfed.domain.signal import two_streams

BLOCK_S = 17.3


def leads_of(seconds: float, fs_hz: float, seed: int = 0, leads: int = 2) -> np.ndarray:
    """Return (leads, samples) mV: beats on each lead, noise, no two leads alike."""
    rng = np.random.default_rng(seed)
    times = np.cumsum(0.8 + 0.1 * rng.standard_normal(int(seconds / 0.85)))
    lead = r_waves(fs_hz, times[times < seconds - 1].tolist(), seconds)
    signals = np.stack([(1, -0.5, 0.7)[number] * lead for number in range(leads)])
    made: np.ndarray = signals + 0.03 * rng.standard_normal(signals.shape) + 0.37
    return made


class Counted:
    """A detector, and how often it was given samples; beside it, because all that a detector holds is its state."""

    def __init__(self, fs_hz: float, leads: int) -> None:
        self.inner = QrsDetector(fs_hz, leads)
        self.pushed = self.passed = 0

    def push(self, chunk_mv: np.ndarray) -> np.ndarray:
        self.pushed += 1
        return self.inner.push(chunk_mv)

    def skip(self, chunk_mv: np.ndarray) -> None:
        self.passed += 1
        self.inner.skip(chunk_mv)

    def state(self) -> bytes:
        return self.inner.state()

    def finish(self) -> np.ndarray:
        return self.inner.finish()


def by_two(
    signals: np.ndarray,
    fs_hz: float,
    begin: Callable[[], QrsDetector] | None = None,
    on_samples: Callable[[int], None] = lambda done: None,
    read: Callable[[int, int], np.ndarray] | None = None,
) -> tuple[np.ndarray, list[Counted]]:
    """Return the peaks and the two streams."""
    made: list[Counted] = []

    def counted() -> Counted:
        made.append(Counted(fs_hz, len(signals)))
        return made[-1]

    blocks = list(spans(signals.shape[1], round(BLOCK_S * fs_hz)))
    found = two_streams.peaks_of_stream(
        begin or counted, read or (lambda a, b: signals[:, a:b]), blocks, fs_hz, on_samples
    )
    return np.concatenate(found), made


def by_one(signals: np.ndarray, fs_hz: float) -> np.ndarray:
    detector = QrsDetector(fs_hz, len(signals))
    return np.concatenate([detector.push(signals), detector.finish()])


@pytest.mark.parametrize(
    ("fs_hz", "leads"), [(250.0, 2), (360.0, 1), (257.3, 2), (128.0, 3), (1000.0, 1), (100.0, 2), (500.0, 2)]
)
def test_the_second_half_is_found_as_by_one_stream(fs_hz: float, leads: int) -> None:
    signals = leads_of(260, fs_hz, leads=leads)
    peaks, (first, second) = by_two(signals, fs_hz)
    assert len(peaks) > 200
    np.testing.assert_array_equal(peaks, by_one(signals, fs_hz))
    assert second.passed > 4  # it did not look at most of the first half
    assert first.pushed < 13 < first.pushed + second.pushed  # the first did not look at most of the second
    assert first.passed == 0


#: Of 260 s: seconds in which some leads have no samples, and in how many blocks of 16 the first stream joins at best.
AMISS = {
    "one lead from the beginning": [(0, 100, [0])],
    "one lead, long before the middle": [(20, 31, [1])],
    "single samples": [(at, at + 0.02, [0]) for at in range(3, 250, 7)],
    "across the beginning of the second stream": [(83, 90, [0, 1])],
    "one lead across the beginning of the second stream": [(80, 120, [1])],
    "all until a second before it": [(60, 86, [0, 1])],
    "across the middle": [(140, 170, [0, 1])],
    "one lead across the middle": [(140, 170, [0])],
    "all from the middle on": [(150, 260, [0, 1])],
    "all before the middle": [(0, 150, [0, 1])],
    "at every edge of a block": [(BLOCK_S * n - 0.5, BLOCK_S * n + 0.5, [0, 1]) for n in range(1, 15)],
    "short ones at every edge of a block": [(BLOCK_S * n - 0.012, BLOCK_S * n + 0.012, [0, 1]) for n in range(1, 15)],
}


@pytest.mark.parametrize("fs_hz", [250.0, 257.3])
@pytest.mark.parametrize("amiss", AMISS)
def test_gaps_change_nothing_and_the_streams_still_join(amiss: str, fs_hz: float) -> None:
    signals = leads_of(260, fs_hz, seed=3)
    for start_s, stop_s, leads in AMISS[amiss]:
        signals[leads, round(start_s * fs_hz) : round(stop_s * fs_hz)] = np.nan
    peaks, (first, _) = by_two(signals, fs_hz)
    assert len(peaks) > 100
    np.testing.assert_array_equal(peaks, by_one(signals, fs_hz))
    assert first.pushed < 16, "they never agreed"


@pytest.mark.parametrize("quiet", [(80, 200), (80, 260), (0, 200)])
def test_a_pause_that_the_second_stream_begins_in_changes_nothing(quiet: tuple[int, int]) -> None:
    """Nothing is heard of the last beat there, so the streams agree after the pause or never."""
    fs_hz = 250.0
    signals, still = leads_of(260, fs_hz, seed=5), np.zeros(round(260 * fs_hz), np.bool_)
    still[round(quiet[0] * fs_hz) : round(quiet[1] * fs_hz)] = True
    signals[:, still] = 0.37
    peaks, (first, _) = by_two(signals, fs_hz)
    np.testing.assert_array_equal(peaks, by_one(signals, fs_hz))
    assert 0 < len(peaks) < 220
    assert first.pushed >= 9


def test_the_first_stream_goes_on_where_they_never_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    signals = leads_of(260, 250.0)
    monkeypatch.setattr(Counted, "state", lambda self: str(id(self)).encode())
    told: list[int] = []
    peaks, (first, _) = by_two(signals, 250.0, on_samples=told.append)
    np.testing.assert_array_equal(peaks, by_one(signals, 250.0))
    assert first.pushed == 16
    assert told == sorted(told)
    assert told[-1] == signals.shape[1]


def test_another_past_is_another_state_for_as_long_as_it_matters() -> None:
    """A step of a microvolt stays in a lead's offset; beats of 70 s ago are forgotten, those of 5 s are not."""
    fs_hz, signals = 250.0, leads_of(200, 250.0)
    for at_s, lead, alike in ((100, slice(None), True), (165, slice(None), False), (0, 0, False)):
        other = signals.copy()
        if at_s:
            other[lead, round(at_s * fs_hz) : round((at_s + 1) * fs_hz)] *= -3
        else:
            other[lead, 0] += 0.001
        streams = [QrsDetector(fs_hz, 2) for _ in range(2)]
        for stream, given in zip(streams, (signals, other), strict=True):
            for start, stop in spans(round(170 * fs_hz), 4321):
                stream.push(given[:, start:stop])
        assert (streams[0].state() == streams[1].state()) == alike


def test_few_blocks_and_streams_that_cannot_skip_are_one_thread() -> None:
    signals = leads_of(100, 250.0)
    before = threading.active_count()
    peaks, made = by_two(signals, 250.0)
    assert [one.pushed for one in made] == [6]
    np.testing.assert_array_equal(peaks, by_one(signals, 250.0))

    class Plain:
        def __init__(self) -> None:
            self.inner = QrsDetector(250.0, 2)

        def push(self, chunk_mv: np.ndarray) -> np.ndarray:
            assert threading.active_count() == before
            return self.inner.push(chunk_mv)

        def finish(self) -> np.ndarray:
            return self.inner.finish()

    signals = leads_of(260, 250.0)
    peaks, _ = by_two(signals, 250.0, Plain)  # type: ignore[arg-type]
    np.testing.assert_array_equal(peaks, by_one(signals, 250.0))


@pytest.mark.parametrize("at_s", [10, 100, 200, 259])
def test_an_error_while_reading_ends_both_and_is_raised(at_s: int) -> None:
    signals, before = leads_of(260, 250.0), threading.active_count()

    def read(start: int, stop: int) -> np.ndarray:
        if start <= at_s * 250 < stop:
            raise OSError(f"unreadable at {at_s}")
        return signals[:, start:stop]

    with pytest.raises(OSError, match=f"unreadable at {at_s}"):
        by_two(signals, 250.0, read=read)
    assert threading.active_count() == before


def test_an_interruption_ends_both() -> None:
    signals, before, made = leads_of(260, 250.0), threading.active_count(), []

    def stop(done: int) -> None:
        made.append(done)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        by_two(signals, 250.0, on_samples=stop)
    assert len(made) == 1
    assert threading.active_count() == before
