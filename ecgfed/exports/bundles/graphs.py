"""ONNX graphs of a net's roles: each is traced once and filled with the parameters of each patient."""

import logging
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper

from ecgfed.base.errors import BundleError
from ecgfed.core.nets.layers import Params, traced_for_export
from ecgfed.core.nets.net import Inputs, Net
from ecgfed.exports.bundles.simplify import BEATS, simplify

#: InstanceNormalization and Reduce* with axes as inputs; read by every ONNX Runtime since 1.14.
OPSET = 18
#: Lower bound of a mean probability, so that logits of an ensemble are finite.
TINY_PROBABILITY = 1e-30


class _Traced(torch.nn.Module):
    """A role as a module whose parameters are inputs, so that the exporter cannot fold them into constants."""

    def __init__(self, net: Net, role: str, names: Sequence[str]) -> None:
        super().__init__()
        self.net, self.role, self.names = net, role, tuple(names)

    def forward(self, inputs: dict[str, torch.Tensor], params: list[torch.Tensor]) -> torch.Tensor:
        named = dict(zip(self.names, params, strict=True))
        first = inputs.get("features")
        value = Inputs(inputs[self.net.input_name], inputs.get("rr")) if first is None else first
        return self.net.roles[self.role](named, value)


def input_shapes(net: Net, role: str) -> dict[str, tuple[int, ...]]:
    """Return the shape of each input of a role for one beat."""
    if role in ("head", "linear"):
        return {"features": (net.features,)}
    if role in ("kernel", "gated"):
        return {"features": (net.described,)}
    shapes = {net.input_name: net.input_shape}
    if net.spec.rr and role != "far":
        shapes["rr"] = (net.spec.rr_count,)
    return shapes


def not_exported(net: Net, problem: str) -> BundleError:
    """Return the error for a net of one's own that no bundle can hold."""
    expected = "a module of convolutions, linear layers, normalisation and pooling of fixed sizes, without branches"
    return BundleError(f"net {net.spec.architecture.rpartition(':')[2]}", f"cannot be exported: {problem}", expected)


class GraphTemplate:
    """The graph of one role of a net, without parameters.

    Args:
        net: the net.
        role: one of the net's ``roles``.
        params: parameters of the shapes to expect; values do not matter.
    """

    def __init__(self, net: Net, role: str, params: Params) -> None:
        self.names = tuple(sorted(params))  # a checkpoint's order is any; a run's bytes shall be the same
        shapes = input_shapes(net, role)
        self.output = {"extractor": "features", "describer": "features", "far": "distance"}.get(role, "logits")
        types = {net.input_name: net.input_type}
        examples = {n: torch.zeros(2, *shape, dtype=types.get(n, torch.float32)) for n, shape in shapes.items()}
        batch = torch.export.Dim(BEATS)
        logging.getLogger("torch.onnx").setLevel(logging.ERROR)
        with warnings.catch_warnings(), traced_for_export():
            warnings.simplefilter("ignore")
            try:
                program = torch.onnx.export(
                    _Traced(net, role, self.names).eval(),
                    (examples, [params[name] for name in self.names]),
                    dynamo=True,
                    opset_version=OPSET,
                    optimize=True,
                    verbose=False,
                    input_names=[*shapes, *self.names],
                    output_names=[self.output],
                    dynamic_shapes=({name: {0: batch} for name in shapes}, [{} for _ in self.names]),
                )
            except Exception as problem:  # whatever the exporter raises for somebody's own module
                if net.spec.module is None:
                    raise
                reason = " ".join(str(problem.__cause__ or problem).split())[:200]
                raise not_exported(net, f"torch.onnx.export fails ({reason})") from problem
        assert program is not None
        self.model: onnx.ModelProto = program.model_proto
        self.inputs = tuple(shapes)
        self._strip()
        #: parameter -> shape in which it is stored, if different
        self.stored = simplify(self.model, self.names)

    def _strip(self) -> None:
        """Drop the exporter's traces of this machine (file names, tracebacks)."""
        graph = self.model.graph
        for node in graph.node:
            del node.metadata_props[:]
            node.doc_string = ""
        for value in (*graph.value_info, *graph.input, *graph.output, *graph.initializer):
            del value.metadata_props[:]
        del graph.metadata_props[:], self.model.metadata_props[:], self.model.functions[:]

    def fill(self, params: Params) -> onnx.ModelProto:
        """Return the graph with parameters as initializers.

        Names are the net's own; the weight of a convolution over time is stored as (Cout, Cin, 1, kernel).
        """
        model = onnx.ModelProto()
        model.CopyFrom(self.model)
        graph = model.graph
        inputs = [entry for entry in graph.input if entry.name in self.inputs]
        used = {entry.name for entry in graph.input}
        del graph.input[:]
        graph.input.extend(inputs)
        for name in self.names:
            if name in used:
                values = params[name].detach().numpy()
                graph.initializer.append(
                    numpy_helper.from_array(values.reshape(self.stored.get(name, values.shape)), name)
                )
        return model


def ensemble_graph(members: Sequence[onnx.ModelProto]) -> onnx.ModelProto:
    """Combine models into one graph whose logits are the log of their mean probability.

    Args:
        members: graphs of the same net with output ``logits``.

    Returns:
        A graph with the same inputs; softmax of its logits is the mean of the members' probabilities.
    """
    first = members[0]
    inputs = {entry.name for entry in first.graph.input}
    nodes: list[Any] = []
    initializers: list[Any] = []
    means: list[str] = []
    for number, model in enumerate(members):

        def rename(name: str, prefix: str = f"member{number}/") -> str:
            return name if name in inputs or not name else prefix + name

        for tensor in model.graph.initializer:
            copy = TensorProto()
            copy.CopyFrom(tensor)
            copy.name = rename(tensor.name)
            initializers.append(copy)
        for node in model.graph.node:
            copy = onnx.NodeProto()
            copy.CopyFrom(node)
            copy.name = rename(node.name)
            del copy.input[:], copy.output[:]
            copy.input.extend(rename(name) for name in node.input)
            copy.output.extend(rename(name) for name in node.output)
            nodes.append(copy)
        means.append(rename("probability"))
        nodes.append(helper.make_node("Softmax", [rename("logits")], [means[-1]], axis=1))
    initializers.append(numpy_helper.from_array(np.float32(TINY_PROBABILITY), "tiny"))
    nodes += [
        helper.make_node("Mean", means, ["mean_probability"]),
        helper.make_node("Max", ["mean_probability", "tiny"], ["at_least_tiny"]),
        helper.make_node("Log", ["at_least_tiny"], ["logits"]),
    ]
    graph = helper.make_graph(nodes, "ensemble", list(first.graph.input), list(first.graph.output), initializers)
    return helper.make_model(graph, opset_imports=list(first.opset_import), ir_version=first.ir_version)


def finish(model: onnx.ModelProto, properties: dict[str, str]) -> bytes:
    """Check a graph, write properties into its metadata and return its bytes."""
    model.producer_name, model.producer_version, model.doc_string = "ecgfed", properties["tool_version"], ""
    helper.set_model_props(model, properties)
    onnx.checker.check_model(model, full_check=True)
    data: bytes = model.SerializeToString(deterministic=True)
    return data
