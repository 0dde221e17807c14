"""A module of your own as a net: PyTorch itself is the reference, for outputs, gradients, BatchNorm and training."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from module_nets import CLASSES, SHAPE, as_net, batch, federation, loaded
from refusals import refuses
from torch import nn

from ecgfed.base.errors import OptionError
from ecgfed.core.federation.batched import BatchedEngine
from ecgfed.core.federation.data import TrainingData
from ecgfed.core.federation.plan import TrainPlan
from ecgfed.core.federation.threads import ThreadEngine
from ecgfed.core.federation.train import initial_state, train
from ecgfed.core.federation.trees import flatten
from ecgfed.core.methods.local_sgd import SgdSettings, model_gradients
from ecgfed.core.methods.registry import methods
from ecgfed.core.methods.server_sgd import PLAIN_MEAN
from ecgfed.core.methods.settings import make_settings
from ecgfed.core.nets.module_net import ModuleNet
from ecgfed.core.nets.net import Inputs
from ecgfed.core.nets.net_source import NetFactory
from ecgfed.core.nets.parts import extractor_of, head_of, norm_of


class Small(nn.Module):
    """A convolution, a normalisation, a hidden layer, and a last layer called otherwise than ``head``."""

    def __init__(self, norm: str = "group", dropout: float = 0.0) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3)
        self.bn = nn.BatchNorm2d(4) if norm == "batch" else nn.GroupNorm(2, 4)
        self.fc1, self.drop, self.fc2 = nn.Linear(16, 8), nn.Dropout(dropout), nn.Linear(8, CLASSES)
        self.register_buffer("shift", torch.tensor(0.25))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.max_pool2d(F.relu(self.bn(self.conv(x + self.shift))), 2).flatten(1)
        return self.fc2(self.drop(F.relu(self.fc1(x))))


def test_outputs_and_gradients_are_the_modules() -> None:
    net, of = as_net(Small), batch(5)
    params = net.initial(3)
    module = loaded(net, Small(), params)
    torch.testing.assert_close(net.logits(params, of.inputs), module.eval()(of.inputs.examples))
    F.cross_entropy(module.train()(of.inputs.examples), of.label).backward()
    gradients, loss, _ = model_gradients(net, params, of, SgdSettings())
    for name, value in gradients.items():
        torch.testing.assert_close(value, module.get_parameter(net.names[name]).grad)
    assert float(loss) == pytest.approx(F.cross_entropy(module(of.inputs.examples), of.label).item())


def test_initial_parameters_are_those_of_the_class_after_seeding() -> None:
    net = as_net(Small)
    before = torch.random.get_rng_state()
    params = net.initial(11)
    assert torch.equal(before, torch.random.get_rng_state())
    torch.manual_seed(11)
    expected = Small().state_dict()
    assert all(torch.equal(params[name], expected[original]) for name, original in net.names.items())
    assert any(not torch.equal(params[name], value) for name, value in net.initial(12).items())


def test_extractor_head_and_normalisation_have_their_names() -> None:
    params = as_net(Small).initial(0)
    assert set(head_of(params)) == {"head.out.weight", "head.out.bias"}
    assert set(norm_of(params)) == {"extractor.bn_norm.weight", "extractor.bn_norm.bias"}
    assert len(extractor_of(params)) + 2 == len(params) == 8
    net = as_net(Small)
    features = net.extract(params, batch(3).inputs)
    assert features.shape == (3, net.features) == (3, 8)
    torch.testing.assert_close(net.classify(params, features), net.logits(params, batch(3).inputs))
    bn = as_net(partial(Small, "batch")).initial(0)
    assert {name.rpartition(".")[2] for name in norm_of(bn)} == {"weight", "bias", "running_mean", "running_var"}


class Headed(nn.Module):
    """A head of two layers, in a submodule of that name."""

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(36, 10), nn.Tanh())
        self.head = nn.Sequential(nn.Linear(10, 7), nn.ReLU(), nn.Linear(7, num_classes))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.log_softmax(self.head(self.body(x)), dim=1)


def test_a_head_of_several_layers_and_a_logarithm_behind_it() -> None:
    net, of = as_net(Headed), batch(4)
    params = net.initial(0)
    assert set(head_of(params)) == {"head.0.weight", "head.0.bias", "head.out.weight", "head.out.bias"}
    logits, expected = net.logits(params, of.inputs), loaded(net, Headed(CLASSES), params)(of.inputs.examples)
    torch.testing.assert_close(logits.log_softmax(1), expected)
    gradients, _, _ = model_gradients(net, params, of, SgdSettings())
    F.nll_loss(loaded(net, module := Headed(CLASSES), params)(of.inputs.examples), of.label).backward()
    for name, value in gradients.items():
        torch.testing.assert_close(value, module.get_parameter(net.names[name]).grad)


def test_batch_norm_keeps_the_statistics_that_pytorch_keeps() -> None:
    net, of = as_net(partial(Small, "batch")), batch(6)
    params = net.initial(0)
    module, stats = loaded(net, Small("batch"), params).train(), dict[str, torch.Tensor]()
    torch.testing.assert_close(net.logits(params, of.inputs, stats), module(of.inputs.examples))
    assert torch.equal(params["extractor.bn_norm.running_mean"], torch.zeros(4))
    for name in ("running_mean", "running_var"):
        torch.testing.assert_close(stats[f"extractor.bn_norm.{name}"], getattr(module.bn, name))
    torch.testing.assert_close(net.logits({**params, **stats}, of.inputs), module.eval()(of.inputs.examples))


def test_parameters_without_a_gradient_stay_as_they_are() -> None:
    def frozen() -> nn.Module:
        module = Small()
        module.conv.requires_grad_(False)
        return module

    net, of = as_net(frozen), batch(4)
    params = net.initial(0)
    assert not {name for name in params if "conv" in name}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = loaded(net, frozen(), params)
    torch.testing.assert_close(net.logits(params, of.inputs), module(of.inputs.examples))


def trained(net: ModuleNet, name: str, engine: Callable[[TrainingData, TrainPlan], Any], rounds: int = 2) -> Any:
    data, kind = federation(), methods()[name]
    steps = 1 if kind.requirements.single_step else 3
    plan = TrainPlan(rounds=rounds, local_epochs=None, local_steps=steps, batch_size=8, seed=1)
    method = kind(net, make_settings(kind.settings_type, {}))
    with engine(data, plan) as opened:
        return train(method, data, plan, opened, initial_state(method, plan))


def test_local_training_is_torch_optim_sgd() -> None:
    net = as_net(partial(Small, "batch"))
    data, kind = federation((24,)), methods()["fedavg"]
    settings = make_settings(kind.settings_type, {**PLAIN_MEAN, "lr": 0.05, "momentum": 0.9, "weight_decay": 0.01})
    plan = TrainPlan(rounds=1, local_epochs=2, batch_size=8, seed=1)
    method = kind(net, settings)
    with ThreadEngine(data, plan, 1) as engine:
        model = train(method, data, plan, engine, initial_state(method, plan)).server["model"]
    module = loaded(net, Small("batch"), net.initial(1)).train()
    sgd = torch.optim.SGD(module.parameters(), lr=0.05, momentum=0.9, weight_decay=0.01)
    for epoch in range(2):
        order = data.epoch_rows(1, 0, epoch)
        for rows in np.split(order, 3):
            sgd.zero_grad()
            F.cross_entropy(
                module(torch.from_numpy(data.examples[rows])), torch.from_numpy(data.label[rows])
            ).backward()
            sgd.step()
    state = module.state_dict()
    for name, value in model.items():
        torch.testing.assert_close(value, state[net.names[name]], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", sorted(methods()))
def test_every_method_trains_it_alike_in_either_engine(name: str) -> None:
    net = as_net(partial(Small, dropout=0.2))
    threads = trained(net, name, lambda data, plan: ThreadEngine(data, plan, 2))
    stacked = trained(net, name, lambda data, plan: BatchedEngine(data, plan, "cpu", 3, 2))
    for tree, other in ((threads.server, stacked.server), (threads.client_states[1], stacked.client_states[1])):
        for path, value in flatten(tree).items():
            torch.testing.assert_close(value, flatten(other)[path], atol=2e-4, rtol=2e-3)


def test_threads_do_not_disturb_each_other() -> None:
    net = as_net(partial(Small, dropout=0.3))
    params = [net.initial(seed) for seed in range(8)]
    inputs = batch(16).inputs
    expected = [(net.logits(one, inputs, {}), net.logits(one, inputs)) for one in params]

    def compute(turn: int) -> bool:
        stats = {} if turn % 2 else None
        return torch.equal(net.logits(params[turn % 8], inputs, stats), expected[turn % 8][0 if turn % 2 else 1])

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(compute, range(400)))


class SlowlyDrawn(Headed):
    """Other threads get a turn between its draws."""

    def __init__(self, num_classes: int) -> None:
        super().__init__(num_classes)
        time.sleep(0.005)
        self.body[1] = nn.Linear(36, 10)


def test_threads_that_create_modules_draw_each_their_own_seeds_weights() -> None:
    """As an executor of threads does that trains several seeds at once: torch's generator is that of all threads."""
    net = as_net(SlowlyDrawn)
    alone = [flatten(net.initial(seed)) for seed in range(4)]
    with ThreadPoolExecutor(4) as pool:
        together = [flatten(params) for params in pool.map(net.initial, range(4))]
    for one, other in zip(alone, together, strict=True):
        assert all(torch.equal(value, other[name]) for name, value in one.items())


def test_dropout_drops_its_share_and_scales_the_rest() -> None:
    class Drops(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.drop, self.channels, self.fc = nn.Dropout(0.25), nn.Dropout1d(0.5), nn.Linear(50, CLASSES)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.fc(self.channels(self.drop(x).unsqueeze(2)).squeeze(2))

    net = as_net(Drops, (50,))
    params = net.initial(0)
    ones = torch.ones(400, 50)
    features = net.extract(params, Inputs(ones), {})
    share = float((features != 0).float().mean())
    assert share == pytest.approx(0.75 * 0.5, abs=5 * (0.375 * 0.625 / 20_000) ** 0.5)
    torch.testing.assert_close(features[features != 0], torch.full_like(features[features != 0], 1 / 0.375))
    assert torch.equal(features, net.extract(params, Inputs(ones), {}))  # the batch decides
    assert not torch.equal(features, net.extract(params, Inputs(ones + 1), {}) / 2)
    assert torch.equal(net.extract(params, Inputs(ones)), ones)  # not in inference
    rows = [float((row != 0).float().mean()) for row in features]
    assert len(set(rows)) > 5  # rows of equal examples have masks of their own
    padded = torch.cat([ones, torch.randn(3, 50)])
    weight = torch.cat([torch.ones(400), torch.zeros(3)])
    assert torch.equal(net.extract(params, Inputs(padded, weight=weight), {})[:400], features)


def test_bytes_and_tokens() -> None:
    class Bytes(Headed):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            assert x.dtype is torch.float32
            return super().forward(x)

    net = as_net(Bytes, SHAPE, "uint8")
    image = torch.randint(256, (3, *SHAPE), dtype=torch.uint8)
    expected = loaded(net, Headed(CLASSES), net.initial(0))(image.float() / 255)
    torch.testing.assert_close(net.logits(net.initial(0), Inputs(image)).log_softmax(1), expected)

    class Tokens(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.out = nn.Embedding(20, 6), nn.LazyLinear(CLASSES)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.out(self.embed(x).mean(1))

    tokens = as_net(Tokens, (9,), "int64")
    assert tokens.features == 6
    assert tokens.logits(tokens.initial(0), Inputs(torch.randint(20, (2, 9)))).shape == (2, CLASSES)
    assert not tokens.stacking_problem()


class Branches(Headed):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(-x if x.sum() > 0 else x)


def test_what_cannot_be_stacked_says_why() -> None:
    for factory in (partial(Small, "batch"), Branches):
        net = as_net(factory)
        assert net.stacking_problem()
        params = net.initial(0)
        assert net.logits(params, batch(3).inputs).shape == (3, CLASSES)  # one client at a time it trains
        trained(net, "fedavg", lambda data, plan: ThreadEngine(data, plan, 1), rounds=1)
    assert not as_net(Small).stacking_problem()


class Centred(Headed):
    """In training the mean of a batch is subtracted, at inference that of nothing."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x - x.mean(0) if self.training else x)


def test_a_net_that_mixes_the_rows_of_a_batch_is_not_stacked() -> None:
    """Rows that pad a stack, other clients' examples, would enter the mean."""
    assert as_net(Centred).stacking_problem()
    assert not as_net(partial(Small, dropout=0.5)).stacking_problem()


class ByBatch(Headed):
    """Normalised by mean and variance of the batch, also at inference."""

    def __init__(self, num_classes: int) -> None:
        super().__init__(num_classes)
        self.by_batch = nn.BatchNorm2d(1, track_running_stats=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(self.by_batch(x))


class LessMean(Headed):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x - x.mean(0))


@pytest.mark.parametrize("factory", [ByBatch, LessMean])
def test_a_net_whose_answer_depends_on_other_examples_is_refused(factory: NetFactory) -> None:
    with refuses(OptionError, "invalid-value", "net"):
        as_net(factory)


def module_of(forward: Callable[..., Any], **parts: nn.Module) -> NetFactory:
    """A class with some parts and a ``forward(self, x)``."""

    class Made(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            for name, part in parts.items():
                setattr(self, name, part)

    Made.forward = forward  # type: ignore[method-assign]
    return Made


FC = nn.Linear(36, CLASSES)


@pytest.mark.parametrize(
    "factory",
    [
        module_of(lambda self, x: x.flatten(1)[:, :CLASSES]),  # nothing to learn
        module_of(lambda self, x: self.a(x.flatten(1)), a=nn.Linear(36, CLASSES + 1)),
        module_of(lambda self, x: self.a(x.flatten(1)), a=nn.Linear(36, CLASSES, bias=False)),
        module_of(lambda self, x: 2 * self.a(x.flatten(1)), a=FC),  # the head is not the last
        module_of(lambda self, x: self.a(x.flatten(1)) + self.a(-x.flatten(1)), a=FC),
        module_of(lambda self, x: self.a(x), a=nn.Linear(6, CLASSES)),  # features of four axes
        module_of(lambda self, x: (self.a(x.flatten(1)), x), a=FC),
        module_of(lambda self, x: self.a(F.dropout(x, 0.5, self.training).flatten(1)), a=FC),  # torch's generator
        module_of(lambda self, x: self.head(x.flatten(1)), head=nn.Sequential(nn.Dropout(0.5), FC)),
        module_of(lambda self, x: self.a(x.flatten(1)), a=nn.Sequential(nn.BatchNorm1d(36, momentum=None), FC)),
    ],
)
def test_modules_that_are_no_classifier_are_refused(factory: NetFactory) -> None:
    with refuses(OptionError, "invalid-value", "net"):
        as_net(factory)


@pytest.mark.parametrize(
    ("factory", "code"),
    [
        (lambda: None, "invalid-value"),
        (lambda first: Small(), "code-not-loaded"),
        (Small(), "invalid-value"),  # an instance
        (7, "invalid-value"),
        (module_of(lambda self, x: self.a(x), a=FC), "code-not-loaded"),  # another shape
    ],
)
def test_what_makes_no_module_is_refused(factory: Any, code: str) -> None:
    with refuses(OptionError, code, "net"):
        as_net(factory)
