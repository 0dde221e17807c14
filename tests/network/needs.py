"""Flower and HAProxy, or a reason to skip: where ``ECGFED_FLOWER`` or ``ECGFED_HAPROXY`` is set it has to be there."""

import os

import pytest


def flower() -> None:
    """Skip the file that is being collected where Flower is not installed."""
    if not os.environ.get("ECGFED_FLOWER"):
        pytest.importorskip("flwr", reason="needs Flower: pip install 'ecgfed[flower]' (ECGFED_FLOWER=1 insists)")


def haproxy() -> None:
    """Skip the test where HAProxy is not installed."""
    from ecgfed.network.proxy import find_haproxy

    if not os.environ.get("ECGFED_HAPROXY") and find_haproxy("auto") is None:
        pytest.skip("needs HAProxy: make haproxy (ECGFED_HAPROXY=1 insists)")
