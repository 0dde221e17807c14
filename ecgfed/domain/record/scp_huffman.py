"""Huffman codes of SCP-ECG (EN 1064, section 2): the standard's own table, and those that a file brings.

The first bit of a byte is its highest; a code in a table is stored turned round, its first bit in the lowest place.
What a code leaves over of its whole length is a number of that many bits, with its sign, beside its base value.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

#: The longest prefix that is read: the standard's own has 10 bits.
_LONGEST = 16


class Code(NamedTuple):
    """One code: the bits of its prefix, of all of it, the value it stands for, and the prefix, first bit highest."""

    prefix_bits: int
    bits: int
    value: int
    prefix: int


def standard_table() -> tuple[Code, ...]:
    """Return the standard's own table: the more ones, the larger; eight ones and more lead to 8 and to 16 bits."""
    codes = [Code(1, 1, 0, 0)]
    for size in range(1, 9):
        prefix = (1 << size) - 1
        codes += [Code(size + 2, size + 2, size, prefix << 2), Code(size + 2, size + 2, -size, prefix << 2 | 1)]
    return (*codes, Code(10, 18, 0, 0b1111111110), Code(10, 26, 0, 0b1111111111))


def table_of(body: bytes) -> tuple[Code, ...]:
    """Return the table of a file's section 2 (without its header): 19999, the standard's own, or one of its own.

    Raises:
        ValueError: none, more than one (codes that change the table), codes that cannot be, or that do not tell apart.
    """
    tables = int.from_bytes(body[:2], "little")
    if tables == 19999:
        return standard_table()
    if tables != 1 or len(body) < 4:
        raise ValueError(f"{tables} Huffman tables")
    count = int.from_bytes(body[2:4], "little")
    if not count or 4 + 9 * count > len(body):
        raise ValueError(f"a Huffman table of {count} codes in {len(body)} bytes")
    codes = []
    for at in range(4, 4 + 9 * count, 9):
        prefix_bits, bits, keep_table = body[at : at + 3]
        value = int.from_bytes(body[at + 3 : at + 5], "little", signed=True)
        turned = int.from_bytes(body[at + 5 : at + 9], "little")
        if not (1 <= prefix_bits <= _LONGEST and prefix_bits <= bits <= prefix_bits + 16 and keep_table == 1):
            raise ValueError(f"a Huffman code of {prefix_bits} of {bits} bits, mode {keep_table}")
        codes.append(Code(prefix_bits, bits, value, int(f"{turned % (1 << prefix_bits):0{prefix_bits}b}"[::-1], 2)))
    _by_window(codes)
    return tuple(codes)


def _by_window(codes: tuple[Code, ...] | list[Code]) -> list[Code | None]:
    """Return the code that each 16 bits begin with; raises ValueError where two do."""
    codes_of_window: list[Code | None] = [None] * (1 << _LONGEST)
    for code in codes:
        first = code.prefix << (_LONGEST - code.prefix_bits)
        span = slice(first, first + (1 << (_LONGEST - code.prefix_bits)))
        if any(codes_of_window[span]):
            raise ValueError("Huffman codes of which one begins with another")
        codes_of_window[span] = [code] * (span.stop - span.start)
    return codes_of_window


def decode(data: bytes, samples: int, codes: tuple[Code, ...]) -> NDArray[np.int64]:
    """Return (samples,) int64, the first that the data hold.

    Args:
        data: a lead's bytes.
        samples: how many; more than there are bits are refused before room is made for them.
        codes: of ``standard_table`` or ``table_of``.

    Raises:
        ValueError: the data end before, or hold a code that is in no table.
    """
    if samples > 8 * len(data):
        raise ValueError(f"{samples} samples in {len(data)} bytes")
    known, end = _by_window(codes), 8 * len(data)
    padded = np.frombuffer(data + bytes(4), np.uint8).astype(np.uint64)
    # 32 bits from each byte on: 16 of them from any bit of it on
    words = (padded[:-3] << 24 | padded[1:-2] << 16 | padded[2:-1] << 8 | padded[3:]).tolist()
    values = np.empty(samples, np.int64)
    at = 0
    for number in range(samples):
        code = known[words[at >> 3] >> (16 - (at & 7)) & 0xFFFF]
        if code is None:
            raise ValueError(f"no Huffman code at bit {at}, sample {number + 1}")
        value, extra_bits = code.value, code.bits - code.prefix_bits
        if extra_bits:
            start = at + code.prefix_bits
            raw = words[start >> 3] >> (32 - extra_bits - (start & 7)) & ((1 << extra_bits) - 1) if start < end else 0
            value += raw - (1 << extra_bits) * (raw >> (extra_bits - 1))
        at += code.bits
        if at > end:
            raise ValueError(f"the data end at sample {number + 1} of {samples}")
        values[number] = value
    return values
