"""Personal where it knows, global where it does not: the patient's kernel machine, and a gate to the global model.

The gate looks at two things (``ecgfed.nets.own_head`` has the equation): how far a beat lies from the patient's own,
against how far those lie from one another; and how much the global model has against the personal answer. A class that
the patient never had is answered only above all that the patient's own beats have ever looked like it (``reserve``).
"""

from typing import ClassVar

import torch
from torch import Tensor

from ecgfed.methods.answers import Chain, Part
from ecgfed.nets.layers import Params
from ecgfed.nets.net import Net
from ecgfed.nets.own_head import squared_distances
from ecgfed.nets.parts import extractor_of, head_of
from ecgfed.personal.base import OwnBeats, Personal, descriptions_of
from ecgfed.personal.kernel import fit_kernel

#: kappa, lambda and theta, chosen on validation beats with tau and reserve of training beats alone.
SLOPE, TRUST, THRESHOLD = 3.0, 1.0, 5.0
#: A foreign class has to stand so far (logits) above all that the patient's own beats ever said of it: one beat called
#: by a foreign name costs a patient of a single class half of its macro-F1.
MARGIN = 0.5
#: alpha: how far the global model's logits back the kernel machine among the patient's own classes.
BACKING = 0.25
#: tau is the distance that this share of the patient's own beats lie within.
WITHIN = 0.95
#: tau squared is at least this, in the unit in which the patient's beats have a variance of 1; measured on MIT-BIH: .07
#: to 1.2. Below it rounding on a device would count.
LEAST_REACH = 0.05


class Gated(Personal):
    """The patient's kernel machine near its own beats, the global model elsewhere."""

    name: ClassVar[str] = "gated"
    title: ClassVar[str] = "own kernel machine near own beats, global model elsewhere"

    def fit(self, net: Net, model: Params, own: OwnBeats) -> Chain:
        """Fit kernel machine and gate; returns the shared extractor and a part ``gated`` (see ``Personal.fit``)."""
        described = descriptions_of(net, model, own.train)
        params, square = fit_kernel(net, described, own.train.label, own.classes)
        nearest = square.amin(1)
        if own.valid is not None:
            beside = descriptions_of(net, model, own.valid)
            described = torch.cat([described, beside])
            nearest = torch.cat([nearest, squared_distances(params, beside).amin(1).double()])
        head = head_of(model)
        with torch.inference_mode():
            logits = net.classify(head, described[:, : net.features])
        gate = {
            "gate.reserve": reserve(logits, own.known),
            "gate.reach": _one(reach(nearest)),
            "gate.slope": _one(SLOPE),
            "gate.trust": _one(TRUST),
            "gate.backing": _one(BACKING),
            "gate.threshold": _one(THRESHOLD),
        }
        own_part = Part("gated", {**params, **head, **gate}, shared=False)
        return Chain((Part("describer", extractor_of(model), shared=True), own_part))


def _one(value: float) -> Tensor:
    return torch.tensor([value], dtype=torch.float32)


def reach(nearest: Tensor) -> float:
    """tau squared: within it lie 95% of the patient's own beats, for squared distances (beats,) to the nearest kept.

    A patient of one beat has no neighbour: everything is far then.
    """
    found = nearest[torch.isfinite(nearest)]
    return max(float(torch.quantile(found, WITHIN)), LEAST_REACH) if len(found) else LEAST_REACH


def reserve(logits: Tensor, known: Tensor) -> Tensor:
    """r (classes,): by how much the patient's own beats have most looked like a class it never had, and ``MARGIN``.

    It is 0 for the patient's own classes.

    Args:
        logits: (beats, classes) of the global model for the patient's own beats.
        known: (classes,) bool, the patient's classes.
    """
    best_known = logits.masked_fill(~known, -torch.inf).amax(1, keepdim=True)
    excess = (logits - best_known).amax(0).clamp_min(0.0) + MARGIN
    return torch.where(known, torch.zeros_like(excess), excess)
