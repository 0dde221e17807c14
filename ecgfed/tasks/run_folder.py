"""The output folder of a training: locked for one process, and never left with a partial run."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from ecgfed.base.errors import EcgfedError, OptionError, RunError, StorageError, param
from ecgfed.base.files import backup_path, is_temporary, recover_locked, remove, swap_folders, write_bytes
from ecgfed.base.fsync import sync_folder
from ecgfed.base.locks import LOCK_NAME, locked
from ecgfed.base.safe_io import MAX_JSON_BYTES, check_links, read_bounded
from ecgfed.core.runs.checkpoint import CheckpointStore
from ecgfed.core.runs.document import CHECKPOINT, PROGRESS
from ecgfed.core.runs.run import FILE_NAME, Run, is_interrupted_write

#: File that exists once a run has saved a round.
_SAVED = f"{CHECKPOINT}/{PROGRESS}"


class RunFolder:
    """The folder of a run that is created or continued, locked by this process.

    Args:
        out: the folder.
        resume: continue the existing run.
        overwrite: replace an existing run.
    """

    def __init__(self, out: Path, *, resume: bool, overwrite: bool) -> None:
        self.out, self.overwrite = out, overwrite
        self.resume = resume
        self.document, self.saved = (_bytes(out / FILE_NAME), _bytes(out / _SAVED)) if resume else (None, None)
        self.was_there = out.exists()
        self.was_empty = not self.was_there or (out.is_dir() and all(map(is_interrupted_write, out.iterdir())))
        self.replaced = False

    def create(self, make: Callable[[Path], Run]) -> Run:
        """Create the run; a replaced run is moved aside, and removed when the new one has saved a round.

        Args:
            make: writes a new run into a folder.

        Raises:
            OptionError: the folder to be replaced is not a run.
            RunError, StorageError: as ``make``; nothing was changed.
        """
        if not self.overwrite or self.was_empty or not self.out.is_dir():
            return make(self.out)
        if not (self.out / FILE_NAME).is_file():
            action = f"choose another {param('out')}"
            raise OptionError("overwrite", f"{self.out} is not a run", "a folder with a run.json", action)
        new = backup_path(self.out)
        remove(new)
        try:
            run = make(new)
        except BaseException:
            remove(new)
            raise
        try:
            swap_folders(new, self.out.resolve())
        except OSError as error:  # the backup may be the old run: it is left for ``recover``
            problem = f"could not be replaced ({error.strerror or error})"
            raise StorageError(self.out, problem, action=f"choose another {param('out')}") from error
        self.replaced = True
        return replace(run, path=self.out)

    def undo(self) -> None:
        """Remove a run that saved no round, and restore the run it replaced, or the document of the continued run."""
        if self.resume:
            no_new_round = _bytes(self.out / _SAVED) == self.saved
            if self.document is not None and no_new_round and _bytes(self.out / FILE_NAME) != self.document:
                write_bytes(self.out / FILE_NAME, self.document)
            return
        if CheckpointStore(self.out).exists():
            return
        if self.replaced:
            recover_locked(self.out, _SAVED)
            if backup_path(self.out).is_dir():  # the previous run had not saved a round either
                with suppress(OSError):
                    swap_folders(backup_path(self.out), self.out.resolve())
                    remove(backup_path(self.out))
        elif self.was_empty and self.out.is_dir():
            for part in self.out.iterdir():
                remove(part)
            if not self.was_there:
                with suppress(OSError):
                    self.out.rmdir()

    def tidy(self) -> None:
        """Remove the replaced run once the new one has saved a round."""
        old = backup_path(self.out)
        if old.is_dir() and CheckpointStore(self.out).exists():
            with suppress(OSError):  # the new run must be on disk first
                sync_folder(self.out / CHECKPOINT)
                remove(old)


def _bytes(path: Path) -> bytes | None:
    """Return the content of a file; None if it cannot be read, or is a link out of the run."""
    try:
        check_links(path.parent, [path.name], RunError)
        return read_bounded(path, MAX_JSON_BYTES, RunError)
    except EcgfedError:
        return None


@contextmanager
def run_folder(out: Path, *, resume: bool, overwrite: bool) -> Iterator[RunFolder]:
    """Lock the folder of a run while the block trains; undo its changes if it fails before a round was saved.

    Args:
        resume: continue the existing run.
        overwrite: replace an existing run.

    Raises:
        LockedError: another process trains or evaluates the run; nothing was changed.
    """
    with locked(out):
        recover_locked(out, _SAVED)  # after an interrupted overwrite
        if (out / FILE_NAME).is_file():
            for part in [part for part in out.iterdir() if is_temporary(part) and part.name != LOCK_NAME]:
                if part.is_file():  # a folder may belong to a running ``evaluate --out``
                    remove(part)
        folder = RunFolder(out, resume=resume, overwrite=overwrite)
        try:
            yield folder
        except BaseException:  # includes KeyboardInterrupt
            folder.undo()
            raise
        finally:
            folder.tidy()
