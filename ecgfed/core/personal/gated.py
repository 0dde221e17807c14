"""The patient's kernel machine near the patient's beats, the global model elsewhere, and a gate between them.

The gate (equation in ``ecgfed.core.nets.personal_head``) depends on the distance of a beat to the patient's beats,
relative to the distances among those, and on how strongly the global model contradicts the personal one. A class of
which the patient has no beat needs a larger logit than it has on any beat of the patient (``reserve``).
"""

from typing import ClassVar

import torch
from torch import Tensor

from ecgfed.core.methods.models import Pipeline, Stage
from ecgfed.core.nets.layers import Params
from ecgfed.core.nets.net import Net
from ecgfed.core.nets.parts import extractor_of, head_of
from ecgfed.core.nets.personal_head import squared_distances
from ecgfed.core.personal.base import PatientBeats, Personal, descriptions_of
from ecgfed.core.personal.kernel import fit_kernel

#: kappa, lambda and theta, chosen on validation beats with tau and reserve of training beats alone.
SLOPE, TRUST, THRESHOLD = 3.0, 1.0, 5.0
#: Margin (logits) of a class without beats above its largest logit on the patient's beats: a single beat wrongly
#: assigned to such a class halves the macro-F1 of a patient with one class.
MARGIN = 0.5
#: alpha: weight of the global model's logits in the kernel machine, among the patient's classes.
BACKING = 0.25
#: tau is this quantile of the distances of the patient's beats.
WITHIN = 0.95
#: Lower bound of tau squared, in units of the variance of the patient's beats; on MIT-BIH it is 0.07 to 1.2. Below it,
#: rounding on a device would matter.
MIN_REACH = 0.05


class Gated(Personal):
    """The patient's kernel machine near the patient's beats, the global model elsewhere."""

    name: ClassVar[str] = "gated"
    title: ClassVar[str] = "own kernel machine near own beats, global model elsewhere"

    def fit(self, net: Net, model: Params, beats: PatientBeats) -> Pipeline:
        """Fit kernel machine and gate; return the shared extractor and a stage ``gated`` (see ``Personal.fit``)."""
        described = descriptions_of(net, model, beats.train)
        params, square = fit_kernel(net, described, beats.train.label, beats.classes)
        nearest = square.amin(1)
        if beats.valid is not None:
            described_valid = descriptions_of(net, model, beats.valid)
            described = torch.cat([described, described_valid])
            nearest = torch.cat([nearest, squared_distances(params, described_valid).amin(1).double()])
        head = head_of(model)
        with torch.inference_mode():
            logits = net.classify(head, described[:, : net.features])
        gate = {
            "gate.reserve": reserve(logits, beats.known),
            "gate.reach": _scalar(reach(nearest)),
            "gate.slope": _scalar(SLOPE),
            "gate.trust": _scalar(TRUST),
            "gate.backing": _scalar(BACKING),
            "gate.threshold": _scalar(THRESHOLD),
        }
        gated = Stage("gated", {**params, **head, **gate}, shared=False)
        return Pipeline((Stage("describer", extractor_of(model), shared=True), gated))


def _scalar(value: float) -> Tensor:
    return torch.tensor([value], dtype=torch.float32)


def reach(nearest: Tensor) -> float:
    """Return tau squared, the 95% quantile of squared distances (beats,) to the nearest centre.

    With a single beat there is no distance, and tau is minimal.
    """
    finite = nearest[torch.isfinite(nearest)]
    return max(float(torch.quantile(finite, WITHIN)), MIN_REACH) if len(finite) else MIN_REACH


def reserve(logits: Tensor, known: Tensor) -> Tensor:
    """Return r (classes,): the largest excess of a class over the known ones on the patient's beats, plus ``MARGIN``.

    It is 0 for the patient's classes.

    Args:
        logits: (beats, classes) of the global model for the patient's beats.
        known: (classes,) bool, the patient's classes.
    """
    best_known = logits.masked_fill(~known, -torch.inf).amax(1, keepdim=True)
    excess = (logits - best_known).amax(0).clamp_min(0.0) + MARGIN
    return torch.where(known, torch.zeros_like(excess), excess)
