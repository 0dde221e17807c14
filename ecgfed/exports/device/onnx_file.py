"""Strict ONNX reader without the onnx package; content that export does not write is rejected."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ecgfed.exports.device.protobuf import Field, Spec, Value, WireError, read_message

#: Maximum number of nodes, tensors and value infos of a graph (an ensemble of 50 ResNet-30 has 15,000).
MAX_PARTS = 200_000
#: Maximum number of inputs of a node, attributes, axes and metadata entries.
MAX_SMALL = 10_000

#: Supported ONNX element types.
TYPES: dict[int, np.dtype[np.generic]] = {1: np.dtype("<f4"), 2: np.dtype("u1"), 3: np.dtype("i1"), 7: np.dtype("<i8")}

_METADATA: Spec = {1: Field("key", "text"), 2: Field("value", "text")}
_OPSET: Spec = {1: Field("domain", "text"), 2: Field("version", "int")}
_DIM: Spec = {1: Field("value", "int"), 2: Field("name", "text")}
_SHAPE: Spec = {1: Field("dim", "message", repeated=True)}
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
    1: Field("input", "text", repeated=True),
    2: Field("output", "text", repeated=True),
    3: Field("name", "text"),
    4: Field("op_type", "text"),
    5: Field("attribute", "message", repeated=True),
    6: Field("doc_string", "text"),
    7: Field("domain", "text"),
}
_GRAPH: Spec = {
    1: Field("node", "message", repeated=True),
    2: Field("name", "text"),
    5: Field("initializer", "message", repeated=True),
    11: Field("input", "message", repeated=True),
    12: Field("output", "message", repeated=True),
    13: Field("value_info", "message", repeated=True),
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
    8: Field("opset_import", "message", repeated=True),
    14: Field("metadata_props", "message", repeated=True),
    20: "training graphs",
    25: "functions",
}
#: Attribute type -> the field that holds its value.
_ATTRIBUTE_TYPES = {1: "f", 2: "i", 3: "s", 6: "floats", 7: "ints"}

Attribute = float | int | bytes | tuple[int, ...] | tuple[float, ...]


@dataclass(frozen=True, eq=False)
class Tensor:
    """An initializer; ``values`` is a view of the file's bytes."""

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
    """Name, element type and shape of a value; None for an axis of variable length."""

    name: str
    dtype: np.dtype[np.generic]
    shape: tuple[int | None, ...]


@dataclass(frozen=True, eq=False)
class GraphParts:
    """A graph: operations in order, initializers, inputs, outputs and value infos."""

    nodes: tuple[Node, ...]
    tensors: tuple[Tensor, ...]
    inputs: tuple[ValueType, ...]
    outputs: tuple[ValueType, ...]
    described: tuple[ValueType, ...]


@dataclass(frozen=True, eq=False)
class ModelFile:
    """Versions and metadata of a file, and the bytes of its graph, not yet parsed."""

    opset: int
    metadata: dict[str, str]
    graph: memoryview
    ir_version: int = 0


_T = TypeVar("_T", int, str, memoryview)


def _first(fields: dict[str, list[Value]], name: str, default: _T) -> _T:
    value = fields[name][0] if name in fields else default
    assert isinstance(value, type(default))
    return value


def _messages(fields: dict[str, list[Value]], name: str) -> list[memoryview]:
    return [value for value in fields.get(name, []) if isinstance(value, memoryview)]


def _texts(fields: dict[str, list[Value]], name: str) -> tuple[str, ...]:
    return tuple(value for value in fields.get(name, []) if isinstance(value, str))


_NOTHING = memoryview(b"")


def read_model(data: bytes) -> ModelFile:
    """Read versions and metadata of an ONNX file; raises WireError."""
    fields = read_message(memoryview(data), _MODEL, MAX_SMALL)
    opsets = [read_message(message, _OPSET, 1) for message in _messages(fields, "opset_import")]
    if [_first(message, "domain", "") for message in opsets] != [""]:
        raise WireError("is not made of ONNX's own operations alone")
    metadata: dict[str, str] = {}
    for message in _messages(fields, "metadata_props"):
        entry = read_message(message, _METADATA, 1)
        if _first(entry, "key", "") in metadata:
            raise WireError(f"says {_first(entry, 'key', '')} twice in its metadata")
        metadata[_first(entry, "key", "")] = _first(entry, "value", "")
    if "graph" not in fields:
        raise WireError("holds no graph")
    opset, ir_version = _first(opsets[0], "version", 0), _first(fields, "ir_version", 0)
    return ModelFile(opset, metadata, _messages(fields, "graph")[0], ir_version)


def read_parts(graph: memoryview) -> GraphParts:
    """Parse a graph; raises WireError."""
    fields = read_message(graph, _GRAPH, MAX_PARTS)
    return GraphParts(
        tuple(map(_node, _messages(fields, "node"))),
        tuple(map(_tensor, _messages(fields, "initializer"))),
        *(tuple(map(_value, _messages(fields, name))) for name in ("input", "output", "value_info")),
    )


def _type_of(number: int, name: str) -> np.dtype[np.generic]:
    if number not in TYPES:
        raise WireError(f"holds {name!r} of an element type ({number}) that no graph of ours has")
    return TYPES[number]


def _length(dims: Sequence[int], name: str) -> int:
    """Return the number of elements of a shape; Python integers do not overflow."""
    total = 1
    for dim in dims:
        if dim < 0:
            raise WireError(f"holds {name!r} with an axis of {dim}")
        total *= dim
    return total


def _tensor(data: memoryview) -> Tensor:
    fields = read_message(data, _TENSOR, MAX_SMALL)
    name, dims = _first(fields, "name", ""), tuple(value for value in fields.get("dims", []) if isinstance(value, int))
    dtype, raw = _type_of(_first(fields, "data_type", 0), name), _first(fields, "raw_data", _NOTHING)
    if len(dims) > 8 or _length(dims, name) * dtype.itemsize != len(raw):
        raise WireError(f"holds tensor {name!r} of {len(raw)} bytes that is no {dtype.name} of shape {dims}")
    return Tensor(name, np.frombuffer(raw, dtype).reshape(dims))


def _value(data: memoryview) -> ValueType:
    fields = read_message(data, _VALUE, 1)
    name = _first(fields, "name", "")
    kind = read_message(_first(fields, "type", _NOTHING), _TYPE, 1)
    tensor = read_message(_first(kind, "tensor", _NOTHING), _TENSOR_TYPE, 1)
    dims = read_message(_first(tensor, "shape", _NOTHING), _SHAPE, MAX_SMALL)
    shape: list[int | None] = []
    for message in _messages(dims, "dim"):
        dim = read_message(message, _DIM, 1)
        shape.append(None if "value" not in dim else _first(dim, "value", 0))
    if "shape" not in tensor or len(shape) > 8:
        raise WireError(f"holds {name!r} without a shape")
    return ValueType(name, _type_of(_first(tensor, "elem_type", 0), name), tuple(shape))


def _node(data: memoryview) -> Node:
    fields = read_message(data, _NODE, MAX_SMALL)
    op = _first(fields, "op_type", "")
    if _first(fields, "domain", ""):
        raise WireError(f"holds operation {op!r} that is not ONNX's own")
    attributes: dict[str, Attribute] = {}
    for message in _messages(fields, "attribute"):
        name, value = _attribute(message, op)
        if name in attributes:
            raise WireError(f"says {name} twice in one {op}")
        attributes[name] = value
    return Node(op, _texts(fields, "input"), _texts(fields, "output"), attributes)


def _attribute(data: memoryview, op: str) -> tuple[str, Attribute]:
    fields = read_message(data, _ATTRIBUTE, MAX_SMALL)
    name, kind = _first(fields, "name", ""), _ATTRIBUTE_TYPES.get(_first(fields, "type", 0))
    if kind is None or not set(fields) <= {"name", "type", kind}:
        raise WireError(f"holds an attribute of {op} ({name!r}) of a kind that no graph of ours has")
    values = fields.get(kind, [])
    if kind in ("ints", "floats"):
        return name, tuple(values)  # type: ignore[return-value]  # the field's kind says which
    value = values[0] if values else {"f": 0.0, "i": 0, "s": b""}[kind]
    assert isinstance(value, int | float | bytes)
    return name, value
