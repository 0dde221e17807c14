"""Many clients at once: their states stacked, one step of all of them as one call (``torch.func.vmap``).

On a GPU a loop over clients is bound by kernel launches; stacked, a step costs a client's launches once. Clients of
different sizes share slots: the largest start first, and a finished client's slot goes to the next. Arithmetic is the
thread engine's to float tolerance (tests/federation/test_engines.py), not to the bit: kernels over more data sum in
another order.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ecgfed.federation.data import TrainingData, local_rows
from ecgfed.federation.engine import ClientResult, ClientWork, close_client
from ecgfed.federation.plan import TrainPlan
from ecgfed.federation.trees import flatten, stack, unflatten
from ecgfed.methods.base import Batch, Losses, Method, Tree
from ecgfed.nets.layers import mapped_over_clients
from ecgfed.nets.resnet1d import Inputs

#: Slots where nothing else is asked for: enough for the 46 patients of MIT-BIH at once.
DEFAULT_SLOTS = 64


class ResidentBeats:
    """The training beats in the memory of a device, so that a step moves row numbers only.

    Args:
        data: the training beats.
        device: where to.
    """

    def __init__(self, data: TrainingData, device: torch.device) -> None:
        used = np.sort(np.concatenate([data.rows[int(client)] for client in data.clients]))
        self._place = np.full(len(data.label), -1, dtype=np.int64)
        self._place[used] = np.arange(len(used))
        self.device = device
        self.window = torch.from_numpy(np.take(data.windows, used, axis=0)).to(device)
        self.rr = None if data.rr is None else torch.from_numpy(np.take(data.rr, used, axis=0)).to(device)
        self.label = torch.from_numpy(data.label[used].astype(np.int64)).to(device)

    def place(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Row numbers of the cohort -> positions here."""
        return self._place[rows]

    def gather(self, places: Tensor) -> dict[str, Tensor]:
        """Windows, labels and RR features of positions (slots, batches, B), on the device."""
        found = {"window": self.window[places], "label": self.label[places]}
        return found if self.rr is None else {**found, "rr": self.rr[places]}


@dataclass
class _Slot:
    """A client that is being trained."""

    position: int
    work: ClientWork
    batches: Any
    t: int = 0
    beats: int = 0


class BatchedEngine:
    """Runs many clients at once; a context manager.

    Args:
        data: the training beats.
        plan: local work, batch size, seed.
        device: ``cpu`` or ``cuda``; the beats of all clients are kept there.
        slots: clients in flight; default ``DEFAULT_SLOTS``.
    """

    def __init__(self, data: TrainingData, plan: TrainPlan, device: str = "cpu", slots: int | None = None) -> None:
        self.data, self.plan, self.device = data, plan, torch.device(device)
        self.slots = DEFAULT_SLOTS if slots is None else slots
        self.beats = ResidentBeats(data, self.device)

    def __enter__(self) -> "BatchedEngine":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing to close."""

    def run(self, method: Method, shared: Tree, work: Sequence[ClientWork]) -> list[ClientResult]:
        """Run all clients of a round; results come in the order of ``work``, on the CPU.

        Raises:
            RunError: a loss or a parameter that is not finite, naming the client and the round.
        """
        shared = _moved(shared, self.device)
        waiting = deque(sorted(range(len(work)), key=lambda i: -work[i].info.steps))
        results: dict[int, ClientResult] = {}
        slots = [self._open(method, i, work[i]) for i in _take(waiting, self.slots)]
        state = flatten(stack([self._begin(method, shared, slot.work) for slot in slots]))
        sums: dict[str, Tensor] = {}
        while slots:
            state, losses = self._step(method, slots, state)
            for name, value in losses.items():
                sums[name] = value.double() + sums.get(name, 0.0)
            done = [k for k, slot in enumerate(slots) if slot.t == slot.work.info.steps]
            if not done:
                continue
            index = torch.tensor(done, dtype=torch.int64, device=self.device)
            ended = {path: leaf[index].cpu() for path, leaf in state.items()}
            totals = {name: value[index].tolist() for name, value in sums.items()}
            for j, k in enumerate(done):
                means = {name: total[j] / slots[k].t for name, total in totals.items()}
                own = unflatten({path: leaf[j] for path, leaf in ended.items()})
                results[slots[k].position] = close_client(method, self.data, slots[k].work, own, means, slots[k].beats)
            slots, state, sums = self._refill(method, shared, work, waiting, (slots, state, sums), done)
        return [results[i] for i in range(len(work))]

    def _open(self, method: Method, position: int, work: ClientWork) -> _Slot:
        rows = local_rows(self.data, self.plan, work.info.index, work.seen, method.needs.batches_per_step)
        return _Slot(position, work, rows)

    def _begin(self, method: Method, shared: Tree, work: ClientWork) -> Tree:
        with torch.device(self.device):  # what ``begin`` makes anew belongs beside the rest
            return _moved(method.begin(shared, _moved(work.kept, self.device), work.info), self.device)

    def _refill(
        self, method: Method, shared: Tree, work: Sequence[ClientWork], waiting: deque[int],
        current: tuple[list[_Slot], dict[str, Tensor], dict[str, Tensor]], done: list[int],
    ) -> tuple[list[_Slot], dict[str, Tensor], dict[str, Tensor]]:  # fmt: skip
        """Give the slots of finished clients to those who wait; slots nobody waits for are taken away."""
        slots, state, sums = current
        for k in done[: len(waiting)]:
            slots[k] = self._open(method, (i := waiting.popleft()), work[i])
            for path, leaf in flatten(self._begin(method, shared, work[i])).items():
                state[path] = state[path].contiguous()  # a constant may have come out of vmap as one expanded value
                state[path][k] = leaf
            for value in sums.values():
                value[k] = 0.0
            done = [other for other in done if other != k]
        if done:
            stay = [k for k in range(len(slots)) if k not in done]
            index = torch.tensor(stay, dtype=torch.int64, device=self.device)
            slots = [slots[k] for k in stay]
            state = {path: leaf[index] for path, leaf in state.items()}
            sums = {name: value[index] for name, value in sums.items()}
        return slots, state, sums

    def _step(
        self, method: Method, slots: list[_Slot], state: dict[str, Tensor]
    ) -> tuple[dict[str, Tensor], Losses]:  # fmt: skip
        """One step of every slot."""
        places, weight = self._next_places(method, slots)
        batches = self.beats.gather(places.to(self.device))
        if weight is not None:
            batches["weight"] = weight.to(self.device)
        t = torch.tensor([slot.t for slot in slots], device=self.device)
        for slot in slots:
            slot.t += 1
        with mapped_over_clients():
            return torch.func.vmap(_one_client(method))(state, batches, t)

    def _next_places(self, method: Method, slots: list[_Slot]) -> tuple[Tensor, Tensor | None]:
        """Positions of each slot's next batches (slots, batches, B), and 1 for rows that count where some do not."""
        per_step, size = method.needs.batches_per_step, self.plan.batch_size
        places = np.zeros((len(slots), per_step, size), dtype=np.int64)
        weight = np.zeros(places.shape, dtype=np.float32)
        for k, slot in enumerate(slots):
            for j, rows in enumerate(next(slot.batches)):
                places[k, j, : len(rows)] = self.beats.place(rows)
                weight[k, j, : len(rows)] = 1.0
                slot.beats += len(rows)
        return torch.from_numpy(places), None if weight.all() else torch.from_numpy(weight)


def _take(waiting: deque[int], most: int) -> list[int]:
    return [waiting.popleft() for _ in range(min(most, len(waiting)))]


def _moved(tree: Tree, device: torch.device) -> Tree:
    return unflatten({path: leaf.to(device) for path, leaf in flatten(tree).items()})


def _one_client(method: Method) -> Callable[..., tuple[dict[str, Tensor], Losses]]:
    """A method's step for one client over flat trees, ready to be mapped."""

    def step(state: dict[str, Tensor], batches: dict[str, Tensor], t: Tensor) -> tuple[dict[str, Tensor], Losses]:
        group = [
            Batch(
                Inputs(batches["window"][j], batches["rr"][j] if "rr" in batches else None,
                       batches["weight"][j] if "weight" in batches else None),
                batches["label"][j],
            )
            for j in range(method.needs.batches_per_step)
        ]  # fmt: skip
        new, losses = method.step(unflatten(state), group, t)
        return flatten(new), losses

    return step
