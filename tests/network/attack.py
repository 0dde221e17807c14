"""Whoever reaches a server's port: a running server with two keys, and raw requests of a site or a stranger to it."""

import contextlib
import resource
import shutil
import socket
import ssl
import threading
import time
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
from cryptography.hazmat.primitives.asymmetric import ec
from flwr.proto.fleet_pb2 import ActivateNodeRequest, DeactivateNodeRequest
from flwr.supercore.primitives.asymmetric import public_key_to_bytes, sign_message
from flwr.supernode.fleet_http_client import FleetHttpClient
from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor

from ecgfed.network import federate
from ecgfed.network.certificates import make_site_key, read_site_key
from ecgfed.network.config import FederationConfig
from ecgfed.network.launch import free_port
from ecgfed.network.listening import Listening
from ecgfed.tasks.progress import ProgressReporter


class Notes(ProgressReporter):
    """Keeps what a program reports."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def note(self, text: str) -> None:
        self.lines.append(text)

    def warn(self, text: str) -> None:
        self.lines.append(text)


@dataclass
class Attacked:
    """A running server and what it says.

    Attributes:
        keys: name -> private key of a site that the server knows.
    """

    folder: Path
    port: int
    ca: Path
    keys: dict[str, ec.EllipticCurvePrivateKey]
    notes: Notes = field(default_factory=Notes)
    outcome: dict[str, Any] = field(default_factory=dict)
    proxied: bool = False
    thread: threading.Thread | None = None

    def tls(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.ca))

    def connect(self, *, handshake: bool = True) -> socket.socket:
        raw = socket.create_connection(("127.0.0.1", self.port), 10)
        return self.tls().wrap_socket(raw, server_hostname="localhost") if handshake else raw

    def client(self, name: str) -> FleetHttpClient:
        """What Flower's own SuperNode sends with."""
        key = self.keys[name]
        return FleetHttpClient.from_server_address(
            f"localhost:{self.port}", False, str(self.ca), [NodeAuthHttpInterceptor(key, key.public_key())]
        )

    def activate(self, name: str, node: int = 0) -> int:
        """Connect a site, and return its node; one that is connected ends that connection first."""
        public = public_key_to_bytes(self.keys[name].public_key())
        with contextlib.closing(self.client(name)) as client:
            if node:
                client.DeactivateNode(DeactivateNodeRequest(node_id=node))
            request = ActivateNodeRequest(public_key=public, heartbeat_interval=1800)
            return int(client.ActivateNode(request).node_id)

    def reached(self, name: str) -> bool:
        """Whether a request of a site is answered, within a few seconds."""
        url = f"https://localhost:{self.port}/v1/fleet/preflight"
        return httpx.post(url, headers=signed(self.keys[name]), verify=self.tls(), timeout=5).status_code == 200


def signed(key: ec.EllipticCurvePrivateKey, **others: str) -> dict[str, str]:
    """Return Flower's signed headers; ``others`` replace or add some, underscores for hyphens."""
    at = datetime.now(UTC).isoformat()
    headers = {
        "content-type": "application/protobuf",
        "flwr-public-key": b64encode(public_key_to_bytes(key.public_key())).decode(),
        "flwr-timestamp": at,
        "flwr-signature": b64encode(sign_message(key, at.encode())).decode(),
    }
    return headers | {name.replace("_", "-"): value for name, value in others.items()}


def head(path: str, headers: Mapping[str, str]) -> bytes:
    """Return the head of a POST request."""
    lines = [f"POST {path} HTTP/1.1", "host: localhost", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode()


def status_of(connection: socket.socket, timeout_s: float = 15.0) -> int:
    """Return the status that comes; 0 where the connection ends without one. Raises TimeoutError."""
    connection.settimeout(timeout_s)
    try:
        line = connection.recv(4096)
    except (ConnectionError, ssl.SSLError):
        return 0
    return int(line.split()[1]) if line.startswith(b"HTTP/") else 0


@contextlib.contextmanager
def attacked(
    folder: Path, *, names: Sequence[str] = ("a", "b"), config: FederationConfig | None = None, **options: Any
) -> Iterator[Attacked]:
    """Run a server for sites, ``a`` and ``b``, of which only the keys exist."""
    server, keys = folder / "server", folder / "keys"
    keys.mkdir(parents=True)
    private = {}
    for name in names:
        public = make_site_key(folder / name / "key")
        shutil.copyfile(public, keys / f"{name}.pub")
        private[name] = read_site_key(folder / name / "key")
    config = config or FederationConfig(len(names), "fedavg", rounds=1, local_steps=1)
    listening = Listening("127.0.0.1", free_port(), ("fed.example.org",))
    ca = federate.prepare_server(server, config, listening)
    made, listens, ends = Attacked(server, listening.port, ca, private), threading.Event(), threading.Event()

    def run() -> None:
        try:
            made.outcome["result"] = federate.run_server(
                server,
                config,
                [keys],
                listening,
                progress=made.notes,
                should_stop=ends.is_set,
                on_listening=listens.set,
                **options,
            )
        except BaseException as problem:
            made.outcome["problem"] = problem
        finally:
            listens.set()

    made.thread = thread = threading.Thread(target=run)
    thread.start()
    try:
        assert listens.wait(120)
        assert not made.outcome, made.outcome
        yield made
    finally:
        ends.set()
        thread.join(60)


def processes(made: Attacked) -> dict[int, str]:
    """The server's programs: process -> command line, of those that name the folder of its run."""
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            variables = (path / "environ").read_bytes().split(b"\0")
            if f"ECGFED_SERVER={made.folder.resolve()}".encode() in variables:
                found[int(path.name)] = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode()
    return found


def memory_mib(made: Attacked) -> dict[str, float]:
    """Resident memory of each of the server's programs, by its command line."""
    found = {}
    for process, command in processes(made).items():
        with contextlib.suppress(OSError):
            pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
            found[f"{process} {command}"] = pages * resource.getpagesize() / (1 << 20)
    return found


def own_memory_mib(made: Attacked) -> dict[str, float]:
    """The same without what processes share: libraries count in proportion (Pss of ``smaps_rollup``)."""
    found = {}
    for process, command in processes(made).items():
        with contextlib.suppress(OSError):
            text = Path(f"/proc/{process}/smaps_rollup").read_text()
            found[f"{process} {command}"] = int(text.partition("\nPss:")[2].split()[0]) / 1024
    return found


def network_mib(made: Attacked) -> float:
    """Resident memory of the programs that the network reaches."""
    used = memory_mib(made).items()
    return sum(mib for command, mib in used if "superlink" in command.partition(" --")[0] or "haproxy" in command)


def log_bytes(made: Attacked) -> int:
    """Size of the server's logs."""
    return sum(
        file.stat().st_size
        for file in (*made.folder.glob("flower*.log"), made.folder / "messages.txt")
        if file.exists()
    )


def until(what: Any, timeout_s: float = 60.0) -> Any:
    """Return what a function returns as soon as it is true."""
    end = time.monotonic() + timeout_s
    while not (found := what()):
        assert time.monotonic() < end, "it does not come"
        time.sleep(0.2)
    return found
