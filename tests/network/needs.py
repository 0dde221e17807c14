"""Flower, or a reason to skip: where ``ECGFED_FLOWER`` is set it has to be there."""

import os

import pytest


def flower() -> None:
    """Skip the file that is being collected where Flower is not installed."""
    if not os.environ.get("ECGFED_FLOWER"):
        pytest.importorskip("flwr", reason="needs Flower: pip install 'ecgfed[flower]' (ECGFED_FLOWER=1 insists)")
