"""Habits of a command line: help of every command, examples that parse, did you mean, completion."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer
from ecgfed_cli.complete import detector_names, method_names
from ecgfed_cli.main import app
from ecgfed_cli.synopses import SYNOPSES
from support import ECGFED, Command, assert_refused

ROOT = Path(__file__).parent.parent.parent
GROUP: Any = typer.main.get_command(app)


def leaves(group: Any, path: tuple[str, ...] = ()) -> dict[str, Any]:
    """Every command that does something, by its full name."""
    found = {}
    for name, command in group.commands.items():
        inside = getattr(command, "commands", None)
        found |= leaves(command, (*path, name)) if inside else {" ".join((*path, name)): command}
    return found


LEAVES = leaves(GROUP)
GROUPS = ["", *sorted({name.rpartition(" ")[0] for name in LEAVES} - {""})]


@pytest.mark.parametrize("width", [80, 60])
@pytest.mark.parametrize("name", [*GROUPS, *LEAVES])
def test_help_fits_and_names_every_option_whole(
    ecgfed: Command, name: str, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    said = ecgfed(*name.split(), "--help")
    assert (said.code, said.err) == (0, "")
    assert ecgfed(*name.split(), "-h").out == said.out
    lines = said.out.splitlines()
    example = [line for line in lines if line.startswith("  Example: ")]
    assert max(len(line) for line in lines if line not in example) <= width
    command = LEAVES.get(name)
    if command is None:
        return
    words = {word.rstrip(",") for line in lines for word in line.split()}
    for param in command.params:
        for option in (*param.opts, *param.secondary_opts):
            if option.startswith("-"):
                assert option in words, option
    assert len(example) == 1
    assert len(example[0]) <= 80


@pytest.mark.parametrize("name", LEAVES)
def test_the_example_of_every_command_parses(name: str) -> None:
    """Parsed as the command does it, unknown options and missing ones refused; it is not run."""
    example = shlex.split(SYNOPSES[name][1])
    assert example[: 1 + len(name.split())] == ["ecgfed", *name.split()]
    LEAVES[name].make_context(name, example[1 + len(name.split()) :])


@pytest.mark.parametrize("name", GROUPS)
def test_lists_of_commands_are_not_cut(ecgfed: Command, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    out = ecgfed(*name.split(), "--help").out
    assert "..." not in out.partition("Commands:")[2]


def test_commands_stand_in_the_order_they_are_met(ecgfed: Command) -> None:
    listed = re.findall(r"^  (\w+)  ", ecgfed("--help").out.partition("Commands:")[2], flags=re.MULTILINE)
    assert listed[:5] == ["prepare", "train", "evaluate", "export", "personalize"]
    assert set(listed) == set(GROUP.commands)


def test_the_page_on_the_command_line_names_every_command() -> None:
    page = (ROOT / "docs" / "command-line.md").read_text()
    for name in LEAVES:
        assert f"`ecgfed {name}" in page, name


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (("trian",), "did you mean 'train'? See 'ecgfed --help'"),
        (("Train", "x"), "did you mean 'train'?"),
        (("prepare", "mit-bih"), "did you mean 'mitbih'? See 'ecgfed prepare --help'"),
        (("prepare", "cifar"), "did you mean 'cifar10'?"),
        (("compare", "a", "b"), "did you mean 'runs compare'?"),
        (("mitbih",), "did you mean 'prepare mitbih'?"),
        (("train", "c", "--out", "r", "--sead", "3"), "No such option '--sead'; did you mean '--seed'"),
        (("train", "c", "--Local_Steps", "3"), "did you mean '--local-steps'? See 'ecgfed train --help'"),
        (("train", "c", "--localsteps=3"), "did you mean '--local-steps'?"),
        (("train", "c", "--local", "3"), "did you mean '--local-epochs' or '--local-steps'?"),
        (("runs", "compare", "a", "b", "--anycohort"), "did you mean '--any-cohort'?"),
        (("--vers",), "did you mean '--version'?"),
        (("train", "c", "--lr", "0.1"), "did you mean '--set lr=...'? See 'ecgfed train --help'"),
        (("train", "c", "--method", "pfedme", "--lam", "0.1"), "did you mean '--set lam=...'?"),
        (("train", "c", "--learning-rate=0.1"), "did you mean '--set lr=...'?"),
    ],
)
def test_did_you_mean(ecgfed: Command, typed: tuple[str, ...], meant: str) -> None:
    assert_refused(ecgfed(*typed), meant)


@pytest.mark.parametrize("typed", [("xyz",), ("train", "c", "--zzzzzz"), ("detect", "x", "-z")])
def test_nothing_was_meant(ecgfed: Command, typed: tuple[str, ...]) -> None:
    said = ecgfed(*typed)
    assert_refused(said, f"'{typed[-1]}'; see 'ecgfed")
    assert "mean" not in said.err


def test_what_was_typed_wrong_is_shown_as_text(ecgfed: Command) -> None:
    said = ecgfed("x\x1b[2J")
    assert_refused(said, "\\x1b[2J")
    assert "\x1b" not in ecgfed("train", "c", "--x\x1b[2J").err


@pytest.fixture
def completed(ecgfed: Command, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """What the shell would offer for the last word of a line; after a space, for a new word."""

    def offer(line: str, shell: str = "bash") -> list[str]:
        words = len(shlex.split(line)) - (not line.endswith(" "))
        for name, value in {
            "_ECGFED_COMPLETE": f"complete_{shell}",
            "COMP_WORDS": line,
            "COMP_CWORD": str(words),
            "_TYPER_COMPLETE_ARGS": line,
            "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        }.items():
            monkeypatch.setenv(name, value)
        said = ecgfed()
        assert (said.code, said.err) == (0, "")
        return said.out.split()

    return offer


def test_the_shell_completes(completed: Callable[..., list[str]]) -> None:
    assert set(completed("ecgfed ")) == set(GROUP.commands)
    assert completed("ecgfed ev") == ["evaluate"]
    assert set(completed("ecgfed runs ")) == {"list", "show", "compare"}
    assert set(completed("ecgfed runs compare a b --s")) == {"--split"}
    assert set(completed("ecgfed runs compare a b --split ")) == {"test", "valid"}
    assert set(completed("ecgfed train c --method grp-")) == {"grp-fed", "grp-fed-printed"}
    assert completed("ecgfed detect x --detector pan") == ["pantompkins1985"]
    assert set(completed("ecgfed evaluate run --global ")) == {"ensemble", "average"}
    assert completed("ecgfed ec57 x --mapping aami5-") == ["aami5-bxb"]
    assert completed("ecgfed runs list ") == []  # then the shell offers files
    assert completed("ecgfed tr", "fish")[0] == "train"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_for_the_shell(shell: str) -> None:
    environment = {**os.environ, "_ECGFED_COMPLETE": f"source_{shell}"}
    said = subprocess.run([ECGFED], capture_output=True, text=True, env=environment, check=True)
    assert "_ECGFED_COMPLETE" in said.stdout
    assert "ecgfed" in said.stdout


def test_methods_are_completed_from_their_files() -> None:
    from ecgfed.core.methods.registry import methods

    assert method_names("") == sorted(methods())
    assert method_names("grp-") == ["grp-fed", "grp-fed-printed"]
    assert "ecgfed" in detector_names("")


def test_completion_loads_no_torch() -> None:
    code = (
        "import sys\nfrom ecgfed_cli.complete import detector_names, method_names\n"
        "assert method_names('fed') and detector_names('x')\n"
        "assert 'ecgfed_cli.main' not in sys.modules and not {'torch', 'wfdb', 'neurokit2'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_lists_of_runs_load_no_torch(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom ecgfed_cli.main import app\n"
        f"app(['runs', 'list', {str(tmp_path)!r}], standalone_mode=False)\n"
        "import ecgfed.core.runs.compare\nassert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
