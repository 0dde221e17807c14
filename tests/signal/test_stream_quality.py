"""The quality of a stream is the whole lead's: decided within seconds, and never taken back."""

from pathlib import Path

import numpy as np
import pytest
from conftest import synthetic_signal
from numpy.typing import NDArray
from spoiled_signals import rails_by_median

from ecgfed.domain.record.reader import read_recording
from ecgfed.domain.signal.chunked_quality import lead_quality
from ecgfed.domain.signal.filters import LONGEST_BRIDGE_S
from ecgfed.domain.signal.quality import Reason, runs
from ecgfed.domain.signal.stream_quality import DECIDED_S, QualityStream, Samples

Edges = dict[Reason, list[tuple[int, int]]]


def damaged(fs_hz: float, seed: int) -> NDArray[np.float64]:
    """Three minutes of beats with every fault there is, some at the very ends."""
    rng = np.random.default_rng(seed)
    signal, _ = synthetic_signal("NNVN" * 50, fs_hz=fs_hz, seed=seed)
    for kind in rng.integers(0, 6, 8).tolist():
        at = int(rng.choice([0, len(signal) - 50, rng.integers(0, len(signal))]))
        part = signal[at : at + round(fs_hz * rng.choice([0.02, 0.5, 1.5, 6.0, 11.0, 40.0])) + 1]
        if kind == 0:
            part[:] = np.nan
        elif kind == 1:
            part[:] = 0.1
        elif kind == 2:
            part[:] = 6.0
        elif kind == 3:
            part[:10] += 25.0
        elif kind == 4:
            part += rng.normal(0, 0.3, len(part))
        else:
            part += 3.0
    return signal


def streamed(signal: NDArray[np.float64], fs_hz: float, every_s: float) -> tuple[Edges, float]:
    """Return what a stream finds, and the longest that a sample outside of gaps waited to be decided, in seconds."""
    samples = Samples()
    quality = QualityStream(samples, fs_hz, rails_by_median(signal))
    step, latest, before = round(every_s * fs_hz), 0.0, {reason: np.zeros(0, np.bool_) for reason in Reason}
    for at in range(0, len(signal), step):
        samples.append(signal[at : at + step])
        quality.look(ended=at + step >= len(signal))
        samples.forget(quality.needed)
        latest = max(latest, (samples.stop - quality.decided) / fs_hz)
        for reason in Reason:  # what was decided stays so
            mask = quality.spans([reason]).mask(0, quality.decided)
            assert np.array_equal(mask[: len(before[reason])], before[reason])
            before[reason] = mask
    return {reason: list(quality.spans([reason])) for reason in Reason}, latest


@pytest.mark.parametrize("fs_hz", [100.0, 257.3, 360.0])
@pytest.mark.parametrize("seed", range(6))
def test_it_is_the_whole_leads(fs_hz: float, seed: int) -> None:
    signal = damaged(fs_hz, seed)
    whole = lead_quality(signal, fs_hz)
    found, latest = streamed(signal, fs_hz, 1.0)
    expected = {reason: list(runs(whole.bad([reason]))) for reason in Reason}
    assert found == expected
    assert latest <= DECIDED_S + 1.0 + LONGEST_BRIDGE_S


def test_without_a_gap_everything_is_decided_in_time() -> None:
    signal, _ = synthetic_signal("NNVN" * 30, seed=9)
    signal += np.random.default_rng(0).normal(0, 0.05, len(signal))
    _, latest = streamed(signal, 360.0, 0.5)
    assert latest <= DECIDED_S + 0.5


@pytest.mark.mitdb
def test_116s_rails_are_found_where_they_are_told(mitdb: Path) -> None:
    signal = read_recording(mitdb / "116", ("MLII",)).signal_mv
    whole = lead_quality(signal, 360.0)
    assert len([part for part in whole.stretches if part.reason is Reason.RAIL]) > 0
    found, _ = streamed(signal, 360.0, 10.0)
    assert found == {reason: list(runs(whole.bad([reason]))) for reason in Reason}
