"""Robust and noised aggregation between what clients send and each method's mean: by hand, and for every method."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from ecgfed.base.errors import OptionError
from ecgfed.core.federation.client_round import ClientResult, ClientWork
from ecgfed.core.federation.communication_log import record_communication
from ecgfed.core.federation.data import TrainingData
from ecgfed.core.federation.plan import TrainPlan
from ecgfed.core.federation.threads import ThreadEngine
from ecgfed.core.federation.train import initial_state, train
from ecgfed.core.federation.trees import flatten, stack, unflatten
from ecgfed.core.federation.updates import NoisedEngine, check_combining, combined, updates_of
from ecgfed.core.methods.base import Method, Returned, Tree
from ecgfed.core.methods.registry import methods
from ecgfed.core.methods.settings import make_settings
from ecgfed.core.nets.net import NetSpec
from ecgfed.core.nets.resnet1d import ResNet1d
from ecgfed.core.privacy.accountant import epsilon_of
from ecgfed.testing.federation import CLASSES
from ecgfed.testing.trial import DoubleNet, double_precision, mixed_federation

SECRET = b"s" * 32
#: Settings under which a method's server does most.
ASKED: dict[str, dict[str, Any]] = {
    "grp-fed": {"personal_start": 0.5},
    "lg-fedavg": {"warm_start": 0.5},
    "fed-rod": {"generic": "scaffold", "momentum": 0.0},
}
#: Aggregates that are no weighted mean: q-FFL's step is over the updates' lengths, FedNova's over the numbers of steps,
#: FedFomo hands models on, FedProto prototypes, FedPAC combines heads by statistics.
NOT = {"fedfomo", "fednova", "fedpac", "fedproto", "local", "pfedhn", "q-ffl"}


def made(name: str, norm: str = "group", net: type[ResNet1d] = DoubleNet, **settings: Any) -> Method:
    kind = methods()[name]
    spec = NetSpec(CLASSES, width=0.35, norm=norm, rr=True)
    given: Any = make_settings(kind.settings_type, {**ASKED.get(name, {}), **settings})
    return kind(net(spec), given)


def beats() -> TrainingData:
    data = mixed_federation(rr=True)
    return replace(data, examples=data.examples.astype(np.float64), rr=data.rr.astype(np.float64))  # type: ignore[arg-type]


def plan_for(method: Method, **how: Any) -> TrainPlan:
    return TrainPlan(**{"rounds": 2, "local_epochs": None, "local_steps": 1, "batch_size": 8, **how})


def one_round(name: str, number: int, **settings: Any) -> tuple[Method, list[Tree], Tree, Any]:
    """What a round's clients were sent and sent back, all with the same losses, and the server before it."""
    method = made(name, **settings)
    with double_precision():
        parcels = record_communication(method, beats(), plan_for(method)).rounds[number - 1]
    sent = [parcel.work.shared for parcel in parcels]
    tree = flatten(stack([parcel.result.returned for parcel in parcels]))
    for path in tree:
        if path.endswith("loss"):
            tree[path] = torch.full_like(tree[path], 0.7)
        if path == "steps":  # as with local epochs, which differ in length
            tree[path] = 1.0 + torch.arange(len(tree[path]), dtype=torch.float64)
    return method, sent, unflatten(tree), parcels


def aggregated(method: Method, server: Tree, tree: Tree) -> dict[str, Tensor]:
    m = len(next(iter(flatten(tree).values())))
    same = torch.full((m,), 9.0, dtype=torch.float64)
    returned = Returned(tree, {"loss": same / 9}, same, torch.arange(m), 0.5, m, 2)
    return flatten(method.aggregate(server, returned))


def server_before(method: Method) -> Tree:
    data, plan = beats(), plan_for(method)
    with double_precision(), ThreadEngine(data, plan, 1) as engine:
        return train(method, data, plan, engine, initial_state(method, plan), should_stop=lambda: True).server


@pytest.mark.parametrize("name", sorted(methods()))
def test_what_a_method_says_of_its_mean_is_so(name: str) -> None:
    """With losses and counts the same, its aggregate is that of the clients' plain mean, or it says that it is not."""
    method, sent, tree, _ = one_round(name, 2)
    updates = updates_of(method, sent, tree)
    if not updates.change:
        assert not method.averages
        return
    mean = {path: value.mean(0).expand_as(value) for path, value in updates.change.items()}
    server = {name: value for name, value in server_before(method).items() if name != "lambda"}  # AFL's mixture is even
    one, other = (aggregated(method, server, each) for each in (tree, updates.apply_to(tree, mean)))
    assert one.keys() == other.keys()
    alike = all(torch.allclose(one[path].double(), other[path].double(), atol=1e-12, rtol=1e-9) for path in one)
    assert alike == method.averages == (name not in NOT)


@pytest.mark.parametrize("name", sorted(set(methods()) - NOT))
@pytest.mark.parametrize("word", ["median", "trimmed-mean", "norm-bound"])
def test_one_client_cannot_lead_the_others(name: str, word: str) -> None:
    """A hundred times its update moves the aggregate little, or no further than the clients' own do."""
    method, sent, tree, _ = one_round(name, 2)
    updates, server = updates_of(method, sent, tree), server_before(method)
    far = {path: value.clone() for path, value in updates.change.items()}
    for value in far.values():
        value[0] *= -100
    bad = updates.apply_to(tree, far)
    plan = plan_for(method, aggregation=word)
    honest = aggregated(method, server, tree)
    plain, robust = (aggregated(method, server, one) for one in (bad, combined(method, plan, sent, bad, 2, b"")))
    weights = [path for path in honest if honest[path].is_floating_point() and honest[path].dim() > 0]

    def off(found: dict[str, Tensor]) -> float:
        return math.sqrt(sum(float((found[path] - honest[path]).double().square().sum()) for path in weights))

    # Adam's step is as long whatever the update's length: it turns, and is not longer
    assert off(robust) < (off(plain) / 5 if "adam" not in str(method.settings) else off(plain))


def test_the_mean_is_what_it_was() -> None:
    method, sent, tree, _ = one_round("fedavg", 1)
    assert combined(method, plan_for(method), sent, tree, 1, b"") is tree


def test_a_method_s_variate_and_model_are_bounded_apart() -> None:
    method, sent, tree, _ = one_round("scaffold", 2)
    updates = updates_of(method, sent, tree)
    assert set(updates.entry.values()) == {"model", "change"}
    assert all(not value.any() for path, value in updates.before.items() if path.startswith("change/"))
    assert all(
        torch.equal(updates.before[path][0], flatten(sent[0])[path]) for path in updates.before if "model" in path
    )


def test_a_head_s_change_is_from_the_whole_model_that_was_sent() -> None:
    """LG-FedAvg's first round of heads: a client that has no extractor yet was sent all of the model."""
    method, sent, tree, _ = one_round("lg-fedavg", 2)
    assert set(tree) == {"head"}
    assert "model" in sent[0]
    updates = updates_of(method, sent, tree)
    for path, value in updates.before.items():
        assert torch.equal(value[0], sent[0]["model"][path.removeprefix("head/")])


def by_hand(sent: list[Tree], tree: Tree, clip: float) -> dict[str, Tensor]:
    """The mean of clipped changes, in NumPy's way."""
    flat, down = flatten(tree), flatten(sent[0])
    changes = [{path: (flat[path][i] - down[path]).double() for path in flat} for i in range(len(sent))]
    total = {path: torch.zeros_like(changes[0][path]) for path in flat}
    for one in changes:
        length = math.sqrt(sum(float(value.square().sum()) for value in one.values()))
        for path, value in one.items():
            total[path] += value * min(1.0, clip / length)
    return {path: down[path] + value / len(sent) for path, value in total.items()}


@pytest.mark.parametrize("clip", [1e-3, 1e3])
def test_the_server_s_clipping_by_hand(clip: float) -> None:
    method, sent, tree, _ = one_round("fedavg", 1)
    found = flatten(combined(method, plan_for(method, dp_clip=clip), sent, tree, 1, b""))
    expected = by_hand(sent, tree, clip)
    for path, value in expected.items():
        assert torch.allclose(found[path][0].double(), value, atol=1e-12)
        assert torch.equal(found[path], found[path][:1].expand_as(found[path]))


def test_the_server_s_noise_is_z_c_over_m() -> None:
    method, sent, tree, _ = one_round("fedavg", 1)
    plan = plan_for(method, dp_clip=0.5, dp_noise=3.0)
    quiet = flatten(combined(method, replace(plan, dp_noise=0.0), sent, tree, 1, SECRET))
    loud = flatten(combined(method, plan, sent, tree, 1, SECRET))
    noise = torch.cat([(loud[path] - quiet[path])[0].flatten() for path in quiet])
    assert float(noise.std()) == pytest.approx(3.0 * 0.5 / len(sent), rel=5 / math.sqrt(2 * noise.numel()))
    with pytest.raises(ValueError, match="secret"):
        combined(method, plan, sent, tree, 1, b"")


class Given:
    """An engine that returns what it was given."""

    def __init__(self, results: list[ClientResult]) -> None:
        self.results = results

    def run(self, method: Method, work: Any) -> list[ClientResult]:
        return self.results


def length(result: ClientResult, work: ClientWork) -> float:
    down = flatten(work.shared)
    return math.sqrt(sum(float((v - down[p]).double().square().sum()) for p, v in flatten(result.returned).items()))


def test_a_patient_s_update_is_clipped_and_noised_before_it_leaves() -> None:
    method, sent, _, parcels = one_round("fedavg", 1)
    work, results = [one.work for one in parcels], [one.result for one in parcels]
    shorter = NoisedEngine(Given(results), plan_for(method, dp_clip=1e-3, dp_at="patient"), b"").run(method, work)
    assert [length(*one) for one in zip(shorter, work, strict=True)] == pytest.approx([1e-3] * len(work), rel=1e-6)
    plan = plan_for(method, dp_clip=1e-3, dp_noise=2.0, dp_at="patient")
    noised = NoisedEngine(Given(results), plan, SECRET).run(method, work)
    drawn = [
        torch.cat([(v - flatten(quiet.returned)[p]).flatten() for p, v in flatten(loud.returned).items()])
        for quiet, loud in zip(shorter, noised, strict=True)
    ]
    n = drawn[0].numel()
    assert [float(one.std()) for one in drawn] == pytest.approx([2e-3] * len(work), rel=5 / math.sqrt(2 * n))
    assert abs(float((drawn[0] * drawn[1]).mean())) < 5 * 4e-6 / math.sqrt(n)
    # the server leaves them as they are
    returned = stack([one.returned for one in noised])
    assert combined(method, plan, sent, returned, 1, b"") is returned
    for at in ("server", "patient"):  # and a server's noise is no client's
        same = NoisedEngine(Given(results), plan_for(method, dp_clip=1e-3 if at == "server" else 0.0), b"")
        assert all(a is b for a, b in zip(same.run(method, work), results, strict=True))


def test_a_site_sends_its_sum_alone() -> None:
    method, _, _, parcels = one_round("fedavg", 1)
    work, results = [one.work for one in parcels], [one.result for one in parcels]
    plan = plan_for(method, dp_clip=1e5, dp_at="site")
    found = NoisedEngine(Given(results), plan, b"").run(method, work)
    first = flatten(found[0].returned)
    mean = {path: value.double().mean(0) for path, value in flatten(stack([one.returned for one in results])).items()}
    for one in found:
        assert all(torch.equal(value, first[path]) for path, value in flatten(one.returned).items())
        assert all(torch.allclose(value.double(), mean[path], atol=1e-12) for path, value in first.items())
    small = NoisedEngine(Given(results), replace(plan, dp_clip=0.01), b"").run(method, work)
    assert length(small[0], work[0]) * len(work) == pytest.approx(0.01, rel=1e-6)


def test_epsilon_counts_the_rounds_of_who_took_part_most() -> None:
    method, data = made("fedavg", net=ResNet1d), mixed_federation(rr=True)
    plan = plan_for(method, rounds=7, clients_per_round=2, dp_clip=0.5, dp_noise=2.0)
    lines: list[dict[str, Any]] = []

    from ecgfed.core.federation.train import Callback, RoundOutcome

    class Keep(Callback):
        def on_round(self, outcome: RoundOutcome) -> None:
            lines.append(outcome.record)

    def go(rounds: int, state: Any) -> Any:
        stop = lambda: len(lines) >= rounds  # noqa: E731
        with ThreadEngine(data, plan, 1) as engine:
            return train(method, data, plan, engine, state, [Keep()], stop, SECRET)

    whole = go(99, initial_state(method, plan))
    first = lines.copy()
    lines.clear()
    half = go(3, initial_state(method, plan))
    again = go(99, half)  # a session of its own counts what was before it
    assert lines == first
    assert all(
        torch.equal(a, b) for a, b in zip(flatten(whole.server).values(), flatten(again.server).values(), strict=True)
    )
    taken = [0] * 4
    for line in first:
        for client in line["clients"]:
            taken[client] += 1
        assert line["epsilon"] == epsilon_of(2.0, max(taken))
    assert max(taken) < 7


@pytest.mark.parametrize("name", sorted(NOT))
@pytest.mark.parametrize("how", [{"aggregation": "median"}, {"dp_clip": 1.0, "dp_noise": 1.0}])
def test_where_it_does_not_fit_it_is_refused(name: str, how: dict[str, Any]) -> None:
    method = made(name)
    with pytest.raises(OptionError, match=f"{name}, whose aggregate is no weighted mean"):
        check_combining(method, plan_for(method, **how))
    check_combining(method, plan_for(method))


def test_what_does_not_go_together_is_refused() -> None:
    fedavg, batch = made("fedavg"), made("fedavg", norm="batch")
    with pytest.raises(OptionError, match="measured for the mean"):
        check_combining(fedavg, plan_for(fedavg, aggregation="median", dp_clip=1.0))
    check_combining(fedavg, plan_for(fedavg, aggregation="median", dp_clip=1.0, dp_at="patient"))
    with pytest.raises(OptionError, match="batch norm"):
        check_combining(batch, plan_for(batch, dp_clip=1.0))
    check_combining(batch, plan_for(batch, aggregation="median"))
    learned = made("mtl", relation="learned")
    with pytest.raises(OptionError, match="mtl"):
        check_combining(learned, plan_for(learned, aggregation="median"))
