"""What a hostile server asks of a site: the list, and the program that asks it over the network.

``python hostile_requests.py ARGUMENTS`` takes the place of Flower's ``flwr-serverapp`` in a SuperLink's PATH. It reads
honest requests from the folder ``honest`` beside the server's, asks what the list holds, one after the other, and
writes a line for each into ``answers.jsonl``.
"""

import hashlib
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Error, Message, RecordDict
from flwr.app.message.arraychunk import ArrayChunk
from flwr.supercore.inflatable.inflatable_object import InflatableObject
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents

ROUND, END, HELLO = "train", "evaluate", "query.hello"
LEAF = "model/head.out.bias"
#: How long to wait for an answer, s.
ANSWER_S = 240.0


@dataclass
class Asked:
    """A request that may be changed: the fields, the run specification in them, and the leaves."""

    fields: dict[str, Any]
    order: dict[str, Any]
    leaves: dict[str, Any]
    kind: str = ROUND
    order_text: str | None = None
    message: Message | None = None
    own: dict[str, Any] | None = None

    def content(self) -> RecordDict:
        text = json.dumps(self.order, sort_keys=True) if self.order_text is None else self.order_text
        fields = {**self.fields, "order": text}
        content = RecordDict({"say": ConfigRecord(fields), "shared": ArrayRecord(self.leaves)})
        if self.kind == ROUND:
            content["own"] = ArrayRecord(self.own or {})
        return content


def honest(folder: Path, name: str) -> Asked:
    """Read a request that a server sent."""
    contents = {file.name: file.read_bytes() for file in (folder / name).iterdir() if file.name != "root"}
    record: Any = inflate_object_from_contents((folder / name / "root").read_text(), contents)
    fields = dict(record["say"])
    order = json.loads(str(fields.pop("order")))
    return Asked(fields, order, dict(record["shared"]), END if "split" in fields else ROUND)


Change = Callable[[Asked], Any]


def plan(**values: Any) -> Change:
    return lambda asked: asked.order["plan"].update(values)


def order(**values: Any) -> Change:
    return lambda asked: asked.order.update(values)


def settings(**values: Any) -> Change:
    return lambda asked: asked.order["settings"].update(values)


def net(**values: Any) -> Change:
    return lambda asked: asked.order["net"].update(values)


def fields(**values: Any) -> Change:
    return lambda asked: asked.fields.update(values)


def text(value: str) -> Change:
    return lambda asked: setattr(asked, "order_text", value)


def leaf(value: Any) -> Change:
    """Change one leaf; an array or an ``Array``."""

    def change(asked: Asked) -> None:
        asked.leaves[LEAF] = value if isinstance(value, Array) else Array.from_numpy_ndarray(value)

    return change


class Bomb(Array):
    """An array that names its chunk of 5 MiB 20,000 times."""

    def __init__(self) -> None:
        self.chunk = ArrayChunk(memoryview(bytes(5 << 20)))
        super().__init__("float32", (1, 1), "numpy.ndarray", b"")

    @property
    def children(self) -> dict[str, InflatableObject]:
        return {self.chunk.object_id: self.chunk}

    def deflate(self) -> bytes:
        body = {"dtype": "float32", "shape": (12,), "stype": "numpy.ndarray", "arraychunk_ids": [0] * 20_000}
        encoded = json.dumps(body).encode()
        return f"Array {self.chunk.object_id} {len(encoded)}".encode() + b"\0" + encoded


Bomb.__qualname__ = "Array"


def large(asked: Asked) -> None:
    """A gigabyte of leaves."""
    for number in range(64):
        values = np.random.default_rng(number).integers(0, 255, 16 << 20, np.uint8)
        asked.leaves[f"model/more{number}"] = Array.from_numpy_ndarray(values)


def sent_as(kind: str) -> Change:
    return lambda asked: setattr(asked, "kind", kind)


def lost(asked: Asked) -> None:
    del asked.leaves[LEAF]


def holders(value: str) -> Change:
    def change(asked: Asked) -> None:
        asked.own = {"model/head.out.bias": Array.from_numpy_ndarray(np.zeros((2, 12), np.float32))}
        asked.fields["holders"] = value

    return change


def error_alone(asked: Asked) -> None:
    asked.message = Message(Error(1, "no request"), reply_to=Message(RecordDict(), 1, ROUND))


def named(site: str) -> Change:
    def change(asked: Asked) -> None:
        asked.order["site"] = site
        asked.order["sites"][0]["name"] = site

    return change


BIG = 10**9
#: Requests of a run that has not begun, and the code of the refusal.
BEFORE: dict[str, tuple[Change, str]] = {
    "10^9 local steps": (plan(local_steps=BIG), "bound"),
    "10^9 local epochs": (plan(local_steps=None, local_epochs=BIG), "bound"),
    "a batch of none": (plan(batch_size=0), "request"),
    "a batch of one beat": (plan(batch_size=1), "bound"),
    "10^9 rounds": (plan(rounds=BIG), "limit"),
    "a seed below 0": (plan(seed=-1), "request"),
    "noise that is no number": (plan(dp_clip=1.0, dp_noise=float("nan"), dp_at="patient"), "request"),
    "no patients": (fields(clients=[]), "request"),
    "patients of nobody": (fields(clients=[5000, 5001]), "request"),
    "a patient twice": (fields(clients=[0, 0]), "request"),
    "a million patients": (fields(clients=list(range(1_000_000))), "request"),
    "a round after the last": (fields(round=5000), "request"),
    "a round below 1": (fields(round=-1), "request"),
    "a round that another went before": (fields(round=2, last=1), "behind"),
    "a weight that is no number": (leaf(np.full(12, np.nan, np.float32)), "model"),
    "weights of 1e30": (leaf(np.full(12, 1e30, np.float32)), "model"),
    "a weight of another shape": (leaf(np.zeros((3, 4, 5), np.float32)), "internal"),
    "weights without a leaf": (lost, "internal"),
    "a leaf that the method does not know": (
        lambda asked: asked.leaves.update({"beats": Array.from_numpy_ndarray(np.zeros(3, np.float32))}),
        "card",
    ),
    "weights as Python objects": (leaf(Array("float32", (12,), "pickle", bytes(48))), "request"),
    "100 GB in 5 MB": (lambda asked: asked.leaves.update({LEAF: Bomb()}), "request"),
    "a tree for patients that are not there": (holders('{"model/head.out.bias": [0, 99]}'), "request"),
    "holders in a thousand brackets": (holders("[" * 100_000), "internal"),
    "a question that nobody knows": (sent_as("query.beats"), "request"),
    "the end of a run in place of a round": (sent_as(END), "request"),
    "a round in place of a registration": (sent_as(HELLO), "request"),
    "an unknown method": (order(method="nobody"), "request"),
    "a method of the server's own": (order(method="/tmp/mine.py:Method"), "request"),
    "a method that pools beats": (order(method="centralised"), "request"),
    "another protocol": (order(protocol=99), "older"),
    "an option that nobody knows": (order(options={"transport": "pickle"}), "request"),
    "a run's name that is a path": (order(run="../../../../etc/passwd"), "request"),
    "a site's name with control characters": (named("\x1b[2J\u202ea"), "request"),
    "an order that is no JSON": (text("{"), "request"),
    "an order in a thousand brackets": (text("[" * 100_000), "request"),
    "an order of four million values": (text("[" + "0," * 4_000_000 + "0]"), "request"),
    "an order with a name twice": (text('{"protocol": 3, "protocol": 3}'), "request"),
    "other classes": (order(classes=["N", "V"]), "cohort"),
    "a net for 10,000 classes": (net(classes=10_000), "cohort"),
    "a net 1,000 times as wide": (net(width=1000.0), "request"),
    "a learning rate of 1e30": (settings(lr=1e30), "request"),
    "a learning rate that is no number": (settings(lr=float("nan")), "request"),
    "a setting that nobody knows": (settings(more=1), "request"),
}
#: Requests of a run whose first round has been answered.
DURING: dict[str, tuple[Change, str]] = {
    "another plan of the same run": (plan(seed=7), "request"),
    "other numbers of the patients": (order(first=1), "request"),
    "other weights for a third time": (leaf(np.ones(12, np.float32)), "bound"),
    "a round that goes back": (fields(round=1, last=1), "request"),
    "a round that skips one": (fields(round=2, last=5), "request"),
}
#: Ends of the run, after its last round.
AFTER: dict[str, tuple[Change, str]] = {
    "an end without a leaf": (lost, "model"),
    "an end with a number that is none": (leaf(np.full(12, np.nan, np.float32)), "model"),
    "an end with another leaf": (leaf(np.zeros(5, np.float32)), "model"),
    "an end on another split": (fields(split="train"), "request"),
}


def digest(content: RecordDict) -> str:
    """Return the SHA-256 of the weights of an answer."""
    sha256 = hashlib.sha256()
    for record in content.array_records.values():
        for path, array in record.items():
            sha256.update(path.encode() + array.data)
    return sha256.hexdigest()


def ask(grid: Any, node: int, asked: Asked) -> dict[str, Any]:
    """Send a request, and wait for the answer."""
    message = asked.message if asked.message is not None else Message(asked.content(), node, asked.kind)
    started = time.monotonic()
    (sent,) = grid.push_messages([message])
    while time.monotonic() - started < ANSWER_S:
        for reply in grid.pull_messages([sent]):
            answer = {"seconds": round(time.monotonic() - started, 1)}
            if reply.has_error():
                return {**answer, "error": reply.error.code, "reason": reply.error.reason[:200]}
            said = dict(reply.content.config_records.get("say", ConfigRecord()))
            return {**answer, "refused": said.get("refused", ""), "weights": digest(reply.content)}
        time.sleep(0.1)
    return {"seconds": ANSWER_S, "refused": "no answer"}


def main(grid: Any, context: Any) -> None:
    server = Path(os.environ["ECGFED_SERVER"])
    folder, answers = server.parent / "honest", server.parent / "answers.jsonl"
    (node,) = (int(one.node_id) for one in grid.get_nodes())
    parts: list[tuple[dict[str, tuple[Change, str]], str]] = [({"round 1": (lambda _: None, "")}, "1")]
    parts += [({"round 1 again": (lambda _: None, "")}, "1")]
    parts += [({"round 1 otherwise": (leaf(np.full(12, 2.0, np.float32)), "")}, "1"), (DURING, "1")]
    parts += [({"round 2": (lambda _: None, "")}, "2")]
    parts += [(AFTER, "end"), ({"the end": (lambda _: None, "")}, "end")]
    parts += [({"another end": (leaf(np.zeros(12, np.float32)), "ended")}, "end"), (BEFORE, "1")]
    with answers.open("a") as stream:
        for kinds, name in parts:
            for kind, (change, expected) in kinds.items():
                asked = honest(folder, name)
                if kinds is BEFORE:
                    asked.order["run"] = hashlib.sha256(kind.encode()).hexdigest()
                change(asked)
                try:
                    answer = ask(grid, node, asked)
                except Exception as problem:
                    answer = {"problem": repr(problem)[:300]}
                stream.write(json.dumps({"kind": kind, "expected": expected, **answer}) + "\n")
                stream.flush()
    (server.parent / "done").touch()


if __name__ == "__main__":
    from flwr.serverapp import ServerApp

    from ecgfed.network import processes, server_app

    server_app.app = ServerApp()
    server_app.app.main()(main)
    sys.exit(processes.main(["flwr-serverapp", *sys.argv[1:]]))
