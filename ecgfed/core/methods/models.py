"""Trained models as data: a pipeline of stages, or an ensemble of pipelines."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from ecgfed.base.deprecation import renamed_fields
from ecgfed.core.nets.layers import Params


@dataclass(frozen=True)
class Stage:
    """One stage of a pipeline, exported as one graph.

    Attributes:
        role: what it computes, a key of the net's ``roles``: ``model``, ``extractor`` or ``head``.
        params: its parameters, running statistics included.
        shared: True if all patients use the same stage (it is exported once), False if it is one patient's own.
    """

    role: str
    params: Params
    shared: bool

    @property
    def identity(self) -> tuple[int, ...]:
        """Key that is equal for stages of the very same tensors, valid while these are in memory."""
        return tuple(id(value) for value in self.params.values())


@renamed_fields(since="0.3", removed="0.5", parts="stages")
@dataclass(frozen=True)
class Pipeline:
    """Stages applied in order: the first takes the net's inputs, the last returns logits (B, classes)."""

    stages: tuple[Stage, ...]


@dataclass(frozen=True)
class Ensemble:
    """Mean of the members' class probabilities (Liang et al. 2020, LG-FedAvg, section 3)."""

    members: tuple[Pipeline, ...]


Model = Pipeline | Ensemble


def with_offsets(model: Pipeline, offsets: Sequence[float]) -> Pipeline:
    """Return a model whose logits are higher by ``offsets``, (classes,): the bias of its output layer is."""
    *others, last = model.stages
    bias = last.params["head.out.bias"]
    moved = {**last.params, "head.out.bias": bias + torch.tensor(offsets, dtype=bias.dtype)}
    return Pipeline((*others, replace(last, params=moved)))


def combine_models(personal: Sequence[Pipeline], protocol: str) -> Model:
    """Combine personal models into a global one, for methods that do not train a global model.

    Args:
        personal: the patients' pipelines, of a model or of its parts: a patient who has not trained yet may have the
            whole model of the server where the others have an extractor and a head.
        protocol: ``ensemble`` (mean of probabilities, as in GRP-FED's comparison) or ``average`` (unweighted mean of
            weights, as in Fed-RoD's).
    """
    if protocol != "average":
        return Ensemble(tuple(personal))
    if len({tuple(stage.role for stage in pipeline.stages) for pipeline in personal}) > 1:
        whole = [
            {name: value for stage in member.stages for name, value in stage.params.items()} for member in personal
        ]
        personal = [Pipeline((Stage("model", params, shared=True),)) for params in whole]
    stages = []
    for members in zip(*(pipeline.stages for pipeline in personal), strict=True):
        mean = {name: torch.stack([stage.params[name] for stage in members]).mean(0) for name in members[0].params}
        stages.append(Stage(members[0].role, mean, shared=True))
    return Pipeline(tuple(stages))
