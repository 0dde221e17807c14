"""Starting and stopping Flower's programs for a folder: a SuperLink at the server, a SuperNode at a site."""

import contextlib
import errno
import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ecgfed.base.errors import OptionError, StorageError
from ecgfed.base.files import create_folder
from ecgfed.network.bounded_log import BoundedLog
from ecgfed.network.errors import NetworkError
from ecgfed.network.programs import PROXIED, SERVER, SITE, SITE_KEY, write_programs

FLOWER, LOG, OLD_LOG = "flower", "flower.log", "flower-old.log"
#: Seconds a program may take until it listens.
START_S = 90.0
_ADDRESS = re.compile(r"(?P<host>\[[0-9a-fA-F:]+\]|[A-Za-z0-9.-]+):(?P<port>\d{1,5})")


@dataclass(frozen=True)
class Address:
    """A server's address: ``host:port``."""

    host: str
    port: int

    def __str__(self) -> str:
        bare = ":" in self.host and not self.host.startswith("[")
        return f"[{self.host}]:{self.port}" if bare else f"{self.host}:{self.port}"


def read_address(text: str, option: str = "server") -> Address:
    """Read ``HOST:PORT``; raises OptionError."""
    match = _ADDRESS.fullmatch(text.strip())
    if match is None or not 1 <= int(match["port"]) <= 65535:
        raise OptionError(option, f"{text!r:.100}", "HOST:PORT, such as federation.example.org:9092")
    return Address(match["host"], int(match["port"]))


#: Ports that this process has already assigned.
_ASSIGNED_PORTS: set[int] = set()


def free_port() -> int:
    """Return a free port of this machine that this process has not assigned before.

    A program may start to listen a second after it was assigned its port; until then the system regards it as free.
    """
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = int(probe.getsockname()[1])
        if port not in _ASSIGNED_PORTS:
            _ASSIGNED_PORTS.add(port)
            return port


def check_free(port: int, host: str, option: str = "port") -> None:
    """Reject a port that cannot be used; raises OptionError."""
    if not 1 <= port <= 65535:
        raise OptionError(option, f"{port}", "1 to 65535")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host.strip("[]"), port))
    except OSError as problem:
        reason = f"cannot listen at {Address(host, port)} ({problem.strerror})"
        if problem.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
            action = "see 'ip address', or leave it out"
            raise OptionError("host", reason, "an address of this machine", action) from None
        raise OptionError(option, reason, "a free port of this machine", "choose another") from None


def without_proxy(environment: Mapping[str, str], *hosts: str) -> dict[str, str]:
    """Return the environment variables that exclude this machine's addresses from the proxy.

    The programs of a SuperNode talk plain HTTP to one another; a proxy could read updates and tokens. Connections to
    other machines still use the configured proxy.

    Args:
        environment: the environment variables.
        hosts: further addresses of this machine.
    """
    existing = environment.get("no_proxy") or environment.get("NO_PROXY") or ""
    bypassed = ",".join(filter(None, [existing, "127.0.0.1", "localhost", "::1", *hosts]))
    return {"no_proxy": bypassed, "NO_PROXY": bypassed}


class Flower:
    """Starts Flower's programs for one folder, with a separate home and PATH and without telemetry.

    Args:
        folder: the server's or a site's folder.
        variables: additional environment variables.
        hosts: addresses, besides loopback, at which the programs of this machine reach one another.
    """

    def __init__(self, folder: Path, variables: Mapping[str, str], *hosts: str) -> None:
        self.folder, self.home = folder, folder / FLOWER
        if os.pathsep in str(folder.resolve()):
            # it would split PATH, and Flower would start its original programs, which run code sent by the server
            reason = f"has {os.pathsep!r} in its path"
            raise OptionError(str(folder), reason, "a path without it", "choose another folder")
        create_folder(self.home)
        programs = self.home.resolve() / "bin"
        write_programs(programs)
        self._log = BoundedLog(folder / LOG, folder / OLD_LOG)
        self.environment = {
            **os.environ,
            **variables,
            **without_proxy(os.environ, *hosts),
            "PATH": f"{programs}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
            "FLWR_HOME": str(self.home.resolve()),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
            "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.5",
            "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1"),
            "PYTHONUNBUFFERED": "1",
        }

    def start(self, program: str, arguments: Sequence[str]) -> subprocess.Popen[bytes]:
        """Start one of Flower's programs in a process group of its own; its output goes to ``flower.log``.

        Raises:
            StorageError: the system refuses to start it.
        """
        executable = self.home.resolve() / "bin" / program
        try:
            process = subprocess.Popen(
                [str(executable), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=self.environment,
                start_new_session=True,
            )
        except OSError as problem:
            reason = f"cannot be started ({problem.strerror})"
            expected = "a folder that allows programs to start (a file system that is not mounted noexec)"
            raise StorageError(executable, reason, expected, "choose another folder") from problem
        if process.stdout is not None:
            self._log.follow(process.stdout)
        return process


@contextlib.contextmanager
def stopping(processes: list[subprocess.Popen[bytes]]) -> Iterator[None]:
    """Stop the processes and their children when the block ends."""
    try:
        yield
    finally:
        stop(processes)


def stop(processes: Sequence[subprocess.Popen[bytes]], grace_s: float = 8.0) -> None:
    """Terminate all processes at once, and kill the groups of those that do not end in time."""
    for process in processes:
        if process.poll() is None:
            process.terminate()
    deadline = time.monotonic() + grace_s
    for process in processes:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(max(0.1, deadline - time.monotonic()))
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)  # its process group, including its children
        process.wait()


def wait_listening(process: subprocess.Popen[bytes], address: Address, log: Path) -> None:
    """Wait until a program listens.

    Raises:
        NetworkError: it ended, or took too long.
    """
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise NetworkError("Flower", f"ended with code {process.returncode} at its start", action=f"see {log}")
        with contextlib.suppress(OSError), socket.create_connection((address.host.strip("[]"), address.port), 1.0):
            return
        time.sleep(0.2)
    raise NetworkError("Flower", f"does not listen at {address} after {START_S:.0f} s", action=f"see {log}")


def server_flower(folder: Path, *hosts: str, proxied: bool = False) -> Flower:
    """Return Flower's programs for a server's folder.

    Args:
        hosts: this machine's addresses.
        proxied: only a proxy on this machine reaches the SuperLink.
    """
    return Flower(folder, {SERVER: str(folder.resolve()), **({PROXIED: "1"} if proxied else {})}, *hosts)


def site_flower(folder: Path, key: Path) -> Flower:
    """Return Flower's programs for a site's folder; ``key`` is its private key."""
    return Flower(folder, {SITE: str(folder.resolve()), SITE_KEY: str(key.resolve())})


def start_superlink(flower: Flower, tls: Path, host: str, port: int) -> subprocess.Popen[bytes]:
    """Start a SuperLink with TLS that authenticates nodes by their keys."""
    return flower.start(
        "flower-superlink",
        [
            *("--host", host, "--port", str(port)),
            *("--ssl-ca-certfile", str(tls / "ca.crt")),
            *("--ssl-certfile", str(tls / "server.crt"), "--ssl-keyfile", str(tls / "server.key")),
            "--enable-supernode-auth",
            "--disable-runtime-dependency-installation",
            *("--database", str(flower.home.resolve() / "superlink.db")),
        ],
    )


def start_proxy(flower: Flower, command: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start HAProxy so that it ends with this process."""
    return flower.start("ecgfed-proxy", command)


def start_supernode(flower: Flower, server: Address, ca: Path, key: Path) -> subprocess.Popen[bytes]:
    """Start a SuperNode that connects to the server."""
    return flower.start(
        "flower-supernode",
        [
            *("--superlink", str(server), "--root-certificates", str(ca)),
            *("--auth-supernode-private-key", str(key)),
            *("--host", "127.0.0.1", "--port", str(free_port())),
        ],
    )
