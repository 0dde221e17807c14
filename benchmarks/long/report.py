"""What the report of a day costs: processor time, the page's size, how soon an edit is drawn, printed sheets.

    python benchmarks/long/report.py --source MITDB --work DIR [--edits 30]

The day is that of ``run.py`` (WFDB format 16), labelled by the model in the package. The page is made in a process of
its own, with and without full disclosure: seconds, processor time of all its threads (imports included) and megabytes.
Then the page is opened in headless Chromium (``tests/browser/edit_times.mjs``: node and its packages, ``make browser``)
and edited by turns with a rejection, V, N, a removal, undo and acceptance: milliseconds by ``performance.now`` from the
key to the end of the next frame, figures and tables included. Other work on the machine (``load``, the mean number of
waiting processes) makes all of these larger. Prints and writes ``report.json`` (or ``--results``).
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import ROOT, benchmark, option, save
from records import pieces, write_wfdb

from ecgfed.tasks.pdf import BROWSERS

SCRIPT = ROOT / "tests" / "browser" / "edit_times.mjs"
_BUILD = """
import time; begun = time.perf_counter()
import json, ecgfed
ecgfed.report({record!r}, out={out!r}, overwrite=True, full_disclosure={full!r}, pdf={pdf!r})
print(json.dumps([time.perf_counter() - begun, time.process_time()]))
"""


def built(record: Path, page: Path, *, full: bool, pdf: bool) -> dict[str, Any]:
    """Make a page in a process of its own; return what it costs."""
    program = _BUILD.format(record=str(record), out=str(page), full=full, pdf=pdf)
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, check=True)
    wall_s, cpu_s = json.loads(done.stdout.splitlines()[-1])
    row: dict[str, Any] = {"seconds": round(wall_s, 1), "cpu_s": round(cpu_s, 1), "load": load()}
    row["page_mb"] = round(page.stat().st_size / 1e6, 2)
    if pdf:
        row["sheets"] = len(re.findall(rb"/Type\s*/Page\b", page.with_suffix(".pdf").read_bytes()))
        row["pdf_mb"] = round(page.with_suffix(".pdf").stat().st_size / 1e6, 2)
    return row


def load() -> float:
    """Return how many processes wanted a core during the last minute."""
    return round(os.getloadavg()[0], 1)


def edited(page: Path, work: Path, edits: int) -> dict[str, Any]:
    """Edit a page in Chromium; return the milliseconds of each edit and how many beats the page has."""
    chromium = next(path for name in BROWSERS if (path := shutil.which(name)))
    given = work / "given.json"
    given.write_text(json.dumps({"page": str(page.resolve()), "edits": edits}))
    done = subprocess.run(["node", str(SCRIPT), chromium, str(given)], capture_output=True, text=True, check=True)
    told = json.loads(done.stdout)
    drawn, script = ([round(ms, 1) for ms in told[name]] for name in ("drawn", "script"))
    summary = {
        "drawn_median_ms": round(median(drawn), 1),
        "drawn_worst_ms": max(drawn),
        "script_median_ms": round(median(script), 1),
    }
    return {
        "edits": edits,
        **summary,
        "load": load(),
        "keys": "".join(key[0] for key in told["keys"]),
        "drawn_ms": drawn,
    }


def main(given: argparse.Namespace) -> None:
    work: Path = given.work / "report"
    record = write_wfdb(work / "day", pieces(given.source), 24)
    results: dict[str, Any] = {"hours": 24, "fs_hz": 250, "leads": 2, "cores": os.cpu_count()}
    results["page alone"] = built(record, work / "page.html", full=False, pdf=False)
    results["printed"] = built(record, work / "printed.html", full=False, pdf=True)
    results["full disclosure, printed"] = built(record, work / "full.html", full=True, pdf=True)
    results["edits"] = edited(work / "page.html", work, given.edits)
    results["edits, full disclosure"] = edited(work / "full.html", work, given.edits)
    print(json.dumps(results, indent=1))
    save(given, results)


if __name__ == "__main__":
    benchmark(main, option("--edits", type=int, default=30, help="edits that are timed"), results="report.json")
