"""Runs side by side as one self-contained page, in the style of a run's."""

from collections.abc import Sequence
from dataclasses import dataclass

from ecgfed.base.text import count_of
from ecgfed.reports.charts import Panel, line_chart
from ecgfed.reports.markup import Cell, key_values, paragraph, section, table
from ecgfed.reports.patient_charts import Bar, bar_chart
from ecgfed.reports.run_page import NOT_EVALUATED, SCRIPTS, STYLES, drawing, notes_section
from ecgfed.reports.run_tables import curves_table, folded, score
from ecgfed.web.page import escaped, inline_page


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


def comparison_page(parts: ComparisonParts) -> str:
    """Return the whole page as HTML."""
    body = "\n".join(
        [
            '<a class="skip" href="#scores">To the scores</a>',
            f"<header>\n<h1>{escaped(count_of(len(parts.runs), 'run'))} compared</h1>\n"
            f'<p class="use"><strong>{escaped(parts.intended_use)}</strong></p>\n{key_values(parts.runs)}\n</header>',
            "<main>",
            notes_section(parts.notes),
            _scores(parts),
            _patients(parts),
            _classes(parts),
            _curves(parts),
            "</main>",
        ]
    )
    return inline_page("Runs compared", body, styles=STYLES, scripts=SCRIPTS, data={})


def _scores(parts: ComparisonParts) -> str:
    head = ("Compared", *(name for name, _ in parts.runs))
    text = (
        "T_g: the global model on all patients' examples; T_p: each personal model on its patient's examples; "
        "T_r: the same on all patients'; T_l: harmonic mean of T_p and T_r. Macro-F1 over the classes in truth or "
        "prediction. Worst tenth: mean macro-F1 of the tenth of patients with the lowest scores, at least one."
    )
    content = table(f"Settings that differ, and macro-F1 on {parts.split}", head, parts.main, kind="numbers")
    return section("scores", "Scores side by side", content, paragraph(text), *map(paragraph, parts.settings_lines))


def _patients(parts: ComparisonParts) -> str:
    if not parts.pairs:
        text = f"Patients are {NOT_EVALUATED} with the first run and another one on {parts.split}."
        return section("patients", "Patients, paired", paragraph(text))
    return section("patients", "Patients, paired", *(_pair(pairs, i) for i, pairs in enumerate(parts.pairs)))


def _pair(pairs: Pairs, number: int) -> str:
    ordered = sorted(pairs.scores, key=lambda row: row[1] - row[2])
    change = [after - before for _, before, after in ordered]
    better, worse = (sum(sign * value > 0 for value in change) for sign in (1, -1))
    title = f"{pairs.second} against {pairs.first}, {pairs.model}"
    mean = sum(change) / len(change)
    text = (
        f"Of {count_of(len(change), 'patient')}, {pairs.second} scores higher for {better:,}, lower for {worse:,} and "
        f"equal for {len(change) - better - worse:,}; the mean difference is {mean:+.3f}."
    )
    drawn = bar_chart(
        [Bar(*row) for row in ordered],
        f"Differences of {count_of(len(change), 'patient')}, {title}, sorted; the table below has the values",
        f"Macro-F1 with {pairs.second} minus that with {pairs.first}",
        f"macro-F1 with {pairs.first}",
        f"macro-F1 with {pairs.second}",
    )
    rows: list[Sequence[Cell]] = [
        (patient, score(before), score(after), score(after - before, "+.3f") if after != before else "0.000")
        for patient, before, after in ordered
    ]
    head = ("Patient", pairs.first, pairs.second, "Difference")
    content = table(f"Patients by difference: {title}", head, rows, kind="numbers")
    return (
        f'<h3 id="pair-{number}">{escaped(title)}</h3>{paragraph(text)}{drawing(drawn)}'
        f"{folded(content, len(rows), 'All patients')}"
    )


def _classes(parts: ComparisonParts) -> str:
    if not parts.classes:
        return section("classes", "Classes", paragraph(f"Classes are {NOT_EVALUATED} on {parts.split}."))
    content = table("F1 of each class, global model", parts.class_head, parts.classes, kind="numbers")
    return section("classes", "Classes", content)


def _curves(parts: ComparisonParts) -> str:
    drawn = [(panel, chart) for panel in parts.panels if (chart := line_chart(panel))]
    if not drawn:
        return section("curves", "Learning curves", paragraph("No history holds a finished round."))
    content = "".join(
        f'<figure class="panel"><figcaption>{escaped(panel.title)}</figcaption>{chart}</figure>'
        for panel, chart in drawn
    )
    text = "Of a folder of seeds, the mean over its runs in the rounds that all of them have."
    return section(
        "curves", "Learning curves", f'<div class="panels">{content}</div>', paragraph(text), curves_table(parts.panels)
    )
