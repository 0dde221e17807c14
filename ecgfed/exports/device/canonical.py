"""Canonical JSON by RFC 8785, the JSON Canonicalization Scheme.

Keys are sorted by UTF-16 code units, no whitespace, numbers as in ECMAScript. In JavaScript, this is
``JSON.stringify`` of objects whose keys were sorted with ``.sort()``.
"""

import hashlib
import json
import math
from collections.abc import Mapping

#: A parsed JSON value.
Json = Mapping[str, "Json"] | list["Json"] | str | int | float | bool | None

#: Largest integer that all JSON parsers represent exactly.
MAX_INTEGER = (1 << 53) - 1


def _number(value: float) -> str:
    """Format a number as ECMAScript's Number::toString: the shortest digits that round-trip."""
    if isinstance(value, int) and abs(value) > MAX_INTEGER:
        raise ValueError(f"the whole number {value} is beyond 2^53")
    value = float(value)
    if not math.isfinite(value):
        raise ValueError(f"{value} is no number of JSON")
    if value == 0:
        return "0"
    sign, value = ("-", -value) if value < 0 else ("", value)
    mantissa, _, power = f"{value!r}".partition("e")
    integer, _, fraction = mantissa.partition(".")
    digits = (integer + fraction).lstrip("0")
    point = len(integer) + int(power or 0) - (len(integer + fraction) - len(digits))
    digits = digits.rstrip("0")
    count = len(digits)
    if count <= point <= 21:
        text = digits + "0" * (point - count)
    elif 0 < point <= 21:
        text = f"{digits[:point]}.{digits[point:]}"
    elif -6 < point <= 0:
        text = f"0.{'0' * -point}{digits}"
    else:
        exponent = f"{point - 1:+d}"
        text = f"{digits[0]}{'.' if count > 1 else ''}{digits[1:]}e{exponent}"
    return sign + text


def canonical(value: Json) -> str:
    """Return a JSON value in canonical form.

    Raises:
        ValueError: NaN, infinity, an integer beyond 2^53, or a lone surrogate.
    """
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str):
        value.encode("utf-8")  # raises ValueError for a lone surrogate
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, int | float):
        return _number(value)
    if isinstance(value, Mapping):
        keys = sorted(value, key=lambda key: key.encode("utf-16-be"))
        return "{" + ",".join(f"{canonical(key)}:{canonical(value[key])}" for key in keys) + "}"
    return "[" + ",".join(map(canonical, value)) + "]"


def digest_of(document: Mapping[str, Json], without: str) -> str:
    """Return the SHA-256 (64 hexadecimal digits) of a document's canonical form without one field.

    Raises:
        ValueError: as ``canonical``.
    """
    rest = {name: value for name, value in document.items() if name != without}
    return hashlib.sha256(canonical(rest).encode("utf-8")).hexdigest()
