"""The local optimizer of most methods: SGD with momentum, as functions with explicit state.

Update rule, as PyTorch's SGD (Sutskever et al. 2013 in the form without dampening): v <- m v + (g + wd w),
w <- w - lr v, with g optionally clipped to a norm first. Running statistics are replaced, not stepped.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from ecgfed.base.deprecation import renamed_imports
from ecgfed.core.methods.interface import Batch, Losses, Tree
from ecgfed.core.methods.losses import LossSettings, batch_loss
from ecgfed.core.methods.settings import ranged
from ecgfed.core.nets.layers import Params, is_buffer, is_mapped, trainable
from ecgfed.core.nets.net import Net

__getattr__ = renamed_imports(
    __name__, "0.3", "0.5", train_whole_model="ecgfed.core.methods.local_sgd:train_full_model"
)


@dataclass(frozen=True)
class SgdSettings(LossSettings):
    """Settings of the local optimizer and its loss.

    Attributes:
        lr: learning rate eta.
        momentum: momentum m.
        weight_decay: wd, multiple of the parameters that is added to a gradient.
        clip: maximum norm of a step's gradient; larger ones are scaled down to it (Pascanu et al. 2013). 0 is off.
    """

    lr: float = ranged(0.02, 0, 100)
    momentum: float = ranged(0.9, 0, 0.9999)
    weight_decay: float = ranged(0.0, 0, 1)
    clip: float = ranged(0.0, 0, 1e6)


def zeros_like(params: Params) -> Params:
    """Return a zero for every trainable entry: the velocity before the first step."""
    return {name: torch.zeros_like(value) for name, value in trainable(params).items()}


def gradients(loss: Callable[[Params], tuple[Tensor, Params]], params: Params) -> tuple[Params, Tensor, Params]:
    """Differentiate a loss with respect to the trainable entries of ``params``.

    Args:
        loss: takes all of ``params`` and returns a 0-d loss and new running statistics (may be empty).
        params: the point.

    Returns:
        Gradients by name (zeros where the loss does not depend on an entry), the loss, the running statistics.
    """
    buffers = {name: value for name, value in params.items() if is_buffer(name)}
    if is_mapped():
        grads, (value, stats) = torch.func.grad(
            lambda p: (lambda out: (out[0], out))(loss({**buffers, **p})), has_aux=True
        )(trainable(params))
        return grads, value, stats
    leaves = {name: value.detach().requires_grad_() for name, value in trainable(params).items()}
    with torch.enable_grad():
        value, stats = loss({**buffers, **leaves})
    grads = torch.autograd.grad(value, list(leaves.values()), materialize_grads=True)
    return dict(zip(leaves, grads, strict=True)), value.detach(), stats


def model_gradients(net: Net, params: Params, batch: Batch, settings: LossSettings) -> tuple[Params, Tensor, Params]:
    """Return the gradients of a batch's loss by a whole net's parameters, with loss and statistics as ``gradients``."""

    def objective(params: Params) -> tuple[Tensor, Params]:
        stats: Params = {}
        return batch_loss(net.logits(params, batch.inputs, stats), batch, settings), stats

    return gradients(objective, params)


def sgd_step(
    params: Params, grads: Params, velocity: Params, stats: Params, settings: SgdSettings
) -> tuple[Params, Params]:
    """Take one step; return new parameters, with the running statistics ``stats``, and the new velocity."""
    names = sorted(grads)  # a loaded checkpoint has another order, on which a sum's bits depend
    w, g, v = ([tree[name] for name in names] for tree in (params, grads, velocity))
    lr, momentum, decay = settings.lr, settings.momentum, settings.weight_decay
    if settings.clip:
        length = torch.stack([gradient.square().sum() for gradient in g]).sum().sqrt()
        scale = (settings.clip / length.clamp_min(1e-12)).clamp_max(1.0)
        g = [gradient * scale for gradient in g]
    if is_mapped():
        if decay:
            g = [a + decay * b for a, b in zip(g, w, strict=True)]
        v = [momentum * a + b for a, b in zip(v, g, strict=True)]
        w = [a - lr * b for a, b in zip(w, v, strict=True)]
    else:
        if decay:
            g = list(torch._foreach_add(g, w, alpha=decay))
        v = list(torch._foreach_add(g, v, alpha=momentum))
        w = list(torch._foreach_add(w, v, alpha=-lr))
    return {**params, **stats, **dict(zip(names, w, strict=True))}, dict(zip(names, v, strict=True))


def train_full_model(
    net: Net, state: Tree, batch: Batch, settings: SgdSettings, adjust: Callable[[Params, Params], Params] | None = None
) -> tuple[Tree, Losses]:
    """Take one SGD step of the full model on ``batch_loss``: ``state`` has ``model`` and ``velocity``.

    Args:
        state: at least ``model`` and ``velocity``.
        batch: the beats.
        settings: the optimizer's.
        adjust: maps the gradient and the point (trainable entries) to the direction of the step: adds a proximal term
            or a control variate.

    Returns:
        New ``model`` and ``velocity``, and the loss without the terms of ``adjust``.
    """
    grads, loss, stats = model_gradients(net, state["model"], batch, settings)
    if adjust:
        grads = adjust(grads, trainable(state["model"]))
    model, velocity = sgd_step(state["model"], grads, state["velocity"], stats, settings)
    return {"model": model, "velocity": velocity}, {"loss": loss}
