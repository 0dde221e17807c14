"""Train many clients at once: their states stacked, one step of all of them as one call (``torch.func.vmap``).

On a GPU, a loop over clients is bound by kernel launches; stacked, a step needs the launches of a single client.
Clients of different sizes share slots: the largest start first, and the next client reuses a finished one's slot. On a
CPU, call overhead for small batches equals their arithmetic, so stacking helps there too: one worker thread per core
processes one stack after another. The assignment of clients to stacks does not depend on the number of workers, and
neither do the results. They equal the thread engine's to float tolerance (tests/federation/test_engines.py), not to the
bit, because kernels over more data sum in a different order.
"""

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ecgfed.core.federation.client_round import ClientResult, ClientWork, close_client, prepared
from ecgfed.core.federation.cuda_graphs import Flat, ReplayedStep, StackedStep
from ecgfed.core.federation.data import TrainingData, local_batches, local_rows
from ecgfed.core.federation.memory import keep_freed_memory
from ecgfed.core.federation.plan import TrainPlan
from ecgfed.core.federation.trees import flatten, unflatten
from ecgfed.core.methods.base import Batch, Losses, Method, Tree
from ecgfed.core.nets.layers import mapped_over_clients
from ecgfed.core.nets.net import Inputs

#: Default clients per stack: on a GPU all 46 patients of MIT-BIH fit at once, on a CPU they form four stacks.
DEFAULT_SLOTS = {"cuda": 64, "cpu": 12}
#: Parts of a slot's state: the method's, and for its batches the class counts and, with weak clients, excluded classes.
METHOD, COUNTS, EXCLUDED = "method", "counts", "excluded"
#: What is drawn for a step: the index of its rows, or with augmentation what ``gather`` would return.
INDEX = "index"


class DeviceBeats:
    """Training beats in device memory, so that a step transfers row indices only.

    Args:
        data: the training beats.
        device: target device.
    """

    def __init__(self, data: TrainingData, device: torch.device) -> None:
        used = np.sort(np.concatenate([data.rows[int(client)] for client in data.clients]))
        self._row_index = np.full(len(data.label), -1, dtype=np.int64)
        self._row_index[used] = np.arange(len(used))
        self.device = device
        self.examples = torch.from_numpy(np.take(data.examples, used, axis=0)).to(device)
        self.rr = None if data.rr is None else torch.from_numpy(np.take(data.rr, used, axis=0)).to(device)
        self.label = torch.from_numpy(data.label[used].astype(np.int64)).to(device)

    def index_of(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the device index of cohort rows."""
        return self._row_index[rows]

    def gather(self, index: Tensor) -> dict[str, Tensor]:
        """Return windows, labels and RR features at ``index`` (slots, batches, B), on the device."""
        batch = {"examples": self.examples[index], "label": self.label[index]}
        return batch if self.rr is None else {**batch, "rr": self.rr[index]}


class CohortBeats:
    """Training beats read from the cohort's arrays, for a CPU: nothing is copied.

    Args:
        data: the training beats.
    """

    def __init__(self, data: TrainingData) -> None:
        self.data = data

    def index_of(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the cohort rows unchanged."""
        return rows

    def gather(self, index: Tensor) -> dict[str, Tensor]:
        """Return windows, labels and RR features at ``index`` (slots, batches, B)."""
        batch = self.data.batch(index.flatten().numpy())
        arrays = {"examples": batch.inputs.examples, "label": batch.label}
        if batch.inputs.rr is not None:
            arrays["rr"] = batch.inputs.rr
        return {name: value.reshape(*index.shape, *value.shape[1:]) for name, value in arrays.items()}


@dataclass
class _Slot:
    """A client in training."""

    position: int
    work: ClientWork
    batches: Any
    t: int = 0
    beats: int = 0


class _Flight:
    """Stacked state of the active clients and sums of their losses."""

    def __init__(self, step: StackedStep, state: Flat) -> None:
        self._step, self.state, self.sums = step, state, dict[str, Tensor]()

    def run(self, drawn: Flat, weight: Tensor | None, t: Tensor) -> None:
        """Take a step: replaces ``state`` and adds to ``sums``."""
        with mapped_over_clients():
            self.state, losses = self._step(self.state, drawn, weight, t)
        self.sums = {name: value.double() + self.sums.get(name, 0.0) for name, value in losses.items()}

    def keep(self, stay: Tensor) -> None:
        """Keep only some of the slots."""
        self.state = {path: leaf[stay] for path, leaf in self.state.items()}
        self.sums = {name: value[stay] for name, value in self.sums.items()}


class BatchedEngine:
    """Trains many clients at once; a context manager.

    Args:
        data: the training beats.
        plan: local work, batch size, seed.
        device: ``cpu`` or ``cuda``; a GPU holds the beats of all clients, unless they are augmented on the way.
        slots: clients per stack; default ``DEFAULT_SLOTS``.
        workers: CPU threads, one stack each.
    """

    def __init__(
        self, data: TrainingData, plan: TrainPlan, device: str = "cpu", slots: int | None = None, workers: int = 1
    ) -> None:
        self.data, self.plan = data, plan
        self.device = torch.device(device, torch.cuda.current_device()) if device == "cuda" else torch.device(device)
        self.slots = DEFAULT_SLOTS[self.device.type] if slots is None else slots
        #: whether batches are varied on the way, so that more than row indices has to be drawn
        self.varies = plan.augment or data.augmentation is not None
        #: whether steps on a GPU are replayed as CUDA graphs
        self.replay = True
        self._replayed: tuple[Method, ReplayedStep] | None = None
        self.beats: DeviceBeats | CohortBeats
        self._pool: ThreadPoolExecutor | None = None
        if self.device.type == "cpu":
            keep_freed_memory()
            self.beats = CohortBeats(data)
            self._pool = ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(1,))
        else:
            self.beats = CohortBeats(data) if self.varies else DeviceBeats(data, self.device)

    def __enter__(self) -> "BatchedEngine":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def run(self, method: Method, work: Sequence[ClientWork]) -> list[ClientResult]:
        """Run all clients of a round; results come in the order of ``work``, on the CPU.

        Raises:
            RunError: a loss or a parameter that is not finite, naming the client and the round.
        """
        order = sorted(range(len(work)), key=lambda i: -work[i].info.steps)
        if self._pool is None:
            # float32 as on a CPU, and the same bits in every run: cuDNN's defaults promise neither
            with torch.backends.cudnn.flags(enabled=True, deterministic=True, allow_tf32=False):
                results = self._fly(method, work, order)
        else:
            stacks = [order[k : k + self.slots] for k in range(0, len(order), self.slots)]
            futures = [self._pool.submit(self._fly, method, work, stack) for stack in stacks]
            try:
                results = {i: result for future in futures for i, result in future.result().items()}
            except BaseException:
                for future in futures:
                    future.cancel()
                raise
        return [results[i] for i in range(len(work))]

    def _fly(self, method: Method, work: Sequence[ClientWork], positions: Sequence[int]) -> dict[int, ClientResult]:
        """Run the clients at ``positions`` of the round's work, in that order; returns results by position."""
        move = _Mover(self.device)
        waiting = deque(positions)
        results: dict[int, ClientResult] = {}
        first = [waiting.popleft() for _ in range(min(self.slots, len(waiting)))]
        slots: list[_Slot | None] = [self._open(method, i, work[i]) for i in first]
        stored = self._on_device([work[i].client_state for i in first])
        states = [self._begin(method, move, work[i], state) for i, state in zip(first, stored, strict=True)]
        state = {path: torch.stack([leaves[path] for leaves in states]) for path in states[0]}
        flight = _Flight(self._stacked_step(method), state)
        while any(slots):
            self._step(method, slots, flight)
            finished = [k for k, slot in enumerate(slots) if slot and slot.t == slot.work.info.steps]
            if finished:
                results.update(self._close(method, slots, flight, finished))
                self._refill(method, move, work, waiting, slots, flight, finished)
        return results

    def _open(self, method: Method, position: int, work: ClientWork) -> _Slot:
        draw: Any = local_batches if self.varies else local_rows
        index, per_step = work.info.index, method.requirements.batches_per_step
        return _Slot(position, work, draw(self.data, self.plan, index, work.beats_used, per_step))

    def _on_device(self, trees: list[Tree]) -> list[Tree]:
        """Return trees on the device; trees of one structure are copied together, leaf by leaf."""
        if self.device.type == "cpu":
            return trees
        flat = [flatten(tree) for tree in trees]
        if any(leaves.keys() != flat[0].keys() for leaves in flat):
            return [unflatten({path: leaf.to(self.device) for path, leaf in leaves.items()}) for leaves in flat]
        copied = {path: torch.stack([leaves[path] for leaves in flat]).to(self.device).unbind() for path in flat[0]}
        return [unflatten({path: parts[j] for path, parts in copied.items()}) for j in range(len(flat))]

    def _begin(self, method: Method, move: "_Mover", work: ClientWork, stored: Tree) -> Flat:
        """Return the leaves of a client's state at the start of its round, on the device."""
        work = prepared(method, self.data, replace(work, shared=move(work.shared)), self.device)
        with torch.device(self.device):  # tensors that ``begin`` creates must be on the same device
            state = method.init_round(work.shared, stored, work.info)
        leaves = flatten({METHOD: state, COUNTS: work.info.class_counts})
        if (excluded := self.data.excluded_classes(work.info.index)) is not None:
            leaves[EXCLUDED] = excluded
        return {path: leaf if leaf.device == self.device else leaf.to(self.device) for path, leaf in leaves.items()}

    def _close(
        self, method: Method, slots: list[_Slot | None], flight: _Flight, finished: list[int]
    ) -> dict[int, ClientResult]:
        """Finish the clients in slots ``finished``; returns results by position in the round's work."""
        index = torch.tensor(finished, dtype=torch.int64, device=self.device)
        ended = {path: leaf[index].cpu() for path, leaf in flight.state.items()}
        totals = {name: value[index].tolist() for name, value in flight.sums.items()}
        results = {}
        for j, k in enumerate(finished):
            slot = slots[k]
            assert slot is not None
            means = {name: total[j] / slot.t for name, total in totals.items()}
            state = unflatten({path: leaf[j] for path, leaf in ended.items()})[METHOD]
            results[slot.position] = close_client(method, self.data, self.plan, slot.work, state, means, slot.beats)
        return results

    def _refill(
        self,
        method: Method,
        move: "_Mover",
        work: Sequence[ClientWork],
        waiting: deque[int],
        slots: list[_Slot | None],
        flight: _Flight,
        finished: list[int],
    ) -> None:
        """Assign the slots of finished clients to waiting ones; remove slots when none are waiting."""
        for k in finished:
            slots[k] = None
            if not waiting:
                continue
            i = waiting.popleft()
            slots[k] = self._open(method, i, work[i])
            (stored,) = self._on_device([work[i].client_state])
            for path, leaf in self._begin(method, move, work[i], stored).items():
                flight.state[path][k] = leaf
            for value in flight.sums.values():
                value[k] = 0.0
        if None in slots:
            stay = [k for k, slot in enumerate(slots) if slot is not None]
            flight.keep(torch.tensor(stay, dtype=torch.int64, device=self.device))
            slots[:] = [slots[k] for k in stay]

    def _step(self, method: Method, slots: list[_Slot | None], flight: _Flight) -> None:
        """Take one step of every slot."""
        drawn, weight = self._next_batches(method, slots)
        t = torch.tensor([slot.t if slot else 0 for slot in slots], device=self.device)
        for slot in slots:
            if slot:
                slot.t += 1
        row_weight = None if weight.all() else weight.to(self.device)  # left out if all rows count
        flight.run({name: value.to(self.device) for name, value in drawn.items()}, row_weight, t)

    def _stacked_step(self, method: Method) -> StackedStep:
        mapped_step = torch.func.vmap(_client_step(method))

        def step(state: Flat, drawn: Flat, weight: Tensor | None, t: Tensor) -> tuple[Flat, Losses]:
            batches = self.beats.gather(drawn[INDEX]) if INDEX in drawn else drawn
            new, losses = mapped_step(state, batches if weight is None else {**batches, "weight": weight}, t)
            # vmap may return a constant as an expanded view, but slots are written to
            return {path: leaf.contiguous() for path, leaf in new.items()}, losses

        if self.device.type != "cuda" or not self.replay:
            return step
        if self._replayed is None or self._replayed[0] is not method:
            self._replayed = (method, ReplayedStep(step))
        return self._replayed[1]

    def _next_batches(self, method: Method, slots: list[_Slot | None]) -> tuple[Flat, Tensor]:
        """Return what is drawn for each slot (slots, batches, B), and weights: 1 for beats, 0 for padding."""
        per_step, size = method.requirements.batches_per_step, self.plan.batch_size
        index = np.zeros((len(slots), per_step, size), dtype=np.int64)
        weight = np.zeros(index.shape, dtype=np.float32)
        augmented: list[dict[str, Tensor]] = []
        for k, slot in enumerate(slots):
            assert slot is not None  # removed by ``_refill``
            for j, batch in enumerate(next(slot.batches)):
                if isinstance(batch, Batch):
                    augmented.append(_padded(batch, size))
                    length = len(batch.label)
                else:
                    length = len(batch)
                    index[k, j, :length] = self.beats.index_of(batch)
                weight[k, j, :length] = 1.0
                slot.beats += length
        if not augmented:
            return {INDEX: torch.from_numpy(index)}, torch.from_numpy(weight)
        stacked = {name: torch.stack([arrays[name] for arrays in augmented]) for name in augmented[0]}
        drawn = {name: value.reshape(*index.shape, *value.shape[2:]) for name, value in stacked.items()}
        return drawn, torch.from_numpy(weight)


def _padded(batch: Batch, size: int) -> dict[str, Tensor]:
    """Return windows, labels and RR features of a batch, ``size`` rows: the first one is repeated as padding."""
    arrays = {"examples": batch.inputs.examples, "label": batch.label, "rr": batch.inputs.rr}
    rows = torch.arange(size)
    rows[len(batch.label) :] = 0
    return {name: value[rows] for name, value in arrays.items() if value is not None}


class _Mover:
    """Moves trees sent by the server to a device for one round; tensors shared by clients are moved once."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._copies: dict[int, tuple[Tensor, Tensor]] = {}  # holds the original too, so that its id stays unique

    def __call__(self, tree: Tree) -> Tree:
        """Return a tree with the same leaves on the device."""
        return unflatten({path: self._to_device(leaf) for path, leaf in flatten(tree).items()})

    def _to_device(self, leaf: Tensor) -> Tensor:
        if id(leaf) not in self._copies:
            self._copies[id(leaf)] = (leaf, leaf.to(self.device))
        return self._copies[id(leaf)][1]


def _client_step(method: Method) -> Callable[..., tuple[Flat, Losses]]:
    """Return a method's step for one client over flat trees, for ``vmap``."""

    def step(state: Flat, batches: dict[str, Tensor], t: Tensor) -> tuple[Flat, Losses]:
        tree = unflatten(state)
        group = [
            Batch(
                Inputs(
                    batches["examples"][j],
                    batches["rr"][j] if "rr" in batches else None,
                    batches["weight"][j] if "weight" in batches else None,
                ),
                batches["label"][j],
                tree[COUNTS],
                excluded=tree.get(EXCLUDED),
            )
            for j in range(method.requirements.batches_per_step)
        ]
        new, losses = method.step(tree[METHOD], group, t)
        return flatten({**tree, METHOD: new}), losses

    return step
