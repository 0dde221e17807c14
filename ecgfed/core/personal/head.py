"""A personal linear head on frozen features: multinomial logistic regression on the patient's beats."""

from typing import ClassVar

from ecgfed.core.methods.models import Pipeline, Stage
from ecgfed.core.nets.layers import Params
from ecgfed.core.nets.net import Net
from ecgfed.core.nets.parts import extractor_of
from ecgfed.core.personal.base import PatientBeats, Personal, features_of
from ecgfed.core.personal.softmax_fit import fit_softmax

RIDGE, EVENNESS = 1e-3, 0.5
#: Added to a feature's variance before standardisation.
FLOOR = 1e-6


class Head(Personal):
    """A personal linear head."""

    name: ClassVar[str] = "head"
    title: ClassVar[str] = "frozen features, own linear head"

    def fit(self, net: Net, model: Params, beats: PatientBeats) -> Pipeline:
        """Fit a linear head; return the shared extractor and a stage ``linear`` (see ``Personal.fit``)."""
        features = features_of(net, model, beats.train)
        mean = features.mean(0)
        scale = (features.var(0, correction=0) + FLOOR).rsqrt()
        weight, bias = fit_softmax(
            (features - mean) * scale, beats.train.label, beats.classes, ridge=RIDGE, evenness=EVENNESS
        )
        weight = weight * scale  # for features that are not standardised
        params = {"own.weight": weight, "own.bias": bias - weight @ mean}
        return Pipeline((Stage("extractor", extractor_of(model), shared=True), Stage("linear", params, shared=False)))
