"""The container files against the repository: commands, options, paths and versions. Nothing here builds them."""

import re
import shlex
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
