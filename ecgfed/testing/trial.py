"""Fixture for checking a method: a small net, a few clients, and comparison of two runs."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ecgfed.core.federation.data import TrainingData
from ecgfed.core.federation.plan import TrainPlan
from ecgfed.core.federation.state import State
from ecgfed.core.federation.threads import ThreadEngine
from ecgfed.core.federation.train import initial_state, train
from ecgfed.core.methods.base import Method, Tree
from ecgfed.core.methods.models import Model
from ecgfed.core.nets.layers import Params
from ecgfed.core.nets.net import NetSpec
from ecgfed.core.nets.resnet1d import ResNet1d
from ecgfed.testing.checks import expect
from ecgfed.testing.federation import CLASSES, synthetic_federation
from ecgfed.testing.hooks import changed, snapshot

#: Numbers of beats: a short last batch, less than a batch, and more clients than fit into a stack.
SIZES = (12, 19, 5, 9)


@dataclass(frozen=True)
class Trial:
    """A method under test.

    Attributes:
        kind: its class.
        settings: its settings.
        device: ``cpu`` or ``cuda``, where many clients are trained at once.
    """

    kind: type[Method]
    settings: Any
    device: str = "cpu"

    def build(self, *, norm: str = "group", rr: bool = True, net: type[ResNet1d] = ResNet1d) -> Method:
        """Return a new instance of the method on a small net."""
        return self.kind(net(NetSpec(CLASSES, width=0.35, norm=norm, rr=rr)), self.settings)

    def plan(self, **options: Any) -> TrainPlan:
        """Return a plan with batches of eight that meets the method's requirements."""
        requirements = self.kind.requirements
        if requirements.single_step:
            options |= {"local_epochs": None, "local_steps": 1}
        if requirements.all_clients:
            options["clients_per_round"] = None
        return TrainPlan(**{"batch_size": 8, **options})

    @property
    def usual(self) -> TrainPlan:
        """Two rounds of one epoch."""
        return self.plan(rounds=2, local_epochs=1)

    @cached_property
    def data(self) -> TrainingData:
        """Four clients with beats of all classes and RR features."""
        return mixed_federation(rr=True)

    @cached_property
    def run(self) -> State:
        """The state after two rounds, one client after the other."""
        return trained(self.build(), self.data, self.usual)

    def models(self, method: Method, state: State, patients: int | None = None) -> Iterator[tuple[str, Model]]:
        """Yield every model of a trained method with its name, of all or of the first ``patients``."""
        clients = sorted(state.client_states)
        for protocol in ("ensemble", "average"):
            # a generator, as in a run, which does not hold all of them in memory
            client_states = (state.client_states[client] for client in clients)
            yield f"the global model ({protocol})", method.global_model(state.server, client_states, protocol)
        for client in clients[:patients]:
            own = state.client_states[client]
            yield f"the personal model of client {client}", method.personal_model(state.server, own)
            for name, pipeline in method.alternative_models(state.server, own).items():
                yield f"the alternative {name} of client {client}", pipeline


def mixed_federation(*, rr: bool) -> TrainingData:
    """Return clients of ``SIZES`` with beats of all classes."""
    draw = np.random.default_rng(3)
    labels = [draw.integers(0, CLASSES, size).tolist() for size in SIZES]
    # mostly noise: features stay away from kinks at which rounding would change the direction of a step
    return synthetic_federation(labels, rr=rr, noise=1.0)


def trained(method: Method, data: TrainingData, plan: TrainPlan, workers: int = 1, **train_options: Any) -> State:
    """Train from the start, one client per thread; ``train_options`` are passed to ``train``."""
    with ThreadEngine(data, plan, workers) as engine:
        return train(method, data, plan, engine, initial_state(method, plan), **train_options)


def trees(state: State) -> dict[str, Tree]:
    """Return all trees of a state by description."""
    clients = {f"the state of client {c}": state.client_states[c] for c in sorted(state.client_states)}
    return {"the server's state": state.server, **clients}


def expect_equal(actual: State, expected: State, condition: str) -> None:
    """Expect two states to be identical, to the bit; ``condition`` introduces the message."""
    actual_trees, expected_trees = trees(actual), trees(expected)
    same_clients = actual_trees.keys() == expected_trees.keys() and actual.beats_used == expected.beats_used
    expect(same_clients, f"{condition}, other clients have taken part")
    for what, tree in actual_trees.items():
        path = changed(expected_trees[what], snapshot(tree))
        expect(not path, f"{condition}, {path} of {what} differs")


def copied(tree: Tree) -> Tree:
    """Return a copy of a tree."""
    return {name: copied(leaf) if isinstance(leaf, dict) else leaf.clone() for name, leaf in tree.items()}


def expect_close(
    actual: Mapping[str, Tensor], expected: Mapping[str, Tensor], tolerance: tuple[float, float], condition: str
) -> None:
    """Expect flat trees to lie within an absolute and a relative tolerance of each other."""
    expect(actual.keys() == expected.keys(), f"{condition} has other leaves")
    for path, leaf in actual.items():
        reference = expected[path]
        same_kind = leaf.shape == reference.shape and leaf.dtype == reference.dtype
        expect(same_kind, f"{condition}: {path} has another shape or dtype")
        absolute, relative = tolerance
        close = torch.isclose(leaf.double(), reference.double(), atol=absolute, rtol=relative, equal_nan=True).all()
        difference = (leaf.double() - reference.double()).abs().max() if leaf.numel() else 0.0
        expect(close, f"{condition}: {path} differs by {float(difference):.3g}")


class DoubleNet(ResNet1d):
    """A net with float64 parameters, so that differences between engines are not due to rounding."""

    def initial(self, seed: int) -> Params:
        """Return the float32 parameters converted to float64."""
        return {name: value.double() for name, value in super().initial(seed).items()}


@contextmanager
def double_precision() -> Iterator[None]:
    """Set torch's default dtype to float64, so that a method's own tensors have it, too."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)
