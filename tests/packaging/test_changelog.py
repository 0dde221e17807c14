"""The changelog: one fragment a change, which towncrier puts together; and one version everywhere."""

import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

import ecgfed

ROOT = Path(__file__).parent.parent.parent
TOLD = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["towncrier"]
KINDS = [kind["directory"] for kind in TOLD["type"]]
FOLDER = ROOT / TOLD["directory"]
FRAGMENTS = sorted(path for path in FOLDER.iterdir() if path.name not in TOLD["ignore"])
NAME = re.compile(rf"([a-z0-9]+(-[a-z0-9]+)*)\.({'|'.join(KINDS)})(\.\d+)?\.md")


def fault(name: str, text: str) -> str:
    """Say what is wrong with a fragment, or ``""``."""
    if not NAME.fullmatch(name):
        return f"{name} is not WHAT.KIND.md with a KIND of {', '.join(KINDS)}"
    if text != text.strip() + "\n":
        return "does not end with one line end"
    said = " ".join(text.split())
    if not re.match(r"[A-Z`]", said) or not re.search(r"[.)]$", said):
        return "is no sentence: it begins with a capital or a command and ends with a full stop"
    if len(said.split()) < 4 or len(re.findall(r"[.!?](?= |$)", re.sub(r"`[^`]*`|\([^)]*\)", "", said))) > 3:
        return "is not one to three sentences"
    links = re.findall(r"\]\(([^)#]+)", said)
    gone = [link for link in links if "://" not in link and not (ROOT / link).exists()]
    return f"leads to {gone[0]}, which is not there" if gone else ""


def draft(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "towncrier", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def copy_of(folder: Path) -> Path:
    """Copy what towncrier needs."""
    for name in ("pyproject.toml", "CHANGELOG.md"):
        shutil.copyfile(ROOT / name, folder / name)
    shutil.copytree(FOLDER, folder / TOLD["directory"])
    return folder


@pytest.mark.parametrize("path", FRAGMENTS, ids=lambda path: path.name)
def test_a_fragment_is_a_sentence_of_a_known_kind(path: Path) -> None:
    assert fault(path.name, path.read_text("utf-8")) == ""


def test_what_is_there_now_can_be_put_together(tmp_path: Path) -> None:
    done = draft(copy_of(tmp_path), "build", "--draft", "--version", "9.8.7", "--date", "2030-01-02")
    assert done.returncode == 0, done.stderr
    assert "## 9.8.7 - 2030-01-02" in done.stdout
    for path in FRAGMENTS:
        assert path.read_text("utf-8").split("\n")[0] in done.stdout


def test_the_kinds_are_explained() -> None:
    told = (FOLDER / "README.md").read_text("utf-8")
    assert re.findall(r"^\| `(\w+)` \|", told, re.MULTILINE) == KINDS
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8").replace("`", "")
    assert ", ".join(KINDS[:-1]) + f" or {KINDS[-1]}" in text


def test_one_version_is_named_everywhere() -> None:
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    _, _, versions = text.partition(TOLD["start_string"])
    newest = re.match(r"\s*## (\d+\.\d+\.\d+) - (\d{4}-\d\d-\d\d)\n", versions)
    assert newest, "the newest version stands first, with its date"
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert newest[1] == ecgfed.__version__ == cited["version"]
    assert newest[1] == tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    assert newest[1] == json.loads((ROOT / "ecgfed/exports/js/package.json").read_text("utf-8"))["version"]
    assert newest[2] == str(cited["date-released"])
    assert "Unreleased" not in text
