"""Objects of a message, before they are put together: what is refused, at the server and at a site."""

import math
import os
import time
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from needs import flower

flower()

import hostile_replies as hostile
import httpx
from fastapi import HTTPException
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.app.message import make_message, remove_content_from_message
from flwr.app.metadata import Metadata
from flwr.common.serde import message_to_proto
from flwr.proto.message_pb2 import ObjectTree, PullObjectResponse
from flwr.supercore.inflatable import inflatable_utils
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects
from flwr.supercore.object_store.sql_object_store import SqlObjectStore
from puppets import Wire, made_object

from ecgfed.network import last_answer, uploads
from ecgfed.network.checked_grid import CheckedGrid
from ecgfed.network.messenger import MALFORMED
from ecgfed.network.objects import MAX_DEPTH, MAX_OBJECTS, ObjectLimits, check_tree, or_empty
from ecgfed.network.site_guard import MAX_RESPONSE_BYTES, check_response, is_refused

LIMITS = ObjectLimits(1 << 20, 4 << 20)


def metadata(**others: Any) -> Metadata:
    fields: dict[str, Any] = {"run_id": 1, "message_id": "", "src_node_id": 7, "dst_node_id": 1, "group_id": "1"}
    fields |= {"reply_to_message_id": "asked", "ttl": 60.0, "message_type": "train", "created_at": time.time()}
    return Metadata(**{**fields, **others})


def reply(**others: Any) -> Wire:
    """A site's reply as it travels."""
    values = {"model/head.out.bias": Array.from_numpy_ndarray(np.arange(24, dtype=np.float32).reshape(2, 12))}
    content = RecordDict({"say": ConfigRecord({"round": 1}), "up": ArrayRecord(values)})
    message = make_message(metadata=metadata(**others), content=content)
    objects = {name: one.deflate() for name, one in get_all_nested_objects(message).items()}
    message.metadata.__dict__["_message_id"] = message.object_id
    return Wire(objects, message.object_id, message_to_proto(remove_content_from_message(message)))


class GridHere:
    """Flower's grid with one reply."""

    def __init__(self, sent: Wire) -> None:
        self.sent, self.confirmed, self.node, self.run = sent, list[str](), None, SimpleNamespace(run_id=1)
        self._runtime_client = SimpleNamespace(
            PullMessages=self.messages, PullObject=self.part, ConfirmMessageReceived=self.confirm
        )

    def messages(self, request: Any) -> Any:
        self.sent.announcement.metadata.message_id = self.sent.root
        tree = self.sent.tree or self.sent.own_tree()
        return SimpleNamespace(messages_list=[self.sent.announcement], message_object_trees=[tree])

    def part(self, request: Any) -> Any:
        content = self.sent.objects.get(request.object_id)
        return PullObjectResponse(
            object_found=content is not None, object_available=True, object_content=content or b""
        )

    def confirm(self, request: Any) -> None:
        self.confirmed.append(request.message_object_id)


def pulled(sent: Wire) -> Message:
    grid = GridHere(sent)
    (found,) = CheckedGrid(grid, lambda: LIMITS).pull_messages(["asked"])
    assert grid.confirmed == [sent.root]
    assert found.metadata.reply_to_message_id == "asked"
    assert found.metadata.src_node_id == 7
    return found


def test_a_reply_as_it_should_be() -> None:
    found = pulled(reply())
    assert dict(found.content["say"]) == {"round": 1}
    assert found.content.array_records["up"]["model/head.out.bias"].numpy()[1, 11] == 23


@pytest.mark.parametrize(
    "change",
    [
        hostile.chunk_of_terabytes,
        hostile.broken_json,
        hostile.no_records,
        hostile.not_a_message,
        hostile.large_record,
        hostile.many_objects,
        hostile.deep_objects,
    ],
)
def test_a_reply_that_cannot_be_read_is_its_site_s_fault(change: Any) -> None:
    sent = reply()
    change(sent)
    found = pulled(sent)
    assert found.error.code == MALFORMED
    assert len(found.error.reason) < 300


def test_a_reply_answers_what_its_announcement_says() -> None:
    """Not what the message within says, which nobody has compared with a key."""
    inside = reply(src_node_id=99, reply_to_message_id="another's")
    outside = reply().announcement
    inside.announcement = outside
    assert dict(pulled(inside).content["say"]) == {"round": 1}


@pytest.mark.parametrize("code", [3, 4, 5, MALFORMED])
def test_a_site_does_not_report_what_the_server_reports(code: int) -> None:
    from flwr.app import Error

    message = make_message(metadata=metadata(), error=Error(code, "x"))
    sent = Wire({message.object_id: message.deflate()}, message.object_id, message_to_proto(message))
    assert pulled(sent).error.code == 0


def test_trees() -> None:
    tree = ObjectTree(object_id="0")
    for _ in range(MAX_DEPTH - 1):
        tree = ObjectTree(object_id="0", children=[tree])
    check_tree(tree)
    with pytest.raises(ValueError, match="levels"):
        check_tree(ObjectTree(object_id="0", children=[tree]))
    wide = ObjectTree(object_id="0", children=[ObjectTree(object_id=str(n)) for n in range(MAX_OBJECTS - 1)])
    check_tree(wide)
    wide.children.append(ObjectTree(object_id="x"))
    with pytest.raises(ValueError, match="objects"):
        check_tree(wide)


def test_a_message_beyond_the_limits_is_an_empty_one() -> None:
    """A site refuses it as any other, instead of saying nothing; the parts of a message are not checked again."""
    sent = reply(src_node_id=1, dst_node_id=7, reply_to_message_id="")
    inflate = or_empty(LIMITS, inflatable_utils.inflate_object_from_contents)
    assert dict(inflate(sent.root, dict(sent.objects)).content["say"]) == {"round": 1}
    for change in (hostile.chunk_of_terabytes, hostile.broken_json, hostile.no_records, hostile.large_record):
        spoilt = sent.copy()
        change(spoilt)
        found = inflate(spoilt.root, dict(spoilt.objects))
        assert not found.content
        assert found.metadata.message_type == "train"


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SqlObjectStore:
    monkeypatch.setattr(SqlObjectStore, "preregister", uploads._registered(SqlObjectStore.preregister))
    monkeypatch.setattr(SqlObjectStore, "put", uploads._put(SqlObjectStore.put))
    made = SqlObjectStore(str(tmp_path / "objects.db"))
    made.initialize()
    return made


def test_children_are_those_of_the_content(store: SqlObjectStore) -> None:
    """Whoever names an object first, or while it is uploaded, does not say what belongs to it."""
    empty = made_object("ArrayRecord", [], b"{}")
    name, root = sha256(empty).hexdigest(), "a" * 64
    false = ObjectTree(object_id=name, children=[ObjectTree(object_id="b" * 64)])
    true = ObjectTree(object_id=root, children=[ObjectTree(object_id=name)])
    store.preregister(1, false)
    assert set(store.preregister(1, true)) == {root, name}
    store.preregister(1, false)
    store.put(name, empty)
    tree = store.get_object_tree(root)
    assert [(child.object_id, list(child.children)) for child in tree.children] == [(name, [])]
    with pytest.raises(HTTPException, match="different children"):
        store.preregister(1, false)
    assert store.preregister(1, true) == [root]
    store.delete(root)
    assert name not in store
    assert root not in store


def test_an_object_with_children_that_nobody_announced(store: SqlObjectStore) -> None:
    content = made_object("RecordDict", ["c" * 64], b"{}")
    name = sha256(content).hexdigest()
    store.preregister(1, ObjectTree(object_id=name))
    with pytest.raises(ValueError, match="not announced"):
        store.put(name, content)


@pytest.mark.parametrize(
    ("headers", "is_read"),
    [
        ({"content-length": "10"}, True),
        ({"content-length": str(MAX_RESPONSE_BYTES + 1)}, False),
        ({"content-length": "-1"}, False),
        ({"transfer-encoding": "chunked"}, False),
        ({"content-length": "10", "content-encoding": "gzip"}, False),
    ],
)
def test_what_a_site_reads_of_a_response(headers: dict[str, str], is_read: bool) -> None:
    response = httpx.Response(200, headers=headers, stream=httpx.ByteStream(b""))
    if is_read:
        check_response(response)
        return
    with pytest.raises(httpx.RemoteProtocolError):
        check_response(response)


def test_a_server_that_has_gone(tmp_path: Path) -> None:
    assert last_answer.server_gone(tmp_path) == ""
    last_answer.note_answer(tmp_path)
    assert last_answer.seconds_since_answer(tmp_path) < 60
    last_answer.note_refused(tmp_path)
    assert last_answer.server_gone(tmp_path) == ""
    old = time.monotonic() - 2 * last_answer.REFUSED_S
    os.utime(tmp_path / last_answer.REFUSED, (old, old))
    last_answer.note_refused(tmp_path)  # the first refusal counts
    assert "refused connections" in last_answer.server_gone(tmp_path)
    last_answer.note_answer(tmp_path)
    assert last_answer.server_gone(tmp_path) == ""
    old = time.monotonic() - 2 * last_answer.GONE_S
    os.utime(tmp_path / last_answer.SEEN, (old, old))
    assert "has not answered" in last_answer.server_gone(tmp_path)
    assert last_answer.seconds_since_answer(tmp_path / "none") == math.inf


def test_a_refused_connection_is_told_from_a_silent_one() -> None:
    with pytest.raises(httpx.ConnectError) as caught:
        httpx.get("http://127.0.0.1:9", trust_env=False)
    assert is_refused(caught.value)
    assert not is_refused(httpx.ConnectTimeout("late"))
