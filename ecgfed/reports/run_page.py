"""A run as one self-contained page, for researchers; in the style of a recording's report."""

import numpy as np

from ecgfed.base.text import count_of
from ecgfed.reports.charts import line_chart
from ecgfed.reports.class_map import class_map
from ecgfed.reports.markup import NOT_ASSESSED, key_values, paragraph, section
from ecgfed.reports.patient_charts import Bar, bar_chart, map_chart
from ecgfed.reports.run_parts import Mixes, RunParts
from ecgfed.reports.run_tables import (
    classes_table,
    confusion_table,
    curves_table,
    mixes_table,
    pairs_table,
    patients_table,
    scenario_table,
    score,
    sent_table,
)
from ecgfed.web.page import escaped, inline_page

STYLES = ("report.css", "run.css")
SCRIPTS = ("run.js",)
NOT_EVALUATED = "not evaluated"
#: Descriptions of the scenarios.
_SCENARIOS = (
    ("T_g", "the global model on all patients' {}"),
    ("T_p", "each personal model on its patient's {}, mean over patients"),
    ("T_r", "each personal model on all patients' {}, mean over patients"),
    ("T_l", "harmonic mean of T_p and T_r (GRP-FED, equation 6)"),
)


def run_page(parts: RunParts) -> str:
    """Return the whole page as HTML."""
    body = "\n".join(
        [
            '<a class="skip" href="#scores">To the scores</a>',
            _header(parts),
            "<main>",
            notes_section(parts.notes),
            _scores(parts),
            _patients(parts),
            _confusions(parts),
            _curves(parts),
            _clients(parts),
            _cost(parts),
            section(
                "settings", "Settings", *(f"<h3>{escaped(title)}</h3>{key_values(of)}" for title, of in parts.settings)
            ),
            _limits(),
            "</main>",
        ]
    )
    return inline_page(f"Run report: {parts.run}", body, styles=STYLES, scripts=SCRIPTS, data={})


def _header(parts: RunParts) -> str:
    return (
        f"<header>\n<h1>Run report: {escaped(parts.run)}</h1>\n"
        f'<p class="use"><strong>{escaped(parts.intended_use)}</strong></p>\n{key_values(parts.header)}\n</header>'
    )


def notes_section(notes: tuple[tuple[str, str], ...]) -> str:
    """Return the notes, in the style of a recording's warnings."""
    if not notes:
        return section("notes", "Notes", paragraph("None of the checks found a problem."))
    items = "".join(
        f'<li data-code="{escaped(code)}"><span class="sign" aria-hidden="true">!</span> {escaped(text)}</li>'
        for code, text in notes
    )
    return section("notes", f"Notes ({len(notes)})", f"<ul>{items}</ul>", kind="warned")


def _scores(parts: RunParts) -> str:
    if not parts.scored:
        return section("scores", "Scores", paragraph(f"Scores are {NOT_EVALUATED}."))
    first, what = parts.scored[0], parts.what
    pairs = [(name, score(first.scores.get(name))) for name, _ in _SCENARIOS]
    asks = "; ".join(f"{name}: {text.format(what)}" for name, text in _SCENARIOS)
    conventions = (
        "Macro-F1 is the mean F1 over the classes in truth or prediction (scikit-learn's default, the headline), and "
        "beside it over the classes in truth."
    )
    return section(
        "scores",
        "Scores",
        f'<div class="short">{key_values(pairs)}</div>',
        paragraph(f"{first.title}, after round {first.round:,}. {asks}."),
        scenario_table(parts.scored),
        paragraph(conventions),
        pairs_table(f"Beside the scenarios: {first.title}", first.more) if first.more else "",
    )


def _patients(parts: RunParts) -> str:
    if not parts.scored:
        return section("patients", "Patients", paragraph(f"Patients are {NOT_EVALUATED}."))
    scored, what = parts.scored[0], parts.what
    if not scored.patients:
        return section("patients", "Patients", paragraph(f"No patient has {what} in this split."))
    better, worse = (sum(sign * patient.gain > 0 for patient in scored.patients) for sign in (1, -1))
    worst_n = sum(patient.worst for patient in scored.patients)
    tenth = [patient.personal_f1 for patient in scored.patients if patient.worst]
    text = (
        f"{scored.title}: personal models score higher than the global model for {better:,} of "
        f"{count_of(len(scored.patients), 'patient')}, lower for {worse:,} and equal for "
        f"{len(scored.patients) - better - worse:,}. The tenth of patients with the lowest scores "
        f"({count_of(worst_n, 'patient')}) has a mean macro-F1 of {sum(tenth) / len(tenth):.3f}."
    )
    legend = "A grey column with a triangle on top: the worst tenth."
    bars = [Bar(patient.client, patient.global_f1, patient.personal_f1, patient.worst) for patient in scored.patients]
    drawn = bar_chart(
        bars,
        f"Gain of {count_of(len(bars), 'patient')} by their personal models, sorted; the table below has the values",
        "Gain in macro-F1 of the personal over the global model",
        "macro-F1 of the global model",
        "macro-F1 of the personal model",
    )
    return section(
        "patients", "Patients", paragraph(text), paragraph(legend), drawing(drawn), patients_table(scored, what)
    )


def drawing(drawn: str) -> str:
    """Return a chart that scrolls if it is wider than the page."""
    return f'<div class="wide" role="group" aria-label="Chart">{drawn}</div>' if drawn else ""


def _confusions(parts: RunParts) -> str:
    if not parts.scored:
        return section("classes", "Classes", paragraph(f"Classes are {NOT_EVALUATED}."))
    scored, what = parts.scored[0], parts.what
    matrices = [matrix for matrix in (scored.confusion, scored.confusion_personal) if matrix is not None]
    every = sum(matrices[1:], start=matrices[0]) if matrices else np.zeros((0, 0), np.int64)
    present = np.flatnonzero(every.sum(0) + every.sum(1)).tolist()
    absent = [parts.classes[i] for i in range(len(every)) if i not in present]
    tables = []
    for matrix, title in (
        (scored.confusion, f"The global model on all patients' {what}"),
        (scored.confusion_personal, f"Each personal model on its patient's {what}"),
    ):
        if matrix is None:
            tables.append(
                paragraph(f"{title}: {NOT_ASSESSED}; this evaluation did not keep it. Evaluate the run again.")
            )
        else:
            tables.append(confusion_table(matrix, parts.classes, f"{title}: rows truth, columns prediction", present))
    how = "A cell is the darker the larger its share of its row." if matrices else ""
    out = f"Neither in truth nor predicted: {', '.join(absent)}." if absent else ""
    return section(
        "classes", "Classes", classes_table(scored, parts.classes, what), paragraph(f"{how} {out}".strip()), *tables
    )


def _curves(parts: RunParts) -> str:
    drawn = [chart for panel in parts.panels if (chart := line_chart(panel))]
    if not drawn:
        return section("curves", "Learning curves", paragraph("The history holds no finished round."))
    figures = "".join(f'<figure class="panel"><figcaption>{escaped(panel.title)}</figcaption>{chart}</figure>'
                    for panel in parts.panels if (chart := line_chart(panel)))  # fmt: skip
    text = "A curve of more than 400 points is drawn as means over as many rounds that follow one another."
    return section(
        "curves", "Learning curves", f'<div class="panels">{figures}</div>', paragraph(text), curves_table(parts.panels)
    )


def _clients(parts: RunParts) -> str:
    mixes, title = parts.mixes, "Clients"
    if isinstance(mixes, str):
        return section("clients", title, paragraph(f"What clients have: {NOT_ASSESSED}: {mixes}."))
    some = np.flatnonzero(mixes.counts.sum(1))
    layout = class_map(mixes.counts[some], parts.classes)
    worst = {patient.client for patient in parts.scored[0].patients if patient.worst} if parts.scored else set()
    drawn, text = "", "Fewer than three clients, or all with the same mix of classes: there is no map."
    if layout is not None:
        names = [mixes.clients[i] for i in some]
        beats = mixes.counts[some].sum(1).tolist()
        description = f"Map of {count_of(len(names), 'client')} by their classes; the table below has their places"
        drawn = map_chart(layout, names, beats, [name in worst for name in names], description)
        square = "; a square marks the worst tenth" if worst else ""
        text = (
            "The map: the two principal components of the square roots of the clients' class shares in training, which "
            f"hold {100 * layout.shares[0]:.0f}% and {100 * layout.shares[1]:.0f}% of their variance. Near to one "
            "another lie clients with a like mix, whatever their signals look like; a cross is where a client of one "
            f"class alone would lie. A circle's area grows with the client's training {parts.what}{square}. Names that "
            "would cover something are left out."
        )
    table = mixes_table(mixes, _order(mixes), parts.classes, layout, parts.what)
    return section("clients", title, paragraph(text), drawing(drawn), table)


def _order(mixes: Mixes) -> list[int]:
    """Return clients by their most frequent class, the class with most beats first, then by its share."""
    rank = np.argsort(np.argsort(-mixes.counts.sum(0), kind="stable"))
    totals = np.maximum(mixes.counts.sum(1), 1)
    main = mixes.counts.argmax(1)
    shares = mixes.counts.max(1) / totals
    order: list[int] = np.lexsort((-shares, rank[main])).tolist()
    return order


def _cost(parts: RunParts) -> str:
    how = ""
    if not isinstance(parts.sent, str):
        how = (
            "Measured: rounds of this method with this net and these settings are run on empty examples, and what goes "
            "to and comes from the client with most is counted; losses and counts beside it are not."
        )
    return section("cost", "What it cost", sent_table(parts), paragraph(how), key_values(parts.seconds))


def _limits() -> str:
    text = (
        f'What was not assessed reads "{NOT_ASSESSED}", what was not scored "{NOT_EVALUATED}", never 0. '
        "All values are from the run's folder and its cohort; nothing was trained or scored for this page."
    )
    return section("limits", "How to read this", paragraph(text))
