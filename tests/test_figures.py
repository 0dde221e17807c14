"""Each figure of the README, the docs and the benchmarks' pages that comes from a results file is the one it has."""

import copy
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from figure_ways import results_of
from figures import Figures, flat
from figures_of_pages import ELSEWHERE, FIGURES

ROOT = Path(__file__).parent.parent
#: docs/results.md and the clinical page are written from the files as a whole (test_results_page.py,
#: test_clinical_benchmark.py).
PAGES = [
    page
    for page in (
        ROOT / "README.md",
        *sorted((ROOT / "docs").rglob("*.md")),
        *sorted((ROOT / "benchmarks").rglob("*.md")),
    )
    if page.name != "results.md" and page.parent.name != "clinical"
]
#: A part that a script writes from a results file as a whole; its own test compares it (test_newcomers_benchmark.py).
WRITTEN = re.compile(r"<!-- written by \S+ -->.*?<!-- end of what \S+ writes -->", re.DOTALL)
#: What a row of a results file is chosen by.
CHOSEN_BY = ("seed", "clients", "local_steps", "epochs")
SOURCES = sorted({(one.page, one.source) for one in FIGURES})


@cache
def text_of(page: str) -> str:
    return (ROOT / page).read_text()


def of(page: str, source: str) -> list[Figures]:
    return [one for one in FIGURES if (one.page, one.source) == (page, source)]


@pytest.mark.parametrize(("page", "source"), SOURCES)
def test_a_page_has_the_figures_of_its_results_file(page: str, source: str) -> None:
    for one in of(page, source):
        one.check(text_of(page), results_of(source))


@pytest.mark.parametrize(("page", "source"), SOURCES)
def test_a_figure_that_changes_on_the_page_alone_is_found(page: str, source: str) -> None:
    """Every single one, by five units of its last digit; a page without it, too."""
    text = flat(text_of(page))
    for one in of(page, source):
        found = one.find(text)
        for place in range(1, len(one.ways) + 1):
            at = found.end(place) - (0 if found[place][-1].isdigit() else 1) - 1
            if "e-" in found[place]:
                at = found.start(place) + found[place].index("e-") - 1
            changed = text[:at] + str((int(text[at]) + 5) % 10) + text[at + 1 :]
            with pytest.raises(AssertionError):
                one.check(changed, results_of(source))
        with pytest.raises(AssertionError, match="0 times"):
            one.check(text[: found.start()] + text[found.end() :], results_of(source))


@pytest.mark.parametrize(("page", "source"), SOURCES)
def test_figures_that_change_in_the_results_file_alone_are_found(page: str, source: str) -> None:
    changed = raised(copy.deepcopy(results_of(source)))
    for one in of(page, source):
        with pytest.raises(AssertionError):
            one.check(text_of(page), changed)


def raised(results: Any, key: str = "") -> Any:
    """Return a results file whose every number is a quarter and 7 more, the words with it; record 101 is missing."""
    if isinstance(results, dict):
        return {name: raised(value, name) for name, value in results.items() if name != "101"}
    if isinstance(results, list):
        return [raised(value, key) for value in results]
    if isinstance(results, str) and key == "reason":
        return re.sub(r"\d+", lambda found: str(int(found[0]) + 7), results)
    if isinstance(results, bool | str | None) or key in CHOSEN_BY:
        return results
    return 1.25 * results + 7


def rows_with_figures(page: str) -> Iterator[tuple[str, str]]:
    """Yield (header, row) of a page's tables, where a cell of the row is figures with decimals or percent alone."""
    for table in re.findall(r"(?:^\|.*\n)+", page + "\n", flags=re.MULTILINE):
        header, _, *rows = table.splitlines()
        for row in rows:
            cells = [cell.strip() for cell in row.strip("|").split("|")]
            if any(re.fullmatch(r"[\d.,;/()%+e\sxto-]*(?:\d?\.\d|\d%)[\d.,;/()%+e\sxto-]*", cell) for cell in cells):
                yield header, row


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_row_of_a_table_of_figures_is_forgotten(page: Path) -> None:
    """Each is compared with a results file, or stands in ``ELSEWHERE`` and its page says so."""
    name, by_hand = str(page.relative_to(ROOT)), WRITTEN.sub("", page.read_text())
    text = flat(by_hand)
    compared = [one.find(text).span() for one in FIGURES if one.page == name]
    elsewhere = tuple(begin for where, begin, _ in ELSEWHERE if where == name)
    after = 0
    for header, row in rows_with_figures(by_hand):
        after = text.index(flat(row), after)
        if not header.startswith(elsewhere or ("no table",)):
            middle = after + len(flat(row)) // 2
            assert any(start <= middle < stop for start, stop in compared), f"{name}: nothing compares {row}"


def test_pages_say_where_figures_without_a_results_file_are_from() -> None:
    for page, header, said in ELSEWHERE:
        assert re.search(rf"^{re.escape(header)}", text_of(page), flags=re.MULTILINE), f"{page} has no table {header}"
        assert said in flat(text_of(page)), f"{page} does not say: {said}"
