"""``ecgfed federate``: one clear line for what cannot be, nothing written; and all of it in real processes."""

import json
import re
import shlex
import shutil
import socket
import ssl
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from needs import flower

flower()

from test_same_numbers import PROMISED, same

from ecgfed.core.runs.run import open_run
from ecgfed.domain.cohort.cohort import Cohort, open_cohort


def refused(said: Any, *parts: str) -> None:
    assert said.code == 2, said.err
    assert said.out == ""
    (line,) = said.error_lines
    assert line.startswith("ecgfed: ")
    assert all(part in line for part in parts), line


def test_prepare_server_and_site(ecgfed: Callable[..., Any], parts: list[Path], tmp_path: Path) -> None:
    server, site = tmp_path / "server", tmp_path / "site"
    said = ecgfed("federate", "server", server, "--sites", 2, "--name", "fed.example.org", "--prepare")
    assert said.code == 0
    assert str(server / "tls" / "ca.crt") in said.out
    said = ecgfed("federate", "site", site, "--cohort", parts[0], "--prepare", "--json")
    assert json.loads(said.out)["public_key"] == str(site / "key.pub")
    said = ecgfed("federate", "status", site, "--json")
    assert json.loads(said.out)["patients"] == 2
    said = ecgfed("federate", "status", server)
    assert "2 sites, method fed-gate" in said.out


@pytest.mark.parametrize(
    ("options", "parts_of_line"),
    [
        (["--method", "nobody"], ["--method", "'nobody'"]),
        (["--method", "mine.py:Method"], ["--method", "only code that is installed there"]),
        (["--sites", 0], ["--sites", "1 to 10,000"]),
        (["--rounds", 0], ["--rounds", "1 or more"]),
        (["--rounds", 2, "--passes", 3], ["--rounds and --passes"]),
        (["--set", "lr"], ["--set", "NAME=VALUE"]),
        (["--set", "lr=much"], ["lr"]),
        (["--set", "risk=meta-bsm"], ["--set risk", "beats would leave"]),
        (["--name", "näm e", "--prepare"], ["--name", "host name"]),
        ([], ["--keys", "was not given"]),
        (["--keys", "nowhere"], ["--keys", "0 public keys"]),
    ],
)
def test_a_server_that_cannot_be(
    options: list[Any], parts_of_line: list[str], ecgfed: Callable[..., Any], tmp_path: Path
) -> None:
    refused(ecgfed("federate", "server", tmp_path / "server", *options), *parts_of_line)
    left = [path for path in (tmp_path / "server").rglob("*") if path.is_file()] if "--name" not in options else []
    assert not left


def test_a_port_that_is_taken(ecgfed: Callable[..., Any], parts: list[Path], tmp_path: Path) -> None:
    ecgfed("federate", "site", tmp_path / "site", "--cohort", parts[0], "--prepare")
    with socket.create_server(("127.0.0.1", 0)) as one:
        port = one.getsockname()[1]
        said = ecgfed(
            *("federate", "server", tmp_path / "server", "--sites", 1, "--keys", tmp_path / "site"),
            *("--host", "127.0.0.1", "--port", port),
        )
    refused(said, "--port", f"cannot listen at 127.0.0.1:{port}")
    assert not (tmp_path / "server").exists()


def test_a_server_that_was_begun_otherwise(ecgfed: Callable[..., Any], tmp_path: Path) -> None:
    ecgfed("federate", "server", tmp_path / "server", "--rounds", 3, "--prepare")
    refused(ecgfed("federate", "server", tmp_path / "server", "--rounds", 4, "--prepare"), "--rounds", "3, as")


@pytest.mark.parametrize(
    ("options", "parts_of_line"),
    [
        ([], ["--server", "was not given"]),
        (["--server", "host"], ["--ca", "was not given"]),
        (["--server", "host", "--ca", "CA"], ["--server", "HOST:PORT"]),
        (["--server", "host:99999", "--ca", "CA"], ["--server", "HOST:PORT"]),
        (["--server", "host:9092", "--ca", "KEY"], ["--ca", "not a certificate"]),
        (["--server", "host:9092", "--ca", "SERVER"], ["--ca", "is the certificate of one server", "tls/ca.crt"]),
        (["--server", "host:9092", "--ca", "OLD"], ["--ca", "has expired on 20"]),
        (["--server", "host:9092", "--ca", "CA", "--key", "CA"], ["--key", "not a private key"]),
        (["--numbers", "mine", "--prepare"], ["--numbers", "shuffled, cohort"]),
    ],
)
def test_a_site_that_cannot_be(
    options: list[str], parts_of_line: list[str], ecgfed: Callable[..., Any], parts: list[Path], tmp_path: Path
) -> None:
    from ecgfed.network.certificates import make_certificates

    make_certificates(tmp_path / "tls", [])
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("ecgfed.network.certificates.DAYS", 0.02)  # from an hour ago on
        make_certificates(tmp_path / "old", [])
    names = {"CA": "tls/ca.crt", "KEY": "tls/server.key", "SERVER": "tls/server.crt", "OLD": "old/ca.crt"}
    places = {name: tmp_path / place for name, place in names.items()}
    given = [places.get(option, option) for option in options]
    refused(ecgfed("federate", "site", tmp_path / "site", "--cohort", parts[0], *given), *parts_of_line)
    assert not (tmp_path / "site").exists()


@pytest.mark.parametrize("command", ["server", "site"])
def test_a_folder_where_no_program_may_be_started(
    command: str, ecgfed: Callable[..., Any], parts: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a file system that is mounted noexec: the programs that Flower is started by lie in the folder."""
    from ecgfed.network import launch
    from ecgfed.network.certificates import make_certificates
    from ecgfed.network.programs import write_programs

    def written(folder: Path) -> None:
        write_programs(folder)
        for program in folder.iterdir():
            program.chmod(0o600)

    monkeypatch.setattr(launch, "write_programs", written)
    make_certificates(tmp_path / "tls", [])
    ecgfed("federate", "site", tmp_path / "site", "--cohort", parts[0], "--prepare")
    options = {
        "server": ["--sites", 1, "--keys", tmp_path / "site", "--host", "127.0.0.1", "--port", launch.free_port()],
        "site": ["--cohort", parts[0], "--server", "127.0.0.1:9092", "--ca", tmp_path / "tls" / "ca.crt"],
    }
    said = ecgfed("federate", command, tmp_path / command, *options[command], "--quiet")
    refused(said, "cannot be started (Permission denied)", "not mounted noexec")


def test_a_cohort_that_is_none(ecgfed: Callable[..., Any], tmp_path: Path) -> None:
    refused(ecgfed("federate", "site", tmp_path / "site", "--cohort", tmp_path, "--prepare"), "cohort.json")
    refused(ecgfed("federate", "try", tmp_path / "nowhere", "--out", tmp_path / "out"), "nowhere")
    assert not (tmp_path / "out").exists()
    refused(ecgfed("federate", "status", tmp_path), "is neither a server's nor a site's folder")


def test_more_sites_than_patients(ecgfed: Callable[..., Any], whole: Cohort, tmp_path: Path) -> None:
    said = ecgfed("federate", "try", whole.path, "--sites", 8, "--out", tmp_path / "out")
    refused(said, "--sites", "8 for a cohort of 7 patients")
    assert not (tmp_path / "out").exists()


def test_the_way_of_the_docs(ecgfed: Callable[..., Any], parts: list[Path], tmp_path: Path) -> None:
    """Every command in a block under "Set it up", up to the first that listens or dials."""
    text = (Path(__file__).parents[2] / "docs" / "hospitals.md").read_text()
    text = text.partition("## Set it up")[2].partition("\n## ")[0]
    commands = [shlex.split(one)[1:] for one in re.findall(r"^ +(ecgfed federate .+)$", text, re.MULTILINE)]
    assert [("--prepare" in one, one[1]) for one in commands] == [
        (True, "server"),
        (True, "site"),
        (False, "server"),
        (False, "site"),
    ]
    server, site = tmp_path / "federation", tmp_path / "site"
    places = {"federation": server, "site": site, "cohort": parts[0], "keys": tmp_path / "keys"}
    commands = [[*one[:2], *(places.get(word, word) for word in one[2:])] for one in commands]
    for one in commands[:2]:
        assert ecgfed(*one).code == 0
    (tmp_path / "keys").mkdir()
    for name in ("north", "south", "west"):
        ecgfed("federate", "site", tmp_path / name, "--cohort", parts[0], "--prepare")
        shutil.copyfile(tmp_path / name / "key.pub", tmp_path / "keys" / f"{name}.pub")
    assert ecgfed(*commands[2], "--prepare").code == 0, "the third command says something else than the first"


def test_a_certificate_that_sites_would_refuse(
    ecgfed: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that is given too late, and a folder that has lain for three years."""
    from ecgfed.network import certificates

    server = ("federate", "server", tmp_path / "server", "--prepare")
    assert ecgfed(*server).code == 0
    assert ecgfed(*server, "--name", "localhost").code == 0
    refused(ecgfed(*server, "--name", "fed.example.org"), "--name: fed.example.org", "127.0.0.1, localhost", "remove")
    monkeypatch.setattr(certificates, "DAYS", 0)
    old = ("federate", "server", tmp_path / "old", "--prepare")
    refused(ecgfed(*old), "server.crt", "has expired")


@pytest.mark.parametrize("out", [".", "..", "../.."])
def test_a_trial_never_removes_its_cohort(
    out: str, ecgfed: Callable[..., Any], parts: list[Path], tmp_path: Path
) -> None:
    cohort = tmp_path / "own" / "site-1" / "cohort"
    shutil.copytree(parts[0], cohort)
    for folder in (cohort.parent, cohort.parent.parent):  # what looks like a folder of ours may be replaced
        shutil.copyfile(parts[0] / "cohort.json", folder / "cohort.json")
    said = ecgfed("federate", "try", cohort, "--sites", 2, "--out", cohort / out, "--overwrite")
    refused(said, "--out", "the cohort", "nothing was removed")
    assert open_cohort(cohort).clients


def test_what_cannot_be_divided_removes_nothing(ecgfed: Callable[..., Any], parts: list[Path], tmp_path: Path) -> None:
    shutil.copytree(parts[0], tmp_path / "before")
    said = ecgfed("federate", "try", parts[0], "--sites", 8, "--out", tmp_path / "before", "--overwrite")
    refused(said, "--sites", "8 for a cohort of 2 patients")
    assert open_cohort(tmp_path / "before").clients


def test_a_folder_that_would_take_path_apart(ecgfed: Callable[..., Any], parts: list[Path], tmp_path: Path) -> None:
    """Flower would find its own programs, which run the code of whoever the server is."""
    from ecgfed.network.certificates import make_certificates

    make_certificates(tmp_path / "tls", [])
    dial = ("--server", "127.0.0.1:9", "--ca", tmp_path / "tls" / "ca.crt")
    refused(ecgfed("federate", "site", tmp_path / "a:b" / "site", "--cohort", parts[0], *dial), "a:b", "in its path")


def test_a_site_folder_of_another_cohort(ecgfed: Callable[..., Any], parts: list[Path], tmp_path: Path) -> None:
    ecgfed("federate", "site", tmp_path / "site", "--cohort", parts[0], "--prepare")
    said = ecgfed("federate", "site", tmp_path / "site", "--cohort", parts[1], "--prepare")
    refused(said, "--cohort", str(parts[0]))


def test_a_divided_cohort_is_the_whole_one(whole: Cohort, cohort_of: Callable[[int], Cohort]) -> None:
    import numpy as np

    cohorts = [cohort_of(place) for place in range(3)]
    assert [client.id for one in cohorts for client in one.clients] == [client.id for client in whole.clients]
    for name in ("beats", "rr", "label", "sample", "split", "flags"):
        assert (np.concatenate([one.arrays[name] for one in cohorts]) == whole.arrays[name]).all()
    records = [one.meta["records"][number]["name"] for one in cohorts for number in one.record]
    assert records == [whole.meta["records"][number]["name"] for number in whole.record]
    counts = [sum(one.meta["class_counts"][name] for one in cohorts) for name in whole.classes]
    assert counts == [whole.meta["class_counts"][name] for name in whole.classes]


@pytest.mark.slow
@pytest.mark.parametrize("method", PROMISED)
def test_real_processes(
    method: str, ecgfed: Callable[..., Any], whole: Cohort, alone: Callable[..., Any], tmp_path: Path
) -> None:
    """A SuperLink and three SuperNodes with TLS and keys end where one machine does, bit for bit."""
    out = tmp_path / "out"
    said = ecgfed(
        *("federate", "try", whole.path, "--out", out, "--method", method, "--rounds", 3, "--local-steps", 2), "--json"
    )
    assert said.code == 0, said.err
    result = json.loads(said.out)
    assert [site["patients"] for site in result["sites"]] == [2, 2, 3]
    run, one = open_run(out / "server" / "run"), alone(method, rounds=3, local_steps=2)
    assert same(run.state().server, one.state().server)
    assert (run.path / "history.jsonl").read_bytes() == (one.path / "history.jsonl").read_bytes()
    kept = one.state().client_states
    for place, first in enumerate((0, 2, 4)):
        site = open_run(out / f"site-{place + 1}" / "result").state()
        assert all(same(site.client_states[index], kept[first + index]) for index in site.client_states)
        assert (out / f"site-{place + 1}" / "bundle" / "manifest.json").is_file()
    status = json.loads(ecgfed("federate", "status", out / "server", "--json").out)
    assert status["round"] == 3
    assert {leaf["way"] for leaf in status["leaves"]} == {"down", "up", "end"}
    log = json.loads(ecgfed("federate", "audit", out / "site-1", "--json").out)
    assert [line["answer"] for line in log["lines"]] == ["registration", "update", "update", "update", "end"]
    assert (out / "site-1" / "server-seen").is_file()  # as its SuperNode heard the server answer


@pytest.mark.slow
def test_a_trial_does_not_wait_for_a_site_that_ended(
    ecgfed: Callable[..., Any], whole: Cohort, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ecgfed.network import federate

    start, begun = federate.start_supernode, []

    def start_one(*given: Any) -> subprocess.Popen[bytes]:
        begun.append(given)
        if len(begun) == 2:
            return subprocess.Popen([sys.executable, "-c", "raise SystemExit(3)"], start_new_session=True)
        return start(*given)

    monkeypatch.setattr(federate, "start_supernode", start_one)
    out = tmp_path / "out"
    said = ecgfed("federate", "try", whole.path, "--out", out, "--rounds", 1, "--local-steps", 1)
    assert said.code == 2
    assert f"{out / 'site-2'}: its process ended with code 3 before the run was finished" in said.error_lines[-1]
    assert not (out / "server" / "result.json").exists()


@pytest.mark.slow
def test_a_key_that_nobody_knows_is_not_let_in(parts: list[Path], tmp_path: Path) -> None:
    """The SuperLink refuses a SuperNode whose key was not registered, and one that trusts another authority."""
    from ecgfed.network.certificates import make_certificates, make_site_key
    from ecgfed.network.control import Control
    from ecgfed.network.launch import (
        LOG,
        Address,
        free_port,
        server_flower,
        site_flower,
        start_superlink,
        start_supernode,
        stopping,
        wait_listening,
    )

    make_certificates(tmp_path / "tls", [])
    make_certificates(tmp_path / "other", [])
    here = Address("127.0.0.1", free_port())
    flower = server_flower(tmp_path / "server")
    processes = [start_superlink(flower, tmp_path / "tls", here.host, here.port)]
    with stopping(processes):
        wait_listening(processes[0], here, tmp_path / "server" / LOG)
        with Control(str(here), tmp_path / "tls" / "ca.crt") as control:
            names = control.register({"known": make_site_key(tmp_path / "known")})
            assert list(names.values()) == ["known"]
            assert control.register({"known": tmp_path / "known.pub"}) == names
            make_site_key(tmp_path / "stranger")
            for name, ca in (("stranger", "tls"), ("known", "other")):
                process = start_supernode(
                    site_flower(tmp_path / f"site-{name}", tmp_path / name),
                    here,
                    tmp_path / ca / "ca.crt",
                    tmp_path / name,
                )
                processes.append(process)
                if name == "stranger":
                    process.wait(120)  # Flower ends it with code 0, as after Ctrl-C
            assert control.online() == set()
            stranger = httpx_status(here, tmp_path / "tls" / "ca.crt")
            assert stranger != 200


def httpx_status(here: Any, ca: Path) -> int:
    """A message pulled without any key."""
    import httpx

    context = ssl.create_default_context(cafile=str(ca))
    return httpx.post(f"https://{here}/v1/fleet/pull-messages", content=b"", verify=context).status_code
