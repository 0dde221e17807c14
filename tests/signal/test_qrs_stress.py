"""The makers of the stress table, by hand on a made signal, and our detector on what they make of real records."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from ecgfed.domain.record.recording import Annotation
from ecgfed.domain.signal.qrs import detect_qrs

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "qrs"
FS_HZ = 360.0
#: Where ours falls short of the bar, F1 in percent: P waves of 0.6 mV at their own rate, some are taken for beats.
WEAK = {("119", "block"): 85}


@pytest.fixture
def makers(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    monkeypatch.syspath_prepend(str(BENCHMARK.parent))
    monkeypatch.syspath_prepend(str(BENCHMARK))
    import physiology
    import recorders
    import rhythms

    return SimpleNamespace(physiology=physiology, recorders=recorders, rhythms=rhythms)


@pytest.fixture
def strip(makers: SimpleNamespace):  # type: ignore[no-untyped-def]
    """A minute at 75/min: narrow beats of 1 mV with a P wave, each eighth wide and ventricular."""
    beats = np.arange(200, 21_400, 288)
    time = np.arange(21_600) / FS_HZ
    lead = np.zeros(len(time))
    symbols = np.full(len(beats), "N")
    symbols[7::8] = "V"
    for at, symbol in zip(beats / FS_HZ, symbols, strict=True):
        wide = symbol == "V"
        lead += np.exp(-0.5 * ((time - at) / (0.035 if wide else 0.01)) ** 2)
        lead += 0 if wide else 0.1 * np.exp(-0.5 * ((time - at + 0.16) / 0.02) ** 2)
    return makers.physiology.Strip("100", np.stack([lead, -0.5 * lead]), FS_HZ, beats, symbols)


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.mark.parametrize("rate", [200.0, 280.0])
def test_a_run_has_its_rate_and_its_beats_on_their_peaks(makers: SimpleNamespace, strip, rate: float) -> None:  # type: ignore[no-untyped-def]
    run = makers.physiology.v_run(strip, rate, 30.0, rng())
    assert 60 * FS_HZ / np.diff(run.beats).mean() == pytest.approx(rate, rel=0.02)
    assert (run.symbols == "V").all()
    around = run.signals_mv[0][run.beats[1:-1, None] + np.arange(-30, 31)]
    assert np.abs(around.argmax(axis=1) - 30).max() <= 2


def test_a_t_wave_is_as_high_as_asked_and_the_ventricular_beats_are_as_they_were(
    makers: SimpleNamespace,
    strip,  # type: ignore[no-untyped-def]
) -> None:
    made = makers.rhythms.tall_t(strip, 2.5, rng(), own=False)
    added = np.abs(made.signals_mv - strip.signals_mv)
    for at, symbol in zip(strip.beats[:-1].tolist(), strip.symbols[:-1].tolist(), strict=True):
        high = added[0, at : at + 250].max()
        assert high == pytest.approx(2.5 if symbol == "N" else 0.0, rel=0.2)
        assert not added[:, at - 20 : at + 30].any()


def test_bigeminy_has_the_ratio_and_takes_turns(makers: SimpleNamespace, strip) -> None:  # type: ignore[no-untyped-def]
    made = makers.rhythms.bigeminy(strip, 6.0, 60.0, rng())
    assert made.symbols.tolist()[:4] == ["N", "V", "N", "V"]
    high = makers.physiology.heights(made, made.beats[1:-1], 0.12)[0]
    assert np.median(high[0::2]) / np.median(high[1::2]) == pytest.approx(6.0, rel=0.15)


def test_in_a_pause_p_waves_are_left_and_no_beat_is(makers: SimpleNamespace, strip) -> None:  # type: ignore[no-untyped-def]
    made = makers.rhythms.pauses(strip, 6.0, rng())
    lost = np.setdiff1d(strip.beats, made.beats)
    assert len(lost) >= 12
    assert np.diff(made.beats).max() >= 5.5 * FS_HZ
    normal = np.setdiff1d(lost, strip.beats[strip.symbols == "V"])
    assert np.abs(made.signals_mv[0, normal]).max() < 0.1  # of R waves of 1 mV
    assert made.signals_mv[0, normal - 58].min() > 0.05


def test_every_fourth_spike_is_lost(makers: SimpleNamespace, strip) -> None:  # type: ignore[no-untyped-def]
    made = makers.rhythms.paced(strip, 60.0, rng(), lost=True)
    gaps = np.diff(made.beats)
    assert np.median(gaps[2::3]) == pytest.approx(2 * np.median(gaps[0::3]), rel=0.02)


def test_noise_has_the_power_asked_for(makers: SimpleNamespace, strip) -> None:  # type: ignore[no-untyped-def]
    noise = [makers.recorders.motion(strip.samples, FS_HZ, rng()) for _ in range(2)]
    made = makers.recorders.noisy(strip, noise, 6.0)
    power = (made.signals_mv - strip.signals_mv).var(axis=1)
    np.testing.assert_allclose(makers.recorders.size(strip) ** 2 / 8 / power, 10**0.6, rtol=0.01)


def test_another_sampling_frequency_moves_the_beats_along(makers: SimpleNamespace, strip) -> None:  # type: ignore[no-untyped-def]
    made = makers.recorders.sampled(strip, 250)
    np.testing.assert_allclose(made.beats / 250, strip.beats / FS_HZ, atol=0.002)
    normal = made.of(("N",))
    around = made.signals_mv[0][normal[:, None] + np.arange(-10, 11)]
    assert np.abs(around.argmax(axis=1) - 10).max() <= 1


@pytest.mark.mitdb
@pytest.mark.parametrize("record", ["119", "223"])
@pytest.mark.parametrize("row", ["V run 200", "V run 250", "bigeminy", "tall T", "pauses", "block", "twice as fast"])
def test_our_detector_on_rhythms_of_real_beats(makers: SimpleNamespace, mitdb: Path, record: str, row: str) -> None:
    """Of DS1 records, which it was trained on: a bar that must not fall; other patients are in the benchmark."""
    from ecgfed.core.evaluation.ec57 import compare

    whole, _ = makers.physiology.load(mitdb, record)
    minute = makers.physiology.excerpt(whole, 36_000, 57_600)
    made = {
        "V run 200": lambda: makers.physiology.v_run(whole, 200.0, 60.0, rng()),
        "V run 250": lambda: makers.physiology.v_run(whole, 250.0, 60.0, rng()),
        "bigeminy": lambda: makers.rhythms.bigeminy(whole, 6.0, 60.0, rng()),
        "tall T": lambda: makers.rhythms.tall_t(minute, 2.0, rng()),
        "pauses": lambda: makers.rhythms.pauses(minute, 6.0, rng()),
        "block": lambda: makers.rhythms.av_block(whole, 60.0, rng()),
        "twice as fast": lambda: makers.physiology.played(minute, 2.0),
    }[row]()
    peaks = detect_qrs(made.signals_mv[:1], made.fs_hz)
    marks = Annotation(peaks, np.full(len(peaks), "N"))
    found = compare(Annotation(made.beats, made.symbols), marks, made.fs_hz, samples=made.samples, start_s=5.0)
    assert found.qrs_f1 is not None
    assert found.qrs_f1 >= WEAK.get((record, row), 97)
