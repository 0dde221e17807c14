"""The state of a run on disk: the server's, and what each client keeps.

``progress.json`` names every file of the last finished round with its SHA-256 and is replaced last, so a kill at any
moment leaves one whole checkpoint. Clients that took no part in a round are not written again.
"""

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ecgfed.errors import RunError
from ecgfed.federation.trees import load_tree, save_tree
from ecgfed.files import read_json, write_json
from ecgfed.methods.base import Tree

FOLDER = "checkpoint"
PROGRESS = "progress.json"


@dataclass
class State:
    """A run after some round.

    Attributes:
        round: finished rounds.
        server: the server's state.
        kept: client number -> what it keeps; clients that never took part are absent.
        seen: client number -> beats used so far.
    """

    round: int
    server: Tree
    kept: dict[int, Tree] = field(default_factory=dict)
    seen: dict[int, int] = field(default_factory=dict)


class CheckpointStore:
    """Reads and writes checkpoints of one run."""

    def __init__(self, run: Path) -> None:
        self.folder = run / FOLDER
        self._files: dict[str, dict[str, Any]] = {}

    def exists(self) -> bool:
        """Return whether a round has been saved."""
        return (self.folder / PROGRESS).is_file()

    def save(self, state: State, changed: list[int]) -> None:
        """Save the state after a round.

        Args:
            state: what to save.
            changed: the clients whose kept state is new since the last call.

        Raises:
            StorageError: the disk refuses; the checkpoint before this one stays valid.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        files = dict(self._files)
        files["server"] = self._write(f"server.{state.round:06d}", state.server)
        for client in changed:
            if state.kept.get(client):
                files[f"client/{client}"] = self._write(f"client{client}.{state.round:06d}", state.kept[client])
        write_json(
            self.folder / PROGRESS,
            {"round": state.round, "seen": {str(c): n for c, n in sorted(state.seen.items())}, "files": files},
        )
        self._files = files
        keep = {entry["name"] for entry in files.values()}
        for path in self.folder.glob("*.safetensors"):
            if path.name not in keep:
                path.unlink(missing_ok=True)

    def _write(self, stem: str, tree: Tree) -> dict[str, str]:
        data = save_tree(self.folder / f"{stem}.safetensors", tree)
        return {"name": f"{stem}.safetensors", "sha256": hashlib.sha256(data).hexdigest()}

    def load(self) -> State:
        """Load the last saved state.

        Raises:
            RunError: no checkpoint, or a file of it is missing or not the one that was written.
        """
        progress = read_json(self.folder / PROGRESS, RunError)
        try:
            trees = {key: self._read(entry["name"], entry["sha256"]) for key, entry in progress["files"].items()}
            state = State(
                int(progress["round"]),
                trees["server"],
                {int(key.split("/")[1]): tree for key, tree in trees.items() if key != "server"},
                {int(client): int(count) for client, count in progress["seen"].items()},
            )
        except (KeyError, TypeError, ValueError, AttributeError) as problem:
            raise RunError(
                self.folder / PROGRESS, f"lacks {problem}", "a checkpoint's index", "train again into a new folder"
            ) from problem
        self._files = progress["files"]
        return state

    def _read(self, name: str, digest: str) -> Tree:
        path = self.folder / Path(name).name
        try:
            data = path.read_bytes()
        except OSError as problem:
            raise RunError(
                path, f"cannot be read ({problem.strerror})", action="train again into a new folder"
            ) from None
        if hashlib.sha256(data).hexdigest() != digest:
            raise RunError(
                path, "is not the file that was saved (SHA-256 differs)", action="train again into a new folder"
            )
        return load_tree(data, path, RunError)
