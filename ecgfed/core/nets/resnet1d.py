"""The 1-D ResNets for beats: stem and two residual blocks of two convolutions, mean over time, two-layer head.

After the GRP-FED paper's "5-layer 1D ResNet" (He et al. 2016); widths and strides are ours (shared design).
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from ecgfed.core.nets.layers import (
    Initialiser,
    Params,
    channels_last,
    constant,
    conv,
    is_exported,
    linear,
    mean_over_time,
    norm,
    standardise,
)
from ecgfed.core.nets.net import Inputs, Net, NetSpec


@dataclass(frozen=True)
class Architecture:
    """(channels, kernel, stride) of the stem and of each block, and the head's hidden features."""

    stem: tuple[int, int, int]
    blocks: tuple[tuple[int, int, int], ...]
    hidden: int = 64


ARCHITECTURES = {
    "default": Architecture(stem=(24, 7, 4), blocks=((40, 5, 2), (64, 3, 2))),
    "reference": Architecture(stem=(32, 7, 2), blocks=((64, 5, 2), (96, 3, 2))),
    "context": Architecture(stem=(24, 5, 1), blocks=((40, 5, 2), (64, 3, 2))),
}
#: Typical values that bring RR features of version 1 near zero: seconds, seconds, seconds, ratio.
RR_CENTRE = (0.8, 0.8, 0.8, 1.0)
RR_SCALE = (0.3, 0.3, 0.3, 0.3)
RR_LIMIT = 5.0
#: Those of version 2 come centred and clipped. These bring them to a deviation of about one over the DS1 patients (in
#: the order of ``ecgfed.domain.beats.context.FEATURES``): the rules are rarely anything but 0, and would be learned
#: last.
CONTEXT_SCALE = (1.0, 1.0, 1.0, 1.0, 2.0, 3.0, 1.7, 1.3, 3.0, 3.0, 5.5, 1.3, 2.0, 2.0, 2.0, 5.0)
#: Samples of a window that one number of its shape is the mean of: what was filtered to 40 Hz needs 90 Hz at most.
SHAPE_STEP = 4


class ResNet1d(Net):
    """A 1-D ResNet: windows (B, 1, 256) in millivolt, and RR features where it was built with them."""

    input_name: str = "window"
    input_shape: tuple[int, ...] = (1, 256)
    input_type: torch.dtype = torch.float32
    shape_size: ClassVar[int] = input_shape[1] // SHAPE_STEP
    #: channels of ``signal``
    channels_in: ClassVar[int] = 1

    def __init__(self, spec: NetSpec) -> None:
        architecture = ARCHITECTURES[spec.architecture]
        self.stem = (spec.scaled(architecture.stem[0]), *architecture.stem[1:])
        self.blocks = tuple((spec.scaled(channels), kernel, stride) for channels, kernel, stride in architecture.blocks)
        super().__init__(spec, self.blocks[-1][0], spec.scaled(architecture.hidden))

    def draw_extractor(self, draw: Initialiser) -> None:
        """Draw the entries ``extractor.*`` into ``draw``, float32, in the order that its seed's bits depend on."""
        channels, kernel, _ = self.stem
        draw.conv("extractor.stem", self.channels_in, channels, kernel)
        draw.norm("extractor.stem_norm", channels, self.spec.norm)
        for i, (out, kernel, _) in enumerate(self.blocks):
            block = f"extractor.block{i}"
            draw.conv(f"{block}.conv0", channels, out, kernel)
            draw.norm(f"{block}.norm0", out, self.spec.norm)
            draw.conv(f"{block}.conv1", out, out, kernel)
            draw.norm(f"{block}.norm1", out, self.spec.norm)
            draw.conv(f"{block}.skip", channels, out, 1)
            channels = out
        if self.spec.rr:
            self.draw_rr(draw)

    def draw_rr(self, draw: Initialiser) -> None:
        """Draw the layer that the RR features pass through."""
        draw.linear("extractor.rr", len(self.rr_columns), self.features, gain=1.0)

    def extract(self, params: Params, inputs: Inputs, stats: Params | None = None) -> Tensor:
        kind, rows = self.spec.norm, inputs.weight
        signal = self.signal(inputs)
        x = conv(params, "extractor.stem", signal if is_exported() else channels_last(signal), stride=self.stem[2])
        x = F.relu_(norm(params, "extractor.stem_norm", x, kind, stats, rows))
        for i, (_, _, stride) in enumerate(self.blocks):
            block = f"extractor.block{i}"
            y = conv(params, f"{block}.conv0", x, stride=stride)
            y = F.relu_(norm(params, f"{block}.norm0", y, kind, stats, rows))
            y = conv(params, f"{block}.conv1", y)
            y = norm(params, f"{block}.norm1", y, kind, stats, rows)
            x = F.relu_(y.add_(conv(params, f"{block}.skip", x, stride=stride)))
        features = mean_over_time(x)
        if self.spec.rr:
            if self.spec.window_share != 1:
                features = self.spec.window_share * features
            features = features + self.of_rr(params, self._rr(inputs))
        return features

    @property
    def rr_columns(self) -> range:
        """Numbers of the RR features that the net takes: of version 3 those of version 2."""
        return range(min(self.spec.rr_count, len(CONTEXT_SCALE)))

    def _rr(self, inputs: Inputs) -> Tensor:
        """The RR features (B, features); raises ValueError where there are none."""
        if inputs.rr is None:
            raise ValueError("this net was built with RR features and needs them as input")
        return inputs.rr

    def signal(self, inputs: Inputs) -> Tensor:
        """What is convolved: the standardised window, (B, 1, 256); in a graph (B, 1, 1, 256)."""
        return self._standardised(inputs.examples)

    def of_rr(self, params: Params, rr: Tensor) -> Tensor:
        """What the RR features add to the features, (B, features)."""
        return linear(params, "extractor.rr", self._scaled(rr[:, : len(self.rr_columns)]))

    def _standardised(self, window: Tensor) -> Tensor:
        """The standardised window, (B, 1, 256); in a graph (B, 1, 1, 256), so that its one Reshape stands in front."""
        return standardise(channels_last(window) if is_exported() else window)

    def shape(self, inputs: Inputs) -> Tensor:
        """The standardised window in steps of 4 samples (11 ms), (B, 64)."""
        return self._standardised(inputs.examples).reshape(-1, self.shape_size, SHAPE_STEP).mean(2)

    def _scaled(self, rr: Tensor) -> Tensor:
        """RR features as the net takes them in; only version 1 is of seconds."""
        if self.spec.rr_version != 1:
            return rr * constant(CONTEXT_SCALE, rr)
        centre, scale = constant(RR_CENTRE, rr), constant(RR_SCALE, rr)
        return ((rr - centre) / scale).clamp(-RR_LIMIT, RR_LIMIT)
