"""ecgfed where Windows' rules hold, as far as a Linux machine can have them (``sitecustomize.py`` says how far)."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from conftest import write_record
from support import snapshot

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="takes Windows' rules from what Linux says in /proc")

HERE = Path(__file__).parent
ROOT = HERE.parent.parent


def as_on_windows(code: str | Path, *arguments: str, cwd: Path) -> subprocess.Popen[str]:
    """Start a Python in which Windows' rules hold."""
    path = os.pathsep.join([str(HERE), str(ROOT), str(ROOT / ".path"), os.environ.get("PYTHONPATH", "")])
    told = {"PYTHONPATH": path, "ECGFED_AS_ON_WINDOWS": "1", "PYTHONIOENCODING": "cp1252", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, *([str(code)] if isinstance(code, Path) else ["-c", code]), *arguments]
    return subprocess.Popen(
        command,
        cwd=cwd,
        env={**os.environ, **told},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="cp1252",
    )


def said_by(code: str | Path, *arguments: str, cwd: Path) -> str:
    process = as_on_windows(code, *arguments, cwd=cwd)
    out, err = process.communicate()
    assert process.returncode == 0, err
    return out


def ran(commands: Sequence[Sequence[object]], cwd: Path, *, code: int = 0) -> None:
    """Run commands where Windows' rules hold; each must end with ``code``."""
    process = as_on_windows(HERE / "verbs.py", json.dumps([[*map(str, one)] for one in commands]), cwd=cwd)
    out, err = process.communicate()
    assert process.returncode == 0, err
    assert json.loads(out.splitlines()[-1]) == [code] * len(commands), f"{out}\n{err}"


def test_the_rules_hold(tmp_path: Path) -> None:
    """What the other tests stand on: each rule is broken once."""
    ours = "import sys; __name__ = 'ecgfed.trial'\n"
    for rule, error in (
        ("import fcntl", "ModuleNotFoundError"),
        ("import resource", "ModuleNotFoundError"),
        ("import os; os.O_NOFOLLOW", "AttributeError"),
        ("import os; os.sched_getaffinity(0)", "AttributeError"),
        ("import signal; signal.SIGKILL", "AttributeError"),
        ("import ctypes; ctypes.CDLL(None)", "TypeError"),
        ("import os; os.open('.', os.O_RDONLY)", "PermissionError"),
        ("import os; os.fsync(os.open('held', os.O_RDONLY))", "OSError"),
        ("import os; held = open('held', 'rb'); os.replace('held', 'other')", "PermissionError"),
        ("import os; held = open('held', 'rb'); os.remove('held')", "PermissionError"),
        ("import os; held = open('folder/held', 'rb'); os.rename('folder', 'other')", "PermissionError"),
        ("import numpy, os; held = numpy.memmap('held', mode='r'); os.remove('held')", "PermissionError"),
        ("import os; os.rename('held', 'folder/held')", "FileExistsError"),
        ("open('a:b', 'wb')", "OSError"),
        ("import os; os.mkdir('nul')", "OSError"),
        ("open('held')", "EncodingWarning"),
    ):
        folder = tmp_path / rule.translate(str.maketrans("", "", "/:'(). ;,"))[:40]
        (folder / "folder").mkdir(parents=True)
        for name in ("held", "folder/held"):
            (folder / name).write_bytes(b"x")
        process = as_on_windows(f"{ours}{rule}", cwd=folder)
        assert f"{error}: " in process.communicate()[1], rule
        assert process.returncode == 1, rule
    said_by("open('text', 'w', encoding='utf-8').write('a\\n')", cwd=tmp_path)
    assert (tmp_path / "text").read_bytes() == b"a\r\n"


HOLD = """
import sys
from pathlib import Path
from ecgfed.base.locks import locked
with locked(Path("out"), shared=sys.argv[1] == "shared") as there:
    print(there, flush=True)
    sys.stdin.readline()
"""
TAKE = """
import sys
from pathlib import Path
from ecgfed.base.errors import StorageError
from ecgfed.base.locks import locked
try:
    with locked(Path("out"), shared=sys.argv[1] == "shared"):
        print("in")
except StorageError as problem:
    print(problem)
"""


@pytest.mark.parametrize(
    ("first", "second", "let_in"),
    [("shared", "shared", True), ("shared", "alone", False), ("alone", "shared", False), ("alone", "alone", False)],
)
def test_locks_keep_other_processes_out_and_let_go_however_they_end(
    tmp_path: Path, first: str, second: str, let_in: bool
) -> None:
    holder = as_on_windows(HOLD, first, cwd=tmp_path)
    assert holder.stdout.readline() == "True\n"
    said = said_by(TAKE, second, cwd=tmp_path).strip()
    if let_in:
        assert said == "in"
    else:
        assert said.startswith("out: is in use by process ")
        assert str(holder.pid) in said
    assert [path.name for path in tmp_path.iterdir()] == [".out.lock"]  # the holder's
    holder.kill()
    holder.communicate()
    assert said_by(TAKE, "alone", cwd=tmp_path) == "in\n"
    assert list(tmp_path.iterdir()) == []


#: What the base does with recordings; each line's files are the same, byte for byte, where Windows' rules do not hold.
BASE = (
    ("predict", "records", "--out", "predicted", "--quiet"),
    ("predict", "records", "--out", "predicted", "--quiet", "--overwrite"),
    ("detect", "records", "--out", "detected"),
    ("convert", "records/r1", "--out", "converted", "--anonymize", "--key", "key.csv"),
    ("convert", "records/r2", "--out", "converted", "--anonymize", "--key", "key.csv"),
    ("label", "records/r1", "--count", 3, "--out", "labels"),
)


def test_what_reads_recordings_works_and_writes_the_same_bytes(tmp_path: Path) -> None:
    found = []
    for name in ("there", "here"):
        folder = tmp_path / name
        for seed in (1, 2):
            write_record(folder / "records", f"r{seed}", "NNNNV" * 30, seed=seed)
        if name == "there":
            ran(BASE, folder)
        else:
            plain = {name: value for name, value in os.environ.items() if name != "ECGFED_AS_ON_WINDOWS"}
            plain["PYTHONPATH"] = os.pathsep.join([str(ROOT), str(ROOT / ".path"), os.environ.get("PYTHONPATH", "")])
            commands = json.dumps([[*map(str, one)] for one in BASE])
            subprocess.run([sys.executable, HERE / "verbs.py", commands], cwd=folder, env=plain, check=True)
        assert not [path for path in folder.rglob(".*") if path.name != ".path"]
        found.append(snapshot(folder))
    there, here = found
    assert set(there) == set(here)
    assert len(there) > 15
    for name, files in (("there", there), ("here", here)):  # a key says where a recording lies
        files["key.csv"] = files["key.csv"].replace(str(tmp_path / name).encode(), b"")
    assert there == here


def test_a_federation_is_refused_in_one_line(tmp_path: Path) -> None:
    process = as_on_windows("from ecgfed_cli.main import main; main()", "federate", "status", "x", cwd=tmp_path)
    _, err = process.communicate()
    assert process.returncode == 2
    assert err.startswith("ecgfed: ecgfed federate: does not run on this system; expected Linux or macOS; ")
    assert err.count("\n") == 1


@pytest.mark.slow
def test_the_whole_path_works(tmp_path: Path) -> None:
    """Prepare in worker processes, train, go on, score twice, ship twice, predict, a page, a model of one's own."""
    small = ("--local-steps", 2, "--workers", 2)
    ran(
        [
            ("doctor",),
            ("prepare", "demo", "--out", "cohort", "--records", "records", "--patients", 4, "--minutes", 2),
            ("prepare", "folder", "records", "--out", "anonymous", "--anonymize", "--key", "who.csv", "--workers", 2),
            ("prepare", "folder", "records", "--out", "anonymous", "--overwrite"),
            ("train", "cohort", "--out", "run", "--rounds", 1, *small),
            ("train", "cohort", "--out", "run", "--rounds", 2, *small, "--resume"),
            ("evaluate", "run"),
            ("evaluate", "run"),
            ("train", "cohort", "--out", "run", "--rounds", 1, *small, "--overwrite"),
            ("export", "run", "--out", "bundle"),
            ("export", "run", "--out", "bundle", "--overwrite", "--global-only"),
            ("export", "run", "--out", "bundle.zip"),
            ("predict", "bundle.zip", "records/demo01", "--patient", "demo01", "--strip", "--out", "predicted"),
            ("report", "run", "--out", "run.html"),
            ("report", "records/demo01", "--bundle", "bundle", "--out", "demo01.html"),
            ("personalize", "run", "--record", "records/demo01", "--out", "own"),
            (
                "personalize",
                "records/demo02",
                "--labels",
                "records/demo02.atr",
                "--bundle",
                "bundle",
                "--out",
                "labelled",
            ),
            ("inspect", "records/demo01", "--out", "demo01.png"),
            ("ec57", "records/demo01", "--test", "atr", "--start", "0:00"),
            ("keys", "new", "mine"),
            ("methods",),
            ("runs", "list", "."),
        ],
        tmp_path,
    )
    assert not list(tmp_path.rglob("*.partial"))
    assert not list(tmp_path.rglob("*.lock"))
