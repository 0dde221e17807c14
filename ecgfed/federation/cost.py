"""What a round of a method costs: bytes each way and arithmetic, measured in real rounds, not written down by hand."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
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
from ecgfed.nets.net import Inputs, Net, NetSpec
from ecgfed.nets.resnet1d import ResNet1d

BATCH = 64
CLASSES = 12
#: Enough for what FedFomo offers a client, and for 10 validation beats of each class together.
CLIENTS, VALID_EACH = 7, 18
#: A run's first round and its last ones, which are unlike where a method has phases.
ROUNDS, RUN = 10, (1, 9, 10)
#: A run's own rounds that are measured after its first, evenly over it; and the most clients of the federation for it,
#: on whose number bytes do not depend (tests/federation/test_cost.py).
MEASURED, MOST_CLIENTS = 6, 12


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
    data, plan = flat_federation(clients), TrainPlan(ROUNDS, None, 1, batch_size=BATCH)
    traffic = traffic_of(method, data, plan, RUN)
    return Cost(
        traffic.down_bytes(-1),
        traffic.up_bytes(-1),
        traffic.down_bytes(0),
        traffic.up_bytes(0),
        _step_flops(with_meta_set(method, data, plan.seed), data, traffic.rounds[-1][0]),
    )


def round_bytes(method: Method, plan: TrainPlan, clients: int) -> dict[int, tuple[int, int]]:
    """Measure what travels in some rounds of a run, with its own net, settings and number of rounds.

    All clients take part in them: who comes late to a run of few a round may be sent what the others had before.

    Args:
        method: the run's method.
        plan: its plan; local work and batches, on which bytes do not depend, are made as small as can be.
        clients: of its federation; 0 where nobody says.

    Returns:
        Round -> bytes that the server sends a client and bytes that come back, of the client with most: the first
        round, and others evenly up to the last.

    Raises:
        OptionError: a plan that the method is not defined for.
    """
    some = min(clients or MOST_CLIENTS, MOST_CLIENTS)
    short = replace(plan, local_epochs=None, local_steps=1, batch_size=2, clients_per_round=None, leave_out="nothing")
    rounds = sorted({1, *(max(1, round(plan.rounds * (i + 1) / MEASURED)) for i in range(MEASURED))})
    traffic = traffic_of(method, flat_federation(some, method.net), short, rounds)
    return {number: (traffic.down_bytes(i), traffic.up_bytes(i)) for i, number in enumerate(rounds)}


def flat_federation(clients: int, net: Net | None = None) -> TrainingData:
    """Clients of two flat training beats each, which bytes do not depend on, and classes in turn.

    Args:
        clients: how many.
        net: whose inputs and classes they have; None: windows of ``CLASSES`` classes.
    """
    own = 2 + VALID_EACH
    classes = CLASSES if net is None else net.spec.classes
    shape = (clients * own, *((1, 256) if net is None else net.input_shape))
    images = net is not None and net.input_type is torch.uint8
    starts = np.arange(clients) * own
    valid = np.arange(clients * VALID_EACH).reshape(clients, VALID_EACH)
    return TrainingData(
        clients=np.arange(clients),
        rows={client: np.arange(start, start + 2) for client, start in enumerate(starts)},
        examples=np.zeros(shape, np.uint8) if images else np.zeros(shape, np.float32),
        rr=np.zeros((clients * own, net.spec.rr_count), np.float32) if net is not None and net.spec.rr else None,
        label=np.concatenate([np.tile([0, min(1, classes - 1)], (clients, 1)), valid % classes], axis=1).ravel(),
        classes=classes,
        valid_rows={client: np.arange(start + 2, start + own) for client, start in enumerate(starts)},
    )


def _step_flops(method: Method, data: TrainingData, parcel: Parcel) -> int:
    """Operations of one more step of a client, on 64 beats."""
    work = prepared(method, data, parcel.work)
    state = method.init_round(work.shared, work.kept, work.info)
    batch = Batch(Inputs(torch.zeros(BATCH, 1, 256)), torch.arange(BATCH) % CLASSES, work.info.class_counts)
    with FlopCounterMode(display=False) as counter:
        method.step(state, [batch] * method.requirements.batches_per_step, 0)
    flops: int = counter.get_total_flops()
    return flops
