"""Start Flower's programs so that they run this package's apps and never code received over the network.

A Flower run is submitted with its code, which a SuperNode unpacks and runs. Here server and sites run only their
installed packages and ignore the submitted code. The SuperLink accepts the sites' requests from any machine, and all
other requests (start runs, register keys, tasks) only from its own machine.

Usage: ``python -m ecgfed.network.processes PROGRAM ARGUMENTS``. Flower starts its programs by name, so the scripts of
``ecgfed.network.programs`` come first in ``PATH``.
"""

import contextlib
import ctypes
import os
import resource
import signal
import sys
from collections.abc import Callable
from importlib import import_module
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from ecgfed.network.bounds import ASGIApp, Receive, Scope, Send, UploadLimit, refuse
from ecgfed.network.programs import BOUND, PROXIED, SERVER, SITE
from ecgfed.network.warm import Warm, wait_for_messages

#: Path prefix of the sites' API; all other paths are local only.
FLEET = "/v1/fleet/"
#: Longest head of a request that is read, bytes.
MAX_HEAD_BYTES = 1 << 14
_PR_SET_PDEATHSIG = 1


class FleetOnly:
    """ASGI middleware that restricts other machines to the sites' API.

    Args:
        app: the SuperLink.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward the request, or reject it with 403."""
        if scope["type"] != "lifespan" and not _is_local(scope):
            if scope["type"] != "http":
                return
            if not scope["path"].startswith(FLEET):
                await refuse(send, 403)
                return
        await self.app(scope, receive, send)


def _is_local(scope: Scope) -> bool:
    """Return whether the peer is on this machine: its address is loopback or the server's own address."""
    # no other machine can complete a TCP handshake from that address: packets to it do not leave this machine
    client, server = scope.get("client"), scope.get("server")
    if client is None:
        return False
    try:
        peer = ip_address(str(client[0]))
        return peer.is_loopback or (server is not None and peer == ip_address(str(server[0])))
    except ValueError:
        return False


def _superlink() -> None:
    from flwr.superlink import extensions
    from flwr.superlink.cli import flower_superlink

    from ecgfed.network.authors import check_authors
    from ecgfed.network.gate import KeyGate
    from ecgfed.network.uploads import check_uploads

    check_uploads()
    check_authors()
    _as_many_descriptors_as_allowed()
    folder = Path(os.environ.get(SERVER, ""))
    # the tuple form of Starlette's Middleware
    extensions.get_middleware = lambda: (
        (FleetOnly, (), {}),
        (KeyGate, (FLEET, folder), {}),
        (UploadLimit, (FLEET, folder / BOUND), {}),
    )
    _limit_uvicorn()
    flower_superlink()


def _limit_uvicorn() -> None:
    uvicorn: Any = import_module("uvicorn")
    run: Callable[..., None] = uvicorn.run
    limits = {
        "http": "h11",  # httptools reads a head of any length
        "h11_max_incomplete_event_size": MAX_HEAD_BYTES,
        "access_log": False,  # refusals are counted (``ecgfed.network.refusals``)
        "proxy_headers": PROXIED in os.environ,
        "forwarded_allow_ips": "127.0.0.1",
    }
    uvicorn.run = lambda **given: run(**{**given, **limits})


def _as_many_descriptors_as_allowed() -> None:
    with contextlib.suppress(ValueError, OSError):
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _supernode() -> None:
    from flwr.supernode.cli import flower_supernode

    from ecgfed.network.site_guard import guard_supernode

    guard_supernode(Path(os.environ[SITE]))
    flower_supernode()


def _superexec() -> None:
    from flwr.supercore.cli import flower_superexec

    if SITE in os.environ:
        _use_warm_process()
    flower_superexec()


def _use_warm_process() -> None:
    """Handle a site's messages in forks of a process that has already imported everything."""
    from flwr.supercore.constant import TaskType
    from flwr.supercore.superexec.executor.types import ExecutionSpec, LaunchResult

    executor: Any = import_module("flwr.supercore.superexec.executor.subprocess_executor").SubprocessExecutor
    cold: Callable[[Any, ExecutionSpec], LaunchResult] = executor.launch
    warm = Warm()

    def launch(self: Any, spec: ExecutionSpec) -> LaunchResult:
        """Handle a site's local message in a forked child; start all other programs as Flower does."""
        if spec.task_type is not TaskType.CLIENT_APP or not spec.insecure:
            return cold(self, spec)
        arguments = ["--runtime-api-address", spec.runtime_api_address, "--token", spec.token, "--insecure"]
        if spec.parent_pid is not None:
            arguments += ["--parent-pid", str(spec.parent_pid)]
        return LaunchResult.accepted() if warm.handle(arguments) else cold(self, spec)

    executor.launch = launch


def _warm() -> None:
    def run(arguments: list[str]) -> None:
        _end_with_the_parent()
        sys.argv = ["flwr-clientapp", *arguments]
        _clientapp()

    wait_for_messages(run)


def _clientapp() -> None:
    from flwr.supernode.cli import flwr_clientapp

    from ecgfed.network.client_app import app
    from ecgfed.network.site_guard import check_messages

    check_messages(Path(os.environ.get(SITE, "")))
    run_clientapp: Any = import_module("flwr.supernode.runtime.run_clientapp")
    # the run's code is neither unpacked nor loaded
    run_clientapp.install_from_fab = lambda *_, **__: None
    run_clientapp.get_project_dir = lambda *_: Path()
    run_clientapp.get_load_client_app_fn = lambda **_: lambda *_: app
    flwr_clientapp()


def _serverapp() -> None:
    from flwr.superlink.cli import flwr_serverapp

    def run(*, grid: Any, context: Any, **_: object) -> Any:
        # Not earlier: Flower starts this program again if it does not announce itself within 30 s, and on a loaded
        # machine importing torch takes longer.
        from ecgfed.network.server_app import app

        app(grid, context)
        return context

    run_serverapp: Any = import_module("flwr.superlink.runtime.run_serverapp")
    run_serverapp.run_ = run  # the run's code is unpacked but not loaded
    flwr_serverapp()


def _proxy() -> None:
    os.execv(sys.argv[1], sys.argv[1:])


PROGRAMS: dict[str, Callable[[], None]] = {
    "ecgfed-proxy": _proxy,
    "flower-superlink": _superlink,
    "flower-supernode": _supernode,
    "flower-superexec": _superexec,
    "flwr-clientapp": _clientapp,
    "flwr-serverapp": _serverapp,
    "warm": _warm,
}


def _end_with_the_parent() -> None:
    """End this process when its parent is killed (Linux only)."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def main(arguments: list[str]) -> int:
    """Run one of Flower's programs; returns the exit code.

    Args:
        arguments: the program's name, one of ``PROGRAMS``, and its arguments. An unknown name prints one line to stderr
            and returns 1.
    """
    program = PROGRAMS.get(arguments[0]) if arguments else None
    if program is None:
        print(f"ecgfed: {' '.join(arguments[:1])}: this program is disabled", file=sys.stderr)
        return 1
    sys.argv = arguments
    _end_with_the_parent()
    program()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
