"""The local optimizer against torch.optim, and gradients against finite differences by hand."""

from contextlib import nullcontext

import pytest
import torch

from ecgfed.core.methods.base import Batch, cross_entropy, weighted_mean
from ecgfed.core.methods.local_sgd import SgdSettings, gradients, sgd_step, zeros_like
from ecgfed.core.nets.layers import mapped_over_clients
from ecgfed.core.nets.net import Inputs


@pytest.mark.parametrize("settings", [SgdSettings(0.1, 0.0, 0.0), SgdSettings(0.05, 0.9, 0.01)])
@pytest.mark.parametrize("mapped", [False, True])
def test_steps_are_torch_optims(settings: SgdSettings, mapped: bool) -> None:
    torch.manual_seed(0)
    target = torch.randn(3, 2)
    weight = torch.randn(3, 2, requires_grad=True)
    mine = {"w": weight.detach().clone()}
    optimizer = torch.optim.SGD(
        [weight], lr=settings.lr, momentum=settings.momentum, weight_decay=settings.weight_decay
    )
    velocity = zeros_like(mine)
    for _ in range(5):
        optimizer.zero_grad()
        ((weight - target) ** 4).sum().backward()  # type: ignore[no-untyped-call]
        optimizer.step()

        def loss(params: dict[str, torch.Tensor]) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
            return ((params["w"] - target) ** 4).sum(), {}

        grads, _, stats = gradients(loss, mine)
        with mapped_over_clients() if mapped else nullcontext():
            mine, velocity = sgd_step(mine, grads, velocity, stats, settings)
    torch.testing.assert_close(mine["w"], weight.detach())


@pytest.mark.parametrize("mapped", [False, True])
def test_gradients_by_hand(mapped: bool) -> None:
    # loss = a^2 b, running statistic a: d/da = 2ab = 12, d/db = a^2 = 4, an unused entry has gradient zero
    values = {"a": 2.0, "b": 3.0, "unused": 1.0, "n.running_mean": 7.0}
    params = {name: torch.tensor(value) for name, value in values.items()}

    def loss(p: dict[str, torch.Tensor]) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        return p["a"] ** 2 * p["b"], {"n.running_mean": p["n.running_mean"] + 1}

    with mapped_over_clients() if mapped else nullcontext():
        grads, value, stats = gradients(loss, params)
    assert {name: float(g) for name, g in grads.items()} == {"a": 12.0, "b": 4.0, "unused": 0.0}
    assert float(value) == 12.0
    assert float(stats["n.running_mean"]) == 8.0
    new, _ = sgd_step(params, grads, zeros_like(params), stats, SgdSettings(0.5, 0.0))
    assert float(new["a"]) == -4.0
    assert float(new["n.running_mean"]) == 8.0


def test_a_long_gradient_is_scaled_to_the_clip_and_a_short_one_left() -> None:
    params = {"a": torch.zeros(1), "b": torch.zeros(2)}
    long = {"a": torch.tensor([3.0]), "b": torch.tensor([0.0, 4.0])}  # norm 5
    settings = SgdSettings(1.0, 0.0, clip=1.0)
    stepped, _ = sgd_step(params, long, zeros_like(params), {}, settings)
    assert stepped["a"].tolist() == pytest.approx([-0.6])
    assert stepped["b"].tolist() == pytest.approx([0.0, -0.8])
    short = {name: value / 10 for name, value in long.items()}
    stepped, _ = sgd_step(params, short, zeros_like(params), {}, settings)
    assert stepped["b"].tolist() == pytest.approx([0.0, -0.4])


def test_weighted_rows_count_and_others_do_not() -> None:
    logits = torch.tensor([[2.0, 0.0], [0.0, 1.0], [5.0, -5.0]])
    label = torch.tensor([0, 0, 1])
    batch = Batch(Inputs(torch.zeros(3, 1, 256), weight=torch.tensor([1.0, 1.0, 0.0])), label)
    by_hand = (torch.log(1 + torch.exp(torch.tensor(-2.0))) + torch.log(1 + torch.exp(torch.tensor(1.0)))) / 2
    torch.testing.assert_close(cross_entropy(logits, batch), by_hand)


def test_weighted_mean_by_hand() -> None:
    stacked = {"w": torch.tensor([[1.0, 2.0], [3.0, 6.0]])}
    mean = weighted_mean(stacked, torch.tensor([0.25, 0.75], dtype=torch.float64))
    assert mean["w"].tolist() == [2.5, 5.0]
