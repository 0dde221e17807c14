"""A traced graph made plain: what only lays a parameter out is done once, at export, and every size is a number.

Converters and quantisers look for a convolution whose weight is stored in the graph, and for reshapes whose sizes they
can read. The tracer writes parameters as inputs that are reshaped in the graph, and sizes as values that are worked out
there. Here both go; what is computed stays what it was (docs/decisions/0046).
"""

import math
from collections import Counter
from collections.abc import Collection, Mapping

import numpy as np
import onnx
from onnx import numpy_helper, shape_inference

#: What only gives a tensor another shape, its numbers in the same order.
_RESHAPING = ("Reshape", "Squeeze", "Unsqueeze")
#: The version of the file format, which ONNX Runtime 1.16 reads; the tracer writes 10.
IR_VERSION = 8
#: The name of the first axis where it is open.
BEATS = "beats"

Shape = tuple[int | None, ...]


def simplify(model: onnx.ModelProto, params: Collection[str]) -> dict[str, tuple[int, ...]]:
    """Make a traced graph plain, in place.

    Args:
        model: the graph, its parameters among its inputs; the first axis of the other inputs is open.
        params: names of the parameters.

    Returns:
        The shapes in which some of the parameters are to be stored, by name; others are stored as they are.
    """
    model.ir_version = IR_VERSION
    shapes = _shapes(model)
    _plain_sizes(model, shapes)
    stored = _stored_as_used(model, params, shapes)
    _without_unused(model)
    del model.graph.value_info[:]
    return stored


def with_batch(model: onnx.ModelProto, batch: int | None) -> onnx.ModelProto:
    """Return a graph that takes so many examples at once, no more and no fewer; None leaves their number open."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    for entry in (*made.graph.input, *made.graph.output):
        first = entry.type.tensor_type.shape.dim[0]
        if batch is None:
            first.dim_param = BEATS
        else:
            first.dim_value = batch
    return made


def ops_of(model: onnx.ModelProto) -> dict[str, int]:
    """Return which operations a graph is made of, and how often each, in the order of their names."""
    return dict(sorted(Counter(str(node.op_type) for node in model.graph.node).items()))


def _shapes(model: onnx.ModelProto) -> dict[str, Shape]:
    """Return the shape of every value; None stands for the first axis of what comes in batches."""
    inferred = shape_inference.infer_shapes(model, strict_mode=True, data_prop=True).graph
    found: dict[str, Shape] = {tensor.name: tuple(tensor.dims) for tensor in inferred.initializer}
    for entry in (*inferred.value_info, *inferred.input, *inferred.output):
        dims = entry.type.tensor_type.shape.dim
        found[entry.name] = tuple(int(dim.dim_value) if dim.HasField("dim_value") else None for dim in dims)
    return found


def _constants(graph: onnx.GraphProto) -> dict[str, onnx.TensorProto]:
    return {tensor.name: tensor for tensor in graph.initializer}


def _sizes(graph: onnx.GraphProto, numbers: tuple[int, ...]) -> str:
    """Return the name of an initializer of whole numbers, made where it is not there yet."""
    name = "sizes_" + "_".join(map(str, numbers))
    if name not in _constants(graph):
        graph.initializer.append(numpy_helper.from_array(np.array(numbers, np.int64), name))
    return name


def _plain_sizes(model: onnx.ModelProto, shapes: Mapping[str, Shape]) -> None:
    """Give every Reshape its sizes as numbers: 0 for the batch, which stays as it is, and what there is."""
    graph = model.graph
    for node in graph.node:
        made = shapes.get(node.output[0], (None, None))
        if node.op_type != "Reshape" or None in made[1:]:
            continue
        node.input[1] = _sizes(graph, tuple(0 if dim is None else dim for dim in made))
        del node.attribute[:]  # without allowzero 0 means: as it was


def _stored_as_used(
    model: onnx.ModelProto, params: Collection[str], shapes: Mapping[str, Shape]
) -> dict[str, tuple[int, ...]]:
    """Take out what gives a parameter one other shape and nothing else; return these shapes by its name."""
    graph, stored = model.graph, {}
    for name in params:
        users = [node for node in graph.node if name in node.input]
        wanted = {shapes.get(node.output[0], ()) for node in users}
        shape = wanted.pop() if len(wanted) == 1 else ()
        if not users or not all(node.op_type in _RESHAPING for node in users) or not shape or None in shape:
            continue
        stored[name] = tuple(int(dim or 0) for dim in shape)
        for node in users:
            _renamed(graph, node.output[0], name)
            graph.node.remove(node)
        (entry,) = (one for one in graph.input if one.name == name)
        assert math.prod(stored[name]) == math.prod(dim.dim_value for dim in entry.type.tensor_type.shape.dim)
        entry.CopyFrom(onnx.helper.make_tensor_value_info(name, entry.type.tensor_type.elem_type, stored[name]))
    return stored


def _renamed(graph: onnx.GraphProto, old: str, new: str) -> None:
    for node in graph.node:
        for place, name in enumerate(node.input):
            if name == old:
                node.input[place] = new


def _without_unused(model: onnx.ModelProto) -> None:
    """Take out nodes whose value nobody takes, and initializers that no node takes."""
    graph, wanted = model.graph, {entry.name for entry in model.graph.output}
    for node in reversed(list(graph.node)):
        if wanted.isdisjoint(node.output):
            graph.node.remove(node)
        else:
            wanted.update(node.input)
    for tensor in list(graph.initializer):
        if tensor.name not in wanted:
            graph.initializer.remove(tensor)
