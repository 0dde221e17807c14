"""The reference net as a PyTorch user writes it: modules, parameters by ecgfed's names. Needs torch only."""

from collections.abc import Iterable, Mapping

import numpy as np
import task as t
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

#: BatchNorm's count of batches: no part of the model, since its momentum is a constant here.
UNUSED = "num_batches_tracked"
#: As ecgfed's first layer (ecgfed.core.nets.layers.WINDOW_VARIANCE_FLOOR); the weight check would show a difference.
VARIANCE_FLOOR = 1e-4


class Standardise(nn.Module):
    """Each window to mean 0 and deviation 1; ecgfed's net begins with it, so the peers' does too."""

    def forward(self, window: Tensor) -> Tensor:
        """(B, 1, T) mV -> (B, 1, T)."""
        centred = window - window.mean(-1, keepdim=True)
        return centred * torch.rsqrt(centred.square().mean(-1, keepdim=True) + VARIANCE_FLOOR)


class Block(nn.Module):
    """Two convolutions with BatchNorm and a 1x1 skip without."""

    def __init__(self, channels: int, out: int, kernel: int, stride: int) -> None:
        super().__init__()
        self.conv0 = nn.Conv1d(channels, out, kernel, stride, kernel // 2, bias=False)
        self.norm0 = nn.BatchNorm1d(out)
        self.conv1 = nn.Conv1d(out, out, kernel, 1, kernel // 2, bias=False)
        self.norm1 = nn.BatchNorm1d(out)
        self.skip = nn.Conv1d(channels, out, 1, stride, bias=False)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        """(B, channels, T) -> (B, out, T / stride)."""
        y = self.relu(self.norm0(self.conv0(x)))
        return self.relu(self.norm1(self.conv1(y)) + self.skip(x))


class Extractor(nn.Module):
    """Stem, two blocks, mean over time."""

    def __init__(self) -> None:
        super().__init__()
        self.standardise = Standardise()
        self.stem = nn.Conv1d(1, 32, 7, 2, 3, bias=False)
        self.stem_norm = nn.BatchNorm1d(32)
        self.relu = nn.ReLU(inplace=True)
        self.block0 = Block(32, 64, 5, 2)
        self.block1 = Block(64, 96, 3, 2)

    def forward(self, window: Tensor) -> Tensor:
        """(B, 1, 256) -> (B, 96)."""
        x = self.relu(self.stem_norm(self.stem(self.standardise(window))))
        return self.block1(self.block0(x)).mean(-1)


class Head(nn.Module):
    """The two-layer classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden = nn.Linear(96, 64)
        self.out = nn.Linear(64, t.CLASSES)

    def forward(self, features: Tensor) -> Tensor:
        """(B, 96) -> (B, classes)."""
        return self.out(torch.relu(self.hidden(features)))


class ReferenceNet(nn.Module):
    """Extractor and head."""

    def __init__(self) -> None:
        super().__init__()
        self.extractor = Extractor()
        self.head = Head()

    def forward(self, window: Tensor) -> Tensor:
        """(B, 1, 256) -> (B, classes)."""
        return self.head(self.extractor(window))


def net_with(weights: Mapping[str, NDArray[np.float32]]) -> ReferenceNet:
    """Return the net with given weights, by ecgfed's names."""
    net = ReferenceNet()
    found = sum(p.numel() for p in net.parameters())
    if found != t.PARAMETERS:
        raise SystemExit(f"the peers' net has {found} parameters, not {t.PARAMETERS}")
    rest = net.load_state_dict({name: torch.from_numpy(value.copy()) for name, value in weights.items()}, strict=False)
    if rest.unexpected_keys or any(not name.endswith(UNUSED) for name in rest.missing_keys):
        raise SystemExit(f"the peers' net and ecgfed's differ: {rest}")
    return net


def weights_of(state: Mapping[str, Tensor]) -> dict[str, NDArray[np.float32]]:
    """Return a state dictionary's weights and running statistics, by ecgfed's names."""
    return {name: value.numpy() for name, value in state.items() if not name.endswith(UNUSED)}


def train_client(net: nn.Module, batches: Iterable[tuple[Tensor, Tensor]]) -> None:
    """One client's round in place, with torch's own optimizer."""
    optimizer = torch.optim.SGD(net.parameters(), lr=t.LEARNING_RATE, momentum=t.MOMENTUM)
    criterion = nn.CrossEntropyLoss()
    net.train()
    for window, label in batches:
        optimizer.zero_grad()
        criterion(net(window), label).backward()
        optimizer.step()
