"""Client of the local SuperLink's Control API: register keys, list connected nodes, start a run, query its status."""

import hashlib
import os
from collections.abc import Iterator, Mapping
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
from ecgfed.base.errors import OptionError, StorageError
from ecgfed.base.files import create_folder, write_text
from ecgfed.base.safe_io import read_bounded
from ecgfed.network.errors import NetworkError
from ecgfed.network.launch import without_proxy

#: The Flower app to submit. It has no code: server and sites run their installed packages.
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
    """A connection to the local SuperLink; a context manager.

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
        """Return the registered nodes: public key -> node id and status."""
        with _flower_errors("does not answer"):
            response = self._client.ListNodes(ListNodesRequest())
        return {
            bytes(node.public_key): (int(node.node_id), str(node.status))
            for node in response.nodes_info
            if node.status != "unregistered"
        }

    def register(self, keys: Mapping[str, Path]) -> dict[int, str]:
        """Register the sites with these keys, and unregister all others.

        Args:
            keys: name -> public key, in the order of the sites.

        Returns:
            Node id -> name, in that order.

        Raises:
            OptionError: two files hold the same key.
            NetworkError: the SuperLink refuses.
        """
        sites = {key_bytes(file): name for name, file in keys.items()}
        if len(sites) != len(keys):
            raise OptionError("keys", "two files hold the same key", "a different key for each site")
        nodes = self._nodes()
        with _flower_errors("did not take a key"):
            for key, (node, _) in nodes.items():
                if key not in sites:  # a site that has left the federation
                    self._client.UnregisterNode(UnregisterNodeRequest(node_id=node))
            for key in sites:
                if key not in nodes:
                    self._client.RegisterNode(RegisterNodeRequest(public_key=key))
        nodes = self._nodes()
        return {nodes[key][0]: name for key, name in sites.items()}

    def online(self) -> set[int]:
        """Return the ids of the connected nodes."""
        return {node for node, status in self._nodes().values() if status == "online"}

    def start_run(self, folder: Path) -> int:
        """Start the run; returns Flower's run id.

        Args:
            folder: where the app's ``pyproject.toml`` is written.

        Raises:
            NetworkError: the SuperLink refuses.
        """
        create_folder(folder)
        write_text(folder / "pyproject.toml", _APP)
        content = build_fab_from_disk(folder)
        fab = Fab(hashlib.sha256(content).hexdigest(), content, {})
        with _flower_errors("did not take the run"):
            for number, run in self._client.ListRuns(ListRunsRequest()).run_dict.items():
                if str(run.status.status) != "finished":  # left over from a killed server
                    self._client.StopRun(StopRunRequest(run_id=number))
            return int(self._client.StartRun(StartRunRequest(fab=fab_to_proto(fab))).run_id)

    def is_over(self, run: int) -> bool:
        """Return whether a run has ended, successfully or not; False if the SuperLink does not answer."""
        try:
            with _flower_errors("does not answer"):
                runs = self._client.ListRuns(ListRunsRequest(run_id=run)).run_dict
        except NetworkError:
            return False
        return run in runs and str(runs[run].status.status) == "finished"


@contextmanager
def _no_proxy(host: str) -> Iterator[None]:
    """Bypass environment proxies for the local machine: Flower's client reads the variables when it is created."""
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
    """Turn any error of Flower's client or its HTTP library into NetworkError."""
    try:
        yield
    except Exception as problem:
        raise NetworkError("Flower", f"{what} ({type(problem).__name__}: {problem!s:.200})") from problem


def key_bytes(file: Path) -> bytes:
    """Return the public key in a file in Flower's format; raises StorageError."""
    key = load_ssh_public_key(read_bounded(file, 1 << 16, StorageError))
    return bytes(public_key_to_bytes(key))  # ``check_public_key`` has checked that it is an ECDSA key
