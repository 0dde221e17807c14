"""Two thousand spoiled artefacts, a command over each: none harms (``make fuzz`` runs more)."""

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_no_spoiled_artefact_harms(tmp_path: Path) -> None:
    table = tmp_path / "fuzz.json"
    arguments = [sys.executable, "-m", "fuzz", "--cases", "2000", "--seed", "0", "--json", str(table)]
    ended = subprocess.run(arguments, cwd=Path(__file__).parents[1], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout[-20000:] + ended.stderr[-4000:]
    assert table.is_file()
