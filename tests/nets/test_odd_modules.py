"""Odd modules as nets: shared parameters, lazy and parametrized layers, layers named otherwise than they are."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from module_nets import CLASSES, as_net, batch, federation, loaded
from refusals import refuses
from torch import nn

import ecgfed
from ecgfed.base.errors import OptionError
from ecgfed.core.federation.estimate import remaining_seconds, step_arithmetic
from ecgfed.core.federation.plan import TrainPlan
from ecgfed.core.federation.threads import ThreadEngine
from ecgfed.core.federation.train import initial_state, train
from ecgfed.core.methods.local_sgd import SgdSettings, model_gradients
from ecgfed.core.methods.registry import methods
from ecgfed.core.methods.settings import make_settings
from ecgfed.core.nets.net_source import NetFactory
from ecgfed.core.nets.parts import norm_of

LEAVES = ("weight", "bias")


class Tied(nn.Module):
    """Two layers with one weight matrix."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.head = nn.Linear(36, 36), nn.Linear(36, 36), nn.Linear(36, CLASSES)
        self.b.weight = self.a.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(F.relu(self.b(F.relu(self.a(x.flatten(1))))))


def test_layers_that_share_a_parameter_have_its_summed_gradient() -> None:
    net, of = as_net(Tied), batch(5)
    params = net.initial(0)
    assert "b.weight" not in net.names.values()
    module = loaded(net, Tied(), params)
    torch.testing.assert_close(net.logits(params, of.inputs), module(of.inputs.examples))
    F.cross_entropy(module(of.inputs.examples), of.label).backward()
    gradients, _, _ = model_gradients(net, params, of, SgdSettings())
    torch.testing.assert_close(gradients["extractor.a.weight"], module.a.weight.grad)
    assert not net.stacking_problem()


def test_lazy_layers_with_buffers_get_their_shapes() -> None:
    def lazy() -> nn.Module:
        return nn.Sequential(nn.LazyConv2d(3, 3), nn.LazyBatchNorm2d(), nn.Flatten(), nn.LazyLinear(CLASSES))

    net = as_net(lazy)
    assert net.features == 48
    assert net.initial(0)["extractor.1_norm.running_mean"].shape == (3,)


def test_layers_are_known_as_normalisation_by_what_they_are() -> None:
    class Misnamed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.prenorm, self.scale = nn.Linear(36, 8), nn.LayerNorm(8)
            self.head = nn.Sequential(nn.LayerNorm(8), nn.Linear(8, CLASSES))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(self.scale(self.prenorm(x.flatten(1))))

    net = as_net(Misnamed)
    own = norm_of(net.initial(0))
    assert {net.names[name] for name in own} == {f"{path}.{leaf}" for path in ("scale", "head.0") for leaf in LEAVES}
    kind, plan = methods()["fedbn"], TrainPlan(rounds=2, local_epochs=None, local_steps=1, batch_size=8)
    method, data = kind(net, make_settings(kind.settings_type, {})), federation()
    with ThreadEngine(data, plan, 1) as engine:
        state = train(method, data, plan, engine, initial_state(method, plan))
    assert set(state.client_states[0]["norm"]) == set(own)


class Weighted(nn.Module):
    """torch's counter of operations fails on a parametrized layer."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.utils.parametrizations.weight_norm(nn.Linear(36, 8))
        self.head = nn.Linear(8, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(F.relu(self.a(x.flatten(1))))


def test_operations_that_cannot_be_counted_do_not_prevent_a_training() -> None:
    kind = methods()["fedavg"]
    method = kind(as_net(Weighted), make_settings(kind.settings_type, {}))
    plan = TrainPlan(rounds=4, local_epochs=None, local_steps=1, batch_size=8)
    arithmetic = step_arithmetic(method, federation(), plan)
    assert remaining_seconds(arithmetic, 4, 1, seconds_a_round=2.0) == pytest.approx(6.0)


class Counting(nn.Module):
    """Changes a buffer in training, in place or by another tensor."""

    def __init__(self, in_place: bool) -> None:
        super().__init__()
        self.head, self.in_place = nn.Linear(36, CLASSES), in_place
        self.register_buffer("scale", torch.ones(36))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.training and self.in_place:
            self.scale.mul_(0.9)
        elif self.training:
            self.scale = 0.9 * self.scale
        return self.head(self.scale * x.flatten(1))


class Drawn(nn.Module):
    """Draws its first weights with NumPy's generator, which no seed of the run determines."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.head = nn.Linear(36, 4), nn.Linear(4, CLASSES)
        self.a.weight.data = torch.from_numpy(np.random.default_rng().normal(size=(4, 36)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.a(x.flatten(1)))


class SharedHead(nn.Module):
    """The head's weights are also an earlier layer's."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.head = nn.Linear(36, CLASSES), nn.Linear(CLASSES, 36), nn.Linear(36, CLASSES)
        self.head.weight = self.a.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.b(self.a(x.flatten(1))))


class OldWeightNorm(Weighted):
    def __init__(self) -> None:
        super().__init__()
        self.a = nn.utils.weight_norm(nn.Linear(36, 8))


@pytest.mark.filterwarnings("ignore:.*weight_norm:FutureWarning")
@pytest.mark.parametrize(
    "factory",
    [
        partial(Counting, True),
        partial(Counting, False),
        Drawn,
        SharedHead,
        OldWeightNorm,
        lambda: nn.Linear(6, CLASSES),
    ],
)
def test_what_a_run_could_not_repeat_or_share_is_refused(factory: NetFactory) -> None:
    with refuses(OptionError, "invalid-value", "net"):
        as_net(factory)


def test_an_embedding_that_changes_its_weights_when_it_is_called_is_refused() -> None:
    class Renormed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.head = nn.Embedding(20, 6, max_norm=0.1), nn.Linear(6, CLASSES)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(self.embed(x).mean(1))

    with refuses(OptionError, "invalid-value", "net"):
        as_net(Renormed, (9,), "int64")


class Linear(nn.Module):
    """Logistic regression: nothing before the head."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(x)


def test_a_linear_model_trains_with_methods_that_need_no_extractor(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    examples, y = draw.normal(size=(60, 4)), np.arange(60) % 3
    cohort = ecgfed.cohort_from_arrays(examples, y, np.arange(60) // 20)
    run = ecgfed.train(cohort, tmp_path / "run", net=Linear, method="fedavg", rounds=2)
    for personal in ("method", "knn", "gated", "finetune"):
        assert 0 <= ecgfed.evaluate(run, personal=personal).T_p <= 1
    with refuses(OptionError, "conflict", "net"):
        ecgfed.train(cohort, tmp_path / "other", net=Linear, method="fedper", rounds=2)


def test_a_batch_of_one_example_for_batch_norm_names_the_client(tmp_path: Path) -> None:
    def normed() -> nn.Module:
        return nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 3))

    draw = np.random.default_rng(0)
    client = np.repeat(["many", "nine"], [22, 9])
    cohort = ecgfed.cohort_from_arrays(draw.normal(size=(31, 4)), np.arange(31) % 3, client, ["train"] * 31)
    assert {one.id: len(cohort.training_rows(one)) for one in cohort.clients} == {"many": 19, "nine": 9}
    with refuses(OptionError, "conflict", "net"):
        ecgfed.train(cohort, tmp_path / "a", net=normed, method="fedavg", rounds=1, local_epochs=1, batch_size=8)
    ecgfed.train(cohort, tmp_path / "b", net=normed, method="fedavg", rounds=1, local_steps=2, batch_size=8)


class Refused(nn.Module):
    """What is wrong is the forward."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(36, 8), nn.Linear(8, CLASSES)

    def logits(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(F.relu(self.body(x.flatten(1))))


class TwoInputs(Refused):
    def forward(self, x: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        return self.logits(x)


class WithFeatures(Refused):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.logits(x), x


class NotFinite(Refused):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.logits(x / 0)


class Doubles(Refused):
    def __init__(self) -> None:
        super().__init__()
        self.double()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.logits(x.double())


@pytest.mark.parametrize(
    ("net", "dtype", "words"),
    [
        (TwoInputs, "float32", "make one array"),
        (WithFeatures, "float32", "nothing beside them"),
        (NotFinite, "float32", "finite logits"),
        (Doubles, "float32", r"trained as torch\.float32"),
        (Tied, "int64", "pass X as float32"),
    ],
)
def test_a_net_that_cannot_be_trained_is_refused_with_what_to_do(net: NetFactory, dtype: str, words: str) -> None:
    with pytest.raises(OptionError, match=words) as refused:
        as_net(net, dtype=dtype)
    assert refused.value.parameter == "net"
