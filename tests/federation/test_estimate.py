"""How long a run will take: counted by hand, and the late phase of a method that has one."""

import numpy as np
import pytest

from ecgfed.core.federation.data import TrainingData
from ecgfed.core.federation.estimate import POINTS, remaining_seconds, step_arithmetic
from ecgfed.core.federation.plan import TrainPlan
from ecgfed.core.methods.registry import methods
from ecgfed.core.methods.settings import make_settings
from ecgfed.core.nets.net import NetSpec
from ecgfed.core.nets.resnet1d import ResNet1d

PLAN = TrainPlan(rounds=40, local_epochs=None, local_steps=1, batch_size=8)


def data() -> TrainingData:
    rng = np.random.default_rng(0)
    examples = rng.standard_normal((20, 1, 256)).astype(np.float32)
    rows = {0: np.arange(12), 1: np.arange(12, 20)}
    return TrainingData(np.arange(2), rows, examples, None, np.arange(20) % 3, 3)


def arithmetic(name: str, **settings: object) -> tuple[int, ...]:
    kind = methods()[name]
    return step_arithmetic(
        kind(ResNet1d(NetSpec(3, width=0.35)), make_settings(kind.settings_type, settings)), data(), PLAN
    )


def test_rounds_of_equal_cost_take_equal_time() -> None:
    assert remaining_seconds((5,) * POINTS, rounds=40, finished=10, seconds_a_round=2.0) == pytest.approx(60.0)


def test_a_dearer_end_is_counted() -> None:
    """20 rounds, the last ten three times as dear; after five at 1 s: five more at 1 s and ten at 3 s."""
    early_and_late = (1,) * (POINTS // 2) + (3,) * (POINTS // 2)
    assert remaining_seconds(early_and_late, rounds=20, finished=5, seconds_a_round=1.0) == pytest.approx(35.0)


def test_in_the_dear_part_the_time_taken_there_counts() -> None:
    early_and_late = (1,) * (POINTS // 2) + (3,) * (POINTS // 2)
    assert remaining_seconds(early_and_late, rounds=20, finished=15, seconds_a_round=3.0, since=12) == pytest.approx(
        15.0
    )


def test_grp_feds_last_fifth_is_dearer_and_fedavg_is_even() -> None:
    found = arithmetic("grp-fed", personal_start=0.8)
    early, late = found[: int(0.8 * POINTS)], found[int(0.8 * POINTS) :]
    assert len(set(early)) == len(set(late)) == 1
    assert late[0] > 1.5 * early[0]
    assert len(set(arithmetic("fedavg"))) == 1


@pytest.mark.parametrize("name", sorted(methods()))
def test_every_method_can_be_estimated(name: str) -> None:
    assert min(arithmetic(name)) > 0
