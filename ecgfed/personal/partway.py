"""The global model trained on by the patient alone, and gone part of the way back: for a patient who is new to it.

Weights between the global and the trained-on ones keep what the global model knows of classes that the patient's few
labels do not show (WiSE-FT: Wortsman et al., CVPR 2022). No validation beats are needed: length and share are fixed.
"""

from typing import ClassVar

import torch

from ecgfed.methods.answers import Chain, Part
from ecgfed.nets.layers import Params
from ecgfed.nets.net import Net
from ecgfed.personal.base import OwnBeats, Personal
from ecgfed.personal.finetune import Stopping, train_on

#: Steps, and how much of the way is gone; chosen on MIT-BIH's DS1, five minutes of patients new to the model.
LR, STEPS, SHARE = 0.01, 100, 0.7


class Partway(Personal):
    """Seven tenths of the way to the model trained on."""

    name: ClassVar[str] = "partway"
    title: ClassVar[str] = "global model trained on, seven tenths of the way"
    reference: ClassVar[str] = "Wortsman et al., CVPR 2022"

    def fit(self, net: Net, model: Params, own: OwnBeats) -> Chain:
        """Train the whole net on and go back a part of the way; returns one part ``model`` (see ``Personal.fit``)."""
        alone = OwnBeats(own.train, None, own.everyone, own.seed)
        trained = train_on(net, model, alone, Stopping(LR, STEPS, STEPS), dict)
        with torch.no_grad():
            between = {
                name: value + SHARE * (trained[name] - value) if value.is_floating_point() else trained[name]
                for name, value in model.items()
            }
        return Chain((Part("model", between, shared=False),))
