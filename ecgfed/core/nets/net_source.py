"""Where a net of somebody's own comes from: a class or function passed in the current call, or ``FILE.py:CLASS``.

Loading code runs it, so names read from a file are never loaded (``ecgfed.base.plugins``): the caller passes them.
"""

import contextlib
import inspect
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn.modules.batchnorm import _NormBase

from ecgfed.base.errors import OptionError, RunError, param
from ecgfed.base.plugins import check_pin, digest_of, is_of_script, load_code, names_code, origin_of
from ecgfed.core.nets.net import NetSpec

#: A module's class, or a function that returns one.
NetFactory = Callable[..., nn.Module]
#: Layers whose parameters ``norm_of`` takes for those of normalisation layers.
NORMS = (_NormBase, nn.GroupNorm, nn.LayerNorm, nn.RMSNorm)
#: Parameters of a class that get the number of classes.
_CLASSES = ("classes", "num_classes", "n_classes")
_GENERATOR = threading.RLock()


@dataclass(frozen=True)
class NetSource:
    """Creates a module.

    Attributes:
        factory: the class, or a function that returns a module.
        origin: ``/path/FILE.py:CLASS`` or ``package.module:CLASS``.
        sha256: SHA-256 of its source file, ``""`` if there is none (as in a notebook), or it is the running script, the
            rest of which may change before the run is opened again.
    """

    factory: NetFactory
    origin: str
    sha256: str

    @property
    def short(self) -> str:
        """Name of the class, for messages."""
        return self.origin.rpartition(":")[2]

    @property
    def takes_rr(self) -> bool:
        """Whether the forward of a class takes a second argument, RR features beside the window."""
        forward = getattr(self.factory, "forward", None)
        if forward is None:
            return False
        required = [
            parameter
            for parameter in inspect.signature(forward).parameters.values()
            if parameter.default is parameter.empty
            and parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
        ]
        return len(required) > 2  # self, the window, and RR features

    def norm(self, classes: int) -> str:
        """Return the normalisation that a module has: ``batch`` with running statistics, ``group``, or ``none``."""
        with drawing():
            norms = [part for part in self.create(classes).modules() if isinstance(part, NORMS)]
        norms = [norm for norm in norms if any(value.requires_grad for value in norm.parameters()) or [*norm.buffers()]]
        if any(isinstance(norm, _NormBase) and norm.track_running_stats for norm in norms):
            return "batch"
        return "group" if norms else "none"

    def create(self, classes: int) -> nn.Module:
        """Return a module; a class that has a parameter ``classes`` or ``num_classes`` gets their number.

        Raises:
            OptionError: it fails, or returns something else.
        """
        try:
            names = tuple(inspect.signature(self.factory).parameters)
        except (TypeError, ValueError):  # a class written in C
            names = ()
        arguments = {name: classes for name in _CLASSES if name in names}
        try:
            module = self.factory(**arguments)
        except Exception as problem:
            reason = f"{self.short} fails with {type(problem).__name__}: {problem}"
            expected = "a class that takes no arguments, or the number of classes"
            action = f"otherwise pass {param('net=lambda: ...')}" if isinstance(problem, TypeError) else ""
            raise OptionError("net", reason, expected, action, code="code-not-loaded") from problem
        if not isinstance(module, nn.Module):
            raise OptionError("net", f"{self.short} returns {type(module).__name__}", "a torch.nn.Module")
        return module


@contextlib.contextmanager
def drawing(seed: int | None = None) -> Iterator[None]:
    """Let a module draw from torch's own generator, seeded if asked, whose state is then put back.

    One thread at a time: threads share the generator, and an executor of threads trains several runs at once.
    """
    with _GENERATOR, torch.random.fork_rng(devices=[]):
        if seed is not None:
            torch.manual_seed(seed)
        yield


def is_own(net: str | NetFactory | None) -> bool:
    """Return whether a net is user code, and not a name of this package or the default."""
    return net is not None and not (isinstance(net, str) and not names_code(net))


def name_of_net(net: str | NetFactory | None) -> str | None:
    """Return a net as options have it: of a class or function its origin; raises OptionError."""
    return net if net is None or isinstance(net, str) else net_source(net).origin


def net_source(net: str | NetFactory, pinned: str | None = None) -> NetSource:
    """Return the source of a net that the caller named in the current call.

    Args:
        net: ``FILE.py:CLASS``, ``package.module:CLASS``, a class, or a function that returns a module.
        pinned: the required SHA-256 of its file; None for any.

    Raises:
        OptionError: it cannot be loaded, is not the pinned one, or creates no module.
    """
    if isinstance(net, str):
        loaded = load_code(net, "net", pinned)
        factory, origin, sha256 = loaded.value, loaded.origin, loaded.sha256
    else:
        pinnable = hasattr(net, "__qualname__") and not is_of_script(net)  # a partial's module is Python's
        digest = digest_of(net) if pinnable else ""
        factory, origin, sha256 = net, _origin(net), digest
        check_pin(param("net"), sha256, pinned)
    if isinstance(factory, nn.Module) or not callable(factory):
        what = "an instance" if isinstance(factory, nn.Module) else repr(factory)[:60]
        expected = "a torch.nn.Module's class, or a function that returns one"
        raise OptionError("net", f"{origin} is {what}", expected, "such as net=lambda: ...")
    return NetSource(factory, origin, sha256)


def _origin(factory: object) -> str:
    if isinstance(factory, type):
        return origin_of(factory)
    named = factory if hasattr(factory, "__qualname__") else type(factory)
    module = "__main__" if is_of_script(named) else getattr(named, "__module__", "")
    return f"{module}:{getattr(named, '__qualname__', '')}"


def stored_net(spec: NetSpec, where: object, passed: "str | NetFactory | NetSource | None") -> NetSource | None:
    """Return the source of a stored run's net, None for a net of this package; code named by the run is never loaded.

    Args:
        spec: the run's net.
        where: the run's file, for messages.
        passed: the net that the caller named; a run on somebody's own net needs it.

    Raises:
        RunError: a net of one's own that was not passed, or another net than the run's.
        OptionError: another file than the one that the run was created with; the message has both digests.
    """
    if spec.module is None:
        if passed is not None and passed != spec.architecture:
            action = f"leave {param('net')} out"
            raise RunError(where, f"was begun with net {spec.architecture}, not {passed!s:.200}", action=action)
        return None
    if passed is None:
        actual = f"its net {spec.architecture!r:.200} is somebody's own code, which is not run because a file names it"
        action = f"read it, then pass it with {param('net=FILE.py:CLASS')}"
        raise RunError(where, actual, "you to name its file", action, code="code-not-loaded")
    pinned = spec.module.sha256 or None
    if isinstance(passed, NetSource):
        return passed
    name = passed if isinstance(passed, str) else _origin(passed)
    if name.rpartition(":")[2] != spec.architecture.rpartition(":")[2]:
        action = f"pass its own file with {param('net=FILE.py:CLASS')}"
        raise RunError(where, f"was begun with net {spec.architecture!s:.200}, not {name!s:.200}", action=action)
    return net_source(passed, pinned)
