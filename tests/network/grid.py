"""Flower's grid within this process: messages are serialised as Flower does, and answered by the ClientApp itself."""

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from flwr.app import Context, Error, Message, RecordDict
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents
from flwr.supercore.task_identity import TaskIdentity

from ecgfed.network.client_app import SITE, app

#: Flower's code for a node whose heartbeat has stopped.
NODE_UNAVAILABLE = 5


def travelled(message: Message) -> Message:
    """Return a message as it comes out at the other end: deflated into objects of bytes and inflated again."""
    objects = get_all_nested_objects(message)
    sent = {name: one.deflate() for name, one in objects.items()}
    found = inflate_object_from_contents(message.object_id, sent)
    assert isinstance(found, Message)
    found.metadata.__dict__["_message_id"] = message.object_id
    return found


@dataclass
class NodeHere:
    """A node that is connected."""

    node_id: int
    last_activated_at: str


class GridHere:
    """A grid whose nodes are site folders.

    Args:
        sites: node -> the site's folder.

    Attributes:
        fault: kind, node, round -> "" (none), ``away`` (it is not connected), ``killed`` (it trains, and is gone before
            it answers), ``late`` (its answer comes with the next question) or ``lost`` (its answer never comes).
    """

    def __init__(self, sites: dict[int, Path]) -> None:
        TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1  # as a ServerApp's process has them
        self.sites = sites
        self.replies: dict[str, Message] = {}
        self.sent: list[tuple[str, int, RecordDict]] = []
        self.came: list[tuple[str, int, RecordDict]] = []
        self.spoil: Callable[[str, int, RecordDict], RecordDict | None] = lambda kind, node, content: content
        self.fault: Callable[[str, int, int], str] = lambda kind, node, number: ""
        self.away: set[int] = set()
        self.started: dict[int, int] = dict.fromkeys(sites, 0)
        self.late: dict[str, Message] = {}

    def get_nodes(self) -> Sequence[NodeHere]:
        return [NodeHere(node, str(self.started[node])) for node in self.sites if node not in self.away]

    def push_messages(self, messages: Iterable[Message]) -> Sequence[str]:
        ids = []
        for message in messages:
            kind, node = message.metadata.message_type, message.metadata.dst_node_id
            there = travelled(message)
            number = int(there.content.config_records["say"].get("round", 0))  # type: ignore[arg-type]
            fault = self.fault(kind, node, number)
            self.sent.append((kind, node, there.content))
            ids.append(there.metadata.message_id)
            if fault == "away":
                self.replies[ids[-1]] = gone(there)
                continue
            os.environ[SITE] = str(self.sites[node])
            reply = travelled(app(there, Context(1, node, {}, RecordDict(), {})))
            content = self.spoil(kind, node, reply.content)
            if content is None or fault == "lost":
                continue
            reply.content = content
            if fault == "killed":
                self.replies[ids[-1]] = gone(there)
                continue
            self.came.append((kind, node, content))
            (self.late if fault == "late" else self.replies)[ids[-1]] = reply
        return ids

    def pull_messages(self, message_ids: Sequence[str]) -> Sequence[Message]:
        found = [self.replies.pop(one) for one in message_ids if one in self.replies]
        self.replies |= self.late  # too late for the question under way, in time for the next one
        self.late = {}
        return found


def gone(message: Message) -> Message:
    """Flower's answer for a node that is gone."""
    return Message(Error(NODE_UNAVAILABLE, "gone"), reply_to=message)


def bytes_of(content: RecordDict) -> bytes:
    """Return a message's content as the bytes that go over the wire."""
    return b"".join(one.deflate() for one in get_all_nested_objects(content).values())
