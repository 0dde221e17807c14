"""Generate C source text: arrays, and escaped strings and comments."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

#: Maximum line length of an array, characters.
_WIDTH = 112
#: NumPy dtype -> C type.
_TYPES = {"int8": "int8_t", "int16": "int16_t", "int32": "int32_t", "float32": "float"}
#: Characters that need no escaping: no quote, no backslash, no ``?`` (trigraphs), no ``*`` or ``/``.
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 .,:;_+-()=<>#%&!")


def c_string(text: str) -> str:
    """Return an ASCII string literal; other characters become octal escapes of their UTF-8 bytes.

    An octal escape has at most three digits, so a following digit does not become part of it. A NUL byte, which would
    end the string, becomes a question mark.
    """
    escaped = []
    for byte in text.encode("utf-8", "replace"):
        character = chr(byte) if byte else "?"
        escaped.append(character if character in _PLAIN else f"\\{ord(character):03o}")
    return f'"{"".join(escaped)}"'


def c_comment(text: str) -> str:
    """Return text for a one-line comment; characters outside ``_PLAIN`` become underscores."""
    return "".join(character if character in _PLAIN else "_" for character in text)


def c_float(value: float) -> str:
    """Return a float literal that parses to the same float32; raises ValueError if it is not finite."""
    number = float(np.float32(value))
    if not np.isfinite(number):
        raise ValueError(f"{value} is not a finite float32")
    return f"{number:.9g}f" if any(mark in f"{number:.9g}" for mark in ".en") else f"{number:.9g}.0f"


def c_array(name: str, values: NDArray[np.generic], comment: str = "") -> str:
    """Return the definition of a constant array, flattened in C order.

    Args:
        name: a C identifier.
        values: int8, int16, int32 or float32, at least one.
        comment: a comment for the line above; must be trusted text.

    Raises:
        ValueError: another dtype, no value, or a float that is not finite.
    """
    kind = _TYPES.get(values.dtype.name)
    if kind is None or not values.size:
        raise ValueError(f"{name} is {values.dtype} of {values.size} values; expected some of {', '.join(_TYPES)}")
    flat = values.ravel().tolist()
    words = (c_float(value) for value in flat) if kind == "float" else (str(value) for value in flat)
    above = f"/* {comment} */\n" if comment else ""
    return f"{above}static const {kind} {name}[{values.size}] = {{\n{_lines(words)}\n}};\n"


def _lines(words: Iterable[str]) -> str:
    lines, line = [], "   "
    for word in words:
        if len(line) + len(word) + 2 > _WIDTH:
            lines.append(line)
            line = "   "
        line += f" {word},"
    return "\n".join([*lines, line])
