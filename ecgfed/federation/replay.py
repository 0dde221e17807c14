"""The stacked step as one recorded CUDA graph: a step's hundreds of kernel launches become one.

A recording reads and writes fixed memory: the state, the rows of the next batches and the sums of the losses have one
place each, and a step changes them there. Its shapes never change, so slots that nobody waits for train on on nothing
(all rows of weight 0) until the round ends.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from ecgfed.methods.base import Losses
from ecgfed.nets.layers import mapped_over_clients

Flat = dict[str, Tensor]
#: (state, places, weight, t) -> (new state, losses), all with a first axis of slots
StackedStep = Callable[[Flat, Tensor, Tensor | None, Tensor], tuple[Flat, Losses]]
WARM_UP = 3


class Recording:
    """A stacked step over fixed memory; on a GPU recorded once and replayed, elsewhere called.

    Args:
        step: the stacked step.
        state: the first state, leaves (slots, ...); copied.
        places: (slots, batches, B) int64 rows of a step, for its shape.
    """

    def __init__(self, step: StackedStep, state: Flat, places: Tensor) -> None:
        self._step = step
        self.state = {path: leaf.clone(memory_format=torch.contiguous_format) for path, leaf in state.items()}
        self._places = torch.zeros_like(places)
        self._weight = torch.zeros(places.shape, dtype=torch.float32, device=places.device)
        self._t = torch.zeros(places.shape[0], dtype=torch.int64, device=places.device)
        self.sums: Losses = {}
        self._graph: torch.cuda.CUDAGraph | None = None

    def load(self, state: Flat) -> None:
        """Put the state of a new round into place and forget the losses."""
        for path, leaf in state.items():
            self.state[path].copy_(leaf)
        for value in self.sums.values():
            value.zero_()

    def run(self, places: Tensor, weight: Tensor, t: Tensor) -> None:
        """Take a step: changes ``state`` and adds to ``sums``."""
        self._places.copy_(places)
        self._weight.copy_(weight)
        self._t.copy_(t)
        if not places.is_cuda:
            self._in_place()
            return
        if self._graph is None:
            self._record()
        assert self._graph is not None
        self._graph.replay()

    def _in_place(self) -> None:
        with mapped_over_clients():
            new, losses = self._step(self.state, self._places, self._weight, self._t)
        for path, leaf in new.items():
            self.state[path].copy_(leaf)
        for name, value in losses.items():
            self.sums.setdefault(name, torch.zeros_like(value, dtype=torch.float64)).add_(value)

    def _record(self) -> None:
        """Record after a few steps aside, as CUDA asks for; they leave no trace in state and sums."""
        before = {path: leaf.clone() for path, leaf in self.state.items()}
        aside = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(WARM_UP):
                self._in_place()
        torch.cuda.current_stream().wait_stream(aside)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self._in_place()
        self.load(before)
