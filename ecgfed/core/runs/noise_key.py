"""Secret seed of a run's noise, in a file readable only by its owner."""

import os
import secrets
from contextlib import suppress
from pathlib import Path

from ecgfed.base.errors import RunError, StorageError
from ecgfed.base.fsync import make_folder, sync_folder
from ecgfed.base.safe_io import read_bounded
from ecgfed.core.federation.plan import TrainPlan

FILE_NAME = "noise.key"
BYTES = 32


def noise_key(folder: Path, plan: TrainPlan) -> bytes:
    """Return the secret seed of a run's noise; created once, so that a resumed run draws the same noise.

    Returns:
        32 bytes; empty if the plan has no noise.

    Raises:
        RunError: an invalid key file.
        StorageError: the file cannot be written.
    """
    path = folder / FILE_NAME
    if not plan.clips or not plan.dp_noise:
        return b""
    if not path.is_file():
        partial = path.with_name(f".{os.getpid()}-{secrets.token_hex(4)}.{path.name}.partial")
        try:
            make_folder(path.parent)
            with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as stream:
                stream.write(secrets.token_hex(BYTES) + "\n")
                stream.flush()
                os.fsync(stream.fileno())
            partial.replace(path)
            sync_folder(path.parent)
        except OSError as problem:
            with suppress(OSError):
                partial.unlink(missing_ok=True)
            actual = f"could not be written ({problem.strerror})"
            raise StorageError(path, actual, action="free some space") from problem
    text = read_bounded(path, 1 << 10, RunError).decode(errors="replace").strip()
    try:
        key = bytes.fromhex(text)
    except ValueError:
        key = b""
    if len(key) != BYTES:
        raise RunError(path, "is no key of a run's noise", f"{BYTES} bytes in hex", "remove it: other noise is drawn")
    return key
