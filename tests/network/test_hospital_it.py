"""The page for hospital IT, every command of it in order in one shell, as it is pasted."""

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
#: Most commands from nothing to a model at each of three hospitals with real recordings.
MOST_COMMANDS = 12


def blocks(language: str) -> list[str]:
    """Return the page's blocks of a language: ``sh`` is the tutorial, ``bash`` the published databases."""
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE.read_text(), flags=re.MULTILINE | re.DOTALL)


def paste(commands: list[str], folder: Path, seconds: float) -> str:
    """Run commands in one shell, which stops at the first that fails; returns what they printed."""
    from ecgfed.network.launch import free_port

    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    script = re.sub(r"(ecgfed federate server \S+)(?!.*--port)", r"\1 --port 9092", "\n".join(commands))
    script = "set -e\n" + script.replace("9092", str(free_port()))  # 9092 is the default, perhaps in use here
    out = folder / "said.txt"  # a pipe would stay open as long as what was left behind lives
    with out.open("w") as said:
        shell = subprocess.Popen(
            ["bash", "-c", script],
            cwd=folder,
            env=environment,
            stdout=said,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code = shell.wait(timeout=seconds)
        finally:
            _end(shell.pid)
    text = out.read_text()
    assert code == 0, text[-3000:]
    return text


@pytest.mark.slow
def test_the_tutorial_runs_from_its_first_command_to_its_last(tmp_path: Path) -> None:
    tutorial = blocks("sh")
    assert len(tutorial) >= 8
    text = paste(tutorial, tmp_path, 540)
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


def test_three_databases_take_twelve_commands() -> None:
    commands = [line for block in blocks("bash") for line in block.splitlines()]
    assert len(commands) == MOST_COMMANDS
    assert not any("&&" in line or line.startswith(("for ", "#")) for line in commands), "several commands in one line"


@pytest.mark.slow
def test_three_databases_are_federated_as_the_page_says(mitdb: Path, svdb: Path, qtdb: Path, tmp_path: Path) -> None:
    """All but its first block, which installs what runs this test."""
    data = tmp_path / "data"
    data.mkdir()
    for name, source in (("mitdb", mitdb), ("svdb", svdb), ("qtdb", qtdb)):
        (data / name).symlink_to(source)
    paste(blocks("bash")[1:], tmp_path, 3000)
    result = json.loads((tmp_path / "federation" / "result.json").read_text())
    assert [site["site"] for site in result["sites"]] == ["mitbih", "qtdb", "svdb"]
    assert result["rounds"] == 5
    for name, title in (("mitbih", "Arrhythmia"), ("svdb", "Supraventricular"), ("qtdb", "QT Database")):
        made = json.loads((tmp_path / name / "bundle" / "manifest.json").read_text())["federation"]
        (own,) = (site for site in made["sites"] if site["name"] == made["site"])
        assert any(title in database for database in own["databases"]), own


def _end(group: int) -> None:
    """End what the shell left behind, if it was cut short."""
    import contextlib
    import signal

    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)
