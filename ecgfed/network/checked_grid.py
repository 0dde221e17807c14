"""Flower's grid at the server, with replies that are checked before they are put together.

Flower 1.41 puts together whatever a site has uploaded, and takes a reply's metadata from it: one malformed reply ends
the run for all, and one that names another site's question counts as that site's. Here the metadata are those that the
SuperLink has compared with the site's key, and a reply that cannot be read fails its site alone.
"""

from collections.abc import Callable, Sequence
from typing import Any

from flwr.app import Error, Message, Metadata, RecordDict
from flwr.app.message import make_message
from flwr.common.constant import SUPERLINK_NODE_ID, ErrorCode
from flwr.common.serde import metadata_from_proto
from flwr.proto.message_pb2 import ConfirmMessageReceivedRequest
from flwr.proto.runtime_pb2 import PullAppMessagesRequest
from flwr.supercore.inflatable.inflatable_object import iterate_object_tree
from flwr.supercore.inflatable.inflatable_protobuf_utils import make_pull_object_fn_protobuf
from flwr.supercore.inflatable.inflatable_utils import ObjectPullError, pull_objects

from ecgfed.network.messenger import MALFORMED, UNAVAILABLE
from ecgfed.network.objects import ObjectLimits, check_tree, put_together

#: Longest time to fetch a reply whose objects have all arrived, s.
PULL_S = 120.0


class CheckedGrid:
    """A grid whose replies are whole, and whose authors are those that the SuperLink knows.

    Args:
        grid: Flower's ``HttpGrid``.
        limits: returns what the objects of a reply may take.
    """

    def __init__(self, grid: Any, limits: Callable[[], ObjectLimits]) -> None:
        self.grid, self.limits = grid, limits

    def get_nodes(self) -> Any:
        """Return the connected nodes."""
        return self.grid.get_nodes()

    def push_messages(self, messages: Sequence[Message]) -> Any:
        """Send messages; returns their ids."""
        return self.grid.push_messages(messages)

    def pull_messages(self, message_ids: Sequence[str]) -> list[Message]:
        """Return the replies that have arrived; one that cannot be read has the error ``MALFORMED``."""
        answer = self.grid._runtime_client.PullMessages(PullAppMessagesRequest(message_ids=message_ids))
        replies = zip(answer.messages_list, answer.message_object_trees, strict=True)
        return [self._reply(metadata_from_proto(reply.metadata), tree) for reply, tree in replies]

    def _reply(self, metadata: Metadata, tree: Any) -> Message:
        client, node, run = self.grid._runtime_client, self.grid.node, self.grid.run.run_id
        try:
            check_tree(tree)
            parts = {part.object_id for part in iterate_object_tree(tree)}
            contents = pull_objects(
                list(parts), make_pull_object_fn_protobuf(client.PullObject, node, run), max_time=PULL_S
            )
            message = put_together(tree.object_id, contents, self.limits())
            reply = self._checked(metadata, message)
        except ObjectPullError as problem:  # its upload has expired
            reply = make_message(metadata=metadata, error=Error(ErrorCode.MESSAGE_UNAVAILABLE, str(problem)))
        except ValueError as problem:
            reply = make_message(metadata=metadata, error=Error(MALFORMED, f"cannot be read: {problem!s:.200}"))
        client.ConfirmMessageReceived(
            ConfirmMessageReceivedRequest(node=node, run_id=run, message_object_id=tree.object_id)
        )
        return reply

    def _checked(self, metadata: Metadata, message: object) -> Message:
        if not isinstance(message, Message):
            raise ValueError(f"a {type(message).__name__} in place of a message")
        if not message.has_error():
            if not isinstance(message.content, RecordDict):
                raise ValueError(f"a {type(message.content).__name__} in place of a message's records")
            return make_message(metadata=metadata, content=message.content)
        error = message.error
        if metadata.src_node_id != SUPERLINK_NODE_ID and error.code in (*UNAVAILABLE, MALFORMED):
            # what the SuperLink or this grid reports of a site, a site may not report of itself
            error = Error(ErrorCode.UNKNOWN, "")
        return make_message(metadata=metadata, error=error)
