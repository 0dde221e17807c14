"""Medians of a window that runs along a signal, in numpy: every window is sorted at once, by the same comparisons.

Windows of 2, 4, 8, ... samples are merged of two of half the length each, by Batcher's odd-even merge; what two sorted
windows have in their middle needs no more merging. It is what ``scipy.ndimage.median_filter`` gives, without the time
that takes to import, which is longer than half an hour of signal takes here.
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

#: Outputs that are made at once: their sorted windows lie in a core's own memory.
_AT_ONCE = 1 << 13


def running_median(values: Floats, width: int) -> Floats:
    """Return the median of the ``width`` values around each, (values,); of an even number the larger middle one.

    The window of value i begins ``width // 2`` before it. Beyond the ends the values are mirrored, the last one twice.

    Args:
        values: (values,) finite.
        width: one at least.
    """
    padded, out = _padded(values, width), np.empty(len(values))
    for start in range(0, len(values), _AT_ONCE):
        stop = min(start + _AT_ONCE, len(values))
        out[start:stop] = _of_windows(padded[start : stop + width - 1], width)
    return out


def median_above(values: Floats, width: int, limit: Floats) -> NDArray[np.bool_]:
    """Return where ``running_median`` is above a limit, (values,) each: as many values of the window are, counted."""
    padded, out = _padded(values, width), np.empty(len(values), np.bool_)
    for start in range(0, len(values), _AT_ONCE):
        stop = min(start + _AT_ONCE, len(values))
        count = np.zeros(stop - start, np.min_scalar_type(width))
        for offset in range(width):
            count += padded[start + offset : stop + offset] > limit[start:stop]
        out[start:stop] = count >= width - width // 2
    return out


def _padded(values: Floats, width: int) -> Floats:
    """Return values with those before the first window and after the last one."""
    before = width // 2
    return np.asarray(np.pad(values, (before, width - 1 - before), mode="symmetric"))


def _of_windows(values: Floats, width: int) -> Floats:
    """Return the median of every ``width`` values in a row."""
    largest = 1 << (width.bit_length() - 1)
    if largest == width and width > 1:  # two halves need no last merge
        largest //= 2
    sizes = _parts(width, largest)
    rows: list[Floats] = [values]
    sorted_of: dict[int, list[Floats]] = {1: rows}
    size = 1
    while size < largest:
        rows = _merged([row[:-size] for row in rows], [row[size:] for row in rows])
        size *= 2
        sorted_of[size] = rows
    count, rank = len(values) - width + 1, width // 2 + 1
    (first, *rest), at = sizes, sizes[0]
    together = [row[:count] for row in sorted_of[first]]
    for number, part in enumerate(rest):
        second = [row[at : at + count] for row in sorted_of[part]]
        at += part
        if number == len(rest) - 1:
            return _ranked(together, second, rank)
        together = [_ranked(together, second, at_rank + 1) for at_rank in range(len(together) + len(second))]
    return together[rank - 1]


def _parts(width: int, largest: int) -> list[int]:
    """Return powers of two, falling, that add up to a width."""
    parts = []
    while width:
        part = min(largest, 1 << (width.bit_length() - 1))
        parts.append(part)
        width -= part
    return parts


def _merged(first: list[Floats], second: list[Floats]) -> list[Floats]:
    """Return two sorted windows of equal length as one."""
    rows = [*first, *second]
    for low, high in _comparisons(len(rows)):
        rows[low], rows[high] = np.minimum(rows[low], rows[high]), np.maximum(rows[low], rows[high])
    return rows


@lru_cache(maxsize=16)
def _comparisons(count: int) -> tuple[tuple[int, int], ...]:
    """Return which pairs Batcher's odd-even merge compares, in order, of two sorted halves; a power of two in all."""
    pairs: list[tuple[int, int]] = []

    def merge(low: int, high: int, step: int) -> None:
        twice = 2 * step
        if twice < high - low:
            merge(low, high, twice)
            merge(low + step, high, twice)
            pairs.extend((at, at + step) for at in range(low + step, high - step, twice))
        else:
            pairs.append((low, low + step))

    merge(0, count - 1, 1)
    return tuple(pairs)


def _ranked(first: list[Floats], second: list[Floats], rank: int) -> Floats:
    """Return the value of a rank, from 1, among two sorted windows: the least of what is largest, over all ways."""
    smallest: Floats | None = None
    for count in range(max(0, rank - len(first)), min(len(second), rank) + 1):
        ends = ([first[rank - count - 1]] if count < rank else []) + ([second[count - 1]] if count else [])
        largest = ends[0] if len(ends) == 1 else np.maximum(*ends)
        smallest = largest if smallest is None else np.minimum(smallest, largest)
    assert smallest is not None
    return smallest
