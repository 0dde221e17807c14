"""A personal model of your own: the nearest of the patient's class means in the global model's features.

    ecgfed evaluate run --personal examples/nearest_mean.py:NearestMean --split valid
    ecgfed export run --personal examples/nearest_mean.py:NearestMean --out bundle

Snell et al., "Prototypical Networks for Few-shot Learning" (NeurIPS 2017), equation 2: the distance to a mean is, but
for a term that all classes share, linear in the features, so that the model is the shared extractor and a linear layer.
"""

from typing import ClassVar

import torch

from ecgfed.core.personal.base import NEVER, PatientBeats, Personal, features_of
from ecgfed.methods import Net, Params, Pipeline, Stage, extractor_of


class NearestMean(Personal):
    """The nearest class mean; a class without a beat of the patient is never predicted."""

    name: ClassVar[str] = "nearest-mean"
    title: ClassVar[str] = "nearest class mean in the global model's features"
    reference: ClassVar[str] = "Snell et al. 2017"

    def fit(self, net: Net, model: Params, beats: PatientBeats) -> Pipeline:
        features = features_of(net, model, beats.train)
        weight = torch.zeros(beats.classes, features.shape[1])
        bias = torch.full((beats.classes,), -NEVER)
        for number in beats.train.label.unique().tolist():
            mean = features[beats.train.label == number].mean(0)
            weight[number], bias[number] = mean, -mean.square().sum() / 2
        linear = Stage("linear", {"own.weight": weight, "own.bias": bias}, shared=False)
        return Pipeline((Stage("extractor", extractor_of(model), shared=True), linear))
