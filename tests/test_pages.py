"""Each figure of the README, the docs and the benchmarks' pages that comes from a results file is the one it has."""

import re
from pathlib import Path
from types import ModuleType

import pytest
from loaded_scripts import BENCHMARKS, ROOT, load_script

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted(BENCHMARKS.rglob("*.md"))]
PART = re.compile(r"<!-- written by \S+ -->.*?<!-- end of what \S+ writes -->", re.DOTALL)
#: What a page says beside a table whose figures no results file has.
NOT_IN_A_FILE = re.compile(
    r"printed,\s+not\s+kept\s+in\s+a\s+file|printed\s+by\s+the\s+export,\s+not\s+kept\s+in\s+a\s+file"
    r"|no\s+results\s+file\s+was\s+kept|the\s+bounds\s+were\s+chosen\s+on\s+these\s+records|torch\s+2\.13\.0,\s+batch\s+64"
    r"|accepts\s+these\s+differences",  # tolerances in the code
    re.IGNORECASE,
)
FIGURE = re.compile(r"[\d.,;/()%+e\sxto-]*(?:\d?\.\d|\d%)[\d.,;/()%+e\sxto-]*")


@pytest.fixture(scope="module")
def pages() -> ModuleType:
    return load_script(BENCHMARKS / "pages.py")


def test_the_script_changes_nothing(pages: ModuleType) -> None:
    changed = [page for page, text in pages.written().items() if (ROOT / page).read_text() != text]
    assert not changed, "run python benchmarks/pages.py"


def test_figures_are_put_into_their_sentences(pages: ModuleType) -> None:
    toy = type(pages.FIGURES[0])
    text = "F1 of {2}% in {0} records,\n{1%} missed, less {e}, {3}"
    found = toy("a.md", text, "a.json", (("f1",), ("rows", {"n": 1}, "records"), ("missed",), ("less",), ("right",)))
    results = {
        "f1": 98.766,
        "rows": [{"n": 2}, {"n": 1, "records": 1234}],
        "missed": 0.0615,
        "less": 1.26e-5,
        "right": 0.5,
    }
    page = "x F1 of 9.00%\nin 7 records, 5.0% missed,\nless 3.0e-4, .500 y"
    assert found.fill(page, results) == "x F1 of 98.77%\nin 1,234 records, 6.2% missed,\nless 1.3e-5, .500 y"
    with pytest.raises(AssertionError, match="0 times"):
        found.fill("nothing", results)
    part = "a\n<!-- written by x -->\nold\n<!-- end of what x writes -->\nb"
    assert pages.between(part, "x", "new") == part.replace("old", "new")
    with pytest.raises(ValueError, match="0 parts"):
        pages.between(part, "y", "new")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_row_of_a_table_of_figures_is_forgotten(pages: ModuleType, page: Path) -> None:
    """Each is written by a script, or its page says beside it that no file has it."""
    name, text = str(page.relative_to(ROOT)), page.read_text()
    if name in {one[0] for one in pages.WHOLE}:
        return
    spans = [one.find(text).span() for one in pages.FIGURES if one.page == name]
    spans += [part.span() for part in PART.finditer(text)]
    heads = [0, *(head.start() for head in re.finditer(r"^#", text, re.MULTILINE)), len(text)]
    for row in re.finditer(r"^\|.*$", text, re.MULTILINE):
        middle = sum(row.span()) // 2
        if any(FIGURE.fullmatch(cell.strip()) for cell in row[0].strip("|").split("|")):
            section = text[max(at for at in heads if at <= middle) : min(at for at in heads if at > middle)]
            written = any(start <= middle < stop for start, stop in spans)
            assert written or NOT_IN_A_FILE.search(section), f"{name}: nothing writes {row[0]}"
