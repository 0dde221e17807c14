"""Write files that only their owner may read, from the first byte on."""

import contextlib
import os
import secrets
from pathlib import Path

from ecgfed.base.errors import StorageError
from ecgfed.base.fsync import make_folder, sync_folder


def write_private(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Write a file atomically with restricted permissions.

    Args:
        path: the file; its folder is created.
        data: the content.
        mode: permission bits.

    Raises:
        StorageError: the file cannot be written; an existing file is unchanged.
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
        reason = f"could not be written ({problem.strerror})"
        raise StorageError(path, reason, action="choose another place") from problem
