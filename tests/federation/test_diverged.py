"""Numbers that are not finite are blamed on the beats that cause them, by recording and second, or on the rate."""

from dataclasses import replace

import numpy as np
import pytest

from ecgfed.base.errors import DivergedError
from ecgfed.core.federation.data import BeatTimes, TrainingData
from ecgfed.core.federation.plan import TrainPlan
from ecgfed.core.federation.threads import ThreadEngine
from ecgfed.core.federation.train import initial_state, train
from ecgfed.core.methods.base import Method
from ecgfed.core.methods.registry import method_by_name
from ecgfed.core.methods.server_sgd import PLAIN_MEAN
from ecgfed.core.methods.settings import make_settings
from ecgfed.core.nets.net import NetSpec
from ecgfed.core.nets.resnet1d import ResNet1d

PLAN = TrainPlan(rounds=2, local_epochs=None, local_steps=3, batch_size=8, seed=0)


def data(spoil: dict[int, float | np.ndarray]) -> TrainingData:
    """Two clients of 20 beats each, a second apart in their recordings; some windows hold other values."""
    rng = np.random.default_rng(0)
    windows = rng.standard_normal((40, 1, 256)).astype(np.float32)
    for row, value in spoil.items():
        windows[row, 0] = value
    times = BeatTimes(np.repeat([0, 1], 20), np.tile(360 * np.arange(20), 2), ("first", "second"), (360.0, 360.0))
    rows = {0: np.arange(20), 1: np.arange(20, 40)}
    label = rng.integers(0, 3, 40)
    return TrainingData(np.arange(2), rows, windows, None, label, 3, {0: "p0", 1: "p1"}, rows, times)


def method(name: str, **settings: float | str) -> Method:
    kind = method_by_name(name)
    return kind(ResNet1d(NetSpec(3, width=0.25)), make_settings(kind.settings_type, dict(settings)))


def error(name: str, of: TrainingData, **settings: float | str) -> str:
    made = method(name, **settings)
    with ThreadEngine(of, PLAN, 1) as engine, pytest.raises(DivergedError) as raised:
        train(made, of, PLAN, engine, initial_state(made, PLAN))
    return raised.value.line


@pytest.mark.parametrize("name", ["fedavg", "grp-fed", "ditto", "local"])
def test_a_window_without_numbers_is_named_by_its_second(name: str) -> None:
    line = error(name, data({27: np.nan}))
    assert "client p1 in round 1" in line
    assert "recording second at 7.0 s" in line
    assert "learning rate" not in line
    assert "1 beat:" in line


def test_several_windows_are_named_and_the_rest_counted() -> None:
    line = error("fedavg", data(dict.fromkeys(range(24, 32), np.nan)))
    assert "8 beats: recording second at 4.0 s, 5.0 s, 6.0 s, 7.0 s, 8.0 s and 3 more" in line


def test_windows_of_rounding_residue_are_named() -> None:
    """What case 04 trained on before such windows were left out: zeros with a residue of 3e-17."""
    residue = 3e-17 * np.random.default_rng(1).standard_normal(256)
    spoilt = {row: residue.astype(np.float32) for row in range(20, 26)}
    line = error("fedavg", data(spoilt), lr=1.0)
    assert "recording second at 0.0 s" in line


def test_a_learning_rate_that_is_too_high_is_the_learning_rate() -> None:
    line = error("fedavg", data({}), lr=100.0, **PLAIN_MEAN)  # Adam's step does not depend on it
    assert "learning rate" in line
    assert "recording" not in line


def test_without_times_rows_are_named() -> None:
    assert "rows 27" in error("fedavg", replace(data({27: np.nan}), times=None))
