"""Check the objects of a message before Flower puts them together.

A message travels as a tree of objects under their SHA-256: the message, its records, their arrays, and chunks of up to
5 MiB. An array names its chunks by number, as often as it likes, so that a few bytes may stand for terabytes. Whoever
announces a tree may announce one of any depth, and an object under another object's children.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flwr.app import RecordDict
from flwr.app.message import make_message
from flwr.common.serde import metadata_from_proto
from flwr.proto.message_pb2 import Message as ProtoMessage
from flwr.proto.message_pb2 import ObjectTree
from flwr.supercore.inflatable import inflatable_utils
from flwr.supercore.inflatable.inflatable_object import get_object_body, get_object_head_values_from_object_content

from ecgfed.base.safe_io import parse_json

#: Most objects of a message: leaves of a method, and chunks of 5 MiB.
MAX_OBJECTS = 4096
#: Levels of a tree: message, dict of records, record, array, chunk.
MAX_DEPTH = 5


@dataclass(frozen=True)
class ObjectLimits:
    """What the objects of a message may take.

    Attributes:
        record_bytes: size of an object that is no chunk of an array.
        array_bytes: size of all arrays together, with every chunk as often as they name it.
    """

    record_bytes: int
    array_bytes: int


def check_tree(tree: ObjectTree) -> None:
    """Refuse a tree of more than ``MAX_OBJECTS`` objects or ``MAX_DEPTH`` levels; raises ValueError."""
    level, count = [tree], 0
    for _ in range(MAX_DEPTH):
        count += len(level)
        if count > MAX_OBJECTS:
            raise ValueError(f"more than {MAX_OBJECTS:,} objects")
        level = [child for node in level for child in node.children]
    if level:
        raise ValueError(f"objects on more than {MAX_DEPTH} levels")


def check_contents(contents: Mapping[str, bytes], limits: ObjectLimits) -> None:
    """Refuse objects that are, or would become, larger than the limits; raises ValueError.

    Args:
        contents: object -> its content, which has that SHA-256.
        limits: what they may take.
    """
    total = 0
    for content in contents.values():
        kind, children, _ = get_object_head_values_from_object_content(content)
        if kind == "ArrayChunk":
            continue
        if len(content) > limits.record_bytes:
            raise ValueError(f"a {kind[:20]} of {len(content):,} bytes; at most {limits.record_bytes:,}")
        if kind == "Array":
            total += _array_bytes(content, children, contents)
        if total > limits.array_bytes:
            raise ValueError(f"arrays of more than {limits.array_bytes:,} bytes")


def _array_bytes(content: bytes, children: list[str], contents: Mapping[str, bytes]) -> int:
    """Return the size of an array with all its chunks."""
    body: Any = parse_json(get_object_body(content, inflatable_utils.Array))
    sizes = [len(contents[child]) for child in children]
    return sum(sizes[int(number)] for number in body["arraychunk_ids"])


def put_together(root: str, contents: dict[str, bytes], limits: ObjectLimits) -> Any:
    """Return a message from the contents of its objects, which are removed.

    Raises:
        ValueError: they are larger than the limits, or no message.
    """
    try:
        check_contents(contents, limits)
        return inflatable_utils.inflate_object_from_contents(root, contents)
    except (KeyError, IndexError, TypeError, AttributeError, RecursionError, OverflowError) as problem:
        raise ValueError(f"{type(problem).__name__}: {problem!s:.200}") from problem


def or_empty(limits: ObjectLimits, inflate: Any) -> Any:
    """Return Flower's function that puts a message together, behind ``check_contents``.

    A message beyond the limits becomes an empty one, which its receiver refuses as any other that it cannot use.

    Args:
        limits: what the objects may take.
        inflate: ``inflatable_utils.inflate_object_from_contents``.
    """

    def checked(object_id: str, object_contents: dict[str, bytes], **others: Any) -> Any:
        if others.get("objects") is not None:  # a part of a message that has been checked
            return inflate(object_id, object_contents, **others)
        root = object_contents[object_id]
        try:
            check_contents(object_contents, limits)
            return inflate(object_id, object_contents, **others)
        except Exception:
            body = ProtoMessage.FromString(get_object_body(root, inflatable_utils.Message))
            return make_message(metadata=metadata_from_proto(body.metadata), content=RecordDict())

    return checked
