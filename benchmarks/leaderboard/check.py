"""Check entries of the leaderboard: all, or the files that are named. A bad one is one line, exit code 2.

python benchmarks/leaderboard/check.py [FILE ...]
"""

import argparse
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import benchmark, option
from entries import ENTRIES, read_entry
from ours import our_entries

from ecgfed.base.errors import RunError


def checked(files: list[Path]) -> list[dict[str, Any]]:
    """Return the entries in some files.

    Raises:
        RunError: as ``read_entry``; an entry of a results file that ``ours.py`` does not write.
    """
    entries, ours = [], our_entries()
    for file in files:
        entry = read_entry(file)
        if entry["scored_from"]["kind"] == "results" and ours.get(file.resolve()) != entry:
            raise RunError(file, "scored_from.kind: 'results'", "runs or annotations", "write the entry with entry.py")
        entries.append(entry)
    return entries


def main(given: argparse.Namespace) -> None:
    entries = checked(given.files or sorted(ENTRIES.rglob("*.json")))
    print(f"{len(entries)} entries, no fault")


if __name__ == "__main__":
    benchmark(main, option("files", nargs="*", type=Path, metavar="FILE"), standard=False)
