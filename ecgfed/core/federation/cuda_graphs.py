"""Replay a stacked step as a CUDA graph: one launch instead of some hundred kernels and their Python calls."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial

import torch
from torch import Tensor

from ecgfed.core.methods.base import Losses

Flat = dict[str, Tensor]
#: (state, drawn, weight, t) -> (new state, losses), all with slots as first axis
StackedStep = Callable[[Flat, Flat, Tensor | None, Tensor], tuple[Flat, Losses]]
Capture = Callable[[torch.cuda.CUDAGraph], AbstractContextManager[None]]
#: Maximum number of graphs; a run with more shapes than this takes further ones without a graph.
MAX_GRAPHS = 64


class ReplayedStep:
    """A stacked step that is captured at the second call with the same shapes, and replayed from then on.

    A step that cannot be captured, because it copies something from the CPU, is called as it is. The state that is
    returned is overwritten by the next call.

    Args:
        step: the step; a pure function of its tensors.
    """

    def __init__(self, step: StackedStep) -> None:
        self._step = step
        self._graphs: dict[object, _Graph | None] = {}
        self._plain = False
        self._capture: Capture = partial(torch.cuda.graph, pool=torch.cuda.graph_pool_handle())

    def __call__(self, state: Flat, drawn: Flat, weight: Tensor | None, t: Tensor) -> tuple[Flat, Losses]:
        """Take a step."""
        layout = tuple((path, leaf.shape, leaf.dtype) for path, leaf in state.items())
        key = (layout, tuple((name, value.shape) for name, value in drawn.items()), weight is None)
        graph = self._graphs.get(key)
        if graph is None and key in self._graphs and not self._plain:
            try:
                graph = self._graphs[key] = _Graph(self._step, state, drawn, weight, t, self._capture)
            except (RuntimeError, KeyError):  # a copy from the CPU, a state that grows
                self._plain = True
        if graph is not None:
            return graph(state, drawn, weight, t)
        if len(self._graphs) < MAX_GRAPHS:  # the first call is plain: kernels are loaded, libraries choose algorithms
            self._graphs[key] = None
        return self._step(state, drawn, weight, t)


class _Graph:
    """A captured step and the tensors that it reads and writes."""

    def __init__(
        self, step: StackedStep, state: Flat, drawn: Flat, weight: Tensor | None, t: Tensor, capture: Capture
    ) -> None:
        self.state = {path: leaf.clone(memory_format=torch.contiguous_format) for path, leaf in state.items()}
        copies = {name: value.clone() for name, value in drawn.items()}
        self.inputs = [*copies.values(), t.clone(), *([] if weight is None else [weight.clone()])]
        row_weight = None if weight is None else self.inputs[-1]
        self._graph = torch.cuda.CUDAGraph()
        with capture(self._graph):
            new, self.losses = step(self.state, copies, row_weight, self.inputs[len(copies)])
            torch._foreach_copy_(list(self.state.values()), [new[path] for path in self.state])

    def __call__(self, state: Flat, drawn: Flat, weight: Tensor | None, t: Tensor) -> tuple[Flat, Losses]:
        if state is not self.state:
            torch._foreach_copy_(list(self.state.values()), [state[path] for path in self.state])
        torch._foreach_copy_(self.inputs, [*drawn.values(), t, *([] if weight is None else [weight])])
        self._graph.replay()
        return self.state, self.losses
