"""Checkpoints: the state of a run on disk, of the server and of each client.

``progress.json`` lists every file of the last saved round with its SHA-256. It is replaced last, after all files are on
disk, so a kill or a power cut at any time leaves a complete checkpoint. Files are never overwritten: a client's next
state is a new file, and the old one is deleted once no checkpoint references it. Clients that did not take part in a
round only have an entry in the index. Each file records its owner (``ecgfed.core.runs.owner``), and the server's file
the clients' files that belong to it.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ecgfed.base.errors import RunError, StorageError, param
from ecgfed.base.files import NewFiles, read_json
from ecgfed.base.fsync import make_folder, sync_files, sync_folder
from ecgfed.core.federation.state import State
from ecgfed.core.methods.base import Tree
from ecgfed.core.runs.client_states import ClientStates, StoredFile, read_stored
from ecgfed.core.runs.document import CHECKPOINT, PROGRESS, check_owner
from ecgfed.core.runs.history import HISTORY, TIMING
from ecgfed.core.runs.owner import CLIENT, CLIENTS_SHA256, OWNED_VERSION, SERVER, Ownership, clients_digest
from ecgfed.core.runs.state_check import StateCheck
from ecgfed.core.runs.tree_files import serialised


@dataclass(frozen=True)
class Snapshot:
    """Data of one write. Trees are never changed in place, so it holds references.

    Attributes:
        round: finished rounds.
        client_states: client -> (last round it took part in, its state), for states newer than their files.
        server: the server's state, or None to write the clients' files ahead of the next checkpoint.
        beats_used: client -> number of beats used so far.
    """

    round: int
    client_states: dict[int, tuple[int, Tree]]
    server: Tree | None
    beats_used: dict[int, int]


@dataclass(frozen=True)
class _Index:
    """Contents of ``progress.json``; attributes as in ``State``, files by ``server`` and ``client/NUMBER``."""

    version: int
    round: int
    run: str
    beats_used: dict[int, int]
    files: dict[str, StoredFile]

    @classmethod
    def from_json(cls, value: Any) -> "_Index":
        """Check and convert; raises KeyError, TypeError, ValueError, AttributeError."""
        index = cls(
            int(value.get("version", 1)),
            int(value["round"]),
            str(value.get("run", "")),
            {int(client): int(count) for client, count in value["seen"].items()},
            {str(key): StoredFile.from_json(entry) for key, entry in value["files"].items()},
        )
        if index.round < 1 or SERVER not in index.files:
            raise ValueError("a finished round")
        if index.version > OWNED_VERSION:
            raise ValueError(f"a version that this ecgfed knows ({index.version})")
        if index.version == OWNED_VERSION and index.files[SERVER].round != index.round:
            raise ValueError("the server's state of its round")
        return index

    def clients(self) -> dict[int, StoredFile | None]:
        """Return the file of each participant, or None for an empty state."""
        client_files = {int(key.removeprefix(CLIENT)): file for key, file in self.files.items() if key != SERVER}
        return {**dict.fromkeys(self.beats_used), **client_files}

    def check_together(self, metadata: Mapping[str, str], folder: Path) -> None:
        """Raise RunError if the clients' files are not those that the server's file was saved with."""
        if self.version < OWNED_VERSION and not metadata:
            return
        if metadata.get(CLIENTS_SHA256) != _digest(self.files):
            actual = "names other clients' states than those its server's state was saved with"
            action = "put this run's own index and files back, or train again into a new folder"
            raise RunError(folder / PROGRESS, actual, f"those of round {self.round}", action)


def _digest(files: Mapping[str, StoredFile]) -> str:
    return clients_digest({key: file.sha256 for key, file in files.items() if key != SERVER})


class CheckpointStore:
    """Reads and writes checkpoints of one run; one thread writes at a time.

    Args:
        run: folder of the run.
        identity: of the run (``Run.identity``); checkpoints of other runs are rejected. "": no check.
        method: name of its method.
        clients: ids of its clients by number, if known.
    """

    def __init__(self, run: Path, identity: str = "", *, method: str = "", clients: Sequence[str] = ()) -> None:
        self.folder, self.identity = run / CHECKPOINT, identity
        self.ownership = Ownership(identity, method, tuple(clients))
        self._published: set[str] = set()
        self._client_states: ClientStates | None = None

    def exists(self) -> bool:
        """Return whether a round has been saved."""
        return (self.folder / PROGRESS).is_file()

    def rounds(self) -> int:
        """Return the finished rounds of the last checkpoint, 0 without one; raises RunError."""
        return self._index().round if self.exists() else 0

    def file_names(self) -> list[str]:
        """Return the names of the checkpoint's files, the index first; raises RunError."""
        return [PROGRESS, *(file.name for file in self._index().files.values())]

    @staticmethod
    def names_in(folder: Path) -> list[str]:
        """Return the names of the files of a copy of a checkpoint; raises RunError."""
        try:
            files = _Index.from_json(read_json(folder / PROGRESS, RunError)).files.values()
        except (KeyError, TypeError, ValueError, AttributeError) as problem:
            raise RunError(folder / PROGRESS, f"lacks {problem}", "a checkpoint's index") from problem
        return [PROGRESS, *(file.name for file in files)]

    def load(self, check: StateCheck | None = None) -> State:
        """Load the last saved state; client states are read on access.

        Args:
            check: what the server's and the clients' states are compared with; None compares none.

        Raises:
            RunError: no checkpoint, one of another run, or a file that is missing, truncated, changed, of another
                client, round, method or run, or not a state of the method.
        """
        index = self._index()
        for file in index.files.values():
            path = self.folder / file.name
            try:
                size = path.stat().st_size
            except OSError as problem:
                action = "train again into a new folder"
                raise RunError(path, f"cannot be read ({problem.strerror})", action=action) from None
            if file.bytes not in (-1, size):
                actual = f"has {size:,} bytes and is not the file that was saved"
                raise RunError(path, actual, f"{file.bytes:,}", "train again into a new folder")
        # the first indexes name no run: accept any run in their files
        ownership = self.ownership if index.run else replace(self.ownership, run="", method="")
        server, metadata = read_stored(self.folder, index.files[SERVER], SERVER, ownership)
        index.check_together(metadata, self.folder)
        if check is not None:
            check.server(server, index.beats_used.keys(), self.folder / index.files[SERVER].name)
        client_states = ClientStates(self.folder, index.clients(), ownership=ownership, check=check)
        return State(index.round, server, client_states, index.beats_used)

    def _index(self) -> _Index:
        path = self.folder / PROGRESS
        progress = read_json(path, RunError)
        try:
            index = _Index.from_json(progress)
            index.clients()
        except (KeyError, TypeError, ValueError, AttributeError) as problem:
            actual = f"lacks {problem}"
            raise RunError(path, actual, "a checkpoint's index", "train again into a new folder") from problem
        check_owner(self.folder, index.run, self.identity)
        return index

    def attach(self, state: State) -> None:
        """Start to write checkpoints of this run: client states are stored on disk from now on.

        Deletes files that an interrupted session wrote after its last checkpoint.

        Raises:
            RunError: an existing checkpoint cannot be used.
            StorageError: the folder cannot be created.
        """
        try:
            make_folder(self.folder)
        except OSError as problem:
            actual = f"cannot be made ({problem.strerror})"
            raise StorageError(self.folder, actual, action=f"choose another {param('out')}") from problem
        self._published = {file.name for file in self._index().files.values()} if self.exists() else set()
        for path in [*self.folder.glob("*.safetensors"), *self.folder.glob(".*.partial")]:
            if path.name not in self._published:
                path.unlink(missing_ok=True)
        if not (isinstance(state.client_states, ClientStates) and state.client_states.folder == self.folder):
            on_disk = ClientStates(self.folder, {}, ownership=self.ownership)
            on_disk.update(state.client_states)
            state.client_states = on_disk
        self._client_states = state.client_states

    def write(self, snapshot: Snapshot) -> None:
        """Write the clients' files of a snapshot and, if it has a server state, publish it as the checkpoint.

        Raises:
            StorageError: writing failed; the previous checkpoint stays valid.
        """
        if self._client_states is None:
            raise ValueError("attach comes first")
        stored: dict[int, StoredFile | None] = {}
        server = None
        with NewFiles(self.folder) as files:
            for client, (last, tree) in snapshot.client_states.items():
                metadata = self.ownership.metadata(f"{CLIENT}{client}", last)
                stored[client] = self._add(files, f"client{client}", last, tree, metadata) if tree else None
            if snapshot.server is not None:
                together = {
                    f"{CLIENT}{n}": file for n, file in {**self._client_states.files(), **stored}.items() if file
                }
                metadata = {**self.ownership.metadata(SERVER, snapshot.round), CLIENTS_SHA256: _digest(together)}
                server = self._add(files, SERVER, snapshot.round, snapshot.server, metadata)
            files.publish()
        ahead = set()  # written ahead of a checkpoint that was not published
        for client, (_, tree) in snapshot.client_states.items():
            before = self._client_states.written(client, tree, now := stored[client])
            if before and before.name not in self._published and (now is None or now.name != before.name):
                ahead.add(before.name)
        self._remove_all(ahead)
        if server is not None:
            client_files = {
                f"{CLIENT}{client}": file for client, file in sorted(self._client_states.files().items()) if file
            }
            self._publish(snapshot, {SERVER: server, **client_files})

    def _publish(self, snapshot: Snapshot, files: dict[str, StoredFile]) -> None:
        """Replace the index, then delete files only the old one references; each step is durable before the next."""
        index = {
            "version": OWNED_VERSION,
            "round": snapshot.round,
            "run": self.identity,
            "seen": {str(client): count for client, count in sorted(snapshot.beats_used.items())},
            "files": {key: file.as_json() for key, file in files.items()},
        }
        run = self.folder.parent
        try:
            sync_files([run / name for name in (HISTORY, TIMING) if (run / name).is_file()])
            for folder in (run, self.folder):
                sync_folder(folder)
            with NewFiles(self.folder) as new:
                # without indentation, so that json's C encoder is used: milliseconds for 10,000 clients
                new.add(PROGRESS, (json.dumps(index) + "\n").encode())
                new.publish()
        except OSError as problem:
            action = f"free some space, then go on with {param('resume=True')}"
            raise StorageError(self.folder, f"could not be written ({problem.strerror})", action=action) from problem
        before, self._published = self._published, {file.name for file in files.values()}
        self._remove_all(before - self._published)

    def _add(self, files: NewFiles, stem: str, number: int, tree: Tree, metadata: Mapping[str, str]) -> StoredFile:
        """Write the state after round ``number``; ``metadata`` records its owner."""
        name, data = f"{stem}.{number:06d}.safetensors", serialised(tree, metadata)
        files.add(name, data)
        return StoredFile(name, hashlib.sha256(data).hexdigest(), len(data), number)

    def _remove_all(self, names: set[str]) -> None:
        """Remove files after their replacements are durable; raises StorageError."""
        try:
            sync_folder(self.folder)
        except OSError as problem:
            action = f"free some space, then go on with {param('resume=True')}"
            raise StorageError(self.folder, f"could not be written ({problem.strerror})", action=action) from problem
        for name in names:
            with suppress(OSError):  # a leftover file is harmless; the next session deletes it
                (self.folder / name).unlink(missing_ok=True)
