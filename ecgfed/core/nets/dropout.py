"""Dropout whose mask a batch decides, so that a run repeats, whatever the engine, the threads and a resume.

torch's generator is shared by threads. Here a mask is a hash (splitmix64, Steele et al. 2014) of the batch's examples
in their order, the number of the layer and the place: the same numbers one client at a time and stacked.
"""

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar

import torch
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd

from ecgfed.core.nets.net import Inputs

#: The layers of torch that are replaced.
DROPOUTS = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d)
_KEY: ContextVar[Tensor | None] = ContextVar("dropout_key", default=None)
#: splitmix64's constants as signed numbers: the increment, and two multipliers.
_STEP, _FIRST, _SECOND = -7046029254386353131, -4658895280553007687, -7723592293110705685
_BITS = 24


def _hash(value: Tensor) -> Tensor:
    """Return splitmix64 of int64 numbers; products wrap around."""
    value = value * _STEP
    value = (value ^ ((value >> 30) & ((1 << 34) - 1))) * _FIRST
    value = (value ^ ((value >> 27) & ((1 << 37) - 1))) * _SECOND
    return value ^ ((value >> 31) & ((1 << 33) - 1))


def _key_of(inputs: Inputs) -> Tensor:
    """Return a number, 0-d int64, of a batch's examples in their order; rows that pad it do not count."""
    examples = inputs.examples.flatten(1)
    bits = examples.view(torch.int32) if examples.dtype is torch.float32 else examples
    place = torch.arange(bits.shape[1], device=bits.device)
    rows = _hash((bits.to(torch.int64) * (2 * place + 1)).sum(1))
    if inputs.weight is not None:
        rows = torch.where(inputs.weight > 0, rows, 0)
    return _hash((rows * (2 * torch.arange(len(rows), device=rows.device) + 1)).sum())


@contextlib.contextmanager
def dropout_key(inputs: Inputs | None) -> Iterator[None]:
    """Seed ``SeededDropout`` by a batch; None for inference, where nothing is dropped."""
    token = _KEY.set(None if inputs is None else _key_of(inputs))
    try:
        yield
    finally:
        _KEY.reset(token)


class SeededDropout(nn.Module):
    """A layer of ``DROPOUTS`` whose mask the batch decides.

    Args:
        layer: the layer.
        number: of the layer, so that two differ.
    """

    def __init__(self, layer: _DropoutNd, number: int) -> None:
        super().__init__()
        self.p, self.number = float(layer.p), number
        self.by_channel = not isinstance(layer, nn.Dropout)

    def forward(self, x: Tensor) -> Tensor:
        """Set values (or channels) to 0 with probability p, and scale the others by 1 / (1 - p), in training."""
        key = _KEY.get()
        if not self.training or not self.p or key is None:
            return x
        shape = x.shape[:2] + (1,) * (x.ndim - 2) if self.by_channel else x.shape
        place = torch.arange(shape.numel(), device=x.device).reshape(shape)
        drawn = _hash(place + _hash(key + self.number)) & ((1 << _BITS) - 1)
        remains = drawn.to(x.dtype) >= self.p * (1 << _BITS)
        return torch.where(remains, x / (1.0 - self.p), 0.0) if self.p < 1 else torch.zeros_like(x)
