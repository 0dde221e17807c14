"""The part of this folder's README that is of the results; ``benchmarks/pages.py`` puts it there."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import interval, table

KIND, TRUTH = "macro_f1", "macro_f1_truth"
NOBODY, ANSWERS = "nobody", ("global", "own way", "class mix", "partway")


def page(results: dict[str, Any]) -> str:
    """Return the part of the page that results give."""
    lines = [f"`{results['command']}`", "", *_done(results), ""]
    for lesson, rows in results["lessons"].items():
        lines += [f"### {lesson[0].upper()}{lesson[1:]}", ""]
        lines += ["Macro-F1 over the classes in truth or prediction (in truth); then of the worst tenth.", ""]
        lines += [*table(("method", *ANSWERS), _methods(rows)), ""]
        lines += [*table(("without a method", KIND_NAME, "worst tenth"), _nobody(rows)), ""]
        lines += ["Differences in macro-F1 with 95% intervals over people and seeds:", ""]
        columns = ("method", "answer", "less", "difference", "classes in truth", "worst tenth")
        lines += [*table(columns, _differences(results["differences"][lesson])), ""]
    return "\n".join(lines).rstrip()


KIND_NAME = "macro-F1 (classes in truth)"


def _done(results: dict[str, Any]) -> Iterator[str]:
    """Say which runs are counted, for figures of a part are not those of the whole."""
    yield f"{results['passes']:g} passes over the training beats. Counted are:"
    yield ""
    for name, done in results["done"].items():
        if name != NOBODY:
            counted = _many(done["folds"], "fold"), _many(done["seeds"], "seed")
            yield f"- `{name}`: {done['patients']} records, {', '.join(counted)}"


def _many(numbers: list[int], what: str) -> str:
    return f"{what}{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"


def _cell(row: dict[str, Any]) -> str:
    return f"{row[KIND]['mean']:.3f} ({row[TRUTH]['mean']:.3f}); {row[KIND]['worst_tenth']:.3f}"


def _methods(rows: list[dict[str, Any]]) -> Iterator[list[str]]:
    methods = dict.fromkeys(row["method"] for row in rows if row["method"] != NOBODY)
    for name in methods:
        cells = {row["answer"]: _cell(row) for row in rows if row["method"] == name}
        yield [f"`{name}`", *(cells.get(answer, "") for answer in ANSWERS)]


def _nobody(rows: list[dict[str, Any]]) -> Iterator[tuple[str, ...]]:
    for row in rows:
        if row["method"] == NOBODY:
            score = f"{row[KIND]['mean']:.3f} ({row[TRUTH]['mean']:.3f})"
            yield row["answer"], score, f"{row[KIND]['worst_tenth']:.3f}"


def _differences(rows: list[dict[str, Any]]) -> Iterator[tuple[str, ...]]:
    for row in rows:
        less = row["less"] + (f", {row['of']}" if "of" in row else "")
        method = "" if row["method"] == NOBODY else f"`{row['method']}`"
        yield method, row["answer"], less, *(interval(row[key]) for key in (KIND, TRUTH, "worst_tenth"))
