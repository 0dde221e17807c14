"""Supported operations of graphs, with their shape inference rules.

Only operations that export writes are supported: no loops, no branches, nothing that reads a file or derives a size
from data. Each has a rule that returns its output shape and its work from the input shapes (docs/decisions/0025);
``graph_shapes`` applies them to a graph.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ecgfed.exports.device.onnx_file import Node
from ecgfed.exports.device.protobuf import WireError

Shape = tuple[int, ...]
FLOAT, INT, BYTE, INT8 = np.dtype("<f4"), np.dtype("<i8"), np.dtype("u1"), np.dtype("i1")


@dataclass(frozen=True)
class Known:
    """Dtype and shape of a value for a full batch, and its numbers if it is a shape."""

    dtype: np.dtype[np.generic]
    shape: Shape
    numbers: tuple[int, ...] | None = None

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class _Call:
    """One operation with its inputs (None: omitted)."""

    node: Node
    inputs: tuple[Known | None, ...]

    def wrong(self, why: str) -> WireError:
        return WireError(f"holds {self.node.op} {why}")

    def value(self, index: int, dtype: np.dtype[np.generic] = FLOAT) -> Known:
        value = self.inputs[index] if index < len(self.inputs) else None
        if value is None or value.dtype != dtype:
            raise self.wrong(f"whose input {index + 1} is {'missing' if value is None else value.dtype.name}")
        return value

    def numbers(self, index: int) -> tuple[int, ...]:
        numbers = self.value(index, INT).numbers
        if numbers is None:
            raise self.wrong("of a size that depends on the data")
        return numbers

    def number(self, name: str, default: int) -> int:
        value = self.node.attributes.get(name, default)
        if not isinstance(value, int):
            raise self.wrong(f"with {name} that is no number")
        return value

    def sizes(self, name: str, default: Sequence[int], *, minimum: int) -> tuple[int, ...]:
        value = self.node.attributes.get(name, tuple(default))
        right_length = isinstance(value, tuple) and len(value) == len(default)
        if not right_length or not all(isinstance(size, int) and minimum <= size < 1 << 31 for size in value):  # type: ignore[union-attr]
            raise self.wrong(f"with {name} {value!r}")
        return value  # type: ignore[return-value]  # the line above says so

    def axes(self, values: Sequence[int], rank: int) -> tuple[int, ...]:
        axes = tuple(axis + rank if axis < 0 else axis for axis in values)
        if len(set(axes)) != len(axes) or not all(0 <= axis < rank for axis in axes):
            raise self.wrong(f"along axes {tuple(values)} of {rank}")
        return axes

    def broadcast(self, shapes: Sequence[Shape]) -> Shape:
        """Return the broadcast shape of several shapes."""
        rank = max(map(len, shapes))
        padded = [(1,) * (rank - len(shape)) + shape for shape in shapes]
        shape = []
        for dims in zip(*padded, strict=True):
            longer = set(dims) - {1}
            if len(longer) > 1:
                raise self.wrong(f"of shapes that do not fit ({', '.join(map(str, shapes))})")
            shape.append(longer.pop() if longer else 1)
        return tuple(shape)


#: A rule returns the output, and the work per output element.
_Rule = Callable[[_Call], tuple[Known, int]]


def _floats(call: _Call) -> list[Known]:
    return [call.value(index) for index in range(len(call.inputs))]


def _same(call: _Call) -> tuple[Known, int]:
    return replace(call.value(0), numbers=None), 1


def _softmax(call: _Call) -> tuple[Known, int]:
    call.axes([call.number("axis", -1)], len(call.value(0).shape))
    return _same(call)


def _clip(call: _Call) -> tuple[Known, int]:
    if any(limit.shape for limit in _floats(call)[1:]):
        raise call.wrong("between limits that are no single numbers")
    return _same(call)


def _by_element(call: _Call) -> tuple[Known, int]:
    values = _floats(call)
    if not values:
        raise call.wrong("of nothing")
    return Known(FLOAT, call.broadcast([value.shape for value in values])), len(values)


def _cast(call: _Call) -> tuple[Known, int]:
    value = call.inputs[0]
    if value is None or value.dtype not in (BYTE, FLOAT) or call.number("to", 0) != 1:
        raise call.wrong("to or from another type")
    return Known(FLOAT, value.shape), 1


def _transpose(call: _Call) -> tuple[Known, int]:
    shape = call.value(0).shape
    perm = call.axes(call.sizes("perm", tuple(range(len(shape)))[::-1], minimum=0), len(shape))
    return Known(FLOAT, tuple(shape[axis] for axis in perm)), 1


def _unsqueeze(call: _Call) -> tuple[Known, int]:
    shape, numbers = list(call.value(0).shape), call.numbers(1)
    for axis in sorted(call.axes(numbers, len(shape) + len(numbers))):
        shape.insert(axis, 1)
    return Known(FLOAT, tuple(shape)), 1


def _squeeze(call: _Call) -> tuple[Known, int]:
    shape = call.value(0).shape
    axes = call.axes(call.numbers(1), len(shape))
    if any(shape[axis] != 1 for axis in axes):
        raise call.wrong(f"of axes {axes} of shape {shape}")
    return Known(FLOAT, tuple(dim for axis, dim in enumerate(shape) if axis not in axes)), 1


def _reduce(call: _Call) -> tuple[Known, int]:
    shape, axes = call.value(0).shape, call.axes(call.numbers(1), len(call.value(0).shape))
    if not axes or call.number("noop_with_empty_axes", 0):
        raise call.wrong("along no axis")
    keep = call.number("keepdims", 1)
    reduced = [1 if axis in axes else dim for axis, dim in enumerate(shape) if keep or axis not in axes]
    return Known(FLOAT, tuple(reduced)), math.prod(shape[axis] for axis in axes)


def _shape(call: _Call) -> tuple[Known, int]:
    shape = call.value(0).shape
    if call.number("start", 0) or "end" in call.node.attributes:
        raise call.wrong("of some axes alone")
    return Known(INT, (len(shape),), shape), 1


def _reshape(call: _Call) -> tuple[Known, int]:
    value, target = call.value(0), list(call.numbers(1))
    for axis, dim in enumerate(target):  # with allowzero, 0 means an empty axis, which is rejected below
        if dim == 0 and axis < len(value.shape) and not call.number("allowzero", 0):
            target[axis] = value.shape[axis]
    if target.count(-1) == 1:
        rest = math.prod(dim for dim in target if dim != -1)
        target[target.index(-1)] = value.size // rest if rest else 0
    if any(dim < 1 for dim in target) or math.prod(target) != value.size:
        raise call.wrong(f"of {value.shape} to {call.numbers(1)}")
    return Known(FLOAT, tuple(target)), 1


def _slice(call: _Call) -> tuple[Known, int]:
    value, starts, ends = call.inputs[0], call.numbers(1), call.numbers(2)
    if value is None or value.dtype == INT:
        raise call.wrong("of no signal and no image")
    shape = list(value.shape)
    axes = call.axes(call.numbers(3) if len(call.inputs) > 3 else range(len(starts)), len(shape))
    steps = call.numbers(4) if len(call.inputs) > 4 else (1,) * len(starts)
    if not len(starts) == len(ends) == len(axes) == len(steps) or any(step < 1 for step in steps):
        raise call.wrong("that is none")
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        shape[axis] = len(range(*slice(start, end, step).indices(shape[axis])))
    return Known(value.dtype, tuple(shape)), 1


def _concat(call: _Call) -> tuple[Known, int]:
    shapes = [value.shape for value in _floats(call)]
    (axis,) = call.axes([call.number("axis", 0)], len(shapes[0]) if shapes else 0)
    if len({(len(shape), shape[:axis], shape[axis + 1 :]) for shape in shapes}) != 1:
        raise call.wrong(f"of shapes that do not fit ({', '.join(map(str, shapes))})")
    return Known(FLOAT, (*shapes[0][:axis], sum(shape[axis] for shape in shapes), *shapes[0][axis + 1 :])), 1


def _matmul(call: _Call) -> tuple[Known, int]:
    a, b = call.value(0).shape, call.value(1).shape
    if min(len(a), len(b)) < 2 or a[-1] != b[-2]:
        raise call.wrong(f"of shapes {a} and {b}")
    return Known(FLOAT, (*call.broadcast([a[:-2], b[:-2]]), a[-2], b[-1])), a[-1]


def _gemm(call: _Call) -> tuple[Known, int]:
    a, b = call.value(0).shape, call.value(1).shape
    if len(a) != 2 or len(b) != 2:
        raise call.wrong(f"of shapes {a} and {b}")
    a = a[::-1] if call.number("transA", 0) else a
    b = b[::-1] if call.number("transB", 0) else b
    result = (a[0], b[1])
    if a[1] != b[0] or (len(call.inputs) > 2 and call.broadcast([result, call.value(2).shape]) != result):
        raise call.wrong(f"of shapes {a} and {b}")
    return Known(FLOAT, result), a[1]


def _slid(call: _Call, shape: Shape, kernel: Shape) -> Shape:
    """Return the output lengths of a kernel along the spatial axes."""
    count = len(kernel)
    if call.node.attributes.get("auto_pad", b"NOTSET") != b"NOTSET" or call.number("ceil_mode", 0) or not count:
        raise call.wrong("with padding or rounding of its own")
    pads = call.sizes("pads", (0,) * (2 * count), minimum=0)
    strides, dilations = (call.sizes(name, (1,) * count, minimum=1) for name in ("strides", "dilations"))
    lengths = []
    for axis in range(count):
        over = shape[axis] + pads[axis] + pads[axis + count] - dilations[axis] * (kernel[axis] - 1) - 1
        if over < 0 or max(pads[axis], pads[axis + count]) > dilations[axis] * kernel[axis]:
            raise call.wrong(f"of a kernel {kernel} over {shape} with pads {pads}")
        lengths.append(over // strides[axis] + 1)
    return tuple(lengths)


def _conv(call: _Call) -> tuple[Known, int]:
    shape, weight, group = call.value(0).shape, call.value(1).shape, call.number("group", 1)
    kernel = weight[2:]
    fits = len(shape) == len(weight) > 2 and group > 0 and shape[1] == weight[1] * group and weight[0] % group == 0
    if not fits or call.sizes("kernel_shape", kernel, minimum=1) != kernel:
        raise call.wrong(f"of shapes {shape} and {weight}")
    if len(call.inputs) > 2 and call.value(2).shape != weight[:1]:
        raise call.wrong(f"with a bias of shape {call.value(2).shape}")
    return Known(FLOAT, (shape[0], weight[0], *_slid(call, shape[2:], kernel))), weight[1] * math.prod(kernel)


def _pool(call: _Call) -> tuple[Known, int]:
    shape = call.value(0).shape
    if "kernel_shape" not in call.node.attributes or len(shape) < 3 or call.number("storage_order", 0):
        raise call.wrong(f"over shape {shape}")
    kernel = call.sizes("kernel_shape", (1,) * (len(shape) - 2), minimum=1)
    return Known(FLOAT, (*shape[:2], *_slid(call, shape[2:], kernel))), math.prod(kernel)


def _normalise(call: _Call) -> tuple[Known, int]:
    """Batch and instance normalisation: parameters per channel."""
    first, *rest = _floats(call)
    if (
        len(first.shape) < 2
        or any(parameter.shape != first.shape[1:2] for parameter in rest)
        or call.number("training_mode", 0)
    ):
        raise call.wrong(f"of shape {first.shape} by {', '.join(str(parameter.shape) for parameter in rest)}")
    return Known(FLOAT, first.shape), 2


def _steps(call: _Call, shape: Shape) -> None:
    """Check scale and zero point of int8: one for all elements, or one per index of an axis."""
    scale = call.value(1).shape
    if scale and scale != (shape[call.axes([call.number("axis", 1)], len(shape))[0]],):
        raise call.wrong(f"of shape {shape} by {scale}")
    if len(call.inputs) > 2 and call.value(2, INT8).shape != scale:
        raise call.wrong(f"with zero points of shape {call.value(2, INT8).shape} beside {scale}")


def _quantise(call: _Call) -> tuple[Known, int]:
    _steps(call, call.value(0).shape)
    return Known(INT8, call.value(0).shape), 2


def _dequantise(call: _Call) -> tuple[Known, int]:
    shape = call.value(0, INT8).shape
    _steps(call, shape)
    return Known(FLOAT, shape), 2


@dataclass(frozen=True)
class _Operation:
    rule: _Rule
    #: minimum and maximum number of inputs
    inputs: tuple[int, int]
    attributes: frozenset[str] = frozenset()


def _operation(rule: _Rule, min_inputs: int, max_inputs: int, attributes: str = "") -> _Operation:
    return _Operation(rule, (min_inputs, max_inputs), frozenset(attributes.split()))


_SLIDING = "auto_pad dilations kernel_shape pads strides"
_MAX_INPUTS = 10_000
OPERATIONS = {
    **dict.fromkeys(("Add", "Div", "Mul", "Sub"), _operation(_by_element, 2, 2)),
    "BatchNormalization": _operation(_normalise, 5, 5, "epsilon momentum training_mode"),
    "Cast": _operation(_cast, 1, 1, "to"),
    "Clip": _operation(_clip, 3, 3),
    "Concat": _operation(_concat, 1, _MAX_INPUTS, "axis"),
    "Conv": _operation(_conv, 2, 3, f"group {_SLIDING}"),
    "DequantizeLinear": _operation(_dequantise, 2, 3, "axis"),
    **dict.fromkeys(("Exp", "Log", "Neg", "Reciprocal", "Relu", "Sigmoid", "Sqrt"), _operation(_same, 1, 1)),
    "Gemm": _operation(_gemm, 2, 3, "alpha beta transA transB"),
    "InstanceNormalization": _operation(_normalise, 3, 3, "epsilon"),
    "MatMul": _operation(_matmul, 2, 2),
    **dict.fromkeys(("Max", "Mean"), _operation(_by_element, 1, _MAX_INPUTS)),
    "MaxPool": _operation(_pool, 1, 1, f"ceil_mode storage_order {_SLIDING}"),
    "QuantizeLinear": _operation(_quantise, 3, 3, "axis"),
    **dict.fromkeys(
        ("ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum"),
        _operation(_reduce, 2, 2, "keepdims noop_with_empty_axes"),
    ),
    "Reshape": _operation(_reshape, 2, 2, "allowzero"),
    "Shape": _operation(_shape, 1, 1, "start end"),
    "Slice": _operation(_slice, 3, 5),
    "Softmax": _operation(_softmax, 1, 1, "axis"),
    "Squeeze": _operation(_squeeze, 2, 2),
    "Transpose": _operation(_transpose, 1, 1, "perm"),
    "Unsqueeze": _operation(_unsqueeze, 2, 2),
}


def result_of(node: Node, known: Mapping[str, Known]) -> tuple[Known, int]:
    """Return the output of a node, and the work per output element.

    Args:
        node: one operation.
        known: preceding values by name.

    Raises:
        WireError: an unsupported operation or attribute, or incompatible inputs.
    """
    operation = OPERATIONS.get(node.op)
    if operation is None:
        raise WireError(f"holds operation {node.op!r}, which no graph of ours has")
    unknown = set(node.attributes) - operation.attributes
    if unknown or not operation.inputs[0] <= len(node.inputs) <= operation.inputs[1] or len(node.outputs) != 1:
        raise WireError(f"holds {node.op} in a form that no graph of ours has")
    missing = [name for name in node.inputs if name and name not in known]
    if missing:
        raise WireError(f"holds {node.op} of {missing[0]!r}, which nothing before it makes")
    return operation.rule(_Call(node, tuple(known.get(name) for name in node.inputs)))
