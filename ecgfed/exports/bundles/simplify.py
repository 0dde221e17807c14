"""Simplify a traced graph: reshapes of parameters are applied at export, and all sizes become constants.

Converters and quantisers expect convolution weights stored in the graph, and constant reshape sizes. The tracer emits
parameters as inputs that are reshaped in the graph, and sizes as computed values. Both are removed here, without
changing the function (docs/decisions/0046).
"""

import math
from collections import Counter
from collections.abc import Collection, Mapping

import numpy as np
import onnx
from onnx import numpy_helper, shape_inference

#: Operations that change the shape of a tensor only.
_RESHAPING = ("Reshape", "Squeeze", "Unsqueeze")
#: IR version, readable by ONNX Runtime 1.16; the tracer writes 10.
IR_VERSION = 8
#: Name of a variable first axis.
BEATS = "beats"

Shape = tuple[int | None, ...]


def simplify(model: onnx.ModelProto, params: Collection[str]) -> dict[str, tuple[int, ...]]:
    """Simplify a traced graph in place.

    Args:
        model: the graph with parameters as inputs; the first axis of the other inputs is variable.
        params: names of the parameters.

    Returns:
        Name -> shape of parameters that must be stored in another shape.
    """
    model.ir_version = IR_VERSION
    inferred = shape_inference.infer_shapes(model, strict_mode=True, data_prop=True).graph
    shapes: dict[str, Shape] = {tensor.name: tuple(tensor.dims) for tensor in inferred.initializer}
    for entry in (*inferred.value_info, *inferred.input, *inferred.output):
        dims = entry.type.tensor_type.shape.dim
        shapes[entry.name] = tuple(int(dim.dim_value) if dim.HasField("dim_value") else None for dim in dims)
    graph = model.graph
    for node in graph.node:
        shape = shapes.get(node.output[0], (None, None))
        if node.op_type != "Reshape" or None in shape[1:]:
            continue
        numbers = tuple(0 if dim is None else dim for dim in shape)
        name = "sizes_" + "_".join(map(str, numbers))
        if name not in {tensor.name: tensor for tensor in graph.initializer}:
            graph.initializer.append(numpy_helper.from_array(np.array(numbers, np.int64), name))
        node.input[1] = name
        del node.attribute[:]  # without allowzero 0 means: as it was
    stored = _stored_as_used(model, params, shapes)
    _without_unused(model)
    del model.graph.value_info[:]
    return stored


def with_batch(model: onnx.ModelProto, batch: int | None) -> onnx.ModelProto:
    """Return a graph with a fixed batch size; None: variable."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for entry in (*copy.graph.input, *copy.graph.output):
        first = entry.type.tensor_type.shape.dim[0]
        if batch is None:
            first.dim_param = BEATS
        else:
            first.dim_value = batch
    return copy


def ops_of(model: onnx.ModelProto) -> dict[str, int]:
    """Return the operations of a graph with their counts, sorted by name."""
    return dict(sorted(Counter(str(node.op_type) for node in model.graph.node).items()))


def _stored_as_used(
    model: onnx.ModelProto, params: Collection[str], shapes: Mapping[str, Shape]
) -> dict[str, tuple[int, ...]]:
    """Take out what gives a parameter one other shape and nothing else; return these shapes by its name."""
    graph, stored = model.graph, {}
    for name in params:
        users = [node for node in graph.node if name in node.input]
        read = {shapes.get(node.output[0], ()) for node in users}
        shape = read.pop() if len(read) == 1 else ()
        if not users or not all(node.op_type in _RESHAPING for node in users) or not shape or None in shape:
            continue
        stored[name] = tuple(int(dim or 0) for dim in shape)
        for node in users:
            _renamed(graph, node.output[0], name)
            graph.node.remove(node)
        (entry,) = (value_info for value_info in graph.input if value_info.name == name)
        assert math.prod(stored[name]) == math.prod(dim.dim_value for dim in entry.type.tensor_type.shape.dim)
        entry.CopyFrom(onnx.helper.make_tensor_value_info(name, entry.type.tensor_type.elem_type, stored[name]))
    return stored


def _renamed(graph: onnx.GraphProto, old: str, new: str) -> None:
    for node in graph.node:
        for index, name in enumerate(node.input):
            if name == old:
                node.input[index] = new


def _without_unused(model: onnx.ModelProto) -> None:
    """Remove nodes and initializers whose values are not used."""
    graph, needed = model.graph, {entry.name for entry in model.graph.output}
    for node in reversed(list(graph.node)):
        if needed.isdisjoint(node.output):
            graph.node.remove(node)
        else:
            needed.update(node.input)
    for tensor in list(graph.initializer):
        if tensor.name not in needed:
            graph.initializer.remove(tensor)
