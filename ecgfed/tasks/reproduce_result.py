"""Finished runs of papers' tables in a file, and a table with the printed values beside them."""

import json
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from ecgfed.base.errors import RunError
from ecgfed.base.files import read_json, write_json
from ecgfed.base.locks import locked
from ecgfed.base.text import count_of
from ecgfed.core.methods.registry import methods
from ecgfed.domain.cohort.cohort import Cohort
from ecgfed.papers.table import Cell, Paper, Row, Setting, Table
from ecgfed.tasks.reproduce_run import PaperRun

Measured = Mapping[str, Any]


class StoredRuns:
    """A JSON file of finished runs, key -> measurement.

    Args:
        file: the file; it need not exist.

    Raises:
        RunError: it is no JSON object of JSON objects.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        self.runs: dict[str, Measured] = self._read()

    def _read(self) -> dict[str, Measured]:
        runs = read_json(self.file, RunError) if self.file.is_file() else {}
        if not isinstance(runs, dict) or not all(isinstance(run, dict) for run in runs.values()):
            raise RunError(self.file, "holds something else than finished runs", "a JSON object of them")
        return runs

    def find(self, run: PaperRun, cohort: Cohort) -> Measured | None:
        """Return a finished run; raises RunError if it is one of another cohort or of other options."""
        stored = self.runs.get(run.key)
        if stored is None:
            return None
        same = stored.get("declared") == json.loads(json.dumps(run.declared()))
        if not same or stored.get("cohort") != cohort.fingerprint:
            problem = f"holds {run.key} of {'another cohort' if same else 'other options'}"
            raise RunError(self.file, problem, "the run of the table", "move the file away, so that all is run again")
        return stored

    def add(self, run: PaperRun, cohort: Cohort, measured: Measured) -> None:
        """Add a finished run; of two processes at once none loses the other's; raises StorageError."""
        self.file.parent.mkdir(parents=True, exist_ok=True)
        entry = {**measured, "declared": run.declared(), "cohort": cohort.fingerprint}
        with locked(self.file.with_name(f"{self.file.name}.adding"), wait_s=60):
            self.runs = {**self._read(), run.key: json.loads(json.dumps(entry))}
            write_json(self.file, self.runs)


@dataclass(frozen=True)
class Score:
    """One value of the table.

    Attributes:
        column: as printed.
        printed: the paper's value.
        values: ours, one for each seed, in the paper's unit.
    """

    column: str
    printed: Cell
    values: tuple[float, ...]

    @property
    def mean(self) -> float | None:
        """Mean over seeds; None without a run."""
        return statistics.fmean(self.values) if self.values else None

    @property
    def sd(self) -> float | None:
        """Standard deviation over seeds; None for fewer than two."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None

    @property
    def difference(self) -> float | None:
        """Ours minus the paper's; None where one of them is missing."""
        return None if self.mean is None or self.printed.mean is None else self.mean - self.printed.mean


@dataclass(frozen=True)
class Line:
    """A row of the table under one setting.

    Attributes:
        setting: data set and partition.
        row: the method.
        scores: one for each column.
        notes: how it differs from the protocol; of a row that cannot be run, why.
        stopped: messages of trainings whose numbers were no longer finite.
        seconds: of training, mean over seeds; None without a run.
    """

    setting: Setting
    row: Row
    scores: tuple[Score, ...]
    notes: tuple[str, ...]
    stopped: tuple[str, ...]
    seconds: float | None


@dataclass(frozen=True, repr=False)
class Reproduction:
    """A table of a paper, with ours beside it.

    Attributes:
        paper: the paper.
        table: the table.
        scale: ``full`` or ``reduced``.
        lines: its rows, setting by setting.
        missing: data sets that are missing, a sentence each.
    """

    paper: Paper
    table: Table
    scale: str
    lines: tuple[Line, ...]
    missing: tuple[str, ...]

    def __repr__(self) -> str:
        finished = sum(any(score.values for score in line.scores) for line in self.lines)
        progress = f"{finished} of {count_of(len(self.lines), 'row')}"
        return f"Reproduction({self.paper.name} table {self.table.number}, {self.scale}: {progress})"

    @classmethod
    def of(
        cls,
        paper: Paper,
        table: Table,
        settings: Sequence[Setting],
        rows: Sequence[Row],
        scale: str,
        runs: Mapping[str, Measured],
        missing: tuple[str, ...] = (),
    ) -> "Reproduction":
        """Set runs beside the printed values.

        Args:
            paper: the paper.
            table: its table.
            settings: which of its groups of columns.
            rows: which of its rows.
            scale: ``full`` or ``reduced``.
            runs: finished runs by ``PaperRun.key``.
            missing: as in the class.
        """
        lines = [
            _line(paper, table, setting, row, scale, runs) for setting in settings for row in rows if row.cells(setting)
        ]
        return cls(paper, table, scale, tuple(lines), missing)

    def by_setting(self) -> Iterator[tuple[Setting, list[Line]]]:
        """Yield each setting that has lines, with its lines."""
        for _, group in groupby(self.lines, key=lambda line: line.setting.label):
            lines = list(group)
            yield lines[0].setting, lines

    def differences(self, setting: Setting) -> tuple[str, ...]:
        """Return how the scale and this package differ from a setting's printed protocol, one phrase each."""
        return (*setting.protocol.differences(self.scale), *setting.protocol.departures)

    def to_dict(self) -> dict[str, Any]:
        """Return the table, JSON-ready."""
        return {
            "paper": self.paper.name,
            "table": self.table.number,
            "scale": self.scale,
            "differences": {setting.label: list(self.differences(setting)) for setting, _ in self.by_setting()},
            "rows": [
                {
                    "data": line.setting.data,
                    "setting": line.setting.name,
                    "row": line.row.name,
                    "method": line.row.method,
                    "scores": {
                        score.column: {
                            "paper": score.printed.mean,
                            "paper_sd": score.printed.sd,
                            "legible": score.printed.legible,
                            "mean": score.mean,
                            "sd": score.sd,
                            "difference": score.difference,
                            "seeds": len(score.values),
                        }
                        for score in line.scores
                    },
                    "notes": list(line.notes),
                    "stopped": list(line.stopped),
                    "training_seconds": line.seconds,
                }
                for line in self.lines
            ],
            "missing": list(self.missing),
        }


def _line(paper: Paper, table: Table, setting: Setting, row: Row, scale: str, runs: Mapping[str, Measured]) -> Line:
    unit = 100.0 if table.percent else 1.0
    cells = row.cells(setting)
    first = PaperRun(paper.name, table.ensemble, setting, row, scale, seed=0)
    # a file may hold more seeds than the protocol has
    known, measured = row.method in methods(), list[Measured]()
    while known and (one := runs.get(replace(first, seed=len(measured)).key)) is not None:
        measured.append(one)
    finished = [one for one in measured if "scores" in one]
    scores = tuple(
        Score(column, cell, tuple(unit * float(one["scores"][key]) for one in finished))
        for (column, key), cell in zip(table.columns.items(), cells, strict=True)
    )
    stopped = tuple(str(one["stopped"]) for one in measured if "stopped" in one)
    seconds = statistics.fmean(one["seconds"] for one in finished) if finished else None
    notes = first.notes() if known else (f"cannot be run: this version has no method {row.method}",)
    return Line(setting, row, scores, notes, stopped, seconds)
