"""Writes every figure of the README, the docs and the benchmarks' pages that a results file has.

    python benchmarks/pages.py

Whole pages and the parts between ``written by`` marks are made anew; single figures are put into their sentences and
rows (``figures``). A test runs it and expects that nothing changes.
"""

import re
import sys
from collections import defaultdict
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
from figures.of_docs import FIGURES
from figures.ways import results_of
from loaded_scripts import BENCHMARKS, ROOT, load_script

#: Pages that a script writes whole: page, script, function of the results file.
WHOLE = (
    ("docs/results.md", "results_page.py", "page", None),
    ("docs/reproduce.md", "reproduce/page.py", "page", None),
    ("benchmarks/clinical/README.md", "clinical/page.py", "page", "clinical/results.json"),
    ("benchmarks/delineation/README.md", "delineation/page.py", "page", "delineation/results.json"),
    ("benchmarks/hospitals/README.md", "hospitals/page.py", "page", "hospitals/results.json"),
    ("benchmarks/pacing/README.md", "pacing/page.py", "page", "pacing/results.json"),
    ("benchmarks/rhythm/README.md", "rhythm/page.py", "page", "rhythm/results.json"),
)
#: Parts between marks: page, name of the mark, script, function, results file or none, the key that the function takes.
PARTS = (
    (
        "docs/federation-tools.md", "benchmarks/beside/page.py",
        "beside/page.py", "measured", "beside/results.json", None,
    ),
    ("benchmarks/newcomers/README.md", "page.py", "newcomers/page.py", "page", "newcomers/results.json", None),
    ("benchmarks/device/README.md", "costs_table", "device/run.py", "costs_table", "device/results.json", "forms"),
    ("benchmarks/device/README.md", "all_table", "device/run.py", "all_table", "device/results.json", None),
    (
        "benchmarks/device/README.md", "benchmarks/device/parity.py",
        "device/parity.py", "table_of", "device/parity.json", None,
    ),
    (
        "docs/labels.md", "benchmarks/clinical/packaged.py",
        "clinical/packaged.py", "table_of", "clinical/packaged.json", None,
    ),
    ("benchmarks/width/README.md", "benchmarks/width/run.py", "width/run.py", "rows_of", "width/results.json", "rows"),
    *(
        (page, "benchmarks/drift/run.py", "drift/run.py", "table", "drift/results.json", "rows")
        for page in ("benchmarks/drift/README.md", "docs/stream.md")
    ),
    (
        "benchmarks/stream/README.md", "benchmarks/stream/run.py",
        "stream/run.py", "rows_of", "stream/results.json", "records",
    ),
    ("docs/stream.md", "benchmarks/stream/early.py", "stream/early.py", "page", "stream/early.json", None),
    ("benchmarks/throughput/README.md", "gpu.py", "throughput/gpu.py", "tables", "throughput/gpu.json", None),
    *(
        ("docs/privacy.md", f"benchmarks/{script}", script, "page_of", source, None)
        for script, source in (
            ("privacy/dp.py", "privacy/dp.json"),
            ("privacy/attacks.py", "privacy/attacks.json"),
            ("robust/run.py", "robust/results.json"),
        )
    ),
    ("docs/leaderboard.md", "benchmarks/leaderboard/page.py", "leaderboard/page.py", "tables", None, None),
    *(
        (page, f"page.py:{part}", "network/page.py", part, f"network/{source}.json", None)
        for page, part, source in (
            ("docs/hospitals.md", "loopback", "cost"),
            ("benchmarks/network/README.md", "transport", "cost"),
            ("benchmarks/network/README.md", "faults", "faults"),
            ("benchmarks/network/README.md", "mitbih", "mitbih"),
            ("benchmarks/network/README.md", "scale", "cost"),
        )
    ),
)  # fmt: skip


@cache
def function(script: str, name: str) -> Callable[..., str]:
    """Return a function of a benchmark's script, as text."""
    made = getattr(load_script(BENCHMARKS / script), name)

    def text(*given: Any) -> str:
        lines = made(*given)
        return lines if isinstance(lines, str) else "\n".join(lines)

    return text


def between(page: str, name: str, part: str) -> str:
    """Return a page with what stands between the marks of a name exchanged; raises ValueError where it has none."""
    begin, end = f"<!-- written by {name} -->\n", f"\n<!-- end of what {name} writes -->"
    pattern = re.compile(rf"{re.escape(begin)}(\n?).*?(\n?){re.escape(end)}", re.DOTALL)
    made, times = pattern.subn(lambda match: f"{begin}{match[1]}{part.strip()}{match[2]}{end}", page)
    if times != 1:
        raise ValueError(f"{times} parts written by {name}, not one")
    return made


def written() -> dict[str, str]:
    """Return every page that has figures of results files, by its path, as those files have it; and our entries."""
    texts: dict[str, str] = load_script(BENCHMARKS / "leaderboard" / "ours.py").texts()
    for page, script, name, source in WHOLE:
        texts[page] = function(script, name)(*([results_of(source)] if source else []))
    read = defaultdict(list)
    for figures in FIGURES:
        read[figures.page].append(figures)
    for page in dict.fromkeys([*(part[0] for part in PARTS), *read]):
        text = texts.get(page) or (ROOT / page).read_text("utf-8")
        for _, mark, script, name, source, key in (part for part in PARTS if part[0] == page):
            results = results_of(source) if source else None
            given = [] if results is None else [results[key] if key else results]
            text = between(text, mark, function(script, name)(*given))
        for figures in read[page]:
            text = figures.fill(text, results_of(figures.source))
        texts[page] = text
    return texts


def main() -> None:
    for page, text in written().items():
        file = ROOT / page
        if not file.is_file() or file.read_text("utf-8") != text:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, "utf-8")
            print(f"{page} is written anew")


if __name__ == "__main__":
    main()
