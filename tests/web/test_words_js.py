"""``countOf`` of the pages writes what ``count_of`` writes in Python."""

import json
import subprocess
from pathlib import Path

import pytest
from node_runtime import node_path

import ecgfed.web
from ecgfed.base.text import count_of

PAPER = Path(ecgfed.web.__file__).parent / "paper.js"
COUNTS = (0, 1, 2, 11, 1234, 105_045)
pytestmark = pytest.mark.browser


def test_a_number_of_things_as_in_python() -> None:
    script = f"const {{countOf}} = require({json.dumps(str(PAPER))});"
    script += f"console.log(JSON.stringify({json.dumps(COUNTS)}.map((many) => countOf(many, 'beat'))));"
    done = subprocess.run([node_path(), "-e", script], capture_output=True, text=True, timeout=60, check=True)
    assert json.loads(done.stdout) == [count_of(many, "beat") for many in COUNTS]
