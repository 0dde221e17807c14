r"""The global model, told which classes this patient has: nothing is trained, one bias changes.

``masked`` answers only with classes among the patient's own beats. ``prior`` moves the class shares from everybody's to
the patient's (Saerens, Latinne and Decaestecker 2002, equation 2.4, shares known):

.. math:: p_m(c \mid x) \propto p(c \mid x) \, \frac{N_{m,c} + 1}{N_m + C} \Big/ \frac{N_c}{N}

with one beat added to each class, so that what the patient never had can still be answered. Everybody's class shares
have to be known for it.
"""

from typing import ClassVar

import torch
from torch import Tensor

from ecgfed.methods.answers import Chain, Part
from ecgfed.nets.layers import Params
from ecgfed.nets.net import Net
from ecgfed.nets.parts import extractor_of, head_of
from ecgfed.personal.base import NEVER, OwnBeats, Personal


def with_bias(model: Params, added: Tensor) -> Chain:
    """The global model with ``added`` (classes,) on its logits: extractor shared, head the patient's."""
    head = head_of(model)
    own = {**head, "head.out.bias": head["head.out.bias"] + added.to(head["head.out.bias"].dtype)}
    return Chain((Part("extractor", extractor_of(model), shared=True), Part("head", own, shared=False)))


class Masked(Personal):
    """Only classes the patient has had."""

    name: ClassVar[str] = "masked"
    title: ClassVar[str] = "global model, masked to the patient's classes"

    def fit(self, net: Net, model: Params, own: OwnBeats) -> Chain:
        """Return the global model with classes ruled out that the patient has no beat of (see ``Personal.fit``)."""
        return with_bias(model, torch.where(own.known, 0.0, -NEVER))


class PriorAdjusted(Personal):
    """The patient's class shares in place of everybody's."""

    name: ClassVar[str] = "prior"
    title: ClassVar[str] = "global model, moved to the patient's class shares"
    reference: ClassVar[str] = "Saerens et al. 2002"

    def fit(self, net: Net, model: Params, own: OwnBeats) -> Chain:
        """Return the global model with its logits moved by the logarithms of the shares (see ``Personal.fit``)."""
        patient, everyone = own.counts.double() + 1.0, own.everyone.double()
        shift = (patient / patient.sum()).log() - everyone.clamp_min(1e-12).log()
        return with_bias(model, torch.where(everyone > 0, shift, torch.zeros_like(shift)))
