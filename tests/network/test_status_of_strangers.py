"""``federate status`` of a folder that somebody else has written into: one line that names the file."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from needs import flower

flower()

from ecgfed.errors import StorageError
from ecgfed.network.status import status_of


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("result.json", "null"),
        ("result.json", "{}"),
        ("result.json", '{"sites": [{"site": "a", "T_g": "x", "T_p": 0}]}'),
        ("result.json", '{"sites": [], "missing": 3}'),
        ("leaves.json", "null"),
        ("leaves.json", '{"leaves": null}'),
        ("leaves.json", '{"leaves": [{}]}'),
        ("run/history.jsonl", '{"round": 1}\n'),
        ("run/history.jsonl", '{"round": 1, "loss_mean": null, "loss_max": 1}\n'),
        ("run/history.jsonl", '{"round": 1, "loss_mean": 1, "loss_max": 1, "left_out": [3]}\n'),
    ],
)
def test_a_file_that_holds_something_else(name: str, text: str, federation: Callable[..., Any]) -> None:
    made = federation("fedavg", rounds=1, local_steps=1)
    made.serve()
    before = status_of(made.server)
    assert (
        json.loads(json.dumps(before.as_json()["leaves"]))
        == json.loads((made.server / "leaves.json").read_text())["leaves"]
    )
    (made.server / name).write_text(text)
    with pytest.raises(StorageError) as caught:
        status_of(made.server)
    assert name in caught.value.line
