"""Every registered method passes the checks of ``ecgfed.testing``, and each check can fail."""

import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

from ecgfed.base.errors import OptionError
from ecgfed.core.methods.base import Batch, ClientInfo, Losses, Method, Returned, Tree
from ecgfed.core.methods.fedavg import FedAvg
from ecgfed.core.methods.local import Local
from ecgfed.core.methods.local_sgd import gradients, sgd_step, train_full_model
from ecgfed.core.methods.models import Model, Pipeline, Stage, combine_models
from ecgfed.core.methods.registry import method_by_name, methods
from ecgfed.core.methods.server_sgd import FederatedSgdSettings
from ecgfed.core.nets.layers import Params
from ecgfed.core.nets.net import Net
from ecgfed.testing import check_method
from ecgfed.testing.method import CHECKS

EXAMPLE = Path(__file__).parents[2] / "examples" / "trimmed_mean.py"


@pytest.mark.parametrize("name", sorted(methods()))
def test_a_registered_method_keeps_every_promise(name: str) -> None:
    report = check_method(methods()[name])
    assert report.passed == tuple(check.text for check in CHECKS)
    assert str(report).startswith(f"{name} passes {len(CHECKS)} checks:\n")


def test_the_example_keeps_them_too_with_settings_of_its_own() -> None:
    report = check_method(method_by_name(f"{EXAMPLE}:TrimmedMean"), {"trim": 0.3, "server_optimizer": "adam"})
    assert len(report.passed) == len(CHECKS)
    with pytest.raises(OptionError, match="trim"):
        check_method(method_by_name(f"{EXAMPLE}:TrimmedMean"), {"trim": 0.7})


class Sound(FedAvg):
    """What the broken ones are made of."""

    name: ClassVar[str] = "sound"


def sound_step(method: Method, state: Tree, batches: Sequence[Batch]) -> tuple[Tree, Losses]:
    return train_full_model(method.net, state, batches[0], method.settings)


class NoSpec(Sound):
    communication = None  # type: ignore[assignment]


class Named(Sound):
    name = "fedavg"


class Half(Method):
    name = "half"


class Thawed(Sound):
    settings_type = type("Thawed", (), {"__init__": lambda self: None})


@dataclass(frozen=True)
class Endless(FederatedSgdSettings):
    patience: float = float("inf")


class EndlessSettings(Sound):
    settings_type = Endless


@dataclass(frozen=True)
class Listed(FederatedSgdSettings):
    mu: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "mu", self.mu / 2)


class HalvedSettings(Sound):
    settings_type = Listed


class StepInPlace(Sound):
    def step(self, state: Tree, batches: Sequence[Batch], t: int | Tensor) -> tuple[Tree, Losses]:
        state["velocity"]["head.out.bias"].add_(1.0)
        return sound_step(self, state, batches)


class AggregateInPlace(Sound):
    def aggregate(self, server: Tree, returned: Returned) -> Tree:
        returned.tree["model"]["head.out.bias"][0] = 0.0
        return super().aggregate(server, returned)


class KeysInPlace(Sound):
    def finish_round(self, state: Tree, info: ClientInfo) -> tuple[Tree, Tree]:
        return {"model": state.pop("model")}, {}


class AnswerInPlace(Sound):
    def personal_model(self, server: Tree, client_state: Tree) -> Pipeline:
        server["model"]["head.out.bias"].mul_(0.5)
        return super().personal_model(server, client_state)


class NumberInTree(Sound):
    def finish_round(self, state: Tree, info: ClientInfo) -> tuple[Tree, Tree]:
        return super().finish_round(state, info)[0], {"rounds": info.round}


class SlashInKey(Sound):
    def client_start(self, initial: Params) -> Tree:
        return {"my/own": torch.zeros(1)}


class FormByClient(Sound):
    def init_round(self, message: Tree, client_state: Tree, info: ClientInfo) -> Tree:
        return {**super().init_round(message, client_state, info), "counts": info.class_counts[: info.index + 1]}

    def step(self, state: Tree, batches: Sequence[Batch], t: int | Tensor) -> tuple[Tree, Losses]:
        new, losses = sound_step(self, state, batches)
        return {**state, **new}, losses


class FormByStep(Sound):
    def init_round(self, message: Tree, client_state: Tree, info: ClientInfo) -> Tree:
        return {"model": message["model"]}

    def step(self, state: Tree, batches: Sequence[Batch], t: int | Tensor) -> tuple[Tree, Losses]:
        return sound_step(self, {"velocity": super().init_round(state, {}, None)["velocity"], **state}, batches)  # type: ignore[arg-type]


class NoLoss(Sound):
    def step(self, state: Tree, batches: Sequence[Batch], t: int | Tensor) -> tuple[Tree, Losses]:
        state, losses = sound_step(self, state, batches)
        return state, {**losses, "each": losses["loss"].expand(3)}


class GlobalRandom(Sound):
    def init_round(self, message: Tree, client_state: Tree, info: ClientInfo) -> Tree:
        torch.rand(1)
        return super().init_round(message, client_state, info)


class Counting(Sound):
    rounds = 0

    def aggregate(self, server: Tree, returned: Returned) -> Tree:
        self.rounds += 1
        new = super().aggregate(server, returned)
        return {**new, "model": {name: value / self.rounds for name, value in new["model"].items()}}


class EveryRow(Sound):
    """Forgets that some rows of a batch only fill it up."""

    def step(self, state: Tree, batches: Sequence[Batch], t: int | Tensor) -> tuple[Tree, Losses]:
        def risk(params: Params) -> tuple[Tensor, Params]:
            logits = self.net.logits(params, batches[0].inputs)
            return torch.nn.functional.cross_entropy(logits, batches[0].label), {}

        grads, loss, _ = gradients(risk, state["model"])
        model, velocity = sgd_step(state["model"], grads, state["velocity"], {}, self.settings)
        return {"model": model, "velocity": velocity}, {"loss": loss}


class IfByStep(Sound):
    def step(self, state: Tree, batches: Sequence[Batch], t: int | Tensor) -> tuple[Tree, Losses]:
        return sound_step(self, state, batches) if t < 2 else (state, {"loss": torch.zeros(())})


class RemembersTheFirstRound(Sound):
    """What it needs later lies in the object, not in the server's state."""

    def server_start(self, initial: Params) -> Tree:
        self.round = 0
        return super().server_start(initial)

    def aggregate(self, server: Tree, returned: Returned) -> Tree:
        self.round = getattr(self, "round", 0) + 1
        new = super().aggregate(server, returned)
        return {**new, "model": {name: value / self.round for name, value in new["model"].items()}}


class StandsStill(Sound):
    def aggregate(self, server: Tree, returned: Returned) -> Tree:
        return server


class OnceMore(Local):
    name = "once-more"

    def global_model(self, server: Tree, client_state: Iterable[Tree], protocol: str) -> Model:
        count = len([tree for tree in client_state if tree])
        chains = [self.personal_model(server, tree) for tree in client_state]
        return combine_models(chains[:count], protocol)


class OtherRole(Sound):
    def personal_model(self, server: Tree, client_state: Tree) -> Pipeline:
        return Pipeline((Stage("everything", server["model"], shared=True),))


class HalfAnAnswer(Sound):
    def personal_model(self, server: Tree, client_state: Tree) -> Pipeline:
        return Pipeline((Stage("extractor", server["model"], shared=True),))


class SharedByNobody(Local):
    name = "shared-by-nobody"

    def personal_model(self, server: Tree, client_state: Tree) -> Pipeline:
        return Pipeline((Stage("model", client_state["model"], shared=True),))


class DividesByCounts(Sound):
    def finish_round(self, state: Tree, info: ClientInfo) -> tuple[Tree, Tree]:
        scale = info.class_counts.sum() / (3 * info.class_counts)
        model = dict(state["model"])
        missing = ~torch.isfinite(scale)
        model["head.out.bias"] = torch.where(missing, model["head.out.bias"] + 1e38 * 3, model["head.out.bias"])
        return {"model": model}, {}


class WipesNanAway(Sound):
    def step(self, state: Tree, batches: Sequence[Batch], t: int | Tensor) -> tuple[Tree, Losses]:
        state, losses = sound_step(self, state, batches)
        clean = {part: {name: value.nan_to_num() for name, value in tree.items()} for part, tree in state.items()}
        return clean, {"loss": losses["loss"].nan_to_num()}


class DecidesInPython(Sound):
    """Its net asks about the values of a batch, which a graph cannot."""

    def __init__(self, net: Net, settings: Any) -> None:
        super().__init__(net, settings)
        inner = net.roles["model"]
        net.roles["model"] = lambda params, inputs: inner(params, inputs) * (2 if inputs.examples.mean() > 0 else 1)


class LostNewcomer(Sound):
    def init_new_client(self, server: Tree, initial: Params) -> Tree:
        return {"model": server["models"]}


class SaysLess(Sound):
    """Its clients' class counts go up, of which its communication spec says nothing."""

    def finish_round(self, state: Tree, info: ClientInfo) -> tuple[Tree, Tree]:
        returned, client_state = super().finish_round(state, info)
        return {**returned, "counts": info.class_counts}, client_state


BROKEN: dict[type[Method], str] = {
    NoSpec: "lacks communication",
    Named: "fedavg: another method has this name",
    Half: "lacks communication",
    Thawed: "its settings are not a frozen dataclass",
    EndlessSettings: "sound: its own defaults are refused (settings patience: inf",
    HalvedSettings: "its settings do not come back from JSON as they were",
    StepInPlace: "step changes its arguments (velocity/head.out.bias)",
    AggregateInPlace: "aggregate changes its arguments (tree/model/head.out.bias)",
    KeysInPlace: "finish_round changes its arguments (model/extractor.stem.weight)",
    AnswerInPlace: "computing a model changes the server's state (model/head.out.bias)",
    NumberInTree: "rounds of what finish_round stores is int, not a tensor",
    SlashInKey: "what client_start returns has the key 'my/own'",
    FormByClient: "what init_round returns differs in form between the clients of a round: counts is int64 (2,) and",
    FormByStep: "step changes the form of its state: velocity/extractor",
    NoLoss: "step returns the loss 'each' as (3,), not as a 0-d tensor",
    GlobalRandom: "it draws from torch's global random numbers",
    Counting: "run again, the same object with three threads, model/",
    EveryRow: "with many clients at once (norm group) the server's state: model/",
    IfByStep: "fails with RuntimeError",
    RemembersTheFirstRound: "resumed from disk after one of two rounds, model/",
    StandsStill: "two rounds do not change the server's state",
    OnceMore: "the global model (ensemble) is an empty ensemble",
    OtherRole: "KeyError: 'everything'",
    HalfAnAnswer: "gives logits (61, 24)",
    SharedByNobody: "the shared model of personal models differs between patients",
    DividesByCounts: "client 0 in round 1: the model is inf",
    WipesNanAway: "beats that are NaN are trained on without an error",
    DecidesInPython: "(check: exported graphs agree with the model)",
    SaysLess: "it sends up counts, which its card does not name",
    LostNewcomer: "fails with KeyError: 'models'",
}


@pytest.mark.parametrize("kind", BROKEN, ids=lambda kind: kind.__name__)
def test_a_broken_method_is_told_what_it_breaks(kind: type[Method]) -> None:
    with pytest.raises(AssertionError) as caught:
        check_method(kind)
    assert BROKEN[kind] in str(caught.value)


def test_what_the_broken_ones_are_made_of_is_sound() -> None:
    assert len(check_method(Sound).passed) == len(CHECKS)


def test_a_check_of_a_detector_needs_no_torch_and_none_of_them_pytest() -> None:
    code = (
        "import sys\n"
        "from ecgfed.testing import check_detector, synthetic_ecg\n"
        "check_detector('ecgfed')\n"
        "assert not {'torch', 'pytest', 'onnx'} & set(sys.modules), 'detector'\n"
        "from ecgfed.testing import check_method\n"
        "assert 'pytest' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_without_onnx_the_export_is_left_out_and_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ecgfed.testing.method.find_spec", lambda name: None if name == "onnxscript" else object())
    report = check_method(Sound)
    assert report.skipped == {"exported graphs agree with the model": "onnxscript not installed"}
    assert "skipped: exported graphs agree with the model (onnxscript not installed)" in str(report)
