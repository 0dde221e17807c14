"""What is refused, by class, code and parameter: wording is tested in ``test_messages.py`` alone."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from ecgfed.base.errors import EcgfedError


@contextmanager
def refuses(kind: type[EcgfedError], code: str, parameter: str | None = None) -> Iterator[None]:
    """Fail unless the block raises an error of this class, code and parameter."""
    with pytest.raises(kind) as caught:
        yield
    assert (caught.value.code, caught.value.parameter) == (code, parameter), caught.value
