"""A net of two numbers and clients of a few points, so that every method can be followed by hand.

The net is logistic regression: features ``w x``, logits ``(0, w x + b)``, x the window's only sample. With all of a
client's points in one batch, gradients are those of ``grad`` below.
"""

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
from ecgfed.core.methods.registry import methods
from ecgfed.core.methods.server_sgd import PLAIN_MEAN
from ecgfed.core.methods.settings import make_settings
from ecgfed.core.nets.net import Inputs, NetSpec
from ecgfed.tasks.reproduce_run import open_settings

#: x and class of each client's points
POINTS = ((np.array([1.0, -0.5]), np.array([1, 0])), (np.array([2.0, 0.3, -1.0]), np.array([0, 1, 1])))
START = np.array([0.5, -0.2])
PLAN = TrainPlan(rounds=2, local_epochs=None, local_steps=2, batch_size=8)


class TinyNet:
    """Logistic regression in the shape of a net."""

    features = 1
    spec = NetSpec(2)

    def initial(self, seed: int) -> dict[str, Tensor]:
        w, b = torch.tensor(START)
        return {"extractor.w": w.reshape(1, 1), "head.b": b.reshape(1)}

    def extract(self, params: dict[str, Tensor], inputs: Inputs, stats: Any = None) -> Tensor:
        return inputs.examples[:, :, 0] @ params["extractor.w"].T

    def classify(self, params: dict[str, Tensor], features: Tensor) -> Tensor:
        logit = features + params["head.b"]
        return torch.cat([torch.zeros_like(logit), logit], dim=1)

    def logits(self, params: dict[str, Tensor], inputs: Inputs, stats: Any = None) -> Tensor:
        return self.classify(params, self.extract(params, inputs, stats))


def data(points: tuple[tuple[np.ndarray, np.ndarray], ...] = POINTS) -> TrainingData:
    edges = np.cumsum([0, *(len(x) for x, _ in points)])
    return TrainingData(
        clients=np.arange(len(points)),
        rows={i: np.arange(edges[i], edges[i + 1]) for i in range(len(points))},
        examples=np.concatenate([x for x, _ in points])[:, None, None],
        rr=None,
        label=np.concatenate([y for _, y in points]),
        classes=2,
    )


def loss(model: np.ndarray, client: int) -> float:
    """Mean cross-entropy of a client at (w, b)."""
    x, y = POINTS[client]
    p = 1 / (1 + np.exp(-(model[0] * x + model[1])))
    return float(-np.mean(y * np.log(p) + (1 - y) * np.log(1 - p)))


def grad(model: np.ndarray, client: int) -> np.ndarray:
    """Its gradient by (w, b): the mean of (p - y)(x, 1)."""
    x, y = POINTS[client]
    p = 1 / (1 + np.exp(-(model[0] * x + model[1])))
    return np.array([np.mean((p - y) * x), np.mean(p - y)])


def hessian(model: np.ndarray, client: int) -> np.ndarray:
    """Its Hessian by (w, b): the mean of p (1 - p) (x, 1)(x, 1)^T."""
    x, _ = POINTS[client]
    p = 1 / (1 + np.exp(-(model[0] * x + model[1])))
    v = np.stack([x, np.ones_like(x)])
    return (v * (p * (1 - p))) @ v.T / len(x)


def run(kind: type[Method], plan: TrainPlan = PLAN, federation: TrainingData | None = None, **settings: Any) -> State:
    """Train a method on the two clients, or on others; plain SGD and the plain mean unless asked otherwise."""
    fields = set(kind.settings_type.__dataclass_fields__)
    paper = open_settings(kind.name, settings.get("generic", "fedavg")) if kind.name in methods() else PLAIN_MEAN
    given = {"lr": 0.3, **({"momentum": 0.0} if "momentum" in fields else {}), **paper, **settings}
    method = kind(TinyNet(), make_settings(kind.settings_type, given))  # type: ignore[arg-type]
    federation = federation or data()
    with ThreadEngine(federation, replace(plan), 1) as engine:
        return train(method, federation, plan, engine, initial_state(method, plan))


def pair(tree: dict[str, Tensor]) -> np.ndarray:
    """(w, b) of a model, or what of it is there."""
    return np.array([float(value.reshape(())) for value in tree.values()])
