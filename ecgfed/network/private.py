"""Writing a file that only its owner may read, from its first byte on."""

import contextlib
import os
import secrets
from pathlib import Path

from ecgfed.durable import make_folder, sync_folder
from ecgfed.errors import StorageError


def write_private(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Write a file whole or not at all.

    Args:
        path: where to; its folder is made.
        data: its bytes.
        mode: who may do what with it.

    Raises:
        StorageError: the system refuses; what was there is still there.
    """
    partial = path.with_name(f".{os.getpid()}-{secrets.token_hex(4)}.{path.name}.partial")
    try:
        make_folder(path.parent)
        handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
            partial.replace(path)
            sync_folder(path.parent)
        except BaseException:
            with contextlib.suppress(OSError):
                partial.unlink(missing_ok=True)
            raise
    except OSError as problem:
        raise StorageError(
            path, f"could not be written ({problem.strerror})", action="choose another place"
        ) from problem
