"""Sums over clients: what a method's communication spec says of its server is so, whatever counts the clients have."""

from typing import Any

import pytest
import torch
from test_updates import one_round, server_before

from ecgfed.core.federation.sums import client_weights, shared_out, summed
from ecgfed.core.federation.trees import flatten, stack
from ecgfed.core.methods.base import Method, Returned, Tree
from ecgfed.core.methods.registry import methods

#: What some methods are asked for beside what ``test_updates`` asks for.
GENERIC = [("fed-rod", {"generic": generic, "momentum": 0.0}) for generic in ("fedavg", "fedprox", "feddyn")]
#: The spec knows; pooled training sends nothing over a network.
SUMS = [
    (name, {})
    for name, kind in sorted(methods().items())
    if kind.communication.up and kind.communication.complete().needs_each is None
] + [("mtl", {"relation": "mean"}), *GENERIC]


def aggregated(method: Method, server: Tree, tree: Tree, counts: list[int], federation: int) -> dict[str, torch.Tensor]:
    m = len(counts)
    losses = {"loss": torch.arange(1, m + 1, dtype=torch.float64)}
    beats = torch.tensor(counts, dtype=torch.float64)
    return flatten(method.aggregate(server, Returned(tree, losses, beats, torch.arange(m), 0.5, federation, 2)))


@pytest.mark.parametrize(("name", "settings"), SUMS)
def test_sums_are_all_that_the_server_needs(name: str, settings: dict[str, Any]) -> None:
    """Its aggregate is the same if every client sends the mean that its entry declares, summed at two sites."""
    method, sent, tree, parcels = one_round(name, 2, **settings)
    counts = [3 + 40 * place for place in range(len(sent))]
    returned = [parcel.result.returned for parcel in parcels]
    total, federation = sum(counts) + 17, len(counts) + 2  # two clients take no part
    weights = [client_weights(part, total, federation) for part in (counts[:1], counts[1:], counts)]
    here = summed(method, sent[:1], returned[:1], weights[0])
    there = summed(method, sent[1:], returned[1:], weights[1])
    both = {path: here[path] + value for path, value in there.items()}
    leaves = {path: (leaf.dtype, tuple(leaf.shape)) for path, leaf in flatten(returned[0]).items()}
    alike = stack(shared_out(method, sent, both, weights[2], leaves))
    server = server_before(method)
    expected = aggregated(method, server, tree, counts, federation)
    found = aggregated(method, server, alike, counts, federation)
    assert list(found) == list(expected)
    for path, leaf in expected.items():
        assert torch.allclose(found[path].double(), leaf.double(), atol=1e-12, rtol=1e-9), path


def test_client_weights_by_hand() -> None:
    weights = client_weights([1, 3], 8, 5)
    assert weights["beats"].tolist() == [0.125, 0.375]
    assert weights["equal"].tolist() == [0.2, 0.2]
