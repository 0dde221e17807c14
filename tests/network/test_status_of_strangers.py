"""``federate status`` of a folder that somebody else has written into: one line that names the file."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from needs import flower

flower()

from ecgfed.base.errors import StorageError
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
        ("ended.json", "[]"),
        ("ended.json", '{"problem": 3}'),
        ("ended.json", '{"problem": null}'),
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


def test_why_the_last_session_ended_is_said(federation: Callable[..., Any]) -> None:
    made = federation("fedavg", rounds=1, local_steps=1)
    made.serve()
    (made.server / "ended.json").write_text('{"problem": ""}')
    assert "problem" not in status_of(made.server).values
    (made.server / "ended.json").write_text('{"problem": "site-1: 3 beats\\u001b[2J; expected 4."}')
    status = status_of(made.server)
    assert status.values["problem"].startswith("site-1: 3 beats")
    (line,) = [line for line in status.sentences() if "ended early" in line]
    assert line.endswith("expected 4. Start it again to resume.")
    assert "\x1b" not in line
