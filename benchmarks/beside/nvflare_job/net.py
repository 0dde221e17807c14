"""The net of the job: a window of a heartbeat to its class."""

import torch
from torch import nn


class Net(nn.Module):
    """Classify a window of 256 samples into five classes."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(256, 160), nn.ReLU(), nn.Linear(160, 5))

    def forward(self, beats: torch.Tensor) -> torch.Tensor:
        """Return the logits, (beats, 5)."""
        return self.layers(beats)
