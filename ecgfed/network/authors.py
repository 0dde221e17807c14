"""Compare the node in a site's request with the messages that the request answers, fetches or confirms.

Flower 1.41 checks that the node of a request belongs to the key that signed it, and that a reply names the node that
was asked as its author. It does not compare the two, so a site that knows another's node and message could answer in
its name, fetch its request or have it deleted.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any

from fastapi import HTTPException
from flwr.common.constant import SUPERLINK_NODE_ID
from flwr.proto.fleet_pb2 import PushMessagesRequest


def check_authors() -> None:
    """Make the SuperLink's handlers reject requests about another site's messages with 403."""
    handlers: Any = import_module("flwr.superlink.servicer.fleet.fleet_handlers")
    push, pull, confirm = handlers.push_messages, handlers.pull_object, handlers.confirm_message_received

    def push_messages(*, request: PushMessagesRequest, state: Any) -> Any:
        authors = [message.metadata.src_node_id for message in request.messages_list]
        if authors != [request.node.node_id] or len(request.message_object_trees) != 1:
            raise HTTPException(403, "a reply names another author than the key's owner")
        return push(request=request, state=state)

    handlers.push_messages = push_messages
    handlers.pull_object = _for_addressee(pull, "object_id")
    handlers.confirm_message_received = _for_addressee(confirm, "message_object_id")


def _for_addressee(handler: Callable[..., Any], field: str) -> Callable[..., Any]:
    """Return the handler behind a check that the message with the ID in a field was sent to the requesting node."""

    def handle(*, request: Any, state: Any, **others: Any) -> Any:
        # parts of a message, such as the global model, have IDs of their own and are the same for several sites
        message = state.get_valid_message_ins(getattr(request, field))
        node = request.node.node_id
        # SQLite stores the ID as a signed integer
        if message is not None and int(message["dst_node_id"]) % (1 << 64) not in (node, SUPERLINK_NODE_ID):
            raise HTTPException(403, "the message was sent to another site")
        return handler(request=request, state=state, **others)

    return handle
