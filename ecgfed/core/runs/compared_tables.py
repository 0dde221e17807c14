"""Tables of a comparison of runs, for the terminal and for reports."""

from collections.abc import Mapping
from string import ascii_uppercase

from ecgfed.core.runs.comparison import SCORES, ComparedRun, RunComparison
from ecgfed.core.runs.intervals import Interval, interval_text

#: Labels of the models in the tables.
MODEL_LABELS = {"personal": "own model", "global": "everybody's"}


def letters(count: int) -> list[str]:
    """Return the labels of runs in the tables: ``A`` to ``Z``, then ``AA``."""
    return [("" if i < 26 else ascii_uppercase[i // 26 - 1]) + ascii_uppercase[i % 26] for i in range(count)]


def number(value: float | None, form: str = ".3f", none: str = "-") -> str:
    """Format a number; ``none`` for None."""
    return none if value is None else format(value, form)


def main_rows(comparison: RunComparison, none: str = "-") -> list[list[str]]:
    """Return a row for each property: its name, and its value for each run.

    Args:
        none: text for missing scores.
    """
    runs = comparison.runs
    rows = [
        ["method", *(run.method for run in runs)],
        ["rounds", *(f"{run.finished_rounds:,}/{run.rounds:,}" for run in runs)],
        ["passes", *(number(run.passes, ".1f") for run in runs)],
    ]
    for part, settings in comparison.differing.items():
        for name, values in settings.items():
            rows.append([f"net {name}" if part == "net" else name, *map(_setting, values)])
    protocols = [run.protocol for run in runs]
    if len({protocol for protocol in protocols if protocol}) > 1:
        rows.append(["global answer", *(protocol or "-" for protocol in protocols)])
    scores = []
    for name in SCORES:
        written = [_spread(run, run.scores, name, none) for run in runs]
        ends = [run.intervals.get(name) for run in runs]
        scores.append([name, *map(interval_text, written, ends)])
        if any(name in run.differences for run in runs):
            scores.append([f"{name} less A's", *(ends_text(run.differences.get(name)) for run in runs)])
    worst = [
        [f"worst tenth, {label}", *(_spread(run, run.worst_tenth, model, none) for run in runs)]
        for model, label in MODEL_LABELS.items()
    ]
    sites = [
        [f"{site}, {label}", *(_spread(run, _at_site(run, site, model), f"{site} {model}", none) for run in runs)]
        for site in dict.fromkeys(site for run in runs for site in run.sites)
        for model, label in MODEL_LABELS.items()
    ]
    lowest = [
        [f"worst site, {label}", *(number(_worst_site(run, model), none=none) for run in runs)]
        for model, label in MODEL_LABELS.items()
    ]
    return [*rows, *scores, *worst, *sites, *(lowest if sites else ())]


def ends_text(ends: Interval | None) -> str:
    """Format the interval of a difference; ``-`` for None."""
    return "-" if ends is None else f"{ends[0]:+.3f} to {ends[1]:+.3f}"


def _at_site(run: ComparedRun, site: str, model: str) -> dict[str, float | None]:
    return {f"{site} {model}": run.sites.get(site, {}).get(model)}


def _worst_site(run: ComparedRun, model: str) -> float | None:
    return min((value for of in run.sites.values() if (value := of[model]) is not None), default=None)


def _spread(run: ComparedRun, values: Mapping[str, float | None] | None, name: str, none: str) -> str:
    mean = number((values or {}).get(name), none=none)
    return f"{mean} ± {run.spread[name]:.3f}" if name in run.spread else mean


def _setting(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def class_heads(comparison: RunComparison) -> list[str]:
    """Return the headings of ``class_rows``."""
    names = letters(len(comparison.runs))
    return ["class", "beats", *names, *(f"{name}-{names[0]}" for name in names[1:])]


def class_rows(comparison: RunComparison) -> list[list[str]]:
    """Return a row for each class: beats, F1 of each run, and differences from the first run."""
    return [
        [row.name, number(row.beats, ","), *map(number, row.f1), *(_difference(row.f1[0], f1) for f1 in row.f1[1:])]
        for row in comparison.classes
    ]


def _difference(first: float | None, second: float | None) -> str:
    return "-" if first is None or second is None else f"{second - first:+.3f}"


def settings_text(values: Mapping[str, object]) -> str:
    """Format settings as ``NAME=VALUE, ...``."""
    return ", ".join(f"{name}={value}" for name, value in values.items())
