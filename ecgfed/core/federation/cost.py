"""Cost of one round of a method, measured in real rounds: bytes in each direction and floating point operations."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

from ecgfed.core.federation.client_round import prepared
from ecgfed.core.federation.communication_log import record_communication
from ecgfed.core.federation.data import TrainingData
from ecgfed.core.federation.meta_set import with_meta_set
from ecgfed.core.federation.plan import TrainPlan
from ecgfed.core.methods.base import Batch, Method
from ecgfed.core.methods.settings import make_settings
from ecgfed.core.nets.net import Inputs, Net, NetSpec
from ecgfed.core.nets.resnet1d import ResNet1d

BATCH = 64
CLASSES = 12
#: Enough clients for FedFomo's candidates, and enough beats for 10 validation beats of each class in total.
CLIENTS, VALID_EACH = 7, 18
#: The first round of a run and its last ones, which differ for methods with phases.
ROUNDS, RUN = 10, (1, 9, 10)
#: Evenly spaced rounds of a run that are measured after its first, and the maximum number of clients used for that:
#: bytes per client do not depend on it (tests/federation/test_cost.py).
MEASURED, MOST_CLIENTS = 6, 12


@dataclass(frozen=True)
class Cost:
    """Cost of one round for one client.

    Attributes:
        down_bytes: sent by the server in a run's last round.
        up_bytes: returned in that round.
        first_down_bytes: sent by the server in the first round.
        first_up_bytes: returned in that round.
        step_flops: floating point operations of a local step on 64 beats in the last round; multiplications and
            additions each count.
    """

    down_bytes: int
    up_bytes: int
    first_down_bytes: int
    first_up_bytes: int
    step_flops: int


def cost_of(kind: type[Method], values: Mapping[str, Any] | None = None, clients: int = CLIENTS) -> Cost:
    """Measure a method on the default net with 12 classes, in rounds with all clients.

    Args:
        kind: the method's class.
        values: its settings; missing ones have their defaults.
        clients: number of clients in the federation.

    Raises:
        OptionError: settings the method does not have.
    """
    method = kind(ResNet1d(NetSpec(CLASSES)), make_settings(kind.settings_type, values or {}))
    data, plan = flat_federation(clients), TrainPlan(ROUNDS, None, 1, batch_size=BATCH)
    log = record_communication(method, data, plan, RUN)
    runs = with_meta_set(method, data, plan.seed)
    work = prepared(runs, data, log.rounds[-1][0].work)
    state = runs.init_round(work.shared, work.client_state, work.info)
    batch = Batch(Inputs(torch.zeros(BATCH, 1, 256)), torch.arange(BATCH) % CLASSES, work.info.class_counts)
    with FlopCounterMode(display=False) as counter:
        runs.step(state, [batch] * runs.requirements.batches_per_step, 0)
    step_flops = counter.get_total_flops()
    return Cost(log.down_bytes(-1), log.up_bytes(-1), log.down_bytes(0), log.up_bytes(0), step_flops)


def round_bytes(method: Method, plan: TrainPlan, clients: int) -> dict[int, tuple[int, int]]:
    """Measure the bytes of some rounds of a run, with its own net, settings and number of rounds.

    All clients take part in them: a client that joins a run late may be sent what the others received earlier.

    Args:
        plan: its plan; local steps and batch size, on which bytes do not depend, are reduced to the minimum.
        clients: number of clients in its federation; 0 if unknown.

    Returns:
        Round -> bytes sent to and returned by the client with most: the first round, and evenly spaced ones up to
        the last.

    Raises:
        OptionError: a plan that the method is not defined for.
    """
    some = min(clients or MOST_CLIENTS, MOST_CLIENTS)
    short = replace(plan, local_epochs=None, local_steps=1, batch_size=2, clients_per_round=None, leave_out="nothing")
    rounds = sorted({1, *(max(1, round(plan.rounds * (i + 1) / MEASURED)) for i in range(MEASURED))})
    log = record_communication(method, flat_federation(some, method.net), short, rounds)
    return {number: (log.down_bytes(i), log.up_bytes(i)) for i, number in enumerate(rounds)}


def flat_federation(clients: int, net: Net | None = None) -> TrainingData:
    """Return clients with two constant training beats each; bytes do not depend on them.

    Args:
        clients: number of clients.
        net: determines inputs and classes; None: windows with ``CLASSES`` classes.
    """
    beats_each = 2 + VALID_EACH
    classes = CLASSES if net is None else net.spec.classes
    shape = (clients * beats_each, *((1, 256) if net is None else net.input_shape))
    dtype = np.float32 if net is None else getattr(np, str(net.input_type).removeprefix("torch."))
    starts = np.arange(clients) * beats_each
    valid = np.arange(clients * VALID_EACH).reshape(clients, VALID_EACH)
    return TrainingData(
        clients=np.arange(clients),
        rows={client: np.arange(start, start + 2) for client, start in enumerate(starts)},
        examples=np.zeros(shape, dtype),
        rr=np.zeros((clients * beats_each, net.spec.rr_count), np.float32) if net is not None and net.spec.rr else None,
        label=np.concatenate([np.tile([0, min(1, classes - 1)], (clients, 1)), valid % classes], axis=1).ravel(),
        classes=classes,
        valid_rows={client: np.arange(start + 2, start + beats_each) for client, start in enumerate(starts)},
    )
