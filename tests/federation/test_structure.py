"""The structures of a method's states against states that trainings of its own left behind."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from ecgfed.core.federation.plan import TrainPlan
from ecgfed.core.federation.state import State
from ecgfed.core.federation.structure import Structures, client_mismatch, server_mismatch, structures_of
from ecgfed.core.federation.threads import ThreadEngine
from ecgfed.core.federation.train import initial_state, train
from ecgfed.core.federation.trees import flatten, unflatten
from ecgfed.core.methods.registry import methods
from ecgfed.core.methods.settings import make_settings
from ecgfed.core.nets.net import NetSpec
from ecgfed.core.nets.resnet1d import ResNet1d
from ecgfed.testing.trial import mixed_federation

#: Settings that change what is kept, beside every method as it is.
ROWS = [
    *((name, {}) for name in sorted(methods())),
    ("fedavg", {"risk": "meta-bsm"}),
    ("fed-rod", {"generic": "scaffold", "momentum": 0}),
    ("fed-rod", {"generic": "feddyn"}),
    ("mtl", {"relation": "learned"}),
    ("grp-fed", {"head": "trained", "personal_start": 0.0}),
    ("grp-fed", {"personalise": False}),
]


def trained(name: str, values: dict[str, Any]) -> tuple[State, Structures]:
    """A short training that not every client takes part in, to the last phase of its method."""
    kind = methods()[name]
    data = mixed_federation(rr=False)
    method = kind(ResNet1d(NetSpec(data.classes, width=0.2)), make_settings(kind.settings_type, values))
    few = None if method.requirements.all_clients else 2
    plan = TrainPlan(rounds=6, local_epochs=None, local_steps=1, batch_size=8, clients_per_round=few)
    with ThreadEngine(data, plan, 1) as engine:
        state = train(method, data, plan, engine, initial_state(method, plan))
    return state, structures_of(method, replace(plan, rounds=2))


@pytest.mark.parametrize(("name", "values"), ROWS, ids=str)
def test_every_leaf_of_a_trained_state_is_needed(name: str, values: dict[str, Any]) -> None:
    state, structures = trained(name, values)
    assert server_mismatch(structures, state.server, state.beats_used) is None
    for kept in state.client_states.values():
        assert client_mismatch(structures, kept) is None
        leaves = flatten(kept)
        for path, leaf in leaves.items():
            without = {other: value for other, value in leaves.items() if other != path}
            if not (name == "grp-fed" and path == "loss"):  # of what is left, another phase may lack more
                assert client_mismatch(structures, unflatten(without)) is not None, path
            for spoiled in (leaf.half(), leaf.reshape(1, *leaf.shape)):
                wrong = client_mismatch(structures, unflatten({**leaves, path: spoiled}))
                assert wrong.leaf == path
        wrong = client_mismatch(structures, unflatten({**leaves, "extra": torch.zeros(3)}))
        assert wrong.leaf == "extra"
        assert client_mismatch(structures, unflatten({**leaves, "extra": torch.zeros(3)}), more=True) is None
    leaves = flatten(state.server)
    for path, leaf in leaves.items():
        wrong = server_mismatch(structures, unflatten({**leaves, path: leaf.reshape(1, *leaf.shape)}), state.beats_used)
        assert wrong.leaf == path
        without = unflatten({other: value for other, value in leaves.items() if other != path})
        comes_later = path in ("affinity", "embeddings", "lambda", "personal", "relation", "round", "seed")
        assert comes_later or server_mismatch(structures, without, state.beats_used) is not None, path
    assert server_mismatch(structures, unflatten({**leaves, "extra": torch.zeros(3)}), state.beats_used) is not None


@pytest.mark.parametrize(
    ("name", "values", "path", "value"),
    [
        ("afl", {}, "lambda", torch.ones(2, dtype=torch.float64)),
        ("mtl", {"relation": "learned"}, "relation", torch.eye(2, dtype=torch.float64)),
        ("lg-fedavg", {}, "personal", torch.tensor([0, 99])),
        ("fedfomo", {}, "affinity", torch.zeros(1, 1, dtype=torch.float64)),
        ("fedfomo", {}, "affinity", torch.zeros(3, 2, dtype=torch.float64)),
    ],
)
def test_what_is_of_each_client_is_of_the_clients_that_took_part(
    name: str, values: dict[str, Any], path: str, value: torch.Tensor
) -> None:
    state, structures = trained(name, values)
    assert path in state.server
    wrong = server_mismatch(structures, {**state.server, path: value}, state.beats_used)
    assert wrong.leaf == path
