"""A real net in double precision and three small clients, for methods that two numbers cannot follow.

A batch holds all beats of a client, so that a transcription needs no shuffling.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ecgfed.core.federation.data import TrainingData
from ecgfed.core.federation.plan import TrainPlan
from ecgfed.core.federation.state import State
from ecgfed.core.federation.threads import ThreadEngine
from ecgfed.core.federation.train import initial_state, train
from ecgfed.core.methods.base import Method
from ecgfed.core.methods.settings import make_settings
from ecgfed.core.nets.net import Net, NetSpec
from ecgfed.core.nets.resnet1d import ResNet1d
from ecgfed.tasks.reproduce_run import open_settings
from ecgfed.testing.federation import CLASSES, synthetic_federation

Model = dict[str, Tensor]
LABELS = ([0] * 7 + [1] * 5, [1] * 9 + [2] * 3, [0, 2] * 4)
SHARES = [len(each) / sum(map(len, LABELS)) for each in LABELS]
LR, STEPS, ROUNDS = 0.1, 2, 3
PLAN = TrainPlan(rounds=ROUNDS, local_epochs=None, local_steps=STEPS, batch_size=64, seed=4)


@contextmanager
def doubled() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


def single() -> TrainingData:
    """The clients in single precision."""
    return synthetic_federation(LABELS)


def federation(labels: Sequence[Sequence[int]] = LABELS) -> TrainingData:
    data = synthetic_federation(labels)
    return replace(data, examples=data.examples.astype(np.float64))  # type: ignore[arg-type]


def net(norm: str = "group") -> Net:
    return ResNet1d(NetSpec(CLASSES, width=0.35, norm=norm))


def run(
    kind: type[Method],
    plan: TrainPlan = PLAN,
    norm: str = "group",
    labels: Sequence[Sequence[int]] = LABELS,
    data: TrainingData | None = None,
    **settings: Any,
) -> tuple[Method, State]:
    """Train a method by plain SGD and the plain mean unless asked otherwise."""
    fields = set(kind.settings_type.__dataclass_fields__)
    momentum = {"momentum": 0.0} if "momentum" in fields else {}
    given = {"lr": LR, **momentum, **open_settings(kind.name, settings.get("generic", "fedavg")), **settings}
    method, data = kind(net(norm), make_settings(kind.settings_type, given)), data or federation(labels)
    with ThreadEngine(data, plan, 1) as engine:
        return method, train(method, data, plan, engine, initial_state(method, plan))


def gradient_of(function: Callable[[Model], Tensor], at: Model) -> Model:
    """The gradient of a function of a net's parameters, by autograd; zero where it does not depend on one."""
    leaves = {name: value.detach().clone().requires_grad_() for name, value in at.items()}
    function(leaves).backward()
    return {n: torch.zeros_like(leaf) if leaf.grad is None else leaf.grad for n, leaf in leaves.items()}


def mean_of(models: list[Model], weights: list[float] = SHARES) -> Model:
    return {name: sum(w * model[name] for w, model in zip(weights, models, strict=True)) for name in models[0]}  # type: ignore[misc]


def assert_equal(actual: Model, expected: Model) -> None:
    assert actual.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(actual[name], value, rtol=1e-8, atol=1e-10)
