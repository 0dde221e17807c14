"""Checks for extensions of ecgfed, which its own methods and detectors pass, too. pytest is not needed."""

from typing import TYPE_CHECKING

from ecgfed.testing.checks import CheckReport
from ecgfed.testing.detector import check_detector
from ecgfed.testing.ecg import SyntheticEcg, synthetic_ecg

if TYPE_CHECKING:
    from ecgfed.testing.method import check_method

__all__ = ["CheckReport", "SyntheticEcg", "check_detector", "check_method", "synthetic_ecg"]


def __getattr__(name: str) -> object:
    if name == "check_method":  # imports torch, which detectors do not need
        from ecgfed.testing.method import check_method

        return check_method
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
