"""Smaller updates: the arithmetic by hand, what plain sends untouched, and a run that still learns."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from needs import flower

flower()

import torch
from test_same_numbers import same

from ecgfed.base.errors import OptionError
from ecgfed.core.federation.trees import flatten
from ecgfed.network.config import FederationConfig
from ecgfed.network.transport import pack, packed, unpack

CAME = [{"model": {"w": torch.tensor([1.0, 2.0, -3.0])}}, {"model": {"w": torch.tensor([0.0, 0.0, 0.0])}}]
BACK = [
    {"model": {"w": torch.tensor([1.5, 2.0, -3.25])}, "own": torch.tensor([4.0, -2.0]), "count": torch.tensor(3)},
    {"model": {"w": torch.tensor([0.0, 0.0, 0.0])}, "own": torch.tensor([1e-9, 1e-10]), "count": torch.tensor(5)},
]


def test_int8_by_hand() -> None:
    """Changes 0.5, 0, -0.25 are 127, 0 and -63.5 steps of 0.5 / 127; a half is rounded to the even number."""
    leaves, scales = pack(BACK, CAME, "int8")
    assert leaves["model/w"].tolist() == [[127, 0, -64], [0, 0, 0]]
    assert leaves["own"].tolist() == [[127, -64], [127, 13]]
    assert leaves["count"].tolist() == [3, 5]
    assert scales["model/w"].tolist() == [0.5, 0.0]
    assert scales["own"].tolist() == pytest.approx([4.0, 1e-9])
    one, other = unpack(leaves, scales, CAME, "int8")
    assert one["model"]["w"].tolist() == pytest.approx([1.5, 2.0, -3.0 - 64 / 127 * 0.5])
    assert other["model"]["w"].tolist() == [0.0, 0.0, 0.0]
    assert one["count"] == 3


@pytest.mark.parametrize(("transport", "steps"), [("fp16", 2**11), ("int8", 254)])
def test_no_further_than_half_a_step(transport: str, steps: int) -> None:
    torch.manual_seed(0)
    came = [{"w": torch.randn(40, 7)} for _ in range(3)]
    back = [{"w": one["w"] + 1e-3 * torch.randn(40, 7)} for one in came]
    leaves, scales = pack(back, came, transport)
    assert leaves["w"].dtype == packed(torch.float32, (40, 7), transport)
    for place, found in enumerate(unpack(leaves, scales, came, transport)):
        largest = float((back[place]["w"] - came[place]["w"]).abs().max())
        assert float((found["w"] - back[place]["w"]).abs().max()) <= largest / steps + 1e-6


def test_plain_is_what_it_was() -> None:
    leaves, scales = pack(BACK, CAME, "plain")
    assert not scales
    assert all(same(one, two) for one, two in zip(unpack(leaves, scales, CAME, "plain"), BACK, strict=True))


@pytest.mark.parametrize("transport", ["fp16", "int8"])
@pytest.mark.parametrize("method", ["scaffold", "grp-fed"])
def test_a_run_with_smaller_updates(
    method: str, transport: str, federation: Callable[..., Any], alone: Callable[..., Any]
) -> None:
    """What the server has is near what it would have, not the same; a second run ends with the same bits."""
    wish: dict[str, Any] = {"rounds": 3, "local_steps": 2}
    made = federation(method, transport=transport, **wish)
    run, one = made.serve(), alone(method, **wish)
    found, expected = flatten(run.state().server), flatten(one.state().server)
    start = flatten(run.method.server_start(run.net.initial(0)))
    assert not same(run.state().server, one.state().server)
    way = far = 0.0
    for path in (path for path in expected if path.startswith("model/")):
        way += float((expected[path] - start[path]).square().sum())
        far += float((expected[path] - found[path]).square().sum())
    assert np.sqrt(far / way) < (0.02 if transport == "fp16" else 0.25)
    again = federation(method, transport=transport, name="again", **wish).serve()
    assert same(again.state().server, run.state().server)
    up = [content for kind, _, content in made.grid.came if kind == "train"]
    assert all(set(content) == {"up", "scales", "reports", "say"} for content in up)
    assert run.meta["transport"] == transport


def test_a_transport_that_nobody_knows() -> None:
    with pytest.raises(OptionError) as caught:
        FederationConfig(2, "fedavg", transport="fp8")
    assert caught.value.line == "transport: 'fp8'; expected one of plain, fp16, int8"
