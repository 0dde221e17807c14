"""A run of somebody's own method: nothing runs because the run's folder names it."""

import json
import os
import py_compile
import shutil
import warnings
from pathlib import Path

import pytest
from support import Command, assert_refused, change_json, copied, snapshot

import ecgfed as front
from ecgfed.base.errors import OptionError, RunError
from ecgfed.core.runs.run import open_run

SOURCE = """
from pathlib import Path
from ecgfed.core.methods.fedavg import FedAvg
Path(__file__).with_name("ran").touch()
class Mine(FedAvg):
    name = "mine"
"""


@pytest.fixture(scope="module")
def trained(cohort_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ``mine.py``, trained once into ``run``."""
    folder = tmp_path_factory.mktemp("own")
    (folder / "mine.py").write_text(SOURCE)
    front.train(cohort_path, folder / "run", method=f"{folder}/mine.py:Mine", rounds=1, local_steps=1, width=0.1)
    (folder / "ran").unlink()
    return folder


@pytest.fixture
def own(trained: Path, tmp_path: Path) -> Path:
    """A copy of it that no module of this process knows, its run naming the copy."""
    folder = copied(trained, tmp_path / "own")
    shutil.rmtree(folder / "__pycache__", ignore_errors=True)
    change_json(folder / "run" / "run.json", method=f"{folder}/mine.py:Mine")
    change_json(folder / "run" / "checkpoint" / "progress.json", run="")
    return folder


def test_the_files_digest_is_pinned_in_the_run(trained: Path) -> None:
    import hashlib

    meta = json.loads((trained / "run" / "run.json").read_text())
    assert meta["method_sha256"] == hashlib.sha256(SOURCE.encode()).hexdigest()


@pytest.mark.parametrize(
    "command",
    [
        ("evaluate", "{run}"),
        ("export", "{run}", "--out", "{out}"),
        ("personalize", "{run}", "--class-mix", "{mix}", "--patient", "new", "--out", "{out}"),
        ("train", "{cohort}", "--out", "{run}", "--resume"),
    ],
)
def test_no_command_runs_what_a_run_names(
    ecgfed: Command, own: Path, cohort_path: Path, tmp_path: Path, command: tuple[str, ...]
) -> None:
    before = snapshot(own)
    (tmp_path / "mix.json").write_text('{"N": 1}')
    places = {"run": own / "run", "out": tmp_path / "out", "mix": tmp_path / "mix.json", "cohort": cohort_path}
    said = ecgfed(*(part.format(**places) for part in command))
    assert_refused(said, "run.json", "somebody's own code", "pass it with --method FILE.py:CLASS")
    assert snapshot(own) == before
    assert not (tmp_path / "out").exists()


def test_the_file_a_person_names_opens_the_run(ecgfed: Command, own: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    shutil.move(own / "mine.py", elsewhere / "moved.py")
    named = f"{elsewhere}/moved.py:Mine"
    said = ecgfed("evaluate", own / "run", "--split", "valid", "--method", named)
    assert said.code == 0, said.err
    assert "SHA-256" not in said.err
    assert ecgfed("export", own / "run", "--out", tmp_path / "bundle", "--method", named).code == 0
    run = open_run(own / "run", named)
    assert open_run(own / "run", type(run.method)).method.name == "mine"
    assert (elsewhere / "ran").exists()


def test_a_changed_file_is_refused_before_it_runs(ecgfed: Command, own: Path) -> None:
    (own / "mine.py").write_text(SOURCE + "# one more line\n")
    pinned = json.loads((own / "run" / "run.json").read_text())["method_sha256"]
    said = ecgfed("evaluate", own / "run", "--method", f"{own}/mine.py:Mine")
    assert_refused(said, "mine.py", "has SHA-256", pinned, "restore that file")
    assert not (own / "ran").exists()


def test_a_compiled_copy_beside_the_file_is_not_what_runs(own: Path, tmp_path: Path) -> None:
    """Python would take it for the file's own: same second, same size."""
    file = own / "mine.py"
    evil = tmp_path / "evil.py"
    evil.write_text(SOURCE.replace('"ran"', '"evil"')[: len(SOURCE)].ljust(len(SOURCE)))
    evil.write_text(evil.read_text().rstrip().ljust(len(SOURCE.encode())))
    stamp = file.stat()
    os.utime(evil, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    target = Path(py_compile.compile(str(evil), dfile=str(file)) or "")
    (own / "__pycache__").mkdir()
    name = f"mine.{target.name.split('.', 1)[1]}"
    data = bytearray(target.read_bytes())
    data[12:16] = (stamp.st_size & 0xFFFFFFFF).to_bytes(4, "little")
    (own / "__pycache__" / name).write_bytes(data)
    open_run(own / "run", f"{file}:Mine")
    assert (own / "ran").exists()
    assert not (own / "evil").exists()


def test_a_run_without_a_pin_opens_with_a_warning(own: Path) -> None:
    meta = json.loads((own / "run" / "run.json").read_text())
    del meta["method_sha256"]
    (own / "run" / "run.json").write_text(json.dumps(meta))
    with pytest.warns(front.EcgfedWarning, match="does not say the SHA-256 of its method's file"):
        front.evaluate(own / "run", split="valid", method=f"{own}/mine.py:Mine")


@pytest.mark.parametrize(
    ("passed", "words"), [("fedavg", "not fedavg"), ("{own}/mine.py:Other", "not"), ("{own}/none.py:Mine", "no file")]
)
def test_another_method_than_the_runs_is_refused(own: Path, passed: str, words: str) -> None:
    with pytest.raises(RunError, match=words):
        open_run(own / "run", passed.format(own=own))
    assert not (own / "ran").exists()


def test_a_registered_method_may_be_named_and_no_other(fedavg_run: Path, own: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert open_run(fedavg_run, "FedAvg").method.name == "fedavg"
    for other in ("local", f"{own}/mine.py:Mine"):
        with pytest.raises(RunError, match="was begun with method fedavg, not"):
            open_run(fedavg_run, other)
    assert not (own / "ran").exists()


def test_a_config_file_does_not_get_to_run_code(own: Path, cohort_path: Path, tmp_path: Path) -> None:
    (tmp_path / "train.toml").write_text(f'method = "{own}/mine.py:Mine"\nrounds = 1\nlocal_steps = 1\nwidth = 0.1\n')
    with pytest.raises(OptionError, match="somebody's own code, which is not run from a file"):
        front.train(cohort_path, tmp_path / "run", config=tmp_path / "train.toml")
    assert not (own / "ran").exists()
    named = f"{own}/mine.py:Mine"
    run = front.train(cohort_path, tmp_path / "run", config=tmp_path / "train.toml", method=named)
    assert run.method.name == "mine"


@pytest.mark.parametrize(
    "part", ["run.json", "history.jsonl", "timing.jsonl", "checkpoint", "checkpoint/progress.json"]
)
def test_a_link_out_of_the_run_is_refused(fedavg_run: Path, tmp_path: Path, part: str) -> None:
    """Training on would write through it; into another's run, or over any file."""
    run = copied(fedavg_run, tmp_path / "run")
    shutil.move(run / part, tmp_path / "aside")
    (run / part).symlink_to(tmp_path / "aside")
    before = snapshot(tmp_path)
    for opened in (open_run, front.evaluate):
        with pytest.raises(RunError, match="is a link out of its folder"):
            opened(run)
    assert snapshot(tmp_path) == before


def test_a_server_of_another_shape_is_refused(fedavg_run: Path, local_run: Path, tmp_path: Path) -> None:
    run = copied(fedavg_run, tmp_path / "run")
    meta = json.loads((run / "run.json").read_text())
    change_json(run / "run.json", net={**meta["net"], "width": 2.0})
    progress = json.loads((run / "checkpoint" / "progress.json").read_text())
    (run / "checkpoint" / "progress.json").write_text(json.dumps({**progress, "run": ""}))
    with pytest.raises(RunError, match=r"of its server is torch\.float32"):
        open_run(run).state()


@pytest.mark.parametrize(
    ("where", "value", "words"),
    [
        ("net", {"classes": 10**9}, "1 to 10,000"),
        ("net", {"classes": 12, "width": float("nan")}, "0.1 to 16"),
        ("net", {"classes": 12, "width": True}, "a number"),
        ("net", {"classes": 12, "rr": "yes"}, "true or false"),
        ("eval_every", -5, "eval_every"),
        ("eval_every", True, "eval_every"),
        ("method", 7, "its method is 7"),
    ],
)
def test_numbers_no_run_has(fedavg_run: Path, tmp_path: Path, where: str, value: object, words: str) -> None:
    run = copied(fedavg_run, tmp_path / "run")
    change_json(run / "run.json", **{where: value})
    with pytest.raises(RunError, match=words):
        open_run(run)
