"""The tutorial for hospital IT, every command of it in order in one shell, as it is pasted."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from needs import flower

flower()

PAGE = Path(__file__).parents[2] / "docs" / "hospital-it.md"


def script(port: int) -> str:
    """All shell blocks of the page, which stop at the first command that fails."""
    found = re.findall(r"^```sh\n(.*?)^```", PAGE.read_text(), flags=re.MULTILINE | re.DOTALL)
    assert len(found) >= 8
    return "set -e\n" + "\n".join(found).replace("9092", str(port))


@pytest.mark.slow
def test_the_tutorial_runs_from_its_first_command_to_its_last(tmp_path: Path) -> None:
    from ecgfed.network.launch import free_port

    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    out = tmp_path / "said.txt"  # a pipe would stay open as long as what was left behind lives
    with out.open("w") as said:
        shell = subprocess.Popen(
            ["bash", "-c", script(free_port())],
            cwd=tmp_path,
            env=environment,
            stdout=said,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code = shell.wait(timeout=540)
        finally:
            _end(shell.pid)
    text = out.read_text()
    assert code == 0, text[-3000:]
    assert re.search(r"^-rw-------.* north/key$", text, flags=re.MULTILINE), "others can read the private key"
    for place in ("north", "south", "west"):
        assert list((tmp_path / f"{place}-predictions").glob("*.csv")), place
    assert list((tmp_path / "north-predictions-2").glob("*.csv"))
    assert not (tmp_path / "federation").exists()
    assert not (tmp_path / "west").exists()
    run = json.loads((tmp_path / "federation-2" / "run" / "run.json").read_text())
    assert len(run["clients"]) == 4, "the new run knows the patients of two sites"
    lines = (tmp_path / "federation-2" / "run" / "history.jsonl").read_text().splitlines()
    assert [json.loads(line)["round"] for line in lines] == [1, 2]
    made = json.loads((tmp_path / "north" / "bundle" / "manifest.json").read_text())
    assert set(made["patients"]) == {"demo01", "demo02"}


def _end(group: int) -> None:
    """End what the shell left behind, if it was cut short."""
    import contextlib
    import signal

    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)
