"""Writing WFDB annotation files, which ``rdann``, ``bxb`` and the wfdb package read."""

import contextlib
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ecgfed.errors import StorageError


def annotation_bytes(
    samples: NDArray[np.int64],
    symbols: Sequence[str],
    fs_hz: float,
    target: Path,
    notes: Sequence[str] | None = None,
) -> bytes:
    """Return the contents of a WFDB annotation file.

    Args:
        samples: (marks,) int64 increasing sample numbers.
        symbols: (marks,) WFDB symbols.
        fs_hz: sampling frequency in Hz, written into the file.
        target: where it will be written, for the suffix and for errors.
        notes: (marks,) auxiliary texts of at most 255 bytes, or None.

    Raises:
        StorageError: no room for the temporary file that wfdb writes.
    """
    import wfdb

    suffix = target.suffix.removeprefix(".")
    try:
        with tempfile.TemporaryDirectory() as folder:
            written = Path(folder, "record")  # wfdb takes plain names only, and writes files only
            wfdb.wrann(
                written.name, suffix, samples, list(symbols), aux_note=None if notes is None else list(notes), fs=fs_hz,
                write_dir=folder,
            )  # fmt: skip
            data = written.with_suffix(f".{suffix}").read_bytes()
            with contextlib.suppress(Exception):  # a full disk cuts wfdb's file short without a word
                if np.array_equal(wfdb.rdann(str(written), suffix).sample, samples):
                    return data
    except OSError as problem:
        raise StorageError(target, f"could not be written ({problem})", action="free space in TMPDIR") from None
    raise StorageError(target, "could not be written (a temporary file was cut short)", action="free space in TMPDIR")
