"""For those who extend ecgfed: the checks that our own methods and detectors pass. Nothing here needs pytest."""

from typing import TYPE_CHECKING

from ecgfed.testing.detector import check_detector
from ecgfed.testing.ecg import SyntheticEcg, synthetic_ecg
from ecgfed.testing.promises import CheckReport

if TYPE_CHECKING:
    from ecgfed.testing.method import check_method

__all__ = ["CheckReport", "SyntheticEcg", "check_detector", "check_method", "synthetic_ecg"]


def __getattr__(name: str) -> object:
    if name == "check_method":  # needs torch, which a detector does not
        from ecgfed.testing.method import check_method

        return check_method
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
