"""The 1-D ResNets for beats: stem and two residual blocks of two convolutions, mean over time, two-layer head.

After the GRP-FED paper's "5-layer 1D ResNet" (He et al. 2016); widths and strides are ours (shared design).
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from ecgfed.errors import OptionError
from ecgfed.nets.layers import (
    GROUPS,
    Initialiser,
    Params,
    channels_last,
    conv,
    linear,
    mean_over_time,
    norm,
    part_of,
    standardise,
)

NORMS = ("group", "batch", "none")


@dataclass(frozen=True)
class Plan:
    """(channels, kernel, stride) of the stem and of each block, and the head's hidden features."""

    stem: tuple[int, int, int]
    blocks: tuple[tuple[int, int, int], ...]
    hidden: int = 64


PLANS = {
    "default": Plan(stem=(24, 7, 4), blocks=((40, 5, 2), (64, 3, 2))),
    "reference": Plan(stem=(32, 7, 2), blocks=((64, 5, 2), (96, 3, 2))),
}
#: Typical values that bring RR features near zero: seconds, seconds, seconds, ratio.
RR_CENTRE = (0.8, 0.8, 0.8, 1.0)
RR_SCALE = (0.3, 0.3, 0.3, 0.3)
RR_LIMIT = 5.0


@dataclass(frozen=True)
class NetSpec:
    """Everything that decides a net's shape; written into runs and bundles.

    Attributes:
        classes: number of classes.
        plan: ``default`` or ``reference``.
        norm: ``group``, ``batch`` or ``none``.
        rr: whether RR features are a second input.
        width: scales all channels (to a multiple of 8).
    """

    classes: int
    plan: str = "default"
    norm: str = "group"
    rr: bool = False
    width: float = 1.0

    def __post_init__(self) -> None:
        if self.plan not in PLANS:
            raise OptionError("--net", f"{self.plan!r}", f"one of {', '.join(PLANS)}")
        if self.norm not in NORMS:
            raise OptionError("--norm", f"{self.norm!r}", f"one of {', '.join(NORMS)}")
        if not 0.1 <= self.width <= 16:
            raise OptionError("--width", f"{self.width}", "0.1 to 16")

    def as_json(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return asdict(self)


@dataclass(frozen=True)
class Inputs:
    """What a net sees of a batch.

    Attributes:
        window: (B, 1, 256) float32 millivolt, filtered, not normalised.
        rr: (B, 4) float32, or None for a net without RR.
        weight: (B,) float32, 0 for rows that only fill the batch up, or None when every row counts. BatchNorm's
            statistics and the risks look at it.
    """

    window: Tensor
    rr: Tensor | None = None
    weight: Tensor | None = None


class ResNet1d:
    """The functions of one net. It holds no parameters: they are ``Params`` with names ``extractor.*``, ``head.*``.

    The parts of a net, by role: ``extractor`` (Inputs -> features (B, features)), ``head`` (features -> logits
    (B, classes)), ``model`` (Inputs -> logits), ``decoupled`` (Inputs -> logits of a model with a personal head beside
    the generic one, Fed-RoD).
    """

    def __init__(self, spec: NetSpec) -> None:
        self.spec = spec
        plan = PLANS[spec.plan]

        def scaled(channels: int) -> int:
            return max(GROUPS, round(channels * spec.width / GROUPS) * GROUPS)

        self.stem = (scaled(plan.stem[0]), *plan.stem[1:])
        self.blocks = tuple((scaled(channels), kernel, stride) for channels, kernel, stride in plan.blocks)
        self.features = self.blocks[-1][0]
        self.hidden = scaled(plan.hidden)
        self.roles: dict[str, Callable[..., Tensor]] = {
            "extractor": self.extract, "head": self.classify, "model": self.logits, "decoupled": self.decoupled_logits,
        }  # fmt: skip

    def initial(self, seed: int) -> Params:
        """Draw initial parameters, float32; the same seed gives the same bits."""
        draw = Initialiser(seed)
        channels, kernel, _ = self.stem
        draw.conv("extractor.stem", 1, channels, kernel)
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
            draw.linear("extractor.rr", len(RR_CENTRE), self.features, gain=1.0)
        draw.linear("head.hidden", self.features, self.hidden)
        draw.linear("head.out", self.hidden, self.spec.classes, gain=1.0)
        return draw.params

    def extract(self, params: Params, inputs: Inputs, stats: Params | None = None) -> Tensor:
        """Features (B, features) of a batch; ``stats``: see ``ecgfed.nets.layers.norm``."""
        kind, rows = self.spec.norm, inputs.weight
        x = conv(params, "extractor.stem", channels_last(standardise(inputs.window)), stride=self.stem[2])
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
            if inputs.rr is None:
                raise ValueError("this net was built with RR features and needs them as input")
            centre = inputs.rr.new_tensor(RR_CENTRE)
            scale = inputs.rr.new_tensor(RR_SCALE)
            rr = ((inputs.rr - centre) / scale).clamp(-RR_LIMIT, RR_LIMIT)
            features = features + linear(params, "extractor.rr", rr)
        return features

    def classify(self, params: Params, features: Tensor) -> Tensor:
        """Logits (B, classes) of features (B, features)."""
        return linear(params, "head.out", F.relu(linear(params, "head.hidden", features)))

    def logits(self, params: Params, inputs: Inputs, stats: Params | None = None) -> Tensor:
        """Logits (B, classes) of a batch, extractor and head in one."""
        return self.classify(params, self.extract(params, inputs, stats))

    def decoupled_logits(self, params: Params, inputs: Inputs, stats: Params | None = None) -> Tensor:
        """Logits (B, classes) of generic and personal head together; ``params`` holds ``personal.*`` too."""
        features = self.extract(params, inputs, stats)
        return self.classify(params, features) + linear(params, "personal", features)


def extractor_of(params: Params) -> Params:
    """Return the extractor's entries of a net's parameters."""
    return part_of(params, "extractor")


def head_of(params: Params) -> Params:
    """Return the classifier head's entries of a net's parameters."""
    return part_of(params, "head")


def count_parameters(params: Params) -> int:
    """Return the number of values, running statistics included."""
    return sum(torch.numel(value) for value in params.values())
