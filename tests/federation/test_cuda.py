"""On a GPU, where there is one: every method ends as on a CPU, and a run repeated has the same bits."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from ecgfed.core.federation.batched import BatchedEngine
from ecgfed.core.federation.state import State
from ecgfed.core.federation.train import initial_state, train
from ecgfed.core.methods.base import Batch, Losses, Tree
from ecgfed.core.methods.fedavg import FedAvg
from ecgfed.core.methods.registry import methods
from ecgfed.core.methods.settings import make_settings
from ecgfed.testing.method import engines_agree
from ecgfed.testing.trial import Trial, expect_equal

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")


def trial(name: str) -> Trial:
    return Trial(methods()[name], make_settings(methods()[name].settings_type, {}), "cuda")


@pytest.mark.parametrize("name", sorted(methods()))
def test_every_method_ends_on_the_gpu_as_on_the_cpu(name: str) -> None:
    engines_agree(trial(name))


@pytest.mark.parametrize("norm", ["group", "batch"])
@pytest.mark.parametrize("name", sorted(methods()))
def test_the_same_seed_gives_the_same_bits(name: str, norm: str) -> None:
    def run() -> State:
        method = trial(name).build(norm=norm)
        plan = trial(name).plan(rounds=3, local_epochs=1)
        with BatchedEngine(trial(name).data, plan, "cuda", 2) as engine:
            return train(method, trial(name).data, plan, engine, initial_state(method, plan))

    expect_equal(run(), run(), "run again on the GPU")


@pytest.mark.parametrize("augment", [False, True])
@pytest.mark.parametrize("name", ["fedavg", "grp-fed", "fed-rod"])
def test_replayed_graphs_give_the_bits_of_plain_calls(name: str, augment: bool) -> None:
    def run(replay: bool) -> State:
        method, plan = trial(name).build(), trial(name).plan(rounds=4, local_epochs=2, augment=augment)
        with BatchedEngine(trial(name).data, plan, "cuda", 2) as engine:
            engine.replay = replay
            return train(method, trial(name).data, plan, engine, initial_state(method, plan))

    expect_equal(run(True), run(False), "with CUDA graphs")


class CopiesFromCpu(FedAvg):
    """A method whose step cannot be captured."""

    name = "copies"

    def step(self, state: Tree, batches: Sequence[Batch], t: int | Tensor) -> tuple[Tree, Losses]:
        new, losses = super().step(state, batches, t)
        return new, {"loss": losses["loss"] * torch.tensor([1.0], device=losses["loss"].device)[0]}


def test_a_step_that_cannot_be_captured_is_called_as_it_is() -> None:
    settings: Any = make_settings(FedAvg.settings_type, {})
    states = []
    for kind in (CopiesFromCpu, FedAvg):
        method, plan = Trial(kind, settings).build(), Trial(kind, settings).plan(rounds=4, local_epochs=1)
        with BatchedEngine(Trial(kind, settings).data, plan, "cuda", 2) as engine:
            states.append(train(method, Trial(kind, settings).data, plan, engine, initial_state(method, plan)))
    expect_equal(*states, "with a step that copies from the CPU")
