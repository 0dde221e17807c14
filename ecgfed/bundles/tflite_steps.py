"""A bundle's graphs as the few steps a microcontroller runs, without what stays in float in front of them.

In front stay the window's normalisation and the RR features' scaling: in int8 a large beat would drown a small one
(docs/graphs.md). What is left are convolutions, group normalisation, ReLU, additions, a mean and affine maps.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from ecgfed.errors import BundleError

#: What a graph with other operations is told.
_NET = "a net's extractor and head"
_ELSE = "export with --personal method, or without --tflite"


@dataclass
class Steps:
    """A net behind its inputs' scaling.

    Attributes:
        inputs: name -> shape of one beat as the steps take it, channels last.
        fronts: name -> the value of the first graph that this input is.
        steps: JSON-ready: ``op``, ``inputs``, ``output``, and the op's own.
        weights: float32 by name.
    """

    inputs: dict[str, list[int]] = field(default_factory=dict)
    fronts: dict[str, str] = field(default_factory=dict)
    steps: list[dict[str, Any]] = field(default_factory=list)
    weights: dict[str, NDArray[np.float32]] = field(default_factory=dict)


def steps_of(models: Sequence[onnx.ModelProto], where: str) -> Steps:
    """Return the steps of a chain of graphs.

    Args:
        models: the graphs, float, each taking what the one before it gives.
        where: names them in errors.

    Raises:
        BundleError: they hold operations that no step stands for (a kernel machine, an ensemble).
    """
    made, told = Steps(), dict[str, str]()
    for place, model in enumerate(models):
        told = _Reader(model, where, made, f"part{place}/", told).read(first=not place)
    return made


class _Reader:
    """Reads one graph of a chain."""

    def __init__(self, model: onnx.ModelProto, where: str, made: Steps, prefix: str, told: dict[str, str]) -> None:
        self.graph, self.where, self.made, self.prefix = model.graph, where, made, prefix
        self.constants = {one.name: numpy_helper.to_array(one) for one in model.graph.initializer}
        #: value of the graph -> its name among the steps
        self.named = dict(told)
        #: values in front of the steps -> the graph's input they come from
        self.front = {} if told else {entry.name: entry.name for entry in model.graph.input}
        #: values between a group normalisation's reshapes -> the value that goes in, groups and epsilon
        self.grouped: dict[str, tuple[str, int, float]] = {}

    def read(self, *, first: bool) -> dict[str, str]:
        """Add the graph's steps; return its output's name among the steps, under its own."""
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
        """Say whether a node only scales an input; its value is one more in front then."""
        values = [name for name in node.input if name and name not in self.constants]
        begins = node.op_type in ("Conv", "Gemm", "InstanceNormalization")
        sources = {self.front[name] for name in values if name in self.front}
        if begins or len(sources) != 1 or not all(name in self.front for name in values):
            return False
        self.front[node.output[0]] = sources.pop()
        return True

    def _value(self, name: str) -> str:
        """Return a value's name among the steps; one from in front becomes an input of the net."""
        if name not in self.named:
            source = self.front.get(name)
            if source is None or self.made.fronts.get(source, name) != name:
                raise self._wrong(f"takes {name}, which is no input of the net behind its scaling")
            self.made.fronts[source] = name
            self.made.inputs[source] = [1, 1, 256, 1] if source == "window" else [1, _width(self.graph, source)]
            self.named[name] = source
        return self.named[name]

    def _constant(self, name: str) -> str:
        if name not in self.constants:
            raise self._wrong(f"takes {name}, which is no constant")
        stored = f"{self.prefix}{name}"
        self.made.weights[stored] = np.ascontiguousarray(self.constants[name], dtype=np.float32)
        return stored

    def _add(self, node: onnx.NodeProto, op: str, inputs: Sequence[str], **more: Any) -> None:
        name = f"{self.prefix}{node.output[0]}"
        self.made.steps.append({"op": op, "inputs": [self._value(one) for one in inputs], "output": name, **more})
        self.named[node.output[0]] = name

    def _step(self, node: onnx.NodeProto) -> None:
        given = list(node.input)
        attributes = {one.name: helper.get_attribute_value(one) for one in node.attribute}
        if node.op_type == "Conv" and len(given) == 2 and attributes.get("group", 1) == 1:
            sizes = {"pads": list(attributes["pads"]), "strides": list(attributes["strides"])}
            self._add(node, "conv", given[:1], weight=self._constant(given[1]), **sizes)
        elif node.op_type == "Gemm" and len(given) == 3 and attributes.get("transB"):
            self._add(node, "dense", given[:1], weight=self._constant(given[1]), bias=self._constant(given[2]))
        elif node.op_type in ("Mul", "Add") and any(name in self.constants for name in given):
            value, constant = given if given[1] in self.constants else given[::-1]
            self._add(node, "scale" if node.op_type == "Mul" else "shift", [value], weight=self._constant(constant))
        elif node.op_type == "Add":
            self._add(node, "add", given)
        elif node.op_type == "Relu":
            self._add(node, "relu", given)
        elif node.op_type == "ReduceMean" and self.constants[given[1]].tolist() == [2, 3]:
            self._add(node, "mean", given[:1])
        elif node.op_type == "BatchNormalization":
            self._batch_norm(node, given, attributes["epsilon"])
        else:
            self._group_norm(node, given, attributes)

    def _batch_norm(self, node: onnx.NodeProto, given: list[str], epsilon: float) -> None:
        """Running statistics are constants: a scale and a shift by channel, which the converter folds."""
        weight, bias, mean, var = (self.constants[name].astype(np.float64) for name in given[1:])
        scale = weight / np.sqrt(var + epsilon)
        self.constants |= {f"{node.output[0]}/scale": scale, f"{node.output[0]}/shift": bias - mean * scale}
        between = onnx.NodeProto(output=[f"{node.output[0]}/scaled"])
        self._add(between, "scale", given[:1], weight=self._constant(f"{node.output[0]}/scale"))
        self._add(node, "shift", between.output, weight=self._constant(f"{node.output[0]}/shift"))

    def _group_norm(self, node: onnx.NodeProto, given: list[str], attributes: dict[str, Any]) -> None:
        """Reshape to groups, normalise, reshape back: one step."""
        output = node.output[0]
        if node.op_type == "Reshape" and given[0] in self.grouped:
            value, groups, epsilon = self.grouped[given[0]]
            self._add(node, "group", [value], groups=groups, epsilon=epsilon)
        elif node.op_type == "Reshape" and len(self.constants.get(given[1], ())) == 3:
            self.grouped[output] = (given[0], int(self.constants[given[1]][1]), 0.0)
        elif node.op_type == "InstanceNormalization" and given[0] in self.grouped:
            if not (np.all(self.constants[given[1]] == 1) and np.all(self.constants[given[2]] == 0)):
                raise self._wrong("scales inside a group normalisation")
            self.grouped[output] = (*self.grouped[given[0]][:2], float(attributes["epsilon"]))
        else:
            raise self._wrong(f"holds {node.op_type}, which no step stands for")


def _width(graph: onnx.GraphProto, name: str) -> int:
    (entry,) = (one for one in graph.input if one.name == name)
    return int(entry.type.tensor_type.shape.dim[1].dim_value)
