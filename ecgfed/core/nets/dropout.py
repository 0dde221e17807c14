"""Dropout whose mask a batch decides, so that a run repeats, whatever the engine, the threads and a resume.

torch's generator is shared by threads. Here a mask is a hash (splitmix64, Steele et al. 2014) of the batch's examples
in their order, the number of the layer and the place: the same numbers one client at a time and stacked.
"""

import contextlib
import inspect
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd

from ecgfed.core.nets.net import Inputs

#: The layers of torch that are replaced.
DROPOUTS = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d)
#: Other layers that draw in training from torch's own generator; of the second if their ``dropout`` is not 0.
_DRAWING, _WITH_DROPOUT = (nn.AlphaDropout, nn.FeatureAlphaDropout, nn.RReLU), (nn.RNNBase, nn.MultiheadAttention)
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


class SeededAttention(nn.MultiheadAttention):
    """torch's attention, whose ``dropout`` of attention weights the batch decides; ``seeded`` makes one of a layer."""

    drop: SeededDropout

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor | None]:
        """Return torch's output and weights; in training, the output of weights after dropout."""
        passed = inspect.signature(nn.MultiheadAttention.forward).bind(self, query, key, value, *args, **kwargs)
        passed.apply_defaults()
        needed, averaged = passed.arguments["need_weights"], passed.arguments["average_attn_weights"]
        if not self.training or not self.drop.p:
            return super().forward(*passed.args[1:], **passed.kwargs)
        passed.arguments |= {"need_weights": True, "average_attn_weights": False}
        _, weights = super().forward(*passed.args[1:], **passed.kwargs)
        assert weights is not None
        weights = self.drop(weights)  # (B, heads, L, S), or (heads, L, S) of a single sequence
        width = self.embed_dim
        projection = self.in_proj_weight[2 * width :] if self._qkv_same_embed_dim else self.v_proj_weight
        bias = None if self.in_proj_bias is None else self.in_proj_bias[2 * width :]
        value = nn.functional.linear(value, projection, bias)
        if value.ndim == 3 and not self.batch_first:
            value = value.transpose(0, 1)
        for_heads = value.reshape(*value.shape[:-1], self.num_heads, self.head_dim).transpose(-3, -2)
        output = self.out_proj((weights @ for_heads).transpose(-3, -2).flatten(-2))
        output = output.transpose(0, 1) if output.ndim == 3 and not self.batch_first else output
        return output, (weights.mean(-3) if averaged else weights) if needed else None


def seeded(layer: nn.Module, number: int) -> nn.Module | None:
    """Return a layer of torch with seeded dropout in place of one that draws, None for other layers.

    Args:
        layer: of a copy of the module; an attention is changed in place.
        number: of the layer, so that two differ.
    """
    if isinstance(layer, DROPOUTS):
        return SeededDropout(layer, number)
    simple = type(layer) is nn.MultiheadAttention and layer.bias_v is None and not layer.add_zero_attn
    if not simple or not layer.dropout:
        return None
    dropout = float(layer.dropout)  # type: ignore[arg-type]
    layer.__class__ = SeededAttention
    assert isinstance(layer, SeededAttention)
    layer.drop, layer.dropout = SeededDropout(nn.Dropout(dropout), number), 0.0
    return layer


def drawing_layer(module: nn.Module) -> str:
    """Return the first layer that draws from torch's own generator, and what to do: ``""`` if none is known."""
    for path, layer in module.named_modules():
        name = f"{path or 'it'} ({type(layer).__name__})"
        if isinstance(layer, _WITH_DROPOUT) and layer.dropout:
            return f"pass dropout=0 to its layer {name}"
        if isinstance(layer, _DRAWING):
            return f"replace its layer {name}"
    return ""
