"""A share of something, as EC57 reports scores: in percent, with what it is a share of."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Fraction:
    """``part`` of ``total``, beats, episodes or seconds; undefined where the whole is 0."""

    part: float
    total: float

    @property
    def percent(self) -> float | None:
        """The share in percent, or None."""
        return 100 * self.part / self.total if self.total else None

    def as_json(self) -> dict[str, float | None]:
        """Return the share in percent and what it is a share of, for a script."""
        percent = None if self.percent is None else round(self.percent, 4)
        return {"percent": percent, "part": _short(self.part), "whole": _short(self.total)}


def _short(value: float) -> float:
    return value if isinstance(value, int) else round(value, 4)
