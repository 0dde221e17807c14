"""The nets for 32 x 32 images: ResNet-30, and the ConvNets of the Fed-RoD and the FedABC paper.

Pixels are taken as they are stored, 0 to 255; normalisation is the first layer, so it is inside every exported graph.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from ecgfed.core.nets.layers import Initialiser, Params, conv2d, is_mapped, linear, mean_over_pixels, norm
from ecgfed.core.nets.net import Inputs, Net, NetSpec

#: Mean and standard deviation of CIFAR-10's 50,000 training images by channel, of pixels divided by 255.
PIXEL_MEAN = (0.4914, 0.4822, 0.4465)
PIXEL_STD = (0.2470, 0.2435, 0.2616)


def normalised(image: Tensor, like: Tensor) -> Tensor:
    """Pixels (B, 3, H, W) 0 to 255 to zero mean and unit deviation by channel, in the type of ``like``."""
    # channel by channel with plain numbers, which need no copy to the device
    channels = [
        image[:, c : c + 1].to(like.dtype) * (1 / (255 * std)) - mean / std
        for c, (mean, std) in enumerate(zip(PIXEL_MEAN, PIXEL_STD, strict=True))
    ]
    return torch.cat(channels, dim=1)


class ImageNet(Net):
    """What the nets for images share: (B, 3, 32, 32) uint8 in, as ``Inputs.examples``."""

    input_name: str = "image"
    input_shape: tuple[int, ...] = (3, 32, 32)
    input_type: torch.dtype = torch.uint8

    def pixels(self, inputs: Inputs, like: Tensor) -> Tensor:
        """Normalised pixels (B, 3, 32, 32) in the type of ``like``, in the fastest memory layout.

        oneDNN's layout, which all layers keep, makes a step 10 to 20% faster (see also docs/decisions/0011); mapped
        over clients, convolutions are grouped and it does not, and torch's GroupNorm is less exact in it (logits of a
        ResNet-30 to 5e-5 instead of 4e-6 of ONNX Runtime's).
        """
        pixels = normalised(inputs.examples, like)
        if is_mapped() or self.spec.norm == "group":
            return pixels
        return pixels.contiguous(memory_format=torch.channels_last)


class ResNet30(ImageNet):
    """Stem and 14 blocks of two 3x3 convolutions (5, 5 and 4 of widths 16, 32, 64), mean over pixels, two-layer head.

    After He et al. 2016, section 4.2, of whose sizes (6n + 2 layers) 30 is none: the GRP-FED paper does not say which
    blocks it means, the shared design does (1 + 28 convolutions and a linear layer; the head here is the paper's two).
    The first block of widths 32 and 64 halves the image and has a 1x1 convolution as its skip.
    """

    WIDTHS: ClassVar[tuple[int, ...]] = (16, 32, 64)
    BLOCKS: ClassVar[tuple[int, ...]] = (5, 5, 4)
    HIDDEN: ClassVar[int] = 64

    def __init__(self, spec: NetSpec) -> None:
        widths = [spec.scaled(width) for width in self.WIDTHS]
        #: (channels in, channels out, stride) of each block
        self.blocks: list[tuple[int, int, int]] = []
        channels = widths[0]
        for stage, (width, count) in enumerate(zip(widths, self.BLOCKS, strict=True)):
            for i in range(count):
                self.blocks.append((channels, width, 2 if stage and not i else 1))
                channels = width
        super().__init__(spec, widths[-1], spec.scaled(self.HIDDEN))

    def draw_extractor(self, draw: Initialiser) -> None:
        """Draw the entries ``extractor.*`` into ``draw``, float32, in the order that its seed's bits depend on."""
        kind = self.spec.norm
        draw.conv("extractor.stem", 3, self.blocks[0][0], 3, axes=2)
        draw.norm("extractor.stem_norm", self.blocks[0][0], kind)
        for i, (into, out, stride) in enumerate(self.blocks):
            block = f"extractor.block{i}"
            draw.conv(f"{block}.conv0", into, out, 3, axes=2)
            draw.norm(f"{block}.norm0", out, kind)
            draw.conv(f"{block}.conv1", out, out, 3, axes=2)
            draw.norm(f"{block}.norm1", out, kind)
            if stride != 1:
                draw.conv(f"{block}.skip", into, out, 1, axes=2)

    def extract(self, params: Params, inputs: Inputs, stats: Params | None = None) -> Tensor:
        kind, rows = self.spec.norm, inputs.weight
        x = conv2d(params, "extractor.stem", self.pixels(inputs, params["extractor.stem.weight"]))
        x = F.relu(norm(params, "extractor.stem_norm", x, kind, stats, rows))
        for i, (_, _, stride) in enumerate(self.blocks):
            block = f"extractor.block{i}"
            y = conv2d(params, f"{block}.conv0", x, stride=stride)
            y = F.relu(norm(params, f"{block}.norm0", y, kind, stats, rows))
            y = norm(params, f"{block}.norm1", conv2d(params, f"{block}.conv1", y), kind, stats, rows)
            x = F.relu(y + (x if stride == 1 else conv2d(params, f"{block}.skip", x, stride=stride)))
        return mean_over_pixels(x)


@dataclass(frozen=True)
class ConvArchitecture:
    """Convolutions of 5x5, each with ReLU and 2x2 max pooling; a linear layer behind them; the head's hidden layer."""

    channels: tuple[int, ...]
    linear: int
    hidden: int


CONV_ARCHITECTURES = {
    # Fed-RoD, appendix C: 3 convolutions and 2 linear layers of 64; its heads are one linear layer each.
    "convnet3": ConvArchitecture((64, 64, 64), 64, 0),
    # FedABC, experiments: 2 convolutions of 64 channels, linear layers of 120, 64 and the classes.
    "convnet2": ConvArchitecture((64, 64), 120, 64),
}
CONV_KERNEL = 5


class ConvNet(ImageNet):
    """The papers' ConvNets (``CONV_ARCHITECTURES``), after LeCun et al. 1998.

    Neither paper says kernel, padding or pooling: here 5x5 as in McMahan et al. 2017, padded to the same size, and 2x2
    max pooling. Fed-RoD's table 6 gives its extractor 1,025,610 parameters; these layers have 275,392 (docs/decisions/
    0015). ``--norm`` puts a normalisation behind each convolution; the papers have none.
    """

    def __init__(self, spec: NetSpec) -> None:
        self.architecture = CONV_ARCHITECTURES[spec.architecture]
        self.channels = tuple(spec.scaled(channels) for channels in self.architecture.channels)
        hidden = self.architecture.hidden
        super().__init__(spec, spec.scaled(self.architecture.linear), spec.scaled(hidden) if hidden else 0)

    def draw_extractor(self, draw: Initialiser) -> None:
        """Draw the entries ``extractor.*`` into ``draw``, float32, in the order that its seed's bits depend on."""
        into, side = self.input_shape[0], self.input_shape[1]
        for i, out in enumerate(self.channels):
            draw.conv(f"extractor.conv{i}", into, out, CONV_KERNEL, axes=2, bias=True)
            draw.norm(f"extractor.norm{i}", out, self.spec.norm)
            into, side = out, side // 2
        draw.linear("extractor.linear", into * side * side, self.features)

    def extract(self, params: Params, inputs: Inputs, stats: Params | None = None) -> Tensor:
        x = self.pixels(inputs, params["extractor.linear.weight"])
        for i in range(len(self.channels)):
            x = conv2d(params, f"extractor.conv{i}", x)
            x = norm(params, f"extractor.norm{i}", x, self.spec.norm, stats, inputs.weight)
            x = F.max_pool2d(F.relu(x), 2)
        return F.relu(linear(params, "extractor.linear", x.flatten(1)))
