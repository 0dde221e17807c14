"""Whoever reaches the port without a key neither fills memory, log or disk nor keeps a site out."""

import contextlib
import resource
import socket
import ssl
import subprocess
import time
import warnings
from base64 import b64encode
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from needs import flower, haproxy

flower()

from attack import Attacked, attacked, head, log_bytes, network_mib, signed, status_of, until
from cryptography.hazmat.primitives.asymmetric import ec
from flwr.supercore.primitives.asymmetric import sign_message

from ecgfed.network.certificates import make_certificates
from ecgfed.network.gate import PREFLIGHT
from ecgfed.network.launch import Address, free_port
from ecgfed.network.proxy import Proxy, find_haproxy
from ecgfed.network.refusals import counted

MIB = 1 << 20
PUSH = "/v1/fleet/push-object"


@pytest.fixture(scope="module", params=["haproxy", "none"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attacked]:
    if request.param == "haproxy":
        haproxy()
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))  # a stranger's, for 1,001 connections
    with attacked(tmp_path_factory.mktemp("attacked"), proxy=request.param) as made:
        made.proxied = request.param == "haproxy"
        yield made
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def needs_proxy(made: Attacked) -> None:
    if not made.proxied:
        pytest.skip("a SuperLink alone waits for every connection")


def refusals(made: Attacked) -> int:
    behind = Proxy(made.folder / "flower", "haproxy").refused().get("requests", 0) if made.proxied else 0
    return sum(counted(made.folder).values()) + behind


def test_unfinished_bodies(server: Attacked) -> None:
    """100 requests that announce 8 MiB and send all of it but a byte."""
    before, seen, open_ones = network_mib(server), refusals(server), []
    stranger, peak = ec.generate_private_key(ec.SECP384R1()), 0.0
    with contextlib.ExitStack() as stack:
        for number in range(100):
            # unsigned, with a key nobody knows, with a site's key and another's signature
            headers = [{}, signed(stranger), signed(server.keys["a"], flwr_signature="AAAA")][number % 3]
            connection = stack.enter_context(contextlib.closing(server.connect()))
            connection.settimeout(15)
            open_ones.append(connection)
            with contextlib.suppress(OSError):  # refused while it sends
                connection.sendall(head(PUSH, headers | {"content-length": str(8 * MIB)}))
                for _ in range(8 * 16 - 1):
                    connection.sendall(b"x" * (MIB // 16))
            peak = max(peak, network_mib(server))
        assert {status_of(connection) for connection in open_ones} <= {0, 401}
        assert server.reached("a")
    assert peak - before < 100, f"{peak - before:.0f} MiB"  # of 800 that were sent
    until(lambda: refusals(server) - seen >= 66, 30)


def test_a_body_in_the_names_of_a_site_is_read_for_some_time_only(server: Attacked) -> None:
    """A site that stops in the middle holds a slot of its own, and no other site's."""
    with contextlib.ExitStack() as stack:
        for _ in range(6):
            connection = stack.enter_context(contextlib.closing(server.connect()))
            connection.sendall(head(PUSH, signed(server.keys["b"]) | {"content-length": str(MIB)}) + b"x")
        assert status_of(connection) == 503  # the fifth and sixth
        assert server.reached("a")


def test_long_paths(server: Attacked) -> None:
    """One connection asks for long paths for ten seconds: the log stays bounded while the server runs."""
    end, before, asked, connection = time.monotonic() + 10, log_bytes(server), 0, None
    path = "/v1/fleet/" + "a" * 15_000
    while time.monotonic() < end:
        try:
            if connection is None:
                connection = server.connect()
            connection.sendall(head(path, {"content-length": "0"}))
            if status_of(connection) not in (404, 403):
                raise OSError
            asked += 1
        except OSError:
            if connection is not None:
                connection.close()
            connection = None
    assert asked > 20
    assert log_bytes(server) - before < MIB, f"{(log_bytes(server) - before) / MIB:.1f} MiB after {asked} requests"
    assert server.reached("a")


@pytest.mark.parametrize("handshake", [False, True])
def test_silent_connections(handshake: bool, server: Attacked) -> None:
    """1,001 of them, before or after TLS: sites get in, and they are gone after a while."""
    needs_proxy(server)
    before = network_mib(server)
    with contextlib.ExitStack() as stack:
        silent = []
        for _ in range(1001):
            with contextlib.suppress(OSError):
                silent.append(stack.enter_context(contextlib.closing(server.connect(handshake=handshake))))
        assert server.reached("a")
        assert server.reached("b")
        assert network_mib(server) - before < 128
        for connection in silent:  # each ends, with or without a word
            connection.settimeout(40)
            with contextlib.suppress(ConnectionError):
                while connection.recv(4096):
                    pass


def test_who_is_known_gets_in_where_strangers_fill_all_there_is(server: Attacked) -> None:
    """Addresses that no site has, together more connections than the server takes."""
    needs_proxy(server)
    assert server.reached("a")
    with contextlib.ExitStack() as stack:
        for number in range(4500):
            raw = stack.enter_context(contextlib.closing(socket.socket()))
            raw.bind((f"127.0.1.{1 + number % 20}", 0))
            raw.settimeout(2)
            with contextlib.suppress(OSError):
                raw.connect(("127.0.0.1", server.port))
        assert server.reached("a")
        assert server.reached("b")


@pytest.mark.parametrize(
    "path",
    [
        "/v1/control/list-nodes",
        "/v1/runtime/acquire-task",
        "/docs",
        "/",
        "/v1/fleet",
        "/v1/fleet/../control/list-nodes",
        "/v1/fleet/%2e%2e/control/list-nodes",
        "//v1/fleet/pull-messages",
        "/v1/fleet/pull-messages/",
        "/V1/fleet/pull-messages",
    ],
)
def test_nothing_but_the_sites_requests_is_passed_on(path: str, server: Attacked) -> None:
    """Not even to a site with its key, that says it is on the server's machine."""
    needs_proxy(server)
    headers = signed(server.keys["a"], x_forwarded_for="127.0.0.1", content_length="0")
    with contextlib.closing(server.connect()) as connection:
        connection.sendall(head(path, headers))
        assert status_of(connection) == 404
    with contextlib.closing(server.connect()) as connection:
        connection.sendall(head("/v1/fleet/pull-messages", headers).replace(b"POST", b"GET"))
        assert status_of(connection) == 404


def requests_of(*heads: bytes) -> Callable[[Attacked], Iterator[int]]:
    """Send each on a connection of its own; yields the statuses."""

    def send(made: Attacked) -> Iterator[int]:
        for one in heads:
            with contextlib.closing(made.connect()) as connection:
                with contextlib.suppress(OSError):  # refused while it sends
                    connection.sendall(one)
                yield status_of(connection)

    return send


def bytes_without_tls(*parts: bytes) -> Callable[[Attacked], Iterator[int]]:
    def send(made: Attacked) -> Iterator[int]:
        for part in parts:
            with contextlib.closing(made.connect(handshake=False)) as connection:
                connection.sendall(part)
                connection.shutdown(socket.SHUT_WR)
                yield status_of(connection)

    return send


def half_handshakes(made: Attacked) -> Iterator[int]:
    """A hundred that begin a handshake and stay."""
    with contextlib.ExitStack() as stack:
        for _ in range(100):
            connection = stack.enter_context(contextlib.closing(made.connect(handshake=False)))
            connection.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
        yield 200 if made.reached("a") else 500


def half_heads(made: Attacked) -> Iterator[int]:
    """Fifty that send a head byte by byte, and never end it."""
    with contextlib.ExitStack() as stack:
        slow = [stack.enter_context(contextlib.closing(made.connect())) for _ in range(50)]
        for part in (b"P", b"O", b"ST /v1/fleet/", b"pull-messages HTTP/1.1\r\nx: "):
            for connection in slow:
                with contextlib.suppress(OSError):
                    connection.sendall(part)
        yield 200 if made.reached("a") else 500


def old_tls(made: Attacked) -> Iterator[int]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    with contextlib.suppress(ssl.SSLError, OSError), contextlib.closing(made.connect(handshake=False)) as raw:
        context.wrap_socket(raw)
        yield 200
    yield 0


def of_a_site(
    change: Callable[[Attacked], dict[str, str]], *, body: bytes = b""
) -> Callable[[Attacked], Iterator[int]]:
    """Send a request whose headers are made from a site's keys."""

    def send(made: Attacked) -> Iterator[int]:
        with contextlib.closing(made.connect()) as connection:
            connection.sendall(head(f"/v1/fleet/{PREFLIGHT}", {"content-length": "0"} | change(made)) + body)
            yield status_of(connection)

    return send


def signed_at(made: Attacked, hours: float) -> dict[str, str]:
    """The headers of a site's request of another time, as somebody repeats them."""
    at = (datetime.now(UTC) + timedelta(hours=hours)).isoformat()
    signature = b64encode(sign_message(made.keys["a"], at.encode())).decode()
    return signed(made.keys["a"], flwr_timestamp=at, flwr_signature=signature)


def two_keys(made: Attacked) -> dict[str, str]:
    stranger = signed(ec.generate_private_key(ec.SECP384R1()))
    return stranger | {"Flwr-Public-Key": signed(made.keys["a"])["flwr-public-key"]}


def many_keys(made: Attacked) -> Iterator[int]:
    """Three hundred keys on one connection."""
    with contextlib.closing(made.connect()) as connection:
        for number in range(300):
            connection.sendall(head(PUSH, {"flwr-public-key": f"key{number}", "content-length": "0"}))
            yield (status := status_of(connection))
            if not status:  # closed
                connection.close()
                connection = made.connect()


UNSIGNED = head(PUSH, {"content-length": "0"})
#: What else a stranger may do, each over the network; none is answered with 200, and both sites are reached after it.
STRANGERS: dict[str, Callable[[Attacked], Iterator[int]]] = {
    "no TLS": bytes_without_tls(UNSIGNED),
    "bytes without a meaning": bytes_without_tls(bytes(range(256)) * 400),
    "half a handshake": half_handshakes,
    "half a head": half_heads,
    "an old version of TLS": old_tls,
    "the preface of HTTP/2": requests_of(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(64)),
    "gRPC": requests_of(head("/flwr.proto.Fleet/PullMessages", {"content-type": "application/grpc", "te": "trailers"})),
    "a thousand requests at once": requests_of(UNSIGNED * 1000),
    "a body in chunks": requests_of(head(PUSH, {"transfer-encoding": "chunked"}) + b"5\r\nhello\r\n" * 1000),
    "a chunk that never ends": requests_of(head(PUSH, {"transfer-encoding": "chunked"}) + b"ffffffffffffffff\r\nx"),
    "a length and chunks": requests_of(
        head(PUSH, {"content-length": "4", "transfer-encoding": "chunked"}) + b"0\r\n\r\n"
    ),
    "two lengths": requests_of(head(PUSH, {"content-length": "0", "Content-Length": "50"})),
    "a header of a megabyte": requests_of(head(PUSH, {"x": "a" * MIB})),
    "ten thousand headers": requests_of(head(PUSH, {f"x{number}": "a" for number in range(10_000)})),
    "control characters in a header": requests_of(head(PUSH, {"x": "a\x00\x1b[2J"})),
    "a web socket": requests_of(head(PUSH, {"upgrade": "websocket", "connection": "upgrade"}).replace(b"POST", b"GET")),
    "another method": requests_of(
        *(UNSIGNED.replace(b"POST", method) for method in (b"CONNECT", b"TRACE", b"X" * 500))
    ),
    "another host's address": requests_of(UNSIGNED.replace(b" /v1", b" http://169.254.169.254/v1")),
    "three hundred keys": many_keys,
    "a site's request of an hour ago": of_a_site(lambda made: signed_at(made, -1)),
    "a site's request of tomorrow": of_a_site(lambda made: signed_at(made, 24)),
    "a site's key and another's signature": of_a_site(
        lambda made: signed(made.keys["a"], flwr_signature=signed(made.keys["b"])["flwr-signature"])
    ),
    "a stranger's key and a site's": of_a_site(two_keys),
    "a site's key alone": of_a_site(lambda made: {"flwr-public-key": signed(made.keys["a"])["flwr-public-key"]}),
}


def test_there_are_ten_kinds() -> None:
    assert len(STRANGERS) >= 10


@pytest.mark.parametrize("kind", STRANGERS)
def test_a_stranger_of_a_kind(kind: str, server: Attacked) -> None:
    before, logs, expects_answer = network_mib(server), log_bytes(server), kind.startswith("half")
    statuses = set(STRANGERS[kind](server))
    assert statuses == {200} if expects_answer else statuses.isdisjoint({200, 500}), statuses
    assert server.reached("a")
    assert server.reached("b")
    assert network_mib(server) - before < 64
    assert log_bytes(server) - logs < MIB


@pytest.mark.parametrize("name", ["fed.example.org", "192.0.2.7", "*.example.org"])
def test_haproxy_reads_its_configuration(name: str, tmp_path: Path) -> None:
    """Whatever the certificate's names are, and whatever stands in the folder's."""
    haproxy()
    folder = tmp_path / 'a "b" $HOME c'
    program = find_haproxy("haproxy")
    assert program is not None
    make_certificates(folder / "tls", [name])
    for host in ("127.0.0.1", "::1", "0.0.0.0", "::"):
        proxy = Proxy(folder, program)
        proxy.write(folder / "tls", Address(host, free_port()), Address("127.0.0.1", free_port()), ["AAAA"])
        done = subprocess.run([*proxy.command, "-c"], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
