"""How long a run will take, from its first rounds."""

from collections.abc import Callable

import torch
from torch.utils.flop_counter import FlopCounterMode

from ecgfed.federation.data import TrainingData
from ecgfed.federation.one_thread import one_torch_thread
from ecgfed.federation.plan import TrainPlan
from ecgfed.methods.base import Batch, ClientInfo, Method
from ecgfed.nets.net import Inputs

#: The arithmetic of a step is looked at so many times over a run: methods have phases.
POINTS = 20


@one_torch_thread()
def step_arithmetic(method: Method, data: TrainingData, plan: TrainPlan) -> tuple[int, ...]:
    """Return the floating point operations of one client's step at ``POINTS`` evenly spaced moments of a run.

    Nothing is trained: the first client's step on empty inputs is counted. A method whose personal models begin late
    shows here how much dearer its last rounds are.
    """
    client = int(data.clients[0])
    counts = data.class_counts(client)
    initial = method.net.initial(plan.seed)
    server, kept = method.server_start(initial), method.client_start(initial)
    batch = _empty(method, min(plan.batch_size, len(data.rows[client])), counts)
    found: list[int] = []
    for point in range(POINTS):
        progress = point / POINTS
        info = ClientInfo(
            client,
            1 + int(progress * plan.rounds),
            len(data.rows[client]),
            counts,
            1,
            progress,
            pre_round_metrics={"loss": torch.ones((), dtype=torch.float64)},
        )
        state = method.init_round(method.server_message(server, client), kept, info)
        with FlopCounterMode(display=False) as counter:
            method.step(state, [batch] * method.requirements.batches_per_step, 0)
        found.append(counter.get_total_flops())
    return tuple(found)


def _empty(method: Method, size: int, counts: torch.Tensor) -> Batch:
    net = method.net
    inputs = Inputs(
        torch.zeros(size, *net.input_shape, dtype=net.input_type),
        torch.zeros(size, net.spec.rr_count) if net.spec.rr else None,
    )
    return Batch(inputs, torch.zeros(size, dtype=torch.int64), counts)


def seconds_left(arithmetic: tuple[int, ...], rounds: int, done: int, seconds_a_round: float, since: int = 0) -> float:
    """Return the seconds that rounds ``done + 1`` to ``rounds`` will take.

    Args:
        arithmetic: as ``step_arithmetic`` returns it.
        rounds: of the run.
        done: finished rounds.
        seconds_a_round: of the rounds timed, ``since + 1`` to ``done``.
        since: see there.
    """
    cost: Callable[[int], int] = lambda number: arithmetic[min(POINTS - 1, (number - 1) * POINTS // rounds)]  # noqa: E731
    timed = [cost(number) for number in range(since + 1, done + 1)]
    if not timed:
        return 0.0
    usual = max(1.0, sum(timed) / len(timed))
    return seconds_a_round * sum(cost(number) for number in range(done + 1, rounds + 1)) / usual
