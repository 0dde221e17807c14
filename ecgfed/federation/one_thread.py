"""One torch thread for a while: what runs on this thread then gives the same bits on every machine."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def one_torch_thread() -> Iterator[None]:
    """Let torch use one thread for operations called from here; as many as before when the block ends.

    Sums on this thread must not depend on how many there are. (That small backward passes on several threads crashed
    torch was another thing: ``ecgfed.nets.layers.SAFE_CHANNELS``.)
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
