"""A fraction with numerator and denominator, in percent, as EC57 reports scores."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Fraction:
    """``part`` of ``total``, in beats, episodes or seconds; undefined if the total is 0."""

    part: float
    total: float

    @property
    def percent(self) -> float | None:
        """The fraction in percent, or None if undefined."""
        return 100 * self.part / self.total if self.total else None

    def as_json(self) -> dict[str, float | None]:
        """Return percent, numerator and denominator, JSON-ready."""
        percent = None if self.percent is None else round(self.percent, 4)
        return {"percent": percent, "part": _short(self.part), "whole": _short(self.total)}


def _short(value: float) -> float:
    return value if isinstance(value, int) else round(value, 4)
