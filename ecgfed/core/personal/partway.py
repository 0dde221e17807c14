"""Interpolation between the global and the fine-tuned model, for patients who were not trained on.

Interpolated weights retain the global model's knowledge of classes that are not among the patient's few labels
(WiSE-FT: Wortsman et al., CVPR 2022). No validation beats are needed: number of steps and share are fixed.
"""

from typing import ClassVar

import torch

from ecgfed.core.methods.models import Pipeline, Stage
from ecgfed.core.nets.layers import Params
from ecgfed.core.nets.net import Net
from ecgfed.core.personal.base import PatientBeats, Personal
from ecgfed.core.personal.finetune import Stopping, fine_tune

#: Learning rate, steps, and share of the fine-tuned weights; tuned on MIT-BIH's DS1, five minutes of new patients.
LR, STEPS, SHARE = 0.01, 100, 0.7


class Partway(Personal):
    """Seven tenths of the way to the fine-tuned model."""

    name: ClassVar[str] = "partway"
    title: ClassVar[str] = "global model trained on, seven tenths of the way"
    reference: ClassVar[str] = "Wortsman et al., CVPR 2022"

    def fit(self, net: Net, model: Params, beats: PatientBeats) -> Pipeline:
        """Fine-tune the full net and interpolate; return one stage ``model`` (see ``Personal.fit``)."""
        training_only = PatientBeats(beats.train, None, beats.everyone, beats.seed)
        trained = fine_tune(net, model, training_only, Stopping(LR, STEPS, STEPS), dict)
        with torch.no_grad():
            interpolated = {
                name: value + SHARE * (trained[name] - value) if value.is_floating_point() else trained[name]
                for name, value in model.items()
            }
        return Pipeline((Stage("model", interpolated, shared=False),))
