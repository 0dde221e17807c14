"""``runs compare``: runs side by side, and as a page. No torch on this path."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ecgfed.base.text import shortened
from ecgfed.core.runs.compare import RunComparison, compare_runs, pair_patients
from ecgfed.core.runs.compared_tables import MODEL_LABELS, class_heads, class_rows, letters, main_rows, settings_text
from ecgfed.core.runs.document import finished_rounds, read_document
from ecgfed.core.runs.history import HISTORY, read_lines
from ecgfed.core.runs.seeds import run_folders
from ecgfed.reports.charts import Curve, Panel
from ecgfed.reports.comparison_page import ComparisonParts, Pairs, comparison_page
from ecgfed.tasks.page_files import page_targets, write_page
from ecgfed.tasks.report_run_parts import USE, Lines, name_of_run, never_predicted, numbers_of

#: What is drawn of every run's history: name -> title, whether y grows by factors, y from 0 to 1.
_CURVES = {
    "loss_mean": ("Training loss, mean over clients", True, False),
    "loss_max": ("Training loss, worst client", True, False),
    "valid_T_g": ("Macro-F1 on the validation split, global answer (T_g)", False, True),
    "valid_T_p": ("Macro-F1 on the validation split, personal answers (T_p)", False, True),
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
    """Compare runs (``compare_runs``), and write it as a page where ``out`` names one.

    Raises:
        OptionError: a page that cannot be written, or is there; fewer than two runs, one twice, no such split.
        RunError: one is no run, or damaged, or was trained on another cohort than the first.
        StorageError: the page could not be written.
    """
    targets = page_targets(out, overwrite=overwrite)
    found = compare_runs(runs, split, leave_out, any_cohort=any_cohort)
    if targets:
        write_page(targets, comparison_page(_parts(found, runs)), None)
    return found


def _parts(found: RunComparison, runs: Sequence[Path]) -> ComparisonParts:
    names = letters(len(found.runs))
    folders = [name_of_run(path) for path in runs]
    about = [
        (name, f"{folder} ({run.method}{f', {run.seeds} seeds: mean ± standard deviation' if run.seeds > 1 else ''})")
        for name, folder, run in zip(names, folders, found.runs, strict=True)
    ]
    own = [
        f"Settings of {name} that not all have: {settings_text(of)}."
        for name, of in zip(names, found.specific_settings, strict=True)
        if of
    ]
    return ComparisonParts(
        tuple(about),
        USE,
        tuple(_notes(found, runs, names, folders)),
        found.split if found.leave_out == "nothing" else f"{found.split} without {found.leave_out}",
        main_rows(found, "not evaluated"),
        tuple(own),
        class_heads(found),
        class_rows(found),
        tuple(_pairs(found, runs, names)),
        tuple(_panels(runs, [f"{name} {shortened(folder, 40)}" for name, folder in zip(names, folders, strict=True)])),
    )


def _pairs(found: RunComparison, runs: Sequence[Path], names: Sequence[str]) -> list[Pairs]:
    """Return patients' differences; where everybody's model is a patient's own with both runs, once."""
    pairs: list[Pairs] = []
    for one in pair_patients(runs, found.split, found.leave_out):
        last = pairs[-1] if pairs else None
        if last is not None and last.second == names[one.run] and last.scores == one.scores:
            pairs[-1] = replace(last, answer=f"{last.answer} and {MODEL_LABELS[one.model]} alike")
        else:
            pairs.append(Pairs(names[0], names[one.run], MODEL_LABELS[one.model], one.scores))
    return pairs


def _notes(
    found: RunComparison, runs: Sequence[Path], names: Sequence[str], folders: Sequence[str]
) -> list[tuple[str, str]]:
    """Return what to keep in mind; a run is named without the way to it, which may name a person."""
    notes = []
    if not found.same_cohort:
        said = "Different cohorts: beats, splits or patients are not the same; differences may be theirs."
        notes.append(("different-cohorts", said))
    for path, name, folder, run in zip(runs, names, folders, found.runs, strict=True):
        notes += [("run", f"{name} {line.replace(str(path), folder)}") for line in run.notes]
        missed = {f"{name}: {said}" for one in run_folders(path) if (said := never_predicted(_lines(one)))}
        notes += [("never-predicted", said) for said in sorted(missed)]
    return notes


def _panels(runs: Sequence[Path], names: Sequence[str]) -> list[Panel]:
    """Return the runs' curves over each other: over passes where every history says them, else over rounds."""
    seeds = [[_lines(folder) for folder in run_folders(path)] for path in runs]
    passes = all(numbers_of(line, ("passes",)) for histories in seeds for lines in histories for line in lines)
    across = "passes" if passes else "round"
    said = "passes over the training data" if passes else "round"
    panels = []
    for key, (title, log, share) in _CURVES.items():
        curves = [Curve(name, _mean(histories, key, across)) for name, histories in zip(names, seeds, strict=True)]
        there = tuple(one for one in curves if one.points)
        if there:
            panels.append(Panel(title, said, there, log=log, span=(0.0, 1.0) if share else None))
    return panels


def _lines(folder: Path) -> Lines:
    document = read_document(folder)
    return read_lines(folder / HISTORY, finished_rounds(folder, document.identity))


def _mean(histories: Sequence[Lines], key: str, across: str) -> tuple[tuple[float, float], ...]:
    """Return a curve, of several seeds their mean in the rounds that all of them have."""
    tables = [
        {line["round"]: told for line in lines if (told := numbers_of(line, (across, key))) is not None}
        for lines in histories
    ]
    rounds = [number for number in tables[0] if all(number in table for table in tables)]
    many = len(tables)
    return tuple(
        (sum(table[number][0] for table in tables) / many, sum(table[number][1] for table in tables) / many)
        for number in rounds
    )
