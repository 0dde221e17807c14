"""Fed-RoD by hand on two clients of two parameters: two risks, two heads, nothing from one into the other."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tiny
import torch

from ecgfed.core.evaluation.predict import chain_logits
from ecgfed.core.methods.fed_rod import FedRod, FedRodHyper, FedRodSettings
from ecgfed.core.methods.fedavg import FedAvg
from ecgfed.core.methods.feddyn import FedDyn
from ecgfed.core.methods.fedprox import FedProx
from ecgfed.core.methods.scaffold import Scaffold
from ecgfed.core.methods.settings import make_settings
from ecgfed.core.nets.hypernetwork import head_from_hypernetwork
from ecgfed.core.nets.net import Inputs, NetSpec
from ecgfed.core.nets.resnet1d import ResNet1d

ETA, STEPS, ROUNDS = 0.3, 2, 2


def _balanced_gradient(model: np.ndarray, i: int) -> np.ndarray:
    """Of balanced softmax: logits (log N_0, w x + b + log N_1)."""
    x, y = tiny.POINTS[i]
    counts = np.bincount(y, minlength=2)
    p = 1 / (1 + np.exp(-(model[0] * x + model[1] + np.log(counts[1] / counts[0]))))
    return np.array([np.mean((p - y) * x), np.mean(p - y)])


def test_linear_form_by_hand() -> None:
    w, phi = tiny.START, [np.zeros((2, 2)), np.zeros((2, 2))]  # phi: rows are classes, columns weight and bias
    for _ in range(ROUNDS):
        ends = []
        for i in (0, 1):
            model, (x, y) = w, tiny.POINTS[i]
            for _ in range(STEPS):
                f = model[0] * x
                z = np.stack([phi[i][0, 0] * f + phi[i][0, 1], f + model[1] + phi[i][1, 0] * f + phi[i][1, 1]])
                p = np.exp(z) / np.exp(z).sum(0)
                error = p - np.stack([1 - y, y])
                step = np.stack([(error * f).mean(1), error.mean(1)], axis=1)
                model, phi[i] = model - ETA * _balanced_gradient(model, i), phi[i] - ETA * step
            ends.append(model)
        w = 0.4 * ends[0] + 0.6 * ends[1]
    state = tiny.run(FedRod)
    assert tiny.pair(state.server["generic"]["model"]) == pytest.approx(w, abs=1e-6)
    for i in (0, 1):
        head = state.client_states[i]["personal"]
        found = torch.cat([head["personal.weight"], head["personal.bias"][:, None]], dim=1)
        assert found.numpy() == pytest.approx(phi[i], abs=1e-6)
    mine = state.client_states[1]["model"]
    assert tiny.pair({n: mine[n] for n in ("extractor.w", "head.b")}) == pytest.approx(ends[1], abs=1e-6)


@pytest.mark.parametrize("kind", [FedRod, FedRodHyper])
@pytest.mark.parametrize(
    ("generic", "alone", "settings"),
    [
        ("fedavg", FedAvg, {}),
        ("fedprox", FedProx, {"mu": 0.5}),
        ("scaffold", Scaffold, {}),
        ("feddyn", FedDyn, {"alpha": 0.4}),
        ("fedavg", FedAvg, {"server_optimizer": "adam", "server_lr": 0.1, "server_momentum": 0.5, "weight_decay": 0.1}),
        ("scaffold", Scaffold, {"option": "I", "momentum": 0.5, "server_lr": 0.7}),
    ],
)
def test_the_personal_branch_sends_nothing_into_the_generic_one(
    kind: type[FedRod], generic: str, alone: type[FedAvg], settings: dict[str, Any]
) -> None:
    both = tiny.run(kind, generic=generic, **settings)
    one = tiny.run(alone, risk="bsm", **settings)
    assert tiny.pair(both.server["generic"]["model"]) == pytest.approx(tiny.pair(one.server["model"]), abs=1e-12)


def test_the_personal_answer_is_the_clients_own_model_with_both_heads() -> None:
    state = tiny.run(FedRod)
    net = ResNet1d(NetSpec(3, width=0.35))
    method = FedRod(net, FedRodSettings())
    generic = net.initial(4)
    personal = {"personal.weight": torch.randn(3, net.features), "personal.bias": torch.randn(3)}
    chain = method.personal_model({"generic": {"model": net.initial(0)}}, {"model": {**generic, **personal}})
    inputs = Inputs(torch.randn(4, 1, 256))
    features = net.extract(generic, inputs)
    expected = net.classify(generic, features) + features @ personal["personal.weight"].T + personal["personal.bias"]
    torch.testing.assert_close(chain_logits(net, chain, inputs), expected)
    assert state.client_states[0].keys() == {"model", "personal"}


def test_the_hypernetwork_is_averaged_and_makes_a_head_for_a_new_patient() -> None:
    state = tiny.run(FedRodHyper, replace(tiny.PLAN, rounds=1))
    start = FedRodHyper(tiny.TinyNet(), FedRodSettings()).server_start(tiny.TinyNet().initial(0))  # type: ignore[arg-type]
    assert any(not torch.equal(state.server["hyper"][n], v) for n, v in start["hyper"].items())
    method = FedRodHyper(ResNet1d(NetSpec(3, width=0.35)), FedRodSettings())
    server = method.server_start(method.net.initial(0))
    mixes = [torch.tensor(mix) for mix in ([1.0, 0.0, 0.0], [0.0, 0.5, 0.5])]
    heads = [method.model_from_class_distribution(server, mix).stages[0].params["personal.weight"] for mix in mixes]
    assert heads[0].shape == (3, method.net.features)
    assert not torch.equal(*heads)
    hidden = torch.relu(server["hyper"]["hyper.hidden.weight"] @ mixes[1] + server["hyper"]["hyper.hidden.bias"])
    flat = server["hyper"]["hyper.out.weight"] @ hidden + server["hyper"]["hyper.out.bias"]
    torch.testing.assert_close(heads[1].flatten(), flat[: heads[1].numel()])
    torch.testing.assert_close(
        head_from_hypernetwork(server["hyper"], mixes[1], method.net.features)["personal.bias"], flat[-3:]
    )


def test_scaffold_inside_refuses_momentum_as_it_does_alone() -> None:
    from ecgfed.base.errors import OptionError

    with pytest.raises(OptionError, match="momentum"):
        make_settings(FedRodSettings, {"generic": "scaffold"})
