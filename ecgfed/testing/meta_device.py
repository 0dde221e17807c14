"""Find what would fail or wait on a GPU without having one: rounds on PyTorch's ``meta`` device.

Tensors of that device have a shape and no values. So whatever reads a value raises an error: ``.item()``, ``.cpu()``,
``if`` on a tensor, an index by a boolean mask. PyTorch itself lets some operations mix devices there that it refuses on
a GPU (a convolution whose weight is on the CPU), so ``OneDevice`` inspects every operation, forward and backward.
"""

import copy
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from ecgfed.core.evaluation.predict import chain_logits
from ecgfed.core.federation.batched import BatchedEngine
from ecgfed.core.federation.client_round import (
    ClientEngine,
    ClientResult,
    ClientWork,
    close_client,
    prepared,
    train_locally,
)
from ecgfed.core.federation.cuda_graphs import Flat
from ecgfed.core.federation.data import TrainingData
from ecgfed.core.federation.plan import TrainPlan
from ecgfed.core.federation.state import State
from ecgfed.core.federation.train import initial_state, train
from ecgfed.core.federation.trees import flatten, unflatten
from ecgfed.core.methods.base import Batch, Method, Tree
from ecgfed.core.methods.models import Model, Pipeline
from ecgfed.core.nets.net import Inputs, Net
from ecgfed.testing.checks import expect
from ecgfed.testing.federation import synthetic_federation
from ecgfed.testing.trial import Trial

META = torch.device("meta")
#: Hooks that an engine calls on its device; the others work with tensors on the CPU.
ON_DEVICE = ("pre_round_metrics", "init_round", "step")


class OneDevice(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Inside, an operation that mixes devices, or in which a tensor is on the CPU at all, raises AssertionError.

    Args:
        transfers: allow operations on the CPU, and explicit copies of their results to ``meta``.
    """

    def __init__(self, transfers: bool = False) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.transfers = transfers
        #: Python numbers as vmap wraps them, which a GPU takes from the CPU; held, so that their ids stay unique
        self._numbers: dict[int, Tensor] = {}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Run one operation between two inspections."""
        named = kwargs or {}
        returned = func(*args, **named)
        tensors = [leaf for leaf in tree_leaves((args, named, returned)) if isinstance(leaf, Tensor)]
        elsewhere = [leaf for leaf in tensors if leaf.device != META and id(leaf) not in self._numbers]
        is_copy = func is torch.ops.aten._to_copy.default
        if is_copy and not isinstance(args[0], Tensor):
            self._numbers[id(returned)] = returned
        elif elsewhere and not (self.transfers and (is_copy or len(elsewhere) == len(tensors))):
            shape, device = tuple(elsewhere[0].shape), elsewhere[0].device
            raise AssertionError(f"{func} has a tensor {shape} on the {device}, the others are on the device")
        return returned


def guarded(call: Callable[..., Any], what: str, *, transfers: bool = False) -> Callable[..., Any]:
    """Return the function run inside ``OneDevice``; an error is an AssertionError that names the line.

    Args:
        call: returns tensors on ``meta``.
        what: its name, for messages.
        transfers: as in ``OneDevice``.
    """

    def run(*arguments: Any, **named: Any) -> Any:
        try:
            with OneDevice(transfers):
                returned = call(*arguments, **named)
        except (AssertionError, RuntimeError, TypeError) as error:  # NotImplementedError is a RuntimeError
            frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "/torch/" not in frame.filename]
            line = next(frame.line for frame in reversed(frames) if frame.filename != __file__)
            problem = str(error).partition("\n")[0]
            raise AssertionError(f"{what} would fail on a GPU, or wait for it, at '{line}': {problem}") from error
        for leaf in tree_leaves(returned):
            expect(leaf.device == META, f"{what} returns a tensor on the CPU, not on the device of its arguments")
        return returned

    return run


def _guarded_hooks(method: Method) -> Method:
    """Return the same method, with each hook that runs on the device guarded."""
    twin = copy.copy(method)
    for hook in ON_DEVICE:
        # before the local steps, something may be copied to the device
        setattr(twin, hook, guarded(getattr(method, hook), hook, transfers=hook != "step"))
    return twin


def _on_meta(tree: Tree) -> Tree:
    return unflatten({path: leaf.to(META) for path, leaf in flatten(tree).items()})


def _ones(leaves: Flat) -> Flat:
    """Return ones in place of leaves that have no values, on the CPU."""
    return {path: torch.ones(leaf.shape, dtype=leaf.dtype) for path, leaf in leaves.items()}


class MetaStacks(BatchedEngine):
    """The batched engine on ``meta``; the results that it copies to the CPU are ones."""

    def __init__(self, data: TrainingData, plan: TrainPlan) -> None:
        super().__init__(data, plan, "meta", slots=1)  # so that a slot is used again

    def run(self, method: Method, work: Sequence[ClientWork]) -> list[ClientResult]:
        """Run all clients of a round; raises AssertionError where a GPU would fail or wait."""
        return super().run(_guarded_hooks(method), work)

    @staticmethod
    def _to_cpu(leaves: Flat) -> Flat:
        return _ones(leaves)


class MetaLoop:
    """A client after the other on ``meta``; the results that it copies to the CPU are ones.

    Args:
        data: the training beats.
        plan: local work, batch size, seed.
    """

    def __init__(self, data: TrainingData, plan: TrainPlan) -> None:
        self.data, self.plan = data, plan
        #: a client's last message to the server
        self.returned: Tree = {}

    def run(self, method: Method, work: Sequence[ClientWork]) -> list[ClientResult]:
        """Run all clients of a round; raises AssertionError where a GPU would fail or wait."""
        results = [self._run(method, _guarded_hooks(method), client_work) for client_work in work]
        self.returned = results[-1].returned
        return results

    def _run(self, method: Method, guarded_method: Method, work: ClientWork) -> ClientResult:
        moved = ClientWork(work.info, _on_meta(work.shared), _on_meta(work.client_state), work.beats_used)
        moved = prepared(guarded_method, self.data, moved, META)
        state, sums, beats = train_locally(guarded_method, self.data, self.plan, moved, META)
        ended = unflatten(_ones(flatten(state)))
        return close_client(method, self.data, self.plan, work, ended, dict.fromkeys(sums, 1.0), beats)


def computes_on_meta(net: Net, model: Model, inputs: Inputs, what: str) -> None:
    """Compute the logits of a model with parameters and inputs on ``meta``.

    Raises:
        AssertionError: an operation that a GPU would refuse or wait for; ``what`` names the model.
    """
    on_device = Batch(inputs, torch.zeros(len(inputs.examples), dtype=torch.int64)).to(META).inputs
    for pipeline in (model,) if isinstance(model, Pipeline) else model.members:
        stages = tuple(replace(stage, params=_on_meta(stage.params)) for stage in pipeline.stages)
        guarded(chain_logits, what)(net, Pipeline(stages), on_device)


def runs_on_meta(trial: Trial, method: Method | None = None, data: TrainingData | None = None) -> None:
    """Run the first and the last of ten rounds with either engine, and every model that results, on ``meta``.

    Args:
        trial: the method under test.
        method: an instance on another net than the trial's.
        data: other clients, whose examples fit that net.

    Raises:
        AssertionError: an operation that a GPU would refuse or wait for.
    """
    method = method or trial.build()
    data = data or synthetic_federation([[0, 1, 2] * 4, [2, 0, 1]], rr=True)  # a full batch, and one with padding
    plan = trial.plan(rounds=10, local_epochs=None, local_steps=2)
    loop = MetaLoop(data, plan)
    with MetaStacks(data, plan) as stacks:
        state = _first_and_last_round(method, data, plan, stacks)
    _first_and_last_round(method, data, plan, loop)
    inputs = data.batch(data.rows[0]).inputs
    for what, model in trial.models(method, state):
        computes_on_meta(method.net, model, inputs, what)
    local = method.local_model(loop.returned)
    if local is not None:
        computes_on_meta(method.net, local, inputs, "a client's local model")


def _first_and_last_round(method: Method, data: TrainingData, plan: TrainPlan, engine: ClientEngine) -> State:
    """Train two rounds, since methods have phases; the others are skipped as if without participants."""
    state = initial_state(method, plan)
    for number in (1, plan.rounds):
        state.round = number - 1
        train(method, data, plan, engine, state, should_stop=lambda: True)
    return state
