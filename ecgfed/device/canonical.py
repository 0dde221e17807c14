"""One way to write a JSON value, the same in every language: RFC 8785, the JSON Canonicalization Scheme.

Keys sorted by their UTF-16 units, no blanks, numbers as ECMAScript writes them. In JavaScript that is
``JSON.stringify`` of objects whose keys were sorted with ``.sort()``.
"""

import hashlib
import json
import math
from collections.abc import Mapping

#: A value as the JSON reader returns it.
Json = Mapping[str, "Json"] | list["Json"] | str | int | float | bool | None

#: The largest whole number that every reader of JSON keeps.
LARGEST_WHOLE = (1 << 53) - 1


def _number(value: float) -> str:
    """Write a number as ECMAScript's Number::toString does: the shortest digits that read back as the same."""
    if isinstance(value, int) and abs(value) > LARGEST_WHOLE:
        raise ValueError(f"the whole number {value} is beyond 2^53")
    value = float(value)
    if not math.isfinite(value):
        raise ValueError(f"{value} is no number of JSON")
    if value == 0:
        return "0"
    sign, value = ("-", -value) if value < 0 else ("", value)
    mantissa, _, power = f"{value!r}".partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    point = len(whole) + int(power or 0) - (len(whole + fraction) - len(digits))
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
        ValueError: NaN, infinity, a whole number beyond 2^53, or half a surrogate pair.
    """
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str):
        value.encode("utf-8")  # half a surrogate pair is a ValueError
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, int | float):
        return _number(value)
    if isinstance(value, Mapping):
        keys = sorted(value, key=lambda key: key.encode("utf-16-be"))
        return "{" + ",".join(f"{canonical(key)}:{canonical(value[key])}" for key in keys) + "}"
    return "[" + ",".join(map(canonical, value)) + "]"


def digest_of(document: Mapping[str, Json], without: str) -> str:
    """Return the SHA-256 (64 hexadecimal digits) of a document's canonical form, one field of it left out.

    Raises:
        ValueError: as ``canonical``.
    """
    rest = {name: value for name, value in document.items() if name != without}
    return hashlib.sha256(canonical(rest).encode("utf-8")).hexdigest()
