"""Beats whose recording rules classes out: the loss by hand, either engine, what is learned, who takes part."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from ecgfed.core.federation.batched import BatchedEngine
from ecgfed.core.federation.data import TrainingData, uses_weak_labels
from ecgfed.core.federation.plan import TrainPlan
from ecgfed.core.federation.state import State
from ecgfed.core.federation.threads import ThreadEngine
from ecgfed.core.federation.train import initial_state, train
from ecgfed.core.federation.trees import flatten
from ecgfed.core.methods.base import Batch, Method, cross_entropy
from ecgfed.core.methods.losses import LossSettings, batch_loss
from ecgfed.core.methods.registry import methods
from ecgfed.core.methods.settings import make_settings
from ecgfed.core.nets.net import Inputs, NetSpec
from ecgfed.core.nets.resnet1d import ResNet1d
from ecgfed.testing.federation import CLASSES, synthetic_federation

#: The weak client: its beats have the shape of class 0, and are not of class 1.
WEAK, EXCLUDED = 3, np.array([False, True, False])
RISKS = ("ce", "ir", "ldam", "cdt", "bsm")


def federation() -> TrainingData:
    data = synthetic_federation([[0, 0, 1, 2] * 5, [0, 1] * 9, [0, 1, 2] * 6, [0] * 20])
    label = data.label.copy()
    label[data.rows[WEAK]] = -1
    valid_rows = {client: rows for client, rows in data.valid_rows.items() if client != WEAK}
    return replace(data, label=label, valid_rows=valid_rows, excluded={WEAK: EXCLUDED})


def method_of(name: str, **settings: Any) -> Method:
    kind = methods()[name]
    return kind(ResNet1d(NetSpec(CLASSES, width=0.35, rr=False)), make_settings(kind.settings_type, settings))


def weak_batch(excluded: list[bool], weight: torch.Tensor | None = None, counts: torch.Tensor | None = None) -> Batch:
    inputs = Inputs(torch.zeros(2, 1, 256), None, weight)
    return Batch(inputs, torch.tensor([-1, -1]), counts, excluded=torch.tensor(excluded))


@pytest.mark.parametrize("risk", RISKS)
def test_the_loss_is_minus_the_log_of_what_is_left(risk: str) -> None:
    logits = torch.tensor([[1.0, -0.5, 2.0], [0.0, 3.0, 1.0]], dtype=torch.float64, requires_grad=True)
    batch = weak_batch([False, True, True], counts=torch.zeros(3, dtype=torch.int64))
    loss = batch_loss(logits, batch, LossSettings(risk=risk, weak_weight=0.3))
    p = torch.softmax(logits, 1)
    naive = -0.3 * torch.log(1 - p[:, 1] - p[:, 2]).mean()
    torch.testing.assert_close(loss, naive)
    torch.testing.assert_close(*(torch.autograd.grad(value, logits, retain_graph=True)[0] for value in (loss, naive)))
    assert float(cross_entropy(logits, batch).detach()) == 0


def test_a_certain_wrong_answer_has_a_finite_loss_and_padding_none() -> None:
    logits = torch.tensor([[0.0, 300.0, 0.0], [0.0, 1e4, 0.0]], requires_grad=True)
    batch = weak_batch([False, True, False], weight=torch.tensor([1.0, 0.0]))
    loss = batch_loss(logits, batch, LossSettings(weak_weight=1.0))
    assert float(loss.detach()) == pytest.approx(300 - np.log(2))
    (gradient,) = torch.autograd.grad(loss, logits)
    torch.testing.assert_close(gradient, torch.tensor([[-0.5, 1.0, -0.5], [0.0, 0.0, 0.0]]))


@pytest.mark.parametrize("risk", RISKS)
def test_labelled_clients_have_the_loss_they_had(risk: str) -> None:
    logits = torch.tensor([[1.0, -0.5, 2.0], [0.0, 3.0, 1.0]], requires_grad=True)
    batch = Batch(Inputs(torch.zeros(2, 1, 256)), torch.tensor([0, 1]), torch.tensor([8, 2, 0]))
    beside = replace(batch, excluded=torch.zeros(3, dtype=torch.bool))
    losses = [batch_loss(logits, one, LossSettings(risk=risk)) for one in (batch, beside)]
    assert torch.equal(*losses)
    assert torch.equal(*(torch.autograd.grad(loss, logits)[0] for loss in losses))


def trained(
    method: Method, data: TrainingData, rounds: int, batched: bool = False, state: State | None = None
) -> State:
    plan = TrainPlan(rounds=rounds, local_epochs=1, batch_size=8)
    engine = BatchedEngine(data, plan, "cpu", 2) if batched else ThreadEngine(data, plan, 1)
    with engine:
        return train(method, data, plan, engine, state or initial_state(method, plan))


WITH_WEAK = sorted(
    name for name, kind in methods().items() if uses_weak_labels(kind, kind.settings_type(), TrainPlan())
)


@pytest.mark.parametrize("name", WITH_WEAK)
def test_both_engines_train_the_same(name: str) -> None:
    kind = methods()[name]
    late = {"personal_start": 0.0} if "personal_start" in kind.settings_type.__dataclass_fields__ else {}
    single = {"local_steps": 1, "local_epochs": None} if kind.requirements.single_step else {}
    method, data, models = method_of(name, **late), federation(), []
    plan = TrainPlan(**{"rounds": 2, "local_epochs": 1, "batch_size": 8, **single})
    for engine in (ThreadEngine(data, plan, 1), BatchedEngine(data, plan, "cpu", 2)):
        with engine:
            models.append(flatten(train(method, data, plan, engine, initial_state(method, plan)).server))
    for path, value in models[0].items():
        assert torch.isfinite(value).all(), path
        torch.testing.assert_close(value, models[1][path], atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize("risk", ["ir", "ldam", "cdt", "bsm"])
def test_balanced_losses_train_the_same_in_both_engines(risk: str) -> None:
    method, data = method_of("fedavg", risk=risk), federation()
    one, other = (trained(method, data, 2, batched).server["model"] for batched in (False, True))
    for path, value in one.items():
        torch.testing.assert_close(value, other[path], atol=1e-5, rtol=1e-4)


def test_the_excluded_class_becomes_less_probable() -> None:
    """The weak client's beats look like class 1, which nobody with labels says they are not."""
    data = federation()
    like_one = data.rows[0][data.label[data.rows[0]] == 1]
    examples = data.examples.copy()
    examples[data.rows[WEAK]] = np.resize(examples[like_one], (20, 1, 256)) * 1.6
    data, probability = replace(data, examples=examples), []
    for weak_weight in (0.0, 1.0):
        method = method_of("fedavg", lr=0.02, weak_weight=weak_weight)
        model = trained(method, data, 20).server["model"]
        logits = method.net.logits(model, data.batch(data.rows[WEAK]).inputs)
        probability.append(float(torch.softmax(logits, 1)[:, 1].mean()))
    assert probability[1] < probability[0] - 0.1, probability


def test_weak_losses_do_not_outweigh_patients_in_grp_fed() -> None:
    method, data = method_of("grp-fed", personalise=False), federation()
    weight_of_weak = []
    plan = TrainPlan(rounds=4, local_epochs=1, batch_size=8)
    original = type(method).client_weights

    def noting(self: Any, returned: Any, q: torch.Tensor) -> torch.Tensor:
        weights: torch.Tensor = original(self, returned, q)
        weight_of_weak.append(float(weights[returned.clients.tolist().index(WEAK)]))
        return weights

    method.client_weights = noting.__get__(method)  # type: ignore[attr-defined]
    with ThreadEngine(data, plan, 1) as engine:
        train(method, data, plan, engine, initial_state(method, plan))
    assert all(weight < 0.25 for weight in weight_of_weak), weight_of_weak


def test_who_uses_weak_labels() -> None:
    def uses(name: str, plan: TrainPlan = TrainPlan(), **settings: Any) -> bool:  # noqa: B008
        method = method_of(name, **settings)
        return uses_weak_labels(method, method.settings, plan)

    assert uses("fedavg")
    assert uses("grp-fed")
    assert not uses("fedavg", weak_weight=0)
    assert not uses("fedavg", risk="meta-bsm")
    assert not uses("fedavg", TrainPlan(dp_clip=1.0, dp_noise=1.0))
    assert not any(uses(name) for name in ("fedabc", "fedfomo", "fedper", "lg-fedavg", "local", "mtl"))
