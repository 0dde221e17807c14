"""Sites that answer a server over the network as Flower's SuperNode does, in threads of the test's process.

What a site sends may be changed at three levels: the reply's records, the objects that it travels as, and how they are
announced and uploaded.
"""

import contextlib
import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
from attack import Attacked
from flwr.app import Context, Message, RecordDict
from flwr.app.message import remove_content_from_message
from flwr.common.serde import message_to_proto
from flwr.proto.fleet_pb2 import PullMessagesRequest, PushMessagesRequest
from flwr.proto.message_pb2 import ConfirmMessageReceivedRequest, ObjectTree, PushObjectRequest
from flwr.proto.node_pb2 import Node
from flwr.supercore.inflatable.inflatable_object import (
    get_all_nested_objects,
    get_object_head_values_from_object_content,
    iterate_object_tree,
)
from flwr.supercore.inflatable.inflatable_protobuf_utils import make_pull_object_fn_protobuf
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents, pull_objects
from flwr.supercore.task_identity import TaskIdentity

from ecgfed.network.client_app import SITE, app

#: The site's answer is a matter of its environment, which all of a process share.
ONE_AT_A_TIME = threading.Lock()


def made_object(kind: str, children: list[str], body: bytes) -> bytes:
    """Return the content of one of Flower's objects."""
    return f"{kind} {','.join(children)} {len(body)}".encode() + b"\0" + body


@dataclass
class Wire:
    """A reply as it is announced and uploaded.

    Attributes:
        objects: object -> content.
        root: the message's object.
        announcement: the message without its content.
        tree: announced in place of the objects' own, if not None.
        withheld: objects that are announced and never uploaded.
    """

    objects: dict[str, bytes]
    root: str
    announcement: Any
    tree: ObjectTree | None = None
    withheld: set[str] = field(default_factory=set)

    def copy(self) -> "Wire":
        """Return another reply, announced by itself."""
        announcement = self.announcement.__class__()
        announcement.CopyFrom(self.announcement)
        return Wire(dict(self.objects), self.root, announcement)

    def kind(self, name: str) -> list[str]:
        """Return the objects of a kind."""
        found = [one for one, content in self.objects.items() if content.startswith(name.encode() + b" ")]
        return sorted(found)

    def replace(self, old: str, content: bytes) -> str:
        """Replace an object, and with it the IDs of all that hold it; returns its new ID."""
        new = sha256(content).hexdigest()
        del self.objects[old]
        self.objects[new] = content
        if old == self.root:
            self.root = new
        for parent in [one for one, other in self.objects.items() if old.encode() in other]:
            self.replace(parent, self.objects[parent].replace(old.encode(), new.encode()))
        return new

    def own_tree(self, object_id: str | None = None) -> ObjectTree:
        """Return the tree of the objects as they name one another."""
        object_id = object_id or self.root
        _, children, _ = get_object_head_values_from_object_content(self.objects[object_id])
        known = [child for child in children if child in self.objects]
        return ObjectTree(object_id=object_id, children=map(self.own_tree, known))


@dataclass
class Puppet:
    """A site.

    Attributes:
        content: changes a reply's records, given the question; None sends nothing.
        wire: changes what is announced and uploaded, given the puppet; returns whether to send it.
        answered: statuses of what it announced.
    """

    made: Attacked
    name: str
    folder: Path
    content: Callable[[Message, RecordDict], RecordDict | None] = lambda question, content: content
    wire: Callable[["Puppet", Message, Wire], bool] = lambda puppet, question, wire: True
    node: int = 0
    statuses: list[int] = field(default_factory=list)

    def connect(self) -> None:
        """Connect, or connect anew."""
        self.node = self.made.activate(self.name, self.node)

    def run(self, ends: threading.Event) -> None:
        """Answer until the server has gone or the test ends."""
        with contextlib.closing(self.made.client(self.name)) as client:
            while not ends.is_set():
                try:
                    question = self.question(client)
                    if question is None:
                        ends.wait(0.7)
                    else:
                        self.answer(client, question)
                except httpx.HTTPError:
                    ends.wait(0.2)
                except Exception as problem:
                    self.made.outcome.setdefault("problem", problem)
                    raise

    def question(self, client: Any) -> Message | None:
        """Pull a question of the server."""
        node = Node(node_id=self.node)
        pulled = client.PullMessages(PullMessagesRequest(node=node))
        if not pulled.messages_list:
            return None
        tree, run = pulled.message_object_trees[0], pulled.messages_list[0].metadata.run_id
        parts = list({one.object_id for one in iterate_object_tree(tree)})
        pull = make_pull_object_fn_protobuf(client.PullObject, node, run)
        contents = pull_objects(parts, pull, initial_backoff=0.05, backoff_cap=0.2)
        confirm = ConfirmMessageReceivedRequest(node=node, run_id=run, message_object_id=tree.object_id)
        client.ConfirmMessageReceived(confirm)
        question: Any = inflate_object_from_contents(tree.object_id, contents)
        question.metadata.__dict__["_message_id"] = tree.object_id
        return question  # type: ignore[no-any-return]

    def answer(self, client: Any, question: Message) -> None:
        """Answer a question as the ClientApp does, or otherwise."""
        with ONE_AT_A_TIME:
            TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, self.node, 1
            os.environ[SITE] = str(self.folder)
            reply = app(question, Context(1, self.node, {}, RecordDict(), {}))
        content = self.content(question, reply.content)
        if content is None:
            return
        self.send(client, question, Message(content, reply_to=question))

    def send(self, client: Any, question: Message, reply: Message) -> None:
        """Announce and upload a reply."""
        reply.metadata.__dict__["_src_node_id"] = self.node
        objects = {name: one.deflate() for name, one in get_all_nested_objects(reply).items()}
        reply.metadata.__dict__["_message_id"] = reply.object_id
        wire = Wire(objects, reply.object_id, message_to_proto(remove_content_from_message(reply)))
        if self.wire(self, question, wire):
            self.upload(client, question, wire)

    def upload(self, client: Any, question: Message, wire: Wire) -> None:
        """Announce a reply and upload its objects."""
        wire.announcement.metadata.message_id = wire.root
        node, tree = Node(node_id=self.node), wire.tree if wire.tree is not None else wire.own_tree()
        announced = PushMessagesRequest(
            node=node, messages_list=[wire.announcement], message_object_trees=[tree], clientapp_runtime_list=[1.0]
        )
        try:
            taken = client.PushMessages(announced)
        except httpx.HTTPStatusError as problem:
            self.statuses.append(problem.response.status_code)
            return
        self.statuses.append(200)
        for one in taken.objects_to_push:
            if one in wire.objects and one not in wire.withheld:
                part = PushObjectRequest(
                    node=node,
                    run_id=question.metadata.run_id,
                    session_id=taken.session_id,
                    object_id=one,
                    object_content=wire.objects[one],
                )
                with contextlib.suppress(httpx.HTTPStatusError):
                    client.PushObject(part)


@contextlib.contextmanager
def playing(puppets: Mapping[str, Puppet]) -> Iterator[None]:
    """Have the puppets answer until the block ends."""
    ends = threading.Event()
    for puppet in puppets.values():
        puppet.connect()
    threads = [threading.Thread(target=puppet.run, args=(ends,)) for puppet in puppets.values()]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ends.set()
        for thread in threads:
            thread.join(30)


def json_body(content: bytes) -> Any:
    """Return the JSON in an object's body."""
    return json.loads(content.partition(b"\0")[2])
