"""Scores and predictions as columns: NumPy arrays, and frames of pandas where it is installed."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ecgfed.base.extras import require
from ecgfed.core.federation.data import BeatTimes
from ecgfed.core.runs.intervals import Draws

if TYPE_CHECKING:
    import pandas as pd

Columns = dict[str, NDArray[Any]]


class PredictionCollector:
    """Collects the predictions of an evaluation, patient by patient."""

    def __init__(self) -> None:
        self.draws: Draws = {}  # the scores when patients are drawn with replacement
        self._parts: list[Columns] = []

    def add(
        self,
        client: str,
        rows: NDArray[np.int64],
        truth: NDArray[np.int64],
        of_global: NDArray[np.float32],
        of_personal: NDArray[np.float32],
        times: BeatTimes | None,
        sample: NDArray[np.int64],
    ) -> None:
        """Add a patient's scored beats.

        Args:
            client: id of the patient.
            rows: (n,) rows of the cohort's arrays.
            truth: (n,) class numbers.
            of_global: (n, classes) probabilities of the global model.
            of_personal: (n, classes) probabilities of the patient's model.
            times: recording and position of each row of the cohort; None for images and arrays.
            sample: (n,) ``Cohort.sample`` of the rows.
        """
        part: Columns = {"client": np.full(len(rows), client), "row": rows, "sample": sample}
        if times is not None:
            record = times.record[rows]
            part["record"] = np.array(times.names)[record]
            part["time_s"] = times.sample[rows] / np.array(times.fs_hz)[record]
        part["truth"] = truth
        for model, probabilities in (("global", of_global), ("personal", of_personal)):
            part[model], part[f"{model}_probability"] = probabilities.argmax(1), probabilities
        self._parts.append(part)

    def columns(self) -> Columns:
        """Return the predictions of all patients, see ``Scores.predictions``."""
        return {name: np.concatenate([part[name] for part in self._parts]) for name in self._parts[0]}


def columns_of(rows: Sequence[Mapping[str, Any]]) -> Columns:
    """Return rows as columns: None becomes NaN among numbers, "" among texts."""
    columns: Columns = {}
    for name in dict.fromkeys(name for row in rows for name in row):
        values = [row.get(name) for row in rows]
        is_text = any(isinstance(value, str) for value in values)
        empty = "" if is_text else np.nan
        columns[name] = np.array([empty if value is None else value for value in values])
    return columns


def stacked(tables: Mapping[str, Columns]) -> Columns:
    """Return the tables of several runs below each other, with a first column ``run``; a single one as it is."""
    if len(tables) == 1:
        return next(iter(tables.values()))
    first = next(iter(tables.values()))
    length = {run: len(next(iter(table.values()))) for run, table in tables.items()}
    runs = np.concatenate([np.full(length[run], run) for run in tables])
    return {"run": runs, **{name: np.concatenate([table[name] for table in tables.values()]) for name in first}}


def to_frame(columns: Columns, classes: Sequence[str]) -> "pd.DataFrame":
    """Return columns as a frame of pandas; one of (n, classes) becomes a column ``NAME_CLASS`` for each class.

    Raises:
        MissingExtraError: pandas is not installed.
    """
    require("pandas", "a frame")
    import pandas as pd

    flat: Columns = {}
    for name, values in columns.items():
        of_classes = zip(classes, values.T, strict=True) if values.ndim == 2 else ()
        flat |= {f"{name}_{of}": value for of, value in of_classes} or {name: values}
    return pd.DataFrame(flat)
