"""A user's own loss as the setting ``risk``: ``FILE.py:NAME``, ``package.module:NAME``, or a function in Python.

Settings store its name. Opening a run loads no code that its settings name: predictions need no loss, and training
refuses until the user has passed the loss again. An installed package offers losses by entry points of the group
``ecgfed.losses``.
"""

from collections.abc import Callable, Mapping
from functools import partial
from hashlib import sha256
from sys import implementation
from types import CodeType, FunctionType
from typing import Any

from torch import Tensor

from ecgfed.base.errors import OptionError, param
from ecgfed.base.plugins import entries, load_code, load_entry, names_code

ENTRY_POINTS = "ecgfed.losses"
#: Key of the SHA-256 of the loss's file in ``run.json``.
LOSS_PIN = "loss_sha256"
_PYTHON = implementation.cache_tag or implementation.name
#: The setting, in messages.
_WHERE = f"{param('settings')} risk"
#: Logits (B, classes), labels (B,) int64 and the client's training beats of each class (classes,) int64 -> losses (B,).
#: It is called under ``torch.func.vmap`` too: no ``if`` on a tensor's value.
Loss = Callable[[Tensor, Tensor, Tensor], Tensor]

#: Name in settings -> the function and the SHA-256 of its file, "" for none; of this process.
_loaded: dict[str, tuple[Loss, str]] = {}


def with_loss(settings: Mapping[str, Any], pinned: str | None = None) -> dict[str, Any]:
    """Return settings in which a loss of the user's own is loaded and a name; others as they are.

    Args:
        settings: of a method, as passed in the current call.
        pinned: the required SHA-256 of the loss's file; None for any.

    Raises:
        OptionError: the loss cannot be loaded, is not a function, or its file is not the pinned one.
    """
    value = settings.get("risk")
    if callable(value):
        name = f"{getattr(value, '__module__', '')}:{getattr(value, '__qualname__', type(value).__qualname__)}"
        _loaded[name] = (value, _digest_of_code(value))
        return {**settings, "risk": name}
    offered = entries(ENTRY_POINTS)
    if isinstance(value, str) and value in offered:
        value = offered[value].value
    if not isinstance(value, str) or not names_code(value):
        return dict(settings)
    loaded = load_code(value, "settings", pinned)
    if not callable(loaded.value):
        raise OptionError(_WHERE, f"{value} is {loaded.value!r:.50}", "a function of logits, labels and counts")
    _loaded[loaded.short] = (loaded.value, loaded.sha256)
    return {**settings, "risk": loaded.short}


def _digest_of_code(function: Any) -> str:
    """Return a digest of what a function computes with, which another function of the same name does not have.

    Of its code, defaults and enclosed values; global names that it uses do not count. It is the same in every process
    of one version of Python, whose name it begins with. "" for a function of another language, one that encloses other
    objects than numbers, texts and functions, and one that encloses itself.
    """
    try:
        parts = _plain(function)
    except RecursionError:
        return ""
    return f"{_PYTHON}:{sha256(repr(parts).encode()).hexdigest()}" if parts is not None else ""


def _plain(value: Any) -> Any:
    """Return a value as numbers, texts and tuples, whose ``repr`` holds no address; None if that is not possible."""
    if value is None or isinstance(value, bool | int | float | complex | str | bytes):
        return (value,)
    if isinstance(value, CodeType):
        return _plain((value.co_code, value.co_names, value.co_consts))
    if isinstance(value, FunctionType):
        try:
            enclosed = [cell.cell_contents for cell in value.__closure__ or ()]
        except ValueError:  # a name that is bound later
            return None
        return _plain((value.__code__, value.__defaults__, value.__kwdefaults__, enclosed))
    if isinstance(value, partial):
        return _plain((value.func, value.args, value.keywords))
    if isinstance(value, dict):
        value = tuple(sorted(value.items(), key=repr))
    if not isinstance(value, tuple | list | frozenset):
        return None
    parts = tuple(_plain(part) for part in (sorted(value, key=repr) if isinstance(value, frozenset) else value))
    return None if None in parts else parts


def loss_sha256(name: str) -> str:
    """Return the SHA-256 of the file of a loaded loss, or of the code of a function; "" for none."""
    return _loaded[name][1] if name in _loaded else ""


def is_loaded(name: str, pinned: str | None) -> bool:
    """Return whether a loss can be used: it is one of ours, or the very file was loaded in this process."""
    if not names_code(name) or name in _installed():
        return True
    if pinned is not None and ":" in pinned and not pinned.startswith(f"{_PYTHON}:"):
        pinned = None  # the code of a function, as another version of Python compiled it
    return name in _loaded and pinned in (None, _loaded[name][1])


def own_loss(name: str, logits: Tensor, label: Tensor, counts: Tensor) -> Tensor:
    """Return the losses (B,) of a user's function.

    Raises:
        OptionError: it was not passed in this process, or returned another shape.
    """
    if name not in _loaded and name in _installed():
        function: Any = load_entry(_installed()[name])
        _loaded[name] = (function, "")
    if name not in _loaded:
        problem = f"{name!s:.200} is somebody's own code, which is not run because a file names it"
        action = f"read it, then pass it with {param('settings')} risk=FILE.py:NAME"
        raise OptionError(_WHERE, problem, "you to name its file", action, code="code-not-loaded")
    values = _loaded[name][0](logits, label, counts)
    if not isinstance(values, Tensor) or values.shape != label.shape:
        shape = tuple(values.shape) if isinstance(values, Tensor) else values
        raise OptionError(_WHERE, f"{name} returned {shape!r:.100}", f"losses of shape {tuple(label.shape)}")
    return values


def _installed() -> dict[str, Any]:
    """Return the losses of installed packages by the name that settings store."""
    return {entry.value: entry for entry in entries(ENTRY_POINTS).values()}
