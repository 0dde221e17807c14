"""Estimate the remaining time of a run from its first rounds."""

from collections.abc import Callable

import torch
from torch.utils.flop_counter import FlopCounterMode

from ecgfed.core.federation.data import TrainingData
from ecgfed.core.federation.plan import TrainPlan
from ecgfed.core.federation.single_thread import single_torch_thread
from ecgfed.core.methods.base import Batch, ClientInfo, LocalBeats, Method
from ecgfed.core.nets.net import Inputs

#: Number of points of a run at which the operations of a step are counted: methods have phases.
POINTS = 20


@single_torch_thread()
def step_arithmetic(method: Method, data: TrainingData, plan: TrainPlan) -> tuple[int, ...]:
    """Return the floating point operations of one client's step at ``POINTS`` evenly spaced moments of a run.

    Nothing is trained: the first client's step on empty inputs is counted. This reveals how much more expensive the
    last rounds are for a method whose personal models start late. Where they cannot be counted, all are 1.
    """
    client = int(data.clients[0])
    counts = data.class_counts(client)
    initial = method.net.initial(plan.seed)
    server, client_state = method.server_start(initial), method.client_start(initial)
    net, size = method.net, min(plan.batch_size, data.epoch_length(client))
    examples = torch.zeros(size, *net.input_shape, dtype=net.input_type)
    inputs = Inputs(examples, torch.zeros(size, net.spec.rr_count) if net.spec.rr else None)
    batch = Batch(inputs, torch.zeros(size, dtype=torch.int64), counts, excluded=data.excluded_classes(client))
    operations: list[int] = []
    for point in range(POINTS):
        progress = point / POINTS
        info = ClientInfo(
            client,
            1 + int(progress * plan.rounds),
            data.epoch_length(client),
            counts,
            1,
            progress,
            pre_round_metrics={"loss": torch.ones((), dtype=torch.float64)},
            training=LocalBeats(size, lambda positions: batch) if method.requirements.training else None,
        )
        state = method.init_round(method.server_message(server, client), client_state, info)
        batches = [batch] * method.requirements.batches_per_step
        try:
            with FlopCounterMode(display=False) as counter:
                method.step(state, batches, 0)
        except RuntimeError:  # torch's counter fails on weight_norm; an error of the step comes again
            method.step(state, batches, 0)
            return (1,) * POINTS
        operations.append(counter.get_total_flops())
    return tuple(operations)


def remaining_seconds(
    arithmetic: tuple[int, ...], rounds: int, finished: int, seconds_a_round: float, since: int = 0
) -> float:
    """Return the expected seconds for rounds ``finished + 1`` to ``rounds``.

    Args:
        arithmetic: as ``step_arithmetic`` returns it.
        rounds: planned rounds of the run.
        finished: finished rounds.
        seconds_a_round: of the rounds timed, ``since + 1`` to ``finished``.
        since: see there.
    """
    cost: Callable[[int], int] = lambda number: arithmetic[min(POINTS - 1, (number - 1) * POINTS // rounds)]  # noqa: E731
    timed = [cost(number) for number in range(since + 1, finished + 1)]
    if not timed:
        return 0.0
    usual = max(1.0, sum(timed) / len(timed))
    return seconds_a_round * sum(cost(number) for number in range(finished + 1, rounds + 1)) / usual
