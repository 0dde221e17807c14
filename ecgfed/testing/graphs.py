"""Logits of exported graphs, run as on a device, and of torch for comparison."""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from numpy.typing import NDArray

from ecgfed.core.evaluation.predict import chain_logits
from ecgfed.core.methods.models import Model, Pipeline, Stage
from ecgfed.core.nets.net import Inputs, Net, NetSpec
from ecgfed.exports.bundles.graphs import GraphTemplate, ensemble_graph, finish
from ecgfed.exports.device.classifier import Classifier

_TEMPLATES: dict[tuple[NetSpec, str, tuple[tuple[str, torch.Size], ...]], GraphTemplate] = {}
_PROPERTIES = {"tool_version": "0"}


def _template(net: Net, stage: Stage) -> GraphTemplate:
    """Return the graph of a stage's role, traced once per process, net and role."""
    shapes = tuple(sorted((name, value.shape) for name, value in stage.params.items()))
    key = (net.spec, stage.role, shapes)
    if key not in _TEMPLATES:
        _TEMPLATES[key] = GraphTemplate(net, stage.role, stage.params)
    return _TEMPLATES[key]


def _graphs(net: Net, model: Model) -> list[bytes]:
    """Return a model's graphs, in order."""
    if isinstance(model, Pipeline):
        return [finish(_template(net, stage).fill(stage.params), _PROPERTIES) for stage in model.stages]
    members = []
    for pipeline in model.members:
        stage, *others = pipeline.stages
        if others:
            params = {name: value for part in pipeline.stages for name, value in part.params.items()}
            stage = Stage("model", params, shared=True)
        members.append(_template(net, stage).fill(stage.params))
    return [finish(ensemble_graph(members), _PROPERTIES)]


def exported_logits(net: Net, model: Model, inputs: Inputs) -> NDArray[np.float32]:
    """Return the logits (B, classes) that a device computes; of an ensemble the logarithm of the mean probability."""
    with TemporaryDirectory() as folder:
        paths = []
        for number, graph in enumerate(_graphs(net, model)):
            paths.append(Path(folder) / f"{number}.onnx")
            paths[-1].write_bytes(graph)
        device = Classifier(paths, tuple(map(str, range(net.spec.classes))), net.spec.rr_version if net.spec.rr else 0)
        return device.logits(inputs.examples.numpy(), None if inputs.rr is None else inputs.rr.numpy())


def expected_logits(net: Net, model: Model, inputs: Inputs) -> NDArray[np.float32]:
    """Return the logits that torch computes of the same model."""
    with torch.inference_mode():
        if isinstance(model, Pipeline):
            return np.asarray(chain_logits(net, model, inputs))
        probabilities = [torch.softmax(chain_logits(net, pipeline, inputs), dim=1) for pipeline in model.members]
        return np.asarray(torch.stack(probabilities).mean(0).log())
