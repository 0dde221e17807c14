"""kill -9 at random moments, then --resume: the end is the end of a run that was never killed."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "faults" / "kill.py"
KILLS = 20


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fedavg", "grp-fed"])
def test_a_killed_run_resumed_ends_bit_equal(method: str) -> None:
    done = subprocess.run(
        [sys.executable, SCRIPT, "--kills", str(KILLS), "--method", method], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done
    counts = json.loads(done.stdout)
    assert counts["kills"] == KILLS
    assert counts["ends"] == counts["bit_equal"] >= 1
    assert counts["killed"]["while a file was written"] == 7
    assert counts["found_after_the_kill"]["files that no index names"] >= 1
