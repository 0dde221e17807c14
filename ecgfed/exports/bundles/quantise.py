r"""int8 forms of a bundle's graphs: weights as int8, and activations as int8 where a layer reads them.

A layer is a ``Conv``, ``Gemm`` or ``MatMul`` with weights of the net's own. Of each, with x what it reads:

.. math::
    q = \operatorname{clip}(\operatorname{round}(x / s_x) + z,\ -128,\ 127), \qquad
    y_o = s_x s_o \sum (q - z)\, w_o + b_o

with one scale s_x and zero point z for all of x, one scale s_o for each output channel, and int8 weights w between
-127 and 127; ``round`` goes to the even number. The sum is a whole number below 2^24, so that int32 and float32 give
the same one. Everything else (normalisation, GroupNorm, ReLU, additions, means, biases) stays float32. In ONNX it is
QuantizeLinear and DequantizeLinear in front of the layer, and DequantizeLinear behind its weights.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from ecgfed.base.errors import BundleError, param

#: Maximum magnitude of an int8 weight: symmetric, so that no zero point is needed.
MAX_WEIGHT = 127
MIN_INT8, MAX_INT8 = -128, 127
#: Limit up to which float32 represents sums of integer products exactly.
EXACT_IN_FLOAT = 1 << 24
_WEIGHT = ".weight"


@dataclass(frozen=True, eq=False)
class Int8Layer:
    """An int8 layer, for runtimes in other languages.

    Attributes:
        name: its name in the net, ``extractor.block0.conv0`` or ``head.out``.
        kind: ``conv`` or ``linear``.
        weight: int8, -127 to 127: (out, in, kernel) of a convolution over time, (out, in, height, width) of one over
            an image, (out, in) of a linear layer.
        weight_scale: (out,) float32.
        bias: (out,) float32, added to the float result, or None.
        input: name of its input in the graph; layers with the same input share scale and zero point.
        input_scale: float32.
        input_zero_point: -128 to 127; represents 0, and padding.
        output: name of its output in the graph.
        stride: along time (or along both axes of an image).
        padding: zeros before and after, (0, 0) for a linear layer.
    """

    name: str
    kind: Literal["conv", "linear"]
    weight: NDArray[np.int8]
    weight_scale: NDArray[np.float32]
    bias: NDArray[np.float32] | None
    input: str
    input_scale: np.float32
    input_zero_point: int
    output: str
    stride: int = 1
    padding: tuple[int, int] = (0, 0)

    @property
    def multiplications(self) -> int:
        """Multiplications per output step."""
        return int(self.weight.size)


def int8_layers(model: onnx.ModelProto) -> list[Int8Layer]:
    """Read the int8 layers of a graph written by ``quantise``, in execution order.

    Args:
        model: ``onnx.load_model_from_string`` of one of a bundle's files of ``int8/``.

    Raises:
        BundleError: the graph has none, or was not written by ``quantise``.
    """
    values = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    makers = {node.output[0]: node for node in model.graph.node}
    layers = []
    for node in model.graph.node:
        read = [makers.get(name) for name in node.input[:2]] if node.op_type in _LAYERS else []
        if len(read) == 2 and all(maker is not None and maker.op_type == "DequantizeLinear" for maker in read):
            quantiser = makers.get(read[0].input[0])  # type: ignore[union-attr]  # the line above says so
            if quantiser is None or quantiser.op_type != "QuantizeLinear":
                actual = f"reads {node.input[0]} as int8 that nothing made"
                raise BundleError("an int8 graph", actual, "quantise's form")
            layers.append(_layer(node, read[1], quantiser, values))
    if not layers:
        raise BundleError("a graph", "has no layer in int8", "one that 'ecgfed export --int8' wrote")
    return layers


def _layer(
    node: onnx.NodeProto, weights: onnx.NodeProto, quantiser: onnx.NodeProto, values: Mapping[str, NDArray[np.generic]]
) -> Int8Layer:
    weight, scale = values[weights.input[0]], values[weights.input[1]]
    stride, padding = 1, (0, 0)
    kind: Literal["conv", "linear"] = "conv" if node.op_type == "Conv" else "linear"
    if kind == "conv":
        attributes = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
        axes = weight.ndim - 2
        strides, pads = attributes.get("strides", [1] * axes), attributes.get("pads", [0] * 2 * axes)
        stride, padding = strides[-1], (pads[axes - 1], pads[-1])
        if weight.ndim == 4 and weight.shape[2] == 1 and pads[0] == pads[axes] == 0:  # along time, stored as 2-D
            weight = weight[:, :, 0]
    elif not _is_transposed(node):
        weight = weight.T
    bias = np.asarray(values[node.input[2]], np.float32) if len(node.input) > 2 else None
    return Int8Layer(
        name=weights.input[0].removesuffix(_WEIGHT),
        kind=kind,
        weight=np.ascontiguousarray(weight, np.int8),
        weight_scale=np.asarray(scale, np.float32),
        bias=bias,
        input=quantiser.input[0],
        input_scale=np.float32(values[quantiser.input[1]]),
        input_zero_point=int(values[quantiser.input[2]]),
        output=node.output[0],
        stride=int(stride),
        padding=(int(padding[0]), int(padding[1])),
    )


def _is_transposed(node: onnx.NodeProto) -> bool:
    """Return whether the weights of a product are (out, in)."""
    return any(attribute.name == "transB" and attribute.i == 1 for attribute in node.attribute)


def _plain(node: onnx.NodeProto) -> bool:
    """Return whether a product has no transposed first operand and no scaling."""
    attributes = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
    return (
        not attributes.get("transA", 0) and attributes.get("alpha", 1.0) == 1.0 and attributes.get("beta", 1.0) == 1.0
    )


#: Operations that are layers if their second input is a weight of the net.
_LAYERS = ("Conv", "Gemm", "MatMul")


@dataclass(frozen=True)
class QuantRange:
    """Quantisation range of an activation; includes 0, which is used for padding.

    Attributes:
        low, high: float32; equal if all values were equal.
    """

    low: float
    high: float

    @property
    def scale(self) -> np.float32:
        """Step of int8, bounded from below for division in float32."""
        return np.float32(max((self.high - self.low) / (MAX_INT8 - MIN_INT8), 1e-12))

    @property
    def zero_point(self) -> int:
        """The integer that represents 0."""
        return int(np.clip(np.rint(MIN_INT8 - self.low / float(self.scale)), MIN_INT8, MAX_INT8))


def quantised(values: NDArray[np.float32], scale: np.float32, zero_point: int) -> NDArray[np.int8]:
    """Quantise values to int8, as QuantizeLinear does."""
    steps = np.rint(values.astype(np.float32) / scale) + np.float32(zero_point)
    return np.asarray(np.clip(steps, MIN_INT8, MAX_INT8), np.int8)


def quantised_weight(
    weight: NDArray[np.float32], axis: int, limit: int = MAX_WEIGHT
) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Quantise weights to int8; return them with the scale (out,) float32 of each output channel.

    Args:
        weight: float32.
        axis: of the output channels.
        limit: largest integer, 127 for 8 bits.
    """
    reduced_axes = tuple(dim for dim in range(weight.ndim) if dim != axis)
    largest = np.abs(weight).max(axis=reduced_axes)
    scale = np.where(largest > 0, largest / limit, 1.0).astype(np.float32)
    wide = scale.reshape([-1 if dim == axis else 1 for dim in range(weight.ndim)])
    return np.clip(np.rint(weight / wide), -limit, limit).astype(np.int8), scale


@dataclass(frozen=True, eq=False)
class _FloatLayer:
    """A layer of a float graph: its node, its weights, and their name."""

    node: onnx.NodeProto
    weight: NDArray[np.float32]
    name: str

    @property
    def axis(self) -> int:
        """The axis of the weights' output channels."""
        return 0 if self.node.op_type == "Conv" or _is_transposed(self.node) else 1


def folded(model: onnx.ModelProto) -> tuple[onnx.ModelProto, dict[str, str]]:
    """Fold the constants of a graph.

    Returns:
        The graph, and for each initializer the name of its origin.
    """
    folded_model = onnx.ModelProto()
    folded_model.CopyFrom(model)
    graph = folded_model.graph
    origin = {tensor.name: tensor.name for tensor in graph.initializer}
    constant = []
    for node in graph.node:
        if all(not name or name in origin for name in node.input) and len(node.output) == 1:
            constant.append(node)
            origin[node.output[0]] = origin[node.input[0]] if node.input else node.output[0]
    names = {node.output[0] for node in constant}
    rest = [node for node in graph.node if node.output[0] not in names]
    read = {name for node in rest for name in node.input} | {entry.name for entry in graph.output}
    needed = [node.output[0] for node in constant if node.output[0] in read]
    computed = _computed(folded_model, constant, needed)
    initializers = [tensor for tensor in graph.initializer if tensor.name in read]
    initializers += [numpy_helper.from_array(np.ascontiguousarray(value), name) for name, value in computed.items()]
    present = read | {name for node in rest for name in node.output}
    described = [entry for entry in graph.value_info if entry.name in present]
    nodes, tensors, infos = [*rest], [*initializers], [*described]
    for field, values in ((graph.node, nodes), (graph.initializer, tensors), (graph.value_info, infos)):
        copies = [type(message).FromString(message.SerializeToString()) for message in values]
        del field[:]
        field.extend(copies)
    return folded_model, {name: origin[name] for name in (tensor.name for tensor in graph.initializer)}


def _computed(model: onnx.ModelProto, nodes: list[onnx.NodeProto], needed: list[str]) -> dict[str, NDArray[np.generic]]:
    if not needed:
        return {}
    outputs = [helper.make_empty_tensor_value_info(name) for name in needed]
    graph = helper.make_graph(nodes, "constants", [], outputs, list(model.graph.initializer))
    values = ReferenceEvaluator(helper.make_model(graph, opset_imports=list(model.opset_import))).run(None, {})
    return dict(zip(needed, values, strict=True))


def _layers_in(model: onnx.ModelProto, origin: Mapping[str, str]) -> Iterator[_FloatLayer]:
    values = {tensor.name: tensor for tensor in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type not in _LAYERS or node.input[1] not in values or node.input[0] in values:
            continue
        weight, name = numpy_helper.to_array(values[node.input[1]]), origin[node.input[1]]
        if weight.dtype == np.float32 and weight.ndim > 1 and name.endswith(_WEIGHT) and _plain(node):
            yield _FloatLayer(node, weight, name)


def read_by_layers(model: onnx.ModelProto) -> list[str]:
    """Return the unique names of the inputs of a float graph's layers, whose ranges are needed."""
    return list(dict.fromkeys(layer.node.input[0] for layer in _layers_in(*folded(model))))


def quantise(model: onnx.ModelProto, ranges: Mapping[str, QuantRange], max_weight: int = MAX_WEIGHT) -> onnx.ModelProto:
    """Return the int8 variant of a float graph.

    Args:
        model: a float32 graph of export; layers are identified by names ending in ``.weight``.
        ranges: of each value of ``read_by_layers``.
        max_weight: largest integer of a weight, 127 for 8 bits.

    Raises:
        BundleError: no layer, or one whose sums would not be exact in float32.
    """
    quantized, origin = folded(model)
    graph = quantized.graph
    layers = list(_layers_in(quantized, origin))
    if not layers:
        raise BundleError("a graph", "has no layer with weights", "a net's own convolutions and products")
    taken = {layer.node.output[0]: layer for layer in layers}
    nodes: list[onnx.NodeProto] = []
    tensors: dict[str, onnx.TensorProto] = {}
    for node in graph.node:
        if node.output[0] in taken:
            layer = taken[node.output[0]]
            nodes += _activation(node.input[0], ranges[node.input[0]], tensors)
            nodes += _weights(layer, max_weight, tensors)
            node.input[0], node.input[1] = _float_of(node.input[0]), f"{layer.name}.float"
        nodes.append(node)
    read = {name for node in nodes for name in node.input}
    initial = [tensor for tensor in graph.initializer if tensor.name in read and tensor.name not in tensors]
    copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    for copy in copies:
        copy.name = ""  # unused, and devices have little memory
    initializers = [onnx.TensorProto.FromString(tensor.SerializeToString()) for tensor in (*initial, *tensors.values())]
    del graph.node[:], graph.initializer[:], graph.value_info[:]
    graph.node.extend(copies)
    graph.initializer.extend(initializers)
    return quantized


def _float_of(name: str) -> str:
    return f"{name}.float"


def _activation(name: str, between: QuantRange, tensors: dict[str, onnx.TensorProto]) -> list[onnx.NodeProto]:
    """Return the nodes that quantise and dequantise a value, once for all its consumers."""
    scale, zero = f"{name}.scale", f"{name}.zero"
    if scale in tensors:
        return []
    tensors[scale] = numpy_helper.from_array(np.array(between.scale, np.float32), scale)
    tensors[zero] = numpy_helper.from_array(np.array(between.zero_point, np.int8), zero)
    return [
        helper.make_node("QuantizeLinear", [name, scale, zero], [f"{name}.int8"]),
        helper.make_node("DequantizeLinear", [f"{name}.int8", scale, zero], [_float_of(name)]),
    ]


def _weights(layer: _FloatLayer, max_weight: int, tensors: dict[str, onnx.TensorProto]) -> list[onnx.NodeProto]:
    """Return the node that dequantises a layer's weights, once for all its consumers."""
    if layer.name in tensors:
        return []
    weight, scale = quantised_weight(layer.weight, layer.axis, max_weight)
    reduced_axes = tuple(dim for dim in range(weight.ndim) if dim != layer.axis)
    largest = int(np.abs(weight.astype(np.int64)).sum(axis=reduced_axes).max()) * (MAX_INT8 - MIN_INT8)
    if largest >= EXACT_IN_FLOAT:
        action = f"train a net of a smaller {param('width')}"
        raise BundleError(layer.name, f"sums up to {largest:,} in int8", f"less than {EXACT_IN_FLOAT:,}", action)
    tensors[layer.name] = numpy_helper.from_array(weight, layer.name)
    tensors[f"{layer.name}.scale"] = numpy_helper.from_array(scale, f"{layer.name}.scale")
    return [
        helper.make_node(
            "DequantizeLinear", [layer.name, f"{layer.name}.scale"], [f"{layer.name}.float"], axis=layer.axis
        )
    ]
