"""The notebooks of the docs: each runs from its first cell to its last, and keeps outputs of its own code alone."""

import json
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from loaded_scripts import load_script

import ecgfed

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "docs" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
by_name = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


@pytest.fixture(scope="module")
def runner() -> ModuleType:
    """``docs/notebooks/run.py``, which is in no package."""
    return load_script(FOLDER / "run.py")


def cells(path: Path, kind: str) -> list[dict[str, Any]]:
    return [cell for cell in json.loads(path.read_text("utf-8"))["cells"] if cell["cell_type"] == kind]


def kinds(outputs: list[list[dict[str, Any]]]) -> list[list[list[str]]]:
    """Of each cell's outputs what they are; their numbers may differ from one machine to the next."""
    return [[sorted(one.get("data", {one["output_type"]: ""})) for one in given] for given in outputs]


@pytest.mark.slow
@by_name
def test_a_notebook_runs_and_shows_what_is_kept(path: Path, tmp_path: Path) -> None:
    """Its own assertions hold, and each cell gives the kinds of outputs that are kept with it."""
    command = [sys.executable, str(FOLDER / "run.py"), path.stem, "--here"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=580, check=False)
    assert done.returncode == 0, done.stderr
    assert kinds(json.loads(done.stdout)) == kinds([cell["outputs"] for cell in cells(path, "code")])


def test_the_first_notebook_runs(tmp_path: Path) -> None:
    """Without training it takes seconds, so it is run with the fast tests too."""
    test_a_notebook_runs_and_shows_what_is_kept(FOLDER / "look-at-a-recording.ipynb", tmp_path)


@by_name
def test_outputs_are_of_this_code_and_small(path: Path, runner: ModuleType) -> None:
    notebook = runner.read(path)
    kept = notebook["metadata"]["ecgfed"]["outputs_of"]
    assert kept == runner.code_digest(notebook), f"python docs/notebooks/run.py --write {path.stem}"
    assert path.stat().st_size < 400_000
    assert not re.search(r"/(?:home|tmp|root|work)/", path.read_text("utf-8")), "a path of somebody's machine"


@by_name
def test_a_notebook_uses_the_front_door_alone(path: Path) -> None:
    """No module of ours but ``ecgfed`` itself, and of it only what it offers."""
    code = "\n".join("".join(cell["source"]) for cell in cells(path, "code"))
    assert not re.search(r"(?:from|import)\s+ecgfed\.", code)
    used = set(re.findall(r"\becgfed\.(\w+)", code))
    assert used
    assert used <= set(ecgfed.__all__)
    assert not re.search(r"\._\w", code), "something private"


@by_name
def test_links_lead_somewhere_and_pictures_are_described(path: Path) -> None:
    text = "\n".join("".join(cell["source"]) for cell in cells(path, "markdown"))
    targets = re.findall(r"\]\(([^)#]+)[^)]*\)", text)
    assert targets
    for target in targets:
        assert (path.parent / target).exists(), target
    assert "MIT-BIH" in text
    assert "of your own" in text
    for cell in cells(path, "code"):
        pictures = [one for one in cell["outputs"] if any("image" in kind for kind in one.get("data", ()))]
        assert len(pictures) <= 1
        assert bool(pictures) == bool(cell["metadata"].get("alt")), "".join(cell["source"])


def test_a_cell_that_fails_fails_the_runner(runner: ModuleType) -> None:
    cell = {"cell_type": "code", "source": ["assert 1 + 1 == 3\n"], "metadata": {}, "outputs": []}
    notebook = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    with pytest.raises(AssertionError):
        runner.run_cells(notebook)


def test_the_runner_shows_as_jupyter_does(runner: ModuleType) -> None:
    """What is printed, then what was displayed, then the last expression, unless a semicolon ends it."""
    sources = ["print('a')\nx = 2\ndisplay(3)\nx", "x + 1;", "None", "x = 5"]
    code = [{"cell_type": "code", "source": [one], "metadata": {}, "outputs": []} for one in sources]
    first, *others = runner.run_cells({"cells": code, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
    assert [one["output_type"] for one in first] == ["stream", "display_data", "execute_result"]
    assert [one.get("text", one.get("data", {}).get("text/plain")) for one in first] == [["a\n"], ["3"], ["2"]]
    assert others == [[], [], []]
