"""What a round of a method costs: bytes each way and arithmetic, measured in real rounds, not written down by hand."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

from ecgfed.federation.client_round import prepared
from ecgfed.federation.data import TrainingData
from ecgfed.federation.meta_set import with_meta_set
from ecgfed.federation.plan import TrainPlan
from ecgfed.federation.traffic import Parcel, traffic_of
from ecgfed.methods.base import Batch, Method
from ecgfed.methods.settings import make_settings
from ecgfed.nets.net import Inputs, NetSpec
from ecgfed.nets.resnet1d import ResNet1d

BATCH = 64
CLASSES = 12
#: Enough for what FedFomo offers a client, and for 10 validation beats of each class together.
CLIENTS, VALID_EACH = 7, 18
#: A run's first round and its last ones, which are unlike where a method has phases.
ROUNDS, RUN = 10, (1, 9, 10)


@dataclass(frozen=True)
class Cost:
    """One client's round.

    Attributes:
        down_bytes: what the server sends, in a run's last round.
        up_bytes: what comes back in that round.
        first_down_bytes: what the server sends in the first round.
        first_up_bytes: what comes back in that round.
        step_flops: floating point operations of a local step on 64 beats in the last round; multiplications and
            additions each count.
    """

    down_bytes: int
    up_bytes: int
    first_down_bytes: int
    first_up_bytes: int
    step_flops: int


def cost_of(kind: type[Method], values: Mapping[str, Any] | None = None, clients: int = CLIENTS) -> Cost:
    """Measure a method on the default net with 12 classes, in rounds that all clients take part in.

    Args:
        kind: the method's class.
        values: its settings; what is left out is at its default.
        clients: of the federation.

    Raises:
        OptionError: settings the method does not have.
    """
    method = kind(ResNet1d(NetSpec(CLASSES)), make_settings(kind.settings_type, values or {}))
    data, plan = _federation(clients), TrainPlan(ROUNDS, None, 1, batch_size=BATCH)
    traffic = traffic_of(method, data, plan, RUN)
    return Cost(
        traffic.down_bytes(-1),
        traffic.up_bytes(-1),
        traffic.down_bytes(0),
        traffic.up_bytes(0),
        _step_flops(with_meta_set(method, data, plan.seed), data, traffic.rounds[-1][0]),
    )


def _federation(clients: int) -> TrainingData:
    """Clients of two flat training beats each, which bytes do not depend on, and classes in turn."""
    own = 2 + VALID_EACH
    starts = np.arange(clients) * own
    valid = np.arange(clients * VALID_EACH).reshape(clients, VALID_EACH)
    return TrainingData(
        clients=np.arange(clients),
        rows={client: np.arange(start, start + 2) for client, start in enumerate(starts)},
        examples=np.zeros((clients * own, 1, 256), np.float32),
        rr=None,
        label=np.concatenate([np.tile([0, 1], (clients, 1)), valid % CLASSES], axis=1).ravel(),
        classes=CLASSES,
        valid_rows={client: np.arange(start + 2, start + own) for client, start in enumerate(starts)},
    )


def _step_flops(method: Method, data: TrainingData, parcel: Parcel) -> int:
    """Operations of one more step of a client, on 64 beats."""
    work = prepared(method, data, parcel.work)
    state = method.begin(work.shared, work.kept, work.info)
    batch = Batch(Inputs(torch.zeros(BATCH, 1, 256)), torch.arange(BATCH) % CLASSES, work.info.class_counts)
    with FlopCounterMode(display=False) as counter:
        method.step(state, [batch] * method.needs.batches_per_step, 0)
    flops: int = counter.get_total_flops()
    return flops
