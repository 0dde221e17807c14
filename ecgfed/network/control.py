"""Asking the SuperLink on this machine: sites' keys, who is connected, starting a run and how it stands."""

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cryptography.hazmat.primitives.serialization import load_ssh_public_key
from flwr.cli.build import build_fab_from_disk
from flwr.common.serde import fab_to_proto
from flwr.proto.control_pb2 import (
    ListNodesRequest,
    ListRunsRequest,
    RegisterNodeRequest,
    StartRunRequest,
    StopRunRequest,
    UnregisterNodeRequest,
)
from flwr.supercore.control import ControlHttpClient
from flwr.supercore.fab import Fab
from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor
from flwr.supercore.primitives.asymmetric import public_key_to_bytes

from ecgfed import __version__
from ecgfed.durable import make_folder
from ecgfed.errors import OptionError, StorageError
from ecgfed.files import write_text
from ecgfed.gate import read_bounded
from ecgfed.network.errors import NetworkError
from ecgfed.network.launch import without_proxy

#: What Flower wants to be given as an app. No code: both ends run what is installed there.
_APP = f"""[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "ecgfed-federation"
version = "{__version__}"
license = "MIT"
dependencies = []

[tool.flwr.app]
publisher = "ecgfed"

[tool.flwr.app.components]
serverapp = "ecgfed.network.server_app:app"
clientapp = "ecgfed.network.client_app:app"

[tool.flwr.app.config]
"""


class Control:
    """The SuperLink's own machine's way to it; a context manager.

    Args:
        address: ``host:port``.
        ca: the certificate authority's certificate.
    """

    def __init__(self, address: str, ca: Path) -> None:
        certificate = read_bounded(ca, 1 << 16, StorageError)
        with _no_proxy(address.rpartition(":")[0].strip("[]")):
            self._client = ControlHttpClient.from_server_address(
                address, False, certificate, [RuntimeVersionHttpInterceptor(component_name="flwr CLI")]
            )

    def __enter__(self) -> "Control":
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def _nodes(self) -> dict[bytes, tuple[int, str]]:
        """Nodes that are registered: public key -> node and status."""
        with _flower_errors("does not answer"):
            response = self._client.ListNodes(ListNodesRequest())
        return {
            bytes(node.public_key): (int(node.node_id), str(node.status))
            for node in response.nodes_info
            if node.status != "unregistered"
        }

    def register(self, keys: list[Path]) -> dict[int, str]:
        """Let in the sites that have these keys, and nobody else.

        Args:
            keys: public keys, in the order of the sites.

        Returns:
            Node -> name of the key's file without its end, in that order.

        Raises:
            OptionError: a file is no public key, or two are the same.
            NetworkError: the SuperLink refuses.
        """
        files = {_key_bytes(key): key for key in keys}
        if len(files) != len(keys):
            raise OptionError("--keys", "two files hold the same key", "a key of its own for each site")
        nodes = self._nodes()
        with _flower_errors("did not take a key"):
            for key, (node, _) in nodes.items():
                if key not in files:  # a site that is not of this federation any more
                    self._client.UnregisterNode(UnregisterNodeRequest(node_id=node))
            for key in files:
                if key not in nodes:
                    self._client.RegisterNode(RegisterNodeRequest(public_key=key))
        nodes = self._nodes()
        return {nodes[key][0]: file.name.removesuffix(".pub") for key, file in files.items()}

    def online(self) -> set[int]:
        """Return the nodes that are connected."""
        return {node for node, status in self._nodes().values() if status == "online"}

    def start_run(self, folder: Path) -> int:
        """Start the run; returns Flower's number of it.

        Args:
            folder: where the description of the app is put.

        Raises:
            NetworkError: the SuperLink refuses.
        """
        try:
            make_folder(folder)
        except OSError as problem:
            raise StorageError(folder, f"cannot be made ({problem.strerror})") from problem
        write_text(folder / "pyproject.toml", _APP)
        content = build_fab_from_disk(folder)
        fab = Fab(hashlib.sha256(content).hexdigest(), content, {})
        with _flower_errors("did not take the run"):
            for number, run in self._client.ListRuns(ListRunsRequest()).run_dict.items():
                if str(run.status.status) != "finished":  # of a server that was killed
                    self._client.StopRun(StopRunRequest(run_id=number))
            return int(self._client.StartRun(StartRunRequest(fab=fab_to_proto(fab))).run_id)

    def is_over(self, run: int) -> bool:
        """Return whether a run has ended, however; a SuperLink that does not answer says nothing."""
        try:
            with _flower_errors("does not answer"):
                runs = self._client.ListRuns(ListRunsRequest(run_id=run)).run_dict
        except NetworkError:
            return False
        return run in runs and str(runs[run].status.status) == "finished"


@contextmanager
def _no_proxy(host: str) -> Iterator[None]:
    """Have no proxy of the environment between here and this machine: a client of Flower's looks when it is made."""
    new = without_proxy(os.environ, host)
    before = {name: os.environ.get(name) for name in new}
    os.environ.update(new)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def _flower_errors(what: str) -> Iterator[None]:
    """Say in one line what Flower's client raises, which is its HTTP library's."""
    try:
        yield
    except Exception as problem:
        raise NetworkError("Flower", f"{what} ({type(problem).__name__}: {problem!s:.200})") from problem


def _key_bytes(file: Path) -> bytes:
    key = load_ssh_public_key(read_bounded(file, 1 << 16, StorageError))
    return bytes(public_key_to_bytes(key))  # ``check_public_key`` has seen that it is an ECDSA key
