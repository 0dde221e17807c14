"""The container files against the repository: commands, options, paths and versions. Nothing here builds them."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest

yaml = pytest.importorskip("yaml", reason="needs PyYAML, which torch's exporter brings along where tests run")

import typer
from ecgfed_cli.main import app

from ecgfed.network.config import ListeningOptions

ROOT = Path(__file__).parent.parent.parent
FOLDER = ROOT / "containers"
DOCKERFILES = sorted(FOLDER.glob("*.Dockerfile"))
COMPOSE: dict[str, Any] = yaml.safe_load((FOLDER / "compose.yaml").read_text())
GROUP: Any = typer.main.get_command(app)


def instructions(file: Path) -> list[tuple[str, str]]:
    """A Dockerfile's instructions, continued lines joined."""
    text = re.sub(r"\\\n", " ", file.read_text())
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(name, rest.strip()) for name, _, rest in (line.partition(" ") for line in lines)]


def of(file: Path, name: str) -> list[str]:
    return [rest for one, rest in instructions(file) if one == name]


def commands() -> list[tuple[str, list[str]]]:
    """Every command of ecgfed in the container files: where it stands, its words after ``ecgfed``."""
    found = [(file.name, yaml.safe_load(of(file, "CMD")[0])) for file in DOCKERFILES]
    for name, service in COMPOSE["services"].items():
        if service.get("entrypoint") == ["sh", "-c"]:
            parts = [shlex.split(part) for line in service["command"] for part in re.split(r"&&|\|\|", line)]
            found += [(name, words[1:]) for words in parts if words[0] == "ecgfed"]
        else:
            found.append((name, [str(word) for word in service["command"]]))
    return found


def parsed(words: list[str]) -> dict[str, Any]:
    """What a command's own parser makes of its words; an option that it does not have is an error."""
    command, rest = GROUP, list(words)
    while hasattr(command, "commands"):
        command = command.commands[rest.pop(0)]
    with command.make_context(command.name, rest, resilient_parsing=False) as context:
        return dict(context.params)


@pytest.mark.parametrize(("where", "words"), commands(), ids=lambda value: value if isinstance(value, str) else "")
def test_a_command_is_one_of_ours(where: str, words: list[str]) -> None:
    assert parsed(words)


def test_what_is_no_command_is_found() -> None:
    for words in (["federate", "server", "/data", "--sides", "3"], ["federate", "site", "/data", "--cohort"]):
        with pytest.raises(Exception, match=r"[Nn]o such option|requires an argument"):
            parsed(words)
    with pytest.raises(KeyError):
        parsed(["federate", "serve"])


def test_commands_fit_together() -> None:
    """The server is prepared as it is started; every site dials the name and port at which it listens."""
    by_service: dict[str, list[dict[str, Any]]] = {}
    for name, words in commands():
        if name in COMPOSE["services"] and words[0] == "federate":
            by_service.setdefault(name, []).append(parsed(words))
    (prepared,), (server,) = by_service["prepare-server"], by_service["server"]
    assert all(prepared[name] == server[name] for name in ("folder", "sites", "name", "method", "rounds"))
    assert (prepared["prepare"], server["prepare"]) == (True, False)
    sites, port = (
        [name for name in by_service if re.fullmatch(r"site-\d", name)],
        server["port"] or ListeningOptions().port,
    )
    assert len(sites) == server["sites"]
    for name in sites:
        (site,) = by_service[name]
        assert site["server"] == f"server:{port}"
        assert site["server"].partition(":")[0] in server["name"]
        (before,) = by_service[f"prepare-{name}"]
        assert (site["folder"], site["cohort"]) == (before["folder"], before["cohort"])
        own = f"{name}:/data"
        assert own in COMPOSE["services"][name]["volumes"]
        assert own in COMPOSE["services"][f"prepare-{name}"]["volumes"]
        assert f"/handover/keys/{name}.pub" in COMPOSE["services"][f"prepare-{name}"]["command"][0]
    assert of(FOLDER / "server.Dockerfile", "EXPOSE") == [str(port)]


@pytest.mark.parametrize("name", sorted(COMPOSE["services"]))
def test_a_service_has_no_more_than_it_needs(name: str) -> None:
    service = COMPOSE["services"][name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert "ports" not in service
    assert "privileged" not in service
    for volume in service["volumes"]:
        source, place, *mode = volume.split(":")
        assert source in COMPOSE["volumes"]
        assert place in ("/data", "/handover")
        if place == "/handover" and not name.startswith("prepare"):
            assert mode == ["ro"]
    others = {f"{other}:/data" for other in COMPOSE["services"]} - {f"{name.removeprefix('prepare-')}:/data"}
    assert not others & set(service["volumes"])
    build = service["build"]
    assert (FOLDER / build["context"]).resolve() == ROOT
    assert ROOT / build["dockerfile"] in DOCKERFILES
    assert set(service.get("depends_on", {})) <= set(COMPOSE["services"])
    assert COMPOSE["networks"] == {"federation": {"internal": True}}


@pytest.mark.parametrize("file", DOCKERFILES, ids=lambda file: file.name)
def test_a_dockerfile(file: Path) -> None:
    text = "\n".join(rest for _, rest in instructions(file))
    (user,) = of(file, "USER")
    assert user.split(":")[0] not in ("0", "root")
    assert [name for name, _ in instructions(file)].index("USER") > max(
        place for place, (name, _) in enumerate(instructions(file)) if name == "RUN"
    )
    assert f"chown {user} /data" in text
    for line in of(file, "COPY"):
        *sources, _ = line.split()
        assert all((ROOT / source).exists() for source in sources), line
    installs = [line for line in of(file, "RUN") if "pip install" in line]
    assert "--require-hashes" in installs[0]
    assert "--no-deps" in installs[1]
    index = re.search(r"CPU_INDEX := (\S+)", (ROOT / "Makefile").read_text())
    assert index is not None
    assert index[1] in installs[0]
    assert of(file, "ENTRYPOINT") == ['["ecgfed"]']


def test_versions_are_ours() -> None:
    """The Python of the image is one that the locks are for; Flower's and torch's versions are those of the tests."""
    project = (ROOT / "pyproject.toml").read_text()
    oldest = re.search(r'requires-python = ">=3\.(\d+)"', project)
    assert oldest is not None
    lock = (ROOT / "constraints" / "lock-flower.txt").read_text()
    (wanted,) = re.findall(r"^flwr==(\S+)$", (ROOT / "constraints" / "flower.in").read_text(), re.MULTILINE)
    assert re.search(rf"^flwr=={re.escape(wanted)} ", lock, re.MULTILINE)
    assert re.search(r"^setuptools==", lock, re.MULTILINE), "pip builds ecgfed with what is installed"
    torch = (ROOT / "constraints" / "lock-cpu.txt").read_text()
    for file in DOCKERFILES:
        (base,) = of(file, "FROM")
        python = re.fullmatch(r"docker\.io/library/python:3\.(\d+)-slim", base)
        assert python is not None
        assert int(python[1]) >= int(oldest[1])
        assert f"python_full_version < '3.{int(python[1]) + 1}'" in torch


def test_compose_file_fits_its_schema() -> None:
    words = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec"]
    if subprocess.run([*words[:3], "--version"], capture_output=True, check=False).returncode:
        pytest.skip("needs check-jsonschema; where Flower is installed, its typer and click are too old for it")
    done = subprocess.run([*words, str(FOLDER / "compose.yaml")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


UNITS = sorted((FOLDER / "systemd").glob("*.service"))
OPTIONS = {
    "ecgfed-server.service": ["--sites", "3", "--name", "fed.example.org", "--method", "grp-fed", "--rounds", "50"],
    "ecgfed-site.service": ["--server", "fed.example.org:9092"],
}


def exec_start(unit: Path) -> list[str]:
    (line,) = [line for line in unit.read_text().splitlines() if line.startswith("ExecStart=")]
    program, *words = shlex.split(line.partition("=")[2])
    assert program == "/opt/ecgfed/bin/ecgfed"
    return [word for part in words for word in (OPTIONS[unit.name] if part == "$OPTIONS" else [part])]


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_a_unit_starts_a_command_of_ours(unit: Path) -> None:
    assert parsed(exec_start(unit))["metrics_port"] in (9101, 9102)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_a_unit_as_systemd_reads_it(unit: Path, tmp_path: Path) -> None:
    """With a program and files that are here: systemd-analyze looks whether the program may be executed."""
    text = unit.read_text().replace("/opt/ecgfed/bin/ecgfed", sys.executable)
    (tmp_path / unit.name).write_text(text)
    words = ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", str(tmp_path / unit.name)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    said = [line for line in done.stderr.splitlines() if unit.name in line]
    assert (done.returncode, said) == (0, [])


@pytest.mark.slow
def test_the_services_as_processes(tmp_path: Path) -> None:
    """The trial of ``compose.yaml`` without containers: each service's command, with folders in place of volumes."""
    pytest.importorskip("flwr")
    from ecgfed.network.launch import free_port

    port, ports = free_port(), {name: free_port() for name in COMPOSE["services"]}
    haproxy = shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin")
    (tmp_path / "handover").mkdir()

    def start(name: str) -> subprocess.Popen[str]:
        service, folder = COMPOSE["services"][name], tmp_path / name.removeprefix("prepare-")
        folder.mkdir(exist_ok=True)
        words = [str(word) for word in [*service.get("entrypoint", ["ecgfed"]), *service["command"]]]
        for before, after in (
            ("/data", str(folder)),
            ("/handover", str(tmp_path / "handover")),
            ("server:9092", f"localhost:{port}"),
            ("--name server", "--name localhost"),
        ):
            words = [word.replace(before, after) for word in words]
        words = [str(ports[name]) if word == "9101" else word for word in words]
        words = [
            "localhost" if word == "server" and words[place - 1] == "--name" else word
            for place, word in enumerate(words)
        ]
        if name == "server":
            words = [*words, "--port", str(port), "--host", "127.0.0.1"]
            words = [word if haproxy or word != "haproxy" else "none" for word in words]
        if name == "prepare-server":
            words[-1] = words[-1].replace("--prepare", "--host 127.0.0.1 --prepare")
        environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
        return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)

    for name in [name for name in COMPOSE["services"] if name.startswith("prepare")]:
        with start(name) as process:
            said = process.communicate(timeout=240)[0]
            assert process.returncode == 0, said
    running = {name: start(name) for name in COMPOSE["services"] if not name.startswith("prepare")}
    try:
        said = running["server"].communicate(timeout=500)[0]
        assert running["server"].returncode == 0, said
        assert len(json.loads((tmp_path / "server" / "server" / "result.json").read_text())["sites"]) == 3
        for name in ("site-1", "site-2", "site-3"):
            with urllib.request.urlopen(f"http://127.0.0.1:{ports[name]}/metrics", timeout=5) as answer:
                assert "ecgfed_results_total 1" in answer.read().decode()
    finally:
        for process in running.values():
            process.terminate()
            process.communicate(timeout=60)
    assert {running[name].returncode for name in running if name != "server"} <= {143, 130}
