"""Nets of the papers' other data sets, as modules: digits, clothes, and CIFAR with any number of classes.

Bytes come as numbers from 0 to 1 (``ecgfed.core.nets.module_net``); here they are centred to -1 to 1, since Fed-RoD
says that images are normalised and not by what. Kernels of 5x5 are ours, as in ``ecgfed.core.nets.images``.
"""

import torch.nn.functional as F
from torch import Tensor, nn


def centred(image: Tensor) -> Tensor:
    """Values from 0 to 1 to -1 to 1."""
    return 2 * image - 1


class DigitConvNet(nn.Module):
    """Fed-RoD, appendix C: convolutions of 32 and 64 channels, linear layers of 50 and the classes; (B, 1, 28, 28).

    Its table 6 gives the extractor 92,646 parameters; these layers have 103,346.
    """

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.conv0, self.conv1 = nn.Conv2d(1, 32, 5), nn.Conv2d(32, 64, 5)
        self.linear, self.head = nn.Linear(1024, 50), nn.Linear(50, classes)

    def forward(self, image: Tensor) -> Tensor:
        """Return logits (B, classes)."""
        x = centred(image)
        for conv in (self.conv0, self.conv1):
            x = F.max_pool2d(F.relu(conv(x)), 2)
        logits: Tensor = self.head(F.relu(self.linear(x.flatten(1))))
        return logits


class CifarConvNet(nn.Module):
    """``convnet3`` for any number of classes: three 5x5 convolutions and a linear layer of 64; (B, 3, 32, 32)."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.conv0, self.conv1 = nn.Conv2d(3, 64, 5, padding=2), nn.Conv2d(64, 64, 5, padding=2)
        self.conv2 = nn.Conv2d(64, 64, 5, padding=2)
        self.linear, self.head = nn.Linear(1024, 64), nn.Linear(64, classes)

    def forward(self, image: Tensor) -> Tensor:
        """Return logits (B, classes)."""
        x = centred(image)
        for conv in (self.conv0, self.conv1, self.conv2):
            x = F.max_pool2d(F.relu(conv(x)), 2)
        logits: Tensor = self.head(F.relu(self.linear(x.flatten(1))))
        return logits


class DigitPerceptron(nn.Module):
    """FedABC, experiments: linear layers of 260, 200 and the classes; (B, 1, 28, 28)."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.linear0, self.linear1 = nn.Linear(784, 260), nn.Linear(260, 200)
        self.head = nn.Linear(200, classes)

    def forward(self, image: Tensor) -> Tensor:
        """Return logits (B, classes)."""
        x = F.relu(self.linear0(centred(image).flatten(1)))
        logits: Tensor = self.head(F.relu(self.linear1(x)))
        return logits
