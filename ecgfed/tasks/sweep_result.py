"""What ``sweep`` returns: the combinations, and their scores on validation data."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ecgfed.base.errors import RunError
from ecgfed.base.text import count_of
from ecgfed.core.evaluation.result import SCENARIOS, with_spread
from ecgfed.core.evaluation.tables import columns_of, to_frame
from ecgfed.tasks.train_options import SettingValue

if TYPE_CHECKING:
    import pandas as pd

Values = dict[str, SettingValue]


@dataclass(frozen=True)
class SweepRow:
    """A combination and its scores on validation data.

    Attributes:
        values: value of each swept name.
        folder: name of the folder of its runs, one a seed, in the sweep's.
        scores: scenario -> (seeds,) macro-F1; empty if training failed.
        problem: why training failed, or "".
    """

    values: Values
    folder: str
    scores: dict[str, list[float]]
    problem: str = ""

    def mean(self, score: str) -> float:
        """Return the mean over seeds of a score; minus infinity if training failed."""
        values = self.scores.get(score, ())
        return sum(values) / len(values) if values else float("-inf")


@dataclass(frozen=True, repr=False)
class Sweep:
    """Result of ``sweep``.

    Attributes:
        path: its folder.
        score: the scenario by which rows are ordered.
        names: the swept names.
        seeds: of each combination.
        rows: the finished combinations, best first.
        combinations: number of all combinations.
    """

    path: Path
    score: str
    names: tuple[str, ...]
    seeds: tuple[int, ...]
    rows: tuple[SweepRow, ...]
    combinations: int

    def __repr__(self) -> str:
        progress = f"{len(self.rows)} of {count_of(self.combinations, 'combination')}"
        best = f", best {self.written(self.rows[0], self.score)} with {self.best}" if self.finished_rows else ""
        return f"Sweep({str(self.path)!r}: {progress}{best})"

    @property
    def finished_rows(self) -> tuple[SweepRow, ...]:
        """The rows that have scores."""
        return tuple(row for row in self.rows if row.scores)

    @property
    def best(self) -> Values:
        """The values of the best combination.

        Raises:
            RunError: no combination could be trained.
        """
        if not self.finished_rows:
            raise RunError(self.path, "has no combination with scores", "one that trains", code="unfinished")
        return dict(self.finished_rows[0].values)

    def written(self, row: SweepRow, score: str) -> str:
        """Return a score of a row as text: ``0.841``, with several seeds ``0.855 ± 0.015``, ``-`` without."""
        return with_spread(row.scores.get(score, ()))

    def to_dict(self) -> dict[str, Any]:
        """Return the sweep, JSON-ready."""
        return {
            "sweep": str(self.path),
            "split": "valid",
            "score": self.score,
            "seeds": list(self.seeds),
            "combinations": self.combinations,
            "rows": [asdict(row) for row in self.rows],
        }

    def to_pandas(self) -> "pd.DataFrame":
        """Return a frame of pandas: a row for each combination, best first, with the means over seeds.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        rows = [
            {
                **row.values,
                **{name: row.mean(name) if row.scores else None for name in SCENARIOS},
                "problem": row.problem,
            }
            for row in self.rows
        ]
        return to_frame(columns_of(rows), ())
