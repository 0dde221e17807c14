"""``runs compare``: a comparison of runs, and its page. This path does not import torch."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ecgfed.base.text import shortened
from ecgfed.core.runs.compare import compare_runs, pair_patients
from ecgfed.core.runs.compared_tables import MODEL_LABELS, class_heads, class_rows, letters, main_rows, settings_text
from ecgfed.core.runs.comparison import RunComparison
from ecgfed.core.runs.document import finished_rounds, read_document
from ecgfed.core.runs.history import HISTORY, read_lines
from ecgfed.core.runs.seeds import run_folders
from ecgfed.reports.charts import Curve, Panel
from ecgfed.reports.comparison_page import ComparisonParts, Pairs, comparison_page
from ecgfed.reports.run_content import USE, Lines, name_of_run, never_predicted, numbers_of
from ecgfed.tasks.page_files import page_targets, write_page

#: Curves of every run's history: key -> title, whether y is logarithmic, whether y goes from 0 to 1.
_CURVES = {
    "loss_mean": ("Training loss, mean over clients", True, False),
    "loss_max": ("Training loss, worst client", True, False),
    "valid_T_g": ("Macro-F1 on the validation split, global model (T_g)", False, True),
    "valid_T_p": ("Macro-F1 on the validation split, personal models (T_p)", False, True),
}


def compare_as_page(
    runs: Sequence[Path],
    out: Path | None = None,
    *,
    split: str = "test",
    leave_out: str = "nothing",
    any_cohort: bool = False,
    overwrite: bool = False,
) -> RunComparison:
    """Compare runs with ``compare_runs``, and write a page to ``out`` unless it is None.

    Raises:
        OptionError: the page exists or cannot be written; fewer than two runs, a run twice, an unknown split.
        RunError: a folder is not a run, is damaged, or its run was trained on another cohort than the first.
        StorageError: writing the page failed.
    """
    targets = page_targets(out, overwrite=overwrite)
    comparison = compare_runs(runs, split, leave_out, any_cohort=any_cohort)
    if targets:
        write_page(targets, comparison_page(_parts(comparison, runs)), None)
    return comparison


def _parts(comparison: RunComparison, runs: Sequence[Path]) -> ComparisonParts:
    names = letters(len(comparison.runs))
    folders = [name_of_run(path) for path in runs]
    run_rows = [
        (name, f"{folder} ({run.method}{f', {run.seeds} seeds: mean ± standard deviation' if run.seeds > 1 else ''})")
        for name, folder, run in zip(names, folders, comparison.runs, strict=True)
    ]
    settings_lines = [
        f"Settings of {name} that not all have: {settings_text(of)}."
        for name, of in zip(names, comparison.specific_settings, strict=True)
        if of
    ]
    return ComparisonParts(
        tuple(run_rows),
        USE,
        tuple(_notes(comparison, runs, names, folders)),
        comparison.split if comparison.leave_out == "nothing" else f"{comparison.split} without {comparison.leave_out}",
        main_rows(comparison, "not evaluated"),
        tuple(settings_lines),
        class_heads(comparison),
        class_rows(comparison),
        tuple(_pairs(comparison, runs, names)),
        tuple(_panels(runs, [f"{name} {shortened(folder, 40)}" for name, folder in zip(names, folders, strict=True)])),
    )


def _pairs(comparison: RunComparison, runs: Sequence[Path], names: Sequence[str]) -> list[Pairs]:
    """Return the scores of each patient with two runs, once where global and personal models score alike."""
    pairs: list[Pairs] = []
    for compared in pair_patients(runs, comparison.split, comparison.leave_out):
        last = pairs[-1] if pairs else None
        if last is not None and last.second == names[compared.run] and last.scores == compared.scores:
            pairs[-1] = replace(last, model=f"{last.model} and {MODEL_LABELS[compared.model]} alike")
        else:
            pairs.append(Pairs(names[0], names[compared.run], MODEL_LABELS[compared.model], compared.scores))
    return pairs


def _notes(
    comparison: RunComparison, runs: Sequence[Path], names: Sequence[str], folders: Sequence[str]
) -> list[tuple[str, str]]:
    """Return the notes; runs are named without their path, which may name a person."""
    notes = []
    if not comparison.same_cohort:
        text = "Different cohorts: beats, splits or patients are not the same; differences may be theirs."
        notes.append(("different-cohorts", text))
    for path, name, folder, run in zip(runs, names, folders, comparison.runs, strict=True):
        notes += [("run", f"{name} {line.replace(str(path), folder)}") for line in run.notes]
        missed = {never_predicted(_lines(seed_folder)) for seed_folder in run_folders(path)} - {""}
        notes += [("never-predicted", f"{name}: {text}") for text in sorted(missed)]
    return notes


def _panels(runs: Sequence[Path], names: Sequence[str]) -> list[Panel]:
    """Return the runs' curves in common panels, over passes where every history has them, else over rounds."""
    seeds = [[_lines(folder) for folder in run_folders(path)] for path in runs]
    by_passes = all(numbers_of(line, ("passes",)) for histories in seeds for lines in histories for line in lines)
    across = "passes" if by_passes else "round"
    x_label = "passes over the training data" if by_passes else "round"
    panels = []
    for key, (title, log, share) in _CURVES.items():
        curves = [Curve(name, _mean(histories, key, across)) for name, histories in zip(names, seeds, strict=True)]
        drawn = tuple(curve for curve in curves if curve.points)
        if drawn:
            panels.append(Panel(title, x_label, drawn, log=log, span=(0.0, 1.0) if share else None))
    return panels


def _lines(folder: Path) -> Lines:
    document = read_document(folder)
    return read_lines(folder / HISTORY, finished_rounds(folder, document.identity))


def _mean(histories: Sequence[Lines], key: str, across: str) -> tuple[tuple[float, float], ...]:
    """Return a curve, for several seeds their mean in their common rounds."""
    tables = [
        {line["round"]: point for line in lines if (point := numbers_of(line, (across, key))) is not None}
        for lines in histories
    ]
    points = [[table[number] for table in tables] for number in tables[0] if all(number in table for table in tables)]
    return tuple((sum(x for x, _ in of) / len(of), sum(y for _, y in of) / len(of)) for of in points)
