"""Where a server listens: one address or all of a kind; its own programs reach it there, and nobody else is let in."""

import asyncio
import json
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from needs import flower

flower()

from test_federate_command import refused
from test_keys_and_gate import shakes_hands

from ecgfed.network.launch import Address, read_address
from ecgfed.network.listening import Listening
from ecgfed.network.processes import FleetOnly


@pytest.mark.parametrize("host", ["localhost", "nowhere.example.org", "fe80::1%eth0", "ff02::1", "[::]", "1.2.3", ""])
def test_what_is_no_address(host: str, ecgfed: Callable[..., Any], tmp_path: Path) -> None:
    said = ecgfed("federate", "server", tmp_path / "server", "--host", host, "--prepare")
    refused(said, "--host", "an IPv4 or IPv6 address of this machine")
    assert not (tmp_path / "server").exists()


@pytest.mark.parametrize(
    "name",
    [
        "fed.example.org:9092",
        "https://fed.example.org",
        "[2001:db8::7]",
        "fe80::1%eth0",
        "fed.example.org ",
        "a..b",
        "",
    ],
)
def test_a_name_that_no_site_would_know_the_server_by(name: str, ecgfed: Callable[..., Any], tmp_path: Path) -> None:
    """A certificate for it could be made, and every site would dial in vain."""
    said = ecgfed("federate", "server", tmp_path / "server", "--name", name, "--prepare")
    refused(said, "--name", repr(name), "without https://, port or brackets")
    assert not (tmp_path / "server").exists()


@pytest.mark.parametrize("name", ["fed", "fed.example.org", "*.example.org", "fed_1.local", "192.0.2.7", "2001:db8::7"])
def test_a_name_that_a_certificate_may_have(name: str) -> None:
    assert Listening(names=(name,)).names == (name,)


@pytest.mark.parametrize(("host", "here"), [("::", "::1"), ("0:0:0:0:0:0:0:0", "::1"), ("0.0.0.0", "127.0.0.1")])
def test_everywhere_is_reached_at_the_loopback(host: str, here: str) -> None:
    assert Listening(host).local_address.host == here


@pytest.mark.parametrize("host", ["192.0.2.77", "2001:db8::77"])
def test_an_address_of_another_machine(
    host: str, ecgfed: Callable[..., Any], parts: list[Path], tmp_path: Path
) -> None:
    ecgfed("federate", "site", tmp_path / "site", "--cohort", parts[0], "--prepare")
    said = ecgfed("federate", "server", tmp_path / "server", "--sites", 1, "--keys", tmp_path / "site", "--host", host)
    refused(said, "--host", "cannot listen at", host, "an address of this machine")
    assert not (tmp_path / "server").exists()


@pytest.mark.parametrize(
    ("host", "here"),
    [
        ("0.0.0.0", "127.0.0.1:9092"),
        ("::", "[::1]:9092"),
        ("192.0.2.7", "192.0.2.7:9092"),
        ("2001:db8::7", "[2001:db8::7]:9092"),
    ],
)
def test_the_certificate_is_good_where_its_own_programs_dial(
    host: str, here: str, ecgfed: Callable[..., Any], tmp_path: Path
) -> None:
    assert str(Listening(host).local_address) == here
    assert read_address(here).port == 9092
    assert ecgfed("federate", "server", tmp_path / "server", "--host", host, "--prepare").code == 0
    tls = tmp_path / "server" / "tls"
    shakes_hands(tls, tls / "ca.crt", Listening(host).local_address.host)
    said = ecgfed("federate", "server", tmp_path / "server", "--host", "192.0.2.8", "--prepare")
    refused(said, "--host: 192.0.2.8; expected one of", "send the new ca.crt")


def test_an_address_as_text() -> None:
    assert [str(Address(host, 1)) for host in ("::1", "[::1]", "127.0.0.1", "a.b")] == [
        "[::1]:1",
        "[::1]:1",
        "127.0.0.1:1",
        "a.b:1",
    ]


@pytest.mark.parametrize(
    ("client", "server", "let_in"),
    [
        ("127.0.0.1", "127.0.0.1", True),
        ("::1", "::1", True),
        ("192.0.2.7", "192.0.2.7", True),  # the server's own programs, where it listens at this address alone
        ("2001:db8::7", "2001:db8:0::7", True),
        ("192.0.2.8", "192.0.2.7", False),
        ("2001:db8::8", "2001:db8::7", False),
        ("192.0.2.7", None, False),
        ("nobody", "nobody", False),
    ],
)
def test_who_is_on_this_machine(client: str, server: str | None, let_in: bool) -> None:
    said: list[int] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        said.append(200)

    async def send(message: Any) -> None:
        said.extend([message["status"]] if "status" in message else [])

    scope = {"type": "http", "path": "/v1/control/start-run", "client": (client, 5)}
    if server is not None:
        scope["server"] = (server, 9092)
    asyncio.run(FleetOnly(app)(scope, None, send))  # type: ignore[arg-type]
    assert said == [200 if let_in else 403]


def own_address() -> str:
    """An address of this machine that is not the loopback's; nothing is sent for it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        try:
            one.connect(("192.0.2.1", 9))
            return str(one.getsockname()[0])
        except OSError:
            return ""


@pytest.mark.slow
@pytest.mark.parametrize("host", ["::", "::1", "own"])
def test_real_processes_at_one_address(
    host: str, parts: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A SuperLink, two SuperNodes, TLS and keys; at the address where nobody else than it listens."""
    from ecgfed.network import federate
    from ecgfed.network.config import FederationConfig
    from ecgfed.network.launch import free_port, site_flower, start_supernode, stopping

    host = own_address() if host == "own" else host
    if not host or host.startswith("127."):
        pytest.skip("this machine has no address but the loopback's")
    listening = Listening(host, free_port())
    asked, server, keys = FederationConfig(2, "fedavg", rounds=1, local_steps=1), tmp_path / "server", tmp_path / "keys"
    ca = federate.prepare_server(server, asked, listening)
    keys.mkdir()
    dialling: list[Any] = []
    sites = [tmp_path / f"site-{number}" for number in range(2)]
    for site, cohort in zip(sites, parts, strict=False):
        federate.prepare_site(site, cohort)
        shutil.copyfile(site / "key.pub", keys / f"{site.name}.pub")

    def dial() -> None:
        if host != "::":
            with pytest.raises(OSError), socket.create_connection(("127.0.0.1", listening.port), 2):  # noqa: PT011
                pass
        address, root = listening.local_address, ca.resolve()
        dialling.extend(start_supernode(site_flower(site, site / "key"), address, root, site / "key") for site in sites)

    with stopping(dialling):
        found = federate.run_server(server, asked, [keys], listening, on_listening=dial)
    assert [site["site"] for site in found["sites"]] == ["site-0", "site-1"]
    assert json.loads((server / "ended.json").read_text()) == {"problem": ""}
    assert all((site / "bundle" / "manifest.json").is_file() for site in sites)


def test_no_port_is_given_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """The system may give a port again until somebody listens at it: three sites of one machine once had two."""
    from ecgfed.network import launch

    offered = iter([50001, 50001, 50001, 50002])

    class Socket:
        def __enter__(self) -> "Socket":
            return self

        def __exit__(self, *_: object) -> None: ...

        def bind(self, _: object) -> None: ...

        def getsockname(self) -> tuple[str, int]:
            return "127.0.0.1", next(offered)

    monkeypatch.setattr(launch.socket, "socket", Socket)
    monkeypatch.setattr(launch, "_ASSIGNED_PORTS", set())
    assert [launch.free_port(), launch.free_port()] == [50001, 50002]
