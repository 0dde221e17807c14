"""Answers as exported graphs, run as a device runs them, beside torch."""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from numpy.typing import NDArray

from ecgfed.bundles.graphs import GraphTemplate, ensemble_graph, finish
from ecgfed.device.classifier import Classifier
from ecgfed.evaluation.predict import chain_logits
from ecgfed.methods.models import Model, Pipeline, Stage
from ecgfed.nets.net import Inputs, Net, NetSpec

_TEMPLATES: dict[tuple[NetSpec, str, tuple[tuple[str, torch.Size], ...]], GraphTemplate] = {}
_PROPERTIES = {"tool_version": "0"}


def _template(net: Net, part: Stage) -> GraphTemplate:
    """The graph of a part's role; the same net's same role is traced once in a process."""
    shapes = tuple(sorted((name, value.shape) for name, value in part.params.items()))
    key = (net.spec, part.role, shapes)
    if key not in _TEMPLATES:
        _TEMPLATES[key] = GraphTemplate(net, part.role, part.params)
    return _TEMPLATES[key]


def _graphs(net: Net, answer: Model) -> list[bytes]:
    """An answer's graphs, one after the other."""
    if isinstance(answer, Pipeline):
        return [finish(_template(net, part).fill(part.params), _PROPERTIES) for part in answer.stages]
    members = [_template(net, part).fill(part.params) for part in map(_whole, answer.members)]
    return [finish(ensemble_graph(members), _PROPERTIES)]


def _whole(chain: Pipeline) -> Stage:
    if len(chain.stages) == 1:
        return chain.stages[0]
    return Stage("model", {name: value for part in chain.stages for name, value in part.params.items()}, shared=True)


def exported_logits(net: Net, answer: Model, inputs: Inputs) -> NDArray[np.float32]:
    """Return the logits (B, classes) that a device computes; of an ensemble the logarithm of the mean probability."""
    with TemporaryDirectory() as folder:
        paths = []
        for number, graph in enumerate(_graphs(net, answer)):
            paths.append(Path(folder) / f"{number}.onnx")
            paths[-1].write_bytes(graph)
        device = Classifier(paths, tuple(map(str, range(net.spec.classes))), net.spec.rr_version if net.spec.rr else 0)
        return device.logits(inputs.examples.numpy(), None if inputs.rr is None else inputs.rr.numpy())


def expected_logits(net: Net, answer: Model, inputs: Inputs) -> NDArray[np.float32]:
    """Return what torch makes of the same answer."""
    with torch.inference_mode():
        if isinstance(answer, Pipeline):
            return np.asarray(chain_logits(net, answer, inputs))
        each = [torch.softmax(chain_logits(net, chain, inputs), dim=1) for chain in answer.members]
        return np.asarray(torch.stack(each).mean(0).log())
