"""docs/own-parts.md: its snippets run as they stand, in their order, and what they make is right."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parent.parent / "docs" / "own-parts.md"


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the snippets print, run as one program."""
    snippets = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), flags=re.MULTILINE | re.DOTALL)
    folder = tmp_path_factory.mktemp("own-parts")
    (folder / "page.py").write_text("\n".join(snippets))
    done = subprocess.run([sys.executable, "page.py"], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_page_runs(printed: str) -> None:
    assert "Traceback" not in printed
