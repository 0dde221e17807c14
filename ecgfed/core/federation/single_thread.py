"""Limit torch to one thread, so that results are bit-identical on every machine."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def single_torch_thread() -> Iterator[None]:
    """Limit torch to one thread inside the block; sums must not depend on the number of threads.

    (The crash of small backward passes on several threads is unrelated: ``ecgfed.core.nets.layers.SAFE_CHANNELS``.)
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
