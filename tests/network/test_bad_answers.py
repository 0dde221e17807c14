"""An answer that cannot be used is its site's fault: the others go on, as if its patients had taken no part."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from needs import flower

flower()

from faults import PATIENTS, compare, faulty, history
from flwr.app import Array, ConfigRecord, RecordDict

from ecgfed.network.errors import NetworkError
from ecgfed.network.messenger import MOST_CHANGES
from ecgfed.network.status import status_of

pytestmark = pytest.mark.usefixtures("at_once")


def nan(content: RecordDict) -> None:
    record = content.array_records["up"]
    value = record["model/head.out.bias"].numpy().copy()
    value[0, 0] = np.nan
    record["model/head.out.bias"] = Array.from_numpy_ndarray(value)


def endless_loss(content: RecordDict) -> None:
    content.metric_records["reports"]["loss"] = [1e308, 1e308]


def largest(content: RecordDict) -> None:
    value = np.full((2, 12), np.finfo(np.float32).max)
    content.array_records["up"]["model/head.out.bias"] = Array.from_numpy_ndarray(value)


def wrong_shape(content: RecordDict) -> None:
    content.array_records["up"]["model/head.out.bias"] = Array.from_numpy_ndarray(np.zeros((2, 3), np.float32))


def leaf_too_many(content: RecordDict) -> None:
    content.array_records["up"]["more"] = Array.from_numpy_ndarray(np.zeros((2, 3), np.float32))


def another_run(content: RecordDict) -> None:
    content.config_records["say"]["run"] = "0" * 64


def ten_gigabytes_announced(content: RecordDict) -> None:
    array = Array("float32", (2, 1_250_000_000), "numpy.ndarray", b"few")
    content.array_records["up"]["model/head.out.bias"] = array


def refusal(content: RecordDict) -> None:
    for name in list(content):
        content.pop(name)
    content["say"] = ConfigRecord({"refused": "storage"})


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (nan, "is not finite in 'model/head.out.bias'"),
        (endless_loss, "has loss 1e+308"),  # a mean of two is infinite
        (largest, "has numbers that are too large in 'model/head.out.bias'"),  # and so is the sum of two sites
        (wrong_shape, "is float32 (2, 3); expected float32 (2, 12)"),
        (leaf_too_many, "leaf 'more' of a message: was not requested"),
        (another_run, "is of another run or round"),
        (ten_gigabytes_announced, "is float32 (2, 1250000000)"),
        (refusal, "refused: it could not read or write its files"),
    ],
)
def test_an_answer_that_cannot_be_used(
    spoil: Callable[[RecordDict], None], why: str, federation: Callable[..., Any], without: Callable[..., Any]
) -> None:
    """The first site's, too: nobody else's answer is measured by it. It is said everywhere, and the site comes back."""
    wish: dict[str, Any] = {"rounds": 3, "local_steps": 1}
    made = federation("fedavg", **wish)
    faulty(made, {})

    def spoilt(kind: str, node: int, content: RecordDict) -> RecordDict:
        if kind == "train" and node == 11 and content["say"]["round"] == 2:
            spoil(content)
        return content

    made.grid.spoil = spoilt
    run = made.serve()
    compare(made, run, without("fedavg", {2: PATIENTS[11]}, **wish))
    assert list(history(run)[1]["left_out"]) == ["1"]
    assert why in history(run)[1]["left_out"]["1"]
    assert any(
        line.startswith("round 2 of 3") and "without site 1, which" in line and why in line for line in made.said
    )
    status = status_of(made.server)
    assert any("Site 1 missed round 2" in line and why in line for line in status.sentences())
    assert status.as_json()["left_out"] == {"1": [2]}
    assert "a round needs 1 of them, after 0 s" in status.sentences()[0]


def test_without_a_policy_an_answer_that_cannot_be_used_ends_the_session(federation: Callable[..., Any]) -> None:
    made = federation("fedavg", rounds=2, local_steps=1)

    def spoilt(kind: str, node: int, content: RecordDict) -> RecordDict:
        if kind == "train" and node == 13 and content["say"]["round"] == 2:
            content.array_records["up"].pop("model/head.out.bias")
        return content

    made.grid.spoil = spoilt
    with pytest.raises(NetworkError, match=r"site 3: sent an invalid reply \(leaf 'model/head.out.bias'.*missing"):
        made.serve()
    made.grid.spoil = lambda kind, node, content: content
    assert made.serve().store.rounds() == 2


def test_too_few_sites_end_the_session_and_it_goes_on(
    federation: Callable[..., Any], without: Callable[..., Any]
) -> None:
    wish: dict[str, Any] = {"rounds": 3, "local_steps": 1}
    made = federation("scaffold", **wish)
    faulty(made, {}, min_sites=2)

    def spoilt(kind: str, node: int, content: RecordDict) -> RecordDict:
        if kind == "train" and node != 12 and content["say"]["round"] == 2:
            nan(content)
        return content

    made.grid.spoil = spoilt
    with pytest.raises(NetworkError, match="site 1: sent an invalid reply"):
        made.serve()
    made.grid.spoil = lambda kind, node, content: content
    compare(made, made.serve(), without("scaffold", {}, **wish))


def test_a_site_that_lost_the_server_is_asked_again(
    federation: Callable[..., Any], without: Callable[..., Any]
) -> None:
    """It stopped its training, which is no refusal: nobody is left out, and the session goes on without a policy."""
    wish: dict[str, Any] = {"rounds": 2, "local_steps": 1}
    made = federation("scaffold", **wish)
    lost = []

    def spoilt(kind: str, node: int, content: RecordDict) -> RecordDict:
        if kind == "train" and node == 12 and content["say"]["round"] == 2 and not lost:
            lost.append(True)
            return RecordDict({"say": ConfigRecord({"refused": "gone"})})
        return content

    made.grid.spoil = spoilt
    compare(made, made.serve(), without("scaffold", {}, **wish))
    assert lost
    assert made.said.count("site 2 is back") == 1


def test_a_connection_that_comes_and_goes_is_not_logged_for_ever(federation: Callable[..., Any]) -> None:
    made = federation("fedavg", rounds=1, local_steps=1)
    lost = []

    def spoilt(kind: str, node: int, content: RecordDict) -> RecordDict:
        if kind == "train" and node == 12 and len(lost) < 100:
            lost.append(True)
            return RecordDict({"say": ConfigRecord({"refused": "gone"})})
        return content

    made.grid.spoil = spoilt
    made.serve()
    assert len(lost) == 100
    assert sum(line.startswith("site 2 is") for line in made.said) == MOST_CHANGES
