"""Checkpoints of earlier rounds, so that a run can go back to before a round that spoilt it.

rounds/000012/     the files of the checkpoint after round 12, as hard links where the file system has them

The last ``NEWEST`` rounds are kept and, of those before, ever fewer: round r as long as fewer than ``NEWEST`` times the
largest power of two that divides r have passed since. Server and sites apply the same rule, each to its own rounds, so
a site has its patients' state of every round that the server can go back to.
"""

import itertools
import os
import shutil
from pathlib import Path

from ecgfed.base.errors import StorageError
from ecgfed.base.files import create_folder, remove, rename_folder
from ecgfed.base.fsync import sync_folder, sync_tree
from ecgfed.core.runs.checkpoint import CheckpointStore
from ecgfed.core.runs.document import PROGRESS

#: Folder in a run's folder.
ROUNDS = "rounds"
#: How many of the last rounds are all kept.
NEWEST = 5


def is_kept(number: int, newest: int) -> bool:
    """Return whether a round is kept when ``newest`` is the last one."""
    return newest - number < NEWEST * (number & -number)


def rounds_in(folder: Path) -> list[int]:
    """Return the rounds kept below a run's folder, in increasing order."""
    names = (path.name for path in (folder / ROUNDS).glob("[0-9]*") if (path / PROGRESS).is_file())
    return sorted(int(name) for name in names if name.isdecimal())


class KeptRounds:
    """Copies of a run's checkpoints.

    Args:
        store: the run's checkpoints.
    """

    def __init__(self, store: CheckpointStore) -> None:
        self.store = store
        self.folder = store.folder.parent / ROUNDS

    def rounds(self) -> list[int]:
        """Return the kept rounds in increasing order."""
        return rounds_in(self.folder.parent)

    def keep(self) -> None:
        """Keep the current checkpoint unless it is kept, and remove those that no round needs any more.

        Raises:
            StorageError: the files cannot be written.
            RunError: the checkpoint is damaged.
        """
        if not self.store.exists():
            return
        number = self.store.rounds()
        target = self._path(number)
        if not (target / PROGRESS).is_file() or not _same(self.store.folder / PROGRESS, target / PROGRESS):
            create_folder(self.folder, "free some space")
            partial = self.folder / f".{number:06d}.partial"
            remove(partial)
            create_folder(partial, "free some space")
            self._link(self.store.folder, partial, self.store.file_names())
            remove(target)  # of a course of the run that was given up
            rename_folder(partial, target)
        earlier = [round_ for round_ in self.rounds() if round_ <= number]
        for round_, following in itertools.pairwise(earlier):
            # a site that skipped rounds needs its state of this round for all rounds up to its next one
            if not any(is_kept(covered, number) for covered in range(round_, following)):
                remove(self._path(round_))

    def restore(self, number: int) -> None:
        """Make a kept round the run's checkpoint again.

        Raises:
            StorageError: it is not kept, or cannot be written.
        """
        source = self._path(number)
        if number not in self.rounds():
            raise StorageError(source, "does not exist", f"one of the rounds {', '.join(map(str, self.rounds()))}")
        names = CheckpointStore.names_in(source)
        self._link(source, self.store.folder, [name for name in names if name != PROGRESS])
        self._link(source, self.store.folder, [PROGRESS])  # last: what it names is there

    def forget_after(self, number: int) -> None:
        """Remove the kept rounds after a round."""
        for later in self.rounds():
            if later > number:
                remove(self._path(later))

    def _path(self, number: int) -> Path:
        return self.folder / f"{number:06d}"

    def _link(self, source: Path, target: Path, names: list[str]) -> None:
        """Link files into a folder, durably; copies where there are no hard links."""
        try:
            for name in names:
                partial = target / f".{name}.partial"
                partial.unlink(missing_ok=True)
                try:
                    os.link(source / name, partial)
                except OSError:
                    shutil.copyfile(source / name, partial)
                partial.replace(target / name)
                partial.unlink(missing_ok=True)  # replacing a file by another link to it leaves both names
            sync_tree(target)
            sync_folder(target)
        except OSError as problem:
            reason = f"could not be written ({problem.strerror})"
            raise StorageError(target, reason, action="free some space") from problem


def _same(first: Path, second: Path) -> bool:
    return first.read_bytes() == second.read_bytes()
