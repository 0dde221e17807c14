"""Runs side by side as one self-contained page, in the style of a run's."""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from ecgfed.base.text import count_of
from ecgfed.reports.charts import Panel
from ecgfed.reports.markup import Cell
from ecgfed.reports.patient_charts import Bar, bar_chart
from ecgfed.reports.rendering import render
from ecgfed.reports.run_page import SCRIPTS, STYLES, curve_rows, drawn_panels
from ecgfed.web.page import inline_page


@dataclass(frozen=True)
class Pairs:
    """Patients' macro-F1 with two runs.

    Attributes:
        first: name of the first run.
        second: name of the other run.
        model: the compared model: ``own model``, ``everybody's``.
        scores: patient, score with the first run, with the other.
    """

    first: str
    second: str
    model: str
    scores: tuple[tuple[str, float, float], ...]


@dataclass(frozen=True)
class ComparisonParts:
    """The content of the page.

    Attributes:
        runs: name of each run in tables, and its description.
        intended_use: what the page is for.
        notes: (code, sentence).
        split: the evaluated split.
        main: rows of the main table: a name, and the value of each run.
        settings_lines: settings that differ between runs, a line per run.
        class_head: headings of the table of classes.
        classes: its rows; empty where no run was evaluated.
        pairs: patients' scores beside those of the first run.
        panels: learning curves of the runs in common panels.
    """

    runs: tuple[tuple[str, str], ...]
    intended_use: str
    notes: tuple[tuple[str, str], ...]
    split: str
    main: Sequence[Sequence[Cell]]
    settings_lines: tuple[str, ...]
    class_head: Sequence[str]
    classes: Sequence[Sequence[Cell]]
    pairs: tuple[Pairs, ...]
    panels: tuple[Panel, ...]


@dataclass(frozen=True)
class DrawnPair:
    """``Pairs`` as on the page: patients from the largest loss to the largest gain, and their bars."""

    title: str
    first: str
    second: str
    rows: list[tuple[str, float, float]]
    better: int
    worse: int
    mean: float
    bars: Markup


def comparison_page(parts: ComparisonParts) -> str:
    """Return the whole page as HTML."""
    body = render(
        "comparison.html.j2",
        parts=parts,
        header=parts.runs,
        names=tuple(name for name, _ in parts.runs),
        pairs=[_drawn(pairs) for pairs in parts.pairs],
        panels=drawn_panels(parts.panels),
        curves=curve_rows(parts.panels),
    )
    return inline_page("Runs compared", body, styles=STYLES, scripts=SCRIPTS, data={})


def _drawn(pairs: Pairs) -> DrawnPair:
    rows = sorted(pairs.scores, key=lambda row: row[1] - row[2])
    changes = [after - before for _, before, after in rows]
    better, worse = (sum(sign * value > 0 for value in changes) for sign in (1, -1))
    title = f"{pairs.second} against {pairs.first}, {pairs.model}"
    bars = bar_chart(
        [Bar(*row) for row in rows],
        f"Differences of {count_of(len(rows), 'patient')}, {title}, sorted; the table below has the values",
        f"Macro-F1 with {pairs.second} minus that with {pairs.first}",
        f"macro-F1 with {pairs.first}",
        f"macro-F1 with {pairs.second}",
    )
    return DrawnPair(title, pairs.first, pairs.second, rows, better, worse, sum(changes) / len(changes), bars)
