"""The net for a beat in its context: RR features of version 3, and 1.6 s of the lead around the beat."""

from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from ecgfed.core.nets.layers import Initialiser, Params, is_exported, linear
from ecgfed.core.nets.net import Inputs
from ecgfed.core.nets.resnet1d import CONTEXT_SCALE, SHAPE_STEP, ResNet1d

#: Where the RR features of version 3 (``ecgfed.domain.beats.strip.FEATURES``, which a net does not know) lie: those of
#: version 2, the median size of the QRS, the strip before and after the window, and its difference to the median strip.
CONTEXT, BEFORE, AFTER, STRIP = len(CONTEXT_SCALE), 47, 33, 144
BESIDE, DIFFERENCE = CONTEXT + 1, CONTEXT + 1 + BEFORE + AFTER
#: The median size of the QRS counts as within these, in mV; a beat in units of it lies within the limit.
SIZE_MV, LIMIT = (0.02, 1000.0), 10.0


class ContextNet(ResNet1d):
    """A 1-D ResNet over two channels of 144 samples: the strip, and its difference to the patient's median strip.

    The RR features of version 2 pass through a hidden layer beside it. ``window_share`` is the share of the
    convolutions.
    """

    channels_in: ClassVar[int] = 2

    def draw_rr(self, draw: Initialiser) -> None:
        draw.linear("extractor.rr_hidden", len(self.rr_columns), self.features)
        draw.linear("extractor.rr", self.features, self.features, gain=1.0)

    def signal(self, inputs: Inputs) -> Tensor:
        """The strip in units of the QRS, its difference to the median strip, (B, 2, 144); in a graph (B, 2, 1, 144)."""
        rr = self._rr(inputs)
        beat = inputs.examples.reshape(-1, STRIP - BEFORE - AFTER, SHAPE_STEP).mean(2)
        beat = (beat / rr[:, CONTEXT:BESIDE].clamp(*SIZE_MV)).clamp(-LIMIT, LIMIT)
        before, after = rr[:, BESIDE : BESIDE + BEFORE], rr[:, BESIDE + BEFORE : DIFFERENCE]
        signal = torch.stack([torch.cat([before, beat, after], 1), rr[:, DIFFERENCE:]], 1)
        return signal.unsqueeze(2) if is_exported() else signal

    def of_rr(self, params: Params, rr: Tensor) -> Tensor:
        context = self._scaled(rr[:, : len(self.rr_columns)])
        return linear(params, "extractor.rr", F.relu(linear(params, "extractor.rr_hidden", context)))
