"""``make check-meta``: what would fail or wait on a GPU fails on ``meta``, and nothing of ours does."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from ecgfed.base.errors import OptionError
from ecgfed.base.options import Choice, Range
from ecgfed.core.config import NETS
from ecgfed.core.federation.cost import flat_federation
from ecgfed.core.methods.base import Batch, ClientInfo, Losses, Method, Tree
from ecgfed.core.methods.fedavg import FedAvg
from ecgfed.core.methods.models import Pipeline, Stage
from ecgfed.core.methods.registry import methods
from ecgfed.core.methods.settings import Setting, make_settings, settings_of
from ecgfed.core.nets.build import make_net
from ecgfed.core.nets.net import net_spec
from ecgfed.core.personal import distilled, finetune
from ecgfed.core.personal.base import PatientBeats
from ecgfed.core.personal.registry import personal_models
from ecgfed.testing.federation import CLASSES, synthetic_federation
from ecgfed.testing.meta_device import computes_on_meta, runs_on_meta
from ecgfed.testing.trial import Trial

#: Breaks a step: takes the loss of a batch and the step's number, returns the loss.
Break = Callable[[Tensor, int | Tensor], Tensor]
WEIGHT = torch.ones(1, 1, 3)
BREAKS: dict[str, Break] = {
    "a constant of the CPU": lambda loss, t: loss * torch.tensor([1.0])[0],
    "zeros of the CPU": lambda loss, t: loss + torch.zeros(()),
    "a range of the CPU": lambda loss, t: loss.expand(3)[torch.arange(3)].sum(),
    "a weight of the CPU": lambda loss, t: F.conv1d(loss.expand(1, 1, 9), WEIGHT).sum(),
    "a number of the CPU, copied": lambda loss, t: loss * torch.tensor(2.0).to(loss.device),
    "item": lambda loss, t: loss * float(loss.detach().item() > 0),
    "cpu": lambda loss, t: loss.cpu(),
    "float": lambda loss, t: loss / float(loss),
    "tolist": lambda loss, t: loss * len(loss.expand(2).tolist()),
    "if": lambda loss, t: loss if loss > 0 else -loss,
    "if on the step": lambda loss, t: loss if t == 0 else -loss,
    "while": lambda loss, t: loss * any(iter(loss.expand(2) > 0)),
    "a mask": lambda loss, t: loss.expand(3)[loss.expand(3) > 0].sum(),
    "nonzero": lambda loss, t: loss * torch.nonzero(loss.expand(3)).shape[0],
    "equal": lambda loss, t: loss * torch.equal(loss, loss),
    "numpy": lambda loss, t: loss * float(np.mean(loss.detach().numpy())),
}


class Broken(FedAvg):
    """A method whose step does one thing too many."""

    name: ClassVar[str] = "broken"
    breaks: ClassVar[Break]

    def step(self, state: Tree, batches: Sequence[Batch], t: int | Tensor) -> tuple[Tree, Losses]:
        new, losses = super().step(state, batches, t)
        return new, {"loss": type(self).breaks(losses["loss"], t)}


def trial(kind: type[Method], values: dict[str, Any] | None = None) -> Trial:
    return Trial(kind, make_settings(kind.settings_type, values or {}))


@pytest.mark.parametrize("breaks", BREAKS.values(), ids=BREAKS)
def test_what_would_fail_or_wait_on_a_gpu_is_caught(breaks: Break) -> None:
    kind = type("Broken", (Broken,), {"breaks": staticmethod(breaks)})
    with pytest.raises(AssertionError, match="step would fail on a GPU, or wait for it"):
        runs_on_meta(trial(kind))


class MixesAtTheStart(FedAvg):
    name = "mixes-at-the-start"

    def init_round(self, message: Tree, client_state: Tree, info: ClientInfo) -> Tree:
        state = super().init_round(message, client_state, info)
        state["model"]["head.out.bias"] + torch.zeros(CLASSES, device="cpu")
        return state


class StaysOnTheCpu(FedAvg):
    name = "stays-on-the-cpu"

    def init_round(self, message: Tree, client_state: Tree, info: ClientInfo) -> Tree:
        return {**super().init_round(message, client_state, info), "own": torch.from_numpy(np.ones(3))}


class CopiesAtTheStart(FedAvg):
    name = "copies-at-the-start"

    def init_round(self, message: Tree, client_state: Tree, info: ClientInfo) -> Tree:
        own = torch.from_numpy(np.ones(3)).to(message["model"]["head.out.bias"].device)
        return {**super().init_round(message, client_state, info), "own": own, "counts": info.class_counts * 2}


class ScalesItsModel(FedAvg):
    name = "scales-its-model"

    def personal_model(self, server: Tree, client_state: Tree) -> Pipeline:
        self.net.roles["scaled"] = lambda params, inputs: self.net.logits(params, inputs) * torch.ones(CLASSES)
        return Pipeline((Stage("scaled", server["model"], shared=True),))


def test_a_round_may_copy_to_the_device_at_its_start_and_mix_nothing() -> None:
    runs_on_meta(trial(CopiesAtTheStart))
    for kind in (MixesAtTheStart, StaysOnTheCpu):
        with pytest.raises(AssertionError, match="init_round"):
            runs_on_meta(trial(kind))


def test_a_model_with_a_tensor_of_the_cpu_is_caught() -> None:
    with pytest.raises(AssertionError, match="the personal model of client 0 would fail"):
        runs_on_meta(trial(ScalesItsModel))


@pytest.mark.parametrize(
    ("modality", "architecture", "norm"),
    [(kind, name, norm) for kind in NETS for name in NETS[kind] for norm in ("group", "batch", "none")],
)
def test_every_net_runs_on_another_device(modality: str, architecture: str, norm: str) -> None:
    rr_version = 3 if architecture == "context" else 2
    spec = net_spec(CLASSES, modality, architecture=architecture, norm=norm, width=0.35, rr_version=rr_version)
    method = FedAvg(make_net(spec), make_settings(FedAvg.settings_type, {}))
    runs_on_meta(trial(FedAvg), method, flat_federation(2, method.net))


def test_clients_without_labels_and_augmented_beats_run_on_another_device() -> None:
    data = synthetic_federation([[0, 1, 2] * 4, [0] * 9], rr=True)
    label = data.label.copy()
    label[data.rows[1]] = -1
    runs_on_meta(trial(FedAvg), data=replace(data, label=label, excluded={1: np.array([False, True, False])}))


@pytest.mark.parametrize("name", sorted(personal_models()))
def test_every_personal_model_computes_on_another_device(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (finetune, distilled):  # two steps are enough for a model's form
        monkeypatch.setattr(module, "batches", lambda beats, steps, draw=finetune.batches: draw(beats, min(steps, 2)))
    monkeypatch.setattr(distilled, "STEPS", 2)
    data = synthetic_federation([[0, 1, 2] * 4], rr=True)
    net = trial(FedAvg).build().net
    train, valid = (data.batch(rows[0]) for rows in (data.rows, data.valid_rows))
    model = personal_models()[name].fit(net, net.initial(0), PatientBeats(train, valid, torch.ones(CLASSES) / CLASSES))
    computes_on_meta(net, model, train.inputs, name)


def other_values(setting: Setting) -> Iterator[Any]:
    """Yield values of a setting that take another path than its default."""
    if isinstance(setting.limits, Choice):
        yield from (value for value in setting.limits.options if value != setting.default)
    elif setting.kind is bool:
        yield not setting.default
    elif isinstance(setting.limits, Range):
        yield setting.kind(setting.limits.low) if setting.default else setting.kind(min(1, setting.limits.high / 2))


def variants(kind: type[Method]) -> Iterator[Trial]:
    """Yield trials of a method with one setting changed: its own ones, of ``fedavg`` all."""
    common = set() if kind is FedAvg else {setting.name for setting in settings_of(FedAvg.settings_type)}
    changes = [(s.name, v) for s in settings_of(kind.settings_type) if s.name not in common for v in other_values(s)]
    for name, value in [*changes, ("risk", "meta-bsm")]:
        for values in ({name: value}, {name: value, "momentum": 0}):  # SCAFFOLD's option II refuses momentum
            try:
                yield trial(kind, values)
            except OptionError:
                continue
            break


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(methods()))
def test_every_setting_of_every_method_runs_on_another_device(name: str) -> None:
    for one in (trial(methods()[name]), *variants(methods()[name])):
        runs_on_meta(one)
