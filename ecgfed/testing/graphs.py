"""Answers as exported graphs, run by ONNX Runtime beside torch."""

from collections.abc import Sequence

import numpy as np
import onnx
import onnxruntime
import torch
from numpy.typing import NDArray

from ecgfed.bundles.graphs import GraphTemplate, ensemble_graph, finish
from ecgfed.evaluation.predict import chain_logits
from ecgfed.methods.answers import Answer, Chain, Part
from ecgfed.nets.net import Inputs, Net, NetSpec

_TEMPLATES: dict[tuple[NetSpec, str, tuple[tuple[str, torch.Size], ...]], GraphTemplate] = {}


def _graph(net: Net, part: Part) -> onnx.ModelProto:
    """A part's graph; the same net's same role is traced once in a process."""
    shapes = tuple(sorted((name, value.shape) for name, value in part.params.items()))
    key = (net.spec, part.role, shapes)
    if key not in _TEMPLATES:
        _TEMPLATES[key] = GraphTemplate(net, part.role, part.params)
    return _TEMPLATES[key].fill(part.params)


def _run(model: onnx.ModelProto, feeds: dict[str, NDArray[np.float32]]) -> NDArray[np.float32]:
    session = onnxruntime.InferenceSession(finish(model, {"tool_version": "0"}), providers=["CPUExecutionProvider"])
    out: NDArray[np.float32] = session.run(None, feeds)[0]
    return out


def _through(net: Net, parts: Sequence[Part], inputs: Inputs) -> NDArray[np.float32]:
    value = inputs.examples.numpy()
    for part in parts:
        value = _run(_graph(net, part), {"features" if part.role == "head" else net.input_name: value})
    return value


def answered(net: Net, answer: Answer, inputs: Inputs) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the logits (B, classes) of an answer's exported graphs, and torch's; an ensemble's are log probabilities.

    Args:
        net: a net without RR features.
        answer: a chain, or an ensemble of chains of one part or of extractor and head.
        inputs: (B, ...) beats.
    """
    with torch.inference_mode():
        if isinstance(answer, Chain):
            return _through(net, answer.parts, inputs), chain_logits(net, answer, inputs).numpy()
        chains = answer.members
        mean = torch.stack([torch.softmax(chain_logits(net, chain, inputs), 1) for chain in chains]).mean(0)
    graph = ensemble_graph([_graph(net, _whole(chain)) for chain in chains])
    return _run(graph, {net.input_name: inputs.examples.numpy()}), mean.log().numpy()


def _whole(chain: Chain) -> Part:
    if len(chain.parts) == 1:
        return chain.parts[0]
    return Part("model", {name: value for part in chain.parts for name, value in part.params.items()}, shared=True)
