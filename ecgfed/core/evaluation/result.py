"""Scores of a run, or of the same run with several seeds."""

import html
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ecgfed.base.errors import OptionError
from ecgfed.base.text import count_of
from ecgfed.core.evaluation.tables import Columns, columns_of, stacked, to_frame
from ecgfed.core.runs.intervals import Draws, Interval, interval, interval_text, over_seeds
from ecgfed.core.runs.seed_names import name_of_seed
from ecgfed.domain.cohort.layout import EXAMPLE_WORDS

if TYPE_CHECKING:
    import pandas as pd

#: The four scenarios of the GRP-FED paper, section 4.1.
SCENARIOS = ("T_g", "T_p", "T_r", "T_l")
#: Descriptions of the scenarios.
QUESTIONS = {
    "T_g": "one model for everybody, on everybody's beats",
    "T_p": "each patient's model, on that patient's beats",
    "T_r": "each patient's model, on everybody's beats",
    "T_l": "harmonic mean of T_p and T_r",
}
#: A class below this F1 is called weak.
WEAK_F1 = 0.5


@dataclass(frozen=True, repr=False)
class Scores:
    """Scores of ``evaluate``, with one or several seeds.

    Attributes:
        results: one JSON-ready result per seed, see ``ecgfed.core.evaluation.scenarios.evaluate``, with additional
            ``run``, ``method``, ``split``, ``round``, ``protocol`` and ``leave_out``.
        predicted: the predictions of each seed as columns; empty if they are not known.
        draws: the scores of each seed when patients are drawn with replacement; empty if they are not known.
    """

    results: tuple[Mapping[str, Any], ...]
    predicted: tuple[Columns, ...] = field(default=(), compare=False)
    draws: tuple[Draws, ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        if not self.results:
            raise ValueError("scores of at least one run are needed")

    def __repr__(self) -> str:
        several = f" of {len(self.results)} seeds" if len(self.results) > 1 else ""
        names = [name for name in SCENARIOS if name in self.results[0]["scores"]]
        return f"Scores({self.split}{several}: {', '.join(f'{k} {self.written(k)}' for k in names)})"

    @property
    def split(self) -> str:
        """``test``, ``valid`` or, of ``evaluate_held_out``, ``held-out``."""
        return str(self.results[0]["split"])

    @property
    def T_g(self) -> float:  # noqa: N802 (the paper's name)
        """Macro-F1 of the global model on the pool of all patients' beats; mean over seeds, as below."""
        return self.mean("T_g")

    @property
    def T_p(self) -> float:  # noqa: N802
        """Mean over patients of the personal model's macro-F1 on that patient's beats."""
        return self.mean("T_p")

    @property
    def T_r(self) -> float:  # noqa: N802
        """Mean over patients of the personal model's macro-F1 on the pool."""
        return self.mean("T_r")

    @property
    def T_l(self) -> float:  # noqa: N802
        """Harmonic mean of T_p and T_r (equation 6)."""
        return self.mean("T_l")

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes, in the order of class numbers."""
        return tuple(str(row["class"]) for row in self.results[0]["per_class"])

    @property
    def per_class(self) -> Columns:
        """The table of the classes as arrays by column: ``class``, ``beats``, ``f1`` and others.

        NaN where a score is not defined. With several seeds the rows of all, and a column ``run``.
        """
        return self._stacked("per_class")

    @property
    def per_patient(self) -> Columns:
        """The table of the patients: ``client``, ``beats``, ``personal_f1``, ``global_f1`` and others."""
        return self._stacked("per_patient")

    @property
    def confusion(self) -> NDArray[np.int64]:
        """The global model on the pool, (classes, classes) counts, rows truth; with several seeds their sum."""
        return self._summed("confusion")

    @property
    def confusion_personal(self) -> NDArray[np.int64]:
        """Likewise, each patient's model on that patient's beats."""
        return self._summed("confusion_personal")

    @property
    def predictions(self) -> Columns:
        """Predictions of each scored beat, arrays by column.

        ``client``; ``row``, the beat's row in the cohort's arrays, which are sorted by client; ``sample``, the R peak
        in its recording, of an image its place in the published file, of an array its place in ``X`` as it was passed
        to ``cohort_from_arrays``; of recordings ``record`` and ``time_s``, seconds from the recording's start; the
        class numbers ``truth``, ``global`` (the global model's) and ``personal`` (the patient's model's);
        ``global_probability`` and ``personal_probability``, (n, classes) float32. In order of patients; an image that
        several clients are tested on has a row for each. With several seeds a column ``run``.

        Raises:
            OptionError: the scores were not returned by ``evaluate``.
        """
        if not self.predicted:
            raise OptionError("predictions", "are not stored with scores", "the result of evaluate", "evaluate again")
        return stacked(dict(zip(self._names, self.predicted, strict=True)))

    def to_pandas(self, table: str) -> "pd.DataFrame":
        """Return a table as a frame of pandas (``pip install 'ecgfed[frames]'``).

        Args:
            table: ``per_patient``, ``per_class``, ``predictions``, ``confusion`` or ``confusion_personal``.
                Probabilities become a column for each class, ``global_probability_N``.

        Raises:
            OptionError: no such table.
            MissingExtraError: pandas is not installed.
        """
        if table in ("confusion", "confusion_personal"):
            matrix = getattr(self, table)
            frame = to_frame({name: matrix[:, i] for i, name in enumerate(self.classes)}, self.classes)
            return frame.set_axis(list(self.classes)).rename_axis(index="truth", columns="predicted")
        if table not in ("per_patient", "per_class", "predictions"):
            expected = "one of per_patient, per_class, predictions, confusion, confusion_personal"
            raise OptionError("table", f"{table!r:.100}", expected, code="unknown-choice")
        return to_frame(getattr(self, table), self.classes)

    def _stacked(self, table: str) -> Columns:
        return stacked(
            {name: columns_of(result[table]) for name, result in zip(self._names, self.results, strict=True)}
        )

    def _summed(self, matrix: str) -> NDArray[np.int64]:
        total: NDArray[np.int64] = np.array([result[matrix] for result in self.results], np.int64).sum(axis=0)
        return total

    @property
    def _names(self) -> list[str]:
        return [name_of_seed(PurePath(str(result["run"]))) for result in self.results]

    def each(self, *path: str) -> list[float]:
        """Return a score of every seed: ``each("scores_truth", "T_g")``; a single name is a scenario.

        NaN where it is not defined.
        """
        keys = ("scores", *path) if len(path) == 1 else path
        values = []
        for result in self.results:
            value: Any = result
            for key in keys:
                value = value[key]
            values.append(math.nan if value is None else float(value))
        return values

    def mean(self, *path: str) -> float:
        """Return the mean over seeds of a score, see ``each``."""
        return statistics.fmean(self.each(*path))

    def std(self, *path: str) -> float:
        """Return the standard deviation over seeds (n - 1) of a score, see ``each``; 0 with one seed."""
        values = self.each(*path)
        return statistics.stdev(values) if len(values) > 1 else 0.0

    def written(self, *path: str) -> str:
        """Return a score as text: ``0.841``, with several seeds ``0.855 ± 0.015``."""
        return with_spread(self.each(*path))

    def interval(self, *path: str) -> Interval | None:
        """Return the 95% confidence interval of a score, see ``each``, over patients, and over seeds where several.

        ``interval("per_class", "f1", "V")`` is of a row of a table. None where there is none: with a single patient, a
        score that patients' scores do not make up, or scores that ``evaluate`` did not return.
        """
        keys = ("scores", *path) if len(path) == 1 else path
        each = [of[keys] for of in self.draws if keys in of and len(of[keys])]
        if not each or len(each) < len(self.results):
            return None
        return interval(over_seeds(each, [str(PurePath(str(result["run"])).parent) for result in self.results]))

    def with_interval(self, *path: str) -> str:
        """Return a score as text with its interval: ``0.841 (0.802 to 0.876)``."""
        return interval_text(self.written(*path), self.interval(*path))

    def to_dict(self) -> dict[str, Any]:
        """Return the result, JSON-ready; for several seeds, all results, and means and deviations of the scenarios."""
        if len(self.results) == 1:
            return dict(self.results[0])
        return {
            "seeds": [dict(result) for result in self.results],
            **{
                kind: {
                    name: {"mean": self.mean(kind, name), "std": self.std(kind, name)}
                    for name in SCENARIOS
                    if name in self.results[0][kind]
                }
                for kind in ("scores", "scores_truth")
            },
            "intervals": [
                {"score": list(path), "low": ends[0], "high": ends[1]}
                for path in (self.draws[0] if self.draws else ())
                if (ends := self.interval(*path)) is not None
            ],
        }

    def rows(self, table: str, key: str, *names: str) -> list[tuple[str, list[list[float | None]]]]:
        """Return the rows of a table over seeds: ``rows("per_class", "class", "f1")``.

        Returns:
            For each row its ``key``, and for each name its values over seeds with that row.
        """
        order = [str(row[key]) for row in self.results[0][table]]
        by_key = [{str(row[key]): row for row in result[table]} for result in self.results]
        return [
            (row_key, [[rows[row_key].get(name) for rows in by_key if row_key in rows] for name in names])
            for row_key in order
        ]

    def sentences(self) -> tuple[str, str, str]:
        """Summarise the scores in three sentences."""
        first = self.results[0]
        what = "test" if self.split == "test" else "validation"
        seeds = f" (mean of {len(self.results)} seeds)" if len(self.results) > 1 else ""
        image = EXAMPLE_WORDS.get(str(first.get("modality")), "beat")
        return (
            f"On {count_of(first['beats'], f'{what} {image}')} of {count_of(first['patients'], 'client')}, one model "
            f"for everybody reaches a macro-F1 of {self.T_g:.2f}{seeds}{self._weak_classes()}.",
            self._personal_sentence(image),
            self._worst(),
        )

    def site_sentence(self) -> str:
        """Name the site with the lowest mean of personal models; "" unless several sites were scored."""
        rows = self.rows("per_site", "site", "personal_f1", "global_f1") if "per_site" in self.results[0] else []
        served = {
            name: [statistics.fmean(float(value) for value in values if value is not None) for values in of]
            for name, of in rows
            if all(value is not None for values in of for value in values)
        }
        if len(served) < 2:
            return ""
        worst = min(served, key=lambda name: served[name][0])
        own, shared = served[worst]
        how = "" if self._all_global() else " with their own model"
        return (
            f"Worst site is {worst}: its clients{how} reach {own:.2f} on average, and one model for everybody "
            f"{shared:.2f} on its beats."
        )

    def _all_global(self) -> bool:
        """Return whether all clients use the global model, as in methods without personal models."""
        return self.T_p == self.mean("T_p_global") and self.T_r == self.T_g

    def _personal_sentence(self, image: str) -> str:
        if self._all_global():
            same = "mean over clients; their own answers are the same"
            return f"On each client's own {image}s it reaches {self.T_p:.2f}, {same}."
        return (
            f"Each client's own model reaches {self.T_p:.2f} on that client's {image}s ({self._gain()}) and "
            f"{self.T_r:.2f} on everybody's."
        )

    def _weak_classes(self) -> str:
        weak = []
        for name, (f1, counts) in self.rows("per_class", "class", "f1", "beats"):
            values = [value for value, count in zip(f1, counts, strict=True) if value is not None and count]
            if values and statistics.fmean(values) < WEAK_F1:
                weak.append(f"{name} {statistics.fmean(values):.2f}")
        return f"; weak classes: {', '.join(weak)}" if weak else ""

    def _gain(self) -> str:
        gain = self.T_p - self.mean("T_p_global")
        if abs(gain) < 0.005:
            return "as the model for everybody does there"
        return f"{abs(gain):.2f} {'above' if gain > 0 else 'below'} the model for everybody"

    def _worst(self) -> str:
        served = [
            (statistics.fmean([value for value in f1 if value is not None]), name)
            for name, (f1,) in self.rows("per_patient", "client", "personal_f1")
        ]
        worst, name = min(served)
        site = next((row.get("site") for row in self.results[0]["per_patient"] if row["client"] == name), None)
        who = f"{name} of {site}" if site else name
        below = sum(value < WEAK_F1 for value, _ in served)
        if worst == max(served)[0]:
            return f"Every client is served alike, with {worst:.2f}."
        return (
            f"Served worst is {who}, with {worst:.2f}; {below} of {count_of(len(served), 'client')} are below "
            f"{WEAK_F1:g}{'' if self._all_global() else ' with their own model'}."
        )

    def _repr_html_(self) -> str:
        """A notebook's table of the scenarios, by both conventions of macro-F1."""
        head = "".join(f"<th title='{html.escape(QUESTIONS[name])}'>{name}</th>" for name in SCENARIOS)
        rows = "".join(
            f"<tr><td>{title}</td>{''.join(f'<td>{self.written(kind, name)}</td>' for name in SCENARIOS)}</tr>"
            for kind, title in (("scores", "classes in truth or prediction"), ("scores_truth", "classes in truth"))
        )
        first = self.results[0]
        caption = html.escape(f"{first['method']}, {self.split} split, round {first['round']}")
        return f"<table><caption>{caption}</caption><tr><th>macro-F1</th>{head}</tr>{rows}</table>"


def with_spread(values: Sequence[float | None], digits: int = 3) -> str:
    """Format values of several seeds as mean and standard deviation; ``-`` without values, which NaN is not."""
    defined = [value for value in values if value is not None and not math.isnan(value)]
    if not defined:
        return "-"
    mean = f"{statistics.fmean(defined):.{digits}f}"
    same_count = digits == 0 and len(set(defined)) == 1  # the number of beats is the same with every seed
    return (
        mean
        if len(values) == 1 or same_count
        else f"{mean} ± {statistics.stdev(defined) if len(defined) > 1 else 0:.{digits}f}"
    )
