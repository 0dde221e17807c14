"""Nets of modules, and data of their shape, for tests."""

from typing import Any

import numpy as np
import torch
from torch import nn

from ecgfed.core.federation.data import TrainingData
from ecgfed.core.methods.interface import Batch
from ecgfed.core.nets.build import make_net
from ecgfed.core.nets.module_net import ModuleNet
from ecgfed.core.nets.net import Inputs, ModuleForm, NetSpec
from ecgfed.core.nets.net_source import NetFactory, net_source

CLASSES, SHAPE = 4, (1, 6, 6)


def as_net(factory: NetFactory, shape: tuple[int, ...] = SHAPE, dtype: str = "float32") -> ModuleNet:
    source = net_source(factory)
    form, norm = ModuleForm("array", shape, dtype), source.norm(CLASSES)
    net = make_net(NetSpec(CLASSES, source.origin, norm, module=form), source)
    assert isinstance(net, ModuleNet)
    return net


def loaded(net: ModuleNet, module: nn.Module, params: dict[str, torch.Tensor]) -> nn.Module:
    """The module with the net's parameters."""
    module.load_state_dict({net.names[name]: value for name, value in params.items()}, strict=False)
    return module


def batch(count: int, seed: int = 0) -> Batch:
    draw = torch.Generator().manual_seed(seed)
    examples = torch.randn((count, *SHAPE), generator=draw)
    return Batch(Inputs(examples), torch.randint(CLASSES, (count,), generator=draw))


def federation(sizes: tuple[int, ...] = (20, 13, 5, 16), dtype: Any = np.float32) -> TrainingData:
    rng, edges = np.random.default_rng(3), np.cumsum((0, *sizes))
    return TrainingData(
        clients=np.arange(len(sizes)),
        rows={i: np.arange(edges[i], edges[i + 1]) for i in range(len(sizes))},
        examples=(40 * rng.standard_normal((edges[-1], *SHAPE))).astype(dtype),
        rr=None,
        label=rng.integers(0, CLASSES, edges[-1]),
        classes=CLASSES,
        valid_rows={i: np.arange(edges[i], edges[i] + 3) for i in range(len(sizes))},
    )
