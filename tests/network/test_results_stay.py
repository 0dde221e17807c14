"""What a server may not do to a site: replace a result, fill its disk, have it train without an end."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from needs import flower

flower()

from test_resume import KilledError, killed_after

from ecgfed.base.errors import OptionError
from ecgfed.base.files import sha256
from ecgfed.core.runs.run import open_run
from ecgfed.network import bounded_log, client_app
from ecgfed.network.errors import NetworkError, SiteError
from ecgfed.network.limits import SiteOptions
from ecgfed.network.roster import read_roster
from ecgfed.network.server_run import run_spec_for
from ecgfed.network.site_events import COUNTS, MESSAGES
from ecgfed.network.site_folder import make_site, open_site
from ecgfed.network.site_results import result_folders
from ecgfed.network.site_run import RoundRequest, SiteRun
from ecgfed.network.status import status_of

pytestmark = pytest.mark.usefixtures("at_once", "quick_end")


def files_of(*folders: Path) -> dict[str, str]:
    """SHA-256 of every file in some folders."""
    files = [one for folder in folders for one in sorted(folder.rglob("*")) if one.is_file()]
    return {
        str(one): sha256(one) for one in files if one.name not in (MESSAGES, COUNTS, "audit.jsonl", "audit-counts.json")
    }


def same_sites(first: Any, second: Any) -> Any:
    """Let a second federation have the first one's sites."""
    second.sites[:] = first.sites
    second.grid.sites.update(first.grid.sites)
    return second


def test_a_second_run_has_results_of_its_own(federation: Callable[..., Any]) -> None:
    wish: dict[str, Any] = {"rounds": 1, "local_steps": 1, "end": True}
    first = federation("fedavg", **wish)
    one = first.serve()
    site = first.sites[0]
    before = files_of(site / "result", site / "bundle")
    second = same_sites(first, federation("fedavg", name="second", seed=1, **wish))
    other = second.serve()
    assert files_of(site / "result", site / "bundle") == before
    result, bundle = result_folders(open_site(site), other.identity)
    assert (result.name, bundle.name) == (f"result-{other.identity[:16]}", f"bundle-{other.identity[:16]}")
    assert json.loads((bundle / "manifest.json").read_text())["run"] == other.identity
    assert open_run(result).plan.seed == 1
    said = status_of(site)
    assert said.values["results"] == {"result": one.identity, result.name: other.identity}
    assert any(f"of run {other.identity[:16]}: {result}; their bundle: {bundle}." in line for line in said.lines)


def test_a_run_that_a_site_never_trained_in_replaces_nothing(federation: Callable[..., Any]) -> None:
    """The server asks for the end of another run, of which the site has answered no round."""
    first = federation("fedavg", rounds=1, local_steps=1, end=True)
    first.serve()
    site = first.sites[0]
    before = files_of(site / "result", site / "bundle")
    stranger = federation("fedavg", name="stranger", rounds=2, local_steps=1, seed=7)
    run = stranger.serve()
    roster = read_roster(stranger.server)
    assert roster is not None
    from ecgfed.network import messages
    from ecgfed.network.leaves import final_leaves

    end = messages.end_request(run_spec_for(run, roster, 0), 0, final_leaves(run.method, run.state().server))
    reply = client_app.handle(site, end, client_app._finish)
    assert messages.refusal_reason(reply) is None
    assert files_of(site / "result", site / "bundle") == before


def test_a_result_of_before_is_nobody_s_to_replace(federation: Callable[..., Any]) -> None:
    """One that an older version made does not say of which run it is; a bundle alone is kept, too."""
    made = federation("fedavg", rounds=1, local_steps=1, end=True)
    for site, names in zip(made.sites, (("result",), ("bundle",), ("result", "bundle")), strict=True):
        for name in names:
            (site / name).mkdir()
            (site / name / "mine.txt").write_text("mine")
    run = made.serve()
    for site in made.sites:
        assert (site / f"result-{run.identity[:16]}" / "run.json").is_file()
        assert {path.name for name in ("result", "bundle") for path in (site / name).glob("*")} == {"mine.txt"}


def test_the_end_of_a_run_is_one(federation: Callable[..., Any]) -> None:
    """The same end once more gives the same scores and writes nothing; with another answer it is refused."""
    made = federation("fedavg", rounds=2, local_steps=1, end=True)
    run = made.serve()
    before = {site: files_of(site) for site in made.sites}
    told = (made.server / "result.json").read_bytes()
    made.serve()
    assert {site: files_of(site) for site in made.sites} == before
    assert (made.server / "result.json").read_bytes() == told
    roster = read_roster(made.server)
    assert roster is not None
    site, order = open_site(made.sites[0]), run_spec_for(run, roster, 0)
    part = SiteRun(site, order)
    leaves = {path: leaf + 1 for path, leaf in client_app_leaves(run).items()}
    from ecgfed.network.site_results import end_run

    with pytest.raises(SiteError, match="is a different result of this run") as caught:
        end_run(site, part, leaves)
    assert caught.value.code == "ended"
    assert files_of(made.sites[0]) == before[made.sites[0]]
    shutil.move(site.path / "result", site.path / "kept")
    shutil.move(site.path / "bundle", site.path / "kept-bundle")
    end_run(site, part, leaves)  # its own person has made room


def client_app_leaves(run: Any) -> dict[str, Any]:
    from ecgfed.network.leaves import final_leaves

    return final_leaves(run.method, run.state().server)


def test_an_end_that_was_killed_half_way_is_made_whole(
    federation: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:

    made = federation("fedavg", rounds=1, local_steps=1, end=True)
    with monkeypatch.context() as patch:

        def killed(*_: Any, **__: Any) -> None:
            raise KeyboardInterrupt

        from ecgfed.network import site_results

        patch.setattr(site_results, "export", killed)
        with pytest.raises(KeyboardInterrupt):
            made.serve()
    assert not (made.sites[0] / "result").exists()
    assert not (made.sites[0] / "bundle").exists()
    made.serve()
    assert all((site / "bundle" / "manifest.json").is_file() for site in made.sites)


def test_runs_are_bounded(federation: Callable[..., Any], parts: list[Path]) -> None:
    """A server that opens one run after the other; its own person makes room, a run that is there goes on."""
    wish: dict[str, Any] = {"rounds": 2, "local_steps": 1}
    first = federation("fedavg", **wish)
    for site, cohort in zip(first.sites, parts, strict=True):
        make_site(site, cohort, SiteOptions(max_runs=2))
    killed_after(first.grid, 2, 0)
    with pytest.raises(KilledError):
        first.serve()
    del first.grid.push_messages
    same_sites(first, federation("fedavg", name="second", seed=1, **wish)).serve()
    third = same_sites(first, federation("fedavg", name="third", seed=2, **wish))
    with pytest.raises(NetworkError, match=r"site 1: refused: the run exceeds the number of runs or rounds"):
        third.serve()
    runs = first.sites[0] / "runs"
    assert len(list(runs.iterdir())) == 2
    log = (first.sites[0] / "log.txt").read_text()
    assert f"{runs}: holds 2 runs; expected fewer than 2" in log
    assert "this site's limit" in log
    first.serve()
    status = status_of(first.sites[0])
    assert "It takes part in at most 2 runs, each of at most 10,000 rounds." in status.lines
    for site in first.sites:
        shutil.rmtree(next((site / "runs").iterdir()))
    assert third.serve().store.rounds() == 2


def test_an_end_counts_as_a_run(federation: Callable[..., Any], parts: list[Path]) -> None:
    """Each would leave a result."""
    made = federation("fedavg", rounds=1, local_steps=1)
    run = made.serve()
    roster = read_roster(made.server)
    assert roster is not None
    site = make_site(made.sites[0], parts[0], SiteOptions(max_runs=3))
    from ecgfed.network.site_results import end_run

    for number in range(5):
        order = replace(run_spec_for(run, roster, 0), run=f"{number:064x}"[::-1])
        part = SiteRun(site, order)
        if number < 2:
            end_run(site, part, client_app_leaves(run))
            continue
        with pytest.raises(SiteError, match="holds 3 runs") as caught:
            end_run(site, part, client_app_leaves(run))
        assert caught.value.code == "limit"
    assert sorted(path.name[:6] for path in site.path.iterdir() if path.name.startswith("result")) == ["result"] * 2


def test_rounds_are_bounded(federation: Callable[..., Any], parts: list[Path]) -> None:
    made = federation("fedavg", rounds=3, local_steps=1)
    make_site(made.sites[1], parts[1], SiteOptions(max_rounds=2))
    with pytest.raises(NetworkError, match=r"site 2: refused: the run exceeds the number of runs or rounds"):
        made.serve()
    assert "has 3 rounds; expected at most 2 (this site's limit)" in (made.sites[1] / "log.txt").read_text()
    make_site(made.sites[1], parts[1], SiteOptions(max_rounds=3))
    run = made.serve()
    roster = read_roster(made.server)
    assert roster is not None
    part = SiteRun(open_site(made.sites[0]), run_spec_for(run, roster, 0))
    with pytest.raises(SiteError, match="the server's round: is 4 of 3") as caught:
        part.run(RoundRequest(part.run_spec, 4, (0,), 3, [{}]))
    assert caught.value.code == "request"


@pytest.mark.parametrize("option", ["max_runs", "max_rounds"])
@pytest.mark.parametrize("value", [0, -1, 2_000_000, True, 1.5])
def test_limits_that_cannot_be(option: str, value: Any, parts: list[Path], tmp_path: Path) -> None:
    with pytest.raises(OptionError) as caught:
        make_site(tmp_path / "site", parts[0], SiteOptions(**{option: value}))
    assert caught.value.parameter == option
    assert not (tmp_path / "site").exists()


def test_limits_stay_until_others_are_given(parts: list[Path], tmp_path: Path) -> None:
    make_site(tmp_path / "site", parts[0], SiteOptions(max_runs=3))
    assert make_site(tmp_path / "site", parts[0]).limits.runs == 3
    assert make_site(tmp_path / "site", parts[0], SiteOptions(max_rounds=7)).limits.runs == 3
    found = open_site(tmp_path / "site").limits
    assert (found.runs, found.rounds) == (3, 7)
    with pytest.raises(OptionError):
        make_site(tmp_path / "site", parts[0], SiteOptions(max_runs=0))


def test_a_log_of_refusals_has_an_end(federation: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    from flwr.app import RecordDict

    made = federation("fedavg", rounds=1, local_steps=1)
    monkeypatch.setattr(client_app, "MAX_LOG_BYTES", 1000)
    for _ in range(100):
        client_app.handle(made.sites[0], RecordDict({}), client_app._round)
    logs = sorted(made.sites[0].glob("log*"))
    assert [path.name for path in logs] == ["log-old.txt", "log.txt"]
    assert all(path.stat().st_size < 1500 for path in logs)


def test_a_programs_log_has_an_end_while_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_log, "MAX_LOG_BYTES", 20_000)
    monkeypatch.setattr(bounded_log, "MAX_LINES_PER_S", 10_000)
    log = bounded_log.BoundedLog(tmp_path / "flower.log", tmp_path / "flower-old.log")
    code = "for i in range(2000): print(i)\nprint('x' * 100_000)\nprint('the last')"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        log.follow(process.stdout).join(60)
    assert {path.name for path in tmp_path.iterdir()} <= {"flower.log", "flower-old.log"}
    assert all(path.stat().st_size <= 20_000 for path in tmp_path.iterdir())
    *_, long, last = (tmp_path / "flower.log").read_text().splitlines()
    assert (len(long) < 2100, long.endswith("x [...]"), last) == (True, True, "the last")


def test_more_lines_than_anybody_reads_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_log, "MAX_LINES_PER_S", 5)
    log = bounded_log.BoundedLog(tmp_path / "flower.log", tmp_path / "flower-old.log")
    code = "import time\nfor i in range(100): print(i, flush=True)\ntime.sleep(1.1)\nprint('later')"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        log.follow(process.stdout).join(60)
    lines = (tmp_path / "flower.log").read_text().splitlines()
    omitted = [int(line.split()[0][1:]) for line in lines if "omitted" in line]
    assert sum(line.isdigit() for line in lines) + sum(omitted) == 100
    assert lines[-1] == "later"
    assert len(lines) < 15


@pytest.mark.parametrize("text", ["a\0b", "\ud800", "x\udfff"])
def test_a_path_that_is_none(text: str, parts: list[Path], tmp_path: Path) -> None:
    """A NUL, or half a surrogate pair: a line, and not what Python says of it."""
    from ecgfed.base.errors import StorageError

    make_site(tmp_path / "site", parts[0])
    file = tmp_path / "site" / "site.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "cohort": text}))
    for looked in (open_site, status_of, lambda path: make_site(path, parts[0])):
        with pytest.raises(StorageError) as caught:
            looked(tmp_path / "site")
        assert str(file) in caught.value.line
        assert "lacks a valid cohort path" in caught.value.line
        assert caught.value.line.isprintable()
