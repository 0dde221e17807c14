"""Whose a stored state is: run, method, round and patient stand in the file itself, and are compared when it is read.

A checkpoint's index names files; that a file is the one it names is checked by its SHA-256, that it belongs there by
what the file says of itself. Files of versions 0.1 and 0.2 say nothing, and their index has no ``version``.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ecgfed.errors import RunError

#: The index's version from which on every file says whose it is.
OWNED_VERSION = 2
#: The part of a checkpoint that is the server's; a client's is ``client/NUMBER``.
SERVER, CLIENT = "server", "client/"
#: Key of the server's file: a digest over the clients' files that belong to it.
CLIENTS_SHA256 = "clients_sha256"
_AGAIN = "put this run's own file back, or train again into a new folder"


@dataclass(frozen=True)
class Ownership:
    """What the state files of one run carry (the ``__metadata__`` of safetensors).

    Attributes:
        run: the run's identity (``Run.identity``); "" compares none.
        method: the method's name.
        clients: the clients' ids by number; empty where they are not known here (a federation's site).
    """

    run: str = ""
    method: str = ""
    clients: Sequence[str] = ()

    def metadata(self, part: str, round_number: int) -> dict[str, str]:
        """Return what the file of a part carries: the server's, or that of ``client/NUMBER``."""
        known = {"run": self.run, "method": self.method, "part": part, "round": str(round_number)}
        return {key: value for key, value in {**known, "client": self._client(part)}.items() if value}

    def _client(self, part: str) -> str:
        number = int(part.removeprefix(CLIENT)) if part.startswith(CLIENT) else -1
        return self.clients[number] if 0 <= number < len(self.clients) else ""

    def check(self, metadata: Mapping[str, str], part: str, round_number: int | None, path: Path) -> None:
        """Refuse a file that belongs to another run, method, round or patient.

        Args:
            metadata: the metadata of the file.
            part: the part that the index names it for.
            round_number: the round that the index says; None in an index of version 0.1 or 0.2, which said none: a
                file without metadata is read then.
            path: the file.

        Raises:
            RunError: it belongs elsewhere, or does not say where it belongs.
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
    """Return the SHA-256 over clients' parts and the SHA-256 of their files, which the server's file carries."""
    return hashlib.sha256(json.dumps(sorted(files.items())).encode()).hexdigest()
