"""GRP-FED: equations 2 and 3 and both losses by hand, and Algorithm 1 written out with autograd."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from test_fedavg_local import NET, federation, run

from ecgfed.base.errors import OptionError
from ecgfed.core.federation.data import local_batches
from ecgfed.core.federation.plan import TrainPlan
from ecgfed.core.federation.threads import ThreadEngine
from ecgfed.core.federation.train import Callback, RoundOutcome, initial_state, train
from ecgfed.core.methods.base import ClientInfo, Returned
from ecgfed.core.methods.discriminator_losses import discriminator_loss, gradient_penalty, regulariser_loss
from ecgfed.core.methods.fedavg import FedAvg, FedAvgUniform
from ecgfed.core.methods.grp_fed import DISCRIMINATOR_SEED, GrpFed, GrpFedSettings
from ecgfed.core.methods.grp_fed_printed import PrintedSettings
from ecgfed.core.methods.loss_weighted import loss_weights, next_power
from ecgfed.core.methods.server_sgd import PlainMeanSettings, server_step
from ecgfed.core.methods.settings import make_settings
from ecgfed.core.nets.discriminator import discriminate, feature_gradient, initial_discriminator
from ecgfed.core.nets.net import Inputs
from ecgfed.core.nets.parts import extractor_of, head_of


def f64(value: float) -> torch.Tensor:
    return torch.tensor(value, dtype=torch.float64)


@pytest.mark.parametrize(
    ("q", "sigma", "before", "expected"),
    [
        (10.0, 0.3, 0.1, 10.5),  # 10 + 0.5 * 0.2 / 0.2
        (10.0, 0.1, 0.3, 9.5),
        (2.0, 0.0, 0.4, 1.0),  # the fall from something to nothing is -2 in the fraction
        (3.0, 0.0, 0.0, 3.0),
    ],
)
def test_equation_2_by_hand(q: float, sigma: float, before: float, expected: float) -> None:
    assert float(next_power(f64(q), f64(sigma), f64(before), 0.5)) == pytest.approx(expected)


def test_equation_2_telescopes_to_the_logarithm_of_the_fall() -> None:
    q, sigmas = f64(10.0), np.geomspace(1.0, 0.1, 200)
    for before, sigma in itertools.pairwise(sigmas):
        q = next_power(q, f64(sigma), f64(before), 0.5)
    assert float(q) == pytest.approx(10 + 0.5 * math.log(0.1), abs=1e-3)  # 8.85: shared methods.md


def test_equation_3_by_hand() -> None:
    losses = torch.tensor([1.0, 2.0], dtype=torch.float64)
    assert loss_weights(losses, f64(1.0)).tolist() == pytest.approx([1 / 3, 2 / 3])
    assert loss_weights(losses, f64(10.0)).tolist() == pytest.approx([1 / 1025, 1024 / 1025])
    assert loss_weights(losses, f64(0.0)).tolist() == [0.5, 0.5]
    tiny = loss_weights(torch.tensor([0.0, 1e-30, 3.0], dtype=torch.float64), f64(50.0))
    assert torch.isfinite(tiny).all()
    assert float(tiny[2]) == pytest.approx(1.0)


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


@pytest.mark.parametrize("form", ["printed", "bce"])
@pytest.mark.parametrize(("a", "b"), [(0.0, 0.0), (1.5, -0.7), (-2.0, 3.0)])
def test_discriminator_loss_and_its_gradient_by_hand(form: str, a: float, b: float) -> None:
    logit_g, logit_l = (torch.tensor([x], dtype=torch.float64, requires_grad=True) for x in (a, b))
    loss = discriminator_loss(logit_g, logit_l, form)
    gradient = [float(g) for g in torch.autograd.grad(loss, [logit_g, logit_l])]
    if form == "printed":  # log(1 - D(f_g)) + log D(f_l)
        assert float(loss.detach()) == pytest.approx(math.log(1 - sigmoid(a)) + math.log(sigmoid(b)))
        assert gradient == pytest.approx([-sigmoid(a), 1 - sigmoid(b)])
    else:
        assert float(loss.detach()) == pytest.approx(-math.log(sigmoid(a)) - math.log(1 - sigmoid(b)))
        assert gradient == pytest.approx([sigmoid(a) - 1, sigmoid(b)])


@pytest.mark.parametrize("form", ["printed", "non-saturating"])
@pytest.mark.parametrize("b", [0.0, -0.7, 3.0])
def test_regulariser_and_its_gradient_by_hand(form: str, b: float) -> None:
    logit = torch.tensor([b], dtype=torch.float64, requires_grad=True)
    loss = regulariser_loss(logit, form)
    (gradient,) = torch.autograd.grad(loss, [logit])
    if form == "printed":  # log(1 - D(f_l))
        assert (float(loss.detach()), float(gradient)) == pytest.approx((math.log(1 - sigmoid(b)), -sigmoid(b)))
    else:
        assert (float(loss.detach()), float(gradient)) == pytest.approx((-math.log(sigmoid(b)), sigmoid(b) - 1))


@pytest.mark.parametrize("form", ["printed", "bce"])
def test_losses_stay_finite_far_out(form: str) -> None:
    far = torch.tensor([200.0, -200.0])
    assert torch.isfinite(discriminator_loss(far, -far, form))
    assert torch.isfinite(regulariser_loss(far, "printed"))


def _algorithm_1(
    settings: GrpFedSettings, batches: list, initial: dict, discriminator: dict
) -> tuple[dict, dict, dict]:  # type: ignore[type-arg]
    """Lines 16-36 for one client, momentum 0, straight from torch.autograd."""
    eta = settings.lr
    model, local, d = dict(initial), extractor_of(initial), dict(discriminator)

    def moved(params: dict, loss_of) -> dict:  # type: ignore[no-untyped-def, type-arg]
        leaves = {name: value.clone().requires_grad_() for name, value in params.items()}
        loss_of(leaves).backward()
        return {name: (v - eta * v.grad).detach() if v.grad is not None else v.detach() for name, v in leaves.items()}

    def disc(p: dict, f: torch.Tensor) -> torch.Tensor:  # type: ignore[type-arg]
        hidden = F.relu(f @ p["discriminator.hidden.weight"].T + p["discriminator.hidden.bias"])
        return torch.sigmoid(hidden @ p["discriminator.out.weight"].T + p["discriminator.out.bias"])[:, 0]

    for batch in batches:
        x, y = Inputs(batch.inputs.examples), batch.label
        model = moved(model, lambda p, x=x, y=y: F.cross_entropy(NET.logits(p, x), y))

        def local_loss(p: dict, x=x, y=y, d=d) -> torch.Tensor:  # type: ignore[no-untyped-def, type-arg]
            f_l = NET.extract(p, x)
            j = F.cross_entropy(NET.classify(head_of(initial), f_l), y)
            return settings.beta * j + (1 - settings.beta) * torch.log(1 - disc(d, f_l)).mean()

        local = moved(local, local_loss)
        f_g, f_l = NET.extract(extractor_of(initial), x), NET.extract(local, x)
        d = moved(d, lambda p, f_g=f_g, f_l=f_l: (torch.log(1 - disc(p, f_g)) + torch.log(disc(p, f_l))).mean())
    return model, local, d


def test_a_clients_round_is_algorithm_1_as_printed() -> None:
    settings = PrintedSettings(lr=0.05, local_lr=0.05, momentum=0.0)
    data = federation((24,))
    plan = TrainPlan(rounds=1, local_epochs=1, batch_size=8)
    method = GrpFed(NET, settings)
    initial = NET.initial(0)
    state = run(method, data, plan)
    batches = [group[0] for group in local_batches(data, plan, 0, 0, 1)]
    model, local, d = _algorithm_1(settings, batches, initial, initial_discriminator(NET.features, DISCRIMINATOR_SEED))
    kept = state.client_states[0]["local"]
    for found, expected in ((state.server["model"], model), (kept["extractor"], local), (kept["discriminator"], d)):
        assert found.keys() == expected.keys()
        for name in expected:
            torch.testing.assert_close(found[name], expected[name], atol=2e-6, rtol=1e-4)
    assert not torch.equal(local["extractor.stem.weight"], initial["extractor.stem.weight"])


def _returned(losses: list[float], models: list[float], beats: list[int]) -> Returned:
    stacked = {"w": torch.tensor(models)[:, None]}
    loss = torch.tensor(losses, dtype=torch.float64)
    return Returned({"model": stacked, "loss": loss}, {}, torch.tensor(beats).double(), torch.arange(len(beats)))


def test_two_rounds_of_the_server_by_hand() -> None:
    method = GrpFed(NET, PrintedSettings(q0=1.0))
    server = method.server_start({"w": torch.zeros(1)})
    # round 1: q stays 1; lambda = (1/4, 3/4); sigma = 1
    server = method.aggregate(server, _returned([1.0, 3.0], [0.0, 4.0], [1, 1]))
    assert float(server["model"]["w"]) == pytest.approx(3.0)
    assert (float(server["q"]), float(server["sigma"])) == (1.0, 1.0)
    assert float(server["effective_clients"]) == pytest.approx(1.6)  # 1 / (1/16 + 9/16)
    # round 2: sigma' = 3, q' = 1 + 0.5 * 2 / 2 = 1.5; lambda = (1, 7^1.5) / (1 + 7^1.5)
    server = method.aggregate(server, _returned([1.0, 7.0], [0.0, 1.0], [1, 1]))
    assert float(server["q"]) == pytest.approx(1.5)
    assert float(server["model"]["w"]) == pytest.approx(7**1.5 / (1 + 7**1.5))


def test_server_momentum_by_hand() -> None:
    method = FedAvg(NET, PlainMeanSettings(server_lr=0.5, server_momentum=0.9))
    server = method.server_start({"w": torch.zeros(1)})
    server = method.aggregate(server, _returned([1.0], [2.0], [1]))  # v = 2, w = 1
    assert float(server["model"]["w"]) == pytest.approx(1.0)
    server = method.aggregate(server, _returned([1.0], [2.0], [1]))  # v = 0.9 * 2 + 1 = 2.8, w = 2.4
    assert float(server["model"]["w"]) == pytest.approx(2.4)


def test_the_cosine_schedule_by_hand() -> None:
    settings = PlainMeanSettings(server_lr=2.0, server_schedule="cosine")
    for progress, expected in ((0.0, 2.0), (0.5, 1.0), (2 / 3, 0.5)):
        mean = {"w": torch.tensor([1.0])}
        moved = server_step({"model": {"w": torch.zeros(1)}}, mean, settings, progress)
        assert float(moved["model"]["w"]) == pytest.approx(expected)


def test_the_anchor_by_hand() -> None:
    # the local extractor is at 4, the received one at 1
    for anchor, expected in ((0.0, 4.0), (0.25, 3.25), (1.0, 1.0)):
        method = GrpFed(NET, GrpFedSettings(anchor=anchor))
        received = {"extractor.w": torch.tensor([1.0]), "head.w": torch.tensor([9.0])}
        kept = {"local": {"extractor": {"extractor.w": torch.tensor([4.0])}}, "loss": f64(0.0)}
        state = method.init_round({"model": received}, kept, ClientInfo(0, 1, 10, torch.ones(3), 1, progress=0.9))
        assert state["local"]["extractor"]["extractor.w"].tolist() == pytest.approx([expected])


def test_local_steps_begin_at_their_share_of_the_rounds_from_the_global_extractor() -> None:
    data, plan = federation((20, 33)), TrainPlan(rounds=4, local_epochs=1, batch_size=8)
    early, late = (GrpFedSettings(lr=0.05, local_lr=0.0, personal_start=start) for start in (0.0, 0.5))
    before_half = run(GrpFed(NET, late), data, replace(plan, rounds=2))
    # with a learning rate of 0 the local extractor stays where it began
    method = GrpFed(NET, early)
    begun = run(method, data, plan).client_states[0]["local"]["extractor"]
    assert all(torch.equal(begun[name], value) for name, value in extractor_of(NET.initial(0)).items())

    class Watch(Callback):
        def on_round(self, outcome: RoundOutcome) -> None:
            present.append("local" in outcome.state.client_states[0])
            models.append(extractor_of(outcome.state.server["model"]))

    present: list[bool] = []
    models: list[dict[str, torch.Tensor]] = []
    method = GrpFed(NET, late)
    with ThreadEngine(data, plan, 2) as engine:
        state = train(method, data, plan, engine, initial_state(method, plan), [Watch()])
    assert present == [False, False, True, True]
    begun = state.client_states[0]["local"]["extractor"]
    assert all(torch.equal(begun[name], value) for name, value in models[1].items())
    without = method.personal_model(before_half.server, {"loss": f64(1.0)})
    assert [(part.role, part.shared) for part in without.stages] == [("model", True)]


def test_steepness_is_autograds_gradient_of_the_logit() -> None:
    torch.manual_seed(1)
    d = initial_discriminator(NET.features, 3)
    sets = [torch.randn(5, NET.features, requires_grad=True) for _ in range(2)]
    grads = [torch.autograd.grad(discriminate(d, f).sum(), f)[0] for f in sets]
    torch.testing.assert_close(feature_gradient(d, sets[0]), grads[0])
    expected = sum(g.square().sum(1).mean() for g in grads) / 4
    torch.testing.assert_close(gradient_penalty(d, sets), expected)
    rows = torch.tensor([1.0, 0, 1, 0, 0])
    kept = sum(g[[0, 2]].square().sum(1).mean() for g in grads) / 4
    torch.testing.assert_close(gradient_penalty(d, sets, rows), kept)


def test_the_gradient_penalty_keeps_the_discriminator_flat() -> None:
    data, plan = federation((40,)), TrainPlan(rounds=3, local_epochs=2, batch_size=8)
    sizes = []
    for gamma in (0.0, 10.0):
        settings = GrpFedSettings(local_lr=0.02, momentum=0.0, gradient_penalty=gamma, personal_start=0.0)
        kept = run(GrpFed(NET, settings), data, plan).client_states[0]["local"]
        features = NET.extract(kept["extractor"], Inputs(torch.from_numpy(data.examples)), {})
        sizes.append(float(gradient_penalty(kept["discriminator"], [features])))
    assert sizes[1] < sizes[0] / 4


def test_server_adam_is_torchs_adam_on_the_change() -> None:
    settings = PlainMeanSettings(
        server_optimizer="adam", server_lr=0.1, server_momentum=0.8, server_beta2=0.95, server_tau=1e-3
    )
    method = FedAvg(NET, settings)
    server = method.server_start({"w": torch.tensor([1.0, -2.0])})
    weight = torch.tensor([1.0, -2.0], requires_grad=True)
    adam = torch.optim.Adam([weight], lr=0.1, betas=(0.8, 0.95), eps=1e-3)
    for change in ([0.5, -1.0], [0.1, 0.3], [-0.7, 2.0]):
        mean = server["model"]["w"] + torch.tensor(change)
        returned = Returned({"model": {"w": mean[None]}}, {}, torch.ones(1).double(), torch.zeros(1))
        server = method.aggregate(server, returned)
        weight.grad = -torch.tensor(change)
        adam.step()
    torch.testing.assert_close(server["model"]["w"], weight.detach())


def test_loss_memory_by_hand() -> None:
    method = GrpFed(NET, GrpFedSettings(loss_memory=0.75, personalise=False))
    kept = method.client_start(NET.initial(0))
    for mean, expected in ((2.0, 2.0), (4.0, 2.5), (0.5, 2.0)):  # the first round has nothing to remember
        state = {"model": {}, "loss_before": kept["loss"], "loss_sum": f64(3 * mean), "steps": f64(3.0)}
        returned, kept = method.finish_round(state, None)  # type: ignore[arg-type]
        assert float(returned["loss"]) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("settings", "other"),
    [(PrintedSettings(q0=0, eta_q=0, lr=0.05), FedAvgUniform), (PrintedSettings(share_mix=1.0, lr=0.05), FedAvg)],
)
def test_identities_with_fedavg(settings: GrpFedSettings, other: type[FedAvg]) -> None:
    data, plan = federation((20, 33, 9)), TrainPlan(rounds=2, local_epochs=1, batch_size=8)
    mine = run(GrpFed(NET, settings), data, plan).server["model"]
    theirs = run(other(NET, PlainMeanSettings(lr=0.05)), data, plan).server["model"]
    for name in mine:
        torch.testing.assert_close(mine[name], theirs[name], atol=1e-6, rtol=1e-5)


def test_personalisation_does_not_touch_the_global_model() -> None:
    data, plan = federation((20, 33)), TrainPlan(rounds=2, local_epochs=1, batch_size=8)
    with_, without = (
        run(GrpFed(NET, GrpFedSettings(personalise=p, personal_start=0.5)), data, plan) for p in (True, False)
    )
    assert "local" in with_.client_states[0]
    assert "local" not in without.client_states[0]
    assert all(torch.equal(with_.server["model"][n], without.server["model"][n]) for n in with_.server["model"])
    personal = GrpFed(NET, GrpFedSettings()).personal_model(with_.server, with_.client_states[0])
    assert [(part.role, part.shared) for part in personal.stages] == [("extractor", False), ("head", True)]
    assert torch.equal(personal.stages[1].params["head.out.bias"], with_.server["model"]["head.out.bias"])


def test_the_printed_form_has_the_papers_values() -> None:
    printed = PrintedSettings()
    assert (printed.q0, printed.eta_q, printed.beta, printed.lr, printed.momentum) == (10.0, 0.5, 0.5, 5e-3, 0.9)
    assert (printed.server_optimizer, printed.server_lr, printed.server_momentum) == ("sgd", 1.0, 0.0)
    assert (printed.server_schedule, printed.anchor, printed.local_lr) == ("constant", 0.0, 5e-3)
    assert (printed.personal_start, printed.gradient_penalty) == (0.0, 0.0)
    assert (printed.discriminator_loss, printed.regulariser, printed.loss_memory) == ("printed", "printed", 0.0)


@pytest.mark.parametrize("values", [{"beta": "1.5"}, {"head": "mine"}, {"discriminator_loss": "hinge"}, {"q0": "-1"}])
def test_settings_out_of_range_are_named(values: dict[str, str]) -> None:
    (name,) = values
    with pytest.raises(OptionError, match=name):
        make_settings(GrpFedSettings, values)
