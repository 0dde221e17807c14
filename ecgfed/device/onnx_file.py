"""What an ONNX file holds, read without the onnx package; what no graph of ours has is refused."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ecgfed.device.protobuf import Field, Spec, Value, WireError, read_message

#: Most nodes, tensors and described values of a graph: 50 ResNet-30 side by side have 15,000.
MOST_PARTS = 200_000
#: Most inputs of a node, attributes, axes and entries of the metadata; an ensemble's mean has an input a member.
MOST_SMALL = 10_000

#: ONNX's numbers for element types, those our graphs use.
TYPES: dict[int, np.dtype[np.generic]] = {1: np.dtype("<f4"), 2: np.dtype("u1"), 3: np.dtype("i1"), 7: np.dtype("<i8")}

_METADATA: Spec = {1: Field("key", "text"), 2: Field("value", "text")}
_OPSET: Spec = {1: Field("domain", "text"), 2: Field("version", "int")}
_DIM: Spec = {1: Field("value", "int"), 2: Field("name", "text")}
_SHAPE: Spec = {1: Field("dim", "message", many=True)}
_TENSOR_TYPE: Spec = {1: Field("elem_type", "int"), 2: Field("shape", "message")}
_TYPE: Spec = {1: Field("tensor", "message"), 4: "a sequence", 5: "a map", 8: "a sparse tensor", 9: "an optional value"}
_VALUE: Spec = {1: Field("name", "text"), 2: Field("type", "message")}
_TENSOR: Spec = {
    1: Field("dims", "ints"),
    2: Field("data_type", "int"),
    8: Field("name", "text"),
    9: Field("raw_data", "message"),
    13: "numbers that lie outside the file",
    14: "numbers that lie outside the file",
}
_ATTRIBUTE: Spec = {
    1: Field("name", "text"),
    2: Field("f", "float"),
    3: Field("i", "int"),
    4: Field("s", "bytes"),
    6: "a graph inside a node",
    7: Field("floats", "floats"),
    8: Field("ints", "ints"),
    11: "graphs inside a node",
    20: Field("type", "int"),
}
_NODE: Spec = {
    1: Field("input", "text", many=True),
    2: Field("output", "text", many=True),
    3: Field("name", "text"),
    4: Field("op_type", "text"),
    5: Field("attribute", "message", many=True),
    6: Field("doc_string", "text"),
    7: Field("domain", "text"),
}
_GRAPH: Spec = {
    1: Field("node", "message", many=True),
    2: Field("name", "text"),
    5: Field("initializer", "message", many=True),
    11: Field("input", "message", many=True),
    12: Field("output", "message", many=True),
    13: Field("value_info", "message", many=True),
    15: "sparse tensors",
}
_MODEL: Spec = {
    1: Field("ir_version", "int"),
    2: Field("producer_name", "text"),
    3: Field("producer_version", "text"),
    4: Field("domain", "text"),
    5: Field("model_version", "int"),
    6: Field("doc_string", "text"),
    7: Field("graph", "message"),
    8: Field("opset_import", "message", many=True),
    14: Field("metadata_props", "message", many=True),
    20: "training graphs",
    25: "functions",
}
#: Attribute type -> the field that holds its value.
_ATTRIBUTE_TYPES = {1: "f", 2: "i", 3: "s", 6: "floats", 7: "ints"}

Attribute = float | int | bytes | tuple[int, ...] | tuple[float, ...]


@dataclass(frozen=True, eq=False)
class Tensor:
    """Numbers stored in the graph: ``values`` has their shape and type and is a view of the file's bytes."""

    name: str
    values: NDArray[np.generic]


@dataclass(frozen=True)
class Node:
    """One operation."""

    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Attribute]


@dataclass(frozen=True)
class ValueType:
    """Name, element type and shape of a value; None for an axis whose length is open."""

    name: str
    dtype: np.dtype[np.generic]
    shape: tuple[int | None, ...]


@dataclass(frozen=True, eq=False)
class GraphParts:
    """A graph: operations in order, and what they start from and end in."""

    nodes: tuple[Node, ...]
    tensors: tuple[Tensor, ...]
    inputs: tuple[ValueType, ...]
    outputs: tuple[ValueType, ...]
    described: tuple[ValueType, ...]


@dataclass(frozen=True, eq=False)
class ModelFile:
    """A file's outside: versions, metadata, and the graph's bytes, not yet read."""

    opset: int
    metadata: dict[str, str]
    graph: memoryview


_T = TypeVar("_T", int, str, memoryview)


def _one(found: dict[str, list[Value]], name: str, default: _T) -> _T:
    value = found[name][0] if name in found else default
    assert isinstance(value, type(default))
    return value


def _messages(found: dict[str, list[Value]], name: str) -> list[memoryview]:
    return [value for value in found.get(name, []) if isinstance(value, memoryview)]


def _texts(found: dict[str, list[Value]], name: str) -> tuple[str, ...]:
    return tuple(value for value in found.get(name, []) if isinstance(value, str))


def _ints(found: dict[str, list[Value]], name: str) -> tuple[int, ...]:
    return tuple(value for value in found.get(name, []) if isinstance(value, int))


_NOTHING = memoryview(b"")


def read_model(data: bytes) -> ModelFile:
    """Read the outside of an ONNX file; raises WireError."""
    found = read_message(memoryview(data), _MODEL, MOST_SMALL)
    opsets = [read_message(one, _OPSET, 1) for one in _messages(found, "opset_import")]
    if [_one(one, "domain", "") for one in opsets] != [""]:
        raise WireError("is not made of ONNX's own operations alone")
    metadata: dict[str, str] = {}
    for one in _messages(found, "metadata_props"):
        entry = read_message(one, _METADATA, 1)
        if _one(entry, "key", "") in metadata:
            raise WireError(f"says {_one(entry, 'key', '')} twice in its metadata")
        metadata[_one(entry, "key", "")] = _one(entry, "value", "")
    if "graph" not in found:
        raise WireError("holds no graph")
    return ModelFile(_one(opsets[0], "version", 0), metadata, _messages(found, "graph")[0])


def read_parts(graph: memoryview) -> GraphParts:
    """Read a graph whole; raises WireError."""
    found = read_message(graph, _GRAPH, MOST_PARTS)
    return GraphParts(
        tuple(map(_node, _messages(found, "node"))),
        tuple(map(_tensor, _messages(found, "initializer"))),
        *(tuple(map(_value, _messages(found, name))) for name in ("input", "output", "value_info")),
    )


def _type_of(number: int, name: str) -> np.dtype[np.generic]:
    if number not in TYPES:
        raise WireError(f"holds {name!r} of an element type ({number}) that no graph of ours has")
    return TYPES[number]


def _length(dims: Sequence[int], name: str) -> int:
    """Return how many numbers a shape has; Python's whole numbers do not overflow."""
    total = 1
    for dim in dims:
        if dim < 0:
            raise WireError(f"holds {name!r} with an axis of {dim}")
        total *= dim
    return total


def _tensor(data: memoryview) -> Tensor:
    found = read_message(data, _TENSOR, MOST_SMALL)
    name, dims = _one(found, "name", ""), _ints(found, "dims")
    dtype, raw = _type_of(_one(found, "data_type", 0), name), _one(found, "raw_data", _NOTHING)
    if len(dims) > 8 or _length(dims, name) * dtype.itemsize != len(raw):
        raise WireError(f"holds tensor {name!r} of {len(raw)} bytes that is no {dtype.name} of shape {dims}")
    return Tensor(name, np.frombuffer(raw, dtype).reshape(dims))


def _value(data: memoryview) -> ValueType:
    found = read_message(data, _VALUE, 1)
    name = _one(found, "name", "")
    kind = read_message(_one(found, "type", _NOTHING), _TYPE, 1)
    tensor = read_message(_one(kind, "tensor", _NOTHING), _TENSOR_TYPE, 1)
    dims = read_message(_one(tensor, "shape", _NOTHING), _SHAPE, MOST_SMALL)
    shape: list[int | None] = []
    for one in _messages(dims, "dim"):
        dim = read_message(one, _DIM, 1)
        shape.append(None if "value" not in dim else _one(dim, "value", 0))
    if "shape" not in tensor or len(shape) > 8:
        raise WireError(f"holds {name!r} without a shape")
    return ValueType(name, _type_of(_one(tensor, "elem_type", 0), name), tuple(shape))


def _node(data: memoryview) -> Node:
    found = read_message(data, _NODE, MOST_SMALL)
    op = _one(found, "op_type", "")
    if _one(found, "domain", ""):
        raise WireError(f"holds operation {op!r} that is not ONNX's own")
    attributes: dict[str, Attribute] = {}
    for one in _messages(found, "attribute"):
        name, value = _attribute(one, op)
        if name in attributes:
            raise WireError(f"says {name} twice in one {op}")
        attributes[name] = value
    return Node(op, _texts(found, "input"), _texts(found, "output"), attributes)


def _attribute(data: memoryview, op: str) -> tuple[str, Attribute]:
    found = read_message(data, _ATTRIBUTE, MOST_SMALL)
    name, kind = _one(found, "name", ""), _ATTRIBUTE_TYPES.get(_one(found, "type", 0))
    if kind is None or not set(found) <= {"name", "type", kind}:
        raise WireError(f"holds an attribute of {op} ({name!r}) of a kind that no graph of ours has")
    values = found.get(kind, [])
    if kind in ("ints", "floats"):
        return name, tuple(values)  # type: ignore[return-value]  # the field's kind says which
    value = values[0] if values else {"f": 0.0, "i": 0, "s": b""}[kind]
    assert isinstance(value, int | float | bytes)
    return name, value
