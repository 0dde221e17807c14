"""HAProxy before the SuperLink: it keeps strangers' connections from using up the server's.

Flower's SuperLink takes any connection and waits for it without an end. HAProxy ends silent ones after seconds, limits
those of one address, keeps some for addresses from which a site was let in before, and passes on nothing but the sites'
requests (docs/decisions/0115).
"""

import csv
import hashlib
import io
import os
import resource
import shutil
import socket
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from ecgfed.base.errors import OptionError, StorageError
from ecgfed.base.files import write_text
from ecgfed.base.safe_io import read_bounded
from ecgfed.network.certificates import CA, CERTIFICATE, KEY
from ecgfed.network.config import HAPROXY, NONE
from ecgfed.network.launch import Address
from ecgfed.network.private import write_private

#: Connections in all, of addresses from which no site was let in, of one address, and to the SuperLink. A silent
#: connection takes about 50 kB; each takes a descriptor, and one to the SuperLink another.
MOST, STRANGERS, EACH, BEHIND = 4000, 3000, 1500, 64
_CONFIGURATION, _SOCKET, _PEM, _KEYS = "haproxy.cfg", "haproxy.sock", "haproxy.pem", "haproxy.keys"
_MAX_BYTES = 1 << 20
#: A socket's path has at most 107 bytes, and HAProxy appends some at first.
MAX_SOCKET_PATH = 90
#: HAProxy's counts of what it refused -> description: connections, sessions, requests.
_REFUSED = ("dcon", "dses", "dreq")
#: Where HAProxy is looked for besides PATH.
_PLACES = ("/usr/sbin", "/usr/local/sbin")


def find_haproxy(choice: str) -> str | None:
    """Return HAProxy's path, None if it is not to be used or, with ``auto``, not installed.

    Raises:
        OptionError: ``haproxy`` is asked for and not installed.
    """
    if choice == NONE:
        return None
    places = os.pathsep.join([os.environ.get("PATH", os.defpath), *_PLACES])
    program = shutil.which("haproxy", path=places)
    if program is None and choice == HAPROXY:
        raise OptionError("proxy", "haproxy is not installed", "the program haproxy", "apt install haproxy")
    return program


@dataclass(frozen=True)
class Proxy:
    """HAProxy before a server.

    Attributes:
        folder: where its files are: the server's ``flower``.
        program: HAProxy's path.
    """

    folder: Path
    program: str

    def write(self, tls: Path, outside: Address, inside: Address, keys: Sequence[str]) -> None:
        """Write its configuration.

        Args:
            tls: the folder of the certificates.
            outside: where sites connect.
            inside: where the SuperLink listens, on the loopback.
            keys: the public keys that are let in, base64.

        Raises:
            StorageError: a file cannot be read or written.
        """
        parts = [read_bounded(tls / name, _MAX_BYTES, StorageError) for name in (CERTIFICATE, KEY)]
        write_private(self.folder / _PEM, b"".join(parts))
        write_text(self.folder / _KEYS, "".join(f"{key}\n" for key in keys))
        most = min(MOST, max(100, (resource.getrlimit(resource.RLIMIT_NOFILE)[1] - 4 * BEHIND) // 2))
        values = {
            "most": most,
            "strangers": most * STRANGERS // MOST,
            "each": most * EACH // MOST,
            "behind": BEHIND,
            "address": outside,
            "behind_address": inside,
            "socket": _quoted(self._socket),
            "certificate": _quoted(self.folder / _PEM),
            "authority": _quoted(tls / CA),
            "keys": _quoted(self.folder / _KEYS),
        }
        text = files("ecgfed.network").joinpath(_CONFIGURATION).read_text(encoding="utf-8")
        for name, value in values.items():
            text = text.replace(f"{{{name}}}", str(value))
        write_text(self.folder / _CONFIGURATION, text)

    @property
    def _socket(self) -> Path:
        """Where HAProxy answers on its counts."""
        path = self.folder.resolve() / _SOCKET
        if len(os.fsencode(path)) <= MAX_SOCKET_PATH:
            return path
        digest = hashlib.sha256(os.fsencode(path)).hexdigest()
        return Path(tempfile.gettempdir()) / f"ecgfed-{digest[:16]}.sock"

    @property
    def command(self) -> list[str]:
        """Its arguments: in the foreground, quiet."""
        return [self.program, "-q", "-db", "-f", str((self.folder / _CONFIGURATION).resolve())]

    def refused(self) -> dict[str, int]:
        """Return how many connections, handshakes and requests it refused since its start; empty if it is not there."""
        try:
            with socket.socket(socket.AF_UNIX) as asking:
                asking.settimeout(2.0)
                asking.connect(str(self._socket))
                asking.sendall(b"show stat\n")
                with asking.makefile("rb") as answer:
                    text = answer.read(_MAX_BYTES).decode("ascii", "replace")
        except OSError:
            return {}
        rows = csv.DictReader(io.StringIO(text.removeprefix("# ")))
        row = next((row for row in rows if (row["pxname"], row["svname"]) == ("sites", "FRONTEND")), {})
        connections, sessions, requests = (int(row.get(name) or 0) for name in _REFUSED)
        return {"connections": connections + sessions, "requests": requests, "open": int(row.get("scur") or 0)}


def _quoted(path: Path) -> str:
    r"""Return a path as HAProxy reads it: ``"`` and what has a meaning within quotes escaped."""
    text = str(path.resolve())
    escaped = "".join(f"\\{character}" if character in '\\"$' else character for character in text)
    return f'"{escaped}"'
