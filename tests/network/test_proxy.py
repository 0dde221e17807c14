"""A hospital's proxy stands between a site and the server, and never between programs of one machine."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from needs import flower

flower()

from ecgfed.network.certificates import make_certificates
from ecgfed.network.control import Control
from ecgfed.network.errors import NetworkError
from ecgfed.network.launch import Flower

NAMES = ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "ALL_PROXY")


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """A proxy that is set for everything."""
    with socket.create_server(("127.0.0.1", 0)) as one:
        for name in NAMES:
            monkeypatch.setenv(name, f"http://127.0.0.1:{one.getsockname()[1]}")
        for name in ("no_proxy", "NO_PROXY"):
            monkeypatch.delenv(name, raising=False)
        one.settimeout(0.1)
        yield one


def nobody_asked(proxy: socket.socket) -> None:
    with pytest.raises(TimeoutError):
        proxy.accept()


def test_a_site_s_own_programs_ask_no_proxy(proxy: socket.socket, tmp_path: Path) -> None:
    """What Flower's ClientApp hands its SuperNode is plain HTTP."""
    code = (
        "import httpx, sys\ntry:\n    httpx.get('http://127.0.0.1:9')\nexcept httpx.ConnectError:\n    print('direct')"
    )
    environment = Flower(tmp_path, {}).environment
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.strip() == "direct"
    nobody_asked(proxy)


def test_a_server_asks_its_superlink_itself(proxy: socket.socket, tmp_path: Path) -> None:
    make_certificates(tmp_path / "tls", [])
    before = dict(os.environ)
    with (
        Control("127.0.0.1:9", tmp_path / "tls" / "ca.crt") as control,
        pytest.raises(NetworkError, match="does not answer"),
    ):
        control.online()
    nobody_asked(proxy)
    assert dict(os.environ) == before


def test_what_was_left_out_before_still_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("no_proxy", "fed.example.org")
    assert Flower(tmp_path, {}).environment["no_proxy"] == "fed.example.org,127.0.0.1,localhost,::1"
