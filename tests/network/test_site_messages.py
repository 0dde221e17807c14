"""Trees as Flower's records: there and back bit for bit, and what is no tree of ours is refused."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from needs import flower

flower()

import torch
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from grid import GridHere, travelled
from test_same_numbers import same

from ecgfed.exports.device.federation import Federation, SiteSource
from ecgfed.network.errors import NetworkError, SiteError
from ecgfed.network.messages import read_end_reply
from ecgfed.network.run_spec import RunSpec
from ecgfed.network.transport import pack, unpack
from ecgfed.network.trees import down_records, down_trees, leaves_of, record_of, up_leaves

TREE = {
    "model": {"z": torch.randn(3, 2), "a": torch.randn(4), "m.count": torch.tensor(7)},
    "loss": torch.tensor(0.1, dtype=torch.float64),
    "half": torch.randn(2, dtype=torch.float16),
    "bytes": torch.arange(5, dtype=torch.uint8),
    "yes": torch.tensor([True, False]),
    "none": torch.zeros(0, 3),
    "nan": torch.tensor([float("nan"), float("inf"), -0.0]),
}


def bits(tree: dict[str, Any]) -> dict[str, Any]:
    """The tree with floats as the integers that have their bits."""
    view = {torch.float64: torch.int64, torch.float32: torch.int32, torch.float16: torch.int16}
    return {
        name: bits(leaf) if isinstance(leaf, dict) else leaf.view(view.get(leaf.dtype, leaf.dtype))
        for name, leaf in tree.items()
    }


def sent(**records: ArrayRecord) -> dict[str, ArrayRecord]:
    """Records after a trip."""
    GridHere({})
    return dict(travelled(Message(RecordDict(dict(records)), 1, "train")).content.array_records)


def test_there_and_back() -> None:
    trees = [TREE, {**TREE, "loss": torch.tensor(0.2, dtype=torch.float64)}]
    packed, none = pack(trees, [{}, {}], "plain")
    wanted = {path: (leaf.dtype, tuple(leaf.shape)) for path, leaf in packed.items()}
    found = unpack(up_leaves(sent(up=record_of(packed))["up"], wanted), none, [{}, {}], "plain")
    assert all(same(bits(one), bits(two)) for one, two in zip(trees, found, strict=True))


def test_what_is_everybody_s_goes_once() -> None:
    """Some participants have leaves that others have not, as in MTL and FedFomo."""
    common = {"mean": torch.randn(3)}
    trees = [
        {**common, "own": torch.tensor(1.0), "models": {"0": {"w": torch.ones(2)}}},
        dict(common),
        {**common, "own": torch.tensor(3.0), "models": {"0": {"w": torch.zeros(2)}, "1": {"w": torch.ones(2)}}},
    ]
    shared, own, holders = down_records(trees)
    assert list(shared) == ["mean"]
    records = sent(shared=shared, own=own)
    found = down_trees(records["shared"], records["own"], holders, 3)
    assert all(same(one, two) for one, two in zip(trees, found, strict=True))


@pytest.mark.parametrize(
    "array",
    [
        Array("object", (1,), "numpy.ndarray", b"x" * 40),
        Array("float32", (1 << 40,), "numpy.ndarray", b"x"),
        Array("float32", (2,), "numpy.ndarray", b"x" * 10_000),
        Array("float32", (2,), "numpy.ndarray", b"x" * 100),
        Array("float32", (2,), "something", b"x" * 100),
    ],
)
def test_an_array_that_lies(array: Array) -> None:
    with pytest.raises(NetworkError, match="leaf 'w' of a message"):
        leaves_of(ArrayRecord({"w": array}))


def test_a_pickle_is_not_loaded() -> None:
    from io import BytesIO

    stream = BytesIO()
    np.save(stream, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(NetworkError, match="cannot be read"):
        leaves_of(ArrayRecord({"w": Array("float64", (4,), "numpy.ndarray", stream.getvalue())}))


def test_another_shape_inside_than_outside() -> None:
    array = Array.from_numpy_ndarray(np.zeros((2, 2), np.float32))
    with pytest.raises(NetworkError, match="does not match its header"):
        leaves_of(ArrayRecord({"w": Array("float32", (4,), array.stype, array.data)}))


SITES = Federation("a" * 64, (SiteSource("site 1", 3, 30, ("MLII",), (360.0,), ("own recordings",), "0.3"),)).as_json()
ORDER = RunSpec(
    "a" * 64, "fedavg", {}, {"classes": 12}, {"rounds": 1}, ("N",), 0, 3, site="site 1", sites=SITES["sites"]
)


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ('"protocol": 3->"protocol": 2', "protocol"),
        ("fedavg->stranger.py:Method", "registered"),
        (f"{'a' * 64}->../../etc", "SHA-256"),
        ('"first": 0->"first": -1', "whole number"),
        ('"first": 0->"first": true', "whole number"),
        ('{"classes->[', "lacks"),
        ('"options": {}->"options": {"transport": "fp8"}', "options that this version knows"),
        ('"options": {}->"options": {"noise": "1"}', "options that this version knows"),
        ('"options": {}->"options": 3', "lacks"),
        ('"site": "site 1"->"site": "site 2"', "sites"),
        ('"patients": 3->"patients": -3', "counts"),
        ('"own recordings"->"\\u001b[2J"', "printable"),
        ("360.0->NaN", "lacks"),
    ],
)
def test_an_order_that_cannot_be(change: str, found: str) -> None:
    before, _, after = change.partition("->")
    text = ORDER.as_text()
    assert RunSpec.from_text(text) == ORDER
    assert before in text
    with pytest.raises(SiteError, match=found) as caught:
        RunSpec.from_text(text.replace(before, after))
    assert caught.value.code == "request"


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("method", "nobody"),
        ("settings", {"lr": "much"}),
        ("settings", {"risk": "meta-bsm"}),
        ("method", "centralised"),
        ("net", {"classes": 12, "architecture": "nobody"}),
        ("plan", {"rounds": 0}),
        ("plan", {"unknown": 1}),
    ],
)
def test_a_run_that_cannot_be(part: str, value: Any) -> None:
    from dataclasses import replace

    order = replace(ORDER, **{part: value})
    with pytest.raises(SiteError) as caught:
        order.train_plan() if part == "plan" else order.build_method()
    assert caught.value.code == "request"


def spoilt(kind: str, change: Callable[[RecordDict], None]) -> Callable[[str, int, RecordDict], RecordDict]:
    def spoil(of: str, node: int, content: RecordDict) -> RecordDict:
        if of == kind and node == 12:
            change(content)
        return content

    return spoil


@pytest.mark.parametrize(
    ("kind", "change", "found"),
    [
        ("query.hello", lambda c: c["say"].pop("classes"), "has the fields"),
        ("query.hello", lambda c: c["say"].update({"patient": "208"}), "has the fields"),
        ("query.hello", lambda c: c["say"].update({"train_examples": [5]}), "has invalid counts"),
        ("query.hello", lambda c: c["say"].update({"classes": ["A", "B"]}), "has classes"),
        ("query.hello", lambda c: c["say"].update({"classes": ["A", "A"]}), "names 2 classes"),
        ("query.hello", lambda c: c["say"].update({"modality": "x"}), "has modality 'x'"),
        ("query.hello", lambda c: c["say"].update({"modality": ["ecg"]}), "has modality"),
        ("query.hello", lambda c: c["say"].update({"rr_version": "2"}), "has rr_version '2'"),
        ("query.hello", lambda c: c["say"].update({"rr_version": 3}), "has rr_version 3"),
        ("train", lambda c: c["say"].update({"clients": [0, 1]}), "for other patients"),
        ("train", lambda c: c["reports"].pop("loss"), "has no loss"),
        ("train", lambda c: c["up"].update({"secret": c["up"]["model/head.out.bias"]}), "was not requested"),
        ("train", lambda c: c["up"].pop("model/head.out.bias"), "is missing"),
        ("train", lambda c: c["say"].update({"patient": 208}), "has the parts"),
        (
            "train",
            lambda c: c["up"].update({"model/head.out.bias": Array.from_numpy_ndarray(np.zeros((2, 3), np.float32))}),
            "expected float32",
        ),
        ("evaluate", lambda c: c["reports"].pop("T_g"), "have other fields"),
    ],
)
def test_a_reply_that_is_something_else(
    federation: Callable[..., Any], kind: str, change: Callable[[RecordDict], None], found: str
) -> None:
    made = federation("fedavg", rounds=1, local_steps=1)
    made.grid.spoil = spoilt(kind, change)
    with pytest.raises(NetworkError, match=found) as caught:
        made.serve()
    assert "\n" not in caught.value.line


@pytest.mark.parametrize("told", [{"modality": "x"}, {"rr_version": 9}, {"classes": []}])
def test_a_hello_that_cannot_be_is_not_written_down(federation: Callable[..., Any], told: dict[str, Any]) -> None:
    """All of the sites agree, the server goes on once they say what can be."""
    made = federation("fedavg", rounds=1, local_steps=1)

    def spoil(kind: str, node: int, content: RecordDict) -> RecordDict:
        if kind == "query.hello":
            content["say"].update(told)
        return content

    made.grid.spoil = spoil
    with pytest.raises(NetworkError, match="a site's registration"):
        made.serve()
    made.grid.spoil = lambda kind, node, content: content
    assert made.serve().store.rounds() == 1


@pytest.mark.parametrize(
    "scores",
    [
        {"patients": float("nan"), "T_g": 0.5, "T_p": 0.5},
        {"patients": 3, "T_g": float("nan"), "T_p": 0.5},
        {"patients": 3, "T_g": 0.5, "T_p": float("inf")},
        {"patients": -1, "T_g": 0.5, "T_p": 0.5},
        {"patients": 3, "T_g": 1.5, "T_p": 0.5},
    ],
)
def test_scores_that_nobody_would_believe(scores: dict[str, float]) -> None:
    with pytest.raises(NetworkError, match="a site's scores: are "):
        read_end_reply(RecordDict({"reports": MetricRecord(scores)}))
