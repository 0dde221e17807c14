"""Digest of a JSON document over its canonical form by RFC 8785, the JSON Canonicalization Scheme.

In JavaScript, the canonical form is ``JSON.stringify`` of objects whose keys were sorted with ``.sort()``.
"""

import hashlib
from collections.abc import Mapping
from typing import Any

import rfc8785


def digest_of(document: Mapping[str, Any], without: str) -> str:
    """Return the SHA-256 (64 hexadecimal digits) of a document's canonical form without one field.

    Raises:
        ValueError: NaN, infinity, an integer beyond 2^53, or a lone surrogate.
    """
    rest = {name: value for name, value in document.items() if name != without}
    return hashlib.sha256(rfc8785.dumps(rest)).hexdigest()
