"""Instrumented hooks of a method: arguments must not be modified, and results must be trees."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import torch
from torch import Tensor

from ecgfed.core.methods.base import Method
from ecgfed.testing.checks import expect

#: Hooks whose arguments are compared before and after a call; models have a check of their own.
HOOKS = (
    "server_start",
    "client_start",
    "server_message",
    "pre_round_metrics",
    "init_round",
    "step",
    "finish_round",
    "aggregate",
    "init_new_client",
)
#: Path of a leaf -> shape and dtype.
TreeShape = dict[str, tuple[tuple[int, ...], torch.dtype]]


def leaves(value: object, path: str = "") -> Iterator[tuple[str, object]]:
    """Yield all leaves of a tree, a batch, a sequence of them or a dataclass, with its path."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from leaves(inner, f"{path}/{name}")
        yield f"{path}/", tuple(value)  # the keys themselves, including empty branches
    elif isinstance(value, Tensor):
        yield path, value
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for number, inner in enumerate(value):
            yield from leaves(inner, f"{path}/{number}")
    elif is_dataclass(value):
        for part in fields(value):
            yield from leaves(getattr(value, part.name), f"{path}/{part.name}")


def snapshot(value: object) -> dict[str, object]:
    """Return a copy of all leaves by path."""
    return {path: leaf.clone() if isinstance(leaf, Tensor) else leaf for path, leaf in leaves(value)}


def same(a: object, b: object) -> bool:
    """Return whether two leaves are identical, to the bit; NaN equals NaN."""
    if not (isinstance(a, Tensor) and isinstance(b, Tensor)):
        return a is b or (type(a) is type(b) and a == b)
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    return torch.equal(a, b) or bool(((a == b) | (a.isnan() & b.isnan())).all())


def changed(value: object, before: Mapping[str, object]) -> str:
    """Return the path of the first leaf that differs from the snapshot, or ""."""
    now = dict(leaves(value))
    for path in {**before, **now}:
        if path not in before or path not in now or not same(before[path], now[path]):
            return path.strip("/") or "its keys"
    return ""


def shape_of(tree: object, what: str) -> TreeShape:
    """Return shapes and dtypes of a tree's leaves; raises AssertionError if it is not a tree of tensors."""
    expect(isinstance(tree, dict), f"{what} is {type(tree).__name__}, not a tree (a nested dictionary of tensors)")
    leaf_shapes: TreeShape = {}

    def walk(branch: Mapping[Any, object], path: str) -> None:
        for name, value in branch.items():
            expect(isinstance(name, str) and name and "/" not in name, f"{what} has the key {name!r} at {path or '/'}")
            if isinstance(value, dict):
                walk(value, f"{path}{name}/")
            else:
                actual = type(value).__name__
                expect(isinstance(value, Tensor), f"{path}{name} of {what} is {actual}, not a tensor")
                assert isinstance(value, Tensor)
                leaf_shapes[f"{path}{name}"] = (tuple(value.shape), value.dtype)

    assert isinstance(tree, dict)
    walk(tree, "")
    return leaf_shapes


def difference(a: TreeShape, b: TreeShape) -> str:
    """Describe the first path where two shapes differ; "" if they are equal."""
    for path in sorted({**a, **b}):
        if a.get(path) != b.get(path):
            return f"{path} is {_leaf_text(a.get(path))} and then {_leaf_text(b.get(path))}"
    return ""


def _leaf_text(leaf: tuple[tuple[int, ...], torch.dtype] | None) -> str:
    return "missing" if leaf is None else f"{str(leaf[1]).removeprefix('torch.')} {leaf[0]}"


class HookRecorder:
    """Checks and records what the hooks of an instrumented method return.

    Attributes:
        client_messages: messages to the server from ``finish_round``, call by call.
    """

    def __init__(self) -> None:
        self.client_messages: list[Any] = []
        self._shapes: dict[tuple[str, int], TreeShape] = {}

    def __call__(self, hook: str, arguments: tuple[Any, ...], returned: Any) -> None:
        """Record what a hook returned; raises AssertionError if an engine cannot use it."""
        if hook == "pre_round_metrics":
            _check_losses(returned, "pre_round_metrics")
        elif hook == "step":
            expect(isinstance(returned, tuple) and len(returned) == 2, "step does not return a state and its losses")
            state, losses = returned
            before, after = shape_of(arguments[0], "a state"), shape_of(state, "the state that step returns")
            expect(before == after, f"step changes the form of its state: {difference(before, after)}")
            _check_losses(losses, "step")
            expect("loss" in losses, "step returns losses without one named 'loss'")
        elif hook == "finish_round":
            expect(isinstance(returned, tuple) and len(returned) == 2, "finish_round does not return two trees")
            self.client_messages.append(returned[0])
            self._same_for_all("what finish_round returns for the server", returned[0], arguments[1].round)
            self._same_for_all("what finish_round stores", returned[1], arguments[1].round)
        elif hook == "init_round":
            self._same_for_all("what init_round returns", returned, arguments[2].round)
        else:
            shape_of(returned, f"what {hook} returns")

    def _same_for_all(self, what: str, tree: object, number: int) -> None:
        """Check that the trees of a round's clients have equal shapes, since engines stack them."""
        shape = shape_of(tree, what)
        first = self._shapes.setdefault((what, number), shape)
        expect(shape == first, f"{what} differs in form between the clients of a round: {difference(first, shape)}")


def _check_losses(losses: object, hook: str) -> None:
    expect(isinstance(losses, dict), f"{hook} returns losses that are not a dictionary")
    assert isinstance(losses, dict)
    for name, value in losses.items():
        shape = tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
        expect(shape == (), f"{hook} returns the loss {name!r} as {shape}, not as a 0-d tensor")


def instrumented(kind: type[Method], recorder: HookRecorder) -> type[Method]:
    """Return a subclass whose hooks raise AssertionError if they violate the contract of hooks."""

    def wrap(hook: str) -> Callable[..., object]:
        implementation = getattr(kind, hook)

        def call(self: Method, *arguments: object, **named: object) -> object:
            before = [snapshot(argument) for argument in arguments]
            returned = implementation(self, *arguments, **named)
            for argument, original in zip(arguments, before, strict=True):
                path = changed(argument, original)
                expect(not path, f"{hook} changes its arguments ({path})")
            recorder(hook, arguments, returned)
            return returned

        return call

    return type(kind.__name__, (kind,), {hook: wrap(hook) for hook in HOOKS})
