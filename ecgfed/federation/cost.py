"""What a round of a method costs: bytes each way and arithmetic, measured on a net, not written down by hand."""

from dataclasses import dataclass

import torch
from torch.utils.flop_counter import FlopCounterMode

from ecgfed.federation.trees import stack, tree_bytes
from ecgfed.methods.base import Batch, ClientInfo, Method, Returned
from ecgfed.methods.settings import make_settings
from ecgfed.nets.net import Inputs, NetSpec
from ecgfed.nets.resnet1d import ResNet1d

BATCH = 64
CLASSES = 12


@dataclass(frozen=True)
class Cost:
    """One client's round.

    Attributes:
        down_bytes: what the server sends.
        up_bytes: what comes back.
        step_flops: floating point operations of a local step on 64 beats; multiplications and additions each count.
    """

    down_bytes: int
    up_bytes: int
    step_flops: int


def cost_of(kind: type[Method]) -> Cost:
    """Measure a method with its default settings on the default net with 12 classes, late in a run."""
    net = ResNet1d(NetSpec(CLASSES))
    method = kind(net, make_settings(kind.settings_type, {}))
    initial = net.initial(0)
    server = method.server_start(initial)
    shared = method.shared(server)
    counts = torch.full((CLASSES,), 8)
    survey = {"loss": torch.ones((), dtype=torch.float64)}
    info = ClientInfo(0, 9, BATCH, counts, 1, progress=0.9, survey=survey, client_numbers=1)
    state = method.begin(shared, method.client_start(initial), info)
    window = torch.zeros(BATCH, 1, 256)
    batches = [Batch(Inputs(window), torch.arange(BATCH) % CLASSES, counts)] * method.needs.batches_per_step
    with FlopCounterMode(display=False) as counter:
        state, _ = method.step(state, batches, 0)
    returned, _ = method.finish(state, info)
    one = torch.ones(1, dtype=torch.float64)
    stacked = Returned(stack([returned]), {}, one, torch.zeros(1, dtype=torch.int64), progress=0.9, federation=1)
    sent = method.shared(method.aggregate(server, stacked))  # some send more once they have heard from clients
    return Cost(tree_bytes(sent), tree_bytes(returned), counter.get_total_flops())
