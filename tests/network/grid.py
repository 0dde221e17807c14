"""Flower's grid within this process: messages are serialised as Flower does, and answered by the ClientApp itself."""

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from flwr.app import Context, Message, RecordDict
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents
from flwr.supercore.task_identity import TaskIdentity

from ecgfed.network.client_app import SITE, app


def travelled(message: Message) -> Message:
    """Return a message as it comes out at the other end: deflated into objects of bytes and inflated again."""
    objects = get_all_nested_objects(message)
    sent = {name: one.deflate() for name, one in objects.items()}
    found = inflate_object_from_contents(message.object_id, sent)
    assert isinstance(found, Message)
    found.metadata.__dict__["_message_id"] = message.object_id
    return found


class GridHere:
    """A grid whose nodes are site folders.

    Args:
        sites: node -> the site's folder.
    """

    def __init__(self, sites: dict[int, Path]) -> None:
        TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1  # as a ServerApp's process has them
        self.sites = sites
        self.replies: dict[str, Message] = {}
        self.sent: list[tuple[str, int, RecordDict]] = []
        self.came: list[tuple[str, int, RecordDict]] = []
        self.spoil: Callable[[str, int, RecordDict], RecordDict | None] = lambda kind, node, content: content

    def get_node_ids(self) -> Sequence[int]:
        return list(self.sites)

    def push_messages(self, messages: Iterable[Message]) -> Sequence[str]:
        ids = []
        for message in messages:
            kind, node = message.metadata.message_type, message.metadata.dst_node_id
            there = travelled(message)
            self.sent.append((kind, node, there.content))
            os.environ[SITE] = str(self.sites[node])
            reply = travelled(app(there, Context(1, node, {}, RecordDict(), {})))
            content = self.spoil(kind, node, reply.content)
            if content is not None:
                reply.content = content
                self.came.append((kind, node, content))
                self.replies[there.metadata.message_id] = reply
            ids.append(there.metadata.message_id)
        return ids

    def pull_messages(self, message_ids: Sequence[str]) -> Sequence[Message]:
        return [self.replies.pop(one) for one in message_ids if one in self.replies]


def bytes_of(content: RecordDict) -> bytes:
    """Return a message's content as the bytes that go over the wire."""
    return b"".join(one.deflate() for one in get_all_nested_objects(content).values())
