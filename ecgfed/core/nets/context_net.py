"""The net for a beat in its context: RR features of version 3, and the window against the patient's own beat."""

from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from ecgfed.core.nets.layers import Initialiser, Params, constant, is_exported, linear
from ecgfed.core.nets.net import Inputs
from ecgfed.core.nets.resnet1d import CONTEXT_SCALE, SHAPE_STEP, ResNet1d

#: Where the RR features of version 3 (``ecgfed.domain.beats.neighbours.FEATURES``, which a net does not know) lie: of
#: the beat and of the rhythm around it, of three neighbours on either side, intervals, size and shape of the patient's
#: own beat.
OWN, RHYTHM, NEIGHBOURS, INTERVALS, REFERENCE = len(CONTEXT_SCALE), 18, 6, 34, 64
#: The size of the patient's own QRS counts as within these, in mV; a beat in units of it lies within the limit.
SIZE_MV, LIMIT = (0.02, 1000.0), 10.0


class ContextNet(ResNet1d):
    """A 1-D ResNet over three channels of 64 samples: the beat, the patient's own beat, and their difference.

    The RR features pass through a hidden layer beside it. ``window_share`` is the share of the convolutions.
    """

    channels_in: ClassVar[int] = 3

    @property
    def rr_columns(self) -> range:
        return range(OWN + RHYTHM + NEIGHBOURS * OWN + INTERVALS)

    def draw_rr(self, draw: Initialiser) -> None:
        draw.linear("extractor.rr_hidden", len(self.rr_columns), self.features)
        draw.linear("extractor.rr", self.features, self.features, gain=1.0)

    def signal(self, inputs: Inputs) -> Tensor:
        """The beat, its difference to the patient's own and that one, (B, 3, 64); in a graph (B, 3, 1, 64)."""
        rr = self._rr(inputs)
        first = len(self.rr_columns)
        size_mv, reference = rr[:, first : first + 1], rr[:, first + 1 : first + 1 + REFERENCE]
        beat = inputs.examples.reshape(-1, REFERENCE, SHAPE_STEP).mean(2)
        beat = (beat - beat.mean(1, keepdim=True)) / size_mv.clamp(*SIZE_MV)
        beat = beat.clamp(-LIMIT, LIMIT)
        reference = reference - reference.mean(1, keepdim=True)
        signal = torch.stack([beat, beat - reference, reference], 1)
        return signal.unsqueeze(2) if is_exported() else signal

    def of_rr(self, params: Params, rr: Tensor) -> Tensor:
        scale = CONTEXT_SCALE + (1.0,) * RHYTHM + NEIGHBOURS * CONTEXT_SCALE + (1.0,) * INTERVALS
        scaled = rr[:, : len(self.rr_columns)] * constant(scale, rr)
        return linear(params, "extractor.rr", F.relu(linear(params, "extractor.rr_hidden", scaled)))
