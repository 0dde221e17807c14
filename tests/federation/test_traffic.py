"""What travels against what the cards say: every method over real rounds of several clients, and cards that lie."""

import dataclasses
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

from ecgfed.core.federation.batched import _Mover
from ecgfed.core.federation.communication_audit import audit_communication
from ecgfed.core.federation.communication_log import record_communication
from ecgfed.core.federation.data import TrainingData
from ecgfed.core.federation.plan import TrainPlan
from ecgfed.core.federation.trees import tree_bytes
from ecgfed.core.methods.base import ClientInfo, Method, Returned, Tree
from ecgfed.core.methods.communication import ALWAYS_SENT, CommunicationSpec, Metric, Sent, Stored, condition_holds
from ecgfed.core.methods.ditto import Ditto
from ecgfed.core.methods.fedavg import FedAvg
from ecgfed.core.methods.fedfomo import FedFomo
from ecgfed.core.methods.mtl import Mtl
from ecgfed.core.methods.registry import methods
from ecgfed.core.methods.server_sgd import PLAIN_MEAN
from ecgfed.core.methods.settings import make_settings
from ecgfed.core.nets.layers import Params
from ecgfed.core.nets.net import NetSpec
from ecgfed.core.nets.resnet1d import ResNet1d

EXAMPLE = Path(__file__).parents[2] / "examples" / "trimmed_mean.py"
#: Settings that change what travels or stays, with a method that has them.
SETTINGS: list[tuple[str, dict[str, Any]]] = [
    ("grp-fed", {"driver": "worst-tenth"}),
    ("mtl", {"relation": "learned"}),
    ("fed-rod", {"generic": "scaffold", "momentum": 0}),
    ("fed-rod", {"generic": "feddyn"}),
    ("fed-rod-hyper", {"generic": "scaffold", "momentum": 0}),
    ("fed-rod-hyper", {"generic": "fedprox", "server_optimizer": "adam", "server_lr": 0.01}),
    ("fedfomo", {"candidates": 1}),
    ("grp-fed", {"head": "trained", "personal_start": 0.3}),
    ("grp-fed", {"beta": 1}),
    ("grp-fed", {"personalise": "false"}),
    ("grp-fed", {"personal_start": 1}),
    ("lg-fedavg", {"warm_start": 0}),
    ("lg-fedavg", {"warm_start": 1}),
    ("per-fedavg", {"form": "hf"}),
    ("scaffold", {"option": "I", "momentum": 0.9}),
    *((name, {"risk": "meta-bsm"}) for name in ("fedavg", "fedfomo", "grp-fed", "local", "q-ffl")),
]


def federation(clients: int = 3) -> TrainingData:
    """Clients of 12 training and 3 validation beats of noise, of three classes."""
    rng, each = np.random.default_rng(6), 15
    starts = np.arange(clients) * each
    return TrainingData(
        clients=np.arange(clients),
        rows={client: np.arange(start, start + 12) for client, start in enumerate(starts)},
        examples=rng.standard_normal((clients * each, 1, 256)).astype(np.float32),
        rr=None,
        label=rng.integers(0, 3, clients * each),
        classes=3,
        valid_rows={client: np.arange(start + 12, start + each) for client, start in enumerate(starts)},
    )


def made(kind: type[Method], norm: str = "group", **settings: Any) -> Method:
    return kind(ResNet1d(NetSpec(3, width=0.35, norm=norm)), make_settings(kind.settings_type, settings))


def problems(method: Method) -> list[str]:
    """A run's first rounds and its last ones, for methods have phases."""
    plan = TrainPlan(10, None, 1 if method.requirements.single_step else 2, batch_size=8)
    return audit_communication(record_communication(method, federation(), plan, (1, 2, 9, 10)))


@pytest.mark.parametrize("norm", ["group", "batch"])
@pytest.mark.parametrize("name", sorted(methods()))
def test_a_card_says_what_travels_and_what_stays(name: str, norm: str) -> None:
    assert problems(made(methods()[name], norm)) == []


@pytest.mark.parametrize(("name", "settings"), SETTINGS)
def test_a_card_says_so_with_other_settings_too(name: str, settings: dict[str, Any]) -> None:
    assert problems(made(methods()[name], **settings)) == []


# ---- cards that lie


class SendsMore(FedAvg):
    def server_message(self, server: Tree, client: int) -> Tree:
        return {**super().server_message(server, client), "extra": torch.zeros(3)}


class TakesMore(FedAvg):
    def finish_round(self, state: Tree, info: ClientInfo) -> tuple[Tree, Tree]:
        returned, kept = super().finish_round(state, info)
        return {**returned, "counts": info.class_counts}, kept

    def aggregate(self, server: Tree, returned: Returned) -> Tree:
        return super().aggregate(server, returned)


class HidesIt(FedAvg):
    """The class counts in the model's own branch, where its card names the model."""

    def finish_round(self, state: Tree, info: ClientInfo) -> tuple[Tree, Tree]:
        return {"model": {**state["model"], "extractor.counts": info.class_counts.float()}}, {}

    def aggregate(self, server: Tree, returned: Returned) -> Tree:
        tree = {"model": {name: value for name, value in returned.tree["model"].items() if "counts" not in name}}
        return super().aggregate(server, replace(returned, tree=tree))


class KeepsMore(FedAvg):
    def finish_round(self, state: Tree, info: ClientInfo) -> tuple[Tree, Tree]:
        return super().finish_round(state, info)[0], {"velocity": state["velocity"]}


class PassesOn(FedAvg):
    """The global model is the last client's."""

    def aggregate(self, server: Tree, returned: Returned) -> Tree:
        return {"model": {name: value[-1] for name, value in returned.tree["model"].items()}}


class Flatters(FedAvg):
    """Another model for every client, said to be one for everybody."""

    def server_message(self, server: Tree, client: int) -> Tree:
        return {"model": {name: value * (1 + client / 100) for name, value in server["model"].items()}}


class Promises(FedAvg):
    communication: ClassVar[CommunicationSpec] = replace(
        FedAvg.communication,
        down=(*FedAvg.communication.down, Sent("variate", "control variate")),
        stores=(Stored("head", "classifier head"),),
        metrics=(Metric("inner_loss", "another loss"),),
    )


class SaysItStays(Ditto):
    """The personal model goes up, and its card says that it does not."""

    def finish_round(self, state: Tree, info: ClientInfo) -> tuple[Tree, Tree]:
        return {"model": state["personal"]["model"]}, state["personal"]


class SaysChangesStay(Mtl):
    communication: ClassVar[CommunicationSpec] = replace(
        Mtl.communication, stores=(Stored("model", "own model"), Stored("velocity", "its momentum"))
    )


class SaysItGoes(Ditto):
    communication: ClassVar[CommunicationSpec] = replace(
        Ditto.communication, stores=(Stored("model", "personal model", "as it is"), Stored("velocity", "its momentum"))
    )


class Reporting(FedAvg):
    def step(self, state: Tree, batches: Any, t: Any) -> Any:
        new, losses = super().step(state, batches, t)
        return new, {**losses, "age": losses["loss"] * 0 + 63}


class NotAnothers(FedFomo):
    def server_message(self, server: Tree, client: int) -> Tree:
        def blurred(model: Params) -> Params:
            return {name: value + 0.1 for name, value in model.items()}

        return {
            "models": {place: blurred(one) for place, one in super().server_message(server, client)["models"].items()}
        }


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        (SendsMore, ["it sends down extra, which its card does not name"]),
        (TakesMore, ["it sends up counts, which its card does not name"]),
        (HidesIt, ["model (local model) is not of the form 'model' that its card says"]),
        (PassesOn, ["model (global model) holds what another client sent, as it is"]),
        (Flatters, ["model (global model) is not the same for everybody"]),
        (
            Promises,
            [
                "its card says that it sends down variate (control variate), which never happened",
                "its card says that it keeps head (classifier head), which never happened",
                "its card says that it reports inner_loss, which never happened",
            ],
        ),
        (SaysItGoes, ["its card says that model (personal model) goes up as it is, which never happened"]),
        (Reporting, ["it reports age, which its card does not name"]),
        (NotAnothers, ["models (some others' models) is not what another client sent, as its card says"]),
    ],
)
def test_a_card_that_lies_is_caught(kind: type[Method], told: list[str]) -> None:
    assert problems(made(kind)) == told


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        (KeepsMore, "it keeps velocity/extractor.stem.weight, which its card does not name"),
        (
            SaysItStays,
            "model/head.out.bias goes up or its change does; its card says that the server never knows model",
        ),
        (SaysChangesStay, "model/head.out.bias goes up or its change does; its card says"),
    ],
)
def test_so_is_one_that_keeps_other_things(kind: type[Method], told: str) -> None:
    assert any(problem.startswith(told) for problem in problems(made(kind)))


# ---- what is looked at


def test_what_is_measured_is_what_the_training_loop_sent() -> None:
    method, plan = made(FedAvg, **PLAIN_MEAN), TrainPlan(3, None, 2, batch_size=8)
    traffic = record_communication(method, federation(), plan)
    assert [[parcel.client for parcel in of_round] for of_round in traffic.rounds] == [[0, 1, 2]] * 3
    start = method.net.initial(plan.seed)
    assert all(
        torch.equal(leaf, start[path.removeprefix("model/")]) for path, leaf in traffic.rounds[0][0].down.items()
    )
    # all clients have 12 beats, so the next model is the plain mean of what came back
    for path, leaf in traffic.rounds[1][2].down.items():
        mean = torch.stack([parcel.up[path] for parcel in traffic.rounds[0]]).mean(0)
        torch.testing.assert_close(leaf, mean)
    assert traffic.down_bytes(0) == traffic.up_bytes(2) == sum(4 * value.numel() for value in start.values())


def test_what_everybody_gets_is_one_copy() -> None:
    """The same tensors in every parcel of a round, and moved to a device once."""
    for name in ("fedavg", "scaffold", "fed-rod-hyper", "grp-fed", "mtl", "lg-fedavg"):
        traffic = record_communication(made(methods()[name]), federation(), TrainPlan(2, None, 1, batch_size=8))
        for of_round in traffic.rounds:
            assert len({id(leaf) for parcel in of_round for leaf in parcel.down.values()}) == len(of_round[0].down)
    move, tensor = _Mover(torch.device("meta")), torch.ones(3)
    moved = [move({"model": {"w": tensor}})["model"]["w"] for _ in range(2)]
    assert moved[0] is moved[1]
    assert moved[0].device.type == "meta"


def test_fedfomo_sends_the_models_it_picked_and_no_others() -> None:
    traffic = record_communication(made(FedFomo, candidates=2), federation(5), TrainPlan(3, None, 2, batch_size=8))
    model = tree_bytes({"model": traffic.method.net.initial(0)})
    assert [traffic.down_bytes(place) for place in range(3)] == [0, 2 * model, 2 * model]
    assert traffic.up_bytes(2) == model + 2 * 8  # and a number for each of them
    before = {parcel.client: parcel.up for parcel in traffic.rounds[1]}
    for parcel in traffic.rounds[2]:
        of = [
            {client for client, up in before.items() if torch.equal(up["model/head.out.weight"], leaf)}
            for path, leaf in parcel.down.items()
            if path.endswith("head.out.weight")
        ]
        assert len(of) == 2
        assert all(len(whose) == 1 and parcel.client not in whose for whose in of)


def test_rounds_can_be_left_out_and_threads_are_left_as_they_were() -> None:
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        traffic = record_communication(made(FedAvg), federation(), TrainPlan(10, None, 1, batch_size=8), (1, 9, 10))
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)
    assert [of_round[0].work.info.round for of_round in traffic.rounds] == [1, 9, 10]
    assert [of_round[0].work.info.progress for of_round in traffic.rounds] == [0.0, 0.8, 0.9]


def test_what_of_a_client_travels_beside_its_tree_is_listed() -> None:
    """A new field of ``Returned`` is the server's own, or a thing of the client's that ``ALWAYS_SENT`` has to name."""
    of_the_server = {"progress", "federation", "round", "seed"}
    assert {field.name for field in dataclasses.fields(Returned)} - of_the_server == {"tree", "losses", *ALWAYS_SENT}


@pytest.mark.parametrize(
    ("condition", "held"),
    [
        ("relation=learned", True),
        ("relation=mean", False),
        ("lam<1", True),
        ("lam>0.01", False),
        ("lam>0", True),
        ("warm_start>0", False),  # no setting of it
    ],
)
def test_conditions_on_settings(condition: str, held: bool) -> None:
    assert condition_holds(condition, make_settings(Mtl.settings_type, {"relation": "learned"})) is held


def test_a_condition_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="no condition"):
        condition_holds("learned", make_settings(Mtl.settings_type, {}))
