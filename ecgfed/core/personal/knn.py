"""kNN-Per (Marfoq et al., ICML 2022, arXiv 2111.09360): nearest neighbours among the patient's beats.

The patient's model (equation in ``ecgfed.core.nets.neighbours``) compares the frozen extractor's features of a beat
with those of the patient's training beats, its datastore, and mixes the classes of the nearest with the global model's
probabilities. The share of the neighbours, lambda, is the one of the grid with most correct validation beats, the
smallest of several.

Departures from the paper: the datastore has room for 512 beats, drawn at random where the patient has more; without
validation beats lambda is 0.5.
"""

from typing import ClassVar

import numpy as np
import torch

from ecgfed.core.methods.models import Pipeline, Stage
from ecgfed.core.nets.layers import Params
from ecgfed.core.nets.neighbours import neighbour_logits
from ecgfed.core.nets.net import Net
from ecgfed.core.nets.parts import extractor_of, head_of
from ecgfed.core.personal.base import PatientBeats, Personal, features_of

#: Beats in a datastore; 131 kB on a device with 64 features.
CAPACITY = 512
#: Coordinate of unused places: far from every beat whose features are below ``LARGE``, and multiplied for larger ones.
UNUSED, LARGE = 1e3, 100.0
#: Values of lambda, and the one without validation beats.
GRID, WITHOUT_VALID = tuple(i / 10 for i in range(11)), 0.5


def datastore(net: Net, model: Params, beats: PatientBeats) -> Params:
    """Return ``own.kept`` (CAPACITY, features) and ``own.weight`` (classes, CAPACITY)."""
    features, label = features_of(net, model, beats.train), beats.train.label
    if len(label) > CAPACITY:
        drawn = np.random.default_rng(list(beats.seed)).choice(len(label), CAPACITY, replace=False)
        features, label = features[drawn], label[drawn]
    kept = features.new_full((CAPACITY, net.features), UNUSED * max(1.0, float(features.abs().max()) / LARGE))
    weight = features.new_zeros(beats.classes, CAPACITY)
    kept[: len(label)] = features
    weight[label, torch.arange(len(label))] = 1.0
    return {"own.kept": kept, "own.weight": weight}


class Knn(Personal):
    """Nearest neighbours among the patient's beats, mixed with the global model."""

    name: ClassVar[str] = "knn"
    title: ClassVar[str] = "nearest neighbours among own beats, mixed with the global model"
    reference: ClassVar[str] = "Marfoq et al., ICML 2022"

    def fit(self, net: Net, model: Params, beats: PatientBeats) -> Pipeline:
        """Fill the datastore, choose lambda; return the shared extractor and a stage ``neighbours``."""
        head = head_of(model)
        params = {**datastore(net, model, beats), **head, "own.share": torch.tensor([WITHOUT_VALID])}
        if beats.valid is not None:
            features = features_of(net, model, beats.valid)
            with torch.inference_mode():
                logits = net.classify(head, features)
                correct = [
                    int((neighbour_logits(params | {"own.share": torch.tensor([share])}, features, logits).argmax(1)
                         == beats.valid.label).sum())
                    for share in GRID
                ]  # fmt: skip
            params["own.share"] = torch.tensor([GRID[int(np.argmax(correct))]])
        neighbours = Stage("neighbours", params, shared=False)
        return Pipeline((Stage("extractor", extractor_of(model), shared=True), neighbours))
