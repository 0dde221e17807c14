"""Stop a site's training when it takes too long or the server has gone."""

import copy
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from ecgfed.core.methods.base import Batch, Losses, Method, Tree
from ecgfed.network.errors import SiteError
from ecgfed.network.last_answer import server_gone

#: Seconds between two looks at when the server last answered.
LOOK_S = 2.0


def watched(method: Method, folder: Path, max_seconds: float) -> Method:
    """Return the method with a check before every local step.

    Args:
        folder: the site's folder.
        max_seconds: how long the training may take from now on, s.

    Returns:
        A method whose ``step`` raises SiteError when the time is over or the server has gone.
    """
    check = _checks(folder, max_seconds)
    step, limited = method.step, copy.copy(method)

    def checked(state: Tree, batches: Sequence[Batch], t: int | torch.Tensor) -> tuple[Tree, Losses]:
        check()
        return step(state, batches, t)

    limited.step = checked  # type: ignore[method-assign]
    return limited


def _checks(folder: Path, max_seconds: float) -> Callable[[], None]:
    started = looked = time.monotonic()

    def check() -> None:
        nonlocal looked
        now = time.monotonic()
        if now - started > max_seconds:
            expected = f"at most {max_seconds:g} s (this site's limit)"
            raise SiteError("bound", "the server's round", f"trains for more than {max_seconds:g} s", expected)
        if now - looked >= LOOK_S:
            looked = now
            if how := server_gone(folder):
                raise SiteError("gone", "the server", how, action="it may ask again")

    return check
