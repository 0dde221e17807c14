"""The local optimizer most methods share: SGD with momentum, its state explicit.

Update rule, as PyTorch's SGD (Sutskever et al. 2013 in the form without dampening): v <- m v + (g + wd w),
w <- w - lr v, with g clipped to a norm first where that is asked for. Running statistics are replaced, not stepped.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from ecgfed.methods.base import Batch, Losses, Tree
from ecgfed.methods.risks import RiskSettings, risk
from ecgfed.methods.settings import ranged
from ecgfed.nets.layers import Params, is_buffer, is_mapped, trainable
from ecgfed.nets.net import Net


@dataclass(frozen=True)
class SgdSettings(RiskSettings):
    """The local optimizer's settings, and what it minimises.

    Attributes:
        lr: learning rate eta.
        momentum: momentum m.
        weight_decay: wd, how much of the parameters is added to a gradient.
        clip: largest norm of a step's gradient; a longer one is scaled down to it (Pascanu et al. 2013). 0 is off.
    """

    lr: float = ranged(5e-3, 0, 100)
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


def sgd_step(
    params: Params, grads: Params, velocity: Params, stats: Params, settings: SgdSettings
) -> tuple[Params, Params]:
    """Take one step; returns new parameters (with ``stats`` put in place) and the new velocity."""
    names = sorted(grads)  # a checkpoint's order is another, and a sum's bits depend on it
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


def train_whole_model(
    net: Net, state: Tree, batch: Batch, settings: SgdSettings, adjust: Callable[[Params, Params], Params] | None = None
) -> tuple[Tree, Losses]:
    """Take one SGD step on the risk of the whole model: ``state`` holds ``model`` and ``velocity``.

    Args:
        net: the net.
        state: at least ``model`` and ``velocity``.
        batch: the beats.
        settings: the optimizer's.
        adjust: takes the gradient and the point it was taken at (trainable entries) and returns what to step along:
            a proximal term, a control variate.

    Returns:
        New ``model`` and ``velocity``, and the loss, without what ``adjust`` adds.
    """

    def local_risk(params: Params) -> tuple[Tensor, Params]:
        stats: Params = {}
        return risk(net.logits(params, batch.inputs, stats), batch, settings), stats

    grads, loss, stats = gradients(local_risk, state["model"])
    if adjust:
        grads = adjust(grads, trainable(state["model"]))
    model, velocity = sgd_step(state["model"], grads, state["velocity"], stats, settings)
    return {"model": model, "velocity": velocity}, {"loss": loss}
