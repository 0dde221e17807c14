"""MISRA C:2012 as cppcheck's addon checks it: every rule that it reports is a listed deviation, with its reason."""

import re
import subprocess
from pathlib import Path

import pytest
from mcu_sources import MONITOR, SOURCES, tool

from ecgfed.exports.mcu.writer import source

pytest_plugins = ("mcu_fixtures",)
#: Arrays of thousands of numbers, on which the addon takes hours.
_ARRAY = re.compile(r"(static const \w+ \w+\[\d+\] = )\{\n[^}]*\}")


def listed() -> dict[str, tuple[str, str]]:
    """Return the deviations of ``MISRA.md``: rule -> category and reason."""
    rows = [line.strip("| ").split(" | ") for line in source("MISRA.md").splitlines() if re.match(r"\| \d", line)]
    return {rule: (category, reason) for rule, category, _, reason in rows}


def test_every_deviation_has_a_category_and_a_reason() -> None:
    assert len(listed()) == 20
    for rule, (category, reason) in listed().items():
        assert category in {"required", "advisory"}, rule  # a mandatory rule has no deviations
        assert len(reason) > 20, rule


@pytest.mark.mcu
def test_only_listed_rules_are_deviated_from(sources: Path, tmp_path: Path) -> None:
    for file in sources.iterdir():
        if file.suffix in {".c", ".h"}:
            (tmp_path / file.name).write_text(_ARRAY.sub(r"\1{0}", file.read_text("utf-8")), "utf-8")
    program = tool("cppcheck")
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.split()[-1]
    options = ["--addon=misra", "--std=c99", "--quiet", "--enable=warning", "--template={id} {file}:{line} {message}"]
    command = [program, *options, *SOURCES, *MONITOR]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    reports = done.stderr.splitlines()
    if any("misra.py" in line and "No such file" in line for line in reports):
        pytest.skip("cppcheck has no MISRA addon here")
    rules = {match[1] for line in reports if (match := re.match(r"misra-c20\d\d-(\d+\.\d+) ", line))}
    others = [line for line in reports if not line.startswith("misra-")]
    assert not others
    assert rules <= set(listed())
    if version == "2.10":  # other versions know more rules, or fewer
        assert rules == set(listed())
