"""A personal head on the global model's frozen features: multinomial logistic regression on the patient's beats."""

from typing import ClassVar

from ecgfed.methods.answers import Chain, Part
from ecgfed.nets.layers import Params
from ecgfed.nets.net import Net
from ecgfed.nets.parts import extractor_of
from ecgfed.personal.base import OwnBeats, Personal, features_of
from ecgfed.personal.softmax_fit import fit_softmax

RIDGE, EVENNESS = 1e-3, 0.5
#: Added to a feature's variance before it is divided by it.
FLOOR = 1e-6


class Head(Personal):
    """A linear head of the patient's own."""

    name: ClassVar[str] = "head"
    title: ClassVar[str] = "frozen features, own linear head"

    def fit(self, net: Net, model: Params, own: OwnBeats) -> Chain:
        """Fit a linear head; returns the shared extractor and a part ``linear`` (see ``Personal.fit``)."""
        features = features_of(net, model, own.train)
        mean = features.mean(0)
        scale = (features.var(0, correction=0) + FLOOR).rsqrt()
        weight, bias = fit_softmax(
            (features - mean) * scale, own.train.label, own.classes, ridge=RIDGE, evenness=EVENNESS
        )
        weight = weight * scale  # of the features as they come
        params = {"own.weight": weight, "own.bias": bias - weight @ mean}
        return Chain((Part("extractor", extractor_of(model), shared=True), Part("linear", params, shared=False)))
