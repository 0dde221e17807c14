"""C source text: arrays of numbers, and words of others that must not end a string or a comment."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

#: No line of an array is longer.
_WIDTH = 112
#: Arrays of numbers that are written, and what C calls them.
_TYPES = {"int8": "int8_t", "int16": "int16_t", "int32": "int32_t", "float32": "float"}
#: What stands as itself in a string or a comment: no quote, no backslash, no ``?`` (trigraphs), no ``*`` or ``/``.
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 .,:;_+-()=<>#%&!")


def c_string(text: str) -> str:
    """Return a string literal of ASCII; what is not plain becomes an octal escape of its UTF-8 bytes.

    An octal escape has three digits at most, so a digit behind it does not become part of it. A NUL byte, which would
    end the string for whoever reads it, becomes a question mark.
    """
    made = []
    for byte in text.encode("utf-8", "replace"):
        character = chr(byte) if byte else "?"
        made.append(character if character in _PLAIN else f"\\{ord(character):03o}")
    return f'"{"".join(made)}"'


def c_comment(text: str) -> str:
    """Return text fit to stand inside a comment on one line: what is not plain becomes an underscore."""
    return "".join(character if character in _PLAIN else "_" for character in text)


def c_float(value: float) -> str:
    """Return a float literal that is read back as the same float32."""
    number = float(np.float32(value))
    if not np.isfinite(number):
        raise ValueError(f"{value} is no finite float32")
    return f"{number:.9g}f" if any(mark in f"{number:.9g}" for mark in ".en") else f"{number:.9g}.0f"


def c_array(name: str, values: NDArray[np.generic], comment: str = "") -> str:
    """Return the definition of a constant array, flat, in the order in which ``values`` lie (C order).

    Args:
        name: a C identifier.
        values: int8, int16, int32 or float32, at least one.
        comment: what it is, for the line above; plain text of our own.

    Raises:
        ValueError: another type, no value, or a float that is not finite.
    """
    kind = _TYPES.get(values.dtype.name)
    if kind is None or not values.size:
        raise ValueError(f"{name} is {values.dtype} of {values.size} values; expected some of {', '.join(_TYPES)}")
    flat = values.ravel().tolist()
    words = (c_float(value) for value in flat) if kind == "float" else (str(value) for value in flat)
    above = f"/* {comment} */\n" if comment else ""
    return f"{above}static const {kind} {name}[{values.size}] = {{\n{_lines(words)}\n}};\n"


def _lines(words: Iterable[str]) -> str:
    lines, here = [], "   "
    for word in words:
        if len(here) + len(word) + 2 > _WIDTH:
            lines.append(here)
            here = "   "
        here += f" {word},"
    return "\n".join([*lines, here])
