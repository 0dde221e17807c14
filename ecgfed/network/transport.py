"""Compression of the updates sent to the server: differences in float16 or int8, with a scale per leaf.

``plain`` sends the method's result unchanged, bit for bit. ``fp16`` and ``int8`` send, for every float32 leaf with at
least one axis, its difference from the leaf of that name sent by the server (from zero if none was sent), divided by
its largest absolute value:

.. math:: s = \\max_i |x_i - y_i|, \\qquad u_i = (x_i - y_i) / s, \\qquad x_i \\approx y_i + s u_i

with :math:`u_i` rounded to float16, or :math:`127 u_i` to an integer. Both ends know :math:`y`, so rounding is the only
loss. All other leaves are sent unchanged. The client's own state is not rounded.
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from ecgfed.core.federation.trees import flatten, unflatten
from ecgfed.core.methods.base import Tree
from ecgfed.network.config import FP16, INT8
from ecgfed.network.config import PLAIN as PLAIN
from ecgfed.network.config import TRANSPORTS as TRANSPORTS

_STEPS: Mapping[str, tuple[torch.dtype, float]] = {FP16: (torch.float16, 1.0), INT8: (torch.int8, 127.0)}
Leaves = dict[str, Tensor]


def packed(dtype: torch.dtype, shape: Sequence[int], transport: str) -> torch.dtype:
    """Return the dtype in which a leaf of this dtype and shape is sent."""
    smaller = transport != PLAIN and dtype == torch.float32 and len(shape) > 0
    return _STEPS[transport][0] if smaller else dtype


def pack(returned: Sequence[Tree], shared: Sequence[Tree], transport: str) -> tuple[Leaves, Leaves]:
    """Encode the trees of several clients.

    Args:
        returned: each client's tree.
        shared: the tree each client was sent.
        transport: one of ``TRANSPORTS``.

    Returns:
        Leaves by path, each (clients, ...), and the scales of the compressed leaves, float32 (clients,).
    """
    flat, sent = [flatten(tree) for tree in returned], [flatten(tree) for tree in shared]
    leaves: Leaves = {}
    scales: Leaves = {}
    for path, first in flat[0].items():
        values = torch.stack([flat_tree[path] for flat_tree in flat])
        smaller = packed(first.dtype, first.shape, transport)
        if smaller != first.dtype:
            values = values - torch.stack([_base(flat_tree, path, first) for flat_tree in sent])
            scale = values.abs().flatten(1).amax(1) if values[0].numel() else torch.zeros(len(values))
            share = values / _along(scale.where(scale > 0, torch.ones(())), values)
            share = share * _STEPS[transport][1]
            values = (share.round() if smaller == torch.int8 else share).to(smaller)
            scales[path] = scale
        leaves[path] = values
    return leaves, scales


def unpack(leaves: Leaves, scales: Leaves, shared: Sequence[Tree], transport: str) -> list[Tree]:
    """Decode the trees encoded by ``pack``, up to rounding.

    Args:
        leaves: by path, (clients, ...).
        scales: by path, (clients,), with the same paths as from ``pack``.
        shared: as in ``pack``.
        transport: as in ``pack``.
    """
    sent = [flatten(tree) for tree in shared]
    restored = dict(leaves)
    for path, scale in scales.items():
        values = leaves[path].float() / _STEPS[transport][1]
        base = torch.stack([_base(flat_tree, path, values[0]) for flat_tree in sent])
        restored[path] = base + values * _along(scale, values)
    return [unflatten({path: leaf[position] for path, leaf in restored.items()}) for position in range(len(shared))]


def _base(sent: Mapping[str, Tensor], path: str, like: Tensor) -> Tensor:
    base = sent.get(path)
    usable = base is not None and base.dtype == torch.float32 and base.shape == like.shape
    return base if usable and base is not None else torch.zeros(like.shape)


def _along(scale: Tensor, values: Tensor) -> Tensor:
    return scale.view(-1, *[1] * (values.dim() - 1))
