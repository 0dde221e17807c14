"""Matrix products in the thread that asks for them."""

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

_Real = TypeVar("_Real", np.float32, np.float64)

#: Half the multiplications in a product that no library of linear algebra shares out among threads (OpenBLAS: 2^18).
_IN_ONE_THREAD = 1 << 17
#: Rows that a library adds up alike: a multiple of what its kernels take at once.
_TOGETHER = 4


def product(rows: NDArray[_Real], weights: NDArray[_Real]) -> NDArray[_Real]:
    """Return ``rows @ weights``, some rows at a time: so few that the library does it in the thread that asks.

    Its own threads gain nothing on products as small as these, and wait for the next one on cores that other threads
    are to work on. Rows are parted so that each is added up as in the whole product by one thread: by ``_TOGETHER``,
    and the last ones, which a kernel may add up in another order, with those before them.
    """
    depth, width = weights.shape
    per_thread = max(1, _IN_ONE_THREAD // (depth * width * _TOGETHER)) * _TOGETHER
    times = max(0, len(rows) // per_thread - 1)
    full, out = times * per_thread, np.empty((len(rows), width), rows.dtype)
    np.matmul(rows[:full].reshape(times, per_thread, depth), weights, out=out[:full].reshape(times, per_thread, width))
    np.matmul(rows[full:], weights, out=out[full:])
    return out
