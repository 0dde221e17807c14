"""The tables of a run's page: scenarios, patients, classes, confusion matrices, clients."""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from ecgfed.base.text import count_of
from ecgfed.reports.charts import Panel
from ecgfed.reports.class_map import ClassMap
from ecgfed.reports.markup import NOT_ASSESSED, Cell, Markup, markup, paragraph, table
from ecgfed.reports.run_parts import Mixes, RunParts, Scored, ScoredPatient
from ecgfed.web.page import escaped

SCENARIOS = ("T_g", "T_p", "T_r", "T_l")
#: The two conventions of macro-F1, as a row's heading says them.
BOTH = (("scores", "classes in truth or prediction"), ("scores_truth", "classes in truth"))
#: Rows beyond which a table is folded away: what is drawn says the most of it.
UNFOLDED = 60
#: Patients served worst that are shown where the table of all is folded away.
WORST = 20
#: Shades of a cell, from white to dark (``.shade-0`` to ``.shade-9`` of ``run.css``).
_SHADES = 9


def score(value: float | None, form: str = ".3f") -> str | None:
    """Write a score; None stays what nobody assessed."""
    return None if value is None else format(value, form)


def folded(content: str, rows: int, what: str) -> str:
    """Return a long table folded away behind what it is; a short one as it is."""
    if rows <= UNFOLDED:
        return content
    return f"<details><summary>{escaped(what)} ({count_of(rows, 'row')})</summary>{content}</details>"


def scenario_table(scored: Sequence[Scored]) -> str:
    """Return the four scenarios of every evaluation, by both conventions of macro-F1."""
    rows: list[Sequence[Cell]] = []
    for scenario in scored:
        for kind, label in BOTH:
            values: dict[str, float] = getattr(scenario, kind)
            of_all = [score(values.get(name)) for name in (*SCENARIOS, "T_p_global")]
            rows.append((f"{scenario.title}: {label}", *of_all, len(scenario.patients), scenario.beats))
    head = ("Evaluation: macro-F1 over", *SCENARIOS, "T_p, global model", "Patients", "Scored")
    return table("Scenarios of every evaluation", head, rows, kind="numbers scenarios")


def patients_table(scored: Scored, what: str) -> str:
    """Return every patient, by gain as the bars are."""
    head = [
        *("Patient", "Global model", "Own answer", "Gain", "Worst tenth"),
        *(f"Own answer by {name}" for name in scored.others),
        *(f"Own answer on everybody's {what}", what.capitalize(), "Classes"),
    ]

    def row(patient: ScoredPatient) -> Sequence[Cell]:
        return (
            patient.client,
            score(patient.global_f1),
            score(patient.personal_f1),
            score(patient.gain, "+.3f") if patient.gain else "0.000",
            "worst tenth" if patient.worst else "",
            *map(score, patient.others),
            score(patient.everybody_f1),
            patient.beats,
            patient.classes,
        )

    caption = f"Patients by gain, macro-F1 on their own {what}: {scored.title}"
    every = table(caption, head, map(row, scored.patients), kind="numbers")
    if len(scored.patients) <= UNFOLDED:
        return every
    worst = sorted((patient for patient in scored.patients if patient.worst), key=lambda patient: patient.personal_f1)
    title = f"The {min(len(worst), WORST)} patients whose own answer is worst"
    first = table(title, head, map(row, worst[:WORST]), kind="numbers")
    return first + folded(every, len(scored.patients), "All patients")


def classes_table(scored: Scored, classes: Sequence[str], what: str) -> str:
    """Return every class: the global answer, and the personal ones where their confusions are known."""
    personal: dict[str, tuple[float | None, float | None, float | None]] = {}
    matrix = scored.confusion_personal
    if matrix is not None:
        personal = {name: _of_class(matrix, i) for i, name in enumerate(classes)}
    rows: list[Sequence[Cell]] = []
    for entry in scored.classes:
        shares = map(_share, (entry.sensitivity, entry.positive_predictivity, entry.f1))
        more = map(_share, personal[entry.name]) if entry.name in personal else ()
        rows.append((entry.name, entry.beats, entry.predicted, *shares, *more))
    head = ("Class", what.capitalize(), "Predicted", "Se", "+P", "F1")
    also = ("Se, own answers", "+P, own answers", "F1, own answers") if personal else ()
    return table(f"Classes: the global model on everybody's {what}", (*head, *also), rows, kind="numbers")


def _of_class(matrix: NDArray[np.int64], i: int) -> tuple[float | None, float | None, float | None]:
    """Return sensitivity, positive predictivity and F1 of a class; None where there is nothing to divide by."""
    hit, truth, predicted = int(matrix[i, i]), int(matrix[i].sum()), int(matrix[:, i].sum())
    return (
        hit / truth if truth else None,
        hit / predicted if predicted else None,
        2 * hit / (truth + predicted) if truth + predicted else None,
    )


def _share(value: float | None) -> str:
    """A share of a class; ``-`` where there is nothing to divide by, which is no lack of an assessment."""
    return "-" if value is None else f"{value:.3f}"


def confusion_table(matrix: NDArray[np.int64], classes: Sequence[str], caption: str, displayed: Sequence[int]) -> str:
    """Return a confusion matrix: rows truth, each cell shaded by its share of its row.

    Args:
        matrix: (classes, classes) counts.
        classes: their names.
        caption: whose answer.
        displayed: numbers of the classes that are shown; the others are in neither truth nor prediction.
    """
    rows = []
    for i in displayed:
        total = int(matrix[i].sum())
        rows.append(
            (classes[i], [(int(matrix[i, j]), matrix[i, j] / total if total else 0.0) for j in displayed], (total,))
        )
    return shaded(caption, ("Truth", *(classes[j] for j in displayed), "All"), rows)


def shaded(
    caption: str, head: Sequence[str], rows: Iterable[tuple[str, Sequence[tuple[int, float]], Sequence[Cell]]]
) -> str:
    """Return a table of counts whose cells are shaded.

    Args:
        caption: what it shows.
        head: the columns' headings.
        rows: heading, (count, share of its row from 0 to 1) of the shaded cells, and cells after them.
    """
    columns = "".join(f'<th scope="col">{markup(cell)}</th>' for cell in head)
    body = []
    for name, cells, rest in rows:
        dark = (f'<td class="shade-{_shade(share)}">{count:,}</td>' for count, share in cells)
        after = "".join(f"<td>{markup(cell)}</td>" for cell in rest)
        body.append(f'<tr><th scope="row">{markup(name)}</th>{"".join(dark)}{after}</tr>')
    return (
        f'<div class="wide" role="group" aria-label="{escaped(caption)}"><table class="shaded">'
        f"<caption>{escaped(caption)}</caption><thead><tr>{columns}</tr></thead><tbody>{''.join(body)}</tbody></table></div>"
    )


def _shade(share: float) -> int:
    """No shade for nothing, the lightest for any, the darkest for all."""
    return 0 if share <= 0 else max(1, min(_SHADES, 1 + int(share * (_SHADES - 0.5))))


def mixes_table(mixes: Mixes, order: Sequence[int], classes: Sequence[str], layout: ClassMap | None, what: str) -> str:
    """Return what each client has: counts shaded by their share, and where it lies on the map."""
    points = iter(layout.points if layout else ())
    at = {i: next(points) for i in range(len(mixes.clients)) if mixes.counts[i].sum()} if layout else {}
    rows = []
    for i in order:
        total = int(mixes.counts[i].sum())
        cells = [(int(value), value / total if total else 0.0) for value in mixes.counts[i]]
        where: tuple[Cell, ...] = ()
        if layout:
            where = tuple(f"{value:+.2f}" for value in at[i]) if i in at else ("-", "-")
        rows.append((mixes.clients[i], cells, (total, int(mixes.valid[i]), int(mixes.test[i]), *where)))
    head = ("Client", *classes, "Training", "Validation", "Test", *(("Map, x", "Map, y") if layout else ()))
    caption = f"Training {what} of each class, clients in order of their most frequent class"
    return folded(shaded(caption, head, rows), len(rows), "All clients")


def curves_table(panels: Sequence[Panel]) -> str:
    """Return the first, last, lowest and highest value of every curve."""
    rows: list[Sequence[Cell]] = []
    for panel in panels:
        for curve in panel.curves:
            values = [y for _, y in curve.points]
            if values:
                summary = (values[0], values[-1], min(values), max(values))
                name = curve.name if curve.name == panel.title else f"{panel.title}: {curve.name}"
                rows.append((name, len(values), *(f"{value:.4g}" for value in summary)))
    if not rows:
        return ""
    return table(
        "Curves in numbers", ("Curve", "Points", "First", "Last", "Lowest", "Highest"), rows, kind="numbers curves"
    )


def sent_table(parts: RunParts) -> str:
    """Return what travelled."""
    if isinstance(parts.sent, str):
        return paragraph(f"Bytes sent: {NOT_ASSESSED}: {parts.sent}.")
    rows: list[Sequence[Cell]] = [*parts.sent.rows]
    if parts.sent.down is not None and parts.sent.up is not None:
        label = "All clients and rounds" + (", about" if parts.sent.about else "")
        rows.append((label, parts.sent.down, parts.sent.up))
    else:
        rows.append(("All clients and rounds", None, None))
    return table(
        "Bytes of parameters that travel", ("When", "Down to clients", "Up to the server"), rows, kind="numbers"
    )


def pairs_table(caption: str, pairs: Iterable[tuple[str, Cell]]) -> Markup:
    """Return names and values as a table."""
    return Markup(table(caption, ("Name", "Value"), pairs))
