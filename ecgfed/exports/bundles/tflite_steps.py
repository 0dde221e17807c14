"""A bundle's graphs as steps for microcontrollers, without the input scaling, which stays in float.

Normalisation of the window and scaling of RR features stay outside: in int8, a large beat would hide a small one
(docs/graphs.md). The steps are convolutions, group normalisation, ReLU, additions, a mean and affine maps.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from ecgfed.base.errors import BundleError, param

#: Error message for graphs with other operations.
_NET = "a net's extractor and head"
_ELSE = f"export with {param('personal')} method, or without {param('tflite')}"


@dataclass
class LayerSteps:
    """A net without its input scaling.

    Attributes:
        inputs: name -> shape of one beat, channels last.
        fronts: name -> the value of the first graph that is this scaled input.
        steps: JSON-ready: ``op``, ``inputs``, ``output``, and attributes of the op.
        weights: float32 by name.
    """

    inputs: dict[str, list[int]] = field(default_factory=dict)
    fronts: dict[str, str] = field(default_factory=dict)
    steps: list[dict[str, Any]] = field(default_factory=list)
    weights: dict[str, NDArray[np.float32]] = field(default_factory=dict)


def steps_of(models: Sequence[onnx.ModelProto], where: str) -> LayerSteps:
    """Return the steps of a chain of graphs.

    Args:
        models: the float graphs of a chain, in order.
        where: name of the chain in errors.

    Raises:
        BundleError: unsupported operations (a kernel machine, an ensemble).
    """
    steps, names = LayerSteps(), dict[str, str]()
    for index, model in enumerate(models):
        names = _Reader(model, where, steps, f"part{index}/", names).read(first=not index)
    return steps


class _Reader:
    """Reads one graph of a chain."""

    def __init__(
        self, model: onnx.ModelProto, where: str, steps: LayerSteps, prefix: str, names: dict[str, str]
    ) -> None:
        self.graph, self.where, self.steps, self.prefix = model.graph, where, steps, prefix
        self.constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
        #: value of the graph -> its name among the steps
        self.named = dict(names)
        #: values of the input scaling -> the graph input they derive from
        self.front = {} if names else {entry.name: entry.name for entry in model.graph.input}
        #: values inside a group normalisation -> its input, groups and epsilon
        self.grouped: dict[str, tuple[str, int, float]] = {}

    def read(self, *, first: bool) -> dict[str, str]:
        """Add the graph's steps; return a mapping from its output to the name among the steps."""
        if first and not {entry.name for entry in self.graph.input} <= {"window", "rr"}:
            raise self._wrong(f"takes {', '.join(entry.name for entry in self.graph.input)}")
        for node in self.graph.node:
            if not (first and self._in_front(node)):
                self._step(node)
        (output,) = self.graph.output
        if output.name not in self.named:
            raise self._wrong(f"makes {output.name} of nothing but its inputs' scaling")
        return {output.name: self.named[output.name]}

    def _wrong(self, why: str) -> BundleError:
        return BundleError(self.where, why, _NET, _ELSE)

    def _in_front(self, node: onnx.NodeProto) -> bool:
        """Return whether a node belongs to the input scaling, and register its value if so."""
        values = [name for name in node.input if name and name not in self.constants]
        begins = node.op_type in ("Conv", "Gemm", "InstanceNormalization")
        sources = {self.front[name] for name in values if name in self.front}
        if begins or len(sources) != 1 or not all(name in self.front for name in values):
            return False
        self.front[node.output[0]] = sources.pop()
        return True

    def _value(self, name: str) -> str:
        """Return a value's name among the steps; a scaled input becomes an input of the net."""
        if name not in self.named:
            source = self.front.get(name)
            if source is None or self.steps.fronts.get(source, name) != name:
                raise self._wrong(f"takes {name}, which is no input of the net behind its scaling")
            self.steps.fronts[source] = name
            self.steps.inputs[source] = [1, 1, 256, 1] if source == "window" else [1, _width(self.graph, source)]
            self.named[name] = source
        return self.named[name]

    def _constant(self, name: str) -> str:
        if name not in self.constants:
            raise self._wrong(f"takes {name}, which is no constant")
        stored = f"{self.prefix}{name}"
        self.steps.weights[stored] = np.ascontiguousarray(self.constants[name], dtype=np.float32)
        return stored

    def _add(self, node: onnx.NodeProto, op: str, inputs: Sequence[str], **more: Any) -> None:
        name = f"{self.prefix}{node.output[0]}"
        self.steps.steps.append({"op": op, "inputs": [self._value(value) for value in inputs], "output": name, **more})
        self.named[node.output[0]] = name

    def _step(self, node: onnx.NodeProto) -> None:
        inputs = list(node.input)
        attributes = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
        if node.op_type == "Conv" and len(inputs) == 2 and attributes.get("group", 1) == 1:
            sizes = {"pads": list(attributes["pads"]), "strides": list(attributes["strides"])}
            self._add(node, "conv", inputs[:1], weight=self._constant(inputs[1]), **sizes)
        elif node.op_type == "Gemm" and len(inputs) == 3 and attributes.get("transB"):
            self._add(node, "dense", inputs[:1], weight=self._constant(inputs[1]), bias=self._constant(inputs[2]))
        elif node.op_type in ("Mul", "Add") and any(name in self.constants for name in inputs):
            value, constant = inputs if inputs[1] in self.constants else inputs[::-1]
            self._add(node, "scale" if node.op_type == "Mul" else "shift", [value], weight=self._constant(constant))
        elif node.op_type == "Add":
            self._add(node, "add", inputs)
        elif node.op_type == "Relu":
            self._add(node, "relu", inputs)
        elif node.op_type == "ReduceMean" and self.constants[inputs[1]].tolist() == [2, 3]:
            self._add(node, "mean", inputs[:1])
        elif node.op_type == "BatchNormalization":
            epsilon = attributes["epsilon"]
            weight, bias, mean, var = (self.constants[name].astype(np.float64) for name in inputs[1:])
            scale = weight / np.sqrt(var + epsilon)
            self.constants |= {f"{node.output[0]}/scale": scale, f"{node.output[0]}/shift": bias - mean * scale}
            between = onnx.NodeProto(output=[f"{node.output[0]}/scaled"])
            self._add(between, "scale", inputs[:1], weight=self._constant(f"{node.output[0]}/scale"))
            self._add(node, "shift", between.output, weight=self._constant(f"{node.output[0]}/shift"))
        else:
            self._group_norm(node, inputs, attributes)

    def _group_norm(self, node: onnx.NodeProto, inputs: list[str], attributes: dict[str, Any]) -> None:
        """Combine reshape to groups, normalisation and reshape back into one step."""
        output = node.output[0]
        if node.op_type == "Reshape" and inputs[0] in self.grouped:
            value, groups, epsilon = self.grouped[inputs[0]]
            self._add(node, "group", [value], groups=groups, epsilon=epsilon)
        elif node.op_type == "Reshape" and len(self.constants.get(inputs[1], ())) == 3:
            self.grouped[output] = (inputs[0], int(self.constants[inputs[1]][1]), 0.0)
        elif node.op_type == "InstanceNormalization" and inputs[0] in self.grouped:
            if not (np.all(self.constants[inputs[1]] == 1) and np.all(self.constants[inputs[2]] == 0)):
                raise self._wrong("scales inside a group normalisation")
            self.grouped[output] = (*self.grouped[inputs[0]][:2], float(attributes["epsilon"]))
        else:
            raise self._wrong(f"holds {node.op_type}, which no step stands for")


def _width(graph: onnx.GraphProto, name: str) -> int:
    (entry,) = (entry for entry in graph.input if entry.name == name)
    return int(entry.type.tensor_type.shape.dim[1].dim_value)
