"""Whose a stored state or result is: stored inside the file, and compared when it is read."""

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import train_run
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from support import Command, assert_refused, change_json, copied

from ecgfed.base.errors import RunError
from ecgfed.core.runs.run import Run, open_run

DATA = Path(__file__).parents[1] / "data"
OLD = DATA / "version-0.2"


def index_of(run: Path) -> dict[str, Any]:
    return dict(json.loads((run / "checkpoint" / "progress.json").read_text()))


def write_index(run: Path, index: dict[str, Any]) -> None:
    (run / "checkpoint" / "progress.json").write_text(json.dumps(index))


def metadata(run: Path, part: str) -> dict[str, str]:
    """What the file of a part says of itself, read by safetensors."""
    with safe_open(run / "checkpoint" / index_of(run)["files"][part]["name"], "pt") as file:
        return dict(file.metadata() or {})


def put(run: Path, part: str, file: Path) -> None:
    """Let another file be a part of a checkpoint; the index agrees with its bytes."""
    index, data = index_of(run), file.read_bytes()
    entry = index["files"][part]
    (run / "checkpoint" / entry["name"]).write_bytes(data)
    entry |= {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
    write_index(run, index)


def tree_bytes(folder: Path) -> dict[str, bytes]:
    """All files below a folder but its locks."""
    files = (path for path in folder.rglob("*") if path.is_file() and not path.name.endswith(".lock"))
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def read_all(run: Run) -> None:
    state = run.state()
    for client in range(len(run.meta["clients"])):
        run.client_state(state, client)


@pytest.fixture
def local(local_run: Path, tmp_path: Path) -> Path:
    return copied(local_run, tmp_path / "run")


def test_every_state_says_whose_it_is(local: Path) -> None:
    run = open_run(local)
    about = {"run": run.identity, "method": "local", "round": "2"}
    server = metadata(local, "server")
    assert {key: server[key] for key in about} == about
    for number, client in enumerate(run.meta["clients"]):
        assert metadata(local, f"client/{number}") == {**about, "part": f"client/{number}", "client": client}


def test_states_exchanged_in_the_index_are_refused(ecgfed: Command, local: Path, tmp_path: Path) -> None:
    index = index_of(local)
    files = index["files"]
    files["client/0"], files["client/1"] = files["client/1"], files["client/0"]
    write_index(local, index)
    said = ecgfed("export", local, "--out", tmp_path / "bundle")
    assert_refused(said, "progress.json", "other clients' states")
    assert not (tmp_path / "bundle").exists()
    assert_refused(ecgfed("evaluate", local, "--no-local-models"), "other clients' states")


def test_a_state_of_another_patient_run_or_round_is_refused(local: Path, cohort_path: Path, tmp_path: Path) -> None:
    """The server's file has been made to fit as well: the client's own file says that it is another one's."""
    files = index_of(local)["files"]
    other = train_run(cohort_path, tmp_path / "other", method="local", rounds=3, rr=False)
    elsewhere = train_run(cohort_path, tmp_path / "elsewhere", method="fedper", rounds=2, rr=False)
    first = "client/0"
    sources = {
        "part client/1, client p2": local / "checkpoint" / files["client/1"]["name"],
        "round 3": other / "checkpoint" / index_of(other)["files"][first]["name"],
        "method fedper": elsewhere / "checkpoint" / index_of(elsewhere)["files"][first]["name"],
    }
    for number, (found, source) in enumerate(sources.items()):
        run = copied(local, tmp_path / f"run{number}")
        put(run, first, source)
        with pytest.raises(RunError, match="other clients' states"):
            read_all(open_run(run))
        agree(run)
        with pytest.raises(RunError, match=found):
            read_all(open_run(run))


def agree(run: Path) -> None:
    """Write the server's file anew, so that it was saved with the clients' files that the index names now."""
    index = index_of(run)
    parts = sorted((part, entry["sha256"]) for part, entry in index["files"].items() if part != "server")
    about = metadata(run, "server") | {"clients_sha256": hashlib.sha256(json.dumps(parts).encode()).hexdigest()}
    path = run / "checkpoint" / index["files"]["server"]["name"]
    save_file(load_file(path), run / "new", about)
    put(run, "server", run / "new")


@pytest.mark.parametrize("client", [True, False])
def test_a_checkpoint_that_lacks_a_state_is_refused(local: Path, client: bool) -> None:
    index = index_of(local)
    del index["files"]["client/2"]
    if not client:
        del index["seen"]["2"]
    write_index(local, index)
    with pytest.raises(RunError, match="other clients' states"):
        read_all(open_run(local))


def test_a_new_file_must_say_whose_it_is(local: Path) -> None:
    for part, found in (("client/1", "does not say whose"), ("server", "does not say whose")):
        path = local / "checkpoint" / index_of(local)["files"][part]["name"]
        save_file(load_file(path), local / "plain")
        put(local, part, local / "plain")
        if part != "server":
            agree(local)
        with pytest.raises(RunError, match=found):
            read_all(open_run(local))


@pytest.mark.parametrize("change", ["missing", "shape", "type"])
@pytest.mark.parametrize("old", [True, False])
def test_a_clients_leaf_that_is_missing_or_other_is_one_line(
    ecgfed: Command, local: Path, tmp_path: Path, change: str, old: bool
) -> None:
    """Of version 0.1 too, whose files do not say whose they are."""
    run = copied(DATA / "version-0.1", tmp_path / "old") / "run" if old else local
    path = run / "checkpoint" / index_of(run)["files"]["client/1"]["name"]
    leaves = load_file(path)
    name = sorted(leaves)[-1]
    value = leaves.pop(name)
    if change != "missing":
        leaves[name] = torch.zeros(7) if change == "shape" else value.half()
    save_file(leaves, tmp_path / "leaves", None if old else metadata(run, "client/1"))
    put(run, "client/1", tmp_path / "leaves")
    if not old:
        agree(run)
    cohort = ("--cohort", DATA / "version-0.1" / "cohort") if old else ()
    for command in (("evaluate", run), ("export", run, "--out", tmp_path / "bundle")):
        assert_refused(ecgfed(*command, *cohort), path.name, name, "as its method and net have it")


@pytest.mark.parametrize(
    "group", ["local/extractor/", "local/head/", "local/discriminator/", "local/discriminator_velocity/"]
)
def test_a_leaf_that_comes_with_the_first_round_is_one_line_too(ecgfed: Command, tmp_path: Path, group: str) -> None:
    """GRP-FED's clients begin with a loss alone; the rest of what they keep comes with their first round."""
    old = copied(DATA / "version-0.1", tmp_path / "old")
    path = old / "run" / "checkpoint" / index_of(old / "run")["files"]["client/1"]["name"]
    leaves = load_file(path)
    name = next(name for name in leaves if name.startswith(group))
    del leaves[name]
    save_file(leaves, tmp_path / "leaves")
    put(old / "run", "client/1", tmp_path / "leaves")
    for command in (
        ("evaluate", old / "run", "--cohort", old / "cohort"),
        ("export", old / "run", "--cohort", old / "cohort", "--out", tmp_path / "bundle"),
        ("train", old / "cohort", "--out", old / "run", "--resume", "--rounds", 3, "--quiet"),
    ):
        before = tree_bytes(old / "run")
        assert_refused(ecgfed(*command), path.name, name.split("/")[-1], "restore")
        assert tree_bytes(old / "run") == before
    assert not (tmp_path / "bundle").exists()


@pytest.mark.parametrize("method", ["mtl", "scaffold", "ditto", "fedper"])
@pytest.mark.parametrize("part", ["server", "client/2"])
def test_a_resealed_state_without_a_leaf_stops_resume_before_a_round(
    ecgfed: Command, cohort_path: Path, tmp_path: Path, method: str, part: str
) -> None:
    run = train_run(cohort_path, tmp_path / "run", method=method, rr=False)
    path = run / "checkpoint" / index_of(run)["files"][part]["name"]
    leaves = load_file(path)
    name = sorted(leaves)[-1]
    del leaves[name]
    save_file(leaves, tmp_path / "leaves", metadata(run, part))
    put(run, part, tmp_path / "leaves")
    if part != "server":
        agree(run)
    before = tree_bytes(run)
    said = ecgfed("train", cohort_path, "--out", run, "--resume", "--rounds", 3, "--quiet")
    assert_refused(said, path.name, f"{name} of ", "is missing", "as its method and net have it", "restore")
    assert tree_bytes(run) == before


def test_a_server_that_lacks_one_patients_model_is_one_line(ecgfed: Command, cohort_path: Path, tmp_path: Path) -> None:
    """FedFomo's server keeps every patient's model; who gets it would have met a model without a leaf."""
    run = train_run(cohort_path, tmp_path / "run", method="fedfomo", rr=False)
    path = run / "checkpoint" / index_of(run)["files"]["server"]["name"]
    leaves = load_file(path)
    del leaves["models/1/head.out.bias"]
    save_file(leaves, tmp_path / "leaves", metadata(run, "server"))
    put(run, "server", tmp_path / "leaves")
    for command in (("evaluate", run), ("train", cohort_path, "--out", run, "--resume", "--rounds", 3, "--quiet")):
        assert_refused(ecgfed(*command), path.name, "models/1/head.out.bias of its server is missing")


def test_of_several_seeds_none_is_scored_where_one_cannot_be(ecgfed: Command, local: Path, tmp_path: Path) -> None:
    seeds = tmp_path / "seeds"
    for number in (0, 1):
        copied(local, seeds / f"seed-{number}")
    broken = seeds / "seed-1" / "checkpoint" / index_of(seeds / "seed-1")["files"]["client/2"]["name"]
    broken.write_bytes(broken.read_bytes()[:-1])
    before = tree_bytes(seeds)
    assert_refused(ecgfed("evaluate", seeds, "--out", tmp_path / "scores", "--quiet"), broken.name)
    assert not (tmp_path / "scores").exists()
    assert_refused(ecgfed("evaluate", seeds, "--quiet"), broken.name)
    assert tree_bytes(seeds) == before


def test_an_old_run_goes_on_with_files_that_say_whose_they_are(ecgfed: Command, tmp_path: Path) -> None:
    old = copied(OLD, tmp_path / "old")
    assert "version" not in index_of(old / "run")
    said = ecgfed("train", old / "cohort", "--out", old / "run", "--resume", "--rounds", 3, "--quiet")
    assert said.code == 0, said.err
    run = open_run(old / "run")
    read_all(run)
    assert metadata(old / "run", "client/1")["client"] == "demo02"
    index = index_of(old / "run")
    assert index["version"] == 2
    files = index["files"]
    files["client/0"], files["client/1"] = files["client/1"], files["client/0"]
    write_index(old / "run", index)
    with pytest.raises(RunError, match="other clients' states"):
        read_all(run)


def test_a_newer_index_is_refused(local: Path) -> None:
    write_index(local, {**index_of(local), "version": 3})
    with pytest.raises(RunError, match="version"):
        open_run(local).state()


@pytest.fixture
def scored(ecgfed: Command, local: Path) -> Path:
    assert ecgfed("evaluate", local, "--no-local-models", "--quiet").code == 0
    return local


def refusals(ecgfed: Command, run: Path, tmp_path: Path) -> list[Any]:
    other = copied(run, tmp_path / "beside")
    shutil.rmtree(other / "evaluation-test")
    return [
        ecgfed("runs", "show", run),
        ecgfed("runs", "compare", other, run),
        ecgfed("report", run, "--out", tmp_path / "page.html"),
        ecgfed("export", run, "--out", tmp_path / "bundle"),
    ]


def test_scores_say_which_run_they_are_of(scored: Path) -> None:
    result = json.loads((scored / "evaluation-test" / "scores.json").read_text())
    assert (result["schema_version"], result["run_identity"]) == (2, open_run(scored).identity)


def test_scores_of_another_run_are_refused(ecgfed: Command, scored: Path, cohort_path: Path, tmp_path: Path) -> None:
    other = train_run(cohort_path, tmp_path / "other", method="local", rounds=2, rr=True)
    shutil.copytree(scored / "evaluation-test", other / "evaluation-test")
    for said in refusals(ecgfed, other, tmp_path):
        assert_refused(said, "scores.json", "run_identity")


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"method": "fedper"}, "method is 'fedper'"),
        ({"split": "valid"}, "split is 'valid'"),
        ({"leave_out": "poor-quality"}, "leave_out is 'poor-quality'"),
        ({"schema_version": 3}, "schema version 3"),
    ],
)
def test_scores_of_another_method_or_split_are_refused(
    ecgfed: Command, scored: Path, tmp_path: Path, change: dict[str, Any], found: str
) -> None:
    change_json(scored / "evaluation-test" / "scores.json", **change)
    for said in refusals(ecgfed, scored, tmp_path):
        assert_refused(said, "scores.json", found)


def test_new_scores_must_say_which_run_they_are_of(ecgfed: Command, scored: Path, tmp_path: Path) -> None:
    path = scored / "evaluation-test" / "scores.json"
    result = json.loads(path.read_text())
    del result["run_identity"]
    path.write_text(json.dumps(result))
    for said in refusals(ecgfed, scored, tmp_path):
        assert_refused(said, "scores.json", "does not say which run")
