"""Strict reader for the protobuf wire format of graphs, without the onnx package.

Ambiguous input is rejected, so that two readers cannot interpret a file differently: unknown fields, repeated singular
fields, unexpected wire types, groups.
"""

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
#: A varint of 64 bits takes ten bytes.
_LONGEST_VARINT = 10
_SIGN, _TWO_64 = 1 << 63, 1 << 64

#: Possible values of a field.
Value = int | float | str | bytes | memoryview


class WireError(ValueError):
    """Malformed message; the text describes the problem."""


@dataclass(frozen=True)
class Field:
    """One field of a message.

    Attributes:
        name: its name in ``onnx.proto``.
        kind: ``int``, ``float``, ``text``, ``bytes``, ``message``, or ``ints`` and ``floats``, which may be packed.
        repeated: whether it may occur more than once.
    """

    name: str
    kind: str
    repeated: bool = False


#: Field number -> field, or the description of a forbidden field; other numbers are rejected.
Spec = Mapping[int, Field | str]
_WIRE = {"int": VARINT, "float": FIXED32, "text": LENGTH, "bytes": LENGTH, "message": LENGTH}


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    """Return an unsigned number and the offset after it."""
    if at < len(data) and data[at] < 0x80:  # the most common case
        return data[at], at + 1
    value = shift = 0
    for index in range(at, min(at + _LONGEST_VARINT, len(data))):
        byte = data[index]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value >= _TWO_64:
                break
            return value, index + 1
        shift += 7
    raise WireError("is cut short or damaged")


def _signed(value: int) -> int:
    return value - _TWO_64 if value & _SIGN else value


def raw_fields(data: memoryview) -> Iterator[tuple[int, int, int | memoryview]]:
    """Yield field number, wire type and value (numbers unsigned, the rest as a view of the bytes) of a message."""
    at, end = 0, len(data)
    while at < end:
        tag, at = _varint(data, at)
        number, wire = tag >> 3, tag & 7
        if not 0 < number < 1 << 29:
            raise WireError("is cut short or damaged")
        if wire == VARINT:
            value, at = _varint(data, at)
            yield number, wire, value
            continue
        if wire == LENGTH:
            length, at = _varint(data, at)
        elif wire in (FIXED32, FIXED64):
            length = 4 if wire == FIXED32 else 8
        else:
            raise WireError(f"holds wire type {wire}")
        if length > len(data) - at:
            raise WireError("is cut short or damaged")
        piece = data[at : at + length]
        at += length
        yield number, wire, piece


def _packed(field: Field, wire: int, value: int | memoryview) -> list[Value]:
    """Return the numbers of a repeated field, packed or single."""
    if field.kind == "ints":
        if isinstance(value, int):
            return [_signed(value)]
        if wire == LENGTH:
            numbers: list[Value] = []
            at = 0
            while at < len(value):
                number, at = _varint(value, at)
                numbers.append(_signed(number))
            return numbers
    elif isinstance(value, memoryview) and wire in (FIXED32, LENGTH) and len(value) % 4 == 0:
        return [number for (number,) in struct.iter_unpack("<f", value)]
    raise WireError(f"holds wire type {wire} in {field.name}")


def _single(field: Field, wire: int, value: int | memoryview) -> Value:
    if wire != _WIRE[field.kind]:
        raise WireError(f"holds wire type {wire} in {field.name}")
    if isinstance(value, int):
        return _signed(value)
    if field.kind == "float":
        return float(struct.unpack("<f", value)[0])
    if field.kind == "text":
        try:
            return bytes(value).decode()
        except UnicodeDecodeError:
            raise WireError(f"holds a {field.name} that is no UTF-8") from None
    return bytes(value) if field.kind == "bytes" else value


def read_message(data: memoryview, spec: Spec, limit: int) -> dict[str, list[Value]]:
    """Read one message.

    Args:
        data: its bytes.
        spec: its allowed fields.
        limit: maximum number of values per field.

    Returns:
        Values of each field present, in order. Nested messages are views of their bytes.

    Raises:
        WireError: damaged, a field not in ``spec``, or more values than ``limit``.
    """
    fields: dict[str, list[Value]] = {}
    for number, wire, value in raw_fields(data):
        field = spec.get(number)
        if not isinstance(field, Field):
            raise WireError(f"holds {field or f'an unknown field ({number})'}")
        values = fields.setdefault(field.name, [])
        if field.kind in ("ints", "floats"):
            values.extend(_packed(field, wire, value))
        elif values and not field.repeated:
            raise WireError(f"holds two of {field.name}")
        else:
            values.append(_single(field, wire, value))
        if len(values) > limit:
            raise WireError(f"holds more than {limit:,} of {field.name}")
    return fields
