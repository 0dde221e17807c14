"""Check what a site announces and uploads before the SuperLink stores it, and hold a reply back until it is whole.

Flower 1.41 registers whatever tree of objects a site announces, as often as it announces one, and hands a reply to the
server as soon as it is announced: the server then waits for the rest of that one reply, for hours if some of it arrives
every few minutes. Its database takes an object's children from whoever names the object first.
"""

import hashlib
import math
from collections.abc import Callable
from importlib import import_module
from typing import Any

from fastapi import HTTPException
from flwr.proto.fleet_pb2 import PushMessagesRequest
from flwr.proto.message_pb2 import ObjectTree
from flwr.server.superlink.linkstate.sql_linkstate import SqlLinkState
from flwr.supercore.corestate import sql_corestate
from flwr.supercore.date import now
from flwr.supercore.inflatable.inflatable_object import get_object_children_ids_from_object_content, iterate_object_tree
from flwr.supercore.object_store.sql_object_store import (
    ObjectChild,
    SqlObjectStore,
    StoredObject,
    delete,
    select,
    update,
)
from flwr.superlink.servicer.fleet import fleet_handlers

from ecgfed.network.objects import check_tree

#: Largest announcement of a reply without its tree: metadata, or an error's text; bytes.
MAX_ANNOUNCEMENT_BYTES = 1 << 14
#: Announced replies that are remembered, so that none is announced with another tree.
MAX_REMEMBERED = 100_000


def check_uploads() -> None:
    """Make the SuperLink refuse announcements that no site makes, and hand over whole replies only."""
    handlers: Any = import_module(fleet_handlers.__name__)
    handlers.push_messages = _once(handlers.push_messages)
    state: Any = SqlLinkState
    state.get_message_res = _whole(state.get_message_res)
    store: Any = SqlObjectStore
    store.preregister, store.put = _registered(store.preregister), _put(store.put)


def _once(push: Callable[..., Any]) -> Callable[..., Any]:
    """Return the handler behind checks of an announced reply, which has one tree for good."""
    announced: dict[tuple[int, str], bytes] = {}

    def push_messages(*, request: PushMessagesRequest, state: Any) -> Any:
        message, tree = request.messages_list[0], request.message_object_trees[0]
        _check_announcement(message, tree)
        key = (int(request.node.node_id), str(message.metadata.reply_to_message_id))
        question = state.get_valid_message_ins(key[1])
        if question is None or int(question["dst_node_id"]) % (1 << 64) != key[0]:
            raise HTTPException(404, "no question waits for this reply")
        digest = hashlib.sha256(tree.SerializeToString(deterministic=True)).digest()
        if announced.setdefault(key, digest) != digest:
            raise HTTPException(409, "the reply was announced with other objects")
        if len(announced) > MAX_REMEMBERED:
            del announced[next(iter(announced))]
        request.ClearField("clientapp_runtime_list")  # added up in the database, which keeps what is no number
        return push(request=request, state=state)

    return push_messages


def _check_announcement(message: Any, tree: ObjectTree) -> None:
    """Refuse an announcement with 400 if it is too large or malformed."""
    metadata = message.metadata
    if message.ByteSize() > MAX_ANNOUNCEMENT_BYTES or tree.object_id != metadata.message_id:
        raise HTTPException(400, "no announcement of a reply")
    if not (math.isfinite(metadata.created_at) and math.isfinite(metadata.ttl)):
        raise HTTPException(400, "a time that is none")
    try:
        check_tree(tree)
    except ValueError as problem:
        raise HTTPException(400, str(problem)) from problem


def _whole(get: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
    """Return ``SqlLinkState.get_message_res`` without the replies that are being uploaded.

    They are looked for after Flower has marked replies as delivered, in the same transaction: a reply that is announced
    at that moment is then seen as well.
    """

    def get_message_res(self: Any, message_ids: set[str], run_id: int) -> list[Any]:
        with self.session() as session:
            replies = get(self, message_ids, run_id)
            uploading = _uploading(session, [reply.metadata.message_id for reply in replies])
            if uploading:
                models: Any = import_module("flwr.supercore.state.schema.linkstate_models")
                waiting = update(models.MessageRes).where(models.MessageRes.message_id.in_(uploading))
                session.execute(waiting.values(delivered_at=""))
            return [reply for reply in replies if reply.metadata.message_id not in uploading]

    return get_message_res


def _uploading(session: Any, replies: list[str]) -> set[str]:
    """Return the announced replies that have objects still to come, and have not expired."""
    sessions, roots = sql_corestate.ObjectPushSessionModel, sql_corestate.ObjectPushSessionRootModel
    query = (
        select(roots.root_object_id)
        .join(sessions, sessions.session_id == roots.session_id)
        .where(roots.root_object_id.in_(replies), sessions.pending_count > 0, sessions.expires_at > now())
    )
    return set(session.scalars(query))


def _registered(register: Callable[..., list[str]]) -> Callable[..., list[str]]:
    """Return ``SqlObjectStore.preregister`` for which an object's children are not those of the first who names it.

    Some objects are the same in many messages, such as an empty record. Announced with other children, they would have
    every later message refused that holds them.
    """

    def preregister(self: Any, run_id: int, object_tree: ObjectTree) -> list[str]:
        with self._mutation_session() as session:
            for node in iterate_object_tree(object_tree):
                _claim(self, session, node.object_id, {child.object_id for child in node.children})
            try:
                return register(self, run_id, object_tree)
            except ValueError as problem:  # an object that has arrived, announced with children it does not have
                raise HTTPException(409, str(problem)) from problem

    return preregister


def _put(put: Callable[..., None]) -> Callable[..., None]:
    """Return ``SqlObjectStore.put``, which gives an object the children that its content names."""

    def put_object(self: Any, object_id: str, object_content: bytes) -> None:
        with self._mutation_session() as session:
            put(self, object_id, object_content)
            children = set(get_object_children_ids_from_object_content(object_content))
            known = select(StoredObject.object_id).where(StoredObject.object_id.in_(children))
            if len(session.scalars(known).all()) < len(children):
                raise ValueError(f"object {object_id} has children that were not announced")
            _set_children(session, object_id, children)

    return put_object


def _claim(store: Any, session: Any, object_id: str, children: set[str]) -> None:
    """Register an object, with these children unless its content has arrived and names them."""
    row = store.dialect_insert(StoredObject).values(object_id=object_id, content=b"", is_available=0, ref_count=0)
    session.execute(row.on_conflict_do_nothing(index_elements=[StoredObject.object_id]))
    if not session.scalar(select(StoredObject.is_available).where(StoredObject.object_id == object_id)):
        _set_children(session, object_id, children)


def _set_children(session: Any, object_id: str, children: set[str]) -> None:
    """Replace an object's children, which are registered, and count who refers to them."""
    before = set(session.scalars(select(ObjectChild.child_id).where(ObjectChild.parent_id == object_id)))
    for child in before - children:
        session.execute(delete(ObjectChild).where(ObjectChild.parent_id == object_id, ObjectChild.child_id == child))
    for child in children - before:
        session.add(ObjectChild(parent_id=object_id, child_id=child))
    session.flush()
    for changed, by in ((before - children, -1), (children - before, 1)):
        if changed:
            counted = update(StoredObject).where(StoredObject.object_id.in_(changed), StoredObject.ref_count + by >= 0)
            session.execute(counted.values(ref_count=StoredObject.ref_count + by))
