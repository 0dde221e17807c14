"""A message's author is the owner of the key that its request is signed with."""

import contextlib
from collections.abc import Iterator

import pytest
from needs import flower

flower()

import httpx
from attack import Attacked, attacked, until
from flwr.app import Error, Message
from flwr.common.serde import message_from_proto, message_to_proto
from flwr.proto.fleet_pb2 import PullMessagesRequest, PushMessagesRequest
from flwr.proto.message_pb2 import ConfirmMessageReceivedRequest, ObjectTree, PullObjectRequest, PushObjectRequest
from flwr.proto.node_pb2 import Node


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attacked]:
    with attacked(tmp_path_factory.mktemp("attacked")) as made:
        yield made


def question(made: Attacked, name: str, node: int) -> Message:
    """The server's question to a site, as the site pulls it."""

    def pull() -> Message | None:
        with contextlib.closing(made.client(name)) as client:
            pulled = client.PullMessages(PullMessagesRequest(node=Node(node_id=node)))
        return message_from_proto(pulled.messages_list[0]) if pulled.messages_list else None

    found = until(pull)
    assert isinstance(found, Message)
    return found


def answered(made: Attacked, name: str, node: int, message: Message, author: int) -> int:
    """Answer a question with a refusal; ``author`` is whom the answer says it is of. Returns the status."""
    reply = Message(Error(1, "no"), reply_to=message)
    reply.metadata.__dict__["_src_node_id"] = author
    reply.metadata.__dict__["_message_id"] = reply.object_id
    tree = ObjectTree(object_id=reply.metadata.message_id)
    request = PushMessagesRequest(
        node=Node(node_id=node), messages_list=[message_to_proto(reply)], message_object_trees=[tree]
    )
    with contextlib.closing(made.client(name)) as client:
        try:
            taken = client.PushMessages(request)
        except httpx.HTTPStatusError as problem:
            return problem.response.status_code
        for one in taken.objects_to_push:
            whole = PushObjectRequest(
                node=Node(node_id=node),
                run_id=message.metadata.run_id,
                session_id=taken.session_id,
                object_id=one,
                object_content=reply.deflate(),
            )
            client.PushObject(whole)
    return 200


def asked(made: Attacked, name: str, call: str, request: object) -> int:
    with contextlib.closing(made.client(name)) as client:
        try:
            getattr(client, call)(request)
        except httpx.HTTPStatusError as problem:
            return problem.response.status_code
    return 200


def test_a_site_answers_for_itself_alone(server: Attacked) -> None:
    a, b = server.activate("a"), server.activate("b")
    of_a = question(server, "a", a)
    # b knows a's node and message: it may neither answer it, in a's name or its own, nor take it, nor take it away
    assert answered(server, "b", b, of_a, author=a) == 403
    pull = PullObjectRequest(node=Node(node_id=b), run_id=of_a.metadata.run_id, object_id=of_a.metadata.message_id)
    assert asked(server, "b", "PullObject", pull) == 403
    confirm = ConfirmMessageReceivedRequest(
        node=Node(node_id=b), run_id=of_a.metadata.run_id, message_object_id=of_a.metadata.message_id
    )
    assert asked(server, "b", "ConfirmMessageReceived", confirm) == 403
    answered(server, "b", b, of_a, author=b)
    assert not server.outcome  # nothing of it counts as a's answer
    assert answered(server, "a", a, of_a, author=a) == 200
    problem = until(lambda: server.outcome.get("problem"))
    assert "site a" in str(problem)
