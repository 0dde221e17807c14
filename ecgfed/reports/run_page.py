"""A run as one self-contained page, for researchers; in the style of a recording's report."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from ecgfed.base.text import count_of
from ecgfed.reports.charts import Panel, line_chart
from ecgfed.reports.class_map import class_map
from ecgfed.reports.markup import Cell
from ecgfed.reports.patient_charts import Bar, bar_chart, map_chart
from ecgfed.reports.rendering import render
from ecgfed.reports.run_parts import Mixes, RunParts, Scored
from ecgfed.web.page import inline_page

STYLES = ("report.css", "run.css")
SCRIPTS = ("run.js",)
SCENARIOS = ("T_g", "T_p", "T_r", "T_l")
#: Patients with the lowest scores shown beside a folded table of more than ``_UNFOLDED``.
_WORST, _UNFOLDED = 20, 60
#: Shades of a cell, from white to dark (``.shade-0`` to ``.shade-9`` of ``run.css``).
_SHADES = 9
#: Heading, (count, shade) of each cell, further cells.
ShadedRow = tuple[str, list[tuple[int, int]], tuple[Cell, ...]]


@dataclass(frozen=True)
class ConfusionTables:
    """Confusion matrices of an evaluation, over the classes that occur.

    Attributes:
        present: names of the classes in truth or prediction.
        absent: names of the others.
        rows: of the global model; None where the evaluation lacks it.
        personal_rows: of the personal models, likewise.
    """

    present: tuple[str, ...]
    absent: tuple[str, ...]
    rows: list[ShadedRow] | None
    personal_rows: list[ShadedRow] | None


@dataclass(frozen=True)
class ClientMixes:
    """The class distributions of clients.

    Attributes:
        rows: class counts of each client, in order of its most frequent class, and its place on the map.
        map: the drawn map; empty without one.
        shares: parts of the variance that lie along x and along y; None without a map.
    """

    rows: list[ShadedRow]
    map: Markup
    shares: tuple[float, float] | None


def run_page(parts: RunParts) -> str:
    """Return the whole page as HTML."""
    scored = parts.scored[0] if parts.scored else None
    patients = scored.patients if scored else ()
    worst = {patient.client: patient.personal_f1 for patient in patients if patient.worst}
    matrix = scored.confusion_personal if scored else None
    body = render(
        "run.html.j2",
        parts=parts,
        header=parts.header,
        scored=scored,
        scenarios=SCENARIOS,
        gains=sum(patient.gain > 0 for patient in patients),
        worst_names=worst,
        worst_mean=sum(worst.values()) / max(1, len(worst)),
        bars=_bars(scored) if scored and patients else "",
        alternatives=tuple(f"Personal model by {name}" for name in scored.alternatives) if scored else (),
        max_worst=_WORST,
        max_unfolded=_UNFOLDED,
        personal_classes={} if matrix is None else {name: _of_class(matrix, i) for i, name in enumerate(parts.classes)},
        confusion=_confusions(scored, parts.classes) if scored else None,
        panels=drawn_panels(parts.panels),
        curves=curve_rows(parts.panels),
        mixes=None if isinstance(parts.mixes, str) else _mixes(parts.mixes, parts.classes, worst),
    )
    return inline_page(f"Run report: {parts.run}", body, styles=STYLES, scripts=SCRIPTS, data={})


def drawn_panels(panels: Sequence[Panel]) -> list[tuple[str, Markup]]:
    """Return titles and charts of the panels with points."""
    return [(panel.title, chart) for panel in panels if (chart := line_chart(panel))]


def curve_rows(panels: Sequence[Panel]) -> list[tuple[Cell, ...]]:
    """Return name, number of points, and first, last, lowest and highest value of every curve."""
    rows: list[tuple[Cell, ...]] = []
    for panel in panels:
        for curve in panel.curves:
            values = [y for _, y in curve.points]
            if values:
                summary = (values[0], values[-1], min(values), max(values))
                name = curve.name if curve.name == panel.title else f"{panel.title}: {curve.name}"
                rows.append((name, len(values), *(f"{value:.4g}" for value in summary)))
    return rows


def _bars(scored: Scored) -> Markup:
    bars = [Bar(patient.client, patient.global_f1, patient.personal_f1, patient.worst) for patient in scored.patients]
    return bar_chart(
        bars,
        f"Gain of {count_of(len(bars), 'patient')} by their personal models, sorted; the table below has the values",
        "Gain in macro-F1 of the personal over the global model",
        "macro-F1 of the global model",
        "macro-F1 of the personal model",
    )


def _of_class(matrix: NDArray[np.int64], i: int) -> tuple[float | None, float | None, float | None]:
    """Return sensitivity, positive predictivity and F1 of a class; None where the denominator is 0."""
    hit, truth, predicted = int(matrix[i, i]), int(matrix[i].sum()), int(matrix[:, i].sum())
    return (
        hit / truth if truth else None,
        hit / predicted if predicted else None,
        2 * hit / (truth + predicted) if truth + predicted else None,
    )


def _confusions(scored: Scored, classes: Sequence[str]) -> ConfusionTables:
    matrices = [matrix for matrix in (scored.confusion, scored.confusion_personal) if matrix is not None]
    every = sum(matrices[1:], start=matrices[0]) if matrices else np.zeros((0, 0), np.int64)
    present = np.flatnonzero(every.sum(0) + every.sum(1)).tolist()

    def rows(matrix: NDArray[np.int64] | None) -> list[ShadedRow] | None:
        if matrix is None:
            return None
        return [(classes[i], _shaded(matrix[i, present], total := int(matrix[i].sum())), (total,)) for i in present]

    names, absent = (tuple(classes[i] for i in of) for of in (present, sorted(set(range(len(every))) - set(present))))
    return ConfusionTables(names, absent, rows(scored.confusion), rows(scored.confusion_personal))


def _shaded(counts: NDArray[np.int64], total: int) -> list[tuple[int, int]]:
    """Return counts with the shades of their shares: none for 0, the lightest for any, the darkest for 1."""
    shares = counts / max(1, total)
    shades = np.where(shares <= 0, 0, np.clip(1 + (shares * (_SHADES - 0.5)).astype(np.int64), 1, _SHADES))
    return list(zip(counts.tolist(), shades.tolist(), strict=True))


def _mixes(mixes: Mixes, classes: Sequence[str], worst: dict[str, float]) -> ClientMixes:
    totals = mixes.counts.sum(1)
    some = np.flatnonzero(totals).tolist()
    layout = class_map(mixes.counts[some], classes)
    drawn = Markup()
    places: dict[int, tuple[str, ...]] = {}
    if layout is not None:
        names = [mixes.clients[i] for i in some]
        label = f"Map of {count_of(len(names), 'client')} by their classes; the table below has their places"
        drawn = map_chart(layout, names, totals[some].tolist(), [name in worst for name in names], label)
        places = {i: tuple(f"{value:+.2f}" for value in at) for i, at in zip(some, layout.points, strict=True)}
    rows: list[ShadedRow] = []
    for i in _order(mixes):
        total = int(totals[i])
        place = places.get(i, ("-", "-")) if layout else ()
        rest: tuple[Cell, ...] = (total, int(mixes.valid[i]), int(mixes.test[i]), *place)
        rows.append((mixes.clients[i], _shaded(mixes.counts[i], total), rest))
    return ClientMixes(rows, drawn, layout.shares if layout else None)


def _order(mixes: Mixes) -> list[int]:
    """Return clients by their most frequent class, the class with most beats first, then by its share."""
    rank = np.argsort(np.argsort(-mixes.counts.sum(0), kind="stable"))
    totals = np.maximum(mixes.counts.sum(1), 1)
    main = mixes.counts.argmax(1)
    shares = mixes.counts.max(1) / totals
    order: list[int] = np.lexsort((-shares, rank[main])).tolist()
    return order
