"""What a hostile site sends in place of an honest reply: the lists, which ``test_hostile_replies`` sends."""

import json
from collections.abc import Callable, Sequence
from hashlib import sha256
from io import BytesIO
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Error, Message, MetricRecord, RecordDict
from flwr.proto.message_pb2 import ObjectTree
from puppets import Puppet, Wire, json_body, made_object

LEAF = "model/head.out.bias"
MIB = 1 << 20
Content = Callable[[Message, RecordDict], RecordDict | None]
OnWire = Callable[[Puppet, Message, Wire], bool]


def leaf(change: Callable[[np.ndarray], Any], path: str = LEAF) -> Content:
    """Change one leaf; an ``Array`` or an array."""

    def spoil(question: Message, content: RecordDict) -> RecordDict:
        record: Any = content.array_records["up"]
        value = change(record[path].numpy().copy())
        record[path] = value if isinstance(value, Array) else Array.from_numpy_ndarray(value)
        return content

    return spoil


def set_at(value: float, dtype: Any = np.float32) -> Callable[[np.ndarray], np.ndarray]:
    def change(values: np.ndarray) -> np.ndarray:
        values = values.astype(dtype)
        values[0, 0] = value
        return values

    return change


def say(**fields: Any) -> Content:
    """Change fields beside the weights; None removes one."""

    def spoil(question: Message, content: RecordDict) -> RecordDict:
        said: Any = content.config_records["say"]
        for name, value in fields.items():
            if value is None:
                del said[name]
            else:
                said[name] = value
        return content

    return spoil


def reports(**values: Any) -> Content:
    def spoil(question: Message, content: RecordDict) -> RecordDict:
        for name, value in values.items():
            content.metric_records["reports"][name] = value
        return content

    return spoil


def removed(question: Message, content: RecordDict) -> RecordDict:
    del content.array_records["up"][LEAF]
    return content


def added(question: Message, content: RecordDict) -> RecordDict:
    content.array_records["up"]["model/more"] = Array.from_numpy_ndarray(np.zeros((2, 3), np.float32))
    return content


def away(times: float) -> Content:
    """Have every weight move so many times as far."""

    def spoil(question: Message, content: RecordDict) -> RecordDict:
        for path, array in list(content.array_records["up"].items()):
            if array.dtype == "float32":
                down: Any = question.content.array_records["shared"].get(path)
                before = np.zeros(array.shape[1:], np.float32) if down is None else down.numpy()
                value = before + np.float32(times) * (array.numpy() - before)
                content.array_records["up"][path] = Array.from_numpy_ndarray(value.astype(np.float32))
        return content

    return spoil


class Replay:
    """Keep the first reply, and send it again later."""

    first: RecordDict | None = None

    def __call__(self, question: Message, content: RecordDict) -> RecordDict:
        if self.first is None:
            self.first = content
            return content
        return self.first


def nothing(question: Message, content: RecordDict) -> RecordDict:
    return RecordDict()


def unknown_refusal(question: Message, content: RecordDict) -> RecordDict:
    return RecordDict({"say": ConfigRecord({"refused": "\x1b[2J" + "x" * 5000})})


def other_kinds(question: Message, content: RecordDict) -> RecordDict:
    return RecordDict({"up": ConfigRecord({"a": 1}), "reports": ArrayRecord(), "say": MetricRecord({"run": 1})})


def wire(change: Callable[[Wire], Any]) -> OnWire:
    def spoil(puppet: Puppet, question: Message, sent: Wire) -> bool:
        change(sent)
        return True

    return spoil


def chunk_of_terabytes(sent: Wire) -> None:
    """An array that names its only chunk a million times."""
    array = sent.kind("Array")[0]
    body = json_body(sent.objects[array]) | {"arraychunk_ids": [0] * 20_000}
    children = [one.object_id for one in sent.own_tree(array).children]
    chunk = sha256(big := made_object("ArrayChunk", [], b"x" * (3 * MIB))).hexdigest()
    sent.objects[chunk] = big
    sent.replace(array, made_object("Array", [chunk], json.dumps(body).encode()))
    for child in children:
        del sent.objects[child]


def broken_json(sent: Wire) -> None:
    array = sent.kind("Array")[0]
    children = [one.object_id for one in sent.own_tree(array).children]
    sent.replace(array, made_object("Array", children, b"[" * 100_000))


def no_records(sent: Wire) -> None:
    """A message whose content is an array's record."""
    root = sent.objects[sent.root]
    record = sent.kind("ArrayRecord")[0]
    body = root.partition(b"\0")[2]
    sent.replace(sent.root, made_object("Message", [record], body))


def not_a_message(sent: Wire) -> None:
    sent.root = sent.kind("RecordDict")[0]
    del sent.objects[sent.kind("Message")[0]]


def large_record(sent: Wire) -> None:
    record = sent.kind("ConfigRecord")[0]
    sent.replace(record, made_object("ConfigRecord", [], b"\0" * (2 * MIB)))


def many_objects(sent: Wire) -> None:
    children = [ObjectTree(object_id=sha256(b"%d" % number).hexdigest()) for number in range(5000)]
    sent.tree = ObjectTree(object_id=sent.root, children=children)


def deep_objects(sent: Wire) -> None:
    tree = ObjectTree(object_id=sha256(b"deep").hexdigest())
    for number in range(40):
        tree = ObjectTree(object_id=sha256(b"%d" % number).hexdigest(), children=[tree])
    sent.tree = ObjectTree(object_id=sent.root, children=[tree])


def another_root(sent: Wire) -> None:
    sent.tree = ObjectTree(object_id=sha256(b"other").hexdigest())


def no_time(sent: Wire) -> None:
    sent.announcement.metadata.created_at = float("nan")


def long_metadata(sent: Wire) -> None:
    sent.announcement.metadata.group_id = "x" * (MIB // 2)


def other_author_inside(puppet: Puppet, question: Message, sent: Wire) -> bool:
    """The announcement is this site's; the message within answers another question in another's name."""
    reply: Any = sent.announcement.__class__()
    reply.CopyFrom(sent.announcement)
    reply.ClearField("content")
    reply.metadata.message_id = ""
    reply.metadata.src_node_id = OTHERS["node"]
    reply.metadata.reply_to_message_id = OTHERS["question"]
    (records,) = (one.object_id for one in sent.own_tree().children)
    sent.replace(sent.root, made_object("Message", [records], reply.SerializeToString(deterministic=True)))
    return True


def error(code: int, reason: str = "") -> OnWire:
    """Answer with one of Flower's errors."""

    def spoil(puppet: Puppet, question: Message, sent: Wire) -> bool:
        if sent.announcement.HasField("error"):
            return True
        with puppet.made.client(puppet.name) as client:
            puppet.send(client, question, Message(Error(code, reason), reply_to=question))
        return False

    return spoil


def refused(*changes: Callable[[Wire], Any]) -> OnWire:
    """Announce what is refused, and then what was to be sent."""

    def spoil(puppet: Puppet, question: Message, sent: Wire) -> bool:
        with puppet.made.client(puppet.name) as client:
            for change in changes:
                other = sent.copy()
                change(other)
                puppet.upload(client, question, other)
                assert puppet.statuses[-1] == 400, change
        return True

    return spoil


def twice_otherwise(puppet: Puppet, question: Message, sent: Wire) -> bool:
    """Announce other objects while the announced ones are being uploaded."""
    first, other = sent.copy(), sent.copy()
    first.withheld = set(sent.objects)
    other.tree = sent.own_tree()
    other.tree.children.append(ObjectTree(object_id=sha256(b"more").hexdigest()))
    with puppet.made.client(puppet.name) as client:
        puppet.upload(client, question, first)
        puppet.upload(client, question, other)
    assert puppet.statuses[-2:] == [200, 409]
    return True


class Unfinished:
    """Announce something and upload little of it; asked again after a new connection, answer as one should."""

    def __init__(self, change: Callable[[Wire], None]) -> None:
        self.change, self.is_done = change, False

    def __call__(self, puppet: Puppet, question: Message, sent: Wire) -> bool:
        if self.is_done:
            return True
        self.is_done = True
        other = sent.copy()
        self.change(other)
        with puppet.made.client(puppet.name) as client:
            puppet.upload(client, question, other)
        if puppet.statuses[-1] == 409:  # the server's own object has arrived, and its content names its children
            return True
        assert puppet.statuses[-1] == 200
        puppet.connect()
        return False


def poisoned(sent: Wire) -> None:
    """Announce the records that the server sends in every round with children that they do not have."""
    empty = sha256(made_object("ArrayRecord", [], b"{}")).hexdigest()
    sent.tree = sent.own_tree()
    sent.tree.children.append(ObjectTree(object_id=empty, children=[ObjectTree(object_id=sha256(b"none").hexdigest())]))
    sent.withheld = set(sent.objects)


def never_whole(sent: Wire) -> None:
    """Upload all but one object."""
    sent.withheld = {sent.kind("ArrayChunk")[0]}


def twice(puppet: Puppet, question: Message, sent: Wire) -> bool:
    with puppet.made.client(puppet.name) as client:
        puppet.upload(client, question, sent)
    return True


def objects_of(size: int) -> bytes:
    """Return NumPy's file of an array of Python objects, as pickle writes them."""
    stream = BytesIO()
    np.save(stream, np.array([{"a": 1}] * max(1, size // 8), dtype=object), allow_pickle=True)
    return stream.getvalue()


#: What the others were asked, for whoever answers in their name.
OTHERS: dict[str, Any] = {}
INVALID = "sent an invalid reply"
OF_ANOTHER = "is of another run or round"
#: Records that are sent in place of a reply's, and why the site is left out of that round; "" where the reply counts.
RECORDS: dict[str, tuple[Content, str]] = {
    "an honest reply, kept for later": (replay := Replay(), ""),
    "the reply of an earlier round": (replay, OF_ANOTHER),
    "a number that is none in one leaf": (leaf(set_at(np.nan)), "is not finite in 'model/head.out.bias'"),
    "an infinite weight": (leaf(set_at(-np.inf)), "is not finite"),
    "the largest number": (leaf(set_at(np.finfo(np.float32).max)), "numbers that are too large"),
    "weights of 9e8": (away(1e12), INVALID),
    "an update 400 times as long": (away(400), "times as long as"),
    "a leaf of another type": (leaf(set_at(0, np.float64)), "is float64 (2, 12)"),
    "a leaf of whole numbers": (leaf(set_at(0, np.int32)), "is int32 (2, 12)"),
    "a leaf of another shape": (leaf(lambda values: values[:, :3]), "is float32 (2, 3)"),
    "a leaf with axes swapped": (leaf(lambda values: values.T), "is float32 (12, 2)"),
    "a leaf too few": (removed, "is missing"),
    "a leaf too many": (added, "was not requested"),
    "ten gigabytes announced": (leaf(lambda _: Array("float32", (2, 1 << 31), "numpy.ndarray", b"x")), "2147483648"),
    "a negative shape": (leaf(lambda _: Array("float32", (-2, -12), "numpy.ndarray", b"x")), "(-2, -12)"),
    "an array of another serialisation": (
        leaf(lambda values: Array("float32", (2, 12), "pickle", bytes(values.nbytes))),
        "Unsupported serialization",
    ),
    "an array of Python objects": (
        leaf(lambda values: Array("float32", (2, 12), "numpy.ndarray", objects_of(values.nbytes))),
        INVALID,
    ),
    "another run's ID": (say(run="0" * 64), OF_ANOTHER),
    "another round": (say(round=1 << 40), OF_ANOTHER),
    "another site's patients": (say(clients=[0, 1]), "is for other patients"),
    "a patient too few": (say(clients=[2]), "is for other patients"),
    "a million patients": (say(clients=list(range(1_000_000))), "a ConfigRecord of "),
    "a weight of 10^12 beats": (say(examples=[10**12, 16]), "claims 1,000,000,000,000 beats"),
    "a negative number of beats": (say(examples=[-16, 16]), "used no beats"),
    "half a beat": (say(examples=[0.5, 16.0]), "used no beats"),
    "a field too many": (say(more=1), "has the parts"),
    "a field too few": (say(examples=None), "has the parts"),
    "a loss that is none": (reports(loss=[float("nan"), 1.0]), "has loss nan"),
    "a loss of -1e9": (reports(loss=[-1e9, 1.0]), "has loss -1e+09"),
    "losses of one patient": (reports(loss=[1.0]), "for other patients"),
    "a report too many": (reports(more=[1.0, 1.0]), "has the losses"),
    "an empty reply": (nothing, "has the parts"),
    "records of other kinds": (other_kinds, INVALID),
    "a refusal with a code of its own": (unknown_refusal, "refused: unknown reason"),
}
#: The same for what is announced and uploaded.
UPLOADS: dict[str, tuple[OnWire, str]] = {
    "an array of gigabytes in three megabytes": (wire(chunk_of_terabytes), "arrays of more than"),
    "an array whose description is none": (wire(broken_json), "cannot be read"),
    "a message without records": (wire(no_records), "cannot be read"),
    "records without a message": (wire(not_a_message), "in place of a message"),
    "a record of megabytes": (wire(large_record), "a ConfigRecord of 2,"),
    "a reply to another site's question": (other_author_inside, ""),
    "the error of a site that is gone": (error(5), "did not reply (Flower's error 0)"),
    "a long error": (error(1, "x" * 8000), "did not reply (Flower's error 1)"),
    "a reply twice": (twice, ""),
    "five thousand objects": (refused(many_objects), ""),
    "objects on forty levels": (refused(deep_objects), ""),
    "objects of another message": (refused(another_root), ""),
    "a time that is none": (refused(no_time), ""),
    "half a megabyte of metadata": (refused(long_metadata), ""),
    "a reply announced anew with other objects": (twice_otherwise, ""),
    "the server's objects with other children": (Unfinished(poisoned), ""),
    "a reply that never arrives whole": (Unfinished(never_whole), ""),
}
LISTS: dict[str, dict[str, tuple[Any, str]]] = {"records": RECORDS, "uploads": UPLOADS}  # type: ignore[dict-item]


def number_of(question: Message) -> int:
    """The round of a question, 0 for another question."""
    return int(question.content.config_records["say"]["round"]) if question.metadata.message_type == "train" else 0


def spoilt(kinds: Sequence[str]) -> tuple[Content, OnWire]:
    """Return what changes the replies of a site: the first kind in the first round, and so on."""

    def on_content(question: Message, content: RecordDict) -> RecordDict | None:
        kind = kinds[number_of(question) - 1] if number_of(question) else ""
        return RECORDS[kind][0](question, content) if kind in RECORDS else content

    def on_wire(puppet: Puppet, question: Message, sent: Wire) -> bool:
        kind = kinds[number_of(question) - 1] if number_of(question) else ""
        return UPLOADS[kind][0](puppet, question, sent) if kind in UPLOADS else True

    return on_content, on_wire
