"""A method on trial: a small net, a few clients, and what is compared of two runs."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ecgfed.federation.data import TrainingData
from ecgfed.federation.plan import TrainPlan
from ecgfed.federation.state import State
from ecgfed.federation.threads import ThreadEngine
from ecgfed.federation.train import initial_state, train
from ecgfed.methods.answers import Answer
from ecgfed.methods.base import Method, Tree
from ecgfed.nets.layers import Params
from ecgfed.nets.net import NetSpec
from ecgfed.nets.resnet1d import ResNet1d
from ecgfed.testing.federation import CLASSES, synthetic_federation
from ecgfed.testing.hooks import changed, remembered
from ecgfed.testing.promises import expect

#: Clients with a short last batch, one smaller than a batch, and more of them than slots.
SIZES = (12, 19, 5, 9)


@dataclass(frozen=True)
class Trial:
    """A method that is being checked.

    Attributes:
        kind: its class.
        settings: its settings.
    """

    kind: type[Method]
    settings: Any

    def made(self, *, norm: str = "group", rr: bool = True, net: type[ResNet1d] = ResNet1d) -> Method:
        """Return the method on a small net, made anew."""
        return self.kind(net(NetSpec(CLASSES, width=0.35, norm=norm, rr=rr)), self.settings)

    def plan(self, **how: Any) -> TrainPlan:
        """Return a plan that the method is defined for, of batches of eight."""
        needs = self.kind.needs
        if needs.one_step:
            how |= {"local_epochs": None, "local_steps": 1}
        if needs.all_clients:
            how["clients_per_round"] = None
        return TrainPlan(**{"batch_size": 8, **how})

    @property
    def usual(self) -> TrainPlan:
        """Two rounds of one epoch."""
        return self.plan(rounds=2, local_epochs=1)

    @cached_property
    def data(self) -> TrainingData:
        """Four clients, each with all classes as far as it has beats, with RR features."""
        return mixed_federation(rr=True)

    @cached_property
    def run(self) -> State:
        """The state after two rounds, one client after the other."""
        return trained(self.made(), self.data, self.usual)

    def answers(self, method: Method, state: State, patients: int | None = None) -> Iterator[tuple[str, Answer]]:
        """Yield every answer of a trained method with its name, those of the first patients alone where asked."""
        clients = sorted(state.client_states)
        for protocol in ("ensemble", "average"):
            # one by one, as a run hands them over: they are not all in memory at once
            kept = (state.client_states[client] for client in clients)
            yield f"the global answer ({protocol})", method.global_answer(state.server, kept, protocol)
        for client in clients[:patients]:
            yield (
                f"the personal answer of client {client}",
                method.personal_answer(state.server, state.client_states[client]),
            )
            for name, chain in method.personal_variants(state.server, state.client_states[client]).items():
                yield f"the variant {name} of client {client}", chain


def mixed_federation(*, rr: bool) -> TrainingData:
    """Return clients of ``SIZES`` with beats of all classes."""
    draw = np.random.default_rng(3)
    labels = [draw.integers(0, CLASSES, size).tolist() for size in SIZES]
    # mostly noise: features stay clear of the kinks where rounding would decide which way a step goes
    return synthetic_federation(labels, rr=rr, noise=1.0)


def trained(method: Method, data: TrainingData, plan: TrainPlan, workers: int = 1, **more: Any) -> State:
    """Train from the start, one client a thread; ``more`` goes to ``train``."""
    with ThreadEngine(data, plan, workers) as engine:
        return train(method, data, plan, engine, initial_state(method, plan), **more)


def trees(state: State) -> dict[str, Tree]:
    """Return all trees of a state by what they are."""
    return {
        "the server's state": state.server,
        **{f"what client {c} keeps": state.client_states[c] for c in sorted(state.client_states)},
    }


def expect_equal(one: State, other: State, told: str) -> None:
    """Expect two states to be the same to the bit."""
    mine, theirs = trees(one), trees(other)
    expect(
        mine.keys() == theirs.keys() and one.beats_used == other.beats_used, f"{told}, other clients have taken part"
    )
    for what, tree in mine.items():
        where = changed(theirs[what], remembered(tree))
        expect(not where, f"{told}, {where} of {what} is another")


def copied(tree: Tree) -> Tree:
    """Return a copy of a tree."""
    return {name: copied(leaf) if isinstance(leaf, dict) else leaf.clone() for name, leaf in tree.items()}


def expect_close(
    mine: Mapping[str, Tensor], theirs: Mapping[str, Tensor], tolerance: tuple[float, float], told: str
) -> None:
    """Expect flat trees to lie within an absolute and a relative tolerance of each other."""
    expect(mine.keys() == theirs.keys(), f"{told} has other leaves")
    for path, leaf in mine.items():
        other = theirs[path]
        expect(leaf.shape == other.shape and leaf.dtype == other.dtype, f"{told}: {path} has another form")
        absolute, relative = tolerance
        near = torch.isclose(leaf.double(), other.double(), atol=absolute, rtol=relative, equal_nan=True).all()
        most = (leaf.double() - other.double()).abs().max() if leaf.numel() else 0.0
        expect(near, f"{told}: {path} lies {float(most):.3g} off")


class DoubleNet(ResNet1d):
    """A net whose parameters are float64, so that two engines differ by what they mean and not by their rounding."""

    def initial(self, seed: int) -> Params:
        """Return float64 parameters, with the values of the single ones."""
        return {name: value.double() for name, value in super().initial(seed).items()}


@contextmanager
def double_precision() -> Iterator[None]:
    """What a method makes of its own is float64 too, unless it says otherwise."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)
