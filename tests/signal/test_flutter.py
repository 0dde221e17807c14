"""What is like ventricular flutter or fibrillation is told from beats, however fast these are."""

from pathlib import Path

import numpy as np
import pytest
from conftest import synthetic_signal
from numpy.typing import NDArray

from ecgfed import read_annotation, read_recording
from ecgfed.domain.record.recording import Recording
from ecgfed.domain.signal.flutter import flutter_spans, flutter_text

Floats = NDArray[np.float64]


def recording(lead: Floats, fs_hz: float) -> Recording:
    return Recording("x", Path("x"), "MLII", ("MLII",), fs_hz, lead[None], ())


def fibrillation(seconds: float, fs_hz: float, seed: int = 0) -> Floats:
    """Five sines of 4 to 7 Hz whose amplitudes wax and wane, 0.2 to 0.5 mV in all, and 10 uV of noise."""
    rng = np.random.default_rng(seed)
    t = np.arange(round(seconds * fs_hz)) / fs_hz
    wave = np.zeros(len(t))
    for _ in range(5):
        slow = 1 + 0.5 * np.sin(2 * np.pi * rng.uniform(0.05, 0.3) * t + rng.uniform(0, 6))
        wave += rng.uniform(0.1, 0.25) * slow * np.sin(2 * np.pi * rng.uniform(4, 7) * t + rng.uniform(0, 6))
    return wave + 0.01 * rng.standard_normal(len(t))


@pytest.mark.parametrize("fs_hz", [128.0, 250.0, 360.0, 1000.0])
@pytest.mark.parametrize("seed", range(3))
def test_fibrillation_between_beats(fs_hz: float, seed: int) -> None:
    """30 s between two minutes of a normal rhythm: one episode, each end of it right within two seconds."""
    calm = synthetic_signal("N" * 40, fs_hz=fs_hz, seed=seed)[0]
    wave = fibrillation(30, fs_hz, seed)
    spans = flutter_spans(recording(np.concatenate([calm, wave, calm]), fs_hz))
    assert (spans[0][0] / fs_hz, spans[-1][1] / fs_hz) == pytest.approx(
        (len(calm) / fs_hz, len(calm) / fs_hz + 30), abs=2
    )
    assert sum(stop - start for start, stop in spans) > 26 * fs_hz


def test_nothing_but_fibrillation() -> None:
    assert flutter_spans(recording(fibrillation(30, 250.0), 250.0)) == ((0, 7500),)


def test_the_flutter_of_a_real_record(mitdb: Path) -> None:
    """Record 207: episodes as annotated, `[` to `]`, on DS1, where the limits were chosen."""
    real = read_recording(mitdb / "207", "MLII")
    marks = read_annotation(real)
    at = {kind: marks.sample[marks.symbol == kind] for kind in "[]"}
    annotated, found = np.zeros(real.samples, np.bool_), np.zeros(real.samples, np.bool_)
    for start, stop in zip(at["["], at["]"], strict=True):
        annotated[start:stop] = True
    for start, stop in flutter_spans(real):
        found[start:stop] = True
    assert found[annotated].mean() > 0.95
    assert annotated[found].mean() > 0.9


@pytest.mark.parametrize("beats", ["N" * 60, "NV" * 30, "V" * 60])
def test_beats_are_no_flutter(beats: str) -> None:
    assert flutter_spans(recording(synthetic_signal(beats, fs_hz=360.0, seed=1)[0], 360.0)) == ()


def test_what_is_too_small_or_missing_is_no_flutter() -> None:
    small = 0.03 * fibrillation(30, 250.0)  # less than 0.1 mV from peak to peak
    assert flutter_spans(recording(small, 250.0)) == ()
    assert flutter_spans(recording(np.full(5000, np.nan), 250.0)) == ()
    assert flutter_spans(recording(np.zeros(5000), 250.0)) == ()
    assert flutter_spans(recording(fibrillation(3, 250.0), 250.0)) == ()  # shorter than a window
    assert flutter_spans(recording(fibrillation(30, 40.0), 40.0)) == ()  # too few samples a second


def test_an_episode_across_the_seam_of_two_stretches_is_one() -> None:
    """Longer than is read at once, with fibrillation across the seam at 600 s."""
    calm = np.resize(synthetic_signal("N" * 300, fs_hz=128.0, seed=1)[0], round(590 * 128.0))
    lead = np.concatenate([calm, fibrillation(25, 128.0), calm[: round(60 * 128.0)]])
    [(start, stop)] = flutter_spans(recording(lead, 128.0))
    assert (start / 128, stop / 128) == pytest.approx((590, 615), abs=2)


def test_the_sentence() -> None:
    said = flutter_text(((2500, 5000), (10000, 12500)), 250.0)  # 10 s each
    assert "2 episodes, 20 s in all, the first from second 10" in said
