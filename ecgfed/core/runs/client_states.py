"""Client states on disk, read on access; memory holds active clients and a bounded cache.

Between the end of a round and the write of the checkpoint, a client's state is newer than its file and stays in memory,
regardless of the cache size.
"""

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ecgfed.base.errors import RunError
from ecgfed.base.safe_io import open_regular
from ecgfed.core.federation.trees import compact_storage, tree_bytes
from ecgfed.core.methods.base import Tree
from ecgfed.core.runs.owner import CLIENT, Ownership
from ecgfed.core.runs.state_check import StateCheck
from ecgfed.core.runs.tree_files import load_tree, metadata_of

#: Cache size for states of inactive clients; a small cohort fits completely.
CACHE_BYTES = 64 << 20


@dataclass(frozen=True)
class StoredFile:
    """A file of a checkpoint.

    Attributes:
        name: its name in the checkpoint's folder.
        sha256: of its contents.
        bytes: its size; -1 in old indexes without sizes.
        round: the round after which the state was saved; None in indexes of version 0.1 and 0.2.
    """

    name: str
    sha256: str
    bytes: int
    round: int | None = None

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> "StoredFile":
        """Read an entry of ``progress.json``; folders in a name are dropped. Raises KeyError, TypeError."""
        round_number = entry.get("round")
        return cls(
            Path(entry["name"]).name,
            str(entry["sha256"]),
            int(entry.get("bytes", -1)),
            None if round_number is None else int(round_number),
        )

    def as_json(self) -> dict[str, Any]:
        """Return its entry for ``progress.json``."""
        return {key: value for key, value in vars(self).items() if value is not None}


def read_stored(folder: Path, file: StoredFile, part: str, ownership: Ownership) -> tuple[Tree, dict[str, str]]:
    """Read a file of a checkpoint.

    Args:
        folder: folder of the checkpoint.
        part: its owner by the index: the server, or ``client/NUMBER``.
        ownership: the run that it must belong to.

    Returns:
        The state, and the metadata of the file.

    Raises:
        RunError: missing, changed, or of another patient, round, method or run.
    """
    path = folder / file.name
    try:
        with open_regular(path) as stream:
            data = stream.read()
    except OSError as problem:
        action = "wait for a training that goes on in this run, or train again into a new folder"
        raise RunError(path, f"cannot be read ({problem.strerror})", action=action) from None
    if hashlib.sha256(data).hexdigest() != file.sha256:
        raise RunError(path, "is not the file that was saved (SHA-256 differs)", action="train again into a new folder")
    tree = load_tree(data, path, RunError)
    metadata = metadata_of(data)
    ownership.check(metadata, part, file.round, path)
    return tree, metadata


class ClientStates(MutableMapping[int, Tree]):
    """Client number -> its state, for every client that took part.

    Reading a state reads one file; membership tests read none. Thread-safe.

    Args:
        folder: folder of the checkpoint.
        files: client -> its file, or None for an empty state.
        cache_bytes: cache size, in addition to states not yet written.
        ownership: the run that every file must belong to.
        check: what every state read is compared with, or None.
    """

    def __init__(
        self,
        folder: Path,
        files: Mapping[int, StoredFile | None],
        cache_bytes: int = CACHE_BYTES,
        ownership: Ownership | None = None,
        check: StateCheck | None = None,
    ) -> None:
        self.folder, self.cache_bytes, self.ownership = folder, cache_bytes, ownership or Ownership()
        self.check = check
        self._files = dict(files)
        self._unwritten: dict[int, Tree] = {}
        self._cache: OrderedDict[int, tuple[Tree, int]] = OrderedDict()
        self._cached = 0
        self._lock = threading.Lock()

    def __getitem__(self, client: int) -> Tree:
        with self._lock:
            if client in self._unwritten:
                return self._unwritten[client]
            if client in self._cache:
                self._cache.move_to_end(client)
                return self._cache[client][0]
            file = self._files[client]
        if file is None:
            if self.check is not None:
                self.check.client({}, self.folder, older=False)
            return {}
        tree, metadata = read_stored(self.folder, file, f"{CLIENT}{client}", self.ownership)
        if self.check is not None:
            self.check.client(tree, self.folder / file.name, older=not metadata)
        with self._lock:
            if client not in self._unwritten:
                self._remember(client, tree)
        return tree

    def __setitem__(self, client: int, tree: Tree) -> None:
        with self._lock:
            self._unwritten[client] = tree
            self._forget(client)

    def __delitem__(self, client: int) -> None:
        with self._lock:
            if client not in self._unwritten and client not in self._files:
                raise KeyError(client)
            self._unwritten.pop(client, None)
            self._files.pop(client, None)
            self._forget(client)

    def __contains__(self, client: object) -> bool:
        with self._lock:
            return client in self._unwritten or client in self._files

    def __iter__(self) -> Iterator[int]:
        with self._lock:
            return iter(sorted(self._unwritten.keys() | self._files.keys()))

    def __len__(self) -> int:
        with self._lock:
            return len(self._unwritten.keys() | self._files.keys())

    def read_all(self) -> None:
        """Read the state of every client, so that one that cannot be used is refused before a round begins.

        Raises:
            RunError: naming the first file that is not its client's state.
        """
        for client in self:
            self[client]

    def small(self) -> bool:
        """Return whether all that lies in files fits into the cache: reading it now costs nothing later."""
        return sum(file.bytes for file in self.files().values() if file is not None) <= self.cache_bytes

    def unwritten(self) -> dict[int, Tree]:
        """Return the states that are newer than their files."""
        with self._lock:
            return dict(self._unwritten)

    def files(self) -> dict[int, StoredFile | None]:
        """Return the file of each written client, or None for an empty state."""
        with self._lock:
            return dict(self._files)

    def written(self, client: int, tree: Tree, file: StoredFile | None) -> StoredFile | None:
        """Record that a client's state was written to a file; return its previous file."""
        with self._lock:
            before = self._files.get(client)
            self._files[client] = file
            if self._unwritten.get(client) is tree:
                del self._unwritten[client]
                if file is not None:
                    self._remember(client, compact_storage(tree))
        return before

    def _remember(self, client: int, tree: Tree) -> None:
        self._forget(client)
        size = tree_bytes(tree)
        self._cache[client] = (tree, size)
        self._cached += size
        while self._cached > self.cache_bytes:
            self._cached -= self._cache.popitem(last=False)[1][1]

    def _forget(self, client: int) -> None:
        if client in self._cache:
            self._cached -= self._cache.pop(client)[1]
