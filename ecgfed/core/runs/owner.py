"""Ownership of stored states: each file records run, method, round and patient, which are checked on reading.

The index of a checkpoint lists files. SHA-256 verifies their contents, metadata in the file that it belongs there.
Files of versions 0.1 and 0.2 have no metadata, and their index has no ``version``.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ecgfed.base.errors import RunError

#: Index version from which every file records its owner.
OWNED_VERSION = 2
#: Part of a checkpoint of the server, and prefix of those of clients: ``client/NUMBER``.
SERVER, CLIENT = "server", "client/"
#: Key in the server's file: digest over the clients' files that belong to it.
CLIENTS_SHA256 = "clients_sha256"
_AGAIN = "put this run's own file back, or train again into a new folder"


@dataclass(frozen=True)
class Ownership:
    """Metadata of the state files of a run (``__metadata__`` of safetensors).

    Attributes:
        run: identity of the run (``Run.identity``); "": no check.
        method: name of the method.
        clients: ids of the clients by number; empty if unknown (at a site of a federation).
    """

    run: str = ""
    method: str = ""
    clients: Sequence[str] = ()

    def metadata(self, part: str, round_number: int) -> dict[str, str]:
        """Return the metadata for the file of a part: the server, or ``client/NUMBER``."""
        known = {"run": self.run, "method": self.method, "part": part, "round": str(round_number)}
        return {key: value for key, value in {**known, "client": self._client(part)}.items() if value}

    def _client(self, part: str) -> str:
        number = int(part.removeprefix(CLIENT)) if part.startswith(CLIENT) else -1
        return self.clients[number] if 0 <= number < len(self.clients) else ""

    def check(self, metadata: Mapping[str, str], part: str, round_number: int | None, path: Path) -> None:
        """Check that a file belongs to this run, method, round and patient.

        Args:
            part: its part in the index.
            round_number: its round in the index; None for indexes of version 0.1 or 0.2, for which files without
                metadata are accepted.

        Raises:
            RunError: it belongs elsewhere, or has no metadata.
        """
        if not metadata and round_number is None:
            return
        if not metadata:
            raise RunError(path, "does not say whose state it is", f"{part} of round {round_number}", _AGAIN)
        expected = self.metadata(part, 0) | ({} if round_number is None else {"round": str(round_number)})
        if round_number is None:
            del expected["round"]
        wrong = [key for key, value in expected.items() if metadata.get(key) != value]
        if wrong:
            raise RunError(path, f"is the state of {_describe(metadata, wrong)}", _describe(expected, wrong), _AGAIN)


def _describe(values: Mapping[str, str], keys: Iterable[str]) -> str:
    return ", ".join(f"{key} {values.get(key, 'unknown')[:40]}" for key in keys)


def clients_digest(files: Mapping[str, str]) -> str:
    """Return the SHA-256 over the clients' parts and file digests, stored in the server's file."""
    return hashlib.sha256(json.dumps(sorted(files.items())).encode()).hexdigest()
