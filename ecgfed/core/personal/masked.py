r"""The global model with a bias for the patient's classes; nothing is trained.

``masked`` predicts only classes of which the patient has beats. ``prior`` shifts the class priors from those of all
patients to the patient's (Saerens, Latinne and Decaestecker 2002, equation 2.4, priors known):

.. math:: p_m(c \mid x) \propto p(c \mid x) \, \frac{N_{m,c} + 1}{N_m + C} \Big/ \frac{N_c}{N}

with one beat added to each class, so that classes without beats can still be predicted. The class shares of all
patients have to be known.
"""

from typing import ClassVar

import torch
from torch import Tensor

from ecgfed.core.methods.models import Pipeline, Stage
from ecgfed.core.nets.layers import Params
from ecgfed.core.nets.net import Net
from ecgfed.core.nets.parts import extractor_of, head_of
from ecgfed.core.personal.base import NEVER, PatientBeats, Personal


def with_bias(model: Params, added: Tensor) -> Pipeline:
    """Return the global model with ``added`` (classes,) on its logits: shared extractor, personal head."""
    head = head_of(model)
    personal = {**head, "head.out.bias": head["head.out.bias"] + added.to(head["head.out.bias"].dtype)}
    return Pipeline((Stage("extractor", extractor_of(model), shared=True), Stage("head", personal, shared=False)))


class Masked(Personal):
    """Only classes of which the patient has beats."""

    name: ClassVar[str] = "masked"
    title: ClassVar[str] = "global model, masked to the patient's classes"

    def fit(self, net: Net, model: Params, beats: PatientBeats) -> Pipeline:
        """Return the global model without classes of which the patient has no beat (see ``Personal.fit``)."""
        return with_bias(model, torch.where(beats.known, 0.0, -NEVER))


class PriorAdjusted(Personal):
    """The patient's class priors in place of those of all patients."""

    name: ClassVar[str] = "prior"
    title: ClassVar[str] = "global model, moved to the patient's class shares"
    reference: ClassVar[str] = "Saerens et al. 2002"

    def fit(self, net: Net, model: Params, beats: PatientBeats) -> Pipeline:
        """Return the global model with its logits shifted by the log prior ratio (see ``Personal.fit``)."""
        patient, everyone = beats.counts.double() + 1.0, beats.everyone.double()
        shift = (patient / patient.sum()).log() - everyone.clamp_min(1e-12).log()
        return with_bias(model, torch.where(everyone > 0, shift, torch.zeros_like(shift)))
