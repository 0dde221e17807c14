"""A cohort's files: what arrays' headers claim, and whether all of it is what was prepared."""

import hashlib
import json
import math
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from ecgfed.base.errors import CohortError
from ecgfed.base.safe_io import open_regular
from ecgfed.domain.cohort.clients import AGAIN
from ecgfed.domain.cohort.layout import Layout
from ecgfed.domain.cohort.split import TEST

#: The field of ``cohort.json`` that holds a digest of all its others.
DIGEST = "digest"
_CHANGED, _RESTORE = "has changed since the cohort was prepared", "put it back, or prepare the cohort again"
#: (path, device, inode, size, mtime, ctime) of files hashed in this process -> SHA-256 of their arrays. In memory only:
#: a file on the disk, in a folder from a stranger least of all, could be forged.
_HASHED: dict[tuple[str, int, int, int, int, int], str] = {}


def npy_header(stream: BinaryIO) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Return shape, whether it is in Fortran's order, and dtype that a ``.npy`` file claims; raises what numpy does."""
    version = npy.read_magic(stream)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"version {version} of numpy's format")
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # of a header that numpy can only guess at: no cohort has one
        header = (npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0)(stream)
    shape, fortran, dtype = header
    if dtype.hasobject:
        raise ValueError("Python objects, a pickle")
    if any(length < 0 for length in shape):
        raise ValueError(f"shape {shape}")
    return shape, fortran, dtype


def load_array(path: Path, layout: Layout, name: str, beats: int) -> NDArray[Any]:
    """Return one array of a cohort's folder, read-only, whose size and type are as its layout says.

    Args:
        path: the folder.
        layout: name -> dtype and shape of an example.
        name: of the array.
        beats: its length.

    Raises:
        CohortError: it is missing, damaged, or of another type or size.
    """
    dtype, tail = layout[name]
    file, expected_dtype = path / f"{name}.npy", (np.dtype(dtype), (beats, *tail))
    try:
        with open_regular(file) as stream:  # what it claims is compared before room is made for any of it
            shape, fortran, stored_dtype = npy_header(stream)
            start, size = stream.tell(), file.stat().st_size
    except FileNotFoundError:
        raise CohortError(file, "does not exist", action=AGAIN) from None
    except Exception as problem:  # numpy raises ValueError, EOFError, TokenError for a damaged file
        raise CohortError(file, f"cannot be read ({problem!s:.160})", action=AGAIN) from problem
    if (stored_dtype, shape) != expected_dtype or fortran:
        raise CohortError(file, f"holds {stored_dtype} {shape}", f"{dtype} {expected_dtype[1]}", AGAIN)
    stored_bytes = math.prod(shape) * stored_dtype.itemsize
    if size - start != stored_bytes:
        size_problem = f"cannot be read (it holds {size - start:,} bytes of numbers)"
        raise CohortError(file, size_problem, f"{stored_bytes:,}", AGAIN)
    if not beats:
        return np.empty(shape, stored_dtype)
    try:
        array = np.memmap(file, stored_dtype, "r", start, shape)
    except (OSError, ValueError) as problem:
        raise CohortError(file, f"cannot be read ({problem!s:.160})", action=AGAIN) from problem
    return array if len(tail) > 1 else np.array(array)  # beats and images stay on the disk


def _digest(file: Path, array: NDArray[Any]) -> str:
    """Return SHA-256 of an array's bytes; of a file that is what it was, from memory."""
    status = file.stat()
    key = (str(file.resolve()), status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    if key not in _HASHED:
        if len(_HASHED) > 1000:
            _HASHED.clear()
        if isinstance(array, np.memmap) and array.flags.c_contiguous:  # without keeping the file's pages in memory
            with file.open("rb") as stream:
                stream.seek(array.offset)
                _HASHED[key] = hashlib.file_digest(stream, "sha256").hexdigest()
        else:
            _HASHED[key] = hashlib.sha256(array.data if array.size else b"").hexdigest()
    return _HASHED[key]


def fingerprint_of(hashes: Mapping[str, str]) -> str:
    """Return a cohort's fingerprint: SHA-256 over the hashes of its arrays, in order of their names."""
    return hashlib.sha256("".join(hashes[name] for name in sorted(hashes)).encode()).hexdigest()


def document_digest(meta: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a ``cohort.json``, its ``digest`` left out: of its values, however they are written."""
    rest = {name: value for name, value in meta.items() if name != DIGEST}
    plain = json.loads(json.dumps(rest))  # as it will be read: lists for tuples, texts for keys
    return hashlib.sha256(json.dumps(plain, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def check_document(document: Path, meta: Mapping[str, Any]) -> None:
    """Refuse a ``cohort.json`` that was changed since it was written; versions 0.1 and 0.2 wrote no digest.

    Raises:
        CohortError: leads, filter, rate, classes, clients or whatever it says is no longer what was prepared.
    """
    if DIGEST in meta and meta[DIGEST] != document_digest(meta):
        raise CohortError(document, f"{_CHANGED} (its digest differs)", "the document as it was written", _RESTORE)


def check_hashes(path: Path, document: Path, meta: dict[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Refuse a cohort whose arrays are not those that it was prepared with; raises CohortError.

    Args:
        path: the cohort's folder.
        document: its ``cohort.json``, for the error.
        meta: what ``cohort.json`` says: ``sha256`` of each array, and ``fingerprint`` over all.
        arrays: all of them.
    """
    stated = meta.get("sha256", {})
    digests = {name: _digest(path / f"{name}.npy", array) for name, array in arrays.items()}
    for name, digest in digests.items():
        if isinstance(stated, dict) and stated.get(name, digest) != digest:
            file = path / f"{name}.npy"
            raise CohortError(file, f"{_CHANGED} (SHA-256 differs)", "the array as it was prepared", _RESTORE)
    if fingerprint_of(digests) != meta["fingerprint"]:
        problem, action = "its fingerprint is not that of its arrays", "put them back, or prepare the cohort again"
        raise CohortError(document, problem, "the arrays as they were prepared", action)


def check_drawn(path: Path, arrays: dict[str, NDArray[Any]], clients: int) -> None:
    """Refuse test rows that are not ordered by client and row, or are no rows of the common pool."""
    client, row, pool = arrays["test_client"], arrays["test_row"], int((arrays["client"] < 0).sum())
    order = np.diff(client.astype(np.int64) * max(1, pool) + row)  # the pool's rows come first, so row < pool
    inside = not len(row) or (row.min() >= 0 and row.max() < pool and client.min() >= 0 and client.max() < clients)
    if not inside or (order <= 0).any():
        raise CohortError(path / "test_row.npy", "names no rows of the test pool", action=AGAIN)
    if (arrays["split"][:pool] != TEST).any():
        raise CohortError(path / "split.npy", "has the test pool in another split", action=AGAIN)
