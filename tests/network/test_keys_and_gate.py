"""Certificates and keys as OpenSSL and Flower take them; what the SuperLink answers to whom; no code of a run."""

import asyncio
import shutil
import socket
import ssl
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from needs import flower

flower()

import httpx
from flwr.supercore.primitives.asymmetric import public_key_to_bytes, uses_nist_ec_curve
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from ecgfed.base.errors import OptionError
from ecgfed.network.certificates import (
    check_certificate,
    check_public_key,
    make_certificates,
    make_site_key,
    read_site_key,
)
from ecgfed.network.control import Control, key_bytes
from ecgfed.network.processes import FleetOnly
from ecgfed.network.programs import REFUSED, RUN, write_programs


def test_two_first_starts_make_one_set_of_certificates(tmp_path: Path) -> None:
    threads = [threading.Thread(target=make_certificates, args=(tmp_path / "tls", ["a.org"])) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    shakes_hands(tmp_path / "tls", tmp_path / "tls" / "ca.crt", "a.org")


def shakes_hands(folder: Path, ca: Path, name: str) -> None:
    """A TLS handshake with Python's own client and server."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(folder / "server.crt", folder / "server.key")
    client = ssl.create_default_context(cafile=str(ca))
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            connection, _ = listening.accept()
            with connection:
                try:
                    server.wrap_socket(connection, server_side=True).close()
                except (ssl.SSLError, OSError):
                    return

        thread = threading.Thread(target=answer)
        thread.start()
        try:
            with (
                socket.create_connection(listening.getsockname(), 5) as raw,
                client.wrap_socket(raw, server_hostname=name),
            ):
                pass
        finally:
            thread.join()


def test_certificates(tmp_path: Path) -> None:
    names = ["fed.example.org", "192.0.2.7"]
    make_certificates(tmp_path / "tls", names)
    make_certificates(tmp_path / "other", names)
    for name in [*names, "localhost", "127.0.0.1"]:
        shakes_hands(tmp_path / "tls", tmp_path / "tls" / "ca.crt", name)
    with pytest.raises(ssl.SSLCertVerificationError, match="mismatch"):
        shakes_hands(tmp_path / "tls", tmp_path / "tls" / "ca.crt", "other.example.org")
    with pytest.raises(ssl.SSLCertVerificationError):
        shakes_hands(tmp_path / "tls", tmp_path / "other" / "ca.crt", "localhost")
    assert stat.S_IMODE((tmp_path / "tls" / "server.key").stat().st_mode) == 0o600
    assert not list((tmp_path / "tls").glob("ca*key*"))
    before = (tmp_path / "tls" / "server.crt").read_bytes()
    make_certificates(tmp_path / "tls", ["somewhere.else"])
    assert (tmp_path / "tls" / "server.crt").read_bytes() == before


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")
def test_openssl_agrees(tmp_path: Path) -> None:
    make_certificates(tmp_path, ["fed.example.org"])
    command = ["openssl", "verify", "-x509_strict", "-purpose", "sslserver", "-CAfile", "ca.crt", "server.crt"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "server.crt: OK", done.stderr


def test_site_keys(tmp_path: Path) -> None:
    public = make_site_key(tmp_path / "key")
    check_public_key(public)
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600
    key = read_site_key(tmp_path / "key")
    assert uses_nist_ec_curve(key.public_key())
    assert key_bytes(public) == public_key_to_bytes(key.public_key())
    before = (tmp_path / "key").read_bytes()
    make_site_key(tmp_path / "key")
    assert (tmp_path / "key").read_bytes() == before


def test_a_public_key_of_another_pair(tmp_path: Path) -> None:
    """The server would be given a key that the site has not, and never let it in."""
    public, other = make_site_key(tmp_path / "key"), make_site_key(tmp_path / "other")
    public.write_text(public.read_text().strip() + " north@example.org\n")
    assert make_site_key(tmp_path / "key") == public
    shutil.copyfile(other, public)
    with pytest.raises(OptionError, match="is not the public half of"):
        make_site_key(tmp_path / "key")


@pytest.mark.parametrize("content", [b"", b"no key", b"-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n", b"\x00" * 100])
def test_no_keys(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "file"
    file.write_bytes(content)
    for check in (read_site_key, check_public_key, check_certificate):
        with pytest.raises(OptionError, match="is no"):
            check(file)


@pytest.mark.parametrize("client", ["192.0.2.9", "10.0.0.1", "::ffff:192.0.2.9", "2001:db8::1", "testclient", None])
@pytest.mark.parametrize(
    "path", ["/v1/control/register-node", "/v1/runtime/acquire-task", "/docs", "/", "/v1/fleet", "/V1/FLEET/get-run"]
)
def test_other_machines_get_the_fleet_alone(client: str | None, path: str) -> None:
    """Registering a key, starting a run and taking its tasks are not for whoever reaches the port."""
    assert status(client, path) == 403
    assert status(client, "/v1/fleet/pull-messages") == 200
    for here in ("127.0.0.1", "::1"):
        assert status(here, path) == 200


def status(client: str | None, path: str) -> int:
    def anything(request: object) -> PlainTextResponse:
        return PlainTextResponse("yes")

    app = FleetOnly(Starlette(routes=[Route("/{path:path}", anything)]))
    transport = httpx.ASGITransport(app=_from(app, client))

    async def ask() -> int:
        async with httpx.AsyncClient(transport=transport, base_url="http://server") as asking:
            return (await asking.get(path)).status_code

    return asyncio.run(ask())


def _from(app: FleetOnly, client: str | None):  # type: ignore[no-untyped-def]
    async def given(scope, receive, send) -> None:  # type: ignore[no-untyped-def]
        await app({**scope, "client": None if client is None else (client, 5)}, receive, send)

    return given


def test_programs_run_what_is_installed(tmp_path: Path) -> None:
    """A program that would run a stranger's code ends at once, whatever it is given."""
    write_programs(tmp_path / "bin")
    assert {path.name for path in (tmp_path / "bin").iterdir()} == {*RUN, *REFUSED}
    for name in REFUSED:
        done = subprocess.run([tmp_path / "bin" / name, "--token", "x"], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.strip() == f"ecgfed: {name}: this program is disabled"


def test_a_client_app_of_a_run_is_not_loaded() -> None:
    """What Flower would unpack and import is never touched: the app is the installed one."""
    code = """
import sys
from ecgfed.network import processes
import flwr.supernode.cli as cli
found = []
cli.flwr_clientapp = lambda: found.append(True)
processes._clientapp()
module = sys.modules["flwr.supernode.runtime.run_clientapp"]
assert module.install_from_fab(b"a stranger's archive", skip_prompt=True) is None
app = module.get_load_client_app_fn(default_app_ref="", app_path=None, multi_app=True)("a", "b", "c")
from ecgfed.network.client_app import app as ours
assert app is ours and found
print("ours")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "ours"


def test_two_sites_with_one_key(tmp_path: Path) -> None:
    public = make_site_key(tmp_path / "key")
    shutil.copyfile(public, tmp_path / "copy.pub")
    make_certificates(tmp_path / "tls", [])
    with (
        Control("127.0.0.1:9", tmp_path / "tls" / "ca.crt") as control,
        pytest.raises(OptionError, match="hold the same key"),
    ):
        control.register({"north": public, "south": tmp_path / "copy.pub"})
