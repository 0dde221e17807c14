"""Agreement of two readers who labelled the same beats: Cohen's kappa, and how often they agree on each class."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

#: Standard normal quantile of a 95% interval.
_Z95 = 1.959963984540054


@dataclass(frozen=True, eq=False)
class Agreement:
    """The labels that two readers gave to the same beats.

    Attributes:
        classes: what they were labelled as.
        confusion: (classes, classes) int64 beats; rows are the first reader's labels, columns the second's.
    """

    classes: tuple[str, ...]
    confusion: NDArray[np.int64]

    @staticmethod
    def of(first: NDArray[np.str_], second: NDArray[np.str_], classes: tuple[str, ...]) -> "Agreement":
        """Count the labels of two readers.

        Args:
            first: (beats,) labels of the first reader, all in ``classes``.
            second: (beats,) labels of the second reader.
            classes: the classes, in order.
        """
        number = {name: i for i, name in enumerate(classes)}
        confusion = np.zeros((len(classes), len(classes)), np.int64)
        np.add.at(confusion, ([number[name] for name in first], [number[name] for name in second]), 1)
        return Agreement(classes, confusion)

    @property
    def beats(self) -> int:
        """Number of beats."""
        return int(self.confusion.sum())

    @property
    def percent(self) -> float:
        """Share of the beats with the same label, in percent; NaN without a beat."""
        return 100 * float(np.trace(self.confusion)) / self.beats if self.beats else float("nan")

    @property
    def kappa(self) -> float:
        """Cohen's kappa (Educ Psychol Meas 20:37-46, 1960); NaN where both readers gave one label to all beats."""
        chance = self._chance()
        return (self.percent / 100 - chance) / (1 - chance) if chance < 1 else float("nan")

    @property
    def interval(self) -> tuple[float, float]:
        """95% interval of kappa by its large-sample standard error.

        After Fleiss, Cohen and Everitt, Psychol Bull 72:323-327, 1969. It is cut at -1 and 1. Of full agreement it has
        no width, however few beats there are. NaN where kappa is NaN.
        """
        half = _Z95 * self._standard_error()
        low, high = np.clip([self.kappa - half, self.kappa + half], -1, 1).tolist()
        return low, high

    @property
    def by_class(self) -> dict[str, float]:
        """Class -> positive agreement: of this class's labels by either reader, the share that the other gave too."""
        agreed, labels = np.diagonal(self.confusion), self.confusion.sum(0) + self.confusion.sum(1)
        return {
            name: 2 * int(same) / int(count) if count else float("nan")
            for name, same, count in zip(self.classes, agreed, labels, strict=True)
        }

    def _chance(self) -> float:
        """Return the agreement expected of independent readers with these shares of classes; NaN without a beat."""
        if not self.beats:
            return float("nan")
        rows, columns = self.confusion.sum(1), self.confusion.sum(0)
        return float(rows @ columns) / self.beats**2

    def _standard_error(self) -> float:
        chance, kappa = self._chance(), self.kappa
        if np.isnan(kappa):
            return float("nan")
        share = self.confusion / self.beats
        rows, columns = share.sum(1), share.sum(0)
        agreed = float((np.diagonal(share) * (1 - (rows + columns) * (1 - kappa)) ** 2).sum())
        apart = share * (columns[:, None] + rows[None, :]) ** 2
        apart_sum = float(apart.sum() - np.trace(apart))
        variance = agreed + (1 - kappa) ** 2 * apart_sum - (kappa - chance * (1 - kappa)) ** 2
        return float(np.sqrt(max(variance, 0.0) / self.beats)) / (1 - chance)

    def to_dict(self) -> dict[str, object]:
        """Return a JSON-ready dictionary; what is not defined is None."""
        low, high = self.interval
        values = {"percent": self.percent, "kappa": self.kappa, "kappa_low": low, "kappa_high": high}
        return {
            "beats": self.beats,
            **{name: _defined(value) for name, value in values.items()},
            "by_class": {name: _defined(value) for name, value in self.by_class.items()},
            "classes": list(self.classes),
            "confusion": self.confusion.tolist(),
        }


def _defined(value: float) -> float | None:
    return None if np.isnan(value) else round(value, 6)
