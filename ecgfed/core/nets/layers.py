"""Layers as functions of a flat parameter dictionary.

A net here is a function ``(params, inputs) -> outputs`` and not a module: nothing is stored in it, so worker
threads share it, ``torch.func`` can map it over clients, and a federated method sees plain tensors.
"""

import contextlib
import math
from collections.abc import Iterator
from contextvars import ContextVar

import torch
import torch.nn.functional as F
from torch import Tensor

Params = dict[str, Tensor]

#: Suffixes of entries that are averaged and shipped but take no gradient.
BUFFER_SUFFIXES = (".running_mean", ".running_var")
#: Added to a window's variance in mV^2: a flat window stays flat (0.01 mV is below the noise of any recorder).
WINDOW_VARIANCE_FLOOR = 1e-4
BATCH_NORM_MOMENTUM = 0.1
NORM_EPS = 1e-5
GROUPS = 8
#: Below so many channels oneDNN's gradient of a strided 1x1 weight writes past its workspace: on several threads wrong
#: gradients and crashes (oneDNN issue 6035, open on 2026-11-23; seen with torch 2.13). ``conv`` strides before it.
SAFE_CHANNELS = 16

_MAPPED: ContextVar[bool] = ContextVar("mapped", default=False)
_EXPORTED: ContextVar[bool] = ContextVar("exported", default=False)


@contextlib.contextmanager
def mapped_over_clients() -> Iterator[None]:
    """Mark that functions run under ``torch.func.vmap`` over clients: some kernels and autograd's own calls differ."""
    token = _MAPPED.set(True)
    try:
        yield
    finally:
        _MAPPED.reset(token)


def is_mapped() -> bool:
    """Return whether this is inside ``mapped_over_clients``."""
    return _MAPPED.get()


@contextlib.contextmanager
def traced_for_export() -> Iterator[None]:
    """Mark that a net is traced for its graph: the same numbers, laid out plainly instead of fast for torch's kernels.

    Whoever takes the graph (ONNX Runtime, TensorFlow Lite, a microcontroller) has a layout of its own, and each
    transposition in the graph would stand in its way (docs/decisions/0046).
    """
    token = _EXPORTED.set(True)
    try:
        yield
    finally:
        _EXPORTED.reset(token)


def is_exported() -> bool:
    """Return whether this is inside ``traced_for_export``."""
    return _EXPORTED.get()


def constant(values: tuple[float, ...], like: Tensor) -> Tensor:
    """Return values as a 1-D tensor of the dtype and on the device of ``like``.

    Mapped over clients, or not on the CPU, they are filled in by kernels: a copy to a GPU would be waited for, and
    cannot be made while a CUDA graph is captured.
    """
    if is_mapped() or not like.is_cpu:
        return torch.stack([like.new_full((), value) for value in values])
    return like.new_tensor(values)


def is_buffer(name: str) -> bool:
    """Return whether a parameter's name marks a running statistic."""
    return name.endswith(BUFFER_SUFFIXES)


def trainable(params: Params) -> Params:
    """Return the entries that take a gradient."""
    return {name: value for name, value in params.items() if not is_buffer(name)}


def part_of(params: Params, prefix: str) -> Params:
    """Return the entries whose name begins with ``prefix.``, names unchanged."""
    return {name: value for name, value in params.items() if name.startswith(prefix + ".")}


def standardise(window_mv: Tensor) -> Tensor:
    """Take each window's mean away and divide by its standard deviation; (B, ..., T) mV -> (B, ..., T)."""
    centred = window_mv - window_mv.mean(-1, keepdim=True)
    return centred * torch.rsqrt((centred * centred).mean(-1, keepdim=True) + WINDOW_VARIANCE_FLOOR)


def channels_last(x: Tensor) -> Tensor:
    """Lay a signal or a kernel out for the fast convolutions; (B, C, T) -> (B, C, 1, T), C the fastest axis in memory.

    oneDNN's 2-D kernels in this layout reach up to five times its 1-D ones (docs/decisions/0011); the numbers are the
    same. Written as a transposed copy, because ``memory_format`` leaves the strides open where C is 1. Mapped over
    clients, where convolutions are grouped, and in an exported graph the usual layout stays.
    """
    if is_exported():
        return x.reshape(-1, x.shape[1], 1, x.shape[2])
    if is_mapped():
        return x.unsqueeze(2)
    return x.transpose(1, 2).clone(memory_format=torch.contiguous_format).unsqueeze(1).permute(0, 3, 1, 2)


def conv(params: Params, name: str, x: Tensor, *, stride: int = 1) -> Tensor:
    """1-D convolution without bias, 'same' padding of an odd kernel; (B, Cin, 1, T) -> (B, Cout, 1, ceil(T / stride)).

    The weight is (Cout, Cin, kernel).
    """
    weight = params[f"{name}.weight"]
    if stride > 1 and weight.shape[-1] == 1 and weight.shape[1] < SAFE_CHANNELS and not is_exported():
        x, stride = x[..., ::stride], 1  # the same bits, where one thread computes them
    return F.conv2d(x, channels_last(weight), stride=(1, stride), padding=(0, weight.shape[-1] // 2))


def conv2d(params: Params, name: str, x: Tensor, *, stride: int = 1) -> Tensor:
    """2-D convolution, 'same' padding of an odd kernel; (B, Cin, H, W) -> (B, Cout, ceil(H/stride), ceil(W/stride)).

    The weight is (Cout, Cin, kernel, kernel); a bias is added where there is one.
    """
    weight = params[f"{name}.weight"]
    return F.conv2d(x, weight, params.get(f"{name}.bias"), stride=stride, padding=weight.shape[-1] // 2)


def mean_over_pixels(x: Tensor) -> Tensor:
    """(B, C, H, W) -> (B, C)."""
    return x.mean((2, 3))


def mean_over_time(x: Tensor) -> Tensor:
    """(B, C, 1, T) -> (B, C). A product with 1/T, because its gradient is dense where that of ``mean`` is a view."""
    if is_exported():
        return x.mean((2, 3))
    steps = x.shape[-1]
    return torch.matmul(x.new_full((1, steps), 1.0 / steps), x.squeeze(2).transpose(1, 2)).squeeze(1)


def linear(params: Params, name: str, x: Tensor) -> Tensor:
    """Affine map; (B, in) -> (B, out)."""
    return F.linear(x, params[f"{name}.weight"], params[f"{name}.bias"])


def norm(params: Params, name: str, x: Tensor, kind: str, stats: Params | None, rows: Tensor | None = None) -> Tensor:
    """Normalise (B, C, 1, T) or (B, C, H, W); may be changed in place by the caller.

    Args:
        params: holds ``name.weight`` and ``name.bias``, with BatchNorm also the running statistics.
        name: the layer.
        x: input.
        kind: ``group`` (GroupNorm, 8 groups), ``batch`` (BatchNorm) or ``none``.
        stats: a dictionary to put new running statistics into (training), or None (running statistics are used).
            Running statistics are never changed in place. Only BatchNorm looks at it.
        rows: (B,) 1 for rows that count in BatchNorm's statistics, 0 for others; None when all count.
    """
    if kind == "none":
        return x
    weight, bias = params[f"{name}.weight"], params[f"{name}.bias"]
    if kind == "group":
        return F.group_norm(x, GROUPS, weight, bias, NORM_EPS)
    mean, var = params[f"{name}.running_mean"], params[f"{name}.running_var"]
    if stats is None:
        return F.batch_norm(x, mean, var, weight, bias, False, 0.0, NORM_EPS)
    if rows is None:
        count: Tensor | float = float(x.numel() // x.shape[1])
        out, batch_mean, inverse_std = torch.native_batch_norm(x, weight, bias, None, None, True, 0.0, NORM_EPS)
        batch_var = inverse_std.detach() ** -2 - NORM_EPS
        unbiased = count / max(count - 1, 1.0)
    else:
        out, batch_mean, batch_var, count = _batch_norm_of_rows(x, weight, bias, rows)
        unbiased = count / (count - 1).clamp_min(1.0)
    stats[f"{name}.running_mean"] = torch.lerp(mean, batch_mean.detach(), BATCH_NORM_MOMENTUM)
    stats[f"{name}.running_var"] = torch.lerp(var, batch_var.detach() * unbiased, BATCH_NORM_MOMENTUM)
    return out


def _batch_norm_of_rows(x: Tensor, weight: Tensor, bias: Tensor, rows: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """BatchNorm whose mean and (biased) variance come from some rows; also returns those and their count."""
    mask, axes = rows[:, None, None, None], (0, 2, 3)
    count = rows.sum().clamp_min(1.0) * (x.shape[2] * x.shape[3])
    mean = (x * mask).sum(axes) / count
    centred = x - mean[:, None, None]
    var = (centred.square() * mask).sum(axes) / count
    scale = torch.rsqrt(var + NORM_EPS) * weight
    return centred * scale[:, None, None] + bias[:, None, None], mean, var, count


class Initialiser:
    """Draws initial parameters from one generator, layer after layer, into ``params``."""

    def __init__(self, seed: int) -> None:
        self.generator = torch.Generator().manual_seed(seed)
        self.params: Params = {}

    def _normal(self, shape: tuple[int, ...]) -> Tensor:
        """Standard normal numbers, drawn on the CPU whatever the default device, so that they are the same."""
        return torch.randn(shape, generator=self.generator, device="cpu")

    def conv(
        self, name: str, channels_in: int, channels_out: int, kernel: int, *, axes: int = 1, bias: bool = False
    ) -> None:
        """Kaiming-normal weights for a ReLU behind them (He et al. 2015, eq. 10); a bias, where asked for, is zero."""
        scale = math.sqrt(2.0 / (channels_in * kernel**axes))
        self.params[f"{name}.weight"] = self._normal((channels_out, channels_in, *[kernel] * axes)) * scale
        if bias:
            self.params[f"{name}.bias"] = torch.zeros(channels_out)

    def linear(self, name: str, features_in: int, features_out: int, *, gain: float = 2.0) -> None:
        """Normal weights of variance ``gain / features_in``, zero bias."""
        self.params[f"{name}.weight"] = self._normal((features_out, features_in)) * math.sqrt(gain / features_in)
        self.params[f"{name}.bias"] = torch.zeros(features_out)

    def norm(self, name: str, channels: int, kind: str) -> None:
        """Scale one, shift zero, and BatchNorm's running statistics."""
        if kind == "none":
            return
        self.params[f"{name}.weight"] = torch.ones(channels)
        self.params[f"{name}.bias"] = torch.zeros(channels)
        if kind == "batch":
            self.params[f"{name}.running_mean"] = torch.zeros(channels)
            self.params[f"{name}.running_var"] = torch.ones(channels)
