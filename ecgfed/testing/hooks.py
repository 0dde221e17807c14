"""A method whose hooks are watched: what they are given has to stay as it was, what they return to be trees."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import torch
from torch import Tensor

from ecgfed.methods.base import Method
from ecgfed.testing.promises import expect

#: Hooks whose arguments are looked at before and after; answers are asked for in a check of their own.
HOOKS = ("server_start", "client_start", "shared", "survey", "begin", "step", "finish", "aggregate", "newcomer")
#: Path of a leaf -> its shape and type.
Form = dict[str, tuple[tuple[int, ...], torch.dtype]]


def leaves(value: object, path: str = "") -> Iterator[tuple[str, object]]:
    """Yield everything that lies in a tree, a batch, a sequence of them or a dataclass, with its path."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from leaves(inner, f"{path}/{name}")
        yield f"{path}/", tuple(value)  # the keys themselves, of empty branches too
    elif isinstance(value, Tensor):
        yield path, value
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for number, inner in enumerate(value):
            yield from leaves(inner, f"{path}/{number}")
    elif is_dataclass(value):
        for part in fields(value):
            yield from leaves(getattr(value, part.name), f"{path}/{part.name}")


def remembered(value: object) -> dict[str, object]:
    """Return a copy of all leaves by path."""
    return {path: leaf.clone() if isinstance(leaf, Tensor) else leaf for path, leaf in leaves(value)}


def same(one: object, other: object) -> bool:
    """Whether two leaves are the same, to the bit; NaN is NaN."""
    if not (isinstance(one, Tensor) and isinstance(other, Tensor)):
        return one is other or (type(one) is type(other) and one == other)
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    return torch.equal(one, other) or bool(((one == other) | (one.isnan() & other.isnan())).all())


def changed(value: object, before: Mapping[str, object]) -> str:
    """Return the path of the first leaf that is no longer what it was, "" where all are."""
    now = dict(leaves(value))
    for path in {**before, **now}:
        if path not in before or path not in now or not same(before[path], now[path]):
            return path.strip("/") or "its keys"
    return ""


def form_of(tree: object, what: str) -> Form:
    """Return shapes and types of a tree's leaves; raises AssertionError where it is no tree of tensors."""
    expect(isinstance(tree, dict), f"{what} is {type(tree).__name__}, not a tree (a nested dictionary of tensors)")
    form: Form = {}

    def walk(branch: Mapping[Any, object], path: str) -> None:
        for name, value in branch.items():
            expect(isinstance(name, str) and name and "/" not in name, f"{what} has the key {name!r} at {path or '/'}")
            if isinstance(value, dict):
                walk(value, f"{path}{name}/")
            else:
                found = type(value).__name__
                expect(isinstance(value, Tensor), f"{path}{name} of {what} is {found}, not a tensor")
                assert isinstance(value, Tensor)
                form[f"{path}{name}"] = (tuple(value.shape), value.dtype)

    assert isinstance(tree, dict)
    walk(tree, "")
    return form


def differing(one: Form, other: Form) -> str:
    """Return the first path where two forms differ, with what stands there, "" where they are the same."""
    for path in sorted({**one, **other}):
        if one.get(path) != other.get(path):
            return f"{path} is {_told(one.get(path))} and then {_told(other.get(path))}"
    return ""


def _told(leaf: tuple[tuple[int, ...], torch.dtype] | None) -> str:
    return "not there" if leaf is None else f"{str(leaf[1]).removeprefix('torch.')} {leaf[0]}"


class Watch:
    """What the hooks of watched methods have returned.

    Attributes:
        sent_back: what ``finish`` sent back, call by call.
    """

    def __init__(self) -> None:
        self.sent_back: list[Any] = []
        self._forms: dict[tuple[str, int], Form] = {}

    def __call__(self, hook: str, arguments: tuple[Any, ...], returned: Any) -> None:
        """Look at what a hook returned; raises AssertionError where it is not what an engine can work with."""
        if hook == "survey":
            _check_losses(returned, "survey")
        elif hook == "step":
            expect(isinstance(returned, tuple) and len(returned) == 2, "step does not return a state and its losses")
            state, losses = returned
            before, after = form_of(arguments[0], "a state"), form_of(state, "the state that step returns")
            expect(before == after, f"step changes the form of its state: {differing(before, after)}")
            _check_losses(losses, "step")
            expect("loss" in losses, "step returns losses without one named 'loss'")
        elif hook == "finish":
            expect(isinstance(returned, tuple) and len(returned) == 2, "finish does not return two trees")
            self.sent_back.append(returned[0])
            self._same_for_all("what finish sends back", returned[0], arguments[1].round)
            self._same_for_all("what finish keeps", returned[1], arguments[1].round)
        elif hook == "begin":
            self._same_for_all("what begin returns", returned, arguments[2].round)
        else:
            form_of(returned, f"what {hook} returns")

    def _same_for_all(self, what: str, tree: object, number: int) -> None:
        """Clients of a round are stacked: their trees have one form."""
        form = form_of(tree, what)
        first = self._forms.setdefault((what, number), form)
        expect(form == first, f"{what} differs in form between the clients of a round: {differing(first, form)}")


def _check_losses(losses: object, hook: str) -> None:
    expect(isinstance(losses, dict), f"{hook} returns losses that are no dictionary")
    assert isinstance(losses, dict)
    for name, value in losses.items():
        shape = tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
        expect(shape == (), f"{hook} returns the loss {name!r} as {shape}, not as a 0-d tensor")


def watched(kind: type[Method], watch: Watch) -> type[Method]:
    """Return a class of the same method whose hooks raise AssertionError where they do what no hook may."""

    def looked_at(hook: str) -> Callable[..., object]:
        own = getattr(kind, hook)

        def call(self: Method, *arguments: object, **named: object) -> object:
            before = [remembered(argument) for argument in arguments]
            returned = own(self, *arguments, **named)
            for argument, was in zip(arguments, before, strict=True):
                where = changed(argument, was)
                expect(not where, f"{hook} changes what it is given ({where})")
            watch(hook, arguments, returned)
            return returned

        return call

    return type(kind.__name__, (kind,), {hook: looked_at(hook) for hook in HOOKS})
