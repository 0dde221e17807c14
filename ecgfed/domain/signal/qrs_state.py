"""What a stream remembers, told from another stream's: a hash over all of it, to the last bit."""

import hashlib
from collections.abc import Mapping
from dataclasses import fields, is_dataclass

import numpy as np


def digest_of(values: Mapping[str, object]) -> bytes:
    """Return 32 bytes that are the same only where names and values are.

    Args:
        values: numbers, texts, bytes, tuples of them, arrays, and data classes of all these, by name.
    """
    digest = hashlib.sha256()
    for name, value in sorted(values.items()):
        if isinstance(value, np.ndarray):
            description = f"{value.dtype.str} {value.shape}".encode(), np.ascontiguousarray(value).tobytes()
        elif is_dataclass(value):
            description = b"", digest_of({field.name: getattr(value, field.name) for field in fields(value)})
        else:
            description = b"", repr(value).encode()
        digest.update(name.encode() + b" " + description[0] + b" %d " % len(description[1]) + description[1])
    return digest.digest()
