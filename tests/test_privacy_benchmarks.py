"""The tables of privacy and of malicious clients are those of their results; the attacks do what they say."""

from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from loaded_scripts import load_script

from ecgfed.core.methods.local_sgd import SgdSettings
from ecgfed.core.nets.net import Inputs, NetSpec
from ecgfed.core.nets.resnet1d import ResNet1d

ROOT = Path(__file__).parent.parent
BENCHMARKS = ROOT / "benchmarks"


def inversion() -> ModuleType:
    return load_script(BENCHMARKS / "privacy" / "inversion.py")


def test_what_the_attacker_differentiates_is_local_sgd() -> None:
    """Two steps with momentum, by the training's own step."""
    from ecgfed.core.methods.base import Batch
    from ecgfed.core.methods.local_sgd import train_full_model, zeros_like

    attack, net = inversion(), ResNet1d(NetSpec(3, width=0.35))
    model, settings = net.initial(0), SgdSettings(lr=0.05, momentum=0.9)
    windows = torch.randn(6, 1, 256, generator=torch.Generator().manual_seed(1))
    labels = torch.tensor([0, 1, 2, 2, 1, 0])
    state: Any = {"model": model, "velocity": zeros_like(model)}
    for x, y in zip(windows.chunk(2), labels.chunk(2), strict=True):
        state = train_full_model(net, state, Batch(Inputs(x), y), settings)[0]
    found = attack.updated(net, model, windows, labels, settings, 2)
    for name, value in model.items():
        assert torch.allclose(found[name], state["model"][name] - value, atol=1e-6)


def test_the_label_of_one_beat_is_always_known() -> None:
    attack, net = inversion(), ResNet1d(NetSpec(5, width=0.35))
    model, settings = net.initial(0), SgdSettings(lr=0.05, momentum=0.9)
    windows = torch.randn(5, 1, 256, generator=torch.Generator().manual_seed(2))
    for label in range(5):
        change = attack.updated(net, model, windows[label : label + 1], torch.tensor([label]), settings, 1)
        seen = attack.Seen(model, {name: value.detach() for name, value in change.items()}, 1, 1)
        assert attack.inferred_labels(net, seen, settings, windows).tolist() == [label]


def test_the_attack_finds_windows_whose_update_points_the_same_way() -> None:
    """What it minimises falls; that the window is the true one does not follow."""
    attack, net = inversion(), ResNet1d(NetSpec(3, width=0.35))
    model, settings = net.initial(0), SgdSettings(lr=0.05, momentum=0.0)
    time = np.arange(256)
    true = sum(h * np.exp(-0.5 * ((time - at) / w) ** 2) for at, w, h in ((60, 9, 0.2), (100, 5, 1.0), (170, 16, 0.4)))
    window = torch.from_numpy(np.asarray(true)).float().reshape(1, 1, 256)
    change = attack.updated(net, model, window, torch.tensor([1]), settings, 1)
    seen = attack.Seen(model, {name: value.detach() for name, value in change.items()}, 1, 1)
    how: dict[str, Any] = {"typical": np.exp(-0.5 * ((time - 100) / 8) ** 2), "seed": 0}
    _, first = attack.invert(net, seen, settings, torch.tensor([1]), iterations=1, **how)
    found, last = attack.invert(net, seen, settings, torch.tensor([1]), iterations=100, **how)
    assert last < 0.75 * first
    _, best = attack.invert(net, seen, settings, torch.tensor([1]), iterations=100, starts=2, **how)
    assert best <= last
    assert found.shape == (1, 256)


def test_windows_are_paired_whatever_their_order() -> None:
    attack = inversion()
    true = np.random.default_rng(0).normal(size=(4, 256))
    assert attack.matched(true[[2, 0, 3, 1]] * 3 + 1, true) == pytest.approx(np.ones(4))
    assert attack.overlap(torch.tensor([1, 1, 0]), torch.tensor([0, 1, 2])) == pytest.approx(2 / 3)


def test_the_area_under_the_curve_is_scikit_learn_s() -> None:
    from sklearn.metrics import roc_auc_score

    attacks, draw = load_script(BENCHMARKS / "privacy" / "attacks.py"), np.random.default_rng(1)
    inside, outside = draw.integers(0, 9, 40) / 9, draw.integers(2, 12, 25) / 9  # with ties
    truth = np.array([1] * 40 + [0] * 25)
    expected = roc_auc_score(truth, -np.concatenate([inside, outside]))
    assert attacks.area(inside, outside) == pytest.approx(expected)


def test_a_malicious_client_multiplies_its_update_and_nobody_else_s() -> None:
    from ecgfed.core.federation.communication_log import record_communication
    from ecgfed.core.federation.plan import TrainPlan
    from ecgfed.core.federation.trees import flatten
    from ecgfed.core.methods.fedavg import FedAvg
    from ecgfed.core.methods.server_sgd import FederatedSgdSettings
    from ecgfed.testing.trial import mixed_federation

    run = load_script(BENCHMARKS / "robust" / "run.py")
    method = FedAvg(ResNet1d(NetSpec(3, width=0.35)), FederatedSgdSettings())
    (parcels,) = record_communication(method, mixed_federation(rr=False), TrainPlan(1, None, 1, batch_size=8)).rounds

    class Given:
        def run(self, method: Any, work: Any) -> list[Any]:
            return [one.result for one in parcels]

    found = run.Malicious(Given(), -10.0).run(method, [one.work for one in parcels])
    for one, parcel in zip(found, parcels, strict=True):
        down, honest = parcel.down, parcel.up
        times = -10.0 if parcel.client == run.MALICIOUS else 1.0
        for path, value in flatten(one.returned).items():
            assert torch.allclose(value, down[path] + times * (honest[path] - down[path]), atol=1e-6)
    turned = run.turned(mixed_federation(rr=False))
    plain = mixed_federation(rr=False)
    assert (turned.label[plain.rows[1]] == plain.label[plain.rows[1]]).all()
    assert (turned.label[plain.rows[run.MALICIOUS]] == 2 - plain.label[plain.rows[run.MALICIOUS]]).all()
